"""``sherd demo``: all of it, on a photograph that comes with scikit-image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: sherd demo --out demo"

GRID = (7, 10)
PIECE = 56
GAP = 4


def demo(
    out: Annotated[Path, typer.Option(help="Folder to write; an earlier demo is replaced.")] = Path(
        "out/demo"
    ),
    system: Annotated[
        str | None, typer.Option(help="See: sherd systems. [default: the best one]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the shuffle and the system.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Cut a photograph, solve it, and leave pictures of what happened."""
    import numpy as np
    from skimage import data

    from .. import pictures
    from ..data.atomic import Ours, check_replaceable, new_folder
    from ..data.cutting import Geometry, cut
    from ..data.folder import PUZZLE_FOLDER, write_puzzle
    from ..fragments import Reassembly
    from ..fragments.save import LAYOUT_CSV, RESULT_FOLDER, RESULT_JSON, write_result
    from ..puzzle import score_puzzle
    from ..solvers import DEFAULT, make_solver
    from .parse import parse_seed
    from .show import print_json, scores_line, watch

    solver = make_solver(DEFAULT if system is None else system)
    rng = np.random.default_rng(parse_seed(seed))
    whole = cut(np.asarray(data.coffee()), Geometry(GRID, (PIECE, PIECE), GAP), fit="crop")
    puzzle = whole.puzzle.shuffled(rng)
    ours = Ours("sheet.png", rf"{RESULT_FOLDER.names}|sheet\.png|convergence\.png|puzzle")
    check_replaceable(out / "puzzle", PUZZLE_FOLDER, force=True)
    with new_folder(out, ours, force=True) as part:
        puzzle = replace(puzzle, names=write_puzzle(part / "puzzle", puzzle))
        callbacks, display = watch()
        with display:
            result = solver.solve(puzzle, seed=seed, callbacks=callbacks)
        scores = score_puzzle(result.board, puzzle)
        sheet = pictures.sheet(puzzle, result.board, confidence=result.confidence)
        pictures.save_picture(sheet, part / "sheet.png")
        if result.history:
            pictures.convergence(result.history, part / "convergence.png")
        entries = write_result(part, Reassembly(**vars(result), puzzle=puzzle), animate=True)
    if as_json:
        print_json({"folder": str(out), **entries})
        return
    rows, cols = GRID
    typer.echo(f"{puzzle.n} pieces, {rows}x{cols}, by {result.system}: {scores_line(scores)}")
    made = {
        "puzzle": "the fragments, shuffled",
        "sheet.png": "before, after and truth",
        "assembled.png": "the picture put back together",
        "reassembly.gif": "how it was found",
        "convergence.png": "the score over time",
        LAYOUT_CSV: "where every piece lies",
        RESULT_JSON: "the board, the scores, the timings",
    }
    for name, what in made.items():
        if (out / name).exists():
            typer.echo(f"  {out / name}: {what}")
