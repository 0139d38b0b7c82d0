"""Run the paper's tables: ``sherd bench paper``, or without typer and rich::

python -m sherd.bench.paper_run --tables mit --systems greedy,ga --jobs 16 --log out/mit.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import SherdError
from .names import split_names
from .pace import Kind, Pace, Remaining, clock, kind_of
from .plan import TABLES, PlannedCell, Request, plan
from .records import Log, Record, key_of
from .report import RENDER, Sheet
from .run import cores, reusable, run_tasks
from .summary import Summary, save_summaries, summarise
from .worker import Task

LOG = Path("out", "bench", "paper.jsonl")
NOT_FINISHED = 3
"""Exit code of a run that its time limit ended."""


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    done: int
    total: int
    spent: float
    """Seconds since the start of this run."""
    remaining: Remaining

    def __str__(self) -> str:
        return f"{self.done} of {self.total} puzzles, {self.remaining} left"


@dataclass(frozen=True)
class Work:
    """The puzzles of some cells: what is known of them, and what is left to do."""

    cells: list[PlannedCell]
    log: Log
    held: list[Record]
    left: list[Task]
    fresh: bool = False
    """Whether what the log holds of these puzzles is forgotten when the run begins."""

    @property
    def pace(self) -> Pace:
        """What puzzles took, by all lines of the log."""
        return Pace(self.held)

    def counts(self) -> Counter[Kind]:
        """Puzzles left of each system and size."""
        return Counter(kind_of(t) for t in self.left)


class TimeIsUp(Exception):
    """The time limit of a run has passed; what was solved is in the log."""

    def __init__(self, left: str, *, fresh: bool) -> None:
        again = "without --fresh" if fresh else "again"
        super().__init__(f"not finished: {left}; give the same command {again}")


def prepare(cells: list[PlannedCell], log: Log, *, fresh: bool = False, keep: bool = False) -> Work:
    """See what the log has of the cells; nothing is written."""
    tasks = {key_of(t.head()): t for cell in cells for t in cell.tasks}
    held = log.read()
    done = {} if fresh else reusable(set(tasks), held, keep=keep)
    return Work(cells, log, held, [t for k, t in tasks.items() if k not in done], fresh)


def run(
    work: Work,
    *,
    jobs: int,
    keep: bool = False,
    minutes: float | None = None,
    show: Callable[[Progress], None] = lambda progress: None,
) -> dict[str, list[Summary]]:
    """Solve what is left and summarise all cells, by table.

    First one puzzle of every system and size that was never timed, then the longest first.
    """
    pace, left, begin = work.pace, work.counts(), time.monotonic()
    keys = {key_of(t.head()) for cell in work.cells for t in cell.tasks}
    total = len(keys)
    if work.fresh:
        work.log.replace([r for r in work.held if key_of(r) not in keys])

    def tell() -> None:
        count = left.total()
        spent = time.monotonic() - begin
        show(Progress(total - count, total, spent, pace.remaining(left, jobs)))
        if minutes is not None and count and spent > 60 * minutes:
            left_over = f"{count} of {total} puzzles are left after {minutes:g} minutes"
            raise TimeIsUp(left_over, fresh=work.fresh)

    def heard(record: Record) -> None:
        rows, cols = map(int, record["grid"].split("x"))
        pace.add(record)
        left[record["system"], rows * cols, record["pieces"]] -= 1
        tell()

    tell()
    probes = pace.probes(work.left)
    run_tasks(probes, work.log, jobs=jobs, keep=keep, heard=heard)
    probed = {id(t) for t in probes}
    rest = pace.ordered([t for t in work.left if id(t) not in probed])
    run_tasks(rest, work.log, jobs=jobs, keep=keep, heard=heard)
    return summaries(work.cells, work.log.read(), keep=keep)


def summaries(
    cells: Sequence[PlannedCell], held: list[Record], *, keep: bool = False
) -> dict[str, list[Summary]]:
    """The summaries of all cells, by table; raises if a puzzle is not in ``held``."""
    made: dict[str, list[Summary]] = {}
    wanted = {key_of(t.head()) for cell in cells for t in cell.tasks}
    done = reusable(wanted, held, keep=keep)
    for cell in cells:
        keys = [key_of(t.head()) for t in cell.tasks]
        if any(k not in done for k in keys):
            raise SherdError(f"{cell.system} on {cell.place.label()}: is not finished; run it on")
        made.setdefault(cell.table, []).append(summarise(cell, [done[k] for k in keys]))
    return made


def tables_text(made: dict[str, list[Summary]]) -> str:
    """The tables of a run as Markdown."""
    texts = []
    for name, lines in made.items():
        art = next((s["protocol"] for s in lines if s["protocol"] != "mit"), "art5")
        sheet = Sheet(TABLES[name], art, lines, partial=True)
        n = sorted({(s["n"], len(s["seeds"])) for s in sheet.all()})
        of = ", ".join(f"{a} puzzles × {b} seed{'s'[: b > 1]}" for a, b in n)
        texts.append(f"## {name}{f' ({art})' if art in str(lines[0]) else ''}: {of}\n\n"
                     f"{RENDER[name](sheet)}")  # fmt: skip
    return "\n\n".join(texts)


def what_is_left(work: Work, jobs: int) -> str:
    """Puzzles left and their time, by table and system; a puzzle of two tables counts once."""
    pace, left, lines = work.pace, {key_of(t.head()) for t in work.left}, []
    whole: Counter[Kind] = Counter()
    for cell_name in dict.fromkeys((c.table, c.system) for c in work.cells):
        kinds: Counter[Kind] = Counter()
        for cell in work.cells:
            if (cell.table, cell.system) == cell_name:
                for task in cell.tasks:
                    if (key := key_of(task.head())) in left:
                        left.discard(key)
                        kinds[kind_of(task)] += 1
        whole += kinds
        if kinds:
            name = " ".join(cell_name).ljust(24)
            lines.append(f"{name} {kinds.total():6d} puzzles  {pace.remaining(kinds, jobs)}")
    total = f"{'together'.ljust(24)} {whole.total():6d} puzzles  {pace.remaining(whole, jobs)}"
    return "\n".join([*lines, f"{total}, {jobs} at a time"])


def check(jobs: int, minutes: float | None, folder: Path | None) -> None:
    """Raise now, not after hours, if these cannot be."""
    if jobs < 1:
        raise SherdError(f"jobs: {jobs}; must be at least 1")
    if minutes is not None and not minutes >= 0:
        raise SherdError(f"minutes: {minutes:g}; must not be negative")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise SherdError(f"{folder}: is a file; expected a folder to save the summaries in")


def save(made: dict[str, list[Summary]], folder: Path) -> list[Path]:
    """Write the summaries, a file per table."""
    return [save_summaries(folder, name, lines) for name, lines in made.items()]


def request_from(
    tables: str | None,
    systems: str | None,
    seeds: str,
    quick: bool,
    limit: int | None,
    art: str | None,
    cells: Sequence[str],
) -> Request:
    """A request from what was typed."""
    try:
        numbers = tuple(int(s) for s in split_names(seeds, "seeds"))
    except ValueError:
        raise SherdError(f"seeds: {seeds!r}; expected numbers such as 0,1,2") from None
    return Request(
        tables=None if tables is None else split_names(tables, "tables"),
        systems=None if systems is None else split_names(systems, "systems"),
        seeds=numbers,
        quick=quick,
        limit=limit,
        art=art,
        cells=tuple(cells),
    )


class _Lines:
    """Progress as lines on stderr, at most one in ten seconds."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._last >= 10 or progress.done == progress.total:
            self._last = now
            print(f"{clock(progress.spent)}: {progress}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """The command without typer and rich."""
    parser = argparse.ArgumentParser(prog="python -m sherd.bench.paper_run", description=__doc__)
    parser.add_argument("--tables", help=f"of {', '.join(TABLES)}, by commas")
    parser.add_argument("--systems", help="names, by commas")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--quick", action="store_true", help="5 puzzles of a cell, the first seed")
    parser.add_argument("--limit", type=int, help="first so many puzzles of a cell")
    parser.add_argument("--art", help="jpleg5 or art5")
    parser.add_argument("--cells", action="append", default=[], help="cells named like this")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=cores())
    parser.add_argument("--log", type=Path, default=LOG, help="to go on with")
    parser.add_argument("--save", type=Path, metavar="DIR", help="write summaries there")
    parser.add_argument("--keep", action="store_true", help="reuse lines of other versions")
    parser.add_argument("--fresh", action="store_true", help="do not reuse what the log holds")
    parser.add_argument("--minutes", type=float, help="stop after so long")
    parser.add_argument("--dry-run", action="store_true", help="say what is left, run nothing")
    parser.add_argument("--json", action="store_true", help="print summaries, one line per cell")
    a = parser.parse_args(argv)
    try:
        check(a.jobs, a.minutes, a.save)
        request = request_from(a.tables, a.systems, a.seeds, a.quick, a.limit, a.art, a.cells)
        work = prepare(plan(request, a.data), Log(a.log), fresh=a.fresh, keep=a.keep)
        if a.dry_run:
            print(what_is_left(work, a.jobs))
            return 0
        made = run(work, jobs=a.jobs, keep=a.keep, minutes=a.minutes, show=_Lines())
        for path in save(made, a.save) if a.save else ():
            print(path, file=sys.stderr)
    except TimeIsUp as e:
        print(e, file=sys.stderr)
        return NOT_FINISHED
    except SherdError as e:
        print(f"error: {' '.join(str(e).split())}", file=sys.stderr)
        return 2
    if a.json:
        for line in (s for lines in made.values() for s in lines):
            print(json.dumps(line))
    else:
        print(tables_text(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
