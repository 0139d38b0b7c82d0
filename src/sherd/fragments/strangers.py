"""Pieces from elsewhere: what speaks against chance for a piece in its place?"""

from __future__ import annotations

import numpy as np

from ..perception.evidence import Evidence
from ..puzzle import EMPTY

LOW = -4.0
"""Nats of pair evidence below which a piece is taken for a stranger. On validation pictures four in
five of the strangers on a board are below it, and of the pieces that belong there none in 3700."""


def links_of(evidence: Evidence, board: np.ndarray) -> np.ndarray:
    """``(M, N)`` pair evidence of each piece with its neighbours; 0 for empty cells."""
    out = np.zeros(board.shape)
    for links, one, two in (
        (evidence.h, (slice(None), slice(None, -1)), (slice(None), slice(1, None))),
        (evidence.v, (slice(None, -1), slice(None)), (slice(1, None), slice(None))),
    ):
        a, b = board[one], board[two]
        value = np.where((a != EMPTY) & (b != EMPTY), links[a, b], 0.0)
        out[one] += value
        out[two] += value
    return out


def lift_strangers(
    evidence: Evidence, board: np.ndarray, stay: frozenset[int], low: float = LOW
) -> tuple[np.ndarray, list[int]]:
    """The board without pieces of less than ``low`` nats, and these; ``stay`` are left alone.

    The worst goes first: beside a stranger others look strange as well, until it is gone.
    """
    board = board.copy()
    lifted: list[int] = []
    while True:
        value = links_of(evidence, board)
        value[(board == EMPTY) | np.isin(board, list(stay))] = np.inf
        cell = np.unravel_index(int(value.argmin()), board.shape)
        if value[cell] >= low:
            return board, lifted
        lifted.append(int(board[cell]))
        board[cell] = EMPTY
