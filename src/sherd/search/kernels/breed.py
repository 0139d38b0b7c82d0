"""How a new board comes from old ones: grown afresh, crossed, or torn open and regrown."""

from __future__ import annotations

import numpy as np
from numba import njit

from .growth import frame_to_board, grow
from .moves import best_shift, climb, full_score
from .random import below

NO_PARENTS = np.empty((0, 4, 0), np.int32)


@njit(cache=True, nogil=True)
def settle(at, border, cand, near, rim, fixed, anchored, rows, cols, board, cell, dirty, state):  # type: ignore[no-untyped-def]
    """Climb from ``dirty`` cells and translate until neither gains; returns the score."""
    shifted = np.empty_like(board)
    while True:
        climb(at, border, cand, near, rim, board, cell, fixed, dirty, state)
        if anchored:
            break
        gain = best_shift(at, border, near, rim, board, rows, cols, shifted)
        if gain <= 1e-3:
            break
        board[: rows * cols] = shifted[: rows * cols]
        for c in range(rows * cols):
            if board[c] >= 0:
                cell[board[c]] = c
            dirty[c] = True
    return full_score(at, border, near, rim, board)


@njit(cache=True, nogil=True)
def lay(frame, board, keep, rows, cols, fixed, top, left):  # type: ignore[no-untyped-def]
    """Lay the kept cells of ``board`` into an empty ``frame`` with its corner at (top, left)."""
    stride = 2 * cols + 1
    frame[:] = -1
    for c in range(rows * cols):
        s = (top + c // cols) * stride + left + c % cols
        if keep[c] and board[c] >= 0:
            frame[s] = board[c]
        elif fixed[c] and board[c] < 0:
            frame[s] = -2


@njit(cache=True, nogil=True)
def regrow(
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
    whole,
    noise,
    state,
):  # type: ignore[no-untyped-def]
    """Regrow all that is not kept, in place. ``whole``: the kept part floats as one."""
    n = at.shape[1]
    frame = np.empty((2 * rows + 1) * (2 * cols + 1), np.int32)
    floating = whole and not anchored
    top, left = 1, 1
    if floating:
        r0, r1, c0, c1 = rows, -1, cols, -1
        for c in range(rows * cols):
            if keep[c] and board[c] >= 0:
                r0, r1 = min(r0, c // cols), max(r1, c // cols)
                c0, c1 = min(c0, c % cols), max(c1, c % cols)
        if r1 < 0:  # nothing kept: one piece begins
            keep[:] = False
            seed = below(state, n)
            lay(frame, board, keep, rows, cols, fixed, 1, 1)
            frame[rows * (2 * cols + 1) + cols] = seed
            top, left = grow(at, cand, parents, bonus, frame, rows, cols, True, noise, state)
            frame_to_board(frame, top, left, rows, cols, n, fixed, board, cell)
            return
        top = rows - r1  # room on all sides
        left = cols - c1
        # corner such that the kept box ends at row `rows`, column `cols` of the frame
        _lay_box(frame, board, keep, rows, cols, r0, r1, c0, c1)
    else:
        lay(frame, board, keep, rows, cols, fixed, 1, 1)
        empty = True
        for c in range(rows * cols):
            if keep[c] and board[c] >= 0:
                empty = False
        if empty:
            _seed_anchored(frame, rows, cols, fixed, n, state)
    top, left = grow(at, cand, parents, bonus, frame, rows, cols, floating, noise, state)
    frame_to_board(frame, top, left, rows, cols, n, fixed, board, cell)


@njit(cache=True, nogil=True)
def _lay_box(frame, board, keep, rows, cols, r0, r1, c0, c1):  # type: ignore[no-untyped-def]
    stride = 2 * cols + 1
    frame[:] = -1
    for r in range(r0, r1 + 1):
        for c in range(c0, c1 + 1):
            s = r * cols + c
            if keep[s] and board[s] >= 0:
                frame[(r - r1 + rows) * stride + c - c1 + cols] = board[s]


@njit(cache=True, nogil=True)
def _seed_anchored(frame, rows, cols, fixed, n, state):  # type: ignore[no-untyped-def]
    """Lay one random piece on a random free cell of an anchored, empty frame."""
    stride = 2 * cols + 1
    free = 0
    for c in range(rows * cols):
        if not fixed[c]:
            free += 1
    if free == 0:
        return
    k = below(state, free)
    for c in range(rows * cols):
        if fixed[c]:
            continue
        if k == 0:
            frame[(1 + c // cols) * stride + 1 + c % cols] = below(state, n)
            return
        k -= 1


@njit(cache=True, nogil=True)
def largest_part(at, near, board, cells, threshold, state, keep):  # type: ignore[no-untyped-def]
    """Mark in ``keep`` the largest part of the board held together by links above ``threshold``."""
    label = np.full(cells, -1, np.int32)
    stack = np.empty(cells, np.int32)
    best_label, best_size, labels = -1, 0, 0
    for c in range(cells):
        if label[c] >= 0 or board[c] < 0:
            continue
        label[c] = labels
        stack[0] = c
        count, size = 1, 0
        while count > 0:
            count -= 1
            s = stack[count]
            size += 1
            for d in range(4):
                x = near[s, d]
                if (
                    x >= 0
                    and board[x] >= 0
                    and label[x] < 0
                    and at[d, board[s], board[x]] > threshold
                ):
                    label[x] = labels
                    stack[count] = x
                    count += 1
        if size > best_size:
            best_size, best_label = size, labels
        labels += 1
    for c in range(cells):
        keep[c] = label[c] == best_label
    return best_size


@njit(cache=True, nogil=True)
def weak_cell(at, near, board, cells, state):  # type: ignore[no-untyped-def]
    """A cell whose links are weak: the weakest of a random handful."""
    worst = 1e30
    found = below(state, cells)
    for _ in range(6):
        c = below(state, cells)
        s = 0.0
        k = 0
        for d in range(4):
            x = near[c, d]
            if x >= 0:
                k += 1
                if board[c] >= 0 and board[x] >= 0:
                    s += at[d, board[c], board[x]]
        s = s / max(k, 1)
        if s < worst:
            worst = s
            found = c
    return found


@njit(cache=True, nogil=True)
def open_region(near, fixed, cells, centre, size, state, keep):  # type: ignore[no-untyped-def]
    """Clear ``keep`` on a random connected region of ``size`` cells around ``centre``."""
    stack = np.empty(4 * size + 4, np.int32)
    stack[0] = centre
    count = 1
    taken = 0
    while count > 0 and taken < size:
        k = below(state, count)
        c = stack[k]
        count -= 1
        stack[k] = stack[count]
        if not keep[c]:
            continue
        if not fixed[c]:
            keep[c] = False
        taken += 1
        for d in range(4):
            x = near[c, d]
            if x >= 0 and keep[x] and count < len(stack):
                stack[count] = x
                count += 1
