"""Constructive growth: the surest place first.

A board is grown from what is already laid. Every open slot knows its best candidate and how far
that leads the runner-up, in nats summed over all laid neighbours: the log-odds of the choice. The
slot with the largest lead is filled next. The frame floats: nothing says which cell of the puzzle
the first piece belongs to until rows and columns are used up.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .random import below, gumbel

NEVER = -1e30


@njit(cache=True, nogil=True)
def allowed(w, frame, used, slot, home, j):  # type: ignore[no-untyped-def]
    """May piece j lie in ``slot``? ``home`` is its cell, -1 in a frame that floats."""
    if home >= 0 and w.barred[home, j]:
        return False
    stride = 2 * w.cols + 1
    step = (-stride, 1, stride, -1)
    for e in range(4):
        friend = w.glue[e, j]
        if friend >= 0:
            p = frame[slot + step[e]]
            if p != friend and (p != -1 or used[friend]):
                return False
    return True


@njit(cache=True, nogil=True)
def slot_choice(w, parents, bonus, frame, used, slot, home, noise, state):  # type: ignore[no-untyped-def]
    """Best free candidate of an open slot: (piece or -1, its score, lead over the runner-up).

    ``home`` is the slot's cell, -1 in a frame that floats.
    """
    stride = 2 * w.cols + 1
    step = (-stride, 1, stride, -1)
    best = -1
    top = NEVER
    second = NEVER
    for d in range(4):
        q = frame[slot + step[d]]
        if q < 0:
            continue
        o = d ^ 2  # the slot lies at side o of q
        extra = parents.shape[0]
        for k in range(-extra, w.cand.shape[2]):
            j = parents[-k - 1, o, q] if k < 0 else w.cand[o, q, k]
            if j < 0:
                if k < 0:
                    continue
                break
            if used[j] or j == best:
                continue
            if w.bound and not allowed(w, frame, used, slot, home, j):
                continue
            s = 0.0
            for e in range(4):
                p = frame[slot + step[e]]
                if p >= 0:
                    s += w.at[e ^ 2, p, j]
                    for m in range(extra):
                        if parents[m, e ^ 2, p] == j:
                            s += bonus
            if s < -0.5 * w.big:
                continue
            if noise > 0.0:
                s += noise * gumbel(state)
            if s > top:
                second = top
                top = s
                best = j
            elif s > second:
                second = s
    if best < 0:
        return -1, NEVER, NEVER
    if w.bound:
        for e in range(4):
            if w.glue[e, best] >= 0 and frame[slot + step[e]] == w.glue[e, best]:
                return best, top, w.big  # it must lie here
    if second < top - 1e6:  # no runner-up: sure, but no surer than its own evidence
        return best, top, max(top, 0.0)
    return best, top, top - second


@njit(cache=True, nogil=True)
def any_choice(w, frame, used, slot, home):  # type: ignore[no-untyped-def]
    """Best free piece of all for a slot whose candidate lists are used up."""
    stride = 2 * w.cols + 1
    step = (-stride, 1, stride, -1)
    best = -1
    top = NEVER
    for j in range(len(used)):
        if used[j]:
            continue
        s = 0.0
        if w.bound and not allowed(w, frame, used, slot, home, j):
            s -= w.big
        for e in range(4):
            p = frame[slot + step[e]]
            if p >= 0:
                s += w.at[e ^ 2, p, j]
        if s > top:
            top = s
            best = j
    return best


@njit(cache=True, nogil=True)
def unreached(w, frame, state):  # type: ignore[no-untyped-def]
    """A random free slot of the board in a frame that does not float, -1 = none."""
    cells = w.rows * w.cols
    first = below(state, cells)
    for k in range(cells):
        c = (first + k) % cells
        slot = (c // w.cols + 1) * (2 * w.cols + 1) + c % w.cols + 1
        if frame[slot] == -1:
            return slot
    return -1


@njit(cache=True, nogil=True)
def grow(w, parents, bonus, frame, floating, noise, state):  # type: ignore[no-untyped-def]
    """Fill ``frame`` (flat, ``(2·rows+1)·(2·cols+1)``; -1 free, -2 blocked) from what it holds.

    ``parents (m, 4, n)``: for each parent board, the piece at side d of q; an adjacency that a
    parent contains gains ``bonus`` nats. A frame that does not float is begun by a random piece
    wherever nothing laid can be reached: on an empty board, behind blocked cells. Returns (top,
    left): where the finished board begins.
    """
    n = w.at.shape[1]
    rows, cols = w.rows, w.cols
    stride = 2 * cols + 1
    height = 2 * rows + 1
    step = (-stride, 1, stride, -1)
    used = np.zeros(n, np.bool_)
    queued = np.zeros(len(frame), np.bool_)
    open_slots = np.empty(len(frame), np.int32)
    pick = np.empty(len(frame), np.int32)
    lead = np.empty(len(frame), np.float64)
    stale = np.zeros(len(frame), np.bool_)
    count = 0
    r0, r1, c0, c1 = height, -1, stride, -1  # the bounding box of what is laid
    left_over = n
    for s in range(len(frame)):
        if frame[s] >= 0:
            used[frame[s]] = True
            left_over -= 1
            r0, r1 = min(r0, s // stride), max(r1, s // stride)
            c0, c1 = min(c0, s % stride), max(c1, s % stride)
    if not floating:
        r0, r1, c0, c1 = 1, rows, 1, cols
    for s in range(len(frame)):
        if frame[s] >= 0:
            for d in range(4):
                x = s + step[d]
                if frame[x] == -1 and not queued[x]:
                    queued[x] = True
                    open_slots[count] = x
                    count += 1
                    stale[x] = True
    while left_over > 0:
        best_slot = -1
        best_lead = NEVER
        i = 0
        while i < count:
            s = open_slots[i]
            r, c = s // stride, s % stride
            if frame[s] != -1 or max(r1, r) - min(r0, r) >= rows or max(c1, c) - min(c0, c) >= cols:
                count -= 1
                open_slots[i] = open_slots[count]
                continue
            if stale[s] or (pick[s] >= 0 and used[pick[s]]):
                home = -1 if floating else (r - 1) * cols + c - 1
                pick[s], _, lead[s] = slot_choice(
                    w, parents, bonus, frame, used, s, home, noise, state
                )
                stale[s] = False
            if pick[s] >= 0 and lead[s] > best_lead:
                best_lead = lead[s]
                best_slot = s
            i += 1
        if best_slot >= 0:
            j = pick[best_slot]
        elif count > 0:
            most = -1  # lists are used up: take the slot with most neighbours, look at all pieces
            for i in range(count):
                s = open_slots[i]
                k = 0
                for d in range(4):
                    if frame[s + step[d]] >= 0:
                        k += 1
                if k > most:
                    most = k
                    best_slot = s
            home = -1
            if not floating:
                home = (best_slot // stride - 1) * cols + best_slot % stride - 1
            j = any_choice(w, frame, used, best_slot, home)
        else:
            best_slot = -1 if floating else unreached(w, frame, state)
            if best_slot < 0:
                break  # no cell left: the rest of the pieces stay out
            j = below(state, n)  # nothing says which piece belongs there
            while used[j]:
                j = (j + 1) % n
            if w.bound:  # … but something says which does not
                home = (best_slot // stride - 1) * cols + best_slot % stride - 1
                for k in range(n):
                    i = (j + k) % n
                    if not used[i] and allowed(w, frame, used, best_slot, home, i):
                        j = i
                        break
        frame[best_slot] = j
        used[j] = True
        left_over -= 1
        if floating:
            r, c = best_slot // stride, best_slot % stride
            r0, r1 = min(r0, r), max(r1, r)
            c0, c1 = min(c0, c), max(c1, c)
        for d in range(4):
            x = best_slot + step[d]
            if frame[x] == -1:
                stale[x] = True
                if not queued[x]:
                    queued[x] = True
                    open_slots[count] = x
                    count += 1
    if not floating:
        return 1, 1
    return max(1, min(r0, height - 1 - rows)), max(1, min(c0, stride - 1 - cols))


@njit(cache=True, nogil=True)
def frame_to_board(w, frame, top, left, board, cell):  # type: ignore[no-untyped-def]
    """Read the board out of a grown frame. Pieces that are not in it go to the pool."""
    rows, cols = w.rows, w.cols
    stride = 2 * cols + 1
    cell[:] = -1
    board[:] = -1
    for r in range(rows):
        for c in range(cols):
            p = frame[(top + r) * stride + left + c]
            if p >= 0:
                board[r * cols + c] = p
                cell[p] = r * cols + c
    k = rows * cols
    for p in range(len(cell)):
        if cell[p] < 0:
            board[k] = p
            cell[p] = k
            k += 1


@njit(cache=True, nogil=True)
def neighbours_of(w, board, table):  # type: ignore[no-untyped-def]
    """``table (4, n)``: the piece at side d of q on this board, -1 = none."""
    table[:] = -1
    for c in range(len(board)):
        p = board[c]
        if p < 0:
            continue
        for d in range(4):
            x = w.near[c, d]
            if x >= 0 and board[x] >= 0:
                table[d, p] = board[x]
