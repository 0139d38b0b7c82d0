"""A puzzle's evidence and constraints, laid out for the kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle
from .bounds import Bounds, bind
from .kernels.world import World

LISTS = 16
"""Candidates per side. Longer lists find nothing more on held-out photographs and cost time in
proportion; a slot whose lists are used up looks at all pieces that are left."""
PUZZLET_BOUND = 32.0
"""Nats that one 2×2 puzzlet can say at most, with room to spare."""


@dataclass(frozen=True)
class Problem:
    """A `World` and the board to start from."""

    world: World
    start: np.ndarray
    """Flat board before anything is known: pins laid, all else -1."""
    home: np.ndarray | None = None
    """Flat board that honours all that is known, where that takes more than laying the pins."""

    @property
    def n(self) -> int:
        """Number of pieces."""
        return int(self.world.at.shape[1])

    @property
    def cells(self) -> int:
        """Cells of the grid, the pool left out."""
        return self.world.rows * self.world.cols

    def to_board(self, flat: np.ndarray) -> np.ndarray:
        """``(M, N)`` board of a kernel's flat board."""
        return flat[: self.cells].reshape(self.world.rows, self.world.cols).astype(np.int64)

    def from_board(self, board: np.ndarray) -> np.ndarray:
        """A kernel's flat board: pins and blocked cells are seen to, all pieces laid.

        A pinned piece changes places with what lies in its cell; pieces that ``board`` leaves out
        go to the pool, or else to cells that are empty.
        """
        flat = np.full(len(self.start), EMPTY, dtype=np.int32)
        flat[: self.cells] = board.ravel()
        for c in np.flatnonzero(self.world.fixed):
            here, wanted = flat[c], self.start[c]
            if here != wanted:
                if wanted != EMPTY:
                    was = np.flatnonzero(flat == wanted)
                    flat[was] = np.where(self.world.fixed[was], EMPTY, here)
                flat[c] = wanted
        out = np.setdiff1d(np.arange(self.n), flat)
        free = np.flatnonzero((flat == EMPTY) & ~self.world.fixed)[::-1][: len(out)]
        flat[free] = out
        return flat


def make_problem(evidence: Evidence, puzzle: Puzzle) -> Problem:
    """Lay out ``evidence`` for ``puzzle`` with all that is known of it, and its spare pieces."""
    rows, cols = puzzle.require_grid()
    n, cells = evidence.n, rows * cols
    bounds = bind(puzzle) if puzzle.knowledge else None
    at = np.empty((4, n, n), dtype=np.float32)
    at[0], at[1], at[2], at[3] = evidence.v.T, evidence.h, evidence.v, evidence.h.T
    border = np.zeros((4, n), np.float32) if evidence.border is None else evidence.border.copy()
    big = _big(evidence)
    if bounds is not None:
        _rule_out(bounds, at, border, big)
    pool = max(0, n - (cells - len(puzzle.blocked)))
    near, rim = cell_table(rows, cols, pool)
    start = np.full(cells + pool, EMPTY, dtype=np.int32)
    fixed = np.zeros(cells + pool, dtype=np.bool_)
    for piece, (r, c) in (puzzle.pins if bounds is None else bounds.pins).items():
        start[r * cols + c] = piece
        fixed[r * cols + c] = True
    for r, c in puzzle.blocked:
        fixed[r * cols + c] = True
    barred = np.zeros((1, 1), dtype=np.bool_)
    glue = np.full((4, n), -1, dtype=np.int32)
    if bounds is not None:
        glue = bounds.glue
        barred = np.zeros((cells + pool, n), dtype=np.bool_)
        barred[:cells] = bounds.barred
        barred[cells:, list(bounds.tied)] = True
    world = World(
        at=at,
        border=np.ascontiguousarray(border),
        cand=candidates(at, LISTS, -0.5 * big),
        near=near,
        rim=rim,
        fixed=fixed,
        barred=barred,
        glue=glue,
        tied=np.flatnonzero(barred.any(axis=0)).astype(np.int32) if bounds else np.empty(0, "i4"),
        big=big,
        rows=rows,
        cols=cols,
        anchored=bool(fixed.any()),
        bound=bounds is not None,
    )
    problem = Problem(world, start)
    if bounds is None or bounds.board is None:
        return problem
    return replace(problem, home=problem.from_board(bounds.board))


def _big(evidence: Evidence) -> float:
    """More nats than all evidence of two boards can differ by; a power of 2, so sums stay exact."""
    most = max(float(np.abs(evidence.h).max()), float(np.abs(evidence.v).max()), 1.0)
    total = 2.0 * evidence.n * (most + PUZZLET_BOUND * evidence.puzzlet_weight)
    if evidence.border is not None:
        total += 2.0 * evidence.n * float(np.abs(evidence.border).max())
    return float(2.0 ** np.ceil(np.log2(8.0 * total + 1000.0)))


def _rule_out(bounds: Bounds, at: np.ndarray, border: np.ndarray, big: float) -> None:
    """Links that break a rule cost ``big``; `World.glue` sees to pieces without a neighbour."""
    for side, a, b in bounds.apart:
        at[side, a, b] = at[side ^ 2, b, a] = -big
    for side, a in zip(*np.nonzero(bounds.glue >= 0), strict=True):
        b = bounds.glue[side, a]
        good = at[side, a, b]
        at[side, a, :] = -big
        at[side ^ 2, :, a] = -big
        at[side, a, b] = at[side ^ 2, b, a] = good
        border[side, a] = -big


def candidates(at: np.ndarray, depth: int, least: float = -np.inf) -> np.ndarray:
    """``(4, n, K)`` best neighbours of every side, best first, -1 where there are fewer.

    Pairs of evidence below ``least`` are no candidates.
    """
    n = at.shape[1]
    depth = min(depth, n - 1)
    if depth < 1:
        return np.full((4, n, 1), -1, dtype=np.int32)
    out = np.empty((4, n, depth), dtype=np.int32)
    for d in range(4):
        score = at[d].copy()
        np.fill_diagonal(score, -np.inf)
        part = np.argpartition(-score, depth - 1, axis=1)[:, :depth]
        order = np.argsort(-np.take_along_axis(score, part, axis=1), axis=1, kind="stable")
        best = np.take_along_axis(part, order, axis=1)
        out[d] = np.where(np.take_along_axis(score, best, axis=1) >= least, best, -1)
    return out


def cell_table(rows: int, cols: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
    """`World.near` and `World.rim` of a grid with ``pool`` cells beside it."""
    cells = rows * cols
    grid = np.pad(np.arange(cells).reshape(rows, cols), 1, constant_values=-1)
    near = np.full((cells + pool, 4), -1, dtype=np.int32)
    sides = (grid[:-2, 1:-1], grid[1:-1, 2:], grid[2:, 1:-1], grid[1:-1, :-2])
    for d, side in enumerate(sides):
        near[:cells, d] = side.ravel()
    rim = near < 0
    rim[cells:] = False
    return near, rim
