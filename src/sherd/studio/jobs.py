"""The queue: jobs wait their turn, workers do them, watchers hear of it, the disk keeps it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from ..data.zips import Limits
from ..errors import SherdError
from .job import BUSY, Alternative, Job
from .live import Hub, Run
from .press import Press
from .sample import SAMPLES
from .store import Store, write_json
from .table import EMPTY, Table, before_moves
from .uploads import LIMITS, Refused
from .workers import Ended, Worker

SAVE_SECONDS = 1.0
"""How often the best board of a run is written: what a crash of the machine can cost."""
JANITOR_SECONDS = 300.0
TAKE_IN_SECONDS = 180.0

log = logging.getLogger("sherd.studio")


class Jobs:
    """All that the server does with jobs. Everything runs on one event loop; work does not."""

    def __init__(
        self, store: Store, *, system: str, workers: int = 1, limits: Limits | None = None
    ) -> None:
        self.store, self.system = store, system
        self.limits = limits or LIMITS
        self.hub = Hub()
        self._looked_at: set[str] = set()
        """Jobs whose files are being taken in."""
        self._waiting: deque[Job] = deque()
        self._runs: dict[str, tuple[Run, Worker]] = {}
        self._work = asyncio.Condition()
        self._desk = Worker("desk")
        self.press = Press(store, self._desk)
        self._benches = [Worker("bench") for _ in range(workers)]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Take up what waited when the last studio ended, and begin."""
        left = [j for j in self.store.jobs.values() if j.state == "waiting"]
        self._waiting.extend(sorted(left, key=lambda j: j.changed))
        self._tasks = [asyncio.create_task(self._serve(b)) for b in self._benches]
        self._tasks.append(asyncio.create_task(self._janitor()))

    async def close(self) -> None:
        """End all work at once; what runs is found interrupted next time."""
        for task in self._tasks:
            task.cancel()
        self.press.kill()
        for worker in (self._desk, *self._benches):
            worker.kill()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.store.close()

    # ------------------------------------------------------------ what the page sees

    def view(self, job: Job) -> dict[str, Any]:
        """A job as the page shows it."""
        run = self._runs.get(job.id)
        return {
            **job.view(),
            "ahead": self.ahead(job),
            "run": None if run is None else run[0].entries(),
            "until": self.store.until(job),
        }

    def ahead(self, job: Job) -> int | None:
        """How many jobs come before this one: those that wait longer and those being done."""
        if job in self._waiting:
            return self._waiting.index(job) + len(self._runs)
        return None

    def film(self, job: Job) -> list[Any]:
        """The boards of the run in progress, or of the last one."""
        if job.id in self._runs:
            return list(self._runs[job.id][0].film)
        try:
            film = json.loads((self.store.path(job) / "film.json").read_text("utf-8"))["film"]
        except (OSError, ValueError, KeyError):
            return []
        return film if isinstance(film, list) else []

    def _tell(self, job: Job) -> None:
        self.hub.tell(job.id, {"type": "job", "job": self.view(job)})

    def _tell_waiting(self) -> None:
        for job in self._waiting:
            self.hub.tell(job.id, {"type": "ahead", "ahead": self.ahead(job)})

    def _save(self, job: Job) -> None:
        self.store.save(job)
        self._tell(job)

    # ------------------------------------------------------------ taking in

    async def take_in(self, job: Job) -> None:
        """Look at uploaded files; a job whose files are refused is gone."""
        self.check_open(job)
        self._looked_at.add(job.id)
        try:
            await self._take_in(job)
        finally:
            self._looked_at.discard(job.id)

    def check_open(self, job: Job) -> None:
        """Raise unless the job still takes files."""
        if job.id not in self.store.jobs:
            raise Refused("This was deleted meanwhile.", 404)
        if job.id in self._looked_at:
            raise Refused("The files of this work are being looked at already.", 409)
        if job.state != "uploading":
            raise Refused("The files of this work are complete already.", 409)

    async def _take_in(self, job: Job) -> None:
        folder, sheet = self.store.fragments(job), self.store.path(job) / "sheet.webp"
        request = {"folder": str(folder), "sheet": str(sheet), "limits": asdict(self.limits)}
        try:
            found = await self._desk.ask({"task": "take in", **request}, seconds=TAKE_IN_SECONDS)
        except Ended as e:
            self.store.delete(job)
            raise Refused("These files cannot be read.") from e
        except SherdError as e:
            self.store.delete(job)
            raise Refused(str(e)) from e
        if job.id not in self.store.jobs:
            raise Refused("This was deleted meanwhile.", 404)
        job.names = tuple(found["names"])
        job.size, job.sheet = tuple(found["size"]), tuple(found["sheet"])
        job.gap, job.blocked = found["gap"], tuple((r, c) for r, c in found["blocked"])
        job.notes, job.known = tuple(found["notes"]), found["known"]
        pins = {p: (r, c) for p, r, c in found["pins"]}
        if found["grid"] is not None:
            job.table = empty_table((found["grid"][0], found["grid"][1]), pins, found["not_in"])
        job.state = "ready"
        self._save(job)

    async def sample(self, name: str) -> Job:
        """A job on a sample, ready."""
        if name not in SAMPLES:
            raise Refused(f"There is no sample called {name!r}.", 404)
        job = self.store.new(SAMPLES[name].title)
        request = {"task": "sample", "folder": str(self.store.fragments(job)), "name": name}
        try:
            await self._desk.ask(request, seconds=TAKE_IN_SECONDS)
        except (Ended, SherdError) as e:
            self.store.delete(job)
            raise Refused("The sample could not be made.", 500) from e
        await self.take_in(job)
        return job

    # ------------------------------------------------------------ the queue

    async def submit(self, job: Job, *, go_on: bool) -> None:
        """Put a job into the queue."""
        self.check_free(job)
        job.state, job.message, job.go_on = "waiting", "", go_on
        async with self._work:
            self._waiting.append(job)
            self._work.notify()
        self._save(job)

    def stop(self, job: Job) -> None:
        """End a job's waiting or running at once."""
        if job in self._waiting:
            self._waiting.remove(job)
            job.state = "ready" if job.runs == 0 else "stopped"
            self._save(job)
            self._tell_waiting()
        elif job.id in self._runs:
            self._runs[job.id][1].kill()

    def delete(self, job: Job) -> None:
        """Forget a job, whatever it does."""
        self.stop(job)
        self.store.delete(job)
        self.hub.tell(job.id, {"type": "gone"})

    def check_free(self, job: Job) -> None:
        """Raise unless the job can be changed now."""
        if job.state in BUSY:
            raise Refused("This is being put together; stop it first.", 409)
        if job.state == "uploading":
            raise Refused("Its files are still being uploaded.", 409)

    async def _serve(self, worker: Worker) -> None:
        """One worker's day: load what solving needs, then one job after the other."""
        cold = True
        while True:
            if cold:
                await self._warm(worker)
                cold = False
            async with self._work:
                await self._work.wait_for(lambda: bool(self._waiting))
                job = self._waiting.popleft()
                self._runs[job.id] = (Run(), worker)
            try:
                await self._run(job, worker)
            except asyncio.CancelledError:
                raise
            except Exception:  # a full disk must not end the queue
                log.exception("job %s", job.id)
                job.state, job.message = "failed", "The studio could not write its files."
                job.version += 1
            finally:
                self._runs.pop(job.id, None)
                cold = worker.killed
            self._tell(job)
            self._tell_waiting()

    async def _warm(self, worker: Worker) -> None:
        try:
            await worker.ask({"task": "warm", "system": self.system})
        except (Ended, SherdError) as e:
            log.warning("a worker did not start: %s", e)
            await asyncio.sleep(1.0)

    async def _run(self, job: Job, worker: Worker) -> None:
        run = self._runs[job.id][0]
        job.state, job.live, job.notes = "running", None, ()
        job.runs += 1
        self._save(job)
        self._tell_waiting()
        table = job.table.entries()
        grid = job.grid
        if grid is None and (job.go_on or table["pins"] or table["forbidden"]):
            grid = job.table.shape  # these are cells of the board as it is
        gap = job.gap
        if gap is None and job.go_on:
            gap = job.found_gap
        request = {
            "task": "solve",
            "folder": str(self.store.fragments(job)),
            "names": job.names,
            "grid": grid,
            "gap": gap,
            "blocked": job.blocked,
            "known": job.known,
            "table": table,
            "seen": before_moves(job.table, job.found.get("board")) if job.go_on else None,
            "system": self.system,
        }
        try:
            found = await worker.ask(request, lambda event: self._hear(job, run, event))
        except Ended:
            job.keep_live()
            if worker.killed:
                job.state, job.message = "stopped", ""
            else:
                job.state = "failed"
                job.message = "The solver ended unexpectedly; perhaps there was too little memory."
        except SherdError as e:
            job.keep_live()
            job.state, job.message = "failed", str(e)
        else:
            job.live = None
            job.lay(
                Table.of({**job.table.entries(), **{k: found[k] for k in ("board", "confidence")}})
            )
            job.found_gap, job.notes = found["gap"], tuple(found["notes"])
            job.found = {k: found[k] for k in ("board", "score", "system", "grids")}
            job.alternatives = [
                Alternative(tuple(tuple(r) for r in a["board"]), a["odds"], a["score"])
                for a in found["alternatives"]
            ]
            job.state, job.message = "done", ""
        job.seconds = round(run.seconds, 2)
        if job.id in self.store.jobs:
            write_json(self.store.path(job) / "film.json", {"film": run.film})
            self.store.save(job)

    def _hear(self, job: Job, run: Run, event: dict[str, Any]) -> None:
        """Pass on what a worker says of its job."""
        kind = event["event"]
        if kind == "stage":
            run.stage = event["stage"]
        elif kind in ("round", "board"):
            run.round = event["round"]
        elif kind == "note":
            job.notes = (*job.notes, event["note"])
        message = {"type": kind, **run.entries()}
        if kind == "note":
            message["notes"] = job.notes
        if kind == "board":
            job.live = tuple(tuple(row) for row in event["board"])
            run.shot(job.live)
            message["board"] = job.live
            if run.seconds - run.saved > SAVE_SECONDS:
                run.saved = run.seconds
                self.store.save(job)
        self.hub.tell(job.id, message)

    async def _janitor(self) -> None:
        while True:
            await asyncio.sleep(JANITOR_SECONDS)
            for job in self.store.expire():
                self.hub.tell(job.id, {"type": "gone"})
            self.press.rest()

    # ------------------------------------------------------------ changes by hand

    def lay(self, job: Job, table: Table) -> None:
        """Another table, which undo takes back."""
        self.check_free(job)
        job.lay(table)
        self._save(job)

    def step(self, job: Job, *, back: bool) -> None:
        """Undo or redo."""
        self.check_free(job)
        if job.undo() if back else job.redo():
            self._save(job)

    def know(self, job: Job, changes: dict[str, Any]) -> None:
        """Another title, grid or gap."""
        self.check_free(job)
        if "title" in changes:
            job.title = changes["title"]
        if "gap" in changes:
            job.gap = changes["gap"]
        if "grid" in changes and changes["grid"] != job.grid:
            grid = changes["grid"]
            if grid is None and not any(p != EMPTY for row in job.table.board or () for p in row):
                job.lay(Table())
            elif grid is None or grid == job.table.shape:
                job.lay(replace(job.table, grid=grid))
            else:
                job.lay(empty_table(grid, {}))
                job.alternatives = []
        self._save(job)


def empty_table(
    grid: tuple[int, int],
    pins: dict[int, tuple[int, int]],
    not_in: Iterable[tuple[int, int, int]] = (),
) -> Table:
    """An empty board of the grid, with the pinned pieces on it."""
    board = [[EMPTY] * grid[1] for _ in range(grid[0])]
    for piece, (r, c) in pins.items():
        board[r][c] = piece
    return Table(
        board=tuple(tuple(row) for row in board),
        pins=pins,
        forbidden=frozenset((p, (r, c)) for p, r, c in not_in),
        grid=grid,
    )
