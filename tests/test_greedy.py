"""The greedy placer: its compatibilities, its first piece, its pool, and whole runs."""

from __future__ import annotations

import numpy as np
import pytest
from skimage import data

from sherd import Geometry, Puzzle, SherdError, cut
from sherd.puzzle import EMPTY
from sherd.solvers import Callbacks
from sherd.solvers.classical import fill
from sherd.solvers.greedy import Greedy, GreedyParams, Placer, compatibility
from sherd.solvers.greedy_kernels import best_fit, mutual, rank

OPPOSITE = (2, 3, 0, 1)


def dissimilarities(truth: np.ndarray, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """``(4, n, n)``: 1 for true neighbours, else about 10."""
    n = truth.size
    rng = np.random.default_rng(seed)
    d = (10.0 + rng.random((4, n, n))).astype(np.float32)
    rows, cols = truth.shape
    for r in range(rows):
        for c in range(cols):
            for s, (dr, dc) in enumerate(((-1, 0), (0, 1), (1, 0), (0, -1))):
                if 0 <= r + dr < rows and 0 <= c + dc < cols:
                    d[s, truth[r, c], truth[r + dr, c + dc]] = 1.0 + noise * rng.random()
    return d


def placer(d: np.ndarray, grid: tuple[int, int]) -> Placer:
    return Placer(d, np.ones(grid, dtype=np.bool_), np.full(grid[0] * grid[1], EMPTY))


def test_rank_equals_slow_loops():
    rng = np.random.default_rng(0)
    d = rng.random((4, 7, 7)).astype(np.float32)
    open_ = rng.random((4, 7)) < 0.7
    laid = np.arange(7) < 3
    best = np.empty((4, 7), dtype=np.int32)
    second = np.empty((4, 7), dtype=np.float32)
    rank(d, open_, laid, best, second)
    for s in range(4):
        for i in range(7):
            partners = [
                j
                for j in range(7)
                if open_[s, i] and open_[OPPOSITE[s], j] and j != i and not (laid[i] and laid[j])
            ]
            partners.sort(key=lambda j: d[s, i, j])
            assert best[s, i] == (partners[0] if partners else -1)
            if len(partners) > 1:
                assert second[s, i] == d[s, i, partners[1]]
            elif partners:
                assert second[s, i] == d[s, i, partners[0]]


def test_mutual_compatibility_is_the_mean_of_both_directions():
    d = np.random.default_rng(1).random((4, 5, 5)).astype(np.float32)
    second = np.full((4, 5), 0.8, dtype=np.float32)
    want = 1 - (d[1, 2, 3] / 0.8 + d[3, 3, 2] / 0.8) / 2
    assert mutual(d, second, 1, 2, 3) == pytest.approx(want, rel=1e-5)
    evidence = compatibility(d, second)
    assert evidence.h[2, 3] == pytest.approx(want, rel=1e-4)
    assert evidence.v[2, 3] == pytest.approx(1 - (d[2, 2, 3] + d[0, 3, 2]) / 1.6, rel=1e-4)
    far = compatibility(d + 100, second)
    assert (far.h == -1).all()  # cut off


def test_best_fit_averages_over_the_neighbours_of_a_slot():
    truth = np.arange(9).reshape(3, 3)
    d = dissimilarities(truth)
    p = placer(d, (3, 3))
    around = np.array([[2, -1, -1, 3], [1, 5, 7, 3]])  # 4 fits one side of the first slot only
    assert best_fit(d, p.second, around, np.array([0, 2, 4, 6, 8])) == (1, 4)


def test_first_piece_has_buddies_whose_buddies_have_all():
    truth = np.random.default_rng(2).permutation(25).reshape(5, 5)
    p = placer(dissimilarities(truth, noise=0.5), (5, 5))
    assert p._first() == truth[2, 2]  # the only one two steps away from every rim


def test_the_surest_of_the_pool_is_placed_next():
    truth = np.arange(3).reshape(1, 3)
    d = dissimilarities(truth)
    d[1, 1, 2] = d[3, 2, 1] = 0.1  # 2 is surer than 0
    p = Placer(d, np.ones((1, 3), dtype=np.bool_), np.array([EMPTY, 1, EMPTY]))
    p.place_next()
    assert p.board().tolist() == [[EMPTY, 1, 2]]


@pytest.mark.parametrize("grid", [(4, 5), (1, 8), (8, 1), (2, 2)])
def test_clear_dissimilarities_are_solved(grid):
    truth = np.random.default_rng(3).permutation(grid[0] * grid[1]).reshape(grid)
    p = placer(dissimilarities(truth, noise=0.5), grid)
    while p.place_next():
        pass
    assert np.array_equal(p.board(), truth)


def test_the_pool_is_refilled_with_best_buddies_among_what_is_left():
    d = np.full((4, 4, 4), 10.0, dtype=np.float32)
    d[1, 0, [3, 1, 2]] = 0.1, 1.0, 5.0  # the right side of 0 likes 3, which lies already, then 1
    d[1, 3, [1, 2]] = 0.5, 5.0  # the right side of 3 likes 1, and more than 0 does
    d[3, 1, [0, 3, 2]] = 1.0, 1.001, 9.0  # but the left side of 1 likes 0
    d[3, 3, 2] = 0.05
    p = Placer(d, np.ones((2, 2), dtype=np.bool_), np.array([0, EMPTY, 3, EMPTY]))
    assert p._buddy(0, 1) == p._buddy(3, 1) == -1
    p.place_next()
    assert p.board().tolist() == [[0, 1], [3, EMPTY]]
    k, piece = best_fit(d, p.second, np.array([[-1, -1, -1, 0], [-1, -1, -1, 3]]), np.array([1, 2]))
    assert (k, piece) == (1, 1)  # without the buddies' right of way 1 would lie beside 3


def test_cells_cut_off_by_blocked_ones_are_filled():
    free = np.ones((3, 3), dtype=np.bool_)
    free[1] = False
    d = dissimilarities(np.arange(6).reshape(2, 3))
    p = Placer(d, free, np.full(9, EMPTY))
    while p.place_next():
        pass
    board = p.board()
    assert (board[1] == EMPTY).all()
    assert sorted(board[free]) == list(range(6))


def test_fill_takes_what_suits_the_neighbours_best():
    truth = np.arange(12).reshape(3, 4)
    d = dissimilarities(truth)
    evidence = compatibility(d, placer(d, (3, 4)).second)
    board = truth.copy()
    board[1, 1:3] = EMPTY
    free = np.ones((3, 4), dtype=np.bool_)
    assert np.array_equal(fill(board, free, evidence), truth)
    assert board[1, 1] == EMPTY  # a copy
    free[1, 2] = False
    assert fill(board, free, evidence)[1, 2] == EMPTY


def easy() -> Puzzle:
    return cut(data.astronaut(), Geometry((4, 5), (64, 64))).puzzle


def test_solves_an_easy_puzzle():
    puzzle = easy()
    result = Greedy().solve(puzzle)
    assert np.array_equal(result.board, puzzle.truth)
    assert result.confidence.min() > 0.5


def test_solves_with_missing_extra_pinned_and_blocked():
    puzzle = easy()
    fewer = Puzzle(puzzle.pieces[:-1], (4, 5))
    assert np.array_equal(Greedy().solve(fewer).board.ravel()[:-1], np.arange(19))
    below = Puzzle(puzzle.pieces, (5, 5), blocked=frozenset((0, c) for c in range(5)))
    assert np.array_equal(Greedy().solve(below).board[1:], puzzle.truth)
    strangers = cut(data.coffee(), Geometry((2, 2), (64, 64))).puzzle.pieces
    more = Puzzle(np.concatenate([puzzle.pieces, strangers]), (4, 5), pins={7: (1, 2)})
    assert np.array_equal(Greedy().solve(more).board, puzzle.truth)


def test_a_stopped_run_is_filled_up():
    puzzle = easy()
    asked: list[float] = []

    def stop(best: float) -> bool:
        asked.append(best)
        return len(asked) == 3

    board = Greedy().solve(puzzle, stop=stop).board
    assert len(asked) == 3
    assert sorted(board.ravel()) == list(range(20))


def test_history_is_thinned():
    class Boards(Callbacks):
        count = 0

        def on_board(self, board: np.ndarray, score: float, round: int) -> None:
            self.count += 1

    heard = Boards()
    Greedy(GreedyParams(snapshots=4)).solve(easy(), callbacks=heard)
    assert heard.count == 4


def test_bad_parameters_are_refused():
    with pytest.raises(SherdError, match="snapshots"):
        GreedyParams(snapshots=0)
