"""Scores and moves. A move's gain touches only the links it changes."""

from __future__ import annotations

import numpy as np
from numba import njit

from .random import below, shuffle

EPS = 1e-4
"""A move must gain more than this many nats: float32 sums must not cycle."""


@njit(cache=True, nogil=True)
def link(w, d, p, o):  # type: ignore[no-untyped-def]
    """Score of p with o at its side d, either -1 = empty: a piece that must be there is missed."""
    if p >= 0:
        if o >= 0:
            return np.float64(w.at[d, p, o])
        return -w.big if w.glue[d, p] >= 0 else 0.0
    if o >= 0 and w.glue[d ^ 2, o] >= 0:
        return -w.big
    return 0.0


@njit(cache=True, nogil=True)
def full_score(w, board):  # type: ignore[no-untyped-def]
    """Score of a board from scratch: every link once, plus border evidence, less broken rules."""
    total = 0.0
    for c in range(len(board)):
        p = board[c]
        if p >= 0 and w.bound and w.barred[c, p]:
            total -= w.big
        for d in range(4):
            x = w.near[c, d]
            if x >= 0:
                if d == 1 or d == 2:
                    total += link(w, d, p, board[x])
            elif p >= 0 and w.rim[c, d]:
                total += w.border[d, p]
    return total


@njit(cache=True, nogil=True)
def cells_score(w, board, cells, mark):  # type: ignore[no-untyped-def]
    """Score of all links that touch ``cells``, each once. ``mark`` is a zeroed (C,) scratch."""
    for c in cells:
        mark[c] = True
    total = 0.0
    for c in cells:
        p = board[c]
        if p >= 0 and w.bound and w.barred[c, p]:
            total -= w.big
        for d in range(4):
            x = w.near[c, d]
            if x >= 0:
                if d == 1 or d == 2 or not mark[x]:
                    total += link(w, d, p, board[x])
            elif p >= 0 and w.rim[c, d]:
                total += w.border[d, p]
    for c in cells:
        mark[c] = False
    return total


@njit(cache=True, nogil=True)
def swap_gain(w, board, a, b):  # type: ignore[no-untyped-def]
    """What Swap-2 of cells a and b would add to the score."""
    p = board[a]
    q = board[b]
    gain = 0.0
    if w.bound:
        for turn in range(2):
            piece, old, new = (q, b, a) if turn else (p, a, b)
            if piece >= 0:
                if w.barred[old, piece]:
                    gain += w.big
                if w.barred[new, piece]:
                    gain -= w.big
    for d in range(4):
        x = w.near[a, d]
        if x >= 0:
            if x == b:  # the one link between them turns round
                gain += link(w, d, q, p) - link(w, d, p, q)
            else:
                o = board[x]
                gain -= link(w, d, p, o)
                gain += link(w, d, q, o)
        elif w.rim[a, d]:
            if p >= 0:
                gain -= w.border[d, p]
            if q >= 0:
                gain += w.border[d, q]
        x = w.near[b, d]
        if x >= 0:
            if x != a:
                o = board[x]
                gain -= link(w, d, q, o)
                gain += link(w, d, p, o)
        elif w.rim[b, d]:
            if q >= 0:
                gain -= w.border[d, q]
            if p >= 0:
                gain += w.border[d, p]
    return gain


@njit(cache=True, nogil=True)
def exchange(board, cell, a, b):  # type: ignore[no-untyped-def]
    """Swap-2: exchange the contents of cells a and b."""
    p = board[a]
    q = board[b]
    board[a] = q
    board[b] = p
    if q >= 0:
        cell[q] = a
    if p >= 0:
        cell[p] = b


@njit(cache=True, nogil=True)
def cycle_gain(w, board, cell, a, b, c):  # type: ignore[no-untyped-def]
    """What Swap-3 (a's piece to b, b's to c, c's to a) would add. The board is left unchanged."""
    gain = swap_gain(w, board, a, b)
    exchange(board, cell, a, b)
    gain += swap_gain(w, board, a, c)
    exchange(board, cell, a, b)
    return gain


@njit(cache=True, nogil=True)
def cycle(board, cell, a, b, c):  # type: ignore[no-untyped-def]
    """Swap-3: a's piece to b, b's to c, c's to a."""
    exchange(board, cell, a, b)
    exchange(board, cell, a, c)


@njit(cache=True, nogil=True)
def block_gain(w, board, cell, a, b, height, width, scratch, mark):  # type: ignore[no-untyped-def]
    """What exchanging two ``height``×``width`` blocks (top-left cells a, b) would add.

    The blocks may not overlap; a Swap-puzzlet is the 2×2 case. The board is left unchanged.
    """
    k = 0
    for r in range(height):
        for c in range(width):
            scratch[k] = a + r * w.cols + c
            scratch[k + 1] = b + r * w.cols + c
            k += 2
    cells = scratch[:k]
    before = cells_score(w, board, cells, mark)
    block_exchange(board, cell, a, b, height, width, w.cols)
    after = cells_score(w, board, cells, mark)
    block_exchange(board, cell, a, b, height, width, w.cols)
    return after - before


@njit(cache=True, nogil=True)
def block_exchange(board, cell, a, b, height, width, cols):  # type: ignore[no-untyped-def]
    """Exchange two blocks that do not overlap."""
    for r in range(height):
        for c in range(width):
            exchange(board, cell, a + r * cols + c, b + r * cols + c)


@njit(cache=True, nogil=True)
def climb(w, board, cell, dirty, state):  # type: ignore[no-untyped-def]
    """Swap-2 and Swap-3 as long as a cell that is looked at gains; returns the total gain.

    Only cells in ``dirty`` (bool, cleared on return) are looked at, and those beside a change.
    For a cell, the candidates are the pieces that its neighbours would like to see there.
    """
    total = 0.0
    count = 0
    todo = np.empty(len(board), np.int32)
    for c in range(len(board)):
        if dirty[c]:
            if w.fixed[c] or w.near[c, 0] + w.near[c, 1] + w.near[c, 2] + w.near[c, 3] == -4:
                dirty[c] = False
            else:
                todo[count] = c
                count += 1
    depth = w.cand.shape[2]
    while count > 0:
        shuffle(state, todo[:count])
        work = todo[:count].copy()
        for c in work:
            dirty[c] = False
        count = 0
        for c in work:
            best_gain = EPS
            best = -1
            third = -1
            for d in range(4):
                x = w.near[c, d]
                if x < 0 or board[x] < 0:
                    continue
                o = (d + 2) % 4
                q = board[x]
                for k in range(depth):
                    j = w.cand[o, q, k]
                    if j < 0:
                        break
                    b = cell[j]
                    if b == c or w.fixed[b]:
                        continue
                    gain = swap_gain(w, board, c, b)
                    if gain > best_gain:
                        best_gain = gain
                        best = b
                        third = -1
                    elif k < 2 and board[c] >= 0:
                        # Swap-3: j comes here; the piece of c goes where its own best place is
                        e = below(state, 4)
                        friend = w.cand[e, board[c], 0]
                        if friend >= 0:
                            y = w.near[cell[friend], e ^ 2]
                            if y >= 0 and y != c and y != b and not w.fixed[y]:
                                gain = cycle_gain(w, board, cell, c, y, b)
                                if gain > best_gain:
                                    best_gain = gain
                                    best = y
                                    third = b
            if w.bound:  # a piece that lies where it may not would come, if it may lie here
                for j in w.tied:
                    b = cell[j]
                    if b == c or w.fixed[b] or not w.barred[b, j] or w.barred[c, j]:
                        continue
                    gain = swap_gain(w, board, c, b)
                    if gain > best_gain:
                        best_gain = gain
                        best = b
                        third = -1
            if best < 0:
                continue
            total += best_gain
            if third < 0:
                exchange(board, cell, c, best)
            else:
                cycle(board, cell, c, best, third)
            for t in range(3):
                s = c if t == 0 else (best if t == 1 else third)
                if s < 0:
                    continue
                for d in range(5):
                    x = s if d == 4 else w.near[s, d]
                    if x >= 0 and not dirty[x] and not w.fixed[x]:
                        dirty[x] = True
        for c in range(len(board)):
            if dirty[c]:
                todo[count] = c
                count += 1
    return total


@njit(cache=True, nogil=True)
def best_shift(w, board, shifted):  # type: ignore[no-untyped-def]
    """Translate the whole board cyclically: leaves the best in ``shifted``, returns its gain.

    Rows that leave at one end come back at the other, so the board stays a permutation. The cost
    is one look at the seams a shift opens and closes, not a full score.
    """
    rows, cols = w.rows, w.cols
    if w.bound:
        return _best_bound_shift(w, board, shifted)
    row_seam = np.zeros(rows)  # links between row r and r + 1, wrapping round
    col_seam = np.zeros(cols)
    top = np.zeros(rows)  # border evidence if row r were the first / the last row
    bottom = np.zeros(rows)
    left = np.zeros(cols)
    right = np.zeros(cols)
    for r in range(rows):
        for c in range(cols):
            p = board[r * cols + c]
            if p < 0:
                continue
            q = board[((r + 1) % rows) * cols + c]
            if q >= 0 and rows > 1:
                row_seam[r] += w.at[2, p, q]
            q = board[r * cols + (c + 1) % cols]
            if q >= 0 and cols > 1:
                col_seam[c] += w.at[1, p, q]
            top[r] += w.border[0, p]
            bottom[r] += w.border[2, p]
            left[c] += w.border[3, p]
            right[c] += w.border[1, p]
    dr = 0
    dc = 0
    gain_r = 0.0
    gain_c = 0.0
    for s in range(1, rows):  # the seam after row s-1 becomes the cut; row s is the new first
        g = (
            row_seam[rows - 1]
            - row_seam[s - 1]
            + top[s]
            - top[0]
            + bottom[s - 1]
            - bottom[rows - 1]
        )
        if g > gain_r + EPS:
            gain_r = g
            dr = s
    for s in range(1, cols):
        g = (
            col_seam[cols - 1]
            - col_seam[s - 1]
            + left[s]
            - left[0]
            + right[s - 1]
            - right[cols - 1]
        )
        if g > gain_c + EPS:
            gain_c = g
            dc = s
    for r in range(rows):
        for c in range(cols):
            shifted[r * cols + c] = board[((r + dr) % rows) * cols + (c + dc) % cols]
    return gain_r + gain_c


@njit(cache=True, nogil=True)
def translate(w, board, out, dr, dc):  # type: ignore[no-untyped-def]
    """``board`` moved up by dr rows and left by dc columns, cyclically, into ``out``."""
    for r in range(w.rows):
        for c in range(w.cols):
            y, x = (r + dr) % w.rows, (c + dc) % w.cols
            out[r * w.cols + c] = board[y * w.cols + x]


@njit(cache=True, nogil=True)
def _best_bound_shift(w, board, shifted):  # type: ignore[no-untyped-def]
    """`best_shift` where cells matter by themselves: rows first, then columns, by full score."""
    before = full_score(w, board)
    best = before
    moved = board.copy()
    shifted[:] = board
    for turn in range(2):
        base = shifted.copy()
        for s in range(1, w.cols if turn else w.rows):
            translate(w, base, moved, 0 if turn else s, s if turn else 0)
            score = full_score(w, moved)
            if score > best + EPS:
                best = score
                shifted[:] = moved
    return best - before


@njit(cache=True, nogil=True)
def near_swaps(w, board, least):  # type: ignore[no-untyped-def]
    """All Swap-2 that gain more than ``least``: cells ``(k, 2)`` and gains ``(k,)``."""
    cells, gains = [(0, 0)], [0.0]
    for a in range(w.rows * w.cols):
        if w.fixed[a]:
            continue
        for b in range(a):
            if not w.fixed[b] and (board[a] >= 0 or board[b] >= 0):
                gain = swap_gain(w, board, a, b)
                if gain > least:
                    cells.append((a, b))
                    gains.append(gain)
    return np.array(cells)[1:], np.array(gains)[1:]
