"""Numba kernels of the tabu search.

A vertex of the association graph is an assignment: piece p in cell c. Names used throughout:

``weight[d, p, q]``  float32 ``(4, n, n)``: affinity of q at side d of p, at least 0.
``near[c, d]``       int32 ``(C, 4)``: the cell at side d of cell c, -1 where there is none.
``gain[c, p]``       float32 ``(C, n)``: the affinities between vertex (c, p) and the chosen ones,
                     summed; -inf for a vertex that may not be chosen.
``chosen[c, p]``     bool ``(C, n)``: the vertex belongs to the solution.
``until[c, p]``      int32 ``(C, n)``: the vertex is tabu before this iteration.
``often[c, p]``      float32 ``(C, n)``: in how many earlier starts the best board had p in c.
``load[c]``          int32 ``(C,)``: chosen vertices of cell c; ``copies[p]`` those of piece p.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..search.kernels.random import below

EPS = 1e-5
"""A better solution must gain more than this: float32 sums must not cycle."""
LENIENCE = 10
"""After so many moves in a row with a conflict the penalty doubles, without one it halves."""

EXACT, BOUND, STALE = 0, 1, 2
"""What is known of a cell's best flip: itself, an upper bound of its worth, or nothing."""
FOREVER = np.int64(1 << 40)
"""A time at which nothing is tabu."""


@njit(cache=True, nogil=True)
def flip(weight, near, gain, chosen, load, copies, c, p):  # type: ignore[no-untyped-def]
    """Add vertex (c, p) to the solution or drop it, and bring the gains up to date."""
    sign = -1 if chosen[c, p] else 1
    chosen[c, p] = sign > 0
    load[c] += sign
    copies[p] += sign
    for d in range(4):
        x = near[c, d]
        if x >= 0:
            for q in range(gain.shape[1]):
                gain[x, q] += sign * weight[d, p, q]


@njit(cache=True, nogil=True)
def delta(gain, chosen, load, copies, penalty, c, p):  # type: ignore[no-untyped-def]
    """What flipping (c, p) adds to the objective: affinities, less a penalty per conflict."""
    if chosen[c, p]:
        return penalty * (load[c] + copies[p] - 2) - gain[c, p]
    return gain[c, p] - penalty * (load[c] + copies[p])


@njit(cache=True, nogil=True)
def worth(gain, chosen, load, copies, penalty, often, blame, c, p):  # type: ignore[no-untyped-def]
    """`delta` as the search sees it: moves that gain nothing pay for their history."""
    g = delta(gain, chosen, load, copies, penalty, c, p)
    return g if g > 0.0 else g - blame * often[c, p]


@njit(cache=True, nogil=True)
def best_vertex(  # type: ignore[no-untyped-def]
    gain, chosen, load, copies, penalty, often, blame, until, now, hope, c
):
    """The best flip in cell c: (piece or -1, its worth).

    A vertex that is tabu at ``now`` counts only if it is worth more than ``hope`` (aspiration).
    """
    top = -np.inf
    piece = -1
    for p in range(gain.shape[1]):
        w = worth(gain, chosen, load, copies, penalty, often, blame, c, p)
        if w > top and (until[c, p] <= now or w > hope):
            top = w
            piece = p
    return piece, top


@njit(cache=True, nogil=True)
def tabu_search(  # type: ignore[no-untyped-def]
    weight,
    near,
    shut,
    often,
    blame,
    penalty,
    tenure,
    patience,
    first,
    state,
    gain,
    chosen,
    until,
    board,
):
    """Tabu search from the pins in ``board`` and one vertex ``first`` = (cell, piece) or (-1, -1).

    Writes the best one-to-one solution to ``board`` (-1 = empty) and returns its objective.
    ``shut[c]``: the cell is pinned or blocked. The best flip of every cell is kept in ``piece``
    and ``top`` and searched anew only where it may have changed.
    """
    cells, n = gain.shape
    gain[:] = 0.0
    chosen[:] = False
    until[:] = 0
    load = np.zeros(cells, np.int32)
    copies = np.zeros(n, np.int32)
    holds = np.zeros(cells, np.int64)  # the pieces of a cell added up: its piece where load is 1
    piece = np.full(cells, -1, np.int64)
    top = np.full(cells, -np.inf)
    known = np.full(cells, STALE, np.int8)
    value = 0.0
    for c in range(cells):
        p = board[c]
        if p >= 0:
            value += gain[c, p]
            flip(weight, near, gain, chosen, load, copies, c, p)
            holds[c] = p
    for c in range(cells):
        if board[c] >= 0:
            gain[:, board[c]] = -np.inf
    best = value
    strict = penalty  # the penalty now
    conflicts = 0
    streak = 0  # moves in a row with a conflict, or without one where negative
    idle = 0
    now = 0
    while idle < patience:
        now += 1
        hope = best - value + EPS
        c = -1
        p = -1
        high = -np.inf
        if now == 1 and first[0] >= 0:
            c = first[0]
            p = first[1]
        else:
            for late in (False, True):  # what is only a bound comes last: it seldom matters
                for x in range(cells):
                    if shut[x] or (known[x] == BOUND) != late or (late and top[x] <= high):
                        continue
                    if known[x] != EXACT:
                        piece[x], top[x] = best_vertex(
                            gain,
                            chosen,
                            load,
                            copies,
                            strict,
                            often,
                            blame,
                            until,
                            FOREVER,
                            hope,
                            x,
                        )
                        known[x] = EXACT
                    if top[x] > high:
                        q = piece[x]
                        w = top[x]
                        if until[x, q] > now and w <= hope:
                            q, w = best_vertex(
                                gain,
                                chosen,
                                load,
                                copies,
                                strict,
                                often,
                                blame,
                                until,
                                now,
                                hope,
                                x,
                            )
                        if w > high:
                            high = w
                            c = x
                            p = q
            if c < 0:
                break
        value += gain[c, p] if not chosen[c, p] else -gain[c, p]
        conflicts += 2 - load[c] - copies[p] if chosen[c, p] else load[c] + copies[p]
        holds[c] += -p if chosen[c, p] else p
        until[c, p] = now + tenure + below(state, tenure)
        flip(weight, near, gain, chosen, load, copies, c, p)
        known[c] = STALE
        for d in range(4):
            if near[c, d] >= 0:
                known[near[c, d]] = STALE
        alone = chosen[c, p] and copies[p] == 1  # then p can only have lost worth elsewhere
        for x in range(cells):
            if known[x] == STALE or (alone and piece[x] != p):
                continue
            w = worth(gain, chosen, load, copies, strict, often, blame, x, p)
            if piece[x] == p and w < top[x]:
                known[x] = BOUND
            elif w > top[x]:
                piece[x] = p
                top[x] = w
        streak = max(streak, 0) + 1 if conflicts > 0 else min(streak, 0) - 1
        if streak == LENIENCE or (streak == -LENIENCE and strict > penalty):
            strict *= 2.0 if streak > 0 else 0.5
            streak = 0
            known[:] = STALE
        if conflicts == 0 and value > best + EPS:
            best = value
            idle = 0
            for x in range(cells):
                board[x] = holds[x] if load[x] > 0 else -1
        else:
            idle += 1
    return best
