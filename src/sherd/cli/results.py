"""Answers that are read back; `sherd.fragments.save` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SherdError
from ..fragments.save import FORMAT

if TYPE_CHECKING:
    import numpy as np

    from ..puzzle import Puzzle


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
