"""Small blocks of a board, carried to where they belong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_cases import Case, assert_valid, blank_puzzle, cases, planted_evidence
from sherd.search.kernels.blocks import carry_blocks
from sherd.search.kernels.breed import settle
from sherd.search.kernels.moves import block_exchange, full_score
from sherd.search.problem import Problem, make_problem

GRID = (10, 14)
CELLS = GRID[0] * GRID[1]


def planted(**known: object) -> Problem:
    puzzle = blank_puzzle(CELLS, GRID, **known)
    return make_problem(planted_evidence(GRID, strength=6.0), puzzle)


def exchanged(height: int, width: int, to: int) -> np.ndarray:
    """The board on which piece k lies in cell k, but for two blocks."""
    board = np.arange(CELLS, dtype=np.int32)
    block_exchange(board, np.arange(CELLS, dtype=np.int32), 16, to, height, width, GRID[1])
    return board


def state() -> np.ndarray:
    return np.array([1], dtype=np.uint64)


@pytest.mark.parametrize(
    ("height", "width", "to"), [(2, 2, 46), (3, 2, 89), (2, 5, 80), (4, 3, 76)]
)
def test_blocks_go_back(height: int, width: int, to: int) -> None:
    problem, board = planted(), exchanged(height, width, to)
    alone = board.copy()
    dirty = np.ones(len(board), dtype=bool)
    settle(problem.world, alone, np.argsort(board).astype(np.int32), dirty, state())
    assert not np.array_equal(alone, np.arange(CELLS)), "single pieces find back by themselves"
    score = carry_blocks(problem.world, board, state())
    assert np.array_equal(board, np.arange(CELLS))
    assert score == full_score(problem.world, board)


def test_pins_hold() -> None:
    board = exchanged(2, 2, 46)
    free, pinned = planted(), planted(pins={int(board[16]): (1, 2)})
    for problem, back in ((free, True), (pinned, False)):
        lying = board.copy()
        carry_blocks(problem.world, lying, state())
        assert (lying[16] == 16) == back


@given(case=cases(), seed=st.integers(1, 99))
@settings(max_examples=40)
def test_no_board_gets_worse(case: Case, seed: int) -> None:
    before = float(full_score(case.world, case.board))
    board = case.board.copy()
    score = carry_blocks(case.world, board, np.array([seed], dtype=np.uint64))
    assert_valid(case, board)
    assert score >= before - 1e-3
    assert score == pytest.approx(full_score(case.world, board))
