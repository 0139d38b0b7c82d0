"""The search on the full objective: F never falls, constraints hold, and the 2×2 and global
evidence decide where pairs are wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_cases import (
    Case,
    assert_valid,
    blank_puzzle,
    cases,
    cells_of,
    planted_evidence,
    random_board,
    random_evidence,
)
from sherd import Evidence, Puzzle, SherdError
from sherd.perception.evidence import limited, quads
from sherd.puzzle import EMPTY, identity_board
from sherd.search.evolution import Evolution, EvolutionParams
from sherd.search.kernels.moves import exchange
from sherd.search.kernels.puzzlets import around, guess_bins, objective, partners, shift_all
from sherd.search.polish import Polish, PolishParams
from sherd.search.problem import Problem, make_problem
from sherd.search.puzzlets import PuzzletTable
from sherd.solvers import Callbacks, MaxRounds
from sherd.solvers.evolve import Evolve

BRIEF = PolishParams(generations=4, population=5, children=8)


def hashed(q: np.ndarray) -> np.ndarray:
    """Some evidence of a puzzlet: always the same, without a pattern."""
    return 3.0 * np.sin(q @ np.array([12.9898, 78.233, 37.719, 4.581]) * 43758.5453)


def weighed(board: np.ndarray) -> np.ndarray:
    """Some evidence of whole boards."""
    return 2.0 * np.sin(
        (board * np.arange(1, board[0].size + 1).reshape(board[0].shape)).sum((1, 2))
    )


def judged(evidence: Evidence, puzzlets: float = 0.7, board: float = 0.0) -> Evidence:
    return replace(
        evidence, puzzlet=hashed, puzzlet_weight=puzzlets, board=weighed, board_weight=board
    )


def polish(
    problem: Problem,
    evidence: Evidence,
    starts: np.ndarray,
    seed: int = 0,
    params: PolishParams = BRIEF,
    *,
    threads: int = 1,
    rounds: int = 10**9,
) -> tuple[np.ndarray, float, list[float]]:
    """Board, F, and the scores that progress was told."""
    told: list[float] = []

    def progress(board: np.ndarray, score: float, number: int) -> bool:
        assert score == pytest.approx(evidence.full_score(board), rel=1e-5, abs=1e-4)
        assert number == len(told)
        told.append(score)
        return len(told) >= rounds

    search = Polish(problem, evidence, params, threads=threads)
    board, score = search.run(starts, np.random.default_rng(seed), progress)
    return board, score, told


def some_boards(case: Case, count: int) -> np.ndarray:
    return np.stack([random_board(case.problem, case.rng) for _ in range(count)])


# --- what holds of every polish -----------------------------------------------------------------


@settings(max_examples=60)
@given(cases(), st.sampled_from([(0.7, 0.0), (0.0, 0.8), (0.4, 1.5)]))
def test_f_never_falls_and_constraints_hold(case: Case, weights: tuple[float, float]) -> None:
    evidence = judged(case.evidence, *weights)
    starts = some_boards(case, 3)
    board, score, told = polish(case.problem, evidence, starts)
    assert score == pytest.approx(evidence.full_score(board), rel=1e-5, abs=1e-4)
    assert_valid(case, case.problem.from_board(board))
    assert score >= evidence.full_score(case.problem.to_board(starts[0])) - 1e-4
    if not weights[1]:
        for start in starts:
            assert score >= evidence.full_score(case.problem.to_board(start)) - 1e-4
    assert told == sorted(told)
    assert all(score >= s for s in told)


@settings(max_examples=25)
@given(cases())
def test_without_more_evidence_nothing_changes(case: Case) -> None:
    starts = some_boards(case, 2)
    plain = case.evidence
    assert plain.complete
    for evidence in (
        plain,
        replace(plain, puzzlet=hashed, board=weighed),  # weight 0
        replace(plain, puzzlet_weight=1.0, board_weight=1.0),  # nothing to weigh
    ):
        board, score, told = polish(case.problem, evidence, starts)
        assert np.array_equal(board, case.problem.to_board(starts[0]))
        assert score == pytest.approx(plain.score(board), rel=1e-5, abs=1e-4)
        assert score == pytest.approx(evidence.full_score(board), rel=1e-5, abs=1e-4)
        assert told == []


@pytest.mark.parametrize("weights", [(0.7, 0.0), (0.5, 1.0)])
def test_one_seed_one_result_on_any_number_of_threads(weights: tuple[float, float]) -> None:
    evidence = judged(random_evidence(24, np.random.default_rng(0)), *weights)
    problem = make_problem(evidence, blank_puzzle(24, (4, 6)))
    starts = np.stack([random_board(problem, np.random.default_rng(k)) for k in range(4)])
    board, score, told = polish(problem, evidence, starts, 3)
    for threads in (1, 2, 3):
        again, same, heard = polish(problem, evidence, starts, 3, threads=threads)
        assert np.array_equal(board, again)
        assert (score, told) == (same, heard)
    others = {polish(problem, evidence, starts, s)[0].tobytes() for s in range(5)}
    assert len(others) > 1  # the seed matters


def test_it_stops_when_told() -> None:
    evidence = judged(random_evidence(30, np.random.default_rng(1)), 0.7, 1.0)
    problem = make_problem(evidence, blank_puzzle(30, (5, 6)))
    starts = random_board(problem, np.random.default_rng(1))[None]
    assert len(polish(problem, evidence, starts, rounds=1)[2]) == 1


@pytest.mark.parametrize("field", ["population", "children", "generations", "patience", "judged"])
def test_parameters_are_checked(field: str) -> None:
    with pytest.raises(SherdError, match=field):
        PolishParams(**{field: 0})
    with pytest.raises(SherdError, match="noise"):
        PolishParams(noise=-1.0)


# --- its parts, against slow references ---------------------------------------------------------


@settings(max_examples=60)
@given(cases())
def test_gains_are_differences_of_the_objective(case: Case) -> None:
    evidence, w, board = judged(case.evidence), case.world, case.board.copy()
    table = PuzzletTable(evidence, w)
    for _ in range(4):
        flat = case.board[None, : case.problem.cells].reshape(-1, w.rows, w.cols)
        table.learn(quads(flat))
        found = objective(w, table.quads(), case.board)
        assert found == pytest.approx(
            evidence.full_score(case.problem.to_board(case.board)), rel=1e-5, abs=1e-4
        )
        if len(board) < 2:
            return
        a, b = case.some_cells(2)
        swapped, cell = case.board.copy(), case.cell
        exchange(swapped, cell, a, b)
        table.learn(quads(swapped[None, : case.problem.cells].reshape(-1, w.rows, w.cols)))
        t = table.quads()
        total = [evidence.puzzlet_weight * (around(w, t, x, a, b)) for x in (case.board, swapped)]
        whole = [
            objective(w, t, x) - evidence.score(case.problem.to_board(x))
            for x in (case.board, swapped)
        ]
        assert total[1] - total[0] == pytest.approx(whole[1] - whole[0], abs=2e-3)
        case.board[:] = swapped


def test_the_table_asks_each_puzzlet_once_and_grows() -> None:
    asked: list[np.ndarray] = []

    def ask(q: np.ndarray) -> np.ndarray:
        asked.append(q)
        return hashed(q)

    rng = np.random.default_rng(0)
    evidence = replace(random_evidence(40, rng), puzzlet=ask, puzzlet_weight=1.0)
    world = make_problem(evidence, blank_puzzle(40, (5, 8))).world
    table = PuzzletTable(evidence, world)
    for _ in range(4):
        q = np.stack([rng.permutation(40)[:4] for _ in range(3000)])
        table.learn(q)
        table.learn(np.concatenate([q, q[:5], [[0, EMPTY, 1, 2]]]))
    every = np.concatenate(asked)
    assert len(np.unique(every, axis=0)) == len(every) == table.asked
    keys, values, guess, _ = table.quads()
    assert (keys >= 0).sum() == table.asked
    assert len(keys) >= 2 * table.asked
    n = 40
    want = {
        ((a * n + b) * n + c) * n + d: float(hashed(np.array([a, b, c, d])))
        for a, b, c, d in every.tolist()
    }
    held = dict(zip(keys[keys >= 0].tolist(), values[keys >= 0].tolist(), strict=True))
    assert held == pytest.approx(want, abs=1e-5)
    bins = guess_bins(world, every)
    for k in np.unique(bins):
        assert guess[k] == pytest.approx(float(hashed(every[bins == k]).mean()), abs=1e-4)


def test_a_shift_finds_the_best_translation() -> None:
    rng = np.random.default_rng(3)
    evidence = judged(random_evidence(20, rng), 0.5)
    problem = make_problem(evidence, blank_puzzle(20, (4, 5)))
    flat = random_board(problem, rng)
    table = PuzzletTable(evidence, problem.world)
    rolled = [np.roll(problem.to_board(flat), r, axis=0) for r in range(4)]
    rows = [evidence.full_score(b) for b in rolled]
    best_row = rolled[int(np.argmax(rows))]
    columns = [np.roll(best_row, c, axis=1) for c in range(5)]
    table.learn(quads(np.stack(rolled + columns)))
    board, cell = flat.copy(), cells_of(flat, 20)
    shift_all(problem.world, table.quads(), board, cell)
    want = columns[int(np.argmax([evidence.full_score(b) for b in columns]))]
    assert np.array_equal(problem.to_board(board), want)
    assert np.array_equal(cell, cells_of(board, 20))


def test_partners_on_a_large_board_are_what_the_neighbours_like() -> None:
    evidence = planted_evidence((10, 12))
    problem = make_problem(evidence, blank_puzzle(120, (10, 12)))
    flat = random_board(problem, np.random.default_rng(0))
    cell, out = cells_of(flat, 120), np.empty(120, np.int32)
    mark = np.zeros(120, np.bool_)
    w, c = problem.world, 65
    count = partners(w, flat, cell, c, mark, out)
    assert not mark.any()
    found = out[:count].tolist()
    assert len(set(found)) == count < 119
    assert c not in found
    left, right = flat[c - 1], flat[c + 1]  # the true neighbours of these are among them
    if left % 12 < 11:
        assert cell[left + 1] in [*found, c]
    if right % 12 > 0:
        assert cell[right - 1] in [*found, c]


# --- what it is for ------------------------------------------------------------------------------


def misled(grid: tuple[int, int], seed: int) -> tuple[Evidence, np.ndarray]:
    """Pairs that favour a board on which two separate blocks have changed places."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(grid[0] * grid[1]).reshape(grid)
    wrong = truth.copy()
    wrong[:2, :2], wrong[-2:, -2:] = truth[-2:, -2:], truth[:2, :2]
    n = truth.size
    h, v = rng.normal(-2.0, 0.5, (2, n, n))
    for board, strength in ((truth, 2.0), (wrong, 3.0)):
        h[board[:, :-1], board[:, 1:]] = strength
        v[board[:-1], board[1:]] = strength
    return Evidence(h, v), truth


def true_puzzlets(truth: np.ndarray) -> set[tuple[int, ...]]:
    return set(map(tuple, quads(truth).tolist()))


def solve(evidence: Evidence, grid: tuple[int, int], **known: object) -> np.ndarray:
    problem = make_problem(evidence, blank_puzzle(evidence.n, grid, **known))
    search = Evolution(problem, EvolutionParams(patience=200))
    search.run(np.random.default_rng(0), lambda *_: False)
    return Polish(problem, evidence).run(
        search.archive, np.random.default_rng(1), lambda *_: False
    )[0]


@pytest.mark.parametrize("seed", range(3))
def test_puzzlets_put_right_what_pairs_have_wrong(seed: int) -> None:
    evidence, truth = misled((5, 5), seed)
    right = true_puzzlets(truth)

    def puzzlet(q: np.ndarray) -> np.ndarray:
        return np.array([4.0 if tuple(x) in right else -4.0 for x in q.tolist()])

    full = replace(evidence, puzzlet=puzzlet, puzzlet_weight=0.5)
    assert not np.array_equal(solve(evidence, (5, 5)), truth)
    assert limited(evidence, solve(evidence, (5, 5)), truth) == "perception"
    assert limited(full, solve(evidence, (5, 5)), truth) == "search"
    assert np.array_equal(solve(full, (5, 5)), truth)


def test_global_evidence_puts_right_a_shifted_board() -> None:
    rng = np.random.default_rng(0)
    truth = rng.permutation(25).reshape(5, 5)
    shifted = np.roll(truth, 1, axis=1)
    h, v = rng.normal(-2.0, 0.5, (2, 25, 25))
    h[truth[:, :-1], truth[:, 1:]] = 3.0
    v[truth[:-1], truth[1:]] = 3.0
    h[truth[:, -1], truth[:, 0]] = 3.0  # the last column would go as well before the first,
    border = np.zeros((4, 25))
    border[3, shifted[:, 0]] = 1.0  # and the border head likes that better
    evidence = Evidence(h, v, border)

    def board(boards: np.ndarray) -> np.ndarray:
        return np.where((boards == truth).all(axis=(1, 2)), 6.0, -6.0)

    full = replace(evidence, board=board, board_weight=1.0)
    assert np.array_equal(solve(evidence, (5, 5)), shifted)
    assert np.array_equal(solve(full, (5, 5)), truth)


# --- as a system ---------------------------------------------------------------------------------


class Told(Evolve):
    """The search on evidence that it is given."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence

    def perceive(self, puzzle: Puzzle) -> Evidence:
        order = puzzle.pieces[:, 0, 0, 0].astype(int)  # the pieces carry their number
        return self.evidence.reordered(order)


class Stages(Callbacks):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_stage(self, stage: str) -> None:
        self.heard.append(stage)


def numbered(n: int, grid: tuple[int, int]) -> Puzzle:
    pieces = np.zeros((n, 1, 1, 3), np.uint8)
    pieces[:, 0, 0, 0] = np.arange(n)
    return Puzzle(pieces, grid)


@pytest.mark.parametrize("weights", [(0.7, 0.0), (0.5, 1.0)])
def test_a_system_reports_in_the_full_objective(weights: tuple[float, float]) -> None:
    evidence = judged(random_evidence(18, np.random.default_rng(4)), *weights)
    puzzle = replace(numbered(18, (4, 5)), pins={3: (0, 2)}, blocked=frozenset({(2, 2)}))
    stages = Stages()
    result = Told(evidence).solve(puzzle, seed=2, callbacks=stages)
    again = Told(evidence).solve(puzzle, seed=2)
    assert stages.heard == ["perception", "search", "polish"]
    assert np.array_equal(result.board, again.board)
    assert result.score == again.score
    assert result.score == pytest.approx(evidence.full_score(result.board), rel=1e-5, abs=1e-4)
    assert result.board[0, 2] == 3
    assert result.board[2, 2] == EMPTY
    for shot in result.history:
        assert shot.score == pytest.approx(evidence.full_score(shot.board), rel=1e-5, abs=1e-4)
    assert result.history[-1].score == result.score
    rounds = [shot.round for shot in result.history]
    assert rounds == sorted(set(rounds))


def test_a_system_stopped_early_does_not_polish() -> None:
    evidence = judged(random_evidence(20, np.random.default_rng(5)))
    stages = Stages()
    result = Told(evidence).solve(numbered(20, (4, 5)), seed=2, stop=MaxRounds(1), callbacks=stages)
    assert stages.heard == ["perception", "search"]
    assert result.score == pytest.approx(evidence.full_score(result.board), rel=1e-5, abs=1e-4)


def test_weights_of_evidence_are_checked() -> None:
    h = np.zeros((2, 2))
    for name in ("puzzlet_weight", "board_weight"):
        for bad in (-1.0, float("nan"), float("inf")):
            with pytest.raises(SherdError, match=name):
                Evidence(h, h, **{name: bad})


def test_full_score_adds_what_is_weighed() -> None:
    evidence = judged(random_evidence(12, np.random.default_rng(6)), 0.5, 2.0)
    board = identity_board((3, 4))
    board[1, 1] = EMPTY
    two = [board[r : r + 2, c : c + 2].ravel() for r in range(2) for c in range(3)]
    whole = [q for q in two if (q != EMPTY).all()]
    want = evidence.score(board) + 0.5 * sum(float(hashed(q)) for q in whole)
    want += 2.0 * float(weighed(board[None])[0])
    assert evidence.full_score(board) == pytest.approx(want, rel=1e-6)
    assert len(quads(board)) == len(whole) == 2
    order = np.random.default_rng(7).permutation(12)
    back = np.append(np.argsort(order), EMPTY)
    assert evidence.reordered(order).full_score(back[board]) == pytest.approx(want, rel=1e-6)
