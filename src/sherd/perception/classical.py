"""Evidence without a net: hand-made seam features as normalised log-probabilities.

``p(j is the neighbour of i's side) ∝ Π_k (feature_k + ε)^(−w_k)``: a conditional logit on the
logarithms of the features, so the scale of a puzzle's contrast drops out. The weights depend on
the gap: at 0 px prediction counts, beyond that robust and slip-tolerant comparison.
"""

from __future__ import annotations

import numpy as np

from ..puzzle import Puzzle
from .dissimilarity import lab
from .evidence import Evidence, from_logits

SOFTEN = 0.05
"""ε, in L*a*b* units: keeps identical sides from infinite evidence."""

WEIGHTS = {
    0: (-15.78, 15.27, 45.71, 3.27, -7.70),
    1: (-19.58, 12.60, 47.59, 5.99, -4.72),
    2: (-21.70, 16.74, 42.65, 5.94, -5.92),
    4: (-21.46, 15.73, 35.60, 6.39, -4.85),
    8: (-17.30, 12.12, 22.52, 6.21, -2.65),
    12: (-13.71, 9.01, 16.82, 5.71, -1.77),
    24: (-9.91, 5.83, 8.09, 5.37, -0.60),
    48: (-8.02, 5.18, 3.94, 4.27, -0.41),
}
"""Gap in px → weight of each feature of `seams.FEATURES`, as ``sherd.train.seams`` prints it."""


def weights_at(gap: int | None) -> np.ndarray:
    """Feature weights for ``gap`` px, interpolated in log(1 + gap); unknown counts as 2 px."""
    knots = np.log1p(np.array(list(WEIGHTS)))
    table = np.array(list(WEIGHTS.values()))
    x = np.log1p(2 if gap is None else gap)
    return np.array([np.interp(x, knots, table[:, k]) for k in range(table.shape[1])])


def log_features(pieces: np.ndarray) -> np.ndarray:
    """``(2, 5, n, n) float32`` logarithms of the seam features: j right of i, j below i."""
    from .seams import FEATURES, edge_profiles, seam_features

    top, right, bottom, left = edge_profiles(lab(pieces))
    n = len(pieces)
    out = np.empty((2, len(FEATURES), n, n), dtype=np.float32)
    seam_features(*right, *left, out[0])
    seam_features(*bottom, *top, out[1])
    out += SOFTEN
    return np.log(out, out=out)


def seam_logits(puzzle: Puzzle) -> np.ndarray:
    """``(2, n, n) float32`` logits that j is right of i, and below i, from the seams alone."""
    w = weights_at(puzzle.gap).astype(np.float32)
    return -np.tensordot(log_features(puzzle.pieces), w, axes=([1], [0]))


def classical_evidence(puzzle: Puzzle) -> Evidence:
    """Evidence of ``puzzle`` from its seams alone."""
    right, below = seam_logits(puzzle)
    return from_logits(right, below, source="seams")
