"""Boards that grow by pair scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rival_cases import numbered, odd_puzzles
from sherd import Puzzle
from sherd.puzzle import EMPTY
from sherd.solvers.growing import grow
from sherd.solvers.pdn_ga import Space

GRID = (4, 5)


def scores(n: int, seed: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Right and below: of the numbered puzzle, or random ones."""
    if seed is not None:
        rng = np.random.default_rng(seed)
        return rng.random((n, n)), rng.random((n, n))
    a, b = np.mgrid[:n, :n]
    right = np.where((b == a + 1) & (a % GRID[1] < GRID[1] - 1), 0.9, 0.02)
    return right, np.where(b == a + GRID[1], 0.9, 0.02)


def grown(
    puzzle: Puzzle, pairs: tuple[np.ndarray, np.ndarray], count: int = 8, noise: float = 0.0
) -> tuple[Space, np.ndarray, np.ndarray]:
    """The space of a puzzle, random genomes, and what has grown from them."""
    space = Space(puzzle)
    before = space.random(count, np.random.default_rng(0))
    after = before.copy()
    state = np.array([1], dtype=np.uint64)
    grow(after, space.fixed, space.cells, space.position, *puzzle.grid, *pairs, noise, state)
    return space, before, after


@pytest.mark.parametrize("cell", [(0, 0), (2, 3), (3, 4)])
def test_from_a_pinned_piece_the_truth_grows(cell: tuple[int, int]) -> None:
    truth = np.arange(20).reshape(GRID)
    puzzle = replace(numbered(GRID), pins={int(truth[cell]): cell})
    space, _, after = grown(puzzle, scores(20))
    for genome in after:
        assert np.array_equal(space.board(genome), truth)


def test_every_piece_is_the_best_there_is() -> None:
    """Grown again in plain Python: the same boards, to the last piece."""
    rows, cols = GRID
    right, below = scores(20, seed=3)
    puzzle = replace(numbered(GRID), pins={7: (1, 2)})
    space, _, after = grown(puzzle, (right, below), count=1)
    board = np.full(GRID, EMPTY)
    board[1, 2] = 7
    left = set(range(20)) - {7}
    while left:
        options = []
        for r, c in zip(*np.nonzero(board == EMPTY), strict=True):
            beside = [
                (board[y, x], y, x)
                for y, x in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1))
                if 0 <= y < rows and 0 <= x < cols and board[y, x] != EMPTY
            ]
            for i in left if beside else ():
                pair = [
                    (below if x == c else right)[(j, i) if (y, x) < (r, c) else (i, j)]
                    for j, y, x in beside
                ]
                options.append((np.mean(pair), i, r, c))
        _, i, r, c = max(options)
        board[r, c] = i
        left.remove(i)
    assert np.array_equal(space.board(after[0]), board)


def test_without_pins_boards_begin_anywhere_and_differ() -> None:
    _, _, after = grown(numbered(GRID), scores(20, seed=1), count=16)
    assert all(sorted(genome) == list(range(20)) for genome in after)
    assert len({genome.tobytes() for genome in after}) > 8


def test_noise_makes_boards_differ() -> None:
    puzzle = replace(numbered(GRID), pins={7: (1, 2)})
    for noise, different in ((0.0, False), (0.5, True)):
        _, _, after = grown(puzzle, scores(20, seed=1), noise=noise)
        assert (len({genome.tobytes() for genome in after}) > 1) == different


@pytest.mark.parametrize("case", range(6))
def test_odd_puzzles_keep_pins_and_every_item(case: int) -> None:
    puzzle = odd_puzzles(GRID)[case]
    space, before, after = grown(puzzle, scores(puzzle.n, seed=2))
    for old, new in zip(before, after, strict=True):
        assert sorted(old) == sorted(new)
        assert np.array_equal(old[space.fixed], new[space.fixed])
