"""How a new board comes from old ones: grown afresh, crossed, or torn open and regrown."""

from __future__ import annotations

import numpy as np
from numba import njit

from .growth import frame_to_board, grow
from .moves import EPS, best_shift, block_exchange, block_gain, climb, full_score
from .random import below


@njit(cache=True, nogil=True)
def settle(w, board, cell, dirty, state):  # type: ignore[no-untyped-def]
    """Climb from ``dirty`` cells and translate until neither gains; returns the score."""
    shifted = np.empty_like(board)
    cells = w.rows * w.cols
    while True:
        climb(w, board, cell, dirty, state)
        if w.anchored or best_shift(w, board, shifted) <= EPS:
            return full_score(w, board)
        board[:cells] = shifted[:cells]
        for c in range(cells):
            if board[c] >= 0:
                cell[board[c]] = c
            dirty[c] = True


@njit(cache=True, nogil=True)
def regrow(w, parents, bonus, board, cell, keep, floating, noise, state):  # type: ignore[no-untyped-def]
    """Regrow, in place, all cells that are not kept.

    ``floating``: the kept part may end up anywhere on the board (unless the board is anchored).
    When nothing is kept, one random piece begins.
    """
    rows, cols = w.rows, w.cols
    stride = 2 * cols + 1
    frame = np.full((2 * rows + 1) * stride, -1, np.int32)
    floating = floating and not w.anchored
    last_row, last_col = -1, -1  # of what is kept
    for c in range(rows * cols):
        if keep[c] and board[c] >= 0:
            last_row, last_col = max(last_row, c // cols), max(last_col, c % cols)
    # The kept box ends in the middle of the frame, so that it has room on all sides.
    down = rows - last_row if floating else 1
    across = cols - last_col if floating else 1
    for c in range(rows * cols):
        s = (c // cols + down) * stride + c % cols + across
        if keep[c] and board[c] >= 0:
            frame[s] = board[c]
        elif w.fixed[c]:
            frame[s] = -2
    if last_row < 0 and floating:
        frame[rows * stride + cols] = below(state, len(cell))
    top, left = grow(w, parents, bonus, frame, floating, noise, state)
    frame_to_board(w, frame, top, left, board, cell)


@njit(cache=True, nogil=True)
def _flood(w, board, threshold, first, label, number, part):  # type: ignore[no-untyped-def]
    """Label what links above ``threshold`` hold to cell ``first``; its cells, in ``part``."""
    label[first] = number
    part[0] = first
    size, done = 1, 0
    while done < size:
        s = part[done]
        done += 1
        for d in range(4):
            x = w.near[s, d]
            if x < 0 or board[x] < 0 or label[x] >= 0:
                continue
            if w.at[d, board[s], board[x]] > threshold:
                label[x] = number
                part[size] = x
                size += 1
    return size


@njit(cache=True, nogil=True)
def largest_part(w, board, threshold, keep):  # type: ignore[no-untyped-def]
    """Mark in ``keep`` the largest part of the board held together by links above ``threshold``."""
    cells = w.rows * w.cols
    label = np.full(cells, -1, np.int32)
    part = np.empty(cells, np.int32)
    best, most = -1, 0
    for c in range(cells):
        if label[c] < 0 and board[c] >= 0:
            size = _flood(w, board, threshold, c, label, c, part)
            if size > most:
                best, most = c, size
    for c in range(cells):
        keep[c] = label[c] == best or w.fixed[c]


@njit(cache=True, nogil=True)
def carry_part(w, board, threshold, keep, state):  # type: ignore[no-untyped-def]
    """Carry a random part to another place of an anchored board and mark it in ``keep``.

    The place is one of those where fewest pieces of the part fall on fixed cells; these few are
    dropped. A part that holds a pin stays. Every other time, what is linked elsewhere is kept as
    well: behind blocked cells it may be right already. The rest is left for `regrow`.
    """
    rows, cols = w.rows, w.cols
    label = np.full(rows * cols, -1, np.int32)
    part = np.empty(rows * cols, np.int32)
    keep[:] = w.fixed
    c = below(state, rows * cols)
    if board[c] < 0:
        return
    size = _flood(w, board, threshold, c, label, 0, part)
    r0, r1, c0, c1 = rows, -1, cols, -1
    pinned = False
    for c in part[:size]:
        pinned = pinned or w.fixed[c]
        r0, r1 = min(r0, c // cols), max(r1, c // cols)
        c0, c1 = min(c0, c % cols), max(c1, c % cols)
    fewest, ties, by = size, 0, 0
    if not pinned:
        for dr in range(-r0, rows - r1):
            for dc in range(-c0, cols - c1):
                if dr == 0 and dc == 0:
                    continue
                lost = 0
                for c in part[:size]:
                    if w.fixed[c + dr * cols + dc]:
                        lost += 1
                        if lost > fewest:
                            break
                if lost < fewest:
                    fewest, ties = lost, 0
                if lost == fewest:
                    ties += 1
                    if below(state, ties) == 0:
                        by = dr * cols + dc
    pieces = board[part[:size]]
    if below(state, 2) == 0:
        for c in range(rows * cols):
            if board[c] < 0 or label[c] >= 0:
                continue
            for d in range(4):
                x = w.near[c, d]
                if x >= 0 and board[x] >= 0 and w.at[d, board[c], board[x]] > threshold:
                    keep[c] = True
    for k in range(size):
        x = part[k] + by
        if not w.fixed[x]:
            board[x] = pieces[k]
            keep[x] = True


@njit(cache=True, nogil=True)
def weak_cell(w, board, state):  # type: ignore[no-untyped-def]
    """A cell whose links are weak: the weakest of a random handful."""
    weakest = 1e30
    found = 0
    for _ in range(6):
        c = below(state, w.rows * w.cols)
        total, links = 0.0, 0
        for d in range(4):
            x = w.near[c, d]
            if x >= 0:
                links += 1
                if board[c] >= 0 and board[x] >= 0:
                    total += w.at[d, board[c], board[x]]
        if total / max(links, 1) < weakest:
            weakest = total / max(links, 1)
            found = c
    return found


@njit(cache=True, nogil=True)
def open_region(w, centre, size, state, keep):  # type: ignore[no-untyped-def]
    """Clear ``keep`` on a random connected region of up to ``size`` cells around ``centre``."""
    edge = np.empty(4 * size + 4, np.int32)
    edge[0] = centre
    count, taken = 1, 0
    while count > 0 and taken < size:
        k = below(state, count)
        c = edge[k]
        count -= 1
        edge[k] = edge[count]
        taken += 1
        if w.fixed[c] or not keep[c]:
            continue
        keep[c] = False
        for d in range(4):
            x = w.near[c, d]
            if x >= 0 and keep[x] and count < len(edge):
                edge[count] = x
                count += 1


@njit(cache=True, nogil=True)
def move_blocks(w, board, cell, tries, dirty, state, least=EPS):  # type: ignore[no-untyped-def]
    """Carry blocks around weak cells to where one of their pieces would rather be.

    A piece of a block names the place: the cell beside the friend it likes best. The block is
    exchanged with what lies there if the board gains more than ``least`` nats. Returns the number
    of exchanges.
    """
    rows, cols = w.rows, w.cols
    scratch = np.empty(2 * rows * cols, np.int32)
    mark = np.zeros(len(board), np.bool_)
    moved = 0
    for _ in range(tries):
        c = weak_cell(w, board, state)
        e = below(state, 4)
        if board[c] < 0 or w.cand[e, board[c], 0] < 0:
            continue
        target = w.near[cell[w.cand[e, board[c], 0]], e ^ 2]
        if target < 0 or target == c:
            continue
        height = 1 + below(state, max(1, rows // 2))
        width = 1 + below(state, max(1, cols // 2))
        r = c // cols - below(state, height)
        k = c % cols - below(state, width)
        dr, dk = target // cols - c // cols, target % cols - c % cols
        if abs(dr) < height and abs(dk) < width:
            continue  # they would overlap
        if min(r, r + dr) < 0 or max(r, r + dr) + height > rows:
            continue
        if min(k, k + dk) < 0 or max(k, k + dk) + width > cols:
            continue
        a, b = r * cols + k, (r + dr) * cols + k + dk
        pinned = False
        for y in range(height):
            for x in range(width):
                pinned = pinned or w.fixed[a + y * cols + x] or w.fixed[b + y * cols + x]
        if pinned or block_gain(w, board, cell, a, b, height, width, scratch, mark) <= least:
            continue
        block_exchange(board, cell, a, b, height, width, cols)
        moved += 1
        for y in range(height):
            for x in range(width):
                dirty[a + y * cols + x] = True
                dirty[b + y * cols + x] = True
    return moved
