"""Fragments as people have them: files in, a picture out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from skimage import data

import sherd
from sherd import Geometry, Knowledge, Puzzle, SherdError, cut
from sherd.data.cutting import lose_pieces
from sherd.fragments.grids import STRANGER, fair_score, handicap
from sherd.fragments.possible import possible_grids, spare_pieces
from sherd.fragments.strangers import LOW, lift_strangers, links_of
from sherd.perception.gaps import estimate_gap
from sherd.puzzle import EMPTY
from sherd.solvers import Callbacks, MaxRounds

Grid = tuple[int, int]


def puzzle_of(grid: Grid, piece: int = 32, gap: int = 0, seed: int = 0) -> Puzzle:
    """Shuffled pieces of a photograph."""
    whole = cut(data.coffee(), Geometry(grid, (piece, piece), gap), fit="crop").puzzle
    return whole.shuffled(np.random.default_rng(seed))


# Grids


@given(st.integers(1, 200), st.integers(0, 12))
def test_possible_grids_are_all_there(n: int, missing: int) -> None:
    grids = possible_grids(n, missing)
    assert len(set(grids)) == len(grids)
    assert all(n - spare_pieces(n) <= r * c <= n + missing for r, c in grids)
    assert all((r, n // r) in grids for r in range(1, n + 1) if n % r == 0)
    assert all((c, r) in grids for r, c in grids)


@given(st.integers(1, 60), st.integers(0, 9))
def test_the_handicap_counts_boards(n: int, empty: int) -> None:
    boards = math.comb(n + empty, empty)  # ways to choose the empty cells
    assert handicap(n, n + empty, 0) == pytest.approx(math.log(boards), abs=1e-6)
    assert handicap(n, n, 0) == pytest.approx(0.0, abs=1e-9)
    assert handicap(n, n, 2) == pytest.approx(2 * STRANGER)


def test_a_stranger_speaks_against_no_grid() -> None:
    h = np.full((5, 5), -5.0)
    h[0, 1] = h[2, 3] = 4.0
    v = np.full((5, 5), -5.0)
    v[0, 2] = v[1, 3] = 4.0
    evidence = sherd.Evidence(h, v)
    board = np.array([[0, 1], [2, 3]])
    assert fair_score(evidence, board) == pytest.approx(16.0 - STRANGER)
    beside = np.array([[0, 1, EMPTY], [2, 3, 4]])
    assert fair_score(evidence, beside) == pytest.approx(16.0 - STRANGER - math.log(15))


class Listener(Callbacks):
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []

    def on_stage(self, stage: str) -> None:
        self.stages.append(stage)

    def on_note(self, note: str) -> None:
        self.notes.append(note)


@pytest.mark.parametrize(("grid", "lost"), [((4, 5), 0), ((3, 7), 0), ((5, 4), 2), ((2, 9), 1)])
def test_the_grid_is_found(grid: Grid, lost: int) -> None:
    rng = np.random.default_rng(sum(grid))
    whole = puzzle_of(grid, 48)
    puzzle = lose_pieces(whole, lost, rng)
    heard = Listener()
    result = sherd.solve(
        list(puzzle.pieces), gap=0, missing=2, system="evolve", callbacks=heard, seed=1
    )
    assert puzzle.truth is not None
    assert np.array_equal(result.board, puzzle.truth)
    assert result.puzzle.grid == grid
    assert result.grids[0].grid == grid
    assert result.grids[0].missing == lost
    assert [t.score for t in result.grids] == sorted((t.score for t in result.grids), reverse=True)
    assert heard.stages[:2] == ["perception", "grid"]
    assert any(note.startswith(f"grid: {grid[0]}x{grid[1]}") for note in heard.notes)
    assert tuple(heard.notes) == result.notes


def test_the_network_finds_grid_gap_and_losses() -> None:
    puzzle = lose_pieces(puzzle_of((4, 5), 40, gap=4), 1, np.random.default_rng(2))
    result = sherd.solve(list(puzzle.pieces), missing=1)
    assert puzzle.truth is not None
    assert np.array_equal(result.board, puzzle.truth)
    assert result.puzzle.gap is not None
    assert abs(result.puzzle.gap - 4) <= 2
    assert result.confidence[result.board != EMPTY].min() > 0.5


def test_what_is_known_rules_grids_out() -> None:
    puzzle = puzzle_of((3, 4), 48)
    assert puzzle.truth is not None
    corner = int(puzzle.truth[2, 3])
    pieces = list(puzzle.pieces)
    found = sherd.solve(pieces, gap=0, pins={corner: (2, 3)}, missing=0, system="evolve")
    assert np.array_equal(found.board, puzzle.truth)
    assert all(t.grid[0] >= 3 and t.grid[1] >= 4 for t in found.grids)
    wrong = sherd.solve(
        pieces, gap=0, missing=0, system="evolve",
        knowledge=Knowledge(pins={corner: (1, 0)}, rims=frozenset({(corner, "bottom")})),
    )  # fmt: skip
    assert wrong.board.shape == (2, 6)
    assert wrong.board[1, 0] == corner
    with pytest.raises(SherdError, match="pin: cell"):
        sherd.solve(pieces, gap=0, pins={0: (50, 50)}, system="evolve")


# Gaps


@pytest.mark.parametrize("gap", [0, 1, 2, 4, 8])
@pytest.mark.parametrize("name", ["coffee", "astronaut", "cat"])
def test_the_gap_shows_in_the_picture(name: str, gap: int) -> None:
    image = np.asarray(getattr(data, name)())
    puzzle = cut(image, Geometry((4, 5), (48, 48), gap), fit="crop").puzzle
    assert puzzle.truth is not None
    found = estimate_gap(replace(puzzle, gap=None), puzzle.truth)
    assert found is not None
    assert abs(found - gap) <= 1 + gap // 2


def test_the_gap_of_nothing_is_unknown() -> None:
    alone = Puzzle(np.zeros((1, 8, 8, 3), np.uint8))
    assert estimate_gap(alone, np.array([[0]])) is None
    tiny = puzzle_of((3, 3), 4)
    assert tiny.truth is not None
    assert estimate_gap(tiny, tiny.truth) is None
    masked = replace(puzzle_of((3, 3), 24, gap=2), mask=np.zeros((9, 24, 24), bool))
    assert masked.truth is not None
    assert estimate_gap(masked, masked.truth) is not None  # no pixel, but no crash either


# Strangers


def test_links_of_a_piece_are_what_it_adds() -> None:
    rng = np.random.default_rng(0)
    evidence = sherd.Evidence(*rng.normal(size=(2, 6, 6)))
    board = np.array([[0, 1, EMPTY], [2, 3, 4]])
    links = links_of(evidence, board)
    for r, c in np.argwhere(board != EMPTY):
        without = board.copy()
        without[r, c] = EMPTY
        lost = evidence.score(board) - evidence.score(without)
        assert links[r, c] == pytest.approx(lost, abs=1e-5)
    assert links[0, 2] == 0


def test_strangers_are_left_out_and_others_are_not() -> None:
    puzzle = puzzle_of((4, 5), 40, gap=2)
    assert puzzle.truth is not None
    lost = lose_pieces(puzzle, 1, np.random.default_rng(0))
    strange = cut(data.cat(), Geometry((3, 4), (40, 40), 2)).puzzle.pieces[5:6]
    pieces = [*lost.pieces, *strange]
    result = sherd.solve(pieces, gap=2)
    assert result.board.shape == (4, 5)
    assert result.unplaced == [19]
    assert lost.truth is not None
    assert np.array_equal(result.board, lost.truth)
    assert any(note == "not placed: 19" for note in result.notes)
    exact = sherd.solve(pieces, grid=(4, 5), gap=2, stop=MaxRounds(3))
    assert exact.unplaced == []  # 20 pieces on 20 cells: the user says that all belong


def test_the_worst_is_lifted_first() -> None:
    h = np.full((3, 3), 3.0)
    h[0, 1] = h[1, 2] = 2 * LOW  # the one in the middle; its neighbours look strange because of it
    evidence = sherd.Evidence(h, np.zeros((3, 3)))
    board, lifted = lift_strangers(evidence, np.array([[0, 1, 2]]), frozenset())
    assert lifted == [1]
    assert board.tolist() == [[0, EMPTY, 2]]
    assert lift_strangers(evidence, np.array([[0, 1, 2]]), frozenset({0, 1, 2}))[1] == []


# Going on


def test_going_on_from_a_board() -> None:
    puzzle = puzzle_of((4, 5), 32)
    assert puzzle.truth is not None
    first = sherd.solve(puzzle, system="evolve", stop=MaxRounds(1), seed=3)
    wrong = puzzle.truth.copy()
    wrong[0, 0], wrong[2, 2] = wrong[2, 2], wrong[0, 0]
    again = sherd.solve(puzzle, system="evolve", start=wrong, stop=MaxRounds(1))
    assert again.evidence is not None
    assert again.score >= again.evidence.score(wrong)
    assert first.score <= again.score + 1e-3
    pinned = sherd.solve(
        replace(puzzle, grid=None, truth=None), gap=0, system="evolve", start=wrong,
        pins={int(puzzle.truth[0, 0]): (0, 0)}, stop=MaxRounds(2),
    )  # fmt: skip
    assert pinned.board.shape == (4, 5)
    assert pinned.board[0, 0] == puzzle.truth[0, 0]


def refuse(do: Callable[[], object], message: str) -> None:
    with pytest.raises(SherdError, match=message) as caught:
        do()
    assert "\n" not in str(caught.value)


def test_starts_that_are_none() -> None:
    puzzle = puzzle_of((2, 3), 16)
    board = np.arange(6).reshape(3, 2)
    refuse(lambda: sherd.solve(puzzle, start=board), "start: is 3x2, the grid is 2x3")
    refuse(lambda: sherd.solve(puzzle, start=board.T + 1), "start: holds piece 6")
    refuse(lambda: sherd.solve(puzzle, start=board.T, system="greedy"), "cannot go on")
    bare = Puzzle(puzzle.pieces)
    refuse(lambda: sherd.solve(bare, grid=(1, 4)), "4 free cells for 6 pieces")
    refuse(lambda: sherd.solve(puzzle, pins={"x.png": (0, 0)}), "'x.png' is none of the pieces")
    refuse(lambda: sherd.solve(bare, system="greedy"), "give it")


def test_the_same_as_the_solver_where_all_is_known() -> None:
    puzzle = puzzle_of((3, 4), 24, gap=2)
    for system in ("evolve", "greedy"):
        one = sherd.make_solver(system).solve(puzzle, seed=4)
        two = sherd.solve(puzzle, system=system, seed=4)
        assert np.array_equal(one.board, two.board)
        assert one.score == pytest.approx(two.score)
        assert np.array_equal(one.confidence, two.confidence)


@settings(max_examples=8)
@given(st.integers(0, 100))
def test_one_seed_one_answer(seed: int) -> None:
    puzzle = puzzle_of((3, 3), 12, seed=seed)
    pieces = list(puzzle.pieces)
    one, two = (
        sherd.solve(pieces, missing=1, system="evolve", seed=seed, stop=MaxRounds(40))
        for _ in range(2)
    )
    assert np.array_equal(one.board, two.board)
    assert one.grids == two.grids
    assert one.notes == two.notes


def test_told_to_stop_it_has_a_board() -> None:
    pieces = list(puzzle_of((3, 4), 16).pieces)
    result = sherd.solve(pieces, system="evolve", stop=MaxRounds(1))
    assert (result.board != EMPTY).sum() + len(result.unplaced) == 12
    assert len(result.grids) == 1


def test_alternatives_come_near_and_differ() -> None:
    sky = np.array(data.coffee()[:128, :160])
    sky[:32] = 250 + np.random.default_rng(0).integers(0, 3, (32, 160, 3))  # pieces like peas
    puzzle = cut(sky, Geometry((4, 5), (32, 32))).puzzle.shuffled(np.random.default_rng(1))
    result = sherd.solve(puzzle, system="evolve")
    assert result.alternatives
    assert result.evidence is not None
    for other in result.alternatives:
        assert np.array_equal(other.differs, other.board != result.board)
        assert other.differs.any()
        assert other.score == pytest.approx(result.evidence.full_score(other.board), abs=1e-2)
        assert 0 < other.odds <= 1
    scores = [other.score for other in result.alternatives]
    assert scores == sorted(scores, reverse=True)
    assert len({o.differs.tobytes() for o in result.alternatives}) == len(scores)
    clear = sherd.solve(puzzle_of((3, 4), 48), system="evolve")
    assert all(other.odds < 0.5 for other in clear.alternatives)


def test_a_result_goes_to_a_folder_and_comes_back(tmp_path: Path) -> None:
    puzzle = replace(puzzle_of((3, 4), 32), names=tuple(f"s{k}.png" for k in range(12)))
    result = sherd.solve(puzzle, system="evolve", pins={"s3.png": (1, 1)})
    assert result.show().size == (result.image().shape[1], result.image().shape[0])
    assert result._repr_png_().startswith(b"\x89PNG")
    entries = result.save(tmp_path / "out", animate=True, report=True)
    made = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert made == [
        "assembled.png", "layout.csv", "reassembly.gif", "report.html", "result.json"
    ]  # fmt: skip
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == json.loads(
        json.dumps(entries)
    )
    assert entries["pins"] == {"s3.png": [1, 1]}
    lines = (tmp_path / "out" / "layout.csv").read_text().splitlines()
    assert lines[0] == "piece,row,column,confidence,pinned"
    for line in lines[1:]:
        name, row, column, sure, pinned = line.split(",")
        assert pinned == ("yes" if name == "s3.png" else "no")
        k = result.names.index(name)
        assert result.board[int(row), int(column)] == k
        assert float(sure) == pytest.approx(result.confidence[int(row), int(column)], abs=1e-4)
    with pytest.raises(SherdError, match="not empty"):
        result.save(tmp_path / "out")
    result.save(tmp_path / "out", force=True)
    assert (np.asarray(Image.open(tmp_path / "out" / "assembled.png")) == result.image()).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": "2x3"}, "grid: '2x3'; expected (rows, columns)"),
        ({"grid": 6}, "grid: 6; expected (rows, columns)"),
        ({"grid": (2.0, 3.0)}, "grid: (2.0, 3.0); expected"),
        ({"grid": (1000, 1000)}, "grid: 1000x1000 has 1000000 cells; at most 20,000"),
        ({"gap": "2"}, "gap: '2'; expected a whole number from 0 on"),
        ({"gap": 2.5}, "gap: 2.5; expected"),
        ({"gap": 21}, "gap: 21 px between fragments of 20x20 px; it cannot be wider"),
        ({"grid": None, "missing": -1}, "missing: -1; expected"),
        ({"seed": -1}, "seed: -1; expected"),
        ({"knowledge": {"pins": {}}}, "knowledge: is a dict; expected a sherd.Knowledge"),
        ({"fragments": None}, "fragments: are a NoneType; expected a folder"),
    ],
)
def test_what_callers_get_wrong_is_one_line(change: dict[str, Any], message: str) -> None:
    pieces = [np.full((20, 20, 3), 9 * k, np.uint8) for k in range(6)]
    asked = {"fragments": pieces, "grid": (2, 3), "gap": 2, "system": "evolve", **change}
    with pytest.raises(SherdError) as caught:
        sherd.solve(**asked)
    assert message in str(caught.value)


def test_what_holds_the_fragments_and_the_grid_does_not_matter(tmp_path: Path) -> None:
    pieces = [np.full((20, 20, 3), 9 * k, np.uint8) for k in range(6)]
    loose: dict[str, Any] = {"grid": np.array([2, 3]), "gap": np.int64(2), "seed": np.int64(1)}
    result = sherd.solve((p for p in pieces), **loose, system="evolve")
    result.save(tmp_path / "out")
    loose["grid"] = [2, 3]
    again = sherd.solve(iter(pieces), **loose, start=result.board, system="evolve")
    assert again.board.shape == (2, 3)
