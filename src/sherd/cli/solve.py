"""``sherd solve``: a folder of fragments put back together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SherdError

if TYPE_CHECKING:
    from ..puzzle import Puzzle, Scores
    from ..solvers import Result

EXAMPLE = "Example: sherd solve fragments --grid 7x10 --out solved --animate"


def solve(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of fragments.")],
    grid: Annotated[
        str | None, typer.Option(help="Rows x columns. [default: what puzzle.json says]")
    ] = None,
    gap: Annotated[
        int | None,
        typer.Option(help="Pixels missing between neighbours. [default: what puzzle.json says]"),
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="See: sherd systems. [default: the best one]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write. [default: FOLDER-solved]")
    ] = None,
    time: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same answer (without --time).")] = 0,
    animate: Annotated[bool, typer.Option("--animate", help="Also write reassembly.gif.")] = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Also write restored.png, with the gaps filled.")
    ] = False,
    pin: Annotated[
        list[str] | None,
        typer.Option(help="PIECE=ROW,COLUMN: where a piece belongs, from 0. May be repeated."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier result.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print result.json.")] = False,
) -> None:
    """Reassemble a folder of fragments: writes assembled.png and result.json."""
    from ..data.atomic import new_folder
    from ..data.folder import read_puzzle
    from ..fragments.save import RESULT_JSON
    from ..solvers import DEFAULT, MaxRuntime, make_solver
    from .parse import check_gap, parse_grid, parse_pins, parse_seed
    from .show import print_json, scores_line, watch

    parse_seed(seed)
    stop = None if time is None else MaxRuntime(time)
    solver = make_solver(DEFAULT if system is None else system)
    puzzle = read_puzzle(
        folder,
        grid=None if grid is None else parse_grid(grid),
        gap=None if gap is None else check_gap(gap),
    )
    pins = parse_pins(pin or [], puzzle.names or ())
    puzzle = replace(puzzle, pins={**puzzle.pins, **pins})
    _check_fits(puzzle)
    if restore:
        from ..perception.restore import ready

        ready()
        if puzzle.gap is None:
            typer.echo("note: the gap is unknown, restored.png fills none; give --gap", err=True)
    where = _beside(folder) if out is None else out
    with new_folder(where, marker=RESULT_JSON, force=force) as part:
        callbacks, display = watch()
        with display:
            result = solver.solve(puzzle, stop=stop, seed=seed, callbacks=callbacks)
        scores = _scores(puzzle, result)
        entries = write_result(part, puzzle, result, scores, animate=animate, restore=restore)
    if as_json:
        print_json(entries)
        return
    rows, cols = result.board.shape
    typer.echo(
        f"{where}: {puzzle.n} pieces, {rows}x{cols}, by {result.system} "
        f"in {result.timings['total']:.2f} s"
    )
    if entries["unplaced"]:
        typer.echo(f"not placed: {', '.join(entries['unplaced'])}")
    if scores is not None:
        typer.echo(scores_line(scores))


def write_result(
    folder: Path,
    puzzle: Puzzle,
    result: Result,
    scores: Scores | None,
    *,
    animate: bool,
    restore: bool = False,
) -> dict[str, Any]:
    """Write assembled.png, result.json and, if asked, reassembly.gif and restored.png.

    Returns what result.json holds.
    """
    from .. import pictures
    from ..data.folder import write_json
    from ..fragments.save import RESULT_JSON, result_entries
    from ..solvers import Snapshot

    drawn = pictures.render_board(puzzle, result.board)
    pictures.save_picture(drawn, folder / "assembled.png")
    if restore:
        from ..perception.restore import restore as recovered
        from ..search.evolution import default_threads

        # empty cells are hatched in both pictures
        whole = recovered(puzzle, result.board, under=drawn, threads=default_threads())
        pictures.save_picture(whole, folder / "restored.png")
    if animate:
        end = Snapshot(result.timings["total"], 0, result.score, result.board)
        pictures.animate(puzzle, [*result.history, end], folder / "reassembly.gif")
    entries = result_entries(puzzle, result, scores)
    write_json(folder / RESULT_JSON, entries)
    return entries


def _beside(folder: Path) -> Path:
    """Where the result of ``folder`` goes if nobody says: ``FOLDER-solved``."""
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return named.with_name(f"{named.name}-solved")


def _scores(puzzle: Puzzle, result: Result) -> Scores | None:
    from ..puzzle import score_puzzle

    return None if puzzle.truth is None else score_puzzle(result.board, puzzle)


def _check_fits(puzzle: Puzzle) -> None:
    """Too few pieces are a puzzle with losses; too many are a mistake."""
    rows, cols = puzzle.require_grid()
    free = rows * cols - len(puzzle.blocked)
    if puzzle.n > free:
        raise SherdError(
            f"grid: {rows}x{cols} has {free} free cells for {puzzle.n} pieces; give a larger grid"
        )
