"""Small search problems of every kind, and slow references, for the tests of search."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from hypothesis import strategies as st

from sherd import Evidence, Puzzle
from sherd.puzzle import EMPTY
from sherd.search.kernels.world import World
from sherd.search.problem import Problem, candidates, make_problem


def blank_puzzle(n: int, grid: tuple[int, int], **known: object) -> Puzzle:
    """A puzzle whose pieces show nothing: search does not look at them."""
    return Puzzle(np.zeros((n, 1, 1, 3), np.uint8), grid, **known)  # type: ignore[arg-type]


def random_evidence(n: int, rng: np.random.Generator, border: bool = True) -> Evidence:
    """Standard normals."""
    h, v = rng.normal(size=(2, n, n))
    return Evidence(h, v, rng.normal(size=(4, n)) if border else None)


def planted_evidence(grid: tuple[int, int], strength: float = 4.0) -> Evidence:
    """Evidence of ``strength`` for the links of the board on which piece k lies in cell k."""
    n = grid[0] * grid[1]
    h, v = np.full((2, n, n), -1.0)
    for r, c in product(range(grid[0]), range(grid[1])):
        i = r * grid[1] + c
        if c + 1 < grid[1]:
            h[i, i + 1] = strength
        if r + 1 < grid[0]:
            v[i, i + grid[1]] = strength
    return Evidence(h, v)


@dataclass
class Case:
    """A problem, and a random complete board of it."""

    evidence: Evidence
    puzzle: Puzzle
    problem: Problem
    board: np.ndarray
    rng: np.random.Generator

    @property
    def world(self) -> World:
        return self.problem.world

    @property
    def cell(self) -> np.ndarray:
        """Cell of every piece on ``board``."""
        return cells_of(self.board, self.evidence.n)

    @property
    def state(self) -> np.ndarray:
        """A fresh random state for the kernels."""
        return random_state(int(self.rng.integers(2**63)))

    def some_cells(self, count: int, *, loose: bool = False) -> list[int]:
        """Different cells, the pool included; ``loose`` ones are not fixed."""
        among = np.flatnonzero(~self.world.fixed) if loose else np.arange(len(self.board))
        return [int(c) for c in self.rng.permutation(among)[:count]]


def random_state(seed: int) -> np.ndarray:
    return np.array([seed], dtype=np.uint64)


def cells_of(board: np.ndarray, n: int) -> np.ndarray:
    cell = np.full(n, -7, dtype=np.int32)
    cell[board[board >= 0]] = np.flatnonzero(board >= 0)
    return cell


@st.composite
def cases(
    draw: st.DrawFn, *, most: int = 5, anchors: bool = True, short_lists: bool = False
) -> Case:
    """Any grid, too few or too many pieces, pins, blocked cells, border evidence or none."""
    rows, cols = draw(st.integers(1, most)), draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    cells = rows * cols
    share = draw(st.sampled_from([0.0, 0.15, 0.5])) if anchors else 0.0
    blocked = np.flatnonzero(rng.random(cells) < share)[: cells - 1]
    free = np.setdiff1d(np.arange(cells), blocked)
    n = max(1, len(free) + draw(st.integers(-4, 3)))
    pinned = rng.permutation(free)[: draw(st.integers(0, 2)) if anchors else 0]
    pins = dict(zip(rng.permutation(n).tolist(), pinned.tolist(), strict=False))
    puzzle = blank_puzzle(
        n,
        (rows, cols),
        pins={p: divmod(c, cols) for p, c in pins.items()},
        blocked=frozenset(divmod(int(c), cols) for c in blocked),
    )
    evidence = random_evidence(n, rng, draw(st.booleans()))
    problem = make_problem(evidence, puzzle)
    if short_lists:
        world = problem.world._replace(cand=candidates(problem.world.at, draw(st.integers(1, 4))))
        problem = Problem(world, problem.start)
    return Case(evidence, puzzle, problem, random_board(problem, rng), rng)


def random_board(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """A complete flat board that keeps the pins."""
    board = problem.start.copy()
    loose = np.setdiff1d(np.arange(problem.n), board)
    room = np.flatnonzero(~problem.world.fixed)
    board[rng.permutation(room)[: len(loose)]] = loose
    return board


def assert_valid(case: Case, board: np.ndarray, cell: np.ndarray | None = None) -> None:
    """Every piece once; pins in place, blocked cells empty, no cell empty without need."""
    n, cells = case.evidence.n, case.problem.cells
    assert sorted(board[board >= 0].tolist()) == list(range(n))
    fixed = case.world.fixed
    assert np.array_equal(board[fixed], case.problem.start[fixed])
    room = cells - len(case.puzzle.blocked)
    assert int((board[:cells] >= 0).sum()) == min(n, room)
    if cell is not None:
        assert np.array_equal(cell, cells_of(board, n))


def slow_score(evidence: Evidence, board: np.ndarray) -> float:
    """Score of an ``(M, N)`` board, link by link."""
    rows, cols = board.shape
    total = 0.0
    for r, c in product(range(rows), range(cols)):
        i = board[r, c]
        if i == EMPTY:
            continue
        if c + 1 < cols and board[r, c + 1] != EMPTY:
            total += float(evidence.h[i, board[r, c + 1]])
        if r + 1 < rows and board[r + 1, c] != EMPTY:
            total += float(evidence.v[i, board[r + 1, c]])
        if evidence.border is not None:
            outside = (r == 0, c == cols - 1, r == rows - 1, c == 0)
            total += sum(float(evidence.border[s, i]) for s in range(4) if outside[s])
    return total
