"""Annealing of patches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_cases import Case, assert_valid, blank_puzzle, cases, planted_evidence
from sherd.puzzle import EMPTY
from sherd.search.kernels.anneal import anneal
from sherd.search.kernels.moves import climb, full_score
from sherd.search.patches import cut_out
from sherd.search.problem import Problem, make_problem

GRID = (5, 6)
CELLS = GRID[0] * GRID[1]


def seeded(seed: int = 1) -> np.ndarray:
    return np.array([seed], dtype=np.uint64)


def planted() -> Problem:
    return make_problem(planted_evidence(GRID, strength=8.0), blank_puzzle(CELLS, GRID))


def two_halves() -> np.ndarray:
    """The board on which piece k lies in cell k, but for its halves, which are exchanged."""
    board = np.arange(CELLS, dtype=np.int32).reshape(GRID)
    return np.ascontiguousarray(np.roll(board, GRID[1] // 2, axis=1)).ravel()


@given(case=cases(), seed=st.integers(1, 99), hot=st.sampled_from([0.5, 8.0]))
@settings(max_examples=40)
def test_no_part_gets_worse_and_pins_hold(case: Case, seed: int, hot: float) -> None:
    opened = (case.rng.random(len(case.board)) < 0.6) & ~case.world.fixed
    opened[case.problem.cells :] = False
    if not opened.any():
        return
    part = cut_out(case.problem, case.board, opened)
    w, board = part.problem.world, part.home.copy()
    score = anneal(w, board, 2000, hot, 0.5, seeded(seed))
    assert score == full_score(w, board)
    assert score >= full_score(w, part.home) - 1e-3
    assert np.array_equal(board[w.fixed], part.home[w.fixed])
    inside = part.cells >= 0
    whole = case.board.copy()
    whole[part.cells[inside]] = np.append(part.pieces, EMPTY)[board[inside]]
    assert_valid(case, whole)


def test_heat_opens_what_climbing_cannot() -> None:
    """The halves of a board lie in each other's places: every swap loses, and so does every
    exchange of blocks that are smaller than they are."""
    w, stuck = planted().world, two_halves()
    climb(w, stuck, np.argsort(stuck).astype(np.int32), np.ones(CELLS, bool), seeded())
    assert np.array_equal(stuck, two_halves())
    cool, warm = two_halves(), two_halves()
    anneal(w, cool, 10**6, 0.5, 0.1, seeded())
    assert not np.array_equal(cool, np.arange(CELLS))
    anneal(w, warm, 10**6, 8.0, 1.0, seeded())
    assert np.array_equal(warm, np.arange(CELLS))


def test_one_seed_one_board() -> None:
    w = planted().world
    disorder = np.random.default_rng(0).permutation(CELLS).astype(np.int32)
    boards = []
    for seed in (1, 1, 2):
        boards.append(disorder.copy())
        anneal(w, boards[-1], 3000, 6.0, 3.0, seeded(seed))
    assert np.array_equal(boards[0], boards[1])
    assert not np.array_equal(boards[0], boards[2])


@pytest.mark.parametrize("loose", [0, 1])
def test_nothing_to_move(loose: int) -> None:
    world = planted().world
    w = world._replace(fixed=np.arange(CELLS) >= loose, anchored=True)
    board = two_halves()
    assert anneal(w, board, 1000, 6.0, 1.0, seeded()) == full_score(w, board)
    assert np.array_equal(board, two_halves())
