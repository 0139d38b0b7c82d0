"""``sherd bench``: systems on the paper's protocols."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import SherdError

if TYPE_CHECKING:
    from ..bench.records import Log, Record
    from ..bench.worker import Task
    from ..data.sets import Selection

EXAMPLE = (
    "Example: sherd bench mit --grid 7x10 --gap 2,4 --systems greedy,ga\n\n"
    "Example: sherd bench art5 --split val --limit 20\n\n"
    "Example: sherd bench folder my-photos --pieces 28 --gap 0 --json\n\n"
    "Example: sherd bench paper --quick   (all tables of the paper; see its --help)"
)


def bench(
    protocol: Annotated[
        str,
        typer.Argument(metavar="PROTOCOL", help="mit, art5, jpleg5, jpleg3 or folder."),
    ],
    source: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Folder or tar of images, for 'folder'."),
    ] = None,
    systems: Annotated[
        str | None, typer.Option(help="Names, by commas. [default: the best one]")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Where the data lies. [default: $SHERD_DATA]")
    ] = None,
    sets: Annotated[
        str | None,
        typer.Option(help="mit: of mit20, mcgill20, bgu20, bgu_large. [default: the first three]"),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="art5, jpleg: train, val or test. [default: test]")
    ] = None,
    grid: Annotated[
        str | None, typer.Option(help="mit, folder: grids, by commas. [default: 7x10,10x15]")
    ] = None,
    gap: Annotated[
        str | None,
        typer.Option(
            help="mit, folder: gaps in pixels, by commas. [default: 2,4; 0 with --pieces]"
        ),
    ] = None,
    erode: Annotated[
        str | None,
        typer.Option(help="mit, folder: the gap is 'between' pieces or off each 'side' of one."),
    ] = None,
    pieces: Annotated[
        int | None,
        typer.Option(
            help="mit, folder: as many pieces of so many pixels as fit, image not resized."
        ),
    ] = None,
    fixed_centre: Annotated[
        bool,
        typer.Option("--fixed-centre", help="art5, jpleg: the centre is given; Absolute without."),
    ] = False,
    limit: Annotated[
        int | None, typer.Option(help="First so many puzzles of each set and kind.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the shuffle, the jitter and the systems.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Puzzles at a time, a process each. [default: cores]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Log to go on with. [default: out/bench/PROTOCOL.jsonl]")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do not reuse what the log holds.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Reuse lines of other versions of a system, too.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one line per cell of the table.")
    ] = False,
) -> None:
    """Run systems on a protocol and print the paper's table, its figures under ours.

    Every solved puzzle is a line of the log. An interrupted run goes on where it was when the
    same command is given again.
    """
    from ..bench.cells import cells
    from ..bench.names import split_names
    from ..bench.protocols import protocol_items
    from ..bench.records import Log
    from ..bench.run import cores, make_tasks
    from ..solvers import DEFAULT
    from .parse import parse_seed
    from .show import print_json

    _check_options(protocol, sets, split, grid, gap, erode, pieces, fixed_centre)
    selection = _selection(sets, split, grid, gap, erode, pieces, limit)
    items = protocol_items(protocol, selection, data=data, source=source)
    tasks = make_tasks(
        items,
        (DEFAULT,) if systems is None else split_names(systems, "systems"),
        seed=parse_seed(seed),
        fixed_centre=fixed_centre,
    )
    log = Log(Path("out", "bench", f"{protocol}.jsonl") if out is None else out)
    made = cells(_run(tasks, log, cores() if jobs is None else jobs, fresh, keep))
    if as_json:
        for cell in made:
            print_json(cell.asdict())
        return
    from rich.console import Console

    from ..bench.table import tables

    console = Console()
    if not console.is_terminal:
        console = Console(width=100)
    for table in tables(made):
        console.print(table)
    console.print(f"{len(tasks)} results in {log.path}", highlight=False)


def _run(tasks: list[Task], log: Log, jobs: int, fresh: bool, keep: bool) -> list[Record]:
    """Run the tasks behind a progress bar on stderr."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from ..bench.run import run_tasks
    from .show import stderr

    console = stderr()
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        line = bar.add_task("puzzles", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(line, completed=done, total=total)

        return run_tasks(tasks, log, jobs=jobs, fresh=fresh, keep=keep, progress=progress)


def _check_options(
    protocol: str,
    sets: str | None,
    split: str | None,
    grid: str | None,
    gap: str | None,
    erode: str | None,
    pieces: int | None,
    fixed_centre: bool,
) -> None:
    """An option that the protocol would not heed is an error, not a surprise."""
    from ..bench.protocols import CENTRED

    if protocol in CENTRED:
        given = {"--sets": sets, "--grid": grid, "--gap": gap, "--erode": erode, "--pieces": pieces}
        why = "its geometry is fixed"
    else:
        given = {"--split": split, "--fixed-centre": fixed_centre or None}
        if protocol == "folder":
            given["--sets"] = sets
        why = "it has none"
    for option, value in given.items():
        if value is not None:
            raise SherdError(f"{option}: {protocol} does not take it; {why}")
    if grid is not None and pieces is not None:
        raise SherdError("--grid and --pieces: give one; with --pieces the grid is what fits")


def _selection(
    sets: str | None,
    split: str | None,
    grid: str | None,
    gap: str | None,
    erode: str | None,
    pieces: int | None,
    limit: int | None,
) -> Selection:
    from ..bench.names import split_names
    from ..data.sets import GRIDS, Cutting, Selection
    from .parse import parse_erode, parse_gaps, parse_grids, parse_split

    usual = (2, 4) if pieces is None else (0,)
    cutting = Cutting(
        grids=GRIDS if grid is None else parse_grids(grid),
        gaps=usual if gap is None else parse_gaps(gap),
        erode="between" if erode is None else parse_erode(erode),
        pieces=pieces,
    )
    return Selection(
        sets=() if sets is None else split_names(sets, "sets"),
        split="test" if split is None else parse_split(split),
        limit=limit,
        cutting=cutting,
    )
