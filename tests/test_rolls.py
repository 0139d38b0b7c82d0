"""Lines of a board rolled against each other."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given

from search_cases import Case, blank_puzzle, cases, planted_evidence
from sherd.search import evolution
from sherd.search.evolution import Evolution, EvolutionParams
from sherd.search.kernels.moves import full_score
from sherd.search.kernels.rolls import best_rolls, roll_boards
from sherd.search.problem import make_problem


def rolled(board: np.ndarray, by: tuple[int, ...]) -> np.ndarray:
    return np.stack([np.roll(line, -s) for line, s in zip(board, by, strict=True)])


@given(case=cases(most=4))
@pytest.mark.parametrize("upright", [False, True])
def test_the_best_of_all_rolls(upright: bool, case: Case) -> None:
    """Of all ways to roll rows (columns), those with fixed cells left alone."""
    w = case.world
    cells = w.rows * w.cols
    fixed = w.fixed[:cells].reshape(w.rows, w.cols)
    board, fixed = (x.T if upright else x for x in (case.problem.to_board(case.board), fixed))
    ways = [range(1) if line.any() else range(board.shape[1]) for line in fixed]
    every = [rolled(board, by) for by in product(*ways)]
    scores = [case.evidence.score(b.T if upright else b) for b in every]
    out, untouched = case.board.copy(), case.board.copy()
    best_rolls(w, case.board, upright, out)
    assert np.array_equal(case.board, untouched)
    assert np.array_equal(out[cells:], untouched[cells:])
    found = case.problem.to_board(out)
    assert any(np.array_equal(found.T if upright else found, b) for b in every)
    assert case.evidence.score(found) == pytest.approx(max(scores), abs=1e-4)


def trapped(grid: tuple[int, int], band: int, by: int) -> np.ndarray:
    """The board on which piece k lies in cell k, its first lines rolled."""
    board = np.arange(grid[0] * grid[1], dtype=np.int32).reshape(grid)
    board[:band] = np.roll(board[:band], by, axis=1)
    return board


@pytest.mark.parametrize("upright", [False, True])
def test_a_band_that_slid_away_is_brought_back(upright: bool) -> None:
    grid = (6, 8)
    problem = make_problem(planted_evidence(grid), blank_puzzle(48, grid))
    board = trapped((8, 6), 3, 2).reshape(-1) if upright else trapped(grid, 3, 2).reshape(-1)
    if upright:  # piece k of the trap is the piece at (column, row)
        names = np.arange(48).reshape(grid).T.ravel()
        board = names[board].reshape(8, 6).T.astype(np.int32).ravel()
    boards = np.stack([board, np.arange(48, dtype=np.int32)[::-1]])
    scores = np.array([full_score(problem.world, b) for b in boards])
    roll_boards(problem.world, np.zeros(1, np.uint64), boards, scores)
    assert np.array_equal(boards[0], np.arange(48))
    assert scores[0] == full_score(problem.world, boards[0])
    assert (np.diff(scores) <= 0).all()
    assert all(np.array_equal(np.sort(b), np.arange(48)) for b in boards)
    once = boards.copy()
    roll_boards(problem.world, np.zeros(1, np.uint64), boards, scores)  # nothing is left to gain
    assert np.array_equal(boards, once)


def test_large_searches_do_not_end_in_that_trap(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = (6, 8)
    problem = make_problem(planted_evidence(grid), blank_puzzle(48, grid))
    stuck = trapped(grid, 3, 2).ravel()

    def nothing_new(w, noise, bonus, spread, children, state, boards, scores, tally):  # type: ignore[no-untyped-def]
        """No child is ever better."""

    def same(w, start, noise, state, boards, scores, first, last):  # type: ignore[no-untyped-def]
        boards[first:last] = stuck
        scores[first:last] = full_score(w, stuck)

    monkeypatch.setattr(evolution, "breed", nothing_new)
    monkeypatch.setattr(evolution, "settle_new", same)
    search = Evolution(problem, EvolutionParams(population=2, patience=20), threads=1)

    def found() -> np.ndarray:
        seen: list[float] = []
        board, score = search.run(
            np.random.default_rng(0), lambda board, score, number: bool(seen.append(score))
        )
        assert seen[-1] == score  # whoever watches has heard of it
        return board.ravel()

    assert np.array_equal(found(), stuck)
    monkeypatch.setattr(evolution, "LARGE", 40)
    assert np.array_equal(found(), np.arange(48))
    assert np.array_equal(search.archive[0], np.arange(48))
