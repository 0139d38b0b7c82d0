"""Scores and moves of the search: a gain is what a full count would give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from search_cases import Case, assert_valid, cases, cells_of, slow_score
from sherd.search.kernels.moves import (
    EPS,
    best_shift,
    block_exchange,
    block_gain,
    climb,
    cycle,
    cycle_gain,
    exchange,
    full_score,
    swap_gain,
)


def same(value: float) -> object:
    """Float32 evidence: equal up to its rounding."""
    return pytest.approx(value, rel=1e-5, abs=1e-5)


@given(cases())
def test_full_score_is_the_evidence_of_the_board(case: Case) -> None:
    board = case.problem.to_board(case.board)
    assert full_score(case.world, case.board) == same(case.evidence.score(board))
    assert full_score(case.world, case.board) == same(slow_score(case.evidence, board))


@given(cases())
def test_what_lies_in_the_pool_does_not_score(case: Case) -> None:
    emptied = case.board.copy()
    emptied[case.problem.cells :] = -1
    assert full_score(case.world, emptied) == full_score(case.world, case.board)


@given(cases())
def test_swap_gain_is_the_change_of_the_score(case: Case) -> None:
    assume(len(case.board) > 1)
    before = full_score(case.world, case.board)
    for a in range(len(case.board)):
        b = (a + 1 + int(case.rng.integers(len(case.board) - 1))) % len(case.board)
        board, cell = case.board.copy(), case.cell
        gain = swap_gain(case.world, board, a, b)
        assert np.array_equal(board, case.board)
        assert swap_gain(case.world, board, b, a) == same(gain)
        exchange(board, cell, a, b)
        assert board[a] == case.board[b]
        assert board[b] == case.board[a]
        assert np.array_equal(cell, cells_of(board, case.evidence.n))
        assert gain == same(full_score(case.world, board) - before)


@given(cases())
def test_cycle_gain_is_the_change_of_the_score(case: Case) -> None:
    assume(len(case.board) > 2)
    before = full_score(case.world, case.board)
    for _ in range(5):
        a, b, c = case.some_cells(3)
        board, cell = case.board.copy(), case.cell
        gain = cycle_gain(case.world, board, cell, a, b, c)
        assert np.array_equal(board, case.board)
        assert np.array_equal(cell, case.cell)
        cycle(board, cell, a, b, c)
        assert board[[b, c, a]].tolist() == case.board[[a, b, c]].tolist()
        assert np.array_equal(cell, cells_of(board, case.evidence.n))
        assert gain == same(full_score(case.world, board) - before)


@given(cases(), st.booleans())
def test_block_gain_is_the_change_of_the_score(case: Case, puzzlet: bool) -> None:
    rows, cols = case.world.rows, case.world.cols
    rng = case.rng
    height, width = (
        (2, 2) if puzzlet else (int(rng.integers(rows)) + 1, int(rng.integers(cols)) + 1)
    )
    assume(height <= rows and width <= cols)
    (r, k), (s, m) = (
        (int(rng.integers(rows - height + 1)), int(rng.integers(cols - width + 1)))
        for _ in range(2)
    )
    assume(abs(r - s) >= height or abs(k - m) >= width)
    a, b = r * cols + k, s * cols + m
    scratch = np.empty(2 * rows * cols, np.int32)
    mark = np.zeros(len(case.board), np.bool_)
    board, cell = case.board.copy(), case.cell
    gain = block_gain(case.world, board, cell, a, b, height, width, scratch, mark)
    assert np.array_equal(board, case.board)
    assert np.array_equal(cell, case.cell)
    assert not mark.any()
    before = case.problem.to_board(board)
    block_exchange(board, cell, a, b, height, width, cols)
    after = case.problem.to_board(board)
    one, two = np.s_[r : r + height, k : k + width], np.s_[s : s + height, m : m + width]
    wanted = before.copy()
    wanted[one], wanted[two] = before[two], before[one]
    assert np.array_equal(after, wanted)
    assert np.array_equal(cell, cells_of(board, case.evidence.n))
    assert gain == same(case.evidence.score(after) - case.evidence.score(before))


@given(cases(anchors=False))
def test_best_shift_is_the_best_of_all_cyclic_shifts(case: Case) -> None:
    rows, cols = case.world.rows, case.world.cols
    board = case.problem.to_board(case.board)
    shifts = {
        (r, c): case.evidence.score(np.roll(board, (-r, -c), axis=(0, 1)))
        for r in range(rows)
        for c in range(cols)
    }
    shifted, untouched = np.full_like(case.board, -9), case.board.copy()
    gain = best_shift(case.world, case.board, shifted)
    assert np.array_equal(case.board, untouched)
    found = case.problem.to_board(shifted)
    assert any(np.array_equal(found, np.roll(board, (-r, -c), axis=(0, 1))) for r, c in shifts)
    assert gain == same(case.evidence.score(found) - shifts[0, 0])
    assert gain == pytest.approx(max(shifts.values()) - shifts[0, 0], abs=3 * EPS)


def candidate_swaps(case: Case, board: np.ndarray) -> float:
    """The best gain of all swaps that bring to a cell what a neighbour of it lists."""
    w, cell, best = case.world, cells_of(board, case.evidence.n), 0.0
    for c in np.flatnonzero(~w.fixed[: case.problem.cells]):
        for d in range(4):
            x = w.near[c, d]
            if x < 0 or board[x] < 0:
                continue
            for j in w.cand[d ^ 2, board[x]]:
                if j >= 0 and cell[j] != c and not w.fixed[cell[j]]:
                    best = max(best, swap_gain(w, board, int(c), int(cell[j])))
    return best


@given(st.one_of(cases(), cases(most=7, short_lists=True)))
def test_climb_gains_until_no_candidate_swap_does(case: Case) -> None:
    board, cell, state = case.board.copy(), case.cell, case.state
    gain = np.inf
    while gain > 0:  # a swap can make another one pay far away: climb again, from every cell
        dirty = np.ones(len(board), np.bool_)
        before = full_score(case.world, board)
        gain = climb(case.world, board, cell, dirty, state)
        assert full_score(case.world, board) - before == same(gain)
        assert gain > EPS or gain == 0
        assert not dirty.any()
        assert_valid(case, board, cell)
    assert candidate_swaps(case, board) <= EPS


@given(cases(), st.integers(0, 3))
def test_climb_from_a_few_cells_gains_too_and_keeps_what_is_fixed(case: Case, few: int) -> None:
    board, cell = case.board.copy(), case.cell
    dirty = np.zeros(len(board), np.bool_)
    dirty[case.some_cells(few)] = True
    before = full_score(case.world, board)
    gain = climb(case.world, board, cell, dirty, case.state)
    assert full_score(case.world, board) - before == same(gain)
    assert gain > EPS or np.array_equal(board, case.board)
    assert not dirty.any()
    assert_valid(case, board, cell)
