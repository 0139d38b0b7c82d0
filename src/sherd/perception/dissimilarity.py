"""Hand-made dissimilarities of facing sides: what the systems before neural nets looked at.

All are in L*a*b* units, lower is more alike, and raw: they are no log-probabilities and have no
common scale between puzzles. ``right[i, j]`` = j right of i, ``below[i, j]`` = j below i. The
diagonal (a piece beside itself) is filled like any other entry; solvers must not use it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import SherdError

_ROWS = 256  # rows of a distance matrix computed at once: bounds the float64 scratch memory


def lab(pieces: np.ndarray) -> np.ndarray:
    """``(n, H, W, 3) uint8`` sRGB fragments as ``(n, H, W, 3) float32`` L*a*b* (D65)."""
    from skimage.color import rgb2lab

    if pieces.ndim != 4 or pieces.shape[-1] != 3 or pieces.dtype != np.uint8:
        raise SherdError(
            f"pieces: expected an (n, H, W, 3) uint8 array, got {pieces.dtype} {pieces.shape}"
        )
    out = np.empty(pieces.shape, dtype=np.float32)
    for rows in _chunks(len(pieces)):
        out[rows] = rgb2lab(pieces[rows])
    return out


def paikin_tal(lab: np.ndarray) -> np.ndarray:
    """``(4, n, n) float32`` asymmetric prediction dissimilarity, sides as in `puzzle.SIDES`.

    ``d[side, i, j]``: j lies beyond ``side`` of i, and i predicts it. Paikin & Tal (2015, eq. 1),
    for the right side: ``Σ |2·x_i(k, K) − x_i(k, K−1) − x_j(k, 1)|`` over rows k and channels,
    where K is the last column. Pieces one pixel wide have no slope; it counts as 0.
    """
    n = len(lab)
    last, slope = _edges(lab)
    out = np.empty((4, n, n), dtype=np.float32)
    for side in range(4):
        facing = (side + 2) % 4
        out[side] = _distances(last[side] + slope[side], last[facing], "cityblock")
    return out


def ssd(lab: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``(right, below)``, each ``(n, n) float32``: Sholomon et al. (2013, eq. 1).

    ``right[i, j] = sqrt(Σ (x_i(k, K) − x_j(k, 1))²)`` over rows k and channels: the root of the sum
    of squared differences of the facing pixels.
    """
    top, right, bottom, left = _edges(lab)[0]
    return _distances(right, left, "euclidean"), _distances(bottom, top, "euclidean")


def _edges(lab: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Per side ``(n, L·3)``: the outermost pixels, and their outward slope per pixel."""
    n, height, width, _ = lab.shape
    y, x = min(1, height - 1), min(1, width - 1)
    last = [lab[:, 0], lab[:, :, -1], lab[:, -1], lab[:, :, 0]]
    inner = [lab[:, y], lab[:, :, -1 - x], lab[:, -1 - y], lab[:, :, x]]
    return (
        [a.reshape(n, -1) for a in last],
        [(a - b).reshape(n, -1) for a, b in zip(last, inner, strict=True)],
    )


def _distances(a: np.ndarray, b: np.ndarray, metric: str) -> np.ndarray:
    """``(n, n) float32`` distances of every row of ``a`` to every row of ``b``."""
    from scipy.spatial.distance import cdist

    b64 = b.astype(np.float64)
    out = np.empty((len(a), len(b)), dtype=np.float32)
    for rows in _chunks(len(a)):
        out[rows] = cdist(a[rows].astype(np.float64), b64, metric)
    return out


def _chunks(n: int) -> Iterator[slice]:
    """Slices that cover ``n`` rows."""
    return (slice(k, min(k + _ROWS, n)) for k in range(0, n, _ROWS))
