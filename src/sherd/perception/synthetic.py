"""Evidence of known quality, without pictures: for benchmarks and tests of search."""

from __future__ import annotations

import math

import numpy as np

from ..errors import SherdError
from ..puzzle import identity_board, pairs
from .evidence import Evidence, from_logits


def synthetic_evidence(
    grid: tuple[int, int], top1: float, rng: np.random.Generator, *, plain: float = 0.0
) -> Evidence:
    """Evidence for the board on which piece k lies in cell k.

    Every pair draws a standard normal; a true pair's is raised so far that it ranks first among
    all n with probability ``top1``. The logits are the exact log-likelihood ratios of that model.
    A share ``plain`` of the pieces (a connected patch, like a sky) says nothing about each other:
    all links between two of them, true or not, have a likelihood ratio of 1.
    """
    if not 0.0 < top1 < 1.0 or not 0.0 <= plain < 1.0:
        raise SherdError(f"top1: {top1} must lie between 0 and 1, plain: {plain} in 0 … 1")
    n = grid[0] * grid[1]
    raise_by = _separation(n, top1)
    blank = np.zeros(n, dtype=bool)
    blank[: round(plain * n)] = True  # row-major: a patch at the top
    logits = []
    for pair in pairs(identity_board(grid)):
        x = rng.standard_normal((n, n), dtype=np.float32)
        x[pair[:, 0], pair[:, 1]] += np.float32(raise_by)
        x *= np.float32(raise_by)
        x[np.ix_(blank, blank)] = raise_by**2 / 2  # log-ratio 0: that of x is r·x − r²/2
        logits.append(x)
    return from_logits(logits[0], logits[1], source="synthetic")


def _separation(n: int, top1: float) -> float:
    """How far a normal must be raised to beat n − 1 others with probability ``top1``."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    x = np.linspace(-10.0, 20.0, 3001)
    others = norm.logcdf(x) * (n - 1)

    def miss(shift: float) -> float:
        p = np.exp(others + norm.logpdf(x - shift))
        return float(p.sum() * (x[1] - x[0])) - top1

    if n < 2 or miss(0.0) > 0:
        return 0.0
    most = 6.0 + 2.0 * math.sqrt(2.0 * math.log(n))
    return float(brentq(miss, 0.0, most)) if miss(most) > 0 else most
