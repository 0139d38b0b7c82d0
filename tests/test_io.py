"""Puzzles on disk, and writing whole or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sherd import Puzzle, SherdError
from sherd.data.atomic import Ours, new_folder
from sherd.data.folder import PUZZLE_JSON, read_puzzle, write_puzzle
from sherd.data.images import write_png


def test_a_puzzle_comes_back_as_it_was(tmp_path: Path, small: Puzzle) -> None:
    mask = np.ones(small.pieces.shape[:3], dtype=bool)
    mask[3, :2] = False
    pieces = small.pieces.copy()
    pieces[3, :2] = 255  # what lies under a mask is not kept
    wanted = replace(
        small, pieces=pieces, mask=mask, pins={4: (0, 1), 0: (2, 3)}, blocked=frozenset({(1, 1)})
    )
    names = write_puzzle(tmp_path / "p", wanted)
    got = read_puzzle(tmp_path / "p")
    assert names[:2] == ("000.png", "001.png")
    assert got.names == names
    assert (got.pieces == wanted.pieces).all()
    assert got.mask is not None
    assert (got.mask == mask).all()
    assert (got.grid, got.gap, got.pins, got.blocked) == (
        wanted.grid, wanted.gap, wanted.pins, wanted.blocked
    )  # fmt: skip
    assert got.truth is not None
    assert (got.truth == wanted.truth).all()


def test_what_is_unknown_stays_unknown(tmp_path: Path, small: Puzzle) -> None:
    write_puzzle(tmp_path / "p", Puzzle(small.pieces))
    got = read_puzzle(tmp_path / "p")
    assert (got.grid, got.gap, got.truth, got.mask) == (None, None, None, None)


def test_numbers_are_wide_enough_to_sort(tmp_path: Path) -> None:
    names = write_puzzle(tmp_path / "p", Puzzle(np.zeros((1001, 2, 2, 3), dtype=np.uint8)))
    assert names[0] == "0000.png"
    assert names[-1] == "1000.png"


def test_a_plain_folder_of_images_is_a_puzzle(tmp_path: Path, small: Puzzle) -> None:
    for k, piece in enumerate(small.pieces):
        write_png(tmp_path / f"IMG_{k}.png", piece)
    got = read_puzzle(tmp_path, grid=(3, 4), gap=2)
    assert got.names is not None
    assert got.names[2] == "IMG_2.png"
    assert got.names[11] == "IMG_11.png"
    assert (got.pieces == small.pieces).all()
    assert (got.grid, got.gap) == ((3, 4), 2)
    assert read_puzzle(tmp_path).grid is None


def test_what_the_caller_says_goes_before_the_file(tmp_path: Path, small: Puzzle) -> None:
    write_puzzle(tmp_path / "p", replace(small, truth=None))
    got = read_puzzle(tmp_path / "p", grid=(4, 3), gap=5)
    assert (got.grid, got.gap) == ((4, 3), 5)


def test_other_images_in_the_folder_are_left_alone(tmp_path: Path, small: Puzzle) -> None:
    write_puzzle(tmp_path / "p", small)
    write_png(tmp_path / "p" / "cover.png", np.zeros((5, 5, 3), dtype=np.uint8))
    assert read_puzzle(tmp_path / "p").n == small.n


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("format", 2, "format is 2; this version reads 1"),
        ("pieces", [], "pieces: expected a list of file names"),
        ("pieces", "000.png", "pieces: expected a list of file names"),
        ("pieces", ["../000.png"], "no plain file name"),
        ("pieces", ["000.png", "000.png"], "listed twice"),
        ("pieces", ["999.png"], "999.png: no such file"),
        ("grid", "3x4", "grid: '3x4'; expected"),
        ("grid", [3], "grid: "),
        ("grid", [3, 4.0], "grid: "),
        ("grid", [0, 4], "both must be at least 1"),
        ("grid", [10**6, 4], "at most 1000"),
        ("gap", 1.5, "gap: 1.5"),
        ("gap", True, "gap: True"),
        ("gap", -1, "gap: -1 is negative"),
        ("truth", [[0, 1], [2]], "rows differ in length"),
        ("truth", [["000.png"]], "rows of piece numbers"),
        ("truth", [[0] * 4] * 3, "piece 0 lies in 12 cells"),
        ("truth", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 99]], "holds piece 99"),
        ("truth", [[0, 1], [2, 3]], "truth: is 2x2, the grid is 3x4"),
        ("pins", [1], "pins: expected"),
        ("pins", [], "pins: expected"),
        ("knowledge", [], "expected an object"),
        ("pins", {"000.png": 3}, "pins: expected"),
        ("pins", {"nobody.png": [0, 0]}, "'nobody.png' is none of the pieces"),
        ("pins", {"000.png": [3, 0]}, "outside the 3x4 grid"),
        (
            "pins",
            {"000.png": [0, 0], "001.png": [0, 0]},
            "piece 0 and piece 1 are pinned to one cell",
        ),
        ("blocked", [3], "blocked: expected"),
        ("blocked", [[9, 9]], "outside the 3x4 grid"),
        ("colour", "red", "unknown entry 'colour'"),
    ],
)
def test_a_malformed_puzzle_json_is_named(
    tmp_path: Path, small: Puzzle, entry: str, value: object, message: str
) -> None:
    write_puzzle(tmp_path / "p", small)
    path = tmp_path / "p" / PUZZLE_JSON
    about = json.loads(path.read_text())
    about[entry] = value
    path.write_text(json.dumps(about))
    with pytest.raises(SherdError) as error:
        read_puzzle(tmp_path / "p")
    assert message in str(error.value)
    assert str(tmp_path / "p") in str(error.value)
    assert "\n" not in str(error.value)


def test_an_empty_puzzle_json_is_none(tmp_path: Path, small: Puzzle) -> None:
    write_puzzle(tmp_path / "p", small)
    (tmp_path / "p" / PUZZLE_JSON).write_text("{}")
    with pytest.raises(SherdError, match="format is None"):
        read_puzzle(tmp_path / "p")


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"format": 1', "\xff", "[" * 100_000])
def test_a_puzzle_json_that_is_no_object(tmp_path: Path, small: Puzzle, text: str) -> None:
    write_puzzle(tmp_path / "p", small)
    (tmp_path / "p" / PUZZLE_JSON).write_bytes(text.encode("latin-1"))
    with pytest.raises(SherdError, match="JSON"):
        read_puzzle(tmp_path / "p")


# Whole or not at all


def listing(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    def write() -> None:
        with new_folder(tmp_path / "a" / "b" / "out", Ours("m", "m|x")) as part:
            (part / "m").write_text("x")
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        write()
    assert listing(tmp_path) == []


def test_the_folder_appears_at_the_end(tmp_path: Path) -> None:
    with new_folder(tmp_path / "a" / "out", Ours("m", "m|x")) as part:
        (part / "m").write_text("x")
        assert not (tmp_path / "a" / "out").exists()
    assert listing(tmp_path) == ["a", "a/out", "a/out/m"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with new_folder(tmp_path / "out", Ours("m", "m|x")) as part:
        (part / "m").write_text("x")
    assert listing(tmp_path) == ["out", "out/m"]


def test_a_full_folder_is_refused_and_kept(tmp_path: Path, small: Puzzle) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    for force in (False, True):
        with pytest.raises(SherdError, match=r"holds no puzzle\.json, so it is not replaced"):
            write_puzzle(tmp_path / "out", small, force=force)
    assert listing(tmp_path) == ["out", "out/thesis.txt"]
    write_puzzle(tmp_path / "p", small)
    (tmp_path / "p" / "thesis.txt").write_text("years of work")
    before = listing(tmp_path)
    with pytest.raises(SherdError, match=r"holds thesis\.txt as well, so it is not replaced"):
        write_puzzle(tmp_path / "p", small, force=True)
    assert listing(tmp_path) == before
    (tmp_path / "p" / "thesis.txt").rename(tmp_path / "p" / ".DS_Store")
    write_puzzle(tmp_path / "p", small, force=True)  # what a file browser leaves is nobody's work


def test_force_replaces_what_sherd_wrote(tmp_path: Path, small: Puzzle) -> None:
    write_puzzle(tmp_path / "p", small)
    fewer = Puzzle(small.pieces[:3])
    with pytest.raises(SherdError, match="not empty"):
        write_puzzle(tmp_path / "p", fewer)
    write_puzzle(tmp_path / "p", fewer, force=True)
    assert listing(tmp_path / "p") == ["000.png", "001.png", "002.png", PUZZLE_JSON]
    assert listing(tmp_path)[0] == "p"


def test_a_failed_replacement_keeps_the_old(
    tmp_path: Path, small: Puzzle, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_puzzle(tmp_path / "p", small)
    before = listing(tmp_path)
    rename = Path.rename

    def no_rename(self: Path, target: Path) -> Path:
        if self.suffix == ".part":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", no_rename)
    with pytest.raises(SherdError, match="p: cannot be written: No space left on device"):
        write_puzzle(tmp_path / "p", Puzzle(small.pieces[:3]), force=True)
    assert listing(tmp_path) == before
    assert read_puzzle(tmp_path / "p").n == small.n


def test_permissions_are_the_usual_ones(tmp_path: Path, small: Puzzle) -> None:
    write_puzzle(tmp_path / "p", small)
    (tmp_path / "q").mkdir()
    assert os.stat(tmp_path / "p").st_mode == os.stat(tmp_path / "q").st_mode
