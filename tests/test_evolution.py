"""The evolutionary search: repeatable, anytime, honest about its score, and able to find boards."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_cases import (
    Case,
    assert_valid,
    blank_puzzle,
    cases,
    planted_evidence,
    random_board,
    random_evidence,
)
from sherd import Evidence, SherdError
from sherd.perception.synthetic import synthetic_evidence
from sherd.puzzle import EMPTY, check_board
from sherd.search import evolution
from sherd.search.evolution import Evolution, EvolutionParams, default_threads
from sherd.search.kernels.island import KINDS, breed
from sherd.search.kernels.moves import full_score
from sherd.search.problem import Problem, make_problem

SHORT = EvolutionParams(patience=40, population=4)


def run(
    problem: Problem,
    seed: int = 0,
    params: EvolutionParams | None = None,
    *,
    threads: int = 1,
    start: np.ndarray | None = None,
    rounds: int = 10**9,
) -> tuple[np.ndarray, float, list[tuple[np.ndarray, float, int]]]:
    """Board, score, and what progress was told."""
    told = []

    def progress(board: np.ndarray, score: float, number: int) -> bool:
        told.append((board.copy(), score, number))
        return len(told) >= rounds

    search = Evolution(problem, params, threads=threads)
    board, score = search.run(np.random.default_rng(seed), progress, start=start)
    return board, score, told


def shuffled(
    grid: tuple[int, int],
    seed: int,
    *,
    top1: float = 0.8,
    blocked: tuple[tuple[int, int], ...] = (),
) -> tuple[Evidence, np.ndarray]:
    """Synthetic evidence of shuffled pieces and their true board; blocked cells have none."""
    rng = np.random.default_rng(seed)
    whole = synthetic_evidence(grid, top1, rng)
    free = np.ones(grid, bool)
    free[tuple(np.array(blocked, dtype=int).reshape(-1, 2).T)] = False
    order = rng.permutation(np.flatnonzero(free))
    truth = np.full(free.size, EMPTY)
    truth[order] = np.arange(len(order))
    ix = np.ix_(order, order)
    return Evidence(whole.h[ix], whole.v[ix]), truth.reshape(grid)


# --- contract -----------------------------------------------------------------------------------


def test_a_seed_gives_the_same_search_on_any_number_of_threads() -> None:
    evidence = random_evidence(24, np.random.default_rng(0))
    problem = make_problem(evidence, blank_puzzle(24, (4, 6)))
    params = EvolutionParams(islands=3, population=4, patience=200)
    board, score, told = run(problem, 5, params, threads=1)
    for threads in (1, 2, 3):
        again, same_score, told_again = run(problem, 5, params, threads=threads)
        assert np.array_equal(board, again)
        assert score == same_score
        assert len(told) == len(told_again)
        for (b, s, k), (b2, s2, k2) in zip(told, told_again, strict=True):
            assert (s, k) == (s2, k2)
            assert np.array_equal(b, b2)
    others = [run(problem, seed, params, rounds=1)[1] for seed in range(6)]
    assert len(set(others)) > 1  # the seed matters


@settings(max_examples=40)
@given(cases())
def test_a_search_stopped_at_once_has_a_whole_board(case: Case) -> None:
    board, score, told = run(case.problem, 1, SHORT, rounds=1)
    assert len(told) == 1
    assert_valid(case, case.problem.from_board(board))
    assert score == pytest.approx(case.evidence.score(board), rel=1e-5, abs=1e-4)


@settings(max_examples=40)
@given(cases())
def test_constraints_hold_and_scores_rise(case: Case) -> None:
    board, score, told = run(case.problem, 2, SHORT)
    cells = case.problem.cells
    for shown, value, _ in [*told, (board, score, -1)]:
        check_board(shown, case.evidence.n)
        assert all(shown[cell] == piece for piece, cell in case.puzzle.pins.items())
        assert all(shown[cell] == EMPTY for cell in case.puzzle.blocked)
        room = cells - len(case.puzzle.blocked)
        assert int((shown != EMPTY).sum()) == min(case.evidence.n, room)
        assert value == pytest.approx(case.evidence.score(shown), rel=1e-5, abs=1e-4)
    scores = [value for _, value, _ in told]
    assert scores == sorted(scores)
    assert score == scores[-1]
    assert np.array_equal(board, told[-1][0])
    assert [k for _, _, k in told] == list(range(len(told)))


@settings(max_examples=40)
@given(cases(), st.booleans())
def test_a_start_is_never_lost(case: Case, at_once: bool) -> None:
    if not case.world.fixed[: case.problem.cells].all():
        _, _, told = run(case.problem, 3, SHORT, start=case.board, rounds=1 if at_once else 10**9)
        assert told[0][1] >= full_score(case.world, case.board)


def test_a_good_start_is_gone_on_from() -> None:
    """A hard puzzle, started at its true board, ends there or higher, and at once."""
    evidence, truth = shuffled((8, 8), 0, top1=0.35)
    problem = make_problem(evidence, blank_puzzle(64, (8, 8)))
    goal = evidence.score(truth)
    fresh = run(problem, 0, rounds=1)[1]
    started = run(problem, 0, rounds=1, start=problem.from_board(truth))[1]
    assert fresh < goal - 1
    assert started >= goal - 1e-3


@settings(max_examples=40)
@given(cases())
def test_boards_and_flat_boards_are_the_same(case: Case) -> None:
    board = case.problem.to_board(case.board)
    again = case.problem.from_board(board)
    assert np.array_equal(case.problem.to_board(again), board)
    assert sorted(again[again >= 0].tolist()) == list(range(case.evidence.n))
    assert again.dtype == np.int32


def test_pieces_that_a_board_leaves_out_find_a_place() -> None:
    problem = make_problem(planted_evidence((2, 3)), blank_puzzle(6, (2, 2), pins={5: (0, 0)}))
    flat = problem.from_board(np.array([[5, -1], [2, -1]]))
    assert flat[[0, 2]].tolist() == [5, 2]
    assert sorted(flat.tolist()) == list(range(6))


@pytest.mark.parametrize("extra", [0, 2])
def test_a_board_that_is_all_pins_carries_its_score(extra: int) -> None:
    rng = np.random.default_rng(1)
    evidence = random_evidence(4 + extra, rng)
    pins = {0: (0, 0), 1: (0, 1), 2: (1, 0), 3: (1, 1)}
    problem = make_problem(evidence, blank_puzzle(4 + extra, (2, 2), pins=pins))
    board, score, told = run(problem)
    assert board.tolist() == [[0, 1], [2, 3]]
    assert score == pytest.approx(evidence.score(board), abs=1e-5)
    assert [(s, k) for _, s, k in told] == [(score, 0)]


def test_a_single_piece_goes_where_its_border_says() -> None:
    border = np.array([[-2.0], [3.0], [1.0], [-1.0]])  # bottom right
    evidence = Evidence(np.zeros((1, 1)), np.zeros((1, 1)), border)
    for blocked in (frozenset(), frozenset({(0, 0)})):
        board, score, _ = run(make_problem(evidence, blank_puzzle(1, (2, 3), blocked=blocked)))
        assert board.tolist() == [[-1, -1, -1], [-1, -1, 0]]
        assert score == 4.0


@pytest.mark.parametrize(
    "fields",
    [
        {"islands": 0},
        {"population": 1},
        {"patience": 0},
        {"mixes": -1},
        {"noise": -1.0},
        {"worth": -0.1},
    ],
)
def test_senseless_parameters_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(SherdError, match="evolution"):
        EvolutionParams(**fields)  # type: ignore[arg-type]


def test_threads_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHERD_THREADS", "3")
    assert default_threads() == 3
    monkeypatch.delenv("SHERD_THREADS")
    assert default_threads() == os.cpu_count()
    for bad in ("0", "-1", "two"):
        monkeypatch.setenv("SHERD_THREADS", bad)
        with pytest.raises(SherdError, match="SHERD_THREADS"):
            default_threads()


# --- the population -----------------------------------------------------------------------------


def island(problem: Problem, boards: list[np.ndarray]) -> evolution._Island:
    """An island that holds these boards."""
    new = evolution._Island(problem, EvolutionParams(population=len(boards)), 0, None)
    order = sorted(boards, key=lambda b: -full_score(problem.world, b))
    new.boards[:] = order
    new.scores[:] = [full_score(problem.world, b) for b in order]
    new.size = len(boards)
    return new


def assert_sound(new: evolution._Island, *, twins: bool = False) -> None:
    """Best first, scores true, no board twice."""
    assert (np.diff(new.scores) <= 0).all()
    world = new.problem.world
    for board, score in zip(new.boards, new.scores, strict=True):
        assert score == pytest.approx(full_score(world, board), abs=1e-6)
    if not twins:
        shown = {new.problem.to_board(b).tobytes() for b in new.boards}
        assert len(shown) == len(new.boards)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(0, 3), st.integers(1, 3))
def test_migration_keeps_populations_sorted_and_without_twins(
    seed: int, extra: int, count: int
) -> None:
    rng = np.random.default_rng(seed)
    problem = make_problem(random_evidence(12 + extra, rng), blank_puzzle(12 + extra, (3, 4)))
    islands = [
        island(problem, [random_board(problem, rng) for _ in range(4)]) for _ in range(count)
    ]
    for _ in range(3):
        best = [(i.boards[0].copy(), float(i.scores[0])) for i in islands]
        weakest = [float(i.scores[-1]) for i in islands]
        evolution._migrate(islands)
        for k, new in enumerate(islands):
            assert_sound(new)
            guest, score = best[k - 1]
            assert (new.boards == guest).all(axis=1).any() == (score >= weakest[k])
            assert new.scores[0] == max(score, best[k][1])


def test_a_guest_that_differs_only_in_the_pool_is_no_guest() -> None:
    rng = np.random.default_rng(4)
    problem = make_problem(random_evidence(9, rng), blank_puzzle(9, (2, 3)))
    first = [random_board(problem, rng) for _ in range(3)]
    one = island(problem, first)
    twin = one.boards[0].copy()
    twin[6:] = twin[:5:-1]
    two = island(problem, [twin, *(random_board(problem, rng) for _ in range(2))])
    two.scores[1:] = two.scores[0] - [1.0, 2.0]
    before = two.boards.copy()
    evolution._migrate([one, two])
    assert np.array_equal(two.boards, before)


@pytest.mark.parametrize("mixes", [1, 3])
def test_islands_are_left_alone_while_something_comes_of_it(
    mixes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem(random_evidence(60, np.random.default_rng(0)), blank_puzzle(60, (6, 10)))
    params = EvolutionParams(population=8, patience=1600, mixes=mixes, worth=0.0)
    told: list[float] = []
    waited: list[int] = []  # rounds without anything better, whenever islands mixed

    def mix(islands: list[evolution._Island]) -> None:
        best = max(float(i.scores[0]) for i in islands)
        waited.append(len(told) - told.index(best) if best in told else 0)

    monkeypatch.setattr(evolution, "_migrate", mix)
    monkeypatch.setattr(evolution, "_patience", lambda islands, params: params.patience)
    rng = np.random.default_rng(1)
    Evolution(problem, params).run(rng, lambda board, score, number: bool(told.append(score)))
    rounds = 1600 // 80  # of 2 · 40 children
    steps = [rounds * k // (mixes + 1) for k in range(1, mixes + 1)]
    assert len(set(told)) > 3
    assert set(waited) == set(steps)
    assert waited[-mixes:] == steps  # the last wait was in vain


@settings(max_examples=30)
@given(cases(most=4))
def test_breeding_keeps_a_population_sorted_and_without_new_twins(case: Case) -> None:
    p, q = case.problem, EvolutionParams()
    new = island(p, [random_board(p, case.rng) for _ in range(4)])
    shown = {p.to_board(b).tobytes() for b in new.boards}
    state = case.state
    for _ in range(3):
        best = new.scores[0]
        breed(p.world, q.noise, q.bonus, q.spread, 20, state, new.boards, new.scores, new.tally)
        assert_sound(new, twins=True)
        assert new.scores[0] >= best
        for board in new.boards:
            assert_valid(case, board)
        fresh = [b for b in map(p.to_board, new.boards) if b.tobytes() not in shown]
        assert len({b.tobytes() for b in fresh}) == len(fresh)
        shown |= {b.tobytes() for b in fresh}
    assert new.tally.shape == (KINDS, 2)
    assert int(new.tally[:, 0].sum()) == 60
    assert (new.tally[:, 1] <= new.tally[:, 0]).all()


# --- what it finds ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_true_board_is_found(seed: int) -> None:
    evidence, truth = shuffled((7, 10), seed)
    problem = make_problem(evidence, blank_puzzle(70, (7, 10)))
    board, score, _ = run(problem, seed)
    assert score >= evidence.score(truth) - 1e-2
    assert np.array_equal(board, truth)


@pytest.mark.parametrize("grid", [(1, 12), (12, 1), (2, 9)])
def test_narrow_boards_are_found(grid: tuple[int, int]) -> None:
    evidence, truth = shuffled(grid, 1, top1=0.95)
    _, score, _ = run(make_problem(evidence, blank_puzzle(truth.size, grid)))
    assert score >= evidence.score(truth) - 1e-2


@pytest.mark.parametrize(
    "blocked",
    [((0, 0),), ((3, 4),), tuple((r, 5) for r in range(7))],
    ids=["corner", "middle", "wall"],
)
def test_boards_with_blocked_cells_are_found(blocked: tuple[tuple[int, int], ...]) -> None:
    for seed in range(5):
        evidence, truth = shuffled((7, 10), seed, blocked=blocked)
        puzzle = blank_puzzle(evidence.n, (7, 10), blocked=frozenset(blocked))
        _, score, _ = run(make_problem(evidence, puzzle), seed)
        assert score >= evidence.score(truth) - 1e-2


def test_missing_and_extra_pieces_do_no_harm() -> None:
    whole, truth = shuffled((6, 8), 3, top1=0.9)
    lost = np.sort(np.random.default_rng(0).permutation(48)[:4])
    left = np.setdiff1d(np.arange(48), lost)
    fewer = Evidence(whole.h[np.ix_(left, left)], whole.v[np.ix_(left, left)])
    board, _, _ = run(make_problem(fewer, blank_puzzle(44, (6, 8))))
    named = np.append(left, EMPTY)[board]
    assert (named == truth).mean() > 0.85
    h, v = np.full((2, 51, 51), -3.0)  # three pieces of another picture
    h[:48, :48], v[:48, :48] = whole.h, whole.v
    board, _, _ = run(make_problem(Evidence(h, v), blank_puzzle(51, (6, 8))))
    assert np.array_equal(board, truth)
