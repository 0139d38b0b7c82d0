"""``sherd solve``: fragments put back together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: sherd solve fragments --grid 7x10 --out solved --animate"
_KNOWN = "May be repeated."


def solve(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder or zip file of fragments.")
    ],
    grid: Annotated[
        str | None,
        typer.Option(help="Rows x columns. [default: what puzzle.json says, else it is found]"),
    ] = None,
    gap: Annotated[
        int | None,
        typer.Option(
            help="Pixels missing between neighbours. "
            "[default: what puzzle.json says, else it is estimated]"
        ),
    ] = None,
    missing: Annotated[
        int | None,
        typer.Option(help="Most pieces that are lost, where the grid is unknown. [default: 10 %]"),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(help=f"PIECE=ROW,COLUMN: where a piece belongs, from 0. {_KNOWN}"),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(help=f"LEFT:RIGHT or UPPER/LOWER: two pieces that are neighbours. {_KNOWN}"),
    ] = None,
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            help="PIECE=ROW,COLUMN, LEFT:RIGHT or UPPER/LOWER: not there, not so beside each "
            f"other. PIECE,PIECE: no neighbours at all. {_KNOWN}"
        ),
    ] = None,
    corner: Annotated[
        list[str] | None,
        typer.Option(help=f"PIECE or PIECE=top-left: a piece in a corner. {_KNOWN}"),
    ] = None,
    rim: Annotated[
        list[str] | None,
        typer.Option(help=f"PIECE=top, right, bottom or left: a piece at the rim. {_KNOWN}"),
    ] = None,
    start: Annotated[
        Path | None, typer.Option(help="result.json to go on from, instead of from nothing.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="See: sherd systems. [default: the best one]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write. [default: FOLDER-solved]")
    ] = None,
    time: Annotated[float | None, typer.Option(help="Search for so many seconds at most.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same answer (without --time).")] = 0,
    animate: Annotated[bool, typer.Option("--animate", help="Also write reassembly.gif.")] = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Also write restored.png, with the gaps filled.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Also write report.html, all in one file.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier result.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print result.json.")] = False,
) -> None:
    """Reassemble fragments: writes assembled.png, result.json and layout.csv."""
    from .. import fragments
    from ..data.atomic import new_folder
    from ..data.folder import read_fragments
    from ..fragments.save import RESULT_FOLDER, scores_of, write_result
    from ..solvers import DEFAULT, MaxRuntime, make_solver
    from .knowledge import check_forbidden, parse_knowledge
    from .parse import check_gap, check_missing, parse_grid, parse_seed
    from .results import read_board
    from .show import print_json, scores_line, watch

    parse_seed(seed)
    stop = None if time is None else MaxRuntime(time)
    system = DEFAULT if system is None else system
    make_solver(system)  # an unknown name is an error now, not after reading
    puzzle, notes = read_fragments(
        folder,
        grid=None if grid is None else parse_grid(grid),
        gap=None if gap is None else check_gap(gap),
    )
    known = parse_knowledge(
        puzzle.names or (),
        pin=pin or (),
        beside=beside or (),
        forbid=forbid or (),
        corner=corner or (),
        rim=rim or (),
    )
    check_forbidden(known, puzzle.grid)
    if restore:
        from ..perception.restore import ready

        ready()
    where = _beside(folder) if out is None else out
    with new_folder(where, RESULT_FOLDER, force=force) as part:
        callbacks, display = watch()
        with display:
            result = fragments.solve(
                puzzle,
                knowledge=known,
                start=None if start is None else read_board(start, puzzle),
                missing=None if missing is None else check_missing(missing),
                system=system,
                seed=seed,
                callbacks=callbacks,
                stop=stop,
            )
        result = replace(result, notes=(*notes, *result.notes))
        entries = write_result(part, result, animate=animate, restore=restore, report=report)
    if as_json:
        print_json(entries)
        return
    rows, cols = result.board.shape
    typer.echo(
        f"{where}: {puzzle.n} pieces, {rows}x{cols}, by {result.system} "
        f"in {result.timings['total']:.2f} s"
    )
    for note in result.notes:
        typer.echo(note)
    scores = scores_of(result)
    if scores is not None:
        typer.echo(scores_line(scores))


def _beside(folder: Path) -> Path:
    """Where the result of ``folder`` goes if nobody says: ``FOLDER-solved``."""
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return named.with_name(f"{named.stem if named.is_file() else named.name}-solved")
