"""Numba kernels of the genetic algorithm: the kernel-growing crossover and its bookkeeping.

Names used throughout:

``board[c]``      int32 ``(M·N,)``: piece in cell c, row-major, -1 = empty.
``around[d, p]``  int32 ``(4, n)``: the piece at side d of piece p on a board, -1 = none.
``buddy[d, p]``   int32 ``(4, n)``: the best buddy at side d of p, -1 = none.
``ranked[d, p]``  int32 ``(4, n, n-1)``: all other pieces, most compatible with side d of p first.
``free[r, c]``    bool ``(M, N)``: the cell may hold a piece.
``state``         uint64 ``(1,)``: the random state.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..search.kernels.random import below, uniform

PIECE = (1 << 32) - 1
"""The lower half of a packed candidate."""


@njit(cache=True, nogil=True)
def describe(board, free, right, down, chance, around):  # type: ignore[no-untyped-def]
    """Fill ``around`` and return the cost: the dissimilarity summed over all adjacent free cells.

    A pair of cells of which one is empty costs ``chance``.
    """
    rows, cols = free.shape
    around[:] = -1
    cost = 0.0
    for r in range(rows):
        for c in range(cols):
            if not free[r, c]:
                continue
            p = board[r * cols + c]
            if c + 1 < cols and free[r, c + 1]:
                q = board[r * cols + c + 1]
                if p >= 0 and q >= 0:
                    around[1, p] = q
                    around[3, q] = p
                    cost += right[p, q]
                else:
                    cost += chance
            if r + 1 < rows and free[r + 1, c]:
                q = board[(r + 1) * cols + c]
                if p >= 0 and q >= 0:
                    around[2, p] = q
                    around[0, q] = p
                    cost += down[p, q]
                else:
                    cost += chance
    return cost


@njit(cache=True, nogil=True)
def fits(cell, bits, oy, ox, origins, free):  # type: ignore[no-untyped-def]
    """Whether some place that is left for the frame has a free cell at canvas ``cell``."""
    rows, cols = free.shape
    y = cell >> bits
    x = cell & ((1 << bits) - 1)
    for k in range(origins):
        r = y - oy[k]
        c = x - ox[k]
        if 0 <= r < rows and 0 <= c < cols and free[r, c]:
            return True
    return False


@njit(cache=True, nogil=True)
def grow(a, b, buddy, ranked, free, pins, mutation, state, board):  # type: ignore[no-untyped-def]
    """Crossover of the parents whose neighbours are ``a`` and ``b``; writes the child's ``board``.

    The child grows on a canvas from one random piece (or from the pinned ones). ``oy, ox`` are
    the places that the frame of M×N cells can still take around it; a cell that lies in none of
    them is out of bounds. ``pins[c]`` is a board with the pinned pieces, else -1. Lines of the
    canvas have 2^``bits`` cells and candidates are packed by shifts: a placement would else spend
    half its time on divisions.
    """
    rows, cols = free.shape
    n = buddy.shape[1]
    bits = 1
    while 1 << bits < 2 * cols + 1:
        bits += 1
    stride = 1 << bits
    step = (-stride, 1, stride, -1)
    canvas = np.full((2 * rows + 1) * stride, -1, np.int32)
    spare = np.arange(n, dtype=np.int32)  # the pieces not yet laid, first ``left`` entries
    where = np.arange(n, dtype=np.int32)
    left = n
    next_rank = np.zeros((4, n), np.int32)
    oy = np.empty(rows * cols, np.int32)
    ox = np.empty(rows * cols, np.int32)
    agreed = np.empty(4 * n, np.int64)  # canvas cell · 2^32 + piece
    buddies = np.empty(4 * n, np.int64)
    edges = np.empty(4 * n, np.int64)  # canvas cell · 2^32 + 4 · piece + side
    n_agreed = n_buddies = n_edges = origins = room = 0

    pinned = False
    for i in range(rows * cols):
        room += free[i // cols, i % cols]
        pinned |= pins[i] >= 0
    next_pin = 0 if pinned else rows * cols
    if pinned:
        oy[0] = ox[0] = origins = 1
    else:
        for r in range(rows):
            for c in range(cols):
                oy[origins] = rows - r
                ox[origins] = cols - c
                origins += 1

    while left > 0 and room > 0:
        piece = -1
        cell = -1
        while next_pin < rows * cols:  # phase 0: what is known
            i = next_pin
            next_pin += 1
            if pins[i] >= 0:
                piece = pins[i]
                cell = (1 + i // cols) * stride + 1 + i % cols
                break
        if piece < 0 and left == n:
            piece = below(state, n)
            cell = rows * stride + cols
        while piece < 0 and n_agreed > 0:  # phase 1: both parents agree
            k = below(state, n_agreed)
            cell = agreed[k] >> 32
            j = agreed[k] & PIECE
            n_agreed -= 1
            agreed[k] = agreed[n_agreed]
            if canvas[cell] >= 0 or where[j] >= left:
                continue
            if uniform(state) < mutation:
                continue  # mutation: the agreement is passed over
            if fits(cell, bits, oy, ox, origins, free):
                piece = j
        while piece < 0 and n_buddies > 0:  # phase 2: best buddies that a parent has
            k = below(state, n_buddies)
            cell = buddies[k] >> 32
            j = buddies[k] & PIECE
            n_buddies -= 1
            buddies[k] = buddies[n_buddies]
            if canvas[cell] < 0 and where[j] < left and fits(cell, bits, oy, ox, origins, free):
                piece = j
        while piece < 0 and n_edges > 0:  # phase 3: a random edge, the most compatible piece
            k = below(state, n_edges)
            cell = edges[k] >> 32
            if canvas[cell] >= 0 or not fits(cell, bits, oy, ox, origins, free):
                n_edges -= 1
                edges[k] = edges[n_edges]
                continue
            if uniform(state) < mutation:
                piece = spare[below(state, left)]  # mutation: any piece
                continue
            d = edges[k] & 3
            q = (edges[k] & PIECE) >> 2
            while where[ranked[d, q, next_rank[d, q]]] >= left:
                next_rank[d, q] += 1
            piece = ranked[d, q, next_rank[d, q]]
        if piece < 0:  # blocked cells cut the rest off: begin an island there
            origins = 1
            piece = spare[below(state, left)]
            k = below(state, room)
            for i in range(rows * cols):
                at = (oy[0] + i // cols) * stride + ox[0] + i % cols
                if free[i // cols, i % cols] and canvas[at] < 0:
                    if k == 0:
                        cell = at
                        break
                    k -= 1

        canvas[cell] = piece
        room -= 1
        left -= 1
        k = where[piece]
        spare[k] = spare[left]
        spare[left] = piece
        where[spare[k]] = k
        where[piece] = left
        kept = 0
        for k in range(origins):
            r = (cell >> bits) - oy[k]
            c = (cell & (stride - 1)) - ox[k]
            if 0 <= r < rows and 0 <= c < cols and free[r, c]:
                oy[kept] = oy[k]
                ox[kept] = ox[k]
                kept += 1
        origins = kept
        for d in range(4):
            if canvas[cell + step[d]] >= 0:
                continue
            slot = cell + step[d]
            j = a[d, piece]
            if j >= 0 and j == b[d, piece] and where[j] < left:
                agreed[n_agreed] = slot << 32 | j
                n_agreed += 1
            j = buddy[d, piece]
            if j >= 0 and (j == a[d, piece] or j == b[d, piece]) and where[j] < left:
                buddies[n_buddies] = slot << 32 | j
                n_buddies += 1
            edges[n_edges] = slot << 32 | piece << 2 | d
            n_edges += 1

    for i in range(rows * cols):
        board[i] = canvas[(oy[0] + i // cols) * stride + ox[0] + i % cols]


@njit(cache=True, nogil=True)
def breed(  # type: ignore[no-untyped-def]
    boards,
    around,
    wheel,
    first,
    buddy,
    ranked,
    free,
    pins,
    right,
    down,
    chance,
    mutation,
    state,
    new_boards,
    new_around,
    new_costs,
):
    """Children for the places ``first…`` of the next generation.

    ``wheel`` is the running sum of the fitness: parents are drawn by roulette.
    """
    size = len(boards)
    for k in range(first, size):
        a = np.searchsorted(wheel, uniform(state) * wheel[size - 1], side="right")
        b = np.searchsorted(wheel, uniform(state) * wheel[size - 1], side="right")
        grow(
            around[min(a, size - 1)],
            around[min(b, size - 1)],
            buddy,
            ranked,
            free,
            pins,
            mutation,
            state,
            new_boards[k],
        )
        new_costs[k] = describe(new_boards[k], free, right, down, chance, new_around[k])


@njit(cache=True, nogil=True)
def evaluate(boards, free, right, down, chance, around, costs):  # type: ignore[no-untyped-def]
    """`describe` every board."""
    for k in range(len(boards)):
        costs[k] = describe(boards[k], free, right, down, chance, around[k])
