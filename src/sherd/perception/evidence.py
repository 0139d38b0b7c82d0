"""Evidence: everything perception says about one puzzle, in one currency.

All entries are log-likelihood ratios in nats against chance: ``h[i, j] = log p(j is right of i)
− log(1/n)``. A pair of which nothing is known scores 0, the same as an empty cell, so boards with
holes, boards of another grid and evidence of different heads can be compared and added up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..errors import SherdError
from ..puzzle import EMPTY, pairs

PuzzletFn = Callable[[np.ndarray], np.ndarray]
"""``(k, 4)`` pieces (top left, top right, bottom left, bottom right) → ``(k,)`` evidence."""
BoardFn = Callable[[np.ndarray], np.ndarray]
"""``(b, M, N)`` boards → ``(b,)`` global evidence E_g."""


@dataclass(frozen=True)
class Evidence:
    """What perception says. Search works on this, whatever made it."""

    h: np.ndarray
    """``(n, n) float32``: evidence that j is right of i."""
    v: np.ndarray
    """``(n, n) float32``: evidence that j is below i."""
    border: np.ndarray | None = None
    """``(4, n) float32``: evidence that the top, right, bottom, left side of i has no neighbour."""
    puzzlet: PuzzletFn | None = None
    """Evidence of 2×2 puzzlets, on demand."""
    board: BoardFn | None = None
    """Evidence of whole boards, on demand."""
    puzzlet_weight: float = 0.0
    """λ of the 2×2 evidence in `full_score`; 0 = left out."""
    board_weight: float = 0.0
    """λ_g of the global evidence in `full_score`; 0 = left out."""
    source: str = "unknown"
    """What made it."""

    def __post_init__(self) -> None:
        n = len(self.h)
        for name in ("h", "v"):
            m = getattr(self, name)
            if m.shape != (n, n) or not np.isfinite(m).all():
                raise SherdError(f"evidence.{name}: expected a finite ({n}, {n}) array")
            object.__setattr__(self, name, np.ascontiguousarray(m, dtype=np.float32))
        if self.border is not None:
            if self.border.shape != (4, n) or not np.isfinite(self.border).all():
                raise SherdError(f"evidence.border: expected a finite (4, {n}) array")
            object.__setattr__(self, "border", np.ascontiguousarray(self.border, dtype=np.float32))
        for name in ("puzzlet_weight", "board_weight"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise SherdError(
                    f"evidence.{name}: {getattr(self, name)}; expected a number of at least 0"
                )

    @property
    def n(self) -> int:
        """Number of pieces."""
        return len(self.h)

    def reordered(self, order: np.ndarray) -> Evidence:
        """The evidence for the same pieces in another order: new piece k is old ``order[k]``."""
        ix = np.ix_(order, order)
        puzzlet, board = self.puzzlet, self.board
        old = np.append(order, EMPTY)  # old[-1] is EMPTY: an empty cell stays empty
        return replace(
            self,
            h=self.h[ix],
            v=self.v[ix],
            border=None if self.border is None else self.border[:, order],
            puzzlet=None if puzzlet is None else (lambda q: puzzlet(old[q])),
            board=None if board is None else (lambda b: board(old[b])),
        )

    def score(self, board: np.ndarray) -> float:
        """Sum of the pair and border evidence of ``board`` (eq. sum_local without the 2×2 term)."""
        right, below = pairs(board)
        total = float(self.h[right[:, 0], right[:, 1]].sum(dtype=np.float64))
        total += float(self.v[below[:, 0], below[:, 1]].sum(dtype=np.float64))
        if self.border is not None:
            for side, line in enumerate((board[0], board[:, -1], board[-1], board[:, 0])):
                total += float(self.border[side, line[line != EMPTY]].sum(dtype=np.float64))
        return total

    @property
    def has_puzzlets(self) -> bool:
        """2×2 evidence counts."""
        return self.puzzlet is not None and self.puzzlet_weight > 0

    @property
    def has_board(self) -> bool:
        """Global evidence counts."""
        return self.board is not None and self.board_weight > 0

    @property
    def complete(self) -> bool:
        """Pair and border evidence are all there is: `full_score` is `score`."""
        return not (self.has_puzzlets or self.has_board)

    def full_score(self, board: np.ndarray) -> float:
        """All evidence of ``board``: E = λ_g·E_g + E_p (eq. evidence), E_p with its 2×2 term.

        This is the objective of a search that is given 2×2 or global evidence.
        """
        return float(self.full_scores(board[None])[0])

    def full_scores(self, boards: np.ndarray) -> np.ndarray:
        """`full_score` of ``boards (k, M, N)``; whole boards are asked for together."""
        total = np.array([self.score(b) for b in boards])
        if self.puzzlet is not None and self.has_puzzlets:
            each = [self.puzzlet(quads(b)).sum(dtype=np.float64) for b in boards]
            total += self.puzzlet_weight * np.array(each)
        if self.board is not None and self.has_board:
            total += self.board_weight * np.asarray(self.board(boards), np.float64)
        return total


def quads(boards: np.ndarray) -> np.ndarray:
    """``(k, 4)`` 2×2 puzzlets of ``boards (…, M, N)`` whose four cells are filled."""
    parts = (boards[..., :-1, :-1], boards[..., :-1, 1:], boards[..., 1:, :-1], boards[..., 1:, 1:])
    found = np.stack([p.reshape(-1) for p in parts], axis=1)
    return found[(found != EMPTY).all(axis=1)]


def from_logits(
    right: np.ndarray, below: np.ndarray, *, floor: float = 1e-4, source: str = "logits"
) -> Evidence:
    """Normalise pair scores ``(n, n)`` of any offset and per-row scale into `Evidence`.

    Every side of every piece asks "which of the others is my neighbour?": the answer is a
    softmax over the candidates. A pair is asked from both of its sides, and the two answers'
    log-probabilities are averaged. ``floor`` is a share of uniform doubt mixed into each answer,
    so that one wrong but confident answer cannot outweigh a whole board.
    """
    return Evidence(_both_ways(right, floor), _both_ways(below, floor), source=source)


def _both_ways(logits: np.ndarray, floor: float) -> np.ndarray:
    n = len(logits)
    if n == 1:
        return np.zeros((1, 1), dtype=np.float32)
    a = np.array(logits, dtype=np.float64)
    np.fill_diagonal(a, -np.inf)
    out = np.zeros((n, n))
    for axis in (0, 1):
        e = np.exp(a - a.max(axis=axis, keepdims=True))
        p = e / e.sum(axis=axis, keepdims=True)
        out += 0.5 * np.log(p * (1.0 - floor) * (n - 1) + floor)
    return out.astype(np.float32)


def limited(evidence: Evidence, found: np.ndarray, truth: np.ndarray) -> str | None:
    """Whose fault a wrong board is: ``"perception"``, ``"search"``, or None if it is right.

    Perception-limited: the found board scores at least as high as the true one, so no search
    could have known. Search-limited: the true board scores higher and was not found. What counts
    is `Evidence.full_score`, the objective that is searched.
    """
    if np.array_equal(found, truth):
        return None
    got, best = evidence.full_score(found), evidence.full_score(truth)
    return "perception" if got >= best - 1e-5 * (1.0 + abs(best)) else "search"
