"""Evidence of gradients: is the step across a seam like the steps inside the pieces?

Gallagher (2012): the steps between a side's last two lines of pixels have a mean μ and a covariance
S, three channels together. Across a true seam steps are drawn from the same distribution, so that
their Mahalanobis distance ``(g − μ)ᵀ S⁻¹ (g − μ)`` is small. Where pixels are missing the step
across is that much longer, and so are the steps inside that it is held against.

On plain sides steps may be of the right length by chance. There the same may be asked of how pixels
change *along* the seam: what goes up on one side goes up on the other. By itself that says little,
but it is something else than what the steps across have said.

It knows nothing of pictures, and errs elsewhere than the network does: where little or nothing is
missing, each has something to say that the other has not seen.
"""

from __future__ import annotations

import numpy as np

from ..errors import SherdError
from ..puzzle import Puzzle
from .evidence import Evidence, from_logits

RIDGE = 1.0
"""Added to the covariance, in squared grey levels: rounding makes steps of that size."""
SOFTEN = 0.02
"""Added to a mean distance: identical sides are no infinite evidence."""
SHARPNESS = 5.0
"""Logits per e-fold of distance; what fits held-out photographs by itself (4.5 to 7)."""
ALONG = 3
"""Pixels along the seam over which changes are compared."""
ACROSS = 0.4
"""Share of the steps across in the logits, if changes along the seam have the rest."""


def gradient_evidence(puzzle: Puzzle, *, along: bool = False) -> Evidence:
    """Evidence of ``puzzle``, whose gap must be known, from gradients alone; with ``along`` those
    along the seam have a say, too."""
    if puzzle.gap is None:
        raise SherdError("gradients: the gap of the puzzle is not known; give one")
    x = puzzle.pieces.astype(np.float64)
    x -= x.mean(axis=(0, 1, 2))  # small numbers: sums of squares are subtracted below
    right, below = (_logits(y, puzzle.gap, along) for y in (x, x.transpose(0, 2, 1, 3)))
    return from_logits(right, below, source="gradients")


def _logits(x: np.ndarray, gap: int, along: bool) -> np.ndarray:
    """``(n, n)`` that j is right of i."""
    steps = np.log(gradient_distances(x, gap) + SOFTEN)
    over = min(ALONG, x.shape[1] - 1)
    if not along or not over:
        return np.asarray(-SHARPNESS * steps)
    changes = np.log(gradient_distances(x[:, over:] - x[:, :-over], gap) + SOFTEN)
    return np.asarray(-SHARPNESS * (ACROSS * steps + (1.0 - ACROSS) * changes))


def gradient_distances(x: np.ndarray, gap: int) -> np.ndarray:
    """``(n, n)``: how far the step from piece i of ``x (n, H, W, 3)`` to j at its right is from
    i's own steps, and that from j to i from j's; mean per pixel and channel, both together."""
    return _one_way(x, gap) + _one_way(x[:, :, ::-1], gap).T


def _one_way(x: np.ndarray, gap: int) -> np.ndarray:
    """``(n, n)``: steps from the last column of i to the first of j, by i's own steps."""
    n, height, width, _ = x.shape
    last, first = x[:, :, -1], x[:, :, 0]  # (n, H, 3)
    own = last - x[:, :, -1 - min(gap + 1, width - 1)]
    mean = own.mean(axis=1)
    spread = own - mean[:, None]
    covariance = np.einsum("nka,nkb->nab", spread, spread) / height + RIDGE * np.eye(3)
    precision = np.linalg.inv(covariance)  # (n, 3, 3)
    # Σ_k (b − a)ᵀ P (b − a), with a the expected and b the true pixel, as products of matrices
    a = last + mean[:, None]
    weighed = np.einsum("nab,nkb->nka", precision, a)
    squares = np.einsum("nka,nkb->nab", first, first).reshape(n, 9)
    total = precision.reshape(n, 9) @ squares.T
    total -= 2.0 * weighed.reshape(n, -1) @ first.reshape(n, -1).T
    total += (weighed * a).sum(axis=(1, 2))[:, None]
    return np.asarray(np.maximum(total, 0.0) / (3 * height))
