"""Hand-made features of a seam: two facing sides compared in several ways at once.

Each feature is a mean absolute difference in L*a*b* units along the edge, so that the features of
pieces of any size can be compared.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FEATURES = ("step", "predict", "robust", "shift", "slope")
"""What `seam_features` returns per pair:

step     facing pixels, |a − b|
predict  each side extrapolated by one pixel against the other (Paikin & Tal), both directions
robust   Σ|a − b|^¼, which a few strong edges cannot dominate (in the spirit of Pomeranz et al.)
shift    |a − b| where b may slip along the edge by up to ±2 px: edges that cross at an angle
slope    disagreement of the outward slopes: a's should be minus b's
"""


def edge_profiles(lab: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Per side of ``(n, H, W, 3)`` pieces: outermost pixels and outward slope, ``(n, L, 3)``."""
    y, x = min(1, lab.shape[1] - 1), min(1, lab.shape[2] - 1)
    outer = (lab[:, 0], lab[:, :, -1], lab[:, -1], lab[:, :, 0])
    inner = (lab[:, y], lab[:, :, -1 - x], lab[:, -1 - y], lab[:, :, x])
    return [
        (np.ascontiguousarray(o), np.ascontiguousarray(o - i))
        for o, i in zip(outer, inner, strict=True)
    ]


@njit(cache=True, nogil=True, fastmath=True)
def seam_features(last_a, slope_a, last_b, slope_b, out):  # type: ignore[no-untyped-def]
    """Fill ``out (5, na, nb)`` with the features of side a of every piece against side b."""
    na, length, _ = last_a.shape
    nb = last_b.shape[0]
    scale = 1.0 / (3 * length)
    for i in range(na):
        for j in range(nb):
            step = predict = robust = shift = slope = np.float32(0.0)
            for k in range(length):
                slip = np.float32(1e9)
                for s in range(max(0, k - 2), min(length, k + 3)):
                    d = (
                        abs(last_a[i, k, 0] - last_b[j, s, 0])
                        + abs(last_a[i, k, 1] - last_b[j, s, 1])
                        + abs(last_a[i, k, 2] - last_b[j, s, 2])
                    )
                    slip = min(slip, d)
                shift += slip
                for c in range(3):
                    a, b = last_a[i, k, c], last_b[j, k, c]
                    sa, sb = slope_a[i, k, c], slope_b[j, k, c]
                    d = abs(a - b)
                    step += d
                    predict += abs(a + sa - b) + abs(b + sb - a)
                    robust += np.sqrt(np.sqrt(d + np.float32(1e-3)))
                    slope += abs(sa + sb)
            out[0, i, j] = step * scale
            out[1, i, j] = predict * scale * 0.5
            out[2, i, j] = robust * scale
            out[3, i, j] = shift * scale
            out[4, i, j] = slope * scale
