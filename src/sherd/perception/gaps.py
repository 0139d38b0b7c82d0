"""How wide is the gap? The picture itself says, once its fragments lie side by side.

Pixels differ the more, the further apart they are. Inside the fragments the mean difference at
every distance can be measured; across the seams of a board it is measured too, at an unknown
distance. The gap is the one at which the two agree. (What the network makes of a puzzle hardly
depends on the gap that it is told: its evidence cannot tell 2 px from 12.)
"""

from __future__ import annotations

import numpy as np

from ..puzzle import Puzzle, pairs

DEPTH = 4
"""Pixels from each side of a seam that are compared."""
NEAR = 4
"""Distances, in pixels, over which the contrast of a piece is taken."""
WIDEST = 64
"""Widest gap in pixels that is told."""
LINES = 96
"""Lines of pixels of a fragment that are looked at."""
TIE = 0.003
"""Mean squared error, in nats, by which a gap must be better than a smaller one: on plain pictures
many fit."""
LEAST = 3
"""Fewest seams that say anything."""


def estimate_gap(puzzle: Puzzle, board: np.ndarray) -> int | None:
    """Pixels missing between neighbours of ``board (M, N)``; None where too few pieces meet.

    On 40 validation pictures, half of them with sizes ±2 px off, the error is 0.4, 0.8, 1.4, 2.9
    and 4.6 px on average at gaps of 0, 2, 4, 8 and 12 px. Where fragments are displaced (jitter),
    it is the mean gap that is told.
    """
    right, below = pairs(board)
    if len(right) + len(below) < LEAST:
        return None
    pieces = _grey(puzzle)
    sums: list[tuple[np.ndarray, np.ndarray]] = []
    most = WIDEST
    for turned, links in ((pieces, right), (pieces.transpose(0, 2, 1), below)):
        if not len(links):
            continue
        step = max(1, turned.shape[1] // LINES)
        x = turned[:, ::step]
        reach = min(x.shape[2] - 1, WIDEST + 2 * DEPTH)
        most = min(most, reach - 2 * DEPTH + 1)
        if most < 1:
            return None
        sums.append(_profiles(x, links, reach))
    errors = np.zeros(most)
    for inside, across in sums:
        for i in range(DEPTH):
            for j in range(DEPTH):
                errors += (np.log(across[i, j]) - np.log(inside[i + j : i + j + most])) ** 2
    errors /= len(sums) * DEPTH**2
    return int(np.flatnonzero(errors <= errors.min() + TIE)[0])


def _grey(puzzle: Puzzle) -> np.ndarray:
    """``(n, H, W) float32`` grey levels, NaN where the fragment has no pixel."""
    x = puzzle.pieces.mean(axis=3, dtype=np.float32)
    return x if puzzle.mask is None else np.where(puzzle.mask, x, np.float32(np.nan))


def _profiles(x: np.ndarray, links: np.ndarray, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean differences by distance inside the fragments, and across seams by depth on both sides.

    Both are relative to the contrast of the two fragments, so that no busy pair outweighs the rest.
    """
    with np.errstate(all="ignore"):
        inside = np.stack(
            [_mean(np.abs(x[:, :, d:] - x[:, :, :-d]), (1, 2)) for d in range(1, reach + 1)]
        )  # (reach, n)
        first, second = links[:, 0], links[:, 1]
        pair = (inside[:, first] + inside[:, second]) / 2.0
        contrast = pair[:NEAR].mean(axis=0) + 1.0
        across = np.empty((DEPTH, DEPTH))
        for i in range(DEPTH):
            for j in range(DEPTH):
                seam = np.abs(x[first, :, x.shape[2] - 1 - i] - x[second, :, j])
                across[i, j] = (_mean(seam, (1,)) / contrast).mean()
        return (pair / contrast).mean(axis=1) + 1e-6, across + 1e-6


def _mean(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Mean where there are pixels, 0 where there are none."""
    good = np.isfinite(x)
    return np.asarray(np.where(good, x, 0.0).sum(axes) / np.maximum(good.sum(axes), 1))
