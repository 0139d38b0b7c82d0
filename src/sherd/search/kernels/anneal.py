"""Annealing: swaps that lose are made too, the fewer the later it is.

Climbing and breeding leave a patch in one of its many local optima. A patch that is heated until
even good links break, and cooled slowly, ends in a better one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .blocks import pinned
from .moves import block_exchange, block_gain, climb, exchange, full_score, swap_gain
from .random import below, uniform

SIDE = 4
"""Most rows and columns of a block."""
BLOCKS = 0.1
"""Share of the moves that exchange blocks."""
STEP = 256
"""Moves between two temperatures."""
FAITH = 4
"""How much rather a piece is tried beside its best friends: the power of a uniform number that
draws a place in their list."""


@njit(cache=True, nogil=True)
def _accepts(gain, heat, state):  # type: ignore[no-untyped-def]
    """Metropolis' rule."""
    return gain >= 0.0 or uniform(state) < np.exp(gain / heat)


@njit(cache=True, nogil=True)
def anneal(w, board, moves, hot, cold, state):  # type: ignore[no-untyped-def]
    """Make ``moves`` moves while the temperature falls from ``hot`` to ``cold`` nats, then climb;
    the best board met is left in ``board``, and its score returned.

    A move brings a piece beside one that would like to see it there: a swap with what lies there,
    or, more rarely, the exchange of the blocks around both. There may be no pool.
    """
    rows, cols = w.rows, w.cols
    loose = np.flatnonzero(~w.fixed)
    best = full_score(w, board)
    if len(loose) < 2:
        return best
    cell = np.full(w.at.shape[1], -1, np.int32)
    for c in range(len(board)):
        if board[c] >= 0:
            cell[board[c]] = c
    scratch = np.empty(2 * SIDE * SIDE, np.int32)
    mark = np.zeros(len(board), np.bool_)
    now = board.copy()
    score, heat = best, hot
    for move in range(moves):
        if move % STEP == 0:
            heat = hot * (cold / hot) ** (move / moves)
        a = loose[below(state, len(loose))]
        d = below(state, 4)
        x = w.near[a, d]
        if x < 0 or now[x] < 0:
            continue
        rank = int(uniform(state) ** FAITH * w.cand.shape[2])
        friend = w.cand[d ^ 2, now[x], rank]
        if friend < 0 or cell[friend] == a:
            continue
        b = cell[friend]
        if uniform(state) >= BLOCKS:
            if w.fixed[b]:
                continue
            gain = swap_gain(w, now, a, b)
            if _accepts(gain, heat, state):
                exchange(now, cell, a, b)
                score += gain
        else:
            height, width = 1 + below(state, SIDE), 1 + below(state, SIDE)
            up, left = below(state, height), below(state, width)
            r, k = a // cols - up, a % cols - left
            y, z = b // cols - up, b % cols - left
            if abs(r - y) < height and abs(k - z) < width:
                continue  # they would overlap
            if min(r, y) < 0 or max(r, y) + height > rows:
                continue
            if min(k, z) < 0 or max(k, z) + width > cols:
                continue
            first, second = r * cols + k, y * cols + z
            if pinned(w, first, second, height, width):
                continue
            gain = block_gain(w, now, cell, first, second, height, width, scratch, mark)
            if _accepts(gain, heat, state):
                block_exchange(now, cell, first, second, height, width, cols)
                score += gain
        if score > best + 1e-3:
            best = score
            board[:] = now
    climb(w, now, cell, ~w.fixed, state)
    if full_score(w, now) > best:
        board[:] = now
    return full_score(w, board)
