"""One island: a small population of boards, bred in place."""

from __future__ import annotations

import numpy as np
from numba import njit

from .breed import largest_part, open_region, regrow, settle, weak_cell
from .growth import neighbours_of
from .random import below, uniform


@njit(cache=True, nogil=True)
def found(
    at,
    border,
    cand,
    near,
    rim,
    fixed,
    anchored,
    rows,
    cols,
    start,
    noise,
    state,
    boards,
    scores,
    first,
    last,
):  # type: ignore[no-untyped-def]
    """Fill ``boards[first:last]`` with boards grown from scratch, and score them."""
    n = at.shape[1]
    cell = np.empty(n, np.int32)
    none = np.empty((0, 4, n), np.int32)
    for b in range(first, last):
        board = boards[b]
        board[:] = start
        keep = fixed.copy()
        regrow(
            at,
            cand,
            none,
            0.0,
            near,
            fixed,
            anchored,
            rows,
            cols,
            board,
            cell,
            keep,
            True,
            noise,
            state,
        )
        dirty = np.ones(len(board), np.bool_)
        scores[b] = settle(
            at, border, cand, near, rim, fixed, anchored, rows, cols, board, cell, dirty, state
        )


@njit(cache=True, nogil=True)
def breed(
    at,
    border,
    cand,
    near,
    rim,
    fixed,
    anchored,
    rows,
    cols,
    noise,
    bonus,
    spread,
    children,
    state,
    boards,
    scores,
    tally,
):  # type: ignore[no-untyped-def]
    """``children`` steady-state births. ``tally (3, 2)`` counts births and improvements by kind."""
    n = at.shape[1]
    cells = rows * cols
    size = len(boards)
    board = np.empty(boards.shape[1], np.int32)
    cell = np.empty(n, np.int32)
    keep = np.empty(boards.shape[1], np.bool_)
    dirty = np.empty(boards.shape[1], np.bool_)
    none = np.empty((0, 4, n), np.int32)
    parents = np.empty((2, 4, n), np.int32)
    for _ in range(children):
        a = min(below(state, size), below(state, size))  # boards are kept best first
        board[:] = boards[a]
        for c in range(len(board)):
            if board[c] >= 0:
                cell[board[c]] = c
        kind = below(state, 3)
        target = size - 1
        if kind == 0 and size > 1:  # crossover: grow afresh, parents' adjacencies favoured
            b = below(state, size - 1)
            if b >= a:
                b += 1
            neighbours_of(board, near, parents[0])
            neighbours_of(boards[b], near, parents[1])
            keep[:] = fixed
            regrow(
                at,
                cand,
                parents,
                bonus,
                near,
                fixed,
                anchored,
                rows,
                cols,
                board,
                cell,
                keep,
                True,
                noise,
                state,
            )
            dirty[:] = True
        elif kind == 1:  # keep what holds together, grow the rest round it, floating
            threshold = spread * uniform(state)
            largest_part(at, near, board, cells, threshold, state, keep)
            for c in range(cells):
                if fixed[c]:
                    keep[c] = True
            regrow(
                at,
                cand,
                none,
                0.0,
                near,
                fixed,
                anchored,
                rows,
                cols,
                board,
                cell,
                keep,
                True,
                noise,
                state,
            )
            dirty[:] = True
        else:  # tear open a weak region and regrow it where it was
            kind = 2
            keep[:] = True
            centre = weak_cell(at, near, board, cells, state)
            most = max(4, min(cells // 2, 60))
            open_region(near, fixed, cells, centre, 2 + below(state, most), state, keep)
            dirty[:] = ~keep
            regrow(
                at,
                cand,
                none,
                0.0,
                near,
                fixed,
                anchored,
                rows,
                cols,
                board,
                cell,
                keep,
                False,
                2.0 * noise,
                state,
            )
            target = a
        score = settle(
            at, border, cand, near, rim, fixed, anchored, rows, cols, board, cell, dirty, state
        )
        tally[kind, 0] += 1
        if kind == 2:
            if score <= scores[a] + 1e-4:
                continue
        else:
            if score <= scores[size - 1] + 1e-4:
                continue
            twin = False
            for b in range(size):
                if abs(scores[b] - score) < 1e-4 and np.array_equal(boards[b], board):
                    twin = True
            if twin:
                continue
        if score > scores[0] + 1e-4:
            tally[kind, 1] += 1
        while target > 0 and scores[target - 1] < score:  # insertion keeps the order
            boards[target] = boards[target - 1]
            scores[target] = scores[target - 1]
            target -= 1
        boards[target] = board
        scores[target] = score
