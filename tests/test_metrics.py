"""The metrics equal a slow reference that is written from their definitions alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd import Geometry, Puzzle, SherdError, cut, score_puzzle
from sherd.puzzle import identity_board, score_board

Grid = list[list[int]]


def slow_scores(board: Grid, truth: Grid, fixed_centre: bool) -> dict[str, float]:
    """Perfect, absolute, horizontal, vertical, neighbor by looking at every cell."""
    rows, cols = len(truth), len(truth[0])
    cells = [(r, c) for r in range(rows) for c in range(cols)]
    perfect = all(board[r][c] == truth[r][c] for r, c in cells)
    asked = [(r, c) for r, c in cells if truth[r][c] != -1]
    if fixed_centre:
        asked = [cell for cell in asked if cell != (rows // 2, cols // 2)]
    in_place = [board[r][c] == truth[r][c] for r, c in asked]

    def beside(grid: Grid, down: int, right: int) -> set[tuple[int, int]]:
        found = set()
        for r, c in cells:
            if r + down < rows and c + right < cols:
                a, b = grid[r][c], grid[r + down][c + right]
                if a != -1 and b != -1:
                    found.add((a, b))
        return found

    def share(hits: int, of: int) -> float:
        return hits / of if of else 1.0

    h_true, v_true = beside(truth, 0, 1), beside(truth, 1, 0)
    h, v = len(h_true & beside(board, 0, 1)), len(v_true & beside(board, 1, 0))
    return {
        "perfect": float(perfect),
        "absolute": share(sum(in_place), len(asked)),
        "horizontal": share(h, len(h_true)),
        "vertical": share(v, len(v_true)),
        "neighbor": share(h + v, len(h_true) + len(v_true)),
    }


@st.composite
def board_and_truth(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Two boards of one shape with holes, often nearly alike, sometimes shifted."""
    rows, cols = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    cells = rows * cols
    rng = np.random.default_rng(draw(st.integers(0, 100_000)))
    extra = draw(st.integers(0, 3))
    truth = rng.permutation(cells + extra)[:cells]
    truth[rng.random(cells) < draw(st.sampled_from([0.0, 0.2, 1.0]))] = -1
    board = truth.copy()
    how = draw(st.sampled_from(["same", "swaps", "roll", "random"]))
    if how == "swaps":
        for _ in range(draw(st.integers(1, 4))):
            a, b = rng.integers(0, cells, 2)
            board[[a, b]] = board[[b, a]]
    elif how == "roll":
        board = np.roll(board, 1)
    elif how == "random":
        board = rng.permutation(cells + extra)[:cells]
    if draw(st.booleans()):
        board[rng.random(cells) < 0.2] = -1
    return board.reshape(rows, cols), truth.reshape(rows, cols)


@given(board_and_truth(), st.booleans())
def test_metrics_equal_the_slow_reference(
    case: tuple[np.ndarray, np.ndarray], fixed_centre: bool
) -> None:
    board, truth = case
    fast = score_board(board, truth, fixed_centre=fixed_centre).asdict()
    slow = slow_scores(board.tolist(), truth.tolist(), fixed_centre)
    assert fast.pop("perfect_star") == slow["perfect"]  # without pieces they are the same
    assert set(fast) == set(slow)
    for name, value in slow.items():
        assert math.isclose(fast[name], value), name


@given(board_and_truth(), st.integers(0, 1000))
def test_metrics_do_not_depend_on_the_numbers_of_the_pieces(
    case: tuple[np.ndarray, np.ndarray], seed: int
) -> None:
    board, truth = case
    n = int(max(board.max(), truth.max())) + 1
    new = np.append(np.random.default_rng(seed).permutation(n), -1)  # new[-1] = -1
    assert score_board(new[board], new[truth]) == score_board(board, truth)


def test_a_shifted_board_keeps_its_neighbours() -> None:
    truth = identity_board((4, 5))
    shifted = np.roll(truth, 1, axis=1)
    scores = score_board(shifted, truth)
    assert scores.perfect == scores.absolute == 0.0
    assert scores.horizontal == pytest.approx(3 / 4)
    assert scores.vertical == 1.0
    assert scores.neighbor == pytest.approx((4 * 3 + 3 * 5) / (4 * 4 + 3 * 5))


def test_direction_counts() -> None:
    truth = identity_board((3, 3))
    assert score_board(truth[:, ::-1], truth).horizontal == 0.0
    assert score_board(truth[:, ::-1], truth).vertical == 1.0
    assert score_board(truth.T, truth).neighbor == 0.0


def test_the_given_centre_does_not_count() -> None:
    truth = identity_board((5, 5))
    board = np.roll(truth.ravel(), 1).reshape(5, 5)
    row, col = np.argwhere(board == 12)[0]
    board[row, col], board[2, 2] = board[2, 2], 12  # only the centre is right
    assert score_board(board, truth).absolute == pytest.approx(1 / 25)
    assert score_board(board, truth, fixed_centre=True).absolute == 0.0
    swapped = truth.copy()
    swapped[0, 0], swapped[0, 1] = 1, 0
    assert score_board(swapped, truth, fixed_centre=True).absolute == pytest.approx(22 / 24)


@pytest.fixture
def twins(photo: np.ndarray) -> Puzzle:
    """A puzzle whose pieces 1 and 6 are identical, and 2 and 7 nearly so."""
    puzzle = cut(photo, Geometry((3, 3), (10, 10))).puzzle
    puzzle.pieces[6] = puzzle.pieces[1]
    puzzle.pieces[7] = puzzle.pieces[2]
    values = puzzle.pieces[7].reshape(-1)
    values[:74] ^= 1  # 74 of 300 values differ by 1: 0.247 of a grey level on average
    return puzzle


def swap(board: np.ndarray, a: int, b: int) -> np.ndarray:
    out = board.copy()
    out[board == a], out[board == b] = b, a
    return out


def test_perfect_star_forgives_pieces_that_nobody_can_tell_apart(twins: Puzzle) -> None:
    assert twins.truth is not None
    for a, b in ((1, 6), (2, 7)):
        scores = score_puzzle(swap(twins.truth, a, b), twins)
        assert (scores.perfect, scores.perfect_star) == (0.0, 1.0)
        assert scores.absolute == pytest.approx(7 / 9)
    both = swap(swap(twins.truth, 1, 6), 2, 7)
    assert score_puzzle(both, twins).perfect_star == 1.0


def test_perfect_star_forgives_nothing_else(twins: Puzzle) -> None:
    assert twins.truth is not None
    assert score_puzzle(twins.truth, twins).perfect_star == 1.0
    assert score_puzzle(swap(twins.truth, 0, 8), twins).perfect_star == 0.0
    assert score_puzzle(swap(swap(twins.truth, 1, 6), 0, 8), twins).perfect_star == 0.0
    hole = twins.truth.copy()
    hole[0, 1] = -1
    assert score_puzzle(hole, twins).perfect_star == 0.0
    twins.pieces[7].reshape(-1)[74] ^= 1  # 75 of 300: a quarter of a grey level is too much
    assert score_puzzle(swap(twins.truth, 2, 7), twins).perfect_star == 0.0


def test_differences_are_not_wrapped_around() -> None:
    pieces = np.zeros((2, 4, 4, 3), np.uint8)
    pieces[1] = 255  # as uint8, 0 − 255 would be 1
    puzzle = Puzzle(pieces, (1, 2), truth=np.array([[0, 1]]))
    assert score_puzzle(np.array([[1, 0]]), puzzle).perfect_star == 0.0


def test_missing_pieces_do_not_count() -> None:
    truth = np.array([[0, -1], [1, 2]])
    assert score_board(truth, truth).absolute == 1.0
    filled = np.array([[0, 3], [1, 2]])
    scores = score_board(filled, truth)
    assert (scores.perfect, scores.absolute, scores.neighbor) == (0.0, 1.0, 1.0)


def test_without_truth_or_with_another_shape_there_is_no_score(small: Puzzle) -> None:
    assert small.truth is not None
    with pytest.raises(SherdError, match="truth"):
        score_puzzle(small.truth, small.without_truth())
    with pytest.raises(SherdError, match="agree"):
        score_puzzle(small.truth.T, small)
