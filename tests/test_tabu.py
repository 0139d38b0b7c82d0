"""The tabu search: its gains, its moves, its memory, and whole runs."""

from __future__ import annotations

import numpy as np
import pytest
from skimage import data

from sherd import Geometry, Puzzle, SherdError, cut
from sherd.puzzle import EMPTY, check_board
from sherd.search.kernels.random import below
from sherd.solvers.classical import by_side
from sherd.solvers.tabu import Tabu, TabuParams, affinity, neighbours
from sherd.solvers.tabu_kernels import best_vertex, delta, flip, tabu_search

ROWS, COLS = 3, 4
C = N = ROWS * COLS
NEAR = neighbours(np.ones((ROWS, COLS), dtype=np.bool_))


def slow_weight(
    weight: np.ndarray, penalty: float, v: tuple[int, int], w: tuple[int, int]
) -> float:
    """Weight between two vertices (cell, piece) of the association graph."""
    if v == w:
        return 0.0
    if v[0] == w[0] or v[1] == w[1]:
        return -penalty
    for d in range(4):
        if NEAR[v[0], d] == w[0]:
            return float(weight[d, v[1], w[1]])
    return 0.0


def random_weight(seed: int) -> np.ndarray:
    right, down = np.random.default_rng(seed).random((2, N, N)).astype(np.float32)
    np.fill_diagonal(right, 0.0)
    np.fill_diagonal(down, 0.0)
    return by_side(right, down)


def search(
    weight: np.ndarray,
    *,
    pins: np.ndarray | None = None,
    shut: np.ndarray | None = None,
    often: np.ndarray | None = None,
    blame: float = 0.0,
    patience: int = 30,
    first: tuple[int, int] = (0, 0),
    penalty: float = 0.5,
    tenure: int = 5,
    seed: int = 0,
) -> tuple[np.ndarray, float]:
    board = np.full(C, EMPTY, dtype=np.int32) if pins is None else pins.astype(np.int32)
    value = tabu_search(
        weight,
        NEAR,
        np.zeros(C, dtype=np.bool_) if shut is None else shut,
        np.zeros((C, N), dtype=np.float32) if often is None else often,
        blame,
        penalty,
        tenure,
        patience,
        np.array(first),
        np.array([seed], dtype=np.uint64),
        np.empty((C, N), dtype=np.float32),
        np.empty((C, N), dtype=np.bool_),
        np.empty((C, N), dtype=np.int32),
        board,
    )
    return check_board(board.reshape(ROWS, COLS), N), value


def total(weight: np.ndarray, board: np.ndarray) -> float:
    cells = [(c, int(p)) for c, p in enumerate(board.ravel()) if p != EMPTY]
    return sum(slow_weight(weight, 9.0, v, w) for v in cells for w in cells) / 2


def test_a_flip_changes_the_objective_by_its_delta():
    weight = random_weight(0)
    gain = np.zeros((C, N), dtype=np.float32)
    chosen = np.zeros((C, N), dtype=np.bool_)
    load, copies = np.zeros(C, dtype=np.int32), np.zeros(N, dtype=np.int32)
    rng = np.random.default_rng(1)
    for _ in range(40):  # adds and drops, conflicts among them
        c, p = int(rng.integers(C)), int(rng.integers(4))
        flip(weight, NEAR, gain, chosen, load, copies, c, p)
    held = [(int(c), int(p)) for c, p in np.argwhere(chosen)]
    assert len(held) > 4
    for c in range(C):
        for p in range(N):
            want = sum(slow_weight(weight, 0.7, (c, p), w) for w in held)
            got = delta(gain, chosen, load, copies, 0.7, c, p)
            assert got == pytest.approx(-want if chosen[c, p] else want, abs=1e-4)


def best_of(
    gain: list[float],
    *,
    chosen: bool = False,
    often: tuple[float, ...] = (0.0, 0.0, 0.0),
    blame: float = 0.0,
    until: tuple[int, ...] = (0, 0, 0),
    now: int = 5,
    hope: float = 10.0,
) -> int:
    n = len(gain)
    held = np.full((1, n), chosen)
    piece, _ = best_vertex(
        np.array([gain], dtype=np.float32),
        held,
        np.ones(1, dtype=np.int32) * chosen,
        np.ones(n, dtype=np.int32) * chosen,
        0.5,
        np.array([often[:n]], dtype=np.float32),
        blame,
        np.array([until[:n]], dtype=np.int32),
        now,
        hope,
        0,
    )
    return piece


def test_tabu_vertices_wait_unless_they_lead_to_a_new_best():
    assert best_of([1.0, 3.0, 2.0]) == 1
    assert best_of([1.0, 3.0, 2.0], until=(0, 9, 0)) == 2
    assert best_of([1.0, 3.0, 2.0], until=(0, 9, 0), hope=2.5) == 1  # aspiration
    assert best_of([1.0, 3.0, 2.0], until=(0, 9, 0), now=9) == 1  # over


def test_history_makes_moves_that_gain_nothing_dearer():
    assert best_of([-1.0, -1.2], often=(1.0, 0.0)) == 0
    assert best_of([-1.0, -1.2], often=(1.0, 0.0), blame=0.5) == 1
    assert best_of([1.2, 1.0], often=(1.0, 0.0), blame=0.5) == 0  # a gain is a gain
    assert best_of([1.2, 1.0], chosen=True) == 1  # a drop gains the opposite


@pytest.mark.parametrize("seed", range(4))
def test_the_returned_value_is_the_weight_of_the_board(seed):
    weight = random_weight(seed)
    board, value = search(weight, patience=200, seed=seed)
    assert (board != EMPTY).all()
    assert value == pytest.approx(total(weight, board), rel=1e-4)


def slow_search(
    weight: np.ndarray, often: np.ndarray, blame: float, penalty: float, tenure: int, patience: int
) -> tuple[np.ndarray, float]:
    """The same search with the whole matrix of the association graph, every move from scratch."""
    vertices = [(c, p) for c in range(C) for p in range(N)]
    full = np.array([[slow_weight(weight, 9.0, v, w) for w in vertices] for v in vertices])
    likes, clashes = np.maximum(full, 0), (full < 0).astype(float)
    state = np.array([0], dtype=np.uint64)
    until = np.zeros(C * N)
    x = np.zeros(C * N)
    best, board, idle, now = 0.0, np.full(C, EMPTY), 0, 0
    strict, streak = penalty, 0
    while idle < patience:
        now += 1
        step = (likes @ x - strict * clashes @ x) * (1 - 2 * x)
        step -= np.where(step <= 0, blame * often.ravel(), 0.0)
        step[(until > now) & (step <= best - x @ likes @ x / 2 + 1e-5)] = -np.inf
        move = int(step.argmax()) if now > 1 else 0
        until[move] = now + tenure + below(state, tenure)
        x[move] = 1 - x[move]
        clash = x @ clashes @ x > 0
        streak = max(streak, 0) + 1 if clash else min(streak, 0) - 1
        if streak == 10 or (streak == -10 and strict > penalty):
            strict *= 2.0 if streak > 0 else 0.5
            streak = 0
        idle += 1
        if not clash and x @ likes @ x / 2 > best + 1e-5:
            best, idle = x @ likes @ x / 2, 0
            board[:] = EMPTY
            for v in np.flatnonzero(x):
                board[vertices[v][0]] = vertices[v][1]
    return board.reshape(ROWS, COLS), best


@pytest.mark.parametrize("penalty", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_search_equals_a_slow_one(seed, penalty):
    weight = random_weight(seed)
    often = np.random.default_rng(seed).random((C, N)).astype(np.float32)
    want, best = slow_search(weight, often, 0.3, penalty, 4, 200)
    got, value = search(weight, often=often, blame=0.3, penalty=penalty, tenure=4, patience=200)
    assert np.array_equal(got, want)
    assert value == pytest.approx(best, rel=1e-4)


def test_the_tabu_list_leads_out_of_local_optima():
    better = 0
    for seed in range(10):
        weight = random_weight(seed)
        stuck = search(weight, patience=300, tenure=1, penalty=9.0, seed=seed)[1]  # no list
        long = search(weight, patience=300, tenure=5, penalty=9.0, seed=seed)[1]
        better += long > stuck + 0.1
    assert better >= 6


def test_a_good_start_grows_to_the_true_board():
    truth = np.random.default_rng(5).permutation(N).reshape(ROWS, COLS)
    right = np.full((N, N), 0.05, dtype=np.float32)
    down = right.copy()
    right[truth[:, :-1], truth[:, 1:]] = 1.0
    down[truth[:-1], truth[1:]] = 1.0
    board, value = search(by_side(right, down), first=(6, int(truth[1, 2])))
    assert np.array_equal(board, truth)
    assert value == pytest.approx(17.0, rel=1e-4)


def test_pinned_and_blocked_cells_stay():
    pins = np.full(C, EMPTY)
    pins[3], pins[8] = 7, 1
    shut = pins != EMPTY
    shut[5] = True
    for seed in range(4):
        board, value = search(
            random_weight(seed), pins=pins, shut=shut, patience=100, first=(-1, -1), seed=seed
        )
        assert board.flat[3] == 7
        assert board.flat[8] == 1
        assert board.flat[5] == EMPTY
        assert (board != EMPTY).sum() == C - 1
        assert value == pytest.approx(total(random_weight(seed), board), rel=1e-4)


def test_affinity_equals_the_formula():
    d = 1 + np.random.default_rng(3).random((4, 6, 6)).astype(np.float32)
    evidence = affinity(d, 2.0)
    second = [sorted(d[1, 2, [0, 1, 3, 4, 5]])[1], sorted(d[3, 4, [0, 1, 2, 3, 5]])[1]]
    want = (np.exp(-2 * d[1, 2, 4] / second[0]) + np.exp(-2 * d[3, 4, 2] / second[1])) / 2
    assert evidence.h[2, 4] == pytest.approx(want, rel=1e-5)
    assert (np.diag(evidence.h) == 0).all()
    assert affinity(d[:, :1, :1], 2.0).n == 1
    assert np.isfinite(affinity(np.zeros((4, 3, 3), dtype=np.float32), 2.0).h).all()


def test_neighbours_leave_blocked_cells_out():
    free = np.ones((2, 3), dtype=np.bool_)
    free[0, 1] = False
    near = neighbours(free)
    assert near[0].tolist() == [-1, -1, 3, -1]
    assert near[4].tolist() == [-1, 5, -1, 3]


def easy() -> Puzzle:
    return cut(data.astronaut(), Geometry((4, 5), (64, 64))).puzzle


def test_solves_an_easy_puzzle():
    puzzle = easy()
    assert np.array_equal(Tabu().solve(puzzle).board, puzzle.truth)


def test_solves_with_missing_extra_pinned_and_blocked():
    puzzle = easy()
    fewer = Puzzle(puzzle.pieces[:-1], (4, 5))
    assert np.array_equal(Tabu().solve(fewer).board.ravel()[:-1], np.arange(19))
    below = Puzzle(puzzle.pieces, (5, 5), blocked=frozenset((0, c) for c in range(5)))
    assert np.array_equal(Tabu().solve(below).board[1:], puzzle.truth)
    strangers = cut(data.coffee(), Geometry((2, 2), (64, 64))).puzzle.pieces
    more = Puzzle(np.concatenate([puzzle.pieces, strangers]), (4, 5), pins={7: (1, 2)})
    assert np.array_equal(Tabu().solve(more).board, puzzle.truth)


@pytest.mark.parametrize(
    "wrong",
    [
        {"starts": 0},
        {"tenure": 0},
        {"patience": 0.0},
        {"penalty": -1.0},
        {"sharpness": 0.0},
        {"history": -0.1},
    ],
)
def test_bad_parameters_are_refused(wrong):
    with pytest.raises(SherdError, match=next(iter(wrong))):
        TabuParams(**wrong)
