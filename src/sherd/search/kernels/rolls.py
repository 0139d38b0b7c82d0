"""Lines rolled against each other: the way out of a trap that no swap leaves.

Half a picture may lie beside its other half shifted by some columns, right in itself, its ends
wrapped round: every piece would have to move at once. The best roll of every line, all together, is
found exactly: a line's seams with the next depend on how far the two are rolled against each other,
so the best are found line by line, as a shortest path is.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .breed import settle
from .moves import EPS, full_score, link


@njit(cache=True, nogil=True)
def best_rolls(w, board, upright, out):  # type: ignore[no-untyped-def]
    """``board`` with every row rolled as is best for all of them, into ``out``; columns if
    ``upright``. Lines with fixed cells stay. Pieces that must lie side by side or may not lie
    somewhere are not looked at: the caller asks for the score.
    """
    if upright:
        lines, size, step, stride = w.cols, w.rows, 1, w.cols
        along, across, end, begin = 2, 1, 2, 0
    else:
        lines, size, step, stride = w.rows, w.cols, w.cols, 1
        along, across, end, begin = 1, 2, 1, 3
    best = np.empty((lines, size))  # of all lines up to this one, if it begins with its s-th piece
    back = np.zeros((lines, size), np.int64)
    seam = np.empty(size)
    for k in range(lines):
        first = k * step
        pinned = False
        for s in range(size):
            pinned = pinned or w.fixed[first + s * stride]
            p, q = board[first + (s - 1) % size * stride], board[first + s * stride]
            alone = -link(w, along, p, q)  # the seam that is cut
            if q >= 0:
                alone += w.border[begin, q]
            if p >= 0:
                alone += w.border[end, p]
            best[k, s] = alone
        if pinned:
            best[k, 1:] = -np.inf
        if k == 0:
            continue
        for d in range(size):  # seams with the line before, rolled by d less
            seam[d] = 0.0
            for s in range(size):
                p, q = board[first - step + s * stride], board[first + (s + d) % size * stride]
                seam[d] += link(w, across, p, q)
        for s in range(size):
            most = -np.inf
            for t in range(size):
                total = best[k - 1, t] + seam[(s - t) % size]
                if total > most:
                    most = total
                    back[k, s] = t
            best[k, s] += most
    by = int(np.argmax(best[lines - 1]))
    for k in range(lines - 1, -1, -1):
        for c in range(size):
            out[k * step + c * stride] = board[k * step + (c + by) % size * stride]
        by = back[k, by]


@njit(cache=True, nogil=True)
def roll_boards(w, state, boards, scores):  # type: ignore[no-untyped-def]
    """Roll the lines of all ``boards`` of a population, rows and columns in turn, and settle them.

    Where a board gains it takes its old one's place, and all are put in order again.
    """
    cells = w.rows * w.cols
    cell = np.empty(w.at.shape[1], np.int32)
    dirty = np.empty(boards.shape[1], np.bool_)
    board, out = np.empty_like(boards[0]), np.empty_like(boards[0])
    for k in range(len(boards)):
        board[:] = boards[k]
        score, idle, upright = scores[k], 0, False
        while idle < 2:
            out[:] = board
            best_rolls(w, board, upright, out)
            upright = not upright
            idle += 1
            if full_score(w, out) > score + EPS:
                board[:] = out
                for c in range(len(board)):
                    if board[c] >= 0:
                        cell[board[c]] = c
                dirty[:] = False
                dirty[:cells] = True
                score, idle = settle(w, board, cell, dirty, state), 0
        if score > scores[k] + EPS:
            boards[k], scores[k] = board, score
    order = np.argsort(-scores, kind="mergesort")
    boards[:] = boards[order]
    scores[:] = scores[order]
