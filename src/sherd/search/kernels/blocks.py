"""Small blocks carried to where they belong, all of them tried.

What is left wrong on a large board are often a few blocks of a few pieces each that lie in each
other's places: right in themselves, so that no swap of single pieces gains, and too small for a
random block to hit. They are few enough to be tried one by one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .breed import settle
from .moves import EPS, block_exchange, block_gain

DEPTH = 8
"""Friends of a piece that name places for its block, a side."""
SIDE = 6
"""Most rows and columns of a block."""
WEAK = 1.0
"""A piece begins a block if one of its links has fewer nats."""


@njit(cache=True, nogil=True)
def _weak(w, board, c):  # type: ignore[no-untyped-def]
    """Is one of the links of cell ``c`` weak?"""
    for d in range(4):
        x = w.near[c, d]
        if x >= 0 and board[x] >= 0 and w.at[d, board[c], board[x]] < WEAK:
            return True
    return False


@njit(cache=True, nogil=True)
def pinned(w, a, b, height, width):  # type: ignore[no-untyped-def]
    """Does one of the two blocks hold a fixed cell?"""
    for y in range(height):
        for x in range(width):
            if w.fixed[a + y * w.cols + x] or w.fixed[b + y * w.cols + x]:
                return True
    return False


@njit(cache=True, nogil=True)
def _best_block(w, board, cell, c, scratch, mark):  # type: ignore[no-untyped-def]
    """The exchange of two blocks, one around cell ``c``, that gains most:
    (gain, corner, other corner, height, width); a gain of 0 = none."""
    rows, cols = w.rows, w.cols
    top, first, second, tall, wide = EPS, 0, 0, 0, 0
    for e in range(4):
        for k in range(min(DEPTH, w.cand.shape[2])):
            friend = w.cand[e, board[c], k]
            if friend < 0:
                break
            target = w.near[cell[friend], e ^ 2]
            if target < 0 or target == c:
                continue
            dr, dk = target // cols - c // cols, target % cols - c % cols
            for height in range(1, min(SIDE, rows) + 1):
                for width in range(1, min(SIDE, cols) + 1):
                    if abs(dr) < height and abs(dk) < width:
                        continue  # they would overlap
                    for r in range(c // cols - height + 1, c // cols + 1):
                        if min(r, r + dr) < 0 or max(r, r + dr) + height > rows:
                            continue
                        for q in range(c % cols - width + 1, c % cols + 1):
                            if min(q, q + dk) < 0 or max(q, q + dk) + width > cols:
                                continue
                            a, b = r * cols + q, (r + dr) * cols + q + dk
                            if w.anchored and pinned(w, a, b, height, width):
                                continue
                            gain = block_gain(w, board, cell, a, b, height, width, scratch, mark)
                            if gain > top:
                                top, first, second, tall, wide = gain, a, b, height, width
    return (top if tall else 0.0), first, second, tall, wide


@njit(cache=True, nogil=True)
def carry_blocks(w, board, state):  # type: ignore[no-untyped-def]
    """Exchange blocks of ``board``, in place, as long as one gains; returns the score.

    Every weak piece names the places where its block would be beside a friend of it, and the best
    exchange of all is made.
    """
    cells = w.rows * w.cols
    cell = np.full(w.at.shape[1], -1, np.int32)
    for c in range(len(board)):
        if board[c] >= 0:
            cell[board[c]] = c
    scratch = np.empty(2 * SIDE * SIDE, np.int32)
    mark = np.zeros(len(board), np.bool_)
    dirty = np.zeros(len(board), np.bool_)
    moved = True
    while moved:
        moved = False
        for c in range(cells):
            if board[c] < 0 or w.fixed[c] or not _weak(w, board, c):
                continue
            gain, a, b, height, width = _best_block(w, board, cell, c, scratch, mark)
            if gain <= EPS:
                continue
            block_exchange(board, cell, a, b, height, width, w.cols)
            moved = True
            for y in range(height):
                for x in range(width):
                    dirty[a + y * w.cols + x] = True
                    dirty[b + y * w.cols + x] = True
        score = settle(w, board, cell, dirty, state)
    return score
