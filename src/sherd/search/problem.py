"""A puzzle's evidence and constraints, laid out for the kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle
from .kernels.world import World

LISTS = 16
"""Candidates per side. Longer lists find nothing more on held-out photographs and cost time in
proportion; a slot whose lists are used up looks at all pieces that are left."""


@dataclass(frozen=True)
class Problem:
    """A `World` and the board to start from."""

    world: World
    start: np.ndarray
    """Flat board before anything is known: pins laid, all else -1."""

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
        """A kernel's flat board; pieces that ``board`` leaves out go to the pool."""
        flat = np.full(len(self.start), EMPTY, dtype=np.int32)
        flat[: self.cells] = board.ravel()
        out = np.setdiff1d(np.arange(self.n), board)
        free = np.flatnonzero((flat == EMPTY) & ~self.world.fixed)[::-1][: len(out)]
        flat[free] = out
        return flat


def make_problem(evidence: Evidence, puzzle: Puzzle) -> Problem:
    """Lay out ``evidence`` for ``puzzle`` with its pins, blocked cells and spare pieces."""
    rows, cols = puzzle.require_grid()
    n, cells = evidence.n, rows * cols
    at = np.empty((4, n, n), dtype=np.float32)
    at[0], at[1], at[2], at[3] = evidence.v.T, evidence.h, evidence.v, evidence.h.T
    border = np.zeros((4, n), np.float32) if evidence.border is None else evidence.border
    pool = max(0, n - (cells - len(puzzle.blocked)))
    near, rim = _cells(rows, cols, pool)
    start = np.full(cells + pool, EMPTY, dtype=np.int32)
    fixed = np.zeros(cells + pool, dtype=np.bool_)
    for piece, (r, c) in puzzle.pins.items():
        start[r * cols + c] = piece
        fixed[r * cols + c] = True
    for r, c in puzzle.blocked:
        fixed[r * cols + c] = True
    world = World(
        at=at,
        border=np.ascontiguousarray(border),
        cand=candidates(at, LISTS),
        near=near,
        rim=rim,
        fixed=fixed,
        rows=rows,
        cols=cols,
        anchored=bool(fixed.any()),
    )
    return Problem(world, start)


def candidates(at: np.ndarray, depth: int) -> np.ndarray:
    """``(4, n, K)`` best neighbours of every side, best first, -1 where there are fewer."""
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
        out[d] = np.take_along_axis(part, order, axis=1)
    return out


def _cells(rows: int, cols: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
    cells = rows * cols
    grid = np.pad(np.arange(cells).reshape(rows, cols), 1, constant_values=-1)
    near = np.full((cells + pool, 4), -1, dtype=np.int32)
    sides = (grid[:-2, 1:-1], grid[1:-1, 2:], grid[2:, 1:-1], grid[1:-1, :-2])
    for d, side in enumerate(sides):
        near[:cells, d] = side.ravel()
    rim = near < 0
    rim[cells:] = False
    return near, rim
