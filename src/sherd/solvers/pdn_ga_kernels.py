"""Numba kernels of PDN-GA.

A board is a genome ``(L,)`` of items: position p < C is free cell ``cells[p]``; positions from C on
are a tray for pieces that find no cell. Items below n are pieces, the others holes, so that every
genome is a permutation of 0..L-1, whatever is missing or left over.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..search.kernels.random import below, uniform
from .growing import swap


@njit(cache=True, nogil=True)
def cross(one, child, where, fixed, position, rows, cols, shift, state):  # type: ignore[no-untyped-def]
    """PMX on a rectangle: ``child`` (the other parent's copy) takes what ``one`` has in it.

    Every item of the rectangle changes places with what lies in its cell, which is PMX's mapping.
    With probability ``shift`` the rectangle lands elsewhere. Pinned pieces stay.
    """
    height = 1 + below(state, rows)
    width = 1 + below(state, cols)
    top, left = below(state, rows - height + 1), below(state, cols - width + 1)
    to_top, to_left = top, left
    if uniform(state) < shift:
        to_top, to_left = below(state, rows - height + 1), below(state, cols - width + 1)
    for r in range(height):
        for c in range(width):
            p = position[(top + r) * cols + left + c]
            q = position[(to_top + r) * cols + to_left + c]
            if p < 0 or q < 0 or fixed[p] or fixed[q]:
                continue
            at = where[one[p]]
            if at != q and not fixed[at]:
                swap(child, where, at, q)


@njit(cache=True, nogil=True)
def mutate(child, where, loose, swaps, state):  # type: ignore[no-untyped-def]
    """Two items change places (probability ``swaps``), or three go round."""
    k = len(loose)
    if k < 2:
        return
    i = below(state, k)
    j = (i + 1 + below(state, k - 1)) % k
    swap(child, where, loose[i], loose[j])
    if k > 2 and uniform(state) >= swaps:
        m = below(state, k)
        while m in (i, j):
            m = below(state, k)
        swap(child, where, loose[j], loose[m])


@njit(cache=True, nogil=True)
def breed(parents, children, fixed, loose, position, rows, cols, rates, state):  # type: ignore[no-untyped-def]
    """Fill ``children``: each by crossover or by mutation of random parents.

    ``rates``: of crossover, of swaps among mutations, of rectangles that land elsewhere.
    """
    count = len(parents)
    where = np.empty(parents.shape[1], np.int32)
    for child in children:
        child[:] = parents[below(state, count)]
        for p in range(len(child)):
            where[child[p]] = p
        if uniform(state) < rates[0]:
            one = parents[below(state, count)]
            cross(one, child, where, fixed, position, rows, cols, rates[2], state)
        else:
            mutate(child, where, loose, rates[1], state)


@njit(cache=True, nogil=True)
def pair_scores(genomes, cells, rows, cols, right, down, place, out):  # type: ignore[no-untyped-def]
    """``out (b,)``: the sum of pair scores of every genome.

    ``place (n, M·N)``: each pair counts times the mean place score of its two pieces.
    """
    n = len(right)
    board = np.empty(rows * cols, np.int32)
    for k in range(len(genomes)):
        board[:] = -1
        for p in range(len(cells)):
            if genomes[k, p] < n:
                board[cells[p]] = genomes[k, p]
        total = 0.0
        for r in range(rows):
            for c in range(cols):
                x = r * cols + c
                i = board[x]
                if i < 0:
                    continue
                if c + 1 < cols and board[x + 1] >= 0:
                    j = board[x + 1]
                    total += right[i, j] * 0.5 * (place[i, x] + place[j, x + 1])
                if r + 1 < rows and board[x + cols] >= 0:
                    j = board[x + cols]
                    total += down[i, j] * 0.5 * (place[i, x] + place[j, x + cols])
        out[k] = total


@njit(cache=True, nogil=True)
def find(keys, index, count, genomes, blocks, n, out, fresh):  # type: ignore[no-untyped-def]
    """Look the 2×2 puzzlets of all genomes up in a hash table, adding those that are new.

    ``keys``, ``index``: the table, a power of two long, -1 = empty; ``count`` entries so far.
    ``blocks (q, 4)``: positions. ``out (b, q)``: the entry of each, -1 with a hole. ``fresh``
    receives the new puzzlets. Returns the number of entries.
    """
    mask = len(keys) - 1
    old = count
    for k in range(len(genomes)):
        for q in range(len(blocks)):
            key = np.int64(0)
            for s in range(4):
                item = genomes[k, blocks[q, s]]
                if item >= n:
                    key = np.int64(-1)
                    break
                key = key * n + item
            if key < 0:
                out[k, q] = -1
                continue
            slot = _slot(key, mask)
            while keys[slot] != key and keys[slot] >= 0:
                slot = (slot + 1) & mask
            if keys[slot] < 0:
                keys[slot] = key
                index[slot] = count
                for s in range(4):
                    fresh[count - old, s] = genomes[k, blocks[q, s]]
                count += 1
            out[k, q] = index[slot]
    return count


@njit(cache=True, nogil=True)
def _slot(key, mask):  # type: ignore[no-untyped-def]
    x = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((x >> np.uint64(20)) & np.uint64(mask))


@njit(cache=True, nogil=True)
def rehash(keys, index, new_keys, new_index):  # type: ignore[no-untyped-def]
    """Move the entries of a table into a larger, empty one."""
    mask = len(new_keys) - 1
    for s in range(len(keys)):
        if keys[s] >= 0:
            slot = _slot(keys[s], mask)
            while new_keys[slot] >= 0:
                slot = (slot + 1) & mask
            new_keys[slot] = keys[s]
            new_index[slot] = index[s]


@njit(cache=True, nogil=True)
def total(entries, values, out):  # type: ignore[no-untyped-def]
    """``out (b,)``: the sum of the ``values`` of each genome's puzzlets, holes count 0."""
    for k in range(len(entries)):
        score = 0.0
        for q in range(entries.shape[1]):
            if entries[k, q] >= 0:
                score += values[entries[k, q]]
        out[k] = score
