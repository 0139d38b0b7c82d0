"""How right a board is. One implementation, used by everything that reports a figure."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from ..errors import SherdError
from .board import EMPTY, pairs
from .puzzle import Puzzle

INDISTINGUISHABLE = 0.25
"""Mean absolute difference, in grey levels, below which nobody can tell two pieces apart."""


@dataclass(frozen=True)
class Scores:
    """Shares in 0..1 for one puzzle; averages over puzzles are the paper's figures."""

    perfect: float
    """1 if every cell holds its true piece."""
    perfect_star: float
    """1 if every cell holds a piece that cannot be told from its true piece."""
    absolute: float
    """Share of pieces in their true cell."""
    horizontal: float
    """Share of truly left–right pairs that are left–right neighbours, wherever they are."""
    vertical: float
    """Share of truly top–bottom pairs that are top–bottom neighbours, wherever they are."""
    neighbor: float
    """Share of all true neighbour pairs that are neighbours in the same direction."""

    def asdict(self) -> dict[str, float]:
        """The scores by name."""
        return asdict(self)


def _found(true: np.ndarray, got: np.ndarray, n: int) -> int:
    """How many of the pairs ``true (k, 2)`` are among ``got (k', 2)``."""
    return int(np.isin(true[:, 0] * n + true[:, 1], got[:, 0] * n + got[:, 1]).sum())


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def score_board(
    board: np.ndarray,
    truth: np.ndarray,
    pieces: np.ndarray | None = None,
    *,
    fixed_centre: bool = False,
) -> Scores:
    """Score ``board`` against ``truth``, both ``(M, N)`` with -1 = empty.

    ``pieces`` (the fragments) are needed for ``perfect_star``; without them it equals
    ``perfect``. ``fixed_centre`` leaves the centre cell, which JPLEG's protocol gives away,
    out of ``absolute``.
    """
    if board.shape != truth.shape:
        raise SherdError(f"board is {board.shape}, truth is {truth.shape}; they must agree")
    n = int(max(board.max(), truth.max())) + 1
    wanted = truth != EMPTY
    right = board == truth
    counted = wanted.copy()
    if fixed_centre:
        counted[truth.shape[0] // 2, truth.shape[1] // 2] = False
    perfect = bool(right.all())
    star = perfect
    if not perfect and pieces is not None:
        star = all(
            a != EMPTY and b != EMPTY and alike(pieces[a], pieces[b])
            for a, b in zip(board[~right], truth[~right], strict=True)
        )
    (h_true, v_true), (h_got, v_got) = pairs(truth), pairs(board)
    h, v = _found(h_true, h_got, n), _found(v_true, v_got, n)
    return Scores(
        perfect=float(perfect),
        perfect_star=float(star),
        absolute=_share(int((right & counted).sum()), int(counted.sum())),
        horizontal=_share(h, len(h_true)),
        vertical=_share(v, len(v_true)),
        neighbor=_share(h + v, len(h_true) + len(v_true)),
    )


def alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether nobody can tell two pieces ``(H, W, 3)`` apart."""
    return float(np.abs(a.astype(np.int16) - b.astype(np.int16)).mean()) < INDISTINGUISHABLE


def score_puzzle(board: np.ndarray, puzzle: Puzzle, *, fixed_centre: bool = False) -> Scores:
    """Score ``board`` against the truth that ``puzzle`` carries."""
    if puzzle.truth is None:
        raise SherdError("the puzzle has no truth to score against; add it to puzzle.json")
    return score_board(board, puzzle.truth, puzzle.pieces, fixed_centre=fixed_centre)
