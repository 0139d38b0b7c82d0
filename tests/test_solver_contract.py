"""What every system promises, whatever is inside it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import data

from sherd import Geometry, Puzzle, Result, SherdError, cut, make_solver
from sherd.puzzle import EMPTY, check_board, identity_board
from sherd.solvers import SYSTEMS, Callbacks, MaxRounds, Solver, solver_class

systems = pytest.mark.parametrize("system", list(SYSTEMS))

FALLIBLE = {"deepzzle", "sd2rl"}
"""Systems that see pieces as a whole, not their edges: no puzzle is easy for them."""


def picture(kind: str, seed: int) -> np.ndarray:
    """A photograph, noise, one flat colour, one tile again and again, or a blank sky above one."""
    rng = np.random.default_rng(seed)
    if kind == "noise":
        return rng.integers(0, 256, (96, 96, 3)).astype(np.uint8)
    if kind == "flat":
        return np.full((96, 96, 3), rng.integers(0, 256), dtype=np.uint8)
    if kind == "tiles":
        return np.tile(rng.integers(0, 256, (8, 8, 3)).astype(np.uint8), (12, 12, 1))
    y, x = rng.integers(0, 300, 2)
    photo = np.array(data.coffee()[y : y + 96, x : x + 96])
    if kind == "sky":
        photo[:16] = 250
    return photo


@st.composite
def puzzles(draw: st.DrawFn) -> Puzzle:
    """Small puzzles with all that may be odd about them."""
    grid = (draw(st.integers(1, 4)), draw(st.integers(1, 5)))
    size = (draw(st.integers(4, 14)), draw(st.integers(4, 14)))
    seed = draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    kind = draw(st.sampled_from(["photo", "noise", "flat", "tiles", "sky"]))
    gap = draw(st.integers(0, 3))
    whole = cut(picture(kind, seed), Geometry(grid, size, gap)).puzzle.shuffled(rng)
    cells = [(r, c) for r in range(grid[0]) for c in range(grid[1])]
    rng.shuffle(cells)
    blocked = frozenset(cells[: draw(st.integers(0, min(2, len(cells) - 1)))])
    free = [c for c in cells if c not in blocked]
    pieces = whole.pieces[: draw(st.integers(1, whole.n))]  # some may be missing
    extra = draw(st.integers(0, 3))  # some may belong to another picture
    strangers = rng.integers(0, 256, (extra, *pieces.shape[1:])).astype(np.uint8)
    pieces = np.concatenate([pieces, strangers])
    pins = draw(st.integers(0, min(2, len(pieces), len(free))))
    return Puzzle(
        pieces,
        grid,
        gap=draw(st.sampled_from([gap, None])),
        pins={int(p): free[k] for k, p in enumerate(rng.permutation(len(pieces))[:pins])},
        blocked=blocked,
    )


def check(result: Result, puzzle: Puzzle) -> None:
    """Everything that must hold of a result."""
    rows, cols = puzzle.require_grid()
    board = check_board(result.board, puzzle.n)
    assert board.shape == (rows, cols)
    assert all(board[cell] == EMPTY for cell in puzzle.blocked)
    assert all(board[cell] == piece for piece, cell in puzzle.pins.items())
    free = rows * cols - len(puzzle.blocked)
    placed = board[board != EMPTY].tolist()
    assert len(placed) == min(puzzle.n, free)  # no piece is left over beside an empty cell
    assert sorted([*placed, *result.unplaced]) == list(range(puzzle.n))
    assert result.confidence.shape == (rows, cols)
    assert np.isfinite(result.confidence).all()
    assert result.confidence.min() >= 0
    assert result.confidence.max() <= 1
    assert np.isfinite(result.score)
    if result.evidence is not None:  # in the order in which the caller knows the pieces
        assert result.evidence.n == puzzle.n
        assert result.evidence.full_score(board) == pytest.approx(result.score, rel=1e-4, abs=1e-3)
    assert result.timings["total"] >= 0


@systems
@settings(max_examples=25)
@given(puzzle=puzzles(), seed=st.integers(0, 5))
def test_any_puzzle_gets_a_valid_board(system: str, puzzle: Puzzle, seed: int) -> None:
    result = make_solver(system).solve(puzzle, stop=MaxRounds(2), seed=seed)
    assert (result.system, result.seed) == (system, seed)
    check(result, puzzle)


@systems
@pytest.mark.parametrize("grid", [(1, 1), (1, 6), (6, 1), (2, 2)])
def test_thin_and_tiny_grids(system: str, grid: tuple[int, int]) -> None:
    puzzle = cut(picture("photo", 1), Geometry(grid, (9, 12))).puzzle
    if solver_class(system).cannot(grid) is not None:
        with pytest.raises(SherdError, match=f"{system}: the grid is {grid[0]}x{grid[1]}"):
            make_solver(system).solve(puzzle)
        return
    check(make_solver(system).solve(puzzle, stop=MaxRounds(3)), puzzle)


@systems
def test_every_cell_may_be_pinned_or_blocked(system: str) -> None:
    puzzle = cut(picture("photo", 2), Geometry((3, 3), (10, 10))).puzzle
    backwards = {8 - k: (k // 3, k % 3) for k in range(9)}
    pinned = replace(puzzle, pins=backwards)
    result = make_solver(system).solve(pinned, stop=MaxRounds(2))
    assert np.array_equal(result.board.ravel(), np.arange(9)[::-1])
    check(result, pinned)
    all_but_one = frozenset((k // 3, k % 3) for k in range(9) if k != 4)
    check(
        make_solver(system).solve(replace(puzzle, blocked=all_but_one), stop=MaxRounds(2)),
        replace(puzzle, blocked=all_but_one),
    )


@systems
@pytest.mark.parametrize("size", [(1, 1), (1, 8), (8, 1), (2, 2)])
def test_pieces_of_a_pixel_are_laid_or_refused(system: str, size: tuple[int, int]) -> None:
    puzzle = cut(picture("photo", 3), Geometry((2, 3), size)).puzzle
    try:
        result = make_solver(system).solve(puzzle, stop=MaxRounds(2))
    except SherdError:
        return  # a line that says why, no traceback
    check(result, puzzle)


@systems
def test_without_a_grid_the_user_is_told(system: str) -> None:
    pieces = cut(picture("photo", 3), Geometry((2, 3), (8, 8))).puzzle.pieces
    with pytest.raises(SherdError, match="grid"):
        make_solver(system).solve(Puzzle(pieces))


@systems
def test_an_easy_puzzle_is_solved(system: str) -> None:
    image = np.asarray(data.astronaut())[:240, :320]
    puzzle = cut(image, Geometry((3, 4), (80, 80))).puzzle.shuffled(np.random.default_rng(1))
    result = make_solver(system).solve(puzzle, stop=MaxRounds(30), seed=0)
    if system in FALLIBLE:
        check(result, puzzle)
        return
    assert np.array_equal(result.board, puzzle.truth)


@systems
@pytest.mark.parametrize("kind", ["photo", "flat", "noise"])
def test_one_seed_gives_one_result(system: str, kind: str) -> None:
    puzzle = cut(picture(kind, 4), Geometry((3, 4), (10, 10), 1)).puzzle
    one, two = (make_solver(system).solve(puzzle, stop=MaxRounds(3), seed=5) for _ in range(2))
    assert np.array_equal(one.board, two.board)
    assert one.score == two.score
    assert np.array_equal(one.confidence, two.confidence)
    assert [s.score for s in one.history] == [s.score for s in two.history]


@systems
def test_a_solver_can_be_used_again(system: str) -> None:
    puzzle = cut(picture("photo", 5), Geometry((3, 4), (10, 10), 1)).puzzle
    other = cut(picture("noise", 5), Geometry((2, 3), (8, 8))).puzzle
    solver = make_solver(system)
    first = solver.solve(puzzle, stop=MaxRounds(2), seed=1)
    solver.solve(other, stop=MaxRounds(2), seed=2)
    assert np.array_equal(solver.solve(puzzle, stop=MaxRounds(2), seed=1).board, first.board)


@systems
def test_seeds_break_ties_differently(system: str) -> None:
    puzzle = cut(picture("flat", 6), Geometry((3, 3), (8, 8))).puzzle
    boards = {
        make_solver(system).solve(puzzle, stop=MaxRounds(1), seed=s).board.tobytes()
        for s in range(6)
    }
    assert len(boards) > 1


class AtOnce:
    """Says stop whenever asked, and counts how often that was."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, best: float) -> bool:
        self.asked += 1
        return True


@systems
@pytest.mark.parametrize("kind", ["photo", "noise"])
def test_told_to_stop_a_solver_stops_with_a_valid_board(system: str, kind: str) -> None:
    whole = cut(picture(kind, 7), Geometry((4, 5), (10, 10), 2)).puzzle
    puzzle = replace(
        whole, pieces=whole.pieces[:17], truth=None, pins={3: (1, 1)}, blocked=frozenset({(0, 4)})
    )
    stop = AtOnce()
    check(make_solver(system).solve(puzzle, stop=stop, seed=3), puzzle)
    assert stop.asked <= 1


class Listener(Callbacks):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.boards: list[tuple[np.ndarray, float]] = []
        self.last: tuple[np.ndarray, float] | None = None

    def on_start(self, system: str, pieces: int) -> None:
        self.heard.append(f"start {system} {pieces}")

    def on_stage(self, stage: str) -> None:
        self.heard.append(f"stage {stage}")

    def on_board(self, board: np.ndarray, score: float, round: int) -> None:
        self.heard.append("board")
        self.boards.append((board.copy(), score))
        board[:] = 0  # a listener may do what it likes with its copy

    def on_end(self, board: np.ndarray, score: float) -> None:
        self.heard.append("end")
        self.last = (board, score)


@systems
def test_callbacks_hear_valid_boards_that_only_get_better(system: str) -> None:
    puzzle = replace(
        cut(picture("photo", 8), Geometry((3, 5), (10, 10), 1)).puzzle,
        pins={7: (0, 0)},
        blocked=frozenset({(2, 2)}),
    )
    listener = Listener()
    result = make_solver(system).solve(puzzle, stop=MaxRounds(4), seed=2, callbacks=listener)
    check(result, puzzle)
    assert listener.heard[0] == f"start {system} 15"
    assert listener.heard[1].startswith("stage")
    assert listener.heard[-1] == "end"
    assert len(listener.boards) >= 1
    for board, _ in listener.boards:
        check_board(board, puzzle.n)
        assert board.shape == (3, 5)
        assert board[0, 0] == 7
        assert board[2, 2] == EMPTY
    scores = [score for _, score in listener.boards]
    assert all(b > a for a, b in pairwise(scores))
    assert listener.last is not None
    assert np.array_equal(listener.last[0], result.board)
    for board, score in listener.boards:  # the best complete board that was seen is returned
        assert score <= result.score or (board != EMPTY).sum() < (result.board != EMPTY).sum()
    assert [s.score for s in result.history] == scores
    for snapshot, (board, _) in zip(result.history, listener.boards, strict=True):
        assert np.array_equal(snapshot.board, board)
    assert set(result.timings) >= {"total"} | {h[6:] for h in listener.heard if h[:6] == "stage "}


@systems
def test_a_wrong_truth_changes_nothing(system: str) -> None:
    puzzle = cut(picture("sky", 9), Geometry((4, 4), (10, 10), 1)).puzzle
    lie = replace(puzzle, truth=np.random.default_rng(0).permutation(16).reshape(4, 4))
    found = [
        make_solver(system).solve(p, stop=MaxRounds(2), seed=1)
        for p in (puzzle, lie, puzzle.without_truth())
    ]
    assert all(np.array_equal(f.board, found[0].board) for f in found)
    assert all(f.score == found[0].score for f in found)


def shares_in_place(solver: Solver, kind: str, shuffle: bool) -> np.ndarray:
    """Absolute of each of 20 puzzles of 3×3 pieces, handed over in true order or shuffled."""
    shares = []
    for seed in range(20):
        image = picture(kind, seed)[:24, :24]  # not scaled: equal pieces stay equal
        puzzle = cut(image, Geometry((3, 3), (8, 8))).puzzle
        if shuffle:
            puzzle = puzzle.shuffled(np.random.default_rng([seed, 99]))
        board = solver.solve(puzzle, stop=MaxRounds(1), seed=seed).board
        shares.append(float((board == puzzle.truth).mean()))
    return np.array(shares)


def leaks(solver: Solver) -> bool:
    """Whether the order in which the pieces come helps, beyond four standard errors of chance."""
    for kind in ("flat", "tiles", "sky"):  # nine pieces, or most of them, are identical
        ordered, shuffled = (shares_in_place(solver, kind, s) for s in (False, True))
        error = ((ordered.var() + shuffled.var()) / len(ordered)) ** 0.5
        if ordered.mean() - shuffled.mean() > 4 * error:
            return True
        # Of nine identical pieces one lies right by chance, give or take one.
        if kind != "sky" and ordered.mean() > (1 + 4 / len(ordered) ** 0.5) / 9:
            return True
    return False


@systems
def test_the_order_of_the_pieces_gives_nothing_away(system: str) -> None:
    assert not leaks(make_solver(system))


class Lazy(Solver):
    """Takes the pieces as they come, past the shuffle of the base class."""

    name = "lazy"
    summary = "Cheats."

    def __init__(self, honest: float) -> None:
        self.honest = honest

    def solve(self, puzzle: Puzzle, *, seed: int = 0, **_: object) -> Result:
        rng = np.random.default_rng(seed)
        board = identity_board(puzzle.require_grid())
        if rng.random() < self.honest:
            board = rng.permutation(board.ravel()).reshape(board.shape)
        return Result(board, 0.0, np.zeros(board.shape), None, self.name, seed)


def test_a_solver_that_prefers_the_given_order_is_caught() -> None:
    assert leaks(Lazy(honest=0.0))
    assert leaks(Lazy(honest=0.7))
    assert not leaks(Lazy(honest=1.0))


@systems
def test_systems_say_what_they_are(system: str) -> None:
    cls = solver_class(system)
    assert cls.name == system
    assert cls.summary
    assert "\n" not in cls.summary
    assert cls.__doc__


def test_an_unknown_system_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SherdError, match="greedy") as caught:
        make_solver("magic")
    assert "magic" in str(caught.value)
