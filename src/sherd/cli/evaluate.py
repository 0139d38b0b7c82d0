"""``sherd eval``: how right a result is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import SherdError

EXAMPLE = "Example: sherd eval puzzle puzzle-solved/result.json"


def evaluate(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Puzzle with its truth in puzzle.json.")
    ],
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="A result.json.")],
    fixed_centre: Annotated[
        bool, typer.Option("--fixed-centre", help="Leave the centre cell out of absolute.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, shares in 0..1.")] = False,
) -> None:
    """Score a result against the truth."""
    from ..data.folder import read_puzzle
    from ..puzzle import score_puzzle
    from .results import read_board
    from .show import print_json, scores_line

    puzzle = read_puzzle(folder)
    if puzzle.truth is None:
        raise SherdError(f"{folder}: has no truth to score against; it stands in puzzle.json")
    board = read_board(result, puzzle)
    try:
        scores = score_puzzle(board, puzzle, fixed_centre=fixed_centre)
    except SherdError as e:
        raise SherdError(f"{result}: {e}") from e
    if as_json:
        print_json(scores.asdict())
    else:
        typer.echo(scores_line(scores))
