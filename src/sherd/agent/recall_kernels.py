"""Numba kernels of `recall`: which neighbourhoods are new, and what boards of known ones add up to.

A neighbourhood is a cell and the pieces of the 3×3 cells around it: all that the cell's token is
made of. It is known by a 64-bit sum of random numbers, one per place and piece; that two of them
have the same sum is not looked after (one chance in a billion for 200 000 neighbourhoods).
"""

from __future__ import annotations

import numpy as np
from numba import njit

SUMS = 4
"""Figures of a neighbourhood that a board adds up: pair, border and place evidence; and its weakest
side, of which the least counts."""
BESIDE = (1, 5, 7, 3)
"""Which of the nine cells is above, to the right, below, to the left."""


@njit(cache=True, nogil=True)
def find(  # type: ignore[no-untyped-def]
    boards, nine, code, cell_code, slots, keys, known, look, inner, static, units, ids, tokens, sums
):
    """Number the neighbourhoods of ``boards (B, C)`` in ``ids (B, C)``; new ones are numbered from
    ``known`` on, and their ``tokens`` (from row 0 on) and ``sums`` are worked out.

    ``nine (C, 9)`` are the cells around each, row by row, C = none. ``slots`` (a power of two, at
    most half full) hold numbers + 1, ``keys`` the code by number; ``units`` are `state.NATS` and
    `state.LARGEST`. Returns how many are known now.
    """
    cells = boards.shape[1]
    mask = np.uint64(len(slots) - 1)
    piece = np.empty(cells + 1, np.int64)
    piece[cells] = cells
    first = known
    for b in range(len(boards)):
        piece[:cells] = boards[b]
        for c in range(cells):
            key = cell_code[c]
            for k in range(9):
                key += code[k, piece[nine[c, k]]]
            slot = (key ^ (key >> np.uint64(32))) & mask
            while slots[slot] and keys[slots[slot] - 1] != key:
                slot = (slot + np.uint64(1)) & mask
            if not slots[slot]:
                keys[known] = key
                _tell(
                    c,
                    nine[c],
                    piece,
                    look,
                    inner,
                    static,
                    units,
                    tokens[known - first],
                    sums[known],
                )
                known += 1
                slots[slot] = known
            ids[b, c] = slots[slot] - 1
    return known


@njit(cache=True, nogil=True)
def _tell(c, nine, piece, look, inner, static, units, token, sums):  # type: ignore[no-untyped-def]
    """The token and the sums of cell ``c``, as `state.observe` makes them."""
    none, own, (nats, largest) = look.shape[0] - 1, piece[c], units
    grid = static[c, 6] == 0  # not in the pool
    pair, border, weakest = np.float32(0), np.float32(0), np.float32(np.inf)
    for side in range(4):
        said = np.float32(0)
        if grid:
            said = look[own, side, piece[nine[BESIDE[side]]]] / nats
        token[side] = said if inner[c, side] else np.float32(0)
        token[4 + side] = np.float32(0) if inner[c, side] else said
        pair += token[side]
        border += token[4 + side]
        weakest = min(weakest, said)
    for member in range(4):  # the cell is top left, top right, bottom left, bottom right of a block
        top = 4 - member % 2 - 3 * (member // 2)
        mean = np.float32(0)
        inside = True
        for corner in (top, top + 1, top + 3, top + 4):
            inside = inside and nine[corner] < none
        if inside:
            a, b = piece[nine[top]], piece[nine[top + 1]]
            d, e = piece[nine[top + 3]], piece[nine[top + 4]]
            mean = look[a, 1, b] + look[d, 1, e] + look[a, 2, d] + look[b, 2, e]
        token[8 + member] = mean / (np.float32(4) * nats)
        token[12 + member] = static[c, member]
    place = look[own, 4, c] / nats if static[c, 4] else np.float32(0)
    token[16], token[17], token[18] = place, static[c, 4], weakest
    for k in range(4):
        token[19 + k] = static[c, 5 + k]
    token[23] = look[own, 4, none]
    for k in range(len(token)):
        token[k] = min(max(token[k], -largest), largest)
    sums[0], sums[1], sums[2], sums[3] = pair, border, place, weakest


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def weigh(ids, x, own, near, sums, around, about, right, bias, weight, mean, last, total, share):  # type: ignore[no-untyped-def]
    """What boards of the neighbourhoods ``ids (B, C)`` come to, as `Critic.forward` has it: the
    ``mean`` and ``last`` hidden layer, averaged ``(B, w)``, the ``total`` of the ``sums (B, 4)``,
    the ``share (B,)`` of the reward.

    ``x, own, near (·, w)`` are the layers of each neighbourhood, ``around (C, 4)`` its neighbours
    (C = none), ``about (w, w)``, ``right (3, w)`` and ``bias (3,)`` layers of the critic (the first
    by input), ``weight (C, 3)`` what its answers add.
    """
    cells, w = ids.shape[1], x.shape[1]
    base = np.empty(w, np.float32)
    y = np.empty(w, np.float32)
    for b in range(len(ids)):
        one, two = mean[b], last[b]
        one[:] = 0
        two[:] = 0
        total[b, :3] = 0
        total[b, 3] = np.inf
        for c in range(cells):
            i = ids[b, c]
            for k in range(w):
                one[k] += x[i, k]
            for k in range(3):
                total[b, k] += sums[i, k]
            total[b, 3] = min(total[b, 3], sums[i, 3])
        for k in range(w):
            one[k] /= cells
        base[:] = 0
        for j in range(w):
            for k in range(w):
                base[k] += about[j, k] * one[j]
        said = np.float32(0)
        for c in range(cells):
            i = ids[b, c]
            for k in range(w):
                y[k] = base[k] + own[i, k]
            for side in range(4):
                if around[c, side] < cells:
                    j = ids[b, around[c, side]]
                    for k in range(w):
                        y[k] += near[j, k]
            r0, r1, r2 = bias[0], bias[1], bias[2]
            for k in range(w):
                v = max(y[k], np.float32(0))
                two[k] += v
                r0 += v * right[0, k]
                r1 += v * right[1, k]
                r2 += v * right[2, k]
            said += weight[c, 0] / (np.float32(1) + np.exp(-r0))
            said += weight[c, 1] / (np.float32(1) + np.exp(-r1))
            said += weight[c, 2] / (np.float32(1) + np.exp(-r2))
        for k in range(w):
            two[k] /= cells
        share[b] = said
