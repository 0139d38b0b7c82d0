"""Boards that grow: a Numba kernel that several systems begin with.

Genomes are those of `pdn_ga_kernels`: position p < C is free cell ``cells[p]``, the rest is a tray;
items below n are pieces, the others holes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..search.kernels.random import below, uniform


@njit(cache=True, nogil=True)
def swap(child, where, p, q):  # type: ignore[no-untyped-def]
    """The items at positions p and q change places; ``where`` knows the position of each item."""
    a, b = child[p], child[q]
    child[p], child[q] = b, a
    where[a], where[b] = q, p


@njit(cache=True, nogil=True)
def grow(genomes, fixed, cells, position, rows, cols, right, down, noise, state):  # type: ignore[no-untyped-def]
    """Make random ``genomes`` boards that have grown, in place.

    From the pinned pieces, or from one piece anywhere: again and again the piece is added that has
    the highest mean pair score with its neighbours there, plus up to ``noise``.
    """
    n, size, count = len(right), genomes.shape[1], len(cells)
    # scores of all pieces beside a piece that lies at [0] their left, [1] right, [2] top, [3] below
    beside = np.empty((4, n, n))
    beside[0], beside[1], beside[2], beside[3] = right, right.T, down, down.T
    where = np.empty(size, np.int32)
    placed = np.empty(size, np.bool_)  # by position
    near = np.empty(count, np.int32)  # placed neighbours of a position
    total = np.empty((count, n))  # their scores with every piece
    best = np.empty(count)
    item = np.empty(count, np.int32)  # the piece that fits best
    for child in genomes:
        left = free = 0
        near[:] = 0
        item[:] = -1
        for p in range(size):
            where[child[p]] = p
            placed[p] = fixed[p]
            left += child[p] < n and not fixed[p]
            free += p < count and not fixed[p]
        begun = False
        for p in range(count):
            if fixed[p] and child[p] < n:
                begun = True
                _join(p, child[p], near, total, item, placed, cells, position, rows, cols, beside)
        for p in range(count):
            if near[p]:
                _look(p, near, total, best, item, placed, where, noise, state)
        while left:
            to = -1
            if begun:
                for p in range(count):
                    if item[p] >= 0 and not placed[p] and (to < 0 or best[p] > best[to]):
                        to = p
                if to < 0:  # no free cell beside a piece: the rest stays where chance put it
                    break
            elif free:
                to = _pick(placed[:count], below(state, free))
                item[to] = child[_loose(child, placed, n, below(state, left))]
            else:
                break
            piece = item[to]
            swap(child, where, where[piece], to)
            placed[to] = begun = True
            left -= 1
            _join(to, piece, near, total, item, placed, cells, position, rows, cols, beside)
            for p in range(count):
                if near[p] and not placed[p] and (item[p] == piece or item[p] < 0):
                    _look(p, near, total, best, item, placed, where, noise, state)


@njit(cache=True, nogil=True)
def _pick(taken, k):  # type: ignore[no-untyped-def]
    """The ``k``-th position that is not taken."""
    for p in range(len(taken)):
        if not taken[p]:
            if k == 0:
                return p
            k -= 1
    return -1


@njit(cache=True, nogil=True)
def _loose(child, placed, n, k):  # type: ignore[no-untyped-def]
    """Position of the ``k``-th piece that is not placed."""
    for p in range(len(child)):
        if child[p] < n and not placed[p]:
            if k == 0:
                return p
            k -= 1
    return -1


@njit(cache=True, nogil=True)
def _join(p, piece, near, total, item, placed, cells, position, rows, cols, beside):  # type: ignore[no-untyped-def]
    """Tell the free neighbours of position p that ``piece`` lies there; which piece fits them best
    is no longer known."""
    r, c = cells[p] // cols, cells[p] % cols
    for side in range(4):
        if side == 0:
            q = position[cells[p] + 1] if c + 1 < cols else -1
        elif side == 1:
            q = position[cells[p] - 1] if c > 0 else -1
        elif side == 2:
            q = position[cells[p] + cols] if r + 1 < rows else -1
        else:
            q = position[cells[p] - cols] if r > 0 else -1
        if q < 0 or placed[q]:
            continue
        if near[q] == 0:
            total[q] = beside[side, piece]
        else:
            total[q] += beside[side, piece]
        near[q] += 1
        item[q] = -1


@njit(cache=True, nogil=True)
def _look(p, near, total, best, item, placed, where, noise, state):  # type: ignore[no-untyped-def]
    """Which piece fits position p best."""
    found, which = -1.0, -1
    for i in range(total.shape[1]):
        if placed[where[i]]:
            continue
        value = total[p, i] / near[p]
        if value + noise > found:
            value += noise * uniform(state)
            if value > found:
                found, which = value, i
    best[p], item[p] = found, which
