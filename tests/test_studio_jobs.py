"""The studio's jobs, with workers that are only played: files that come too late, grids, undo."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the studio needs sherd[studio]")

from starlette.requests import Request

from sherd.errors import SherdError
from sherd.studio import routes
from sherd.studio.intake import take_in
from sherd.studio.job import Alternative, Job
from sherd.studio.jobs import Jobs, empty_table
from sherd.studio.store import Store
from sherd.studio.uploads import LIMITS, Refused
from sherd.studio.workers import OnEvent, Worker
from studio_tools import noise, png, zipped

NAMES = [f"{k}.png" for k in range(6)]
TAKEN: dict[str, Any] = {
    "names": NAMES,
    "size": [24, 24],
    "sheet": [2, 3],
    "grid": None,
    "gap": None,
    "pins": [],
    "blocked": [],
    "not_in": [],
    "known": {},
    "notes": [],
}
WIDE = [[0, 1, 2], [3, 4, 5]]
TALL = [[0, 1], [2, 3], [4, 5]]
FOUND: dict[str, Any] = {
    "board": WIDE,
    "confidence": [[0.5] * 3] * 2,
    "gap": 2,
    "score": 1.0,
    "system": "evolve",
    "grids": [],
    "alternatives": [],
    "notes": [],
}


class Played:
    """Answers for all workers."""

    def __init__(self) -> None:
        self.taken = TAKEN
        self.asked: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.gate = asyncio.Event()
        """Opened when files may have been looked at."""
        self.gate.set()

    async def ask(
        self, request: dict[str, Any], on_event: OnEvent | None = None, seconds: float | None = None
    ) -> Any:
        self.asked.append(request)
        if request["task"] == "take in":
            await self.gate.wait()
            return self.taken
        if on_event is not None:
            for event in self.events:
                on_event(event)
        return FOUND


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    made = Played()

    async def ask(worker: Worker, *words: Any, **more: Any) -> Any:
        return await made.ask(*words, **more)

    monkeypatch.setattr(Worker, "ask", ask)
    return made


def studio(tmp_path: Path, act: Callable[[Jobs], Awaitable[None]]) -> None:
    """Run ``act`` on the jobs of a studio."""

    async def run() -> None:
        jobs = Jobs(Store(tmp_path), system="evolve")
        await jobs.start()
        try:
            await act(jobs)
        finally:
            await jobs.close()

    asyncio.run(run())


async def brought(jobs: Jobs) -> Job:
    """A job that is ready."""
    job = jobs.store.new("test")
    await jobs.take_in(job)
    return job


async def change(jobs: Jobs, job: Job, **changes: Any) -> None:
    await routes.change(routes.Changes(**changes), job, jobs)


async def solved(jobs: Jobs, job: Job, **go: Any) -> None:
    """Put ``job`` together."""
    await routes.solve(routes.Go(**go), job, jobs)
    while job.state != "done":
        await asyncio.sleep(0.001)


def sending(job: Job, jobs: Jobs, meanwhile: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
    """An upload of ``a.png`` in the middle of which something happens."""
    parts = iter([b"first", b"last"])

    async def receive() -> dict[str, Any]:
        part = next(parts)
        if part == b"last":
            told = await meanwhile()
            if told is not None:
                return dict(told)
        return {"type": "http.request", "body": part, "more_body": part != b"last"}

    request = Request({"type": "http", "headers": []}, receive)
    return routes.put_file(request, job, jobs, "a.png")


# ---------------------------------------------------------------------------- files


def test_files_are_looked_at_once(tmp_path: Path, played: Played) -> None:
    async def act(jobs: Jobs) -> None:
        job = jobs.store.new("test")
        (jobs.store.fragments(job) / "a.png").write_bytes(b"x")
        played.gate.clear()
        body = routes.Complete(files=1)
        first = asyncio.create_task(routes.complete(body, job, jobs))
        await asyncio.sleep(0)
        for again in (
            lambda: routes.complete(body, job, jobs),
            lambda: sending(job, jobs, nothing),
        ):
            with pytest.raises(Refused, match="being looked at") as refusal:
                await asyncio.wait_for(again(), 1)
            assert refusal.value.status == 409
        played.gate.set()
        assert (await first)["state"] == "ready"
        await jobs.submit(job, go_on=False)
        with pytest.raises(Refused, match="complete already"):
            await routes.complete(body, job, jobs)

    studio(tmp_path, act)


async def nothing() -> None: ...


def test_a_file_that_comes_too_late_is_no_fragment(tmp_path: Path, played: Played) -> None:
    async def act(jobs: Jobs) -> None:
        job = jobs.store.new("test")
        with pytest.raises(Refused, match="complete already") as refusal:
            await sending(job, jobs, lambda: jobs.take_in(job))
        assert refusal.value.status == 409
        assert list(jobs.store.fragments(job).iterdir()) == []

    studio(tmp_path, act)


def test_an_upload_to_a_deleted_job_is_refused(tmp_path: Path, played: Played) -> None:
    async def act(jobs: Jobs) -> None:
        job = jobs.store.new("test")

        async def deleted() -> None:
            jobs.delete(job)

        for late in (deleted, nothing):  # in the middle of it, and before it begins
            with pytest.raises(Refused, match="deleted meanwhile") as refusal:
                await sending(job, jobs, late)
            assert refusal.value.status == 404

    studio(tmp_path, act)


def test_a_cancelled_upload_is_refused(tmp_path: Path, played: Played) -> None:
    async def act(jobs: Jobs) -> None:
        job = jobs.store.new("test")

        async def gone() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        with pytest.raises(Refused, match="cut off") as refusal:
            await sending(job, jobs, gone)
        assert refusal.value.status == 400
        assert list(jobs.store.fragments(job).iterdir()) == []

    studio(tmp_path, act)


def test_many_small_zips_share_one_limit(tmp_path: Path) -> None:
    few = replace(LIMITS, files=10, total_bytes=100_000)
    cases = {
        "room for": {f"{k}-{j}.png": bytes(20_000) for k in range(9) for j in range(4)},
        "too many": {f"{k}-{j}.png": png(noise(8)) for k in range(9) for j in range(4)},
    }
    for why, files in cases.items():
        folder = tmp_path / why
        folder.mkdir()
        for k in range(9):
            members = {n: d for n, d in files.items() if n.startswith(f"{k}-")}
            (folder / f"{k}.zip").write_bytes(zipped(members))
        with pytest.raises(SherdError, match=why):
            take_in(folder, tmp_path / "sheet.webp", few)
        written = list(folder.glob("*.png"))
        assert len(written) <= few.files
        assert sum(p.stat().st_size for p in written) <= few.total_bytes


# ---------------------------------------------------------------------------- runs


def test_watchers_hear_the_round_of_a_board(tmp_path: Path, played: Played) -> None:
    played.events = [{"event": "board", "board": WIDE, "round": 7}]

    async def act(jobs: Jobs) -> None:
        job = await brought(jobs)
        box = jobs.hub.watch(job.id)
        await solved(jobs, job)
        heard = [box.get_nowait() for _ in range(box.qsize())]
        assert [m["round"] for m in heard if m["type"] == "board"] == [7]

    studio(tmp_path, act)


@pytest.mark.parametrize("op", ["pin", "forbid"])
def test_what_is_known_of_cells_keeps_the_grid(tmp_path: Path, played: Played, op: str) -> None:
    async def act(jobs: Jobs) -> None:
        job = await brought(jobs)
        await solved(jobs, job)
        await routes.edit(routes.Edit(op=op, piece=1, cell=(0, 1)), job, jobs)  # type: ignore[arg-type]
        await solved(jobs, job)  # afresh
        runs = [r for r in played.asked if r["task"] == "solve"]
        assert [r["grid"] for r in runs] == [None, (2, 3)]

    studio(tmp_path, act)


# ---------------------------------------------------------------------------- grids


def test_undo_takes_back_what_was_said_of_the_grid(tmp_path: Path, played: Played) -> None:
    async def act(jobs: Jobs) -> None:
        job = await brought(jobs)
        await change(jobs, job, grid=(2, 4))
        assert (job.grid, job.table.shape) == ((2, 4), (2, 4))
        jobs.step(job, back=True)
        assert (job.grid, job.table.board) == (None, None), "nothing is known of a fresh job"
        jobs.step(job, back=False)
        assert (job.grid, job.table.shape) == ((2, 4), (2, 4))
        jobs.step(job, back=True)
        await solved(jobs, job)
        for grid in ((3, 2), (2, 3)):  # another, and the one that was found
            await change(jobs, job, grid=grid)
            assert (job.grid, job.table.shape) == (grid, grid)
            jobs.step(job, back=True)
            assert (job.grid, job.table.shape) == (None, (2, 3))
        await change(jobs, job, grid=(2, 3))
        await change(jobs, job, grid=None)
        assert (job.grid, job.table.shape) == (None, (2, 3)), "the board stays"
        jobs.step(job, back=True)
        assert job.grid == (2, 3)
        assert Job.of(json.loads(json.dumps(job.entries()))).entries() == job.entries()

    studio(tmp_path, act)


def test_jobs_of_earlier_studios_keep_their_grid(tmp_path: Path) -> None:
    store = Store(tmp_path)
    job = store.new("old")
    job.lay(empty_table((3, 2), {}))
    job.lay(empty_table((2, 3), {}))
    entries = json.loads(json.dumps(job.entries()))
    for table in (entries["table"], *entries["past"]):
        del table["grid"]
    old = Job.of(entries)
    assert old.grid == (2, 3)
    old.undo()
    assert old.grid == old.table.shape == (3, 2)
    store.close()


def test_a_reading_of_another_grid_is_refused(tmp_path: Path, played: Played) -> None:
    async def act(jobs: Jobs) -> None:
        job = await brought(jobs)
        await solved(jobs, job)
        boards = (TALL, WIDE[::-1])
        job.alternatives = [Alternative(tuple(map(tuple, b)), 0.5, 1.0) for b in boards]
        before = job.table
        with pytest.raises(SherdError, match="other rows and columns"):
            await routes.edit(routes.Edit(op="choose", alternative=0), job, jobs)
        assert job.table is before
        await routes.edit(routes.Edit(op="choose", alternative=1), job, jobs)
        assert job.table.board == ((3, 4, 5), (0, 1, 2))

    studio(tmp_path, act)


def test_cells_that_stay_empty_count(tmp_path: Path, played: Played) -> None:
    played.taken = {**TAKEN, "grid": [2, 4], "blocked": [[0, 0], [1, 3]]}

    async def act(jobs: Jobs) -> None:
        job = await brought(jobs)
        refusals = {
            (2, 3): "Row 2, column 4 must stay empty, but 2 x 3 has no such cell.",
            (1, 9): "Row 2, column 4 must stay empty, but 1 x 9 has no such cell.",
            None: "Some cells must stay empty; that needs known rows and columns.",
        }
        for grid, why in refusals.items():
            with pytest.raises(Refused) as refusal:
                await change(jobs, job, grid=grid)
            assert str(refusal.value) == why
        job.blocked = ((0, 0),)
        with pytest.raises(Refused, match="2 x 3 has room for 5 fragments, but there are 6"):
            await change(jobs, job, grid=(2, 3))
        await change(jobs, job, grid=(2, 4), gap=3)
        await change(jobs, job, grid=(3, 3))
        assert (job.grid, job.gap) == ((3, 3), 3)

    studio(tmp_path, act)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "project" / "trash" / "precious.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    with pytest.raises(SherdError, match=r"is not empty and no studio's own"):
        Store(tmp_path / "project")
    assert mine.read_text() == "years of work"
    assert [p.name for p in (tmp_path / "project").iterdir()] == ["trash"]
    Store(tmp_path / "new").close()
    (tmp_path / "new" / "notes.txt").write_text("mine")
    Store(tmp_path / "new").close()  # its own is taken up again, whatever else lies there
