"""The graph of partial assemblies of Deepzzle, and the shortest path through it.

A vertex is a partial assembly, an edge lays one more fragment into the next cell and costs −log p.
What remains to be paid depends only on which fragments are left, so partial assemblies of the same
fragments are one vertex: of 3×3 puzzles 2⁸ remain instead of 8!. All vertices of a level are
expanded at once.

Branch-cut drops edges whose probability is below ``cut``, and leaves at most ``width`` vertices in
a level, the cheapest. Without it (0 and 0) the path is the shortest there is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST = 62
"""Fragments that fit into the bits of a vertex."""


@dataclass(frozen=True)
class Path:
    """A way through all levels."""

    cost: float
    chosen: np.ndarray
    """``(levels,)``: the fragment of every level."""


@dataclass(frozen=True)
class _Level:
    masks: np.ndarray
    """``(s,)`` int64: fragments that were laid, as bits."""
    costs: np.ndarray
    parents: np.ndarray
    """``(s,)``: vertex of the level before."""
    laid: np.ndarray
    """``(s,)``: fragment of this level."""


def shortest_paths(
    cost: np.ndarray,
    edge: np.ndarray | None = None,
    *,
    cut: float = 0.0,
    width: int = 0,
    blanks: int = 0,
    keep: int = 1,
) -> list[Path]:
    """The ``keep`` shortest paths that end with different fragments left over, best first.

    Parameters
    ----------
    cost
        ``(levels, fragments)``: of a fragment in the cell of a level; inf = it may not lie there.
    edge
        ``(levels, fragments)`` −log p that is held against ``cut``; ``cost`` unless given.
    cut
        Edges of a lower probability are dropped, 0 = none.
    width
        Most vertices of a level, 0 = all.
    blanks
        How many of the last fragments are blanks: they are alike, so only the first free one is
        laid.
    keep
        How many paths.

    Returns
    -------
    list
        Empty if no path is left.
    """
    levels, count = cost.shape
    assert count <= MOST
    dear = np.inf if cut <= 0.0 else -np.log(cut) + 1e-9  # an edge at the threshold stays
    passable = np.isfinite(cost) & ((cost if edge is None else edge) <= dear)
    alike = ((np.int64(1) << np.int64(blanks)) - 1) << np.int64(count - blanks)
    last = _Level(np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64), np.zeros(1, np.int64))
    trail: list[_Level] = []
    for level in range(levels):
        last = _expand(last, np.flatnonzero(passable[level]), cost[level], alike, width)
        if not len(last.masks):
            return []
        trail.append(last)
    ends = np.argsort(last.costs, kind="stable")[:keep]
    return [Path(float(last.costs[k]), _chosen(trail, int(k))) for k in ends]


def _expand(
    last: _Level, fragments: np.ndarray, cost: np.ndarray, alike: np.int64, width: int
) -> _Level:
    """All vertices that one more fragment leads to."""
    bits = np.int64(1) << fragments.astype(np.int64)
    free = (last.masks[:, None] & bits) == 0
    blank = (bits & alike) != 0
    if blank.any():  # a blank follows those before it
        before = (bits - 1) & alike
        free &= ~blank | ((last.masks[:, None] & before) == before)
    parents, which = np.nonzero(free)
    masks = last.masks[parents] | bits[which]
    costs = last.costs[parents] + cost[fragments[which]]
    order = np.lexsort((costs, masks))
    first = np.ones(len(order), dtype=bool)
    first[1:] = masks[order][1:] != masks[order][:-1]
    order = order[first]  # the cheapest way to every vertex
    if width and len(order) > width:
        order = order[np.argsort(costs[order], kind="stable")[:width]]
    return _Level(masks[order], costs[order], parents[order], fragments[which[order]])


def _chosen(trail: list[_Level], end: int) -> np.ndarray:
    """The fragments along the way that ends in vertex ``end`` of the last level."""
    out = np.empty(len(trail), dtype=np.int64)
    for level in range(len(trail) - 1, -1, -1):
        out[level] = trail[level].laid[end]
        end = int(trail[level].parents[end])
    return out
