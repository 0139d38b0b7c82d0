"""Who has seen a board and answers to it gets one that is near, and no step back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sherd
from search_cases import blank_puzzle, planted_evidence, random_evidence
from sherd import Evidence, Knowledge, Puzzle, SherdError
from sherd.fragments import work
from sherd.puzzle import EMPTY, identity_board, score_board
from sherd.search.nearby import readings, settle
from sherd.search.problem import make_problem
from sherd.search.stay import StayParams, choose, likely
from sherd.solvers import Callbacks, MaxRounds, Recorder
from sherd.solvers.base import Found
from sherd.solvers.evolve import search
from sherd.solvers.go_on import go_on
from test_knowledge import puzzles

GRID = (4, 5)
TRUTH = identity_board(GRID)


def after(evidence: Evidence, puzzle: Puzzle, seen: np.ndarray, stop: int | None = None) -> Found:
    record = Recorder(Callbacks(), np.arange(puzzle.n))
    limit = None if stop is None else MaxRounds(stop)
    return go_on(evidence, puzzle, limit, np.random.default_rng(0), record, seen)


def most_likely(evidence: Evidence, puzzle: Puzzle, seen: np.ndarray) -> np.ndarray:
    record = Recorder(Callbacks(), np.arange(puzzle.n))
    return search(evidence, puzzle, None, np.random.default_rng(0), record, start=seen).board


def misled(rng: np.random.Generator) -> tuple[Evidence, np.ndarray]:
    """Pieces that fit, and a rim that speaks for a board that is off by one column.

    The last column of the truth is plain: its pieces fit anywhere as well as where they belong.
    """
    evidence = planted_evidence(GRID)
    h, v = evidence.h.copy(), evidence.v.copy()
    plain = TRUTH[:, -1]
    h[:, plain] = h[plain, :] = v[:, plain] = v[plain, :] = 0.0
    h[TRUTH[:, -2], plain] = 1.0
    v[plain[:-1], plain[1:]] = 1.0
    seen = np.roll(TRUTH, 1, axis=1)
    border = np.zeros((4, TRUTH.size))
    border[1, seen[:, -1]] = border[3, seen[:, 0]] = 3.5
    noise = rng.normal(scale=0.1, size=(2, *h.shape))
    return Evidence(h + noise[0], v + noise[1], border), seen


def test_a_pin_moves_what_hangs_together() -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        evidence, seen = misled(rng)
        assert np.array_equal(most_likely(evidence, blank_puzzle(20, GRID), seen), seen)
        r = int(rng.integers(4))
        pinned = blank_puzzle(20, GRID, pins={int(TRUTH[r, 4]): (r, 4)})
        far = score_board(most_likely(evidence, pinned, seen), TRUTH)
        assert far.neighbor < score_board(seen, TRUTH).neighbor  # what it would be without
        found = after(evidence, pinned, seen)
        assert np.array_equal(found.board, TRUTH)
        assert found.score == pytest.approx(evidence.full_score(TRUTH))
        assert found.others is not None
        assert not any(np.array_equal(b, found.board) for b in found.others[:1])


@settings(max_examples=60)
@given(puzzles(), st.booleans(), st.booleans())
def test_all_that_is_known_is_honoured(
    case: tuple[Puzzle, Evidence, np.random.Generator], full: bool, partly: bool
) -> None:
    puzzle, evidence, rng = case
    rows, cols = puzzle.require_grid()
    if full:
        weight = rng.normal(size=puzzle.n)
        evidence = replace(
            evidence,
            puzzlet=lambda q: weight[q].prod(axis=1).astype(np.float32),
            puzzlet_weight=0.5,
            board=lambda b: (b[:, 0, 0] % 3).astype(np.float32),
            board_weight=0.5,
        )
    seen = np.full(rows * cols, EMPTY)
    laid = rng.permutation(puzzle.n)[: max(0, rows * cols - 2 * partly)]
    seen[rng.permutation(rows * cols)[: len(laid)]] = laid
    seen = seen.reshape(rows, cols)
    found = after(evidence, puzzle, seen, stop=3)
    board = sherd.puzzle.check_board(found.board, puzzle.n)
    assert not puzzle.knowledge.broken(board, puzzle.n)
    assert all(board[c] == p for p, c in puzzle.pins.items())
    assert (board >= 0).sum() == min(puzzle.n, board.size)
    assert found.score == pytest.approx(evidence.full_score(board), rel=1e-4, abs=1e-3)
    problem = make_problem(evidence, puzzle)
    for held in readings(evidence, problem, seen):
        near = settle(evidence, puzzle, held, rng)
        assert near is None or not puzzle.knowledge.broken(near, puzzle.n)


def test_blocked_cells_holes_and_spare_pieces_stay_so() -> None:
    rng = np.random.default_rng(3)
    puzzle = blank_puzzle(12, (3, 5), pins={4: (1, 1)}, blocked=frozenset({(0, 0), (2, 4)}))
    seen = np.array([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, EMPTY, EMPTY, EMPTY]])
    board = after(random_evidence(12, rng), puzzle, seen).board
    assert (board[0, 0], board[2, 4], board[1, 1]) == (EMPTY, EMPTY, 4)
    assert sorted(board[board >= 0].tolist()) == list(range(12))
    spare = blank_puzzle(17, (3, 5), pins={16: (0, 0)})
    board = after(random_evidence(17, rng), spare, np.arange(15).reshape(3, 5)).board
    assert board[0, 0] == 16
    assert (board >= 0).all()


def test_a_board_without_answer_stays_and_a_bad_one_does_not() -> None:
    evidence = planted_evidence(GRID)
    puzzle = blank_puzzle(20, GRID)
    assert np.array_equal(after(evidence, puzzle, TRUTH).board, TRUTH)
    mixed = np.random.default_rng(0).permutation(20).reshape(GRID)
    assert np.array_equal(after(evidence, puzzle, mixed).board, TRUTH)


def test_readings_of_a_pin() -> None:
    evidence = planted_evidence(GRID)
    seen = np.roll(TRUTH, 1, axis=1)  # what was the last column is the first
    puzzle = blank_puzzle(20, GRID, pins={6: (1, 1)})
    found = readings(evidence, make_problem(evidence, puzzle), seen)
    assert all(b[1, 1] == 6 for b in found)

    def there(wanted: list[list[int]]) -> bool:
        return any(np.array_equal(b, wanted) for b in found)

    assert there(TRUTH.tolist())  # all of the board moves, and what leaves it comes in again
    alone = seen.copy()
    alone[1, 1], alone[1, 2] = 6, EMPTY
    assert there(alone.tolist())
    slid = seen.copy()
    slid[1, 1], slid[1, 2] = 6, 5
    assert there(slid.tolist())
    together = TRUTH.copy()
    together[:, -1] = EMPTY  # nothing ties these to it
    assert there(together.tolist())


def test_pieces_that_a_rule_speaks_against_are_sought_anew() -> None:
    evidence = planted_evidence((2, 3))
    seen = np.array([[0, 1, 2], [3, 4, 5]])
    puzzle = blank_puzzle(6, (2, 3), knowledge=Knowledge(not_in=frozenset({(2, (0, 2))})))
    near = settle(evidence, puzzle, seen, np.random.default_rng(0))
    assert near is not None
    assert near[0, 2] != 2
    assert near[0, 0] == 0  # neither spoken of nor beside it
    assert near[1, 0] == 3
    never = blank_puzzle(6, (2, 3), knowledge=Knowledge(right=frozenset({(0, 2)})))
    held = np.array([[0, 1, EMPTY], [EMPTY, EMPTY, EMPTY]])
    found = settle(evidence, never, held, np.random.default_rng(0))
    assert found is None or not never.knowledge.broken(found, 6)


def test_the_choice_is_cautious() -> None:
    """One board is a little likelier; but were another the truth, it would be a step back."""
    seen = np.array([[0, 1, 2, 3, 4, 5]])
    bold = np.array([[5, 4, 3, 2, 1, 0]])
    mild = np.array([[0, 1, 2, 3, 5, 4]])
    h = np.zeros((6, 6))
    h[bold[0, :-1], bold[0, 1:]] = 0.3
    evidence = Evidence(h, np.zeros((6, 6)))
    careless = StayParams(caution=0.0, temperature=0.01)
    assert choose(evidence, seen, [bold, mild], careless) == 0
    assert (
        choose(evidence, seen, [bold, mild], replace(careless, temperature=2.0, caution=1.0)) == 1
    )
    assert choose(replace(evidence, h=100 * h), seen, [bold, mild]) == 0
    assert choose(evidence, seen, [mild]) == 0
    with pytest.raises(SherdError, match="temperature"):
        StayParams(temperature=0.0)


def test_rims_that_have_deceived_are_not_believed_again() -> None:
    """All of the board lay a column off, because its rims said so. A pin says that they were
    wrong; exchanging two pieces would honour it, too, and keep the rest of what they said."""
    evidence, seen = misled(np.random.default_rng(0))
    assert evidence.border is not None
    evidence = replace(evidence, border=2.0 * evidence.border)
    swapped = seen.copy()
    swapped[0, 0], swapped[0, 1] = seen[0, 1], seen[0, 0]
    boards = [swapped, TRUTH]
    by_rims, by_pairs = (replace(evidence, border=r * evidence.border) for r in (1.0, 0.0))
    assert by_rims.full_score(swapped) > by_rims.full_score(TRUTH) + 10
    assert by_pairs.full_score(swapped) < by_pairs.full_score(TRUTH)
    assert choose(evidence, seen, boards) == 1
    assert choose(evidence, seen, boards, StayParams(doubt=1e-9)) == 0  # who never doubts them
    # who has not seen what they spoke for above all has no reason to doubt them
    assert likely(evidence, swapped, boards, StayParams())[0] > -0.1
    for wrong in (0.0, 1.0):
        with pytest.raises(SherdError, match="doubt is"):
            StayParams(doubt=wrong)


def test_solving_from_nothing_does_not_go_on(
    small: Puzzle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> Found:
        raise AssertionError("there was no board to go on from")

    known = replace(small, grid=None, truth=None)
    first = sherd.solve(known, system="evolve", missing=0, stop=MaxRounds(3))
    monkeypatch.setattr(work, "go_on", never)
    again = sherd.solve(known, system="evolve", missing=0, stop=MaxRounds(3))
    assert np.array_equal(first.board, again.board)
    with pytest.raises(AssertionError, match="no board"):
        sherd.solve(small, start=first.board, system="evolve")
