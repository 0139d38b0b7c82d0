"""A solved puzzle on disk: pictures, ``result.json`` and ``layout.csv`` (see docs/formats.md)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.atomic import Ours
from ..errors import SherdError

if TYPE_CHECKING:
    from ..puzzle import Puzzle, Scores
    from ..solvers import Result
    from .result import Reassembly

FORMAT = 1
RESULT_JSON = "result.json"
LAYOUT_CSV = "layout.csv"
REPORT_HTML = "report.html"
RESULT_FOLDER = Ours(
    RESULT_JSON,
    r"result\.json|layout\.csv|report\.html|assembled\.png|restored\.png|reassembly\.gif",
)


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
    pinned = result.puzzle.pins
    text = layout_csv(result.names, result.board.tolist(), result.confidence.tolist(), pinned)
    write_text(folder / LAYOUT_CSV, text)
    if report:
        from .report import report_html

        write_text(folder / REPORT_HTML, report_html(result))
    entries = reassembly_entries(result)
    write_json(folder / RESULT_JSON, entries)
    return entries


def reassembly_entries(result: Reassembly) -> dict[str, Any]:
    """What ``result.json`` holds of a `Reassembly`."""
    known = result.puzzle.knowledge
    more = {
        "notes": list(result.notes),
        "grids": [
            {
                "grid": list(t.grid),
                "score": round(t.score, 3),
                "missing": t.missing,
                "spare": t.spare,
            }
            for t in result.grids
        ],
        "alternatives": [
            {
                "board": a.board.tolist(),
                "score": round(float(a.score), 3),
                "odds": round(a.odds, 4),
                "differs": [[int(r), int(c)] for r, c in zip(*a.differs.nonzero(), strict=True)],
            }
            for a in result.alternatives
        ],
        "pins": {result.names[p]: list(cell) for p, cell in result.puzzle.pins.items()},
        "knowledge": known.to_entries(result.names),
    }
    return {**result_entries(result.puzzle, result, scores_of(result)), **more}


def layout_csv(
    names: Sequence[str],
    board: Sequence[Sequence[int]],
    confidence: Sequence[Sequence[float | None]] | None,
    pinned: Container[int],
) -> str:
    """A line per fragment: file, row and column from 0, confidence, and whether it is pinned.

    Row and column are empty where it is not placed, confidence where nobody judged it.
    """
    at = {p: (r, c) for r, row in enumerate(board) for c, p in enumerate(row) if p >= 0}
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["piece", "row", "column", "confidence", "pinned"])
    for k, name in enumerate(names):
        cell = at.get(k)
        sure = confidence[cell[0]][cell[1]] if cell and confidence is not None else None
        told = "" if sure is None else f"{sure:.4f}"
        place = cell or ("", "")
        lines.writerow([plain_cell(name), *place, told, "yes" if k in pinned else "no"])
    return text.getvalue()


def plain_cell(text: str) -> str:
    """``text`` so that no spreadsheet takes it for a formula."""
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") else text


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as e:
        raise SherdError(f"{path}: cannot be written: {e.strerror or e}") from e
