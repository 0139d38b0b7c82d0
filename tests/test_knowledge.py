"""What is known for certain is honoured, whatever the evidence says."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from search_cases import blank_puzzle, cells_of, random_board, random_evidence, random_state
from sherd import Evidence, Knowledge, Puzzle, SherdError, make_solver
from sherd.puzzle import EMPTY, SIDES
from sherd.search.bounds import bind
from sherd.search.evolution import Evolution, EvolutionParams
from sherd.search.kernels.moves import (
    best_shift,
    block_exchange,
    block_gain,
    climb,
    exchange,
    full_score,
    swap_gain,
)
from sherd.search.polish import Polish, PolishParams
from sherd.search.problem import make_problem
from sherd.solvers import MaxRounds
from sherd.solvers.base import Recorder
from sherd.solvers.callbacks import Callbacks
from sherd.solvers.evolve import search

QUICK = EvolutionParams(islands=1, population=4, patience=40)


def some_knowledge(board: np.ndarray, n: int, rng: np.random.Generator, many: int) -> Knowledge:
    """True statements about ``board``, ``many`` of each kind at most."""
    rows, cols = board.shape
    at = {int(board[r, c]): (r, c) for r in range(rows) for c in range(cols) if board[r, c] >= 0}
    pieces = list(at)
    right = [(board[r, c], board[r, c + 1]) for r in range(rows) for c in range(cols - 1)]
    below = [(board[r, c], board[r + 1, c]) for r in range(rows - 1) for c in range(cols)]

    def few(things: list) -> list:  # type: ignore[type-arg]
        count = int(rng.integers(0, many + 1))
        return [things[k] for k in rng.permutation(len(things))[:count]]

    def apart(links: list[tuple[int, int]]) -> list[tuple[int, int]]:
        pairs = rng.integers(0, n, (4 * many, 2)).tolist()
        return few([(a, b) for a, b in pairs if a != b and (a, b) not in links])

    rims = [
        (p, side)
        for p, (r, c) in at.items()
        for k, side in enumerate(SIDES)
        if (r == 0, c == cols - 1, r == rows - 1, c == 0)[k]
    ]
    corners = [p for p, (r, c) in at.items() if r in (0, rows - 1) and c in (0, cols - 1)]
    cells = [(int(p), (int(r), int(c))) for p in pieces for r in range(rows) for c in range(cols)]
    return Knowledge(
        pins={p: at[p] for p in few(pieces)},
        right=frozenset(few([link for link in right if min(link) >= 0])),
        below=frozenset(few([link for link in below if min(link) >= 0])),
        not_right=frozenset(apart(right)),
        not_below=frozenset(apart(below)),
        not_in=frozenset(few([(p, c) for p, c in cells if at[p] != c])),
        corners=frozenset(few(corners)),
        rims=frozenset(few(rims)),
    )


@st.composite
def puzzles(
    draw: st.DrawFn, most: tuple[int, int] = (4, 5), full: bool = False
) -> tuple[Puzzle, Evidence, np.random.Generator]:
    """Small puzzles with true knowledge of a hidden board, and evidence that knows nothing."""
    grid = (draw(st.integers(1, most[0])), draw(st.integers(1, most[1])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    cells = grid[0] * grid[1]
    n = cells if full else max(1, cells + draw(st.integers(-3, 2)))
    hidden = np.full(cells, EMPTY)
    order = rng.permutation(cells)[: min(n, cells)]
    hidden[order] = rng.permutation(n)[: len(order)]
    hidden = hidden.reshape(grid)
    known = some_knowledge(hidden, n, rng, draw(st.integers(1, 4)))
    puzzle = blank_puzzle(n, grid, knowledge=known)
    assert not known.broken(hidden, n)
    return puzzle, random_evidence(n, rng, draw(st.booleans())), rng


@given(puzzles())
def test_a_board_that_honours_it_is_found_before_the_search(
    case: tuple[Puzzle, Evidence, np.random.Generator],
) -> None:
    puzzle, evidence, _ = case
    problem = make_problem(evidence, puzzle)
    if not puzzle.knowledge:
        return
    assert problem.home is not None
    board = problem.to_board(problem.home)
    assert not puzzle.knowledge.broken(board, puzzle.n)
    assert all(board[c] == p for p, c in puzzle.pins.items())
    assert (board >= 0).sum() == min(puzzle.n, board.size)


@settings(max_examples=80)
@given(puzzles())
def test_every_board_of_the_search_honours_it(
    case: tuple[Puzzle, Evidence, np.random.Generator],
) -> None:
    puzzle, evidence, rng = case
    problem = make_problem(evidence, puzzle)
    seen: list[np.ndarray] = []

    def watch(board: np.ndarray, score: float, number: int) -> bool:
        seen.append(board)
        assert score == pytest.approx(evidence.score(board), rel=1e-4, abs=1e-3)
        return False

    evolution = Evolution(problem, QUICK, threads=1)
    board, _ = evolution.run(rng, watch)
    weight = rng.normal(size=puzzle.n)
    full = replace(
        evidence, puzzlet=lambda q: weight[q].prod(axis=1).astype(np.float32), puzzlet_weight=0.5
    )
    polish = Polish(problem, full, PolishParams(children=6, generations=4), threads=1)
    polished, score = polish.run(evolution.archive, rng, lambda *_: False)
    assert score == pytest.approx(full.full_score(polished), rel=1e-4, abs=1e-3)
    for found in (*seen, board, polished):
        assert not puzzle.knowledge.broken(found, puzzle.n)
        assert all(found[c] == p for p, c in puzzle.pins.items())
        assert (found >= 0).sum() == min(puzzle.n, found.size)


@given(puzzles(), st.booleans())
def test_gains_are_what_a_full_count_gives(
    case: tuple[Puzzle, Evidence, np.random.Generator], climbing: bool
) -> None:
    puzzle, evidence, rng = case
    problem = make_problem(evidence, puzzle)
    w, board = problem.world, random_board(problem, rng)
    assume(len(board) > 1)
    cell = cells_of(board, puzzle.n)
    before = full_score(w, board)
    a, b = (int(c) for c in rng.permutation(len(board))[:2])
    gain = swap_gain(w, board, a, b)
    swapped, at = board.copy(), cell.copy()
    exchange(swapped, at, a, b)
    assert gain == pytest.approx(full_score(w, swapped) - before, rel=1e-6, abs=1e-3)
    shifted = board.copy()
    gain = best_shift(w, board, shifted)
    moved = board.copy()
    moved[: problem.cells] = shifted[: problem.cells]
    assert gain >= 0
    assert gain == pytest.approx(full_score(w, moved) - before, rel=1e-6, abs=1e-3)
    if w.rows > 1:
        scratch, mark = np.empty(2 * problem.cells, np.int32), np.zeros(len(board), np.bool_)
        gain = block_gain(w, board, cell, 0, w.cols, 1, w.cols, scratch, mark)
        rows = board.copy()
        block_exchange(rows, cell.copy(), 0, w.cols, 1, w.cols, w.cols)
        assert gain == pytest.approx(full_score(w, rows) - before, rel=1e-6, abs=1e-3)
    if climbing:
        climb(w, board, cell, np.ones(len(board), np.bool_), random_state(1))
        assert full_score(w, board) >= before - 1e-3


@settings(max_examples=25)
@given(puzzles(most=(2, 3), full=True))
def test_the_best_board_that_honours_it_is_found(
    case: tuple[Puzzle, Evidence, np.random.Generator],
) -> None:
    puzzle, evidence, rng = case
    grid = puzzle.require_grid()
    problem = make_problem(evidence, puzzle)
    _, score = Evolution(problem, EvolutionParams(islands=1), threads=1).run(rng, lambda *_: False)
    best = max(
        evidence.score(board)
        for order in permutations(range(puzzle.n))
        for board in [np.array(order).reshape(grid)]
        if not (Knowledge(pins=puzzle.pins) | puzzle.knowledge).broken(board, puzzle.n)
    )
    assert score == pytest.approx(best, rel=1e-4, abs=1e-3)


# What cannot be


CONTRADICTIONS = {
    "itself": (lambda: Knowledge(right=frozenset({(1, 1)})), "beside itself"),
    "two right": (lambda: Knowledge(right=frozenset({(0, 1), (0, 2)})), "room for one"),
    "two left": (lambda: Knowledge(right=frozenset({(1, 0), (2, 0)})), "room for one"),
    "yes and no": (
        lambda: Knowledge(below=frozenset({(0, 1)}), not_below=frozenset({(0, 1)})),
        "forbidden",
    ),
    "pinned and not": (
        lambda: Knowledge(pins={0: (1, 1)}, not_in=frozenset({(0, (1, 1))})),
        "forbidden",
    ),
    "no side": (lambda: Knowledge(rims=frozenset({(0, "front")})), "'front'"),
    "two pins": (lambda: Knowledge(pins={0: (1, 1)}) | Knowledge(pins={0: (0, 0)}), "pinned to"),
}


@pytest.mark.parametrize("name", list(CONTRADICTIONS))
def test_what_contradicts_itself_is_refused(name: str) -> None:
    make, message = CONTRADICTIONS[name]
    with pytest.raises(SherdError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (Knowledge(right=frozenset({(0, 1), (1, 2), (2, 3)})), "no place is left for a, b, c …"),
        (Knowledge(right=frozenset({(0, 1)}), below=frozenset({(1, 0)})), "cannot lie"),
        (
            Knowledge(right=frozenset({(0, 1)}), below=frozenset({(0, 2), (3, 1)}),
                      pins={2: (1, 1), 3: (0, 0)}),
            "no place",
        ),
        (Knowledge(pins={0: (0, 2)}, right=frozenset({(0, 1)})), "no place is left for a, b"),
        (Knowledge(pins={0: (1, 1)}, corners=frozenset({0})), "no place is left for a"),
        (Knowledge(rims=frozenset({(0, "left"), (0, "right")})), "no place is left for a"),
        (Knowledge(corners=frozenset({0, 1, 2, 3, 4})), "no board can honour"),
        (Knowledge(rims=frozenset({(p, "left") for p in range(4)})), "no board can honour"),
        (
            Knowledge(rims=frozenset({(p, s) for p in (0, 1) for s in ("top", "left")})),
            "want the same cells",
        ),
    ],
)  # fmt: skip
def test_what_no_board_can_honour_is_refused(known: Knowledge, message: str) -> None:
    puzzle = replace(blank_puzzle(9, (3, 3)), names=tuple("abcdefghi"), knowledge=known)
    with pytest.raises(SherdError, match=message):
        bind(puzzle)
    with pytest.raises(SherdError, match=message):
        make_solver("evolve").solve(puzzle)


def test_pieces_that_are_apart_everywhere_leave_no_board() -> None:
    known = Knowledge()
    for a in range(4):
        for b in range(a):
            known |= Knowledge.apart(a, b)
    with pytest.raises(SherdError, match="no board can honour"):
        bind(blank_puzzle(4, (2, 2), knowledge=known))
    assert bind(blank_puzzle(4, (3, 3), knowledge=known)).board is not None  # room between them


def test_a_system_that_does_not_know_says_so() -> None:
    puzzle = blank_puzzle(4, (2, 2), knowledge=Knowledge(corners=frozenset({0})))
    with pytest.raises(SherdError, match="use sherd or evolve"):
        make_solver("greedy").solve(puzzle)


# On real solvers


def test_solvers_honour_it_and_go_on_from_a_board(small: Puzzle) -> None:
    assert small.truth is not None
    t = small.truth
    lie = Knowledge(
        right=frozenset({(int(t[0, 0]), int(t[2, 3]))}),  # wrong, but the user insists
        corners=frozenset({int(t[1, 1])}),
        not_in=frozenset({(int(t[0, 2]), (0, 2))}),
        rims=frozenset({(int(t[1, 2]), "bottom")}),
    )
    puzzle = replace(small, knowledge=lie)
    for name in ("evolve", "sherd"):
        result = make_solver(name).solve(puzzle, stop=MaxRounds(3), seed=1)
        assert not lie.broken(result.board, puzzle.n)
        assert np.isfinite(result.confidence).all()
    evidence = result.evidence
    assert evidence is not None
    record = Recorder(Callbacks(), np.arange(puzzle.n))
    found = search(
        evidence, puzzle, MaxRounds(1), np.random.default_rng(0), record, start=result.board
    )
    assert found.score >= result.score - 1e-3  # never worse than where it went on from


def test_a_start_that_breaks_the_pins_is_put_right() -> None:
    puzzle = blank_puzzle(6, (2, 4), pins={5: (0, 0), 2: (1, 1)}, blocked=frozenset({(1, 3)}))
    problem = make_problem(random_evidence(6, np.random.default_rng(0)), puzzle)
    board = np.array([[0, 5, 2, 3], [4, EMPTY, EMPTY, 1]])
    got = problem.to_board(problem.from_board(board))
    assert (got[0, 0], got[0, 1], got[1, 1], got[1, 3]) == (5, 0, 2, EMPTY)
    assert sorted(got[got >= 0].tolist()) == list(range(6))


# As data


@given(puzzles())
def test_it_is_the_same_in_any_order_and_as_json(
    case: tuple[Puzzle, Evidence, np.random.Generator],
) -> None:
    puzzle, _, rng = case
    order = rng.permutation(puzzle.n)
    names = tuple(f"{k}.png" for k in range(puzzle.n))
    named = replace(puzzle, names=names)
    turned = named.reordered(order)
    assert turned.names is not None
    read = Knowledge.from_entries(turned.knowledge.to_entries(turned.names), names)
    assert read == puzzle.knowledge  # names stay with their pieces
    entries = puzzle.knowledge.to_entries(names)
    assert Knowledge.from_entries(entries, names) == puzzle.knowledge


def test_a_cell_in_which_a_piece_is_not_may_lie_outside() -> None:
    known = Knowledge(pins={0: (1, 1)}, not_in=frozenset({(0, (5, 0))}))
    known.check(2, (2, 2))
    with pytest.raises(SherdError, match=r"forbid: cell \(0, -1\)"):
        Knowledge(not_in=frozenset({(0, (0, -1))})).check(2, (2, 2))
    with pytest.raises(SherdError, match=r"pin: cell \(2, 0\) is outside the 2x2 grid"):
        Knowledge(pins={0: (2, 0)}).check(2, (2, 2))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "expected an object"),
        ({"left": []}, "unknown entry 'left'"),
        ({"right": [["a"]]}, "right: expected"),
        ({"right": [["a", "z"]]}, "'z' is none of the pieces"),
        ({"not_in": [["a", [0, -1]]]}, "not_in: expected"),
        ({"corners": "a"}, "corners: expected"),
        ({"pins": {"a": [0]}}, "pins: expected"),
        ({"rims": [["a", "front"]]}, "'front'"),
    ],
)
def test_malformed_knowledge_is_named(entries: object, message: str) -> None:
    with pytest.raises(SherdError, match=message):
        Knowledge.from_entries(entries, ("a", "b"))


def test_pins_of_knowledge_move_into_the_puzzle_once_there_is_a_grid() -> None:
    known = Knowledge(pins={1: (0, 1)}, corners=frozenset({0}))
    unknown = Puzzle(np.zeros((4, 1, 1, 3), np.uint8), knowledge=known)
    assert unknown.knowledge == known
    puzzle = replace(unknown, grid=(2, 2))
    assert puzzle.pins == {1: (0, 1)}
    assert puzzle.knowledge == Knowledge(corners=frozenset({0}))
    with pytest.raises(SherdError, match="piece 9 does not exist"):
        replace(unknown, knowledge=Knowledge(corners=frozenset({9})))
