"""One island: a small population of boards, best first, bred in place."""

from __future__ import annotations

import numpy as np
from numba import njit

from .breed import (
    carry_part,
    largest_part,
    move_blocks,
    open_region,
    regrow,
    settle,
    weak_cell,
)
from .growth import neighbours_of
from .moves import EPS
from .random import below, uniform

CROSS, ROUND, REGION, BLOCKS = 0, 1, 2, 3
"""Kinds of birth: crossover; regrowth round what holds together; regrowth of a weak region;
blocks carried to where they would rather be."""
KINDS = 4
BLOCK_TRIES = 40
LARGEST_REGION = 200
BALANCED = 600
"""Up to this many cells half of the births grow whole boards; beyond, fewer: they cost O(n)."""


@njit(cache=True, nogil=True)
def settle_new(w, start, noise, state, boards, scores, first, last):  # type: ignore[no-untyped-def]
    """Fill ``boards[first:last]`` with boards grown from ``start`` alone, and score them."""
    cell = np.empty(w.at.shape[1], np.int32)
    nobody = np.empty((0, 4, w.at.shape[1]), np.int32)
    dirty = np.empty(len(start), np.bool_)
    for b in range(first, last):
        boards[b] = start
        regrow(w, nobody, 0.0, boards[b], cell, w.fixed.copy(), True, noise, state)
        dirty[:] = True
        scores[b] = settle(w, boards[b], cell, dirty, state)


@njit(cache=True, nogil=True)
def bear(  # type: ignore[no-untyped-def]
    w, noise, bonus, spread, whole, tries, least, state, boards, a, board, cell, keep, dirty
):
    """A child of ``boards[a]``, not settled yet, into ``board`` and ``cell``; its kind of birth.

    A share ``whole`` of the births grows whole boards. ``dirty`` marks what has changed: nothing,
    if no block found a better place. A block is carried if the board gains more than ``least``;
    ``tries`` times.
    """
    n, size, cells = w.at.shape[1], len(boards), w.rows * w.cols
    nobody = np.empty((0, 4, n), np.int32)
    board[:] = boards[a]
    for c in range(len(board)):
        if board[c] >= 0:
            cell[board[c]] = c
    kind = below(state, 2) if uniform(state) < whole else REGION + below(state, 2)
    dirty[:] = True
    if kind == CROSS:
        parents = np.empty((2, 4, n), np.int32)
        b = (a + 1 + below(state, size - 1)) % size
        neighbours_of(w, board, parents[0])
        neighbours_of(w, boards[b], parents[1])
        keep[:] = w.fixed
        regrow(w, parents, bonus, board, cell, keep, True, noise, state)
    elif kind == ROUND:
        threshold = spread * uniform(state)
        if w.anchored and below(state, 2) == 0:  # an anchored board does not float by itself
            carry_part(w, board, threshold, keep, state)
        else:
            largest_part(w, board, threshold, keep)
        regrow(w, nobody, 0.0, board, cell, keep, True, noise, state)
    elif kind == REGION:
        keep[:] = True
        most = max(4, min(cells // 2, LARGEST_REGION))
        open_region(w, weak_cell(w, board, state), 2 + below(state, most), state, keep)
        dirty[:] = ~keep
        regrow(w, nobody, 0.0, board, cell, keep, False, 2.0 * noise, state)
    else:
        dirty[:] = False
        move_blocks(w, board, cell, tries, dirty, state, least)
    return kind


@njit(cache=True, nogil=True)
def breed(w, noise, bonus, spread, children, state, boards, scores, tally):  # type: ignore[no-untyped-def]
    """``children`` births. ``tally (KINDS, 2)`` counts births and new bests by kind."""
    size = len(boards)
    whole = max(0.125, min(0.5, 0.5 * BALANCED / (w.rows * w.cols)))
    board = np.empty(boards.shape[1], np.int32)
    cell = np.empty(w.at.shape[1], np.int32)
    keep = np.empty(boards.shape[1], np.bool_)
    dirty = np.empty(boards.shape[1], np.bool_)
    for _ in range(children):
        a = min(below(state, size), below(state, size))  # boards are kept best first
        kind = bear(
            w,
            noise,
            bonus,
            spread,
            whole,
            BLOCK_TRIES,
            EPS,
            state,
            boards,
            a,
            board,
            cell,
            keep,
            dirty,
        )
        tally[kind, 0] += 1
        if not dirty.any():
            continue
        score = settle(w, board, cell, dirty, state)
        # A small change replaces its parent, so that variety stays; a new board the weakest.
        target = a if kind >= REGION else size - 1
        if score <= scores[target] + EPS or _has_twin(w, boards, scores, board, score):
            continue
        if score > scores[0] + EPS:
            tally[kind, 1] += 1
        while target > 0 and scores[target - 1] < score:
            boards[target] = boards[target - 1]
            scores[target] = scores[target - 1]
            target -= 1
        boards[target] = board
        scores[target] = score


@njit(cache=True, nogil=True)
def _has_twin(w, boards, scores, board, score):  # type: ignore[no-untyped-def]
    """Is there the same board already? The order of the pool does not count."""
    cells = w.rows * w.cols
    for b in range(len(boards)):
        if abs(scores[b] - score) < EPS and np.array_equal(boards[b, :cells], board[:cells]):
            return True
    return False
