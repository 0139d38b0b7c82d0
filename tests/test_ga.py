"""The genetic algorithm: its crossover phase by phase, selection, and whole runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from skimage import data

from sherd import Geometry, Puzzle, SherdError, cut
from sherd.puzzle import EMPTY, check_board
from sherd.solvers import Callbacks
from sherd.solvers.ga import GA, GAParams, mean_pair, random_boards, rankings
from sherd.solvers.ga_kernels import breed, describe, grow

ROWS, COLS = 4, 5
N = ROWS * COLS
FREE = np.ones((ROWS, COLS), dtype=np.bool_)
NO_PINS = np.full(N, EMPTY, dtype=np.int32)
NONE = np.full((4, N), -1, dtype=np.int32)
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))


def board_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(N).reshape(ROWS, COLS)


def around_of(board: np.ndarray, *, wrap: bool = False) -> np.ndarray:
    """``(4, N)`` neighbours on ``board``, by a plain loop; ``wrap`` closes it to a torus."""
    out = np.full((4, N), -1, dtype=np.int32)
    for r in range(ROWS):
        for c in range(COLS):
            for d, (dr, dc) in enumerate(STEPS):
                y, x = r + dr, c + dc
                if wrap or (0 <= y < ROWS and 0 <= x < COLS):
                    out[d, board[r, c]] = board[y % ROWS, x % COLS]
    return out


def ranked_by(first: np.ndarray) -> np.ndarray:
    """Rankings that put ``first[d, p]`` at the top and the rest in order."""
    out = np.empty((4, N, N - 1), dtype=np.int32)
    for d in range(4):
        for p in range(N):
            rest = [q for q in range(N) if q not in (p, first[d, p])]
            out[d, p] = [first[d, p], *rest] if first[d, p] >= 0 else rest
    return out


WRONG = ranked_by(around_of(board_of(99), wrap=True))
"""Rankings that lead phase 3 to another board than any parent's."""


def child_of(
    a: np.ndarray,
    b: np.ndarray,
    buddy: np.ndarray = NONE,
    ranked: np.ndarray = WRONG,
    *,
    mutation: float = 0.0,
    free: np.ndarray = FREE,
    pins: np.ndarray = NO_PINS,
    seed: int = 0,
) -> np.ndarray:
    state = np.array([seed], dtype=np.uint64)
    board = np.empty(free.size, dtype=np.int32)
    grow(a, b, buddy, ranked, free, pins, mutation, state, board)
    return check_board(board.reshape(free.shape), N)


def links(board: np.ndarray) -> set[tuple[str, int, int]]:
    right = {
        ("h", int(p), int(q)) for p, q in zip(board[:, :-1].flat, board[:, 1:].flat, strict=True)
    }
    return right | {
        ("v", int(p), int(q)) for p, q in zip(board[:-1].flat, board[1:].flat, strict=True)
    }


TORUS = around_of(board_of(99), wrap=True)
RANKED = {("h", p, int(TORUS[1, p])) for p in range(N)} | {
    ("v", p, int(TORUS[2, p])) for p in range(N)
}
"""The pairs that WRONG ranks first: phase 3 may place those."""


@pytest.mark.parametrize("seed", range(5))
def test_phase_1_inherits_all_that_both_parents_agree_on(seed):
    parent = board_of(1)
    a = around_of(parent)
    assert np.array_equal(child_of(a, a, seed=seed), parent)


@pytest.mark.parametrize("seed", range(5))
def test_phase_1_takes_nothing_that_one_parent_alone_has(seed):
    one = board_of(1)
    other = one[[2, 3, 0, 1]]  # the halves have changed places: both agree inside them
    upper, lower = links(one[:2]), links(one[2:])
    assert links(one) & links(other) == upper | lower
    child = links(child_of(around_of(one), around_of(other), seed=seed))
    assert upper <= child or lower <= child  # whole, whichever it began with
    assert not (links(one) ^ links(other)) & child - RANKED


@pytest.mark.parametrize("seed", range(5))
def test_phase_2_takes_best_buddies_that_one_parent_has(seed):
    one, other = board_of(1), board_of(5)
    assert not links(one) & links(other)
    for a, b in ((one, other), (other, one)):
        child = child_of(around_of(a), around_of(b), around_of(one), seed=seed)
        assert np.array_equal(child, one)


def test_phase_2_leaves_best_buddies_that_no_parent_has():
    one, other, buddies = board_of(1), board_of(5), board_of(11)
    assert not links(one) & links(other)
    assert not (links(one) | links(other)) & links(buddies)
    child = child_of(around_of(one), around_of(other), around_of(buddies))
    assert links(child) <= RANKED


@pytest.mark.parametrize("seed", range(5))
def test_phase_3_takes_the_most_compatible_piece_left(seed):
    child = child_of(NONE, NONE, seed=seed)
    assert links(child) <= RANKED


def test_phase_3_goes_down_the_ranking_when_the_first_is_gone():
    line = np.full((4, N), 7, dtype=np.int32)  # everybody likes piece 7 best
    line[:, 7] = 8
    child = child_of(NONE, NONE, NONE, ranked_by(line), free=np.ones((1, N), dtype=np.bool_))
    assert sorted(child.ravel()) == list(range(N))


def test_the_child_floats_inside_the_frame():
    tops = {int(child_of(NONE, NONE, seed=s)[0, 0]) for s in range(40)}
    assert len(tops) > 5  # the torus of the ranking is cut open in many places


def test_mutation_passes_over_agreements_and_places_random_pieces():
    parent = board_of(1)
    a = around_of(parent)
    torus = ranked_by(around_of(parent, wrap=True))
    assert np.array_equal(child_of(a, a, NONE, torus), parent)
    mutant = child_of(a, a, NONE, torus, mutation=1.0)
    assert len(links(mutant) & links(parent)) < 10  # of 31: neither phase 1 nor the ranking
    skipped = child_of(a, a, NONE, WRONG, mutation=1.0)
    assert len(links(skipped) & links(parent)) < 10


def test_pins_and_blocked_cells_are_honoured_by_a_child():
    free = np.ones((ROWS + 1, COLS), dtype=np.bool_)
    free[2] = False  # cuts the board in two
    pins = np.full(free.size, EMPTY, dtype=np.int32)
    pins[7] = 3
    for seed in range(5):
        for p in (pins, np.full_like(pins, EMPTY)):
            child = child_of(NONE, NONE, free=free, pins=p, seed=seed)
            assert (child[2] == EMPTY).all()
            assert sorted(child[free]) == list(range(N))
        assert child_of(NONE, NONE, free=free, pins=pins, seed=seed)[1, 2] == 3


def test_describe_equals_a_slow_sum():
    rng = np.random.default_rng(0)
    right, down = rng.random((2, N, N)).astype(np.float32)
    board = board_of(4)
    board[1, 2] = EMPTY
    free = FREE.copy()
    free[3, 4] = False
    board[3, 4] = EMPTY
    got = np.empty((4, N), dtype=np.int32)
    cost = describe(board.ravel().astype(np.int32), free, right, down, 0.5, got)
    want = 0.0
    for r in range(ROWS):
        for c in range(COLS):
            for m, (y, x) in ((right, (r, c + 1)), (down, (r + 1, c))):
                if y < ROWS and x < COLS and free[r, c] and free[y, x]:
                    p, q = board[r, c], board[y, x]
                    want += 0.5 if EMPTY in (p, q) else m[p, q]
    assert cost == pytest.approx(want, rel=1e-5)
    full = board_of(4)
    describe(full.ravel().astype(np.int32), FREE, right, down, 0.5, got)
    assert np.array_equal(got, around_of(full))


def test_roulette_breeds_from_the_fit():
    boards = np.stack([board_of(k).ravel() for k in range(3)]).astype(np.int32)
    around = np.stack([around_of(board_of(k)) for k in range(3)])
    m = np.ones((N, N), dtype=np.float32)
    out, out_around, costs = np.zeros_like(boards), np.zeros_like(around), np.zeros(3)
    wheel = np.cumsum([0.0, 1.0, 0.0])  # only the second may be a parent
    state = np.array([5], dtype=np.uint64)
    breed(
        *(boards, around, wheel, 1, NONE, WRONG, FREE, NO_PINS),
        *(m, m, 1.0, 0.0, state, out, out_around, costs),
    )
    assert (out[0] == 0).all()  # the elite's place is left alone
    assert np.array_equal(out[1:], boards[[1, 1]])
    assert np.array_equal(out_around[1:], around[[1, 1]])
    assert costs[1] == 31.0


def test_rankings_and_best_buddies_equal_slow_loops():
    right, down = np.random.default_rng(1).random((2, 6, 6)).astype(np.float32)
    ranked, buddy = rankings(right, down)
    for d, m in enumerate((down.T, right, down, right.T)):
        for p in range(6):
            want = sorted((q for q in range(6) if q != p), key=lambda q: m[p, q])
            assert ranked[d, p].tolist() == want
            back = min((q for q in range(6) if q != want[0]), key=lambda q: m[q, want[0]])
            assert buddy[d, p] == (want[0] if back == p else -1)


def test_mean_pair_leaves_the_diagonal_out():
    right, down = np.eye(3) * 9 + 1, np.eye(3) * 9 + 3
    assert mean_pair(right, down) == pytest.approx(2.0)
    assert mean_pair(np.zeros((3, 3)), np.zeros((3, 3))) == 1.0
    assert mean_pair(np.ones((1, 1)), np.ones((1, 1))) == 1.0


@pytest.mark.parametrize("n", [15, 19, 25])
def test_random_boards_are_valid_and_differ(n):
    free = FREE.copy()
    free[0, 0] = False
    pins = NO_PINS.copy()
    pins[7] = 2
    boards = random_boards(free, pins, n, 50, np.random.default_rng(0))
    for b in boards:
        check_board(b.reshape(ROWS, COLS), n)
    assert (boards[:, 0] == EMPTY).all()
    assert (boards[:, 7] == 2).all()
    assert ((boards >= 0).sum(axis=1) == min(n, 19)).all()
    assert len(np.unique(boards, axis=0)) > 40


def easy() -> Puzzle:
    return cut(data.astronaut(), Geometry((4, 5), (64, 64))).puzzle


def test_solves_an_easy_puzzle():
    puzzle = easy()
    assert np.array_equal(GA().solve(puzzle).board, puzzle.truth)


def test_solves_with_missing_extra_pinned_and_blocked():
    puzzle = easy()
    solver = GA(GAParams(population=300, generations=20))
    fewer = Puzzle(puzzle.pieces[:-1], (4, 5))
    assert np.array_equal(solver.solve(fewer).board.ravel()[:-1], np.arange(19))
    below = Puzzle(puzzle.pieces, (5, 5), blocked=frozenset((0, c) for c in range(5)))
    assert np.array_equal(solver.solve(below).board[1:], puzzle.truth)
    strangers = cut(data.coffee(), Geometry((2, 2), (64, 64))).puzzle.pieces
    more = Puzzle(np.concatenate([puzzle.pieces, strangers]), (4, 5), pins={7: (1, 2)})
    assert np.array_equal(solver.solve(more).board, puzzle.truth)


class Rounds(Callbacks):
    def __init__(self) -> None:
        self.best: list[float] = []

    def on_round(self, round: int, best: float) -> None:
        self.best.append(best)


def test_elitism_never_loses_the_best():
    noise = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    puzzle = replace(cut(noise, Geometry((4, 5), (10, 10))).puzzle)
    for elite, loses in ((1, False), (0, True)):
        heard = Rounds()
        GA(GAParams(30, 40, elite=elite, mutation=0.3)).solve(puzzle, callbacks=heard)
        assert len(heard.best) == 40
        assert any(b < a for a, b in pairwise(heard.best)) == loses


@pytest.mark.parametrize(
    "wrong",
    [{"population": 1}, {"generations": 0}, {"elite": 1000}, {"elite": -1}, {"mutation": 1.5}],
)
def test_bad_parameters_are_refused(wrong):
    with pytest.raises(SherdError, match=next(iter(wrong))):
        GAParams(**wrong)
