"""A solved puzzle on disk: pictures, ``result.json`` and ``layout.csv`` (see docs/formats.md)."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SherdError

if TYPE_CHECKING:
    from ..puzzle import Puzzle, Scores
    from ..solvers import Result
    from .result import Reassembly

FORMAT = 1
RESULT_JSON = "result.json"
LAYOUT_CSV = "layout.csv"


def result_entries(puzzle: Puzzle, result: Result, scores: Scores | None) -> dict[str, Any]:
    """What ``result.json`` holds."""
    from .. import __version__

    names = puzzle.names or tuple(str(k) for k in range(puzzle.n))
    placed = set(result.board.ravel().tolist())
    return {
        "format": FORMAT,
        "system": result.system,
        "version": __version__,
        "seed": result.seed,
        "gap": puzzle.gap,
        "score": float(result.score) if math.isfinite(result.score) else None,
        "scores": None if scores is None else scores.asdict(),
        "timings": {k: round(v, 4) for k, v in result.timings.items()},
        "unplaced": [name for k, name in enumerate(names) if k not in placed],
        "board": result.board.tolist(),
        "names": [[names[p] if p >= 0 else None for p in row] for row in result.board.tolist()],
        "confidence": [[round(float(c), 4) for c in row] for row in result.confidence],
        "pieces": list(names),
    }


def scores_of(result: Reassembly) -> Scores | None:
    """How right the board is, where the puzzle carries a truth of the same grid."""
    from ..puzzle import score_puzzle

    truth = result.puzzle.truth
    if truth is None or truth.shape != result.board.shape:
        return None
    return score_puzzle(result.board, result.puzzle)


def write_result(
    folder: Path,
    result: Reassembly,
    *,
    animate: bool = False,
    restore: bool = False,
    report: bool = False,
) -> dict[str, Any]:
    """Write all files of a result into ``folder`` and return what result.json holds."""
    from ..data.folder import write_json
    from ..pictures import save_picture

    save_picture(result.image(), folder / "assembled.png")
    if restore:
        save_picture(result.restored(), folder / "restored.png")
    if animate:
        result.animate(folder / "reassembly.gif")
    write_layout(folder / LAYOUT_CSV, result)
    entries = {
        **result_entries(result.puzzle, result, scores_of(result)),
        "notes": list(result.notes),
    }
    write_json(folder / RESULT_JSON, entries)
    return entries


def write_layout(path: Path, result: Reassembly) -> None:
    """A line per fragment: file, row, column, confidence; row and column empty if not placed."""
    at = {int(p): cell for cell, p in _cells(result)}
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(["piece", "row", "column", "confidence"])
            for k, name in enumerate(result.names):
                if k in at:
                    r, c = at[k]
                    lines.writerow([name, r, c, f"{result.confidence[r, c]:.4f}"])
                else:
                    lines.writerow([name, "", "", ""])
    except OSError as e:
        raise SherdError(f"{path}: cannot be written: {e.strerror or e}") from e


def _cells(result: Reassembly) -> list[tuple[tuple[int, int], int]]:
    rows, cols = result.board.shape
    return [((r, c), int(result.board[r, c])) for r in range(rows) for c in range(cols)]
