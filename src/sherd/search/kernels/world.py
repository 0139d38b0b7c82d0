"""What stays the same during a search, as one argument."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class World(NamedTuple):
    """Evidence and constraints of one puzzle. Numba reads it like a struct."""

    at: np.ndarray
    """float32 ``(4, n, n)``: evidence that j lies at side d of q (see `puzzle.SIDES`)."""
    border: np.ndarray
    """float32 ``(4, n)``: evidence that side d of q lies on the rim."""
    cand: np.ndarray
    """int32 ``(4, n, K)``: the K best j for side d of q, best first, -1 = no more."""
    near: np.ndarray
    """int32 ``(C, 4)``: the cell at side d of cell c, -1 where there is none."""
    rim: np.ndarray
    """bool ``(C, 4)``: side d of cell c is the rim of the puzzle."""
    fixed: np.ndarray
    """bool ``(C,)``: cell c may not change (pinned or blocked)."""
    barred: np.ndarray
    """bool ``(C, n)``: piece p may not lie in cell c; ``(1, 1)`` unless ``bound``."""
    glue: np.ndarray
    """int32 ``(4, n)``: the piece that must lie at side d of q, -1 = any or none."""
    tied: np.ndarray
    """int32: pieces that are barred from some cell."""
    big: float
    """Nats that a broken rule costs: more than all evidence of a board together."""
    rows: int
    cols: int
    anchored: bool
    """Pins or blocked cells tie the board to its cells: it may not float or be translated."""
    bound: bool
    """There are barred cells or pieces that must lie side by side."""
