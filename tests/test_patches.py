"""Weak patches of a board, searched by themselves."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

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
    random_evidence,
)
from sherd import SherdError
from sherd.puzzle import EMPTY, Knowledge
from sherd.search import evolution, patches
from sherd.search.evolution import Evolution
from sherd.search.kernels.moves import block_exchange, full_score
from sherd.search.patches import Patches, PatchParams, cut_out, solid_part
from sherd.search.problem import Problem, make_problem
from sherd.solvers import Callbacks
from sherd.solvers.base import Found, Recorder
from sherd.solvers.evolve import search

GRID = (9, 12)
EVIDENCE = planted_evidence(GRID, strength=8.0)
FEW = PatchParams(cells=12, patience=2, moves=500)


def mixed_up(problem: Problem, patches: list[tuple[slice, slice]], seed: int = 0) -> np.ndarray:
    """The board on which piece k lies in cell k, the pieces of some patches shuffled together."""
    board = np.arange(problem.cells, dtype=np.int32)
    cells = np.concatenate([board.reshape(GRID)[patch].ravel() for patch in patches])
    board[cells] = np.random.default_rng(seed).permutation(cells)
    return board


def planted() -> Problem:
    return make_problem(EVIDENCE, blank_puzzle(GRID[0] * GRID[1], GRID))


def never(*_: object) -> bool:
    return False


@given(case=cases(), share=st.sampled_from([0.1, 0.4, 1.0]))
def test_a_part_is_scored_as_the_whole_is(case: Case, share: float) -> None:
    """Whatever becomes of the open cells, the whole board gains what the part gains."""
    w, rng = case.world, case.rng
    opened = (rng.random(len(case.board)) < share) & ~w.fixed
    opened[case.problem.cells :] = False
    if not opened.any():
        return
    part = cut_out(case.problem, case.board, opened)
    inside = part.cells >= 0
    lying = np.append(part.pieces, EMPTY)
    assert np.array_equal(lying[part.home[inside]], case.board[part.cells[inside]])
    loose = np.flatnonzero(~part.problem.world.fixed)
    assert set(part.cells[loose]) == set(np.flatnonzero(opened))
    assert (part.problem.start[loose] == EMPTY).all()

    other = part.home.copy()
    other[loose] = rng.permutation(other[loose])
    whole = case.board.copy()
    whole[part.cells[inside]] = lying[other[inside]]
    gain = full_score(part.problem.world, other) - full_score(part.problem.world, part.home)
    assert gain == pytest.approx(full_score(w, whole) - full_score(w, case.board), abs=1e-4)


@given(case=cases(), seed=st.integers(0, 99))
@settings(max_examples=25)
def test_no_board_gets_worse(case: Case, seed: int) -> None:
    before = float(full_score(case.world, case.board))
    told: list[float] = []

    def progress(board: np.ndarray, score: float, number: int) -> bool:
        assert score == pytest.approx(case.evidence.score(board), abs=1e-3)
        assert number == 7 + len(told)
        told.append(score)
        return False

    rng = np.random.default_rng(seed)
    search = Patches(case.problem, FEW, threads=1)
    board, score = search.run(case.board.copy(), rng, progress, first=7)
    assert_valid(case, board)
    assert [before, *told] == sorted([before, *told])
    assert score >= before
    assert score == pytest.approx(full_score(case.world, board))


def test_a_patch_is_put_right() -> None:
    problem = planted()
    board = mixed_up(problem, [(slice(2, 7), slice(3, 9))])
    found, score = Patches(problem).run(board, np.random.default_rng(0), never)
    assert np.array_equal(found, np.arange(problem.cells))
    assert score == full_score(problem.world, found)


def test_clusters_return_to_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two strips, right in themselves, lie a row too low and in each other's places: opened and
    melted they return, climbing they do not."""
    monkeypatch.setattr(Patches, "_carry", lambda *_: 0.0)
    problem = planted()
    board = np.arange(problem.cells, dtype=np.int32).reshape(GRID)
    first, second = np.roll(board[:, 0:2], 1, axis=0), np.roll(board[:, 10:12], 1, axis=0)
    board[:, 10:12], board[:, 0:2] = first, second
    flat = np.ascontiguousarray(board).ravel()
    found, _ = Patches(problem).run(flat.copy(), np.random.default_rng(0), never)
    assert np.array_equal(found, np.arange(problem.cells))
    found, _ = Patches(problem, PatchParams(moves=1, reach=0)).run(
        flat, np.random.default_rng(0), never
    )
    assert not np.array_equal(found, np.arange(problem.cells))


@pytest.mark.parametrize(("by", "axis"), [(1, 0), (-1, 1), (2, 1)])
def test_a_board_that_lies_out_of_place_is_shifted(by: int, axis: int) -> None:
    """All of it has moved, and what left it lies at the other rim: nothing by itself is wrong."""
    problem = planted()
    true = np.arange(problem.cells, dtype=np.int32)
    moved = np.roll(true.reshape(GRID), by, axis).ravel()
    for reach, right in ((0, False), (abs(by) - 1, False), (2, True)):
        search = Patches(problem, PatchParams(patience=2, moves=2000, probe=500, reach=reach))
        search._carry = lambda *_: 0.0  # type: ignore[method-assign]
        found, score = search.run(moved.copy(), np.random.default_rng(0), never)
        assert np.array_equal(found, true) == right
        assert score >= full_score(problem.world, moved)


def test_what_holds_a_board_is_not_shifted_over_its_rim() -> None:
    """A solid board has no shift, and neither has one in which a piece is pinned."""
    problem = planted()
    rng = np.random.default_rng(0)
    true = np.arange(problem.cells, dtype=np.int32)
    moved = np.roll(true.reshape(GRID), 1, 1).ravel()
    with ThreadPoolExecutor(1) as pool:
        search = Patches(problem, PatchParams(moves=10, probe=10))
        assert search._shifted(true, rng, pool) is None
        assert search._shifted(moved, rng, pool) is not None
        pinned = make_problem(EVIDENCE, blank_puzzle(108, GRID, pins={int(moved[5]): (0, 5)}))
        assert Patches(pinned)._shifted(moved, rng, pool) is None


def test_what_is_solid() -> None:
    """A single link holds nothing together, a block of four does, and blocks that share two
    pieces are one part."""
    w = planted().world
    true = np.arange(w.rows * w.cols, dtype=np.int32)
    assert solid_part(w, true, 7.0).all()
    assert not solid_part(w, true, 8.0).any()
    apart = true.reshape(GRID).copy()
    apart[:, 4:] = np.roll(apart[:, 4:], 1, axis=0)  # all links between columns 3 and 4 are gone
    part = solid_part(w, np.ascontiguousarray(apart).ravel(), 0.0).reshape(GRID)
    assert part[1:, 4:].all()
    assert not part[:, :4].any()
    assert not part[0, 4:].any()  # the row that was rolled round is one piece high
    at = w.at.copy()
    at[1, apart[3, 3], apart[3, 4]] = at[3, apart[3, 4], apart[3, 3]] = 8.0
    held = solid_part(w._replace(at=at), np.ascontiguousarray(apart).ravel(), 0.0)
    assert np.array_equal(held.reshape(GRID), part)


def test_small_blocks_are_carried_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks lie in each other's places, and no patch is large enough for them."""
    problem = planted()
    board = np.arange(problem.cells, dtype=np.int32)
    block_exchange(board, board.copy(), 0, 80, 2, 3, GRID[1])
    tiny = Patches(problem, PatchParams(cells=2, patience=3))
    found, _ = tiny.run(board.copy(), np.random.default_rng(0), never)
    assert np.array_equal(found, np.arange(problem.cells))
    monkeypatch.setattr(Patches, "_carry", lambda *_: 0.0)
    found, _ = tiny.run(board.copy(), np.random.default_rng(0), never)
    assert not np.array_equal(found, np.arange(problem.cells))


def test_one_seed_one_board_whatever_the_threads() -> None:
    evidence = random_evidence(108, np.random.default_rng(5))
    problem = make_problem(evidence, blank_puzzle(108, GRID))
    start = mixed_up(problem, [(slice(0, 9), slice(0, 12))])
    boards = [
        Patches(problem, FEW, threads=threads).run(start, np.random.default_rng(3), never)[0]
        for threads in (1, 2, 1)
    ]
    assert np.array_equal(boards[0], boards[1])
    assert np.array_equal(boards[0], boards[2])
    assert not np.array_equal(boards[0], start)


def test_it_stops_when_told() -> None:
    problem = planted()
    calls: list[int] = []

    def at_once(board: np.ndarray, score: float, number: int) -> bool:
        calls.append(number)
        return True

    Patches(problem).run(
        mixed_up(problem, [(slice(2), slice(12))]), np.random.default_rng(0), at_once
    )
    assert calls == [0]


def test_a_solid_board_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(*_: object) -> None:
        raise AssertionError("something was opened")

    monkeypatch.setattr(patches, "cut_out", cut)
    board = np.arange(GRID[0] * GRID[1], dtype=np.int32)
    found, _ = Patches(planted()).run(board, np.random.default_rng(0), never)
    assert np.array_equal(found, board)


def test_gains_of_next_to_nothing_are_not_waited_for() -> None:
    """A round that gains less than it must counts as one that brings nothing."""
    problem = planted()
    board = mixed_up(problem, [(slice(2, 7), slice(3, 9))])
    rounds: list[int] = []
    for worth in (0.0, 9.9):
        told: list[float] = []
        params = PatchParams(cells=12, patience=2, moves=500, worth=worth)
        Patches(problem, params).run(
            board,
            np.random.default_rng(0),
            lambda b, s, k: bool(told.append(s)),  # noqa: B023
        )
        rounds.append(len(told))
    assert rounds[1] == 2 < rounds[0]


def test_rules_across_the_rim_of_a_patch_are_not_broken() -> None:
    """Pieces 0 and 50 must lie side by side, which no evidence says."""
    puzzle = blank_puzzle(108, GRID, knowledge=Knowledge(right=frozenset({(0, 50)})))
    problem = make_problem(EVIDENCE, puzzle)
    assert problem.home is not None
    found, _ = Patches(problem).run(problem.home, np.random.default_rng(0), never)
    assert not puzzle.knowledge.broken(problem.to_board(found), 108)


def test_large_boards_of_a_solver_are_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the evolution leaves wrong in a patch, the solver's answer has right."""
    problem = planted()
    wrong = mixed_up(problem, [(slice(2, 7), slice(3, 9))])
    score = float(full_score(problem.world, wrong))

    def no_better(self: Evolution, rng, progress, *, start=None):  # type: ignore[no-untyped-def]
        if self.problem.cells == problem.cells and start is None:
            self.archive = wrong[None]
            progress(self.problem.to_board(wrong), score, 0)
            return self.problem.to_board(wrong), score
        return run(self, rng, progress, start=start)

    run = Evolution.run
    monkeypatch.setattr(Evolution, "run", no_better)

    def answer() -> Found:
        record = Recorder(Callbacks(), np.arange(108))
        return search(EVIDENCE, blank_puzzle(108, GRID), None, np.random.default_rng(0), record)

    assert np.array_equal(answer().board.ravel(), wrong)
    monkeypatch.setattr(evolution, "HUGE", 100)
    found = answer()
    assert np.array_equal(found.board.ravel(), np.arange(108))
    assert found.score == pytest.approx(EVIDENCE.score(found.board))


@pytest.mark.parametrize(
    "wrong",
    [
        {"cells": 1},
        {"lanes": 0},
        {"patience": 0},
        {"moves": 0},
        {"probe": 0},
        {"reach": -1},
        {"worth": -1.0},
        {"solid": -1.0},
        {"cold": 0.0},
        {"cold": 8.0},
        {"mild": 13.0},
    ],
)
def test_parameters_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(SherdError, match="patches"):
        PatchParams(**wrong)  # type: ignore[arg-type]
