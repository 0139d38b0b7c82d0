"""Numba kernels of the greedy placer.

``d[s, i, j]``  float32 ``(4, n, n)``: dissimilarity of j at side s of i, as i sees it.
``open_[s, i]`` bool ``(4, n)``: side s of piece i can still get a neighbour.
``laid[i]``     bool ``(n,)``: piece i lies on the board.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def rank(d, open_, laid, best, second):  # type: ignore[no-untyped-def]
    """For every open side the least dissimilar partner ``best`` and the runner-up's value.

    Partners are pieces whose facing side is open; two pieces that both lie already are none.
    ``best`` is -1 without a partner; with one partner alone ``second`` is its own value.
    """
    n = d.shape[1]
    partner = np.empty(n, np.int32)
    for s in range(4):
        count = 0
        for j in range(n):
            if open_[s ^ 2, j]:
                partner[count] = j
                count += 1
        for i in range(n):
            best[s, i] = -1
            second[s, i] = np.inf
            if not open_[s, i]:
                continue
            low = np.inf
            high = np.inf
            for k in range(count):
                j = partner[k]
                if j == i or (laid[i] and laid[j]):
                    continue
                x = d[s, i, j]
                if x < low:
                    high = low
                    low = x
                    best[s, i] = j
                elif x < high:
                    high = x
            second[s, i] = high if high < np.inf else low


@njit(cache=True, nogil=True)
def mutual(d, second, s, i, j):  # type: ignore[no-untyped-def]
    """Mutual compatibility of i and j at side s of i: the mean of ``1 − D / second best D``."""
    a = d[s, i, j] / max(second[s, i], 1e-6)
    b = d[s ^ 2, j, i] / max(second[s ^ 2, j], 1e-6)
    return 1.0 - 0.5 * (min(a, 2.0) + min(b, 2.0))


@njit(cache=True, nogil=True)
def best_fit(d, second, around, spare):  # type: ignore[no-untyped-def]
    """The slot and piece of the largest mutual compatibility, averaged over the slot's neighbours.

    ``around[k, s]`` is the piece at side s of slot k, -1 = none; ``spare`` the pieces left.
    """
    top = -np.inf
    slot = piece = -1
    for k in range(len(around)):
        for j in spare:
            total = 0.0
            count = 0
            for s in range(4):
                q = around[k, s]
                if q >= 0:
                    total += mutual(d, second, s, j, q)
                    count += 1
            if total > top * count:
                top = total / count
                slot = k
                piece = j
    return slot, piece
