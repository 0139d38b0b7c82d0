"""2×2 puzzlets on a board: their evidence from a hash table, and moves judged with it.

``t`` is a `Quads` everywhere. A puzzlet is named by its top-left cell; its pieces are top left, top
right, bottom left, bottom right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from .island import bear
from .moves import EPS, exchange, full_score, swap_gain, translate
from .random import below, shuffle

FREE = -1
"""Key of a free place in the table."""
GUESS_FROM, GUESS_STEP, GUESSES = -20.0, 2.0, 20
"""Bins of the four links' sum, in nats, by which a puzzlet that was not asked is guessed."""


BLOCKS_CARRIED = 3
"""Blocks that are carried elsewhere in one birth, at a loss of pair evidence."""


class Quads(NamedTuple):
    """What is known of the 2×2 puzzlets of one puzzle. Numba reads it like a struct."""

    keys: np.ndarray
    """int64 ``(H,)``, H a power of 2: `quad_key` of the puzzlet that lies here, or `FREE`."""
    values: np.ndarray
    """float32 ``(H,)``: its evidence."""
    guess: np.ndarray
    """float32 ``(GUESSES,)``: mean evidence of known puzzlets by the sum of their four links."""
    weight: float
    """λ of the 2×2 evidence."""


@njit(cache=True, nogil=True)
def quad_key(n, a, b, c, d):  # type: ignore[no-untyped-def]
    """One number for four of n pieces."""
    return ((np.int64(a) * n + b) * n + c) * n + d


@njit(cache=True, nogil=True)
def place(keys, key):  # type: ignore[no-untyped-def]
    """Where ``key`` lies, or the free place where it would lie."""
    z = np.uint64(key)
    z = (z ^ (z >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    at = np.int64(z >> np.uint64(32)) & (len(keys) - 1)
    while keys[at] != FREE and keys[at] != key:
        at = (at + 1) & (len(keys) - 1)
    return at


@njit(cache=True, nogil=True)
def put(keys, values, new_keys, new_values):  # type: ignore[no-untyped-def]
    """Enter answers into a table that has room for them."""
    for k in range(len(new_keys)):
        at = place(keys, new_keys[k])
        keys[at] = new_keys[k]
        values[at] = new_values[k]


@njit(cache=True, nogil=True)
def known(keys, wanted):  # type: ignore[no-untyped-def]
    """bool ``(k,)``: has the table these keys?"""
    out = np.empty(len(wanted), np.bool_)
    for k in range(len(wanted)):
        out[k] = keys[place(keys, wanted[k])] != FREE
    return out


@njit(cache=True, nogil=True)
def guess_bin(w, a, b, c, d):  # type: ignore[no-untyped-def]
    """Bin of the sum of a puzzlet's four links."""
    s = w.at[1, a, b] + w.at[1, c, d] + w.at[2, a, c] + w.at[2, b, d]
    return min(GUESSES - 1, max(0, int((s - GUESS_FROM) / GUESS_STEP)))


@njit(cache=True, nogil=True)
def guess_bins(w, quads):  # type: ignore[no-untyped-def]
    """`guess_bin` of the puzzlets ``quads (k, 4)``."""
    out = np.empty(len(quads), np.int64)
    for k in range(len(quads)):
        out[k] = guess_bin(w, quads[k, 0], quads[k, 1], quads[k, 2], quads[k, 3])
    return out


@njit(cache=True, nogil=True)
def puzzlet(w, t, board, x):  # type: ignore[no-untyped-def]
    """Evidence of the puzzlet at cell x, guessed where unknown, 0 where a cell is empty."""
    a, b, c, d = board[x], board[x + 1], board[x + w.cols], board[x + w.cols + 1]
    if a < 0 or b < 0 or c < 0 or d < 0:
        return 0.0
    at = place(t.keys, quad_key(w.at.shape[1], a, b, c, d))
    if t.keys[at] == FREE:
        return float(t.guess[guess_bin(w, a, b, c, d)])
    return float(t.values[at])


@njit(cache=True, nogil=True)
def objective(w, t, board):  # type: ignore[no-untyped-def]
    """Pair, border and weighted 2×2 evidence of a board."""
    total = 0.0
    for r in range(w.rows - 1):
        for c in range(w.cols - 1):
            total += puzzlet(w, t, board, r * w.cols + c)
    return full_score(w, board) + t.weight * total


@njit(cache=True, nogil=True)
def objectives(w, t, boards):  # type: ignore[no-untyped-def]
    """`objective` of several boards."""
    out = np.empty(len(boards))
    for b in range(len(boards)):
        out[b] = objective(w, t, boards[b])
    return out


@njit(cache=True, nogil=True)
def around(w, t, board, a, b):  # type: ignore[no-untyped-def]
    """2×2 evidence of all puzzlets that hold cell a or cell b, each once."""
    total = 0.0
    rows, cols = w.rows, w.cols
    for turn in range(2):
        x = b if turn else a
        if x >= rows * cols:
            continue
        for r in range(max(0, x // cols - 1), min(rows - 1, x // cols + 1)):
            for c in range(max(0, x % cols - 1), min(cols - 1, x % cols + 1)):
                if turn and 0 <= a // cols - r <= 1 and 0 <= a % cols - c <= 1:
                    continue  # counted with a
                total += puzzlet(w, t, board, r * cols + c)
    return total


@njit(cache=True, nogil=True)
def partners(w, board, cell, c, mark, out):  # type: ignore[no-untyped-def]
    """Cells with which cell c may swap, into ``out``; returns how many.

    On a small board all; else those of the pieces that c's neighbours would like to see there.
    ``mark`` is a zeroed (C,) scratch.
    """
    count = 0
    depth = w.cand.shape[2]
    if len(board) <= 4 * depth:
        for b in range(len(board)):
            if b != c and not w.fixed[b] and (board[b] >= 0 or board[c] >= 0):
                out[count] = b
                count += 1
        return count
    for d in range(4):
        x = w.near[c, d]
        if x < 0 or board[x] < 0:
            continue
        for k in range(depth):
            j = w.cand[d ^ 2, board[x], k]
            if j < 0:
                break
            b = cell[j]
            if b != c and not w.fixed[b] and not mark[b]:
                mark[b] = True
                out[count] = b
                count += 1
    for b in out[:count]:
        mark[b] = False
    return count


@njit(cache=True, nogil=True)
def climb_all(w, t, board, cell, dirty, loss, state):  # type: ignore[no-untyped-def]
    """Swap-2 of dirty cells with their `partners`, on the full objective, while one gains.

    Swaps that lose more than ``loss`` nats on pairs are not looked at: puzzlets seldom pay for
    them. ``dirty`` is cleared; cells beside a change are looked at again.
    """
    rows, cols = w.rows, w.cols
    todo = np.empty(len(board), np.int32)
    others = np.empty(len(board), np.int32)
    mark = np.zeros(len(board), np.bool_)
    while True:
        count = 0
        for c in range(rows * cols):
            if dirty[c] and not w.fixed[c]:
                todo[count] = c
                count += 1
        dirty[:] = False
        if count == 0:
            return
        shuffle(state, todo[:count])
        for c in todo[:count]:
            best_gain = EPS
            best = -1
            for b in others[: partners(w, board, cell, c, mark, others)]:
                gain = swap_gain(w, board, c, b)
                if gain < -loss:
                    continue
                before = around(w, t, board, c, b)
                exchange(board, cell, c, b)
                gain += t.weight * (around(w, t, board, c, b) - before)
                exchange(board, cell, c, b)
                if gain > best_gain:
                    best_gain = gain
                    best = b
            if best < 0:
                continue
            exchange(board, cell, c, best)
            for turn in range(2):
                s = best if turn else c
                if s >= rows * cols:
                    continue
                for y in range(max(0, s // cols - 1), min(rows, s // cols + 2)):
                    for x in range(max(0, s % cols - 1), min(cols, s % cols + 2)):
                        dirty[y * cols + x] = True


@njit(cache=True, nogil=True)
def shift_all(w, t, board, cell):  # type: ignore[no-untyped-def]
    """Translate the whole board cyclically, in place, to where the full objective is highest.

    Rows first, then columns. Returns whether it moved.
    """
    rows, cols = w.rows, w.cols
    shifted = board.copy()
    moved = False
    for turn in range(2):
        best = objective(w, t, board) + EPS
        by = 0
        for s in range(1, cols if turn else rows):
            translate(w, board, shifted, 0 if turn else s, s if turn else 0)
            score = objective(w, t, shifted)
            if score > best:
                best = score
                by = s
        if by:
            translate(w, board, shifted, 0 if turn else by, by if turn else 0)
            board[:] = shifted
            moved = True
    if moved:
        for c in range(len(board)):
            if board[c] >= 0:
                cell[board[c]] = c
    return moved


@njit(cache=True, nogil=True)
def settle_all(w, t, board, cell, dirty, loss, state):  # type: ignore[no-untyped-def]
    """`climb_all` and `shift_all` until neither gains; returns the objective."""
    while True:
        climb_all(w, t, board, cell, dirty, loss, state)
        if w.anchored or not shift_all(w, t, board, cell):
            return objective(w, t, board)
        dirty[:] = True


@njit(cache=True, nogil=True)
def offspring(  # type: ignore[no-untyped-def]
    w, t, noise, bonus, spread, whole, loss, boards, fresh, seeds, out
):
    """One child per row of ``out``, settled on the full objective.

    Child k climbs from ``boards[fresh[k]]`` itself if that is ≥ 0, else it is born of a random
    board, better ones more often. Every child has a random stream of its own, so that it does not
    matter which thread makes it.
    """
    size = len(boards)
    cell = np.empty(w.at.shape[1], np.int32)
    keep = np.empty(boards.shape[1], np.bool_)
    dirty = np.empty(boards.shape[1], np.bool_)
    for k in range(len(out)):
        state = seeds[k : k + 1]
        board = out[k]
        if fresh[k] >= 0:
            board[:] = boards[fresh[k]]
            for c in range(len(board)):
                if board[c] >= 0:
                    cell[board[c]] = c
            dirty[:] = True
        else:
            a = min(below(state, size), below(state, size))
            bear(
                w, noise, bonus, spread, whole, BLOCKS_CARRIED, -loss, state, boards, a,
                board, cell, keep, dirty,
            )  # fmt: skip
        settle_all(w, t, board, cell, dirty, loss, state)
