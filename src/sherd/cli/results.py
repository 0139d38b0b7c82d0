"""``result.json``: a solved puzzle on disk.

Its entries: ``format``, ``system``, ``version``, ``seed``; ``pieces`` (file names, in the order
that the numbers refer to), ``board`` (rows of piece numbers, -1 = empty cell), ``names`` (the same
with file names, null = empty), ``unplaced`` (file names), ``gap``, ``score`` (the system's own),
``scores`` (shares in 0..1 against the truth, or null), ``confidence`` (rows, 0..1) and ``timings``
(seconds per stage).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SherdError

if TYPE_CHECKING:
    import numpy as np

    from ..puzzle import Puzzle, Scores
    from ..solvers import Result

FORMAT = 1
RESULT_JSON = "result.json"


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


def read_board(path: Path, puzzle: Puzzle) -> np.ndarray:
    """The board of a ``result.json``, in the piece numbers of ``puzzle``."""
    import numpy as np

    from ..data.folder import check_rows, read_json
    from ..puzzle import check_board

    entries = read_json(path)
    if entries.get("format") != FORMAT:
        raise SherdError(
            f"{path}: format is {entries.get('format')!r}; this version reads {FORMAT}"
        )
    names = entries.get("pieces")
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise SherdError(f"{path}: pieces: expected a list of file names")
    check_rows(entries.get("board"), f"{path}: board")
    board = check_board(np.array(entries["board"]), len(names), what=f"{path}: board")
    here = {name: k for k, name in enumerate(puzzle.names or ())}
    if foreign := [n for n in names if n not in here]:
        raise SherdError(f"{path}: piece {foreign[0]!r} is none of the puzzle's; is it another's?")
    if len(set(names)) < len(names):
        raise SherdError(f"{path}: pieces: a name is listed twice")
    new = np.array([*(here[n] for n in names), -1])
    return new[board]
