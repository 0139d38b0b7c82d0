"""Pictures show what the board says, and files are written whole."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage import data

from sherd import Geometry, Puzzle, SherdError, cut
from sherd.data.cutting import board_corners
from sherd.pictures import animate, arrival_board, convergence, render_board, save_picture, sheet
from sherd.pictures.animation import MAX_FRAMES
from sherd.pictures.style import HATCH, PAPER, WRONG, confidence_colours
from sherd.solvers import Snapshot


@pytest.fixture(scope="module")
def puzzle() -> Puzzle:
    rng = np.random.default_rng(4)
    return cut(data.coffee(), Geometry((3, 4), (32, 40), 6)).puzzle.shuffled(rng)


def cell(picture: np.ndarray, puzzle: Puzzle, row: int, col: int, gap: int) -> np.ndarray:
    """The pixels of one cell of a rendered board."""
    h, w = puzzle.piece_size
    y, x = row * (h + gap), col * (w + gap)
    return picture[y : y + h, x : x + w]


def run_of(boards: list[np.ndarray]) -> list[Snapshot]:
    return [Snapshot(0.5 * k, k, float(k), b) for k, b in enumerate(boards)]


def frames_of(path: Path) -> tuple[list[np.ndarray], int]:
    """The frames of a GIF and its length in ms."""
    with Image.open(path) as gif:
        frames, total = [], 0
        for k in range(gif.n_frames):
            gif.seek(k)
            total += gif.info["duration"]
            frames.append(np.array(gif.convert("RGB")))
    return frames, total


def test_true_board_is_the_cut_picture_with_paper_in_the_gaps(puzzle: Puzzle) -> None:
    made = cut(data.coffee(), Geometry((3, 4), (32, 40), 6))
    assert puzzle.truth is not None
    picture = render_board(puzzle, puzzle.truth)
    assert picture.shape == made.image.shape
    same = (picture == made.image).all(axis=-1)
    paper = (picture == PAPER).all(axis=-1)
    assert (same | paper).all()
    assert same.mean() > 0.7


def test_gap_and_background_can_be_chosen(puzzle: Puzzle) -> None:
    board = arrival_board(puzzle)
    picture = render_board(puzzle, board, gap=3, background=(1, 2, 3))
    assert picture.shape == (3 * 32 + 2 * 3, 4 * 40 + 3 * 3, 3)
    assert (picture[32:35] == (1, 2, 3)).all()
    for k in range(puzzle.n):
        assert np.array_equal(cell(picture, puzzle, k // 4, k % 4, 3), puzzle.pieces[k])


def test_unknown_gap_means_none(puzzle: Puzzle) -> None:
    picture = render_board(replace(puzzle, gap=None), arrival_board(puzzle))
    assert picture.shape == (3 * 32, 4 * 40, 3)


def test_empty_cells_are_hatched(puzzle: Puzzle) -> None:
    board = arrival_board(puzzle)
    board[1, 2] = -1
    picture = render_board(puzzle, board, gap=0)
    colours = np.unique(cell(picture, puzzle, 1, 2, 0).reshape(-1, 3), axis=0)
    assert {tuple(map(int, c)) for c in colours} == {HATCH, PAPER}
    assert np.array_equal(cell(picture, puzzle, 1, 1, 0), puzzle.pieces[5])


def test_confidence_is_a_frame_of_the_right_colour(puzzle: Puzzle) -> None:
    board = arrival_board(puzzle)
    confidence = np.linspace(0, 1, 12).reshape(3, 4)
    picture = render_board(puzzle, board, gap=0, confidence=confidence)
    colours = confidence_colours(confidence).reshape(-1, 3).astype(int)
    ink = []
    for k in range(12):
        shown = cell(picture, puzzle, k // 4, k % 4, 0).astype(int)
        assert np.array_equal(shown[5:-5, 5:-5], puzzle.pieces[k][5:-5, 5:-5])
        # The frame is the colour, mixed with what lies under it.
        under, frame = puzzle.pieces[k][0].astype(int), shown[0]
        share = ((frame - under) * (colours[k] - under)).sum() / ((colours[k] - under) ** 2).sum()
        assert np.abs(under + share * (colours[k] - under) - frame).max() <= 1
        ink.append(share)
    assert ink[0] == pytest.approx(1.0, abs=0.01)
    assert 0.2 < ink[-1] < 0.5
    assert ink == sorted(ink, reverse=True)


def test_confidence_runs_from_red_to_green_and_survives_bad_values() -> None:
    low, middle, high = confidence_colours(np.array([0.0, 0.5, 1.0])).astype(int)
    assert low[0] > low[1] > low[2]
    assert middle[2] < middle[:2].min()
    assert high[1] > high[0]
    odd = confidence_colours(np.array([np.nan, -3.0, 7.0]))
    assert np.array_equal(odd, confidence_colours(np.array([0.0, 0.0, 1.0])))


def test_only_wrong_pieces_are_marked(puzzle: Puzzle) -> None:
    assert puzzle.truth is not None
    board = puzzle.truth.copy()
    board[0, 0], board[2, 3] = board[2, 3], board[0, 0]
    plain = render_board(puzzle, board)
    marked = render_board(puzzle, board, truth=puzzle.truth)
    for row in range(3):
        for col in range(4):
            a, b = (cell(p, puzzle, row, col, 6) for p in (plain, marked))
            if (row, col) in ((0, 0), (2, 3)):
                assert tuple(b[0, 0]) == WRONG
                assert (a[8:-8, 8:-8] != b[8:-8, 8:-8]).mean() > 0.5
            else:
                assert np.array_equal(a, b)


def test_masked_pixels_show_the_background(puzzle: Puzzle) -> None:
    mask = np.ones(puzzle.pieces.shape[:3], dtype=bool)
    mask[:, :10] = False
    picture = render_board(replace(puzzle, mask=mask), arrival_board(puzzle), gap=0)
    top = cell(picture, puzzle, 1, 1, 0)
    assert (top[:10] == PAPER).all()
    assert np.array_equal(top[10:], puzzle.pieces[5][10:])


def test_render_does_not_change_its_input(puzzle: Puzzle) -> None:
    before = puzzle.pieces.copy()
    board = arrival_board(puzzle)[::-1].copy()
    render_board(puzzle, board, confidence=np.zeros((3, 4)), truth=puzzle.truth)
    assert np.array_equal(puzzle.pieces, before)


@pytest.mark.parametrize("what", ["confidence", "truth"])
def test_overlays_of_the_wrong_shape_are_refused(puzzle: Puzzle, what: str) -> None:
    with pytest.raises(SherdError, match=what):
        render_board(puzzle, arrival_board(puzzle), **{what: np.zeros((4, 3), dtype=int)})


def test_a_board_with_a_piece_twice_is_refused(puzzle: Puzzle) -> None:
    with pytest.raises(SherdError, match="piece 0"):
        render_board(puzzle, np.zeros((3, 4), dtype=int))


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 5), (4, 1), (2, 3)])
@pytest.mark.parametrize("size", [(1, 1), (3, 9), (20, 8)])
def test_small_and_odd_pieces_are_drawn(rows: int, cols: int, size: tuple[int, int]) -> None:
    made = cut(data.camera(), Geometry((rows, cols), size, 2)).puzzle
    board = arrival_board(made)
    picture = render_board(made, board, confidence=np.ones((rows, cols)), truth=board)
    assert picture.shape[:2] == board_corners((rows, cols), size, 2)[1]
    assert sheet(made, board).shape[1] == 1440


def test_sheet_has_the_asked_width_and_a_panel_more_with_truth(puzzle: Puzzle) -> None:
    assert puzzle.truth is not None
    three = sheet(puzzle, puzzle.truth, width=900)
    two = sheet(puzzle.without_truth(), puzzle.truth, width=900)
    assert three.shape[1] == two.shape[1] == 900
    assert three.dtype == np.uint8
    assert two.shape[0] > three.shape[0]  # two panels share the width: they are larger
    given = sheet(puzzle.without_truth(), puzzle.truth, truth=puzzle.truth, width=900)
    assert np.array_equal(given, three)


def test_sheet_marks_wrong_pieces_unless_told_not_to(puzzle: Puzzle) -> None:
    assert puzzle.truth is not None
    board = puzzle.truth[::-1].copy()
    marked = sheet(puzzle, board)
    plain = sheet(puzzle, board, mark_wrong=False)
    third = marked.shape[1] // 3
    middle = slice(third + 30, 2 * third - 30)
    assert (marked[:, middle] != plain[:, middle]).any()
    assert np.array_equal(marked[:, 2 * third + 40 :], plain[:, 2 * third + 40 :])


def test_sheet_shows_all_fragments_whatever_their_number(puzzle: Puzzle) -> None:
    few = Puzzle(puzzle.pieces[:5], (3, 4))
    many = Puzzle(puzzle.pieces, (2, 2))
    loose = Puzzle(puzzle.pieces, None)
    for p in (few, many, loose):
        shown = arrival_board(p)
        assert sorted(shown[shown >= 0].tolist()) == list(range(p.n))
    assert sheet(few, np.array([[0, 1], [4, -1]])).shape[1] == 1440
    assert sheet(many, np.array([[3, 1], [0, 2]])).shape[1] == 1440


def test_wide_puzzles_are_stacked() -> None:
    made = cut(data.rocket(), Geometry((2, 9), (16, 16))).puzzle
    picture = sheet(made, arrival_board(made), width=600)
    assert picture.shape[1] == 600
    assert picture.shape[0] > 3 * (600 - 30) * 2 / 9


def test_animation_goes_from_arrival_to_the_last_board(puzzle: Puzzle, tmp_path: Path) -> None:
    assert puzzle.truth is not None
    boards = [np.roll(puzzle.truth, 1, axis=1), puzzle.truth]
    path = tmp_path / "a.gif"
    animate(puzzle, run_of(boards), path, seconds=3, max_side=600)
    frames, length = frames_of(path)
    assert abs(length - 3000) <= 60
    assert len(frames) > 20
    for frame, board in ((frames[0], arrival_board(puzzle)), (frames[-1], puzzle.truth)):
        wanted = np.asarray(Image.fromarray(render_board(puzzle, board)).resize(frame.shape[1::-1]))
        assert np.abs(frame.astype(int) - wanted).mean() < 8
    assert np.abs(frames[0].astype(int) - frames[-1]).mean() > 16


def test_animation_moves_pieces_little_by_little(puzzle: Puzzle, tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    assert puzzle.truth is not None
    animate(puzzle, run_of([puzzle.truth]), path, seconds=3)
    frames, _ = frames_of(path)
    whole = np.abs(frames[0].astype(int) - frames[-1]).mean()
    steps = [np.abs(a.astype(int) - b).mean() for a, b in pairwise(frames)]
    assert len(frames) > 20
    assert max(steps) < 0.8 * whole


def test_animation_keeps_to_its_bounds(puzzle: Puzzle, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    boards = [rng.permutation(12).reshape(3, 4) for _ in range(300)]
    path = tmp_path / "a.gif"
    animate(puzzle, run_of(boards), path, seconds=60, max_side=100)
    frames, length = frames_of(path)
    assert len(frames) <= MAX_FRAMES
    assert abs(length - 60_000) < 1000
    assert max(frames[0].shape[:2]) <= 100


def test_animation_with_holes_extra_pieces_and_masks(puzzle: Puzzle, tmp_path: Path) -> None:
    mask = np.ones(puzzle.pieces.shape[:3], dtype=bool)
    mask[:, :, :8] = False
    odd = Puzzle(puzzle.pieces, (2, 4), mask=mask)
    boards = [np.array([[0, 1, 2, -1], [4, 5, -1, 7]]), np.array([[11, 1, -1, 3], [4, 0, 6, -1]])]
    animate(odd, run_of(boards), tmp_path / "a.gif", seconds=1)
    frames, _ = frames_of(tmp_path / "a.gif")
    hole = frames[-1][:, -30:][-30:]
    assert np.abs(hole.astype(int) - np.array(PAPER)).mean() < 20


def test_failed_writes_leave_nothing_behind(puzzle: Puzzle, tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    path.write_bytes(b"old")
    bad = [np.zeros((3, 4), dtype=int)]
    for call in (
        lambda: animate(puzzle, run_of(bad), path),
        lambda: animate(puzzle, [], path),
        lambda: animate(puzzle, run_of([arrival_board(puzzle)]), path, seconds=0),
        lambda: animate(puzzle, run_of([arrival_board(puzzle)]), tmp_path / "a.jpeg"),
        lambda: convergence([], tmp_path / "c.png"),
        lambda: save_picture(np.zeros((2, 2, 3), np.uint8), tmp_path / "a.txt"),
    ):
        with pytest.raises(SherdError):
            call()
    with pytest.raises(TypeError):
        save_picture(np.zeros((2, 2, 7), np.uint8), tmp_path / "b.png")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.gif"]


def test_saved_pictures_come_back_bit_for_bit(puzzle: Puzzle, tmp_path: Path) -> None:
    picture = render_board(puzzle, arrival_board(puzzle))
    path = tmp_path / "deep" / "a.png"
    save_picture(picture, path)
    assert np.array_equal(np.array(Image.open(path)), picture)


def test_convergence_plots_one_or_many_runs(tmp_path: Path) -> None:
    run = run_of([np.zeros((1, 1), dtype=int)] * 4)
    convergence(run, tmp_path / "one.png")
    with Image.open(tmp_path / "one.png") as image:
        assert min(image.size) > 400
    convergence({"greedy": run[:1], "evolve": run}, tmp_path / "many.svg")
    text = (tmp_path / "many.svg").read_text()
    assert "<!-- greedy -->" in text
    assert "<!-- evolve -->" in text


def test_pictures_import_matplotlib_only_to_plot() -> None:
    code = "import sys, sherd.pictures; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
