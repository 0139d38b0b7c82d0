"""Bad input: one line on stderr, exit code 2, no traceback, nothing left behind."""

from __future__ import annotations

import errno
import io
import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fake_system import SYSTEMS, ramp
from sherd.cli.main import run
from sherd.data import images
from sherd.solvers import registry

Make = Callable[[Path], None]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working folder with a picture, a puzzle and a result."""
    for name, place in SYSTEMS.items():
        monkeypatch.setitem(registry.SYSTEMS, name, place)
    monkeypatch.chdir(tmp_path)
    Image.fromarray(ramp((2, 3), 20)).save("photo.png")
    for arguments in (
        ["create", "photo.png", "puzzle", "--grid", "2x3"],
        ["solve", "puzzle", "--system", "fake", "--out", "solved"],
    ):
        with pytest.raises(SystemExit) as end:
            run(arguments)
        assert not end.value.code
    return tmp_path


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below ``folder``: nothing may appear, vanish or change."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() if p.is_file() else None
        for p in sorted(folder.rglob("*"))
    }


def refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str], here: Path, message: str
) -> None:
    """Run a command that must be refused with ``message``."""
    before = tree(here)
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        run(arguments)
    printed = capsys.readouterr()
    assert end.value.code == 2, printed
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert printed.err.endswith("\n")
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert tree(here) == before


# Folders of fragments that cannot be a puzzle


def png(side: int = 20) -> bytes:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, "PNG")
    return buffer.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims to be ``width`` x ``height``."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def files(**contents: bytes) -> Make:
    def make(folder: Path) -> None:
        folder.mkdir()
        for name, data in contents.items():
            (folder / name.replace("_", ".")).write_bytes(data)

    return make


def transparent(folder: Path) -> None:
    folder.mkdir()
    Image.new("RGBA", (20, 20), (0, 0, 0, 0)).save(folder / "a.png")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (files(), "bad: holds no images; expected PNG, JPEG, TIFF, WebP or BMP files"),
        (files(notes_txt=b"hello"), "bad: holds no images"),
        (
            files(a_png=png(20), b_png=png(20), c_png=png(60)),
            "c.png: is 60x60 px, most fragments are about 20x20",
        ),
        (files(a_png=png(), b_png=b"hello"), "b.png: is not an image that can be read"),
        (files(a_png=png(), b_png=b""), "b.png: is not an image that can be read"),
        (files(a_png=png(), b_png=b"GIF89a" + bytes(99)), "b.png: is not an image"),
        (files(a_png=png(), b_png=png()[:700]), "b.png: is damaged or cut off"),
        (files(a_png=png(), b_png=png()[:30]), "b.png: is"),
        (files(a_png=bomb(9_000, 9_000)), "a.png: is 9000x9000 px; at most 80,000,000"),
        (files(a_png=bomb(11_000, 11_000)), "a.png: has too many pixels"),  # PIL warns
        (files(a_png=bomb(60_000, 60_000)), "a.png: has too many pixels"),  # PIL refuses
        (transparent, "a.png: every pixel is transparent"),
        (lambda folder: None, "bad: no such folder"),
        (lambda folder: folder.write_text("a file"), "bad: is a file; expected a folder"),
        (lambda folder: (folder / "a.png").mkdir(parents=True), "bad: holds no images"),
    ],
)
def test_a_folder_that_is_no_puzzle(
    here: Path, capsys: pytest.CaptureFixture[str], make: Make, message: str
) -> None:
    make(here / "bad")
    refused(["solve", "bad", "--grid", "2x3", "--system", "fake"], capsys, here, message)


@pytest.mark.parametrize("ending", ["jpg", "webp", "tif", "bmp"])
def test_a_truncated_file_of_any_format(
    here: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    path = here / f"cut.{ending}"
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    refused(["create", path.name, "out"], capsys, here, f"cut.{ending}: is")


# Arguments


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("create none.png out", "none.png: no such file"),
        ("create puzzle out", "puzzle: is a folder; expected an image file"),
        ("create photo.png out --grid 50x50", "grid: 50x50 with a gap of 0 px does not fit"),
        ("create photo.png out --grid 2x3 --gap 30", "2x3 with a gap of 30 px does not fit"),
        ("create photo.png out --grid 2", "grid: '2'; expected ROWSxCOLUMNS such as 7x10"),
        ("create photo.png out --grid 0x3", "grid: '0x3'"),
        ("create photo.png out --grid -2x3", "grid: '-2x3'"),
        ("create photo.png out --grid 2x9999", "grid: '2x9999'"),
        ("create photo.png out --gap -1", "gap: -1"),
        ("create photo.png out --gap wide", "--gap"),
        ("create photo.png out --piece 0", "must be at least 1"),
        ("create photo.png out --piece 99999", "at most 80,000,000 pixels are cut"),
        ("create photo.png out --piece 8 --gap 4 --erode side", "leaves nothing"),
        ("create photo.png out --erode acid", "erode: 'acid'; use between or side"),
        ("create photo.png out --fit squeeze", "fit: 'squeeze'"),
        ("create photo.png out --jitter -1", "jitter: -1"),
        ("create photo.png out --grid 2x3 --missing 6", "missing: 6 of 6 pieces"),
        ("create photo.png out --grid 2x3 --missing -1", "missing: -1"),
        ("create photo.png out --seed -1", "seed: -1"),
        ("create photo.png puzzle", "puzzle: is not empty; choose another folder or pass --force"),
        ("create puzzle/000.png puzzle --force", "puzzle: holds 000.png itself"),
        ("create photo.png out --jitter 1000", "jitter: 1000"),
        ("create photo.png solved --force", "holds no puzzle.json, so it is not replaced"),
        ("create photo.png photo.png", "photo.png: cannot be written: it is a file, or below one"),
        ("create photo.png photo.png/out", "photo.png/out: cannot be written"),
        ("create photo.png photo.png/a/out", "photo.png/a/out: cannot be written"),
        ("create photo.png /proc/sherd/out", "/proc/sherd/out: cannot be written"),
        ("create photo.png", "Missing argument"),
        ("solve puzzle --system magic", "system: 'magic' is unknown; there are"),
        ("solve puzzle --grid 1x5 --system fake", "grid is 1x5"),
        ("solve puzzle --gap -3 --system fake", "gap: -3"),
        ("solve puzzle --seed -3 --system fake", "seed: -3"),
        ("solve puzzle --time 0 --system fake", "time limit: 0.0 s; must be more than 0"),
        ("solve puzzle --time nan --system fake", "time limit: nan s"),
        ("solve puzzle --pin 000.png --system fake", "pin: '000.png'; expected PIECE=ROW,COLUMN"),
        ("solve puzzle --pin 9=0,0 --system fake", "pin: '9' is none of the pieces"),
        ("solve puzzle --pin 000=2,0 --system fake", "outside the 2x3 grid"),
        ("solve puzzle --forbid 000=2,0", "forbid: cell (2, 0) is outside the 2x3 grid"),
        ("solve puzzle --gap 5000 --system fake", "gap: 5000 px between fragments of"),
        ("solve puzzle --pin 000=-1,0 --system fake", "outside the 2x3 grid"),
        ("solve puzzle --pin 0=a,b --system fake", "pin: '0=a,b'"),
        ("solve puzzle --pin 000=0,0 --pin 001=0,0 --system fake", "pinned to one cell"),
        ("solve puzzle --pin 000=0,0 --pin 000.png=0,1 --system fake", "is pinned twice"),
        ("solve puzzle --system fake --out puzzle", "puzzle: is not empty"),
        ("solve puzzle --system fake --out puzzle --force", "holds no result.json"),
        ("solve puzzle --system fake --out photo.png/x", "photo.png/x: cannot be written"),
        ("solve photo.png --system fake", "photo.png: is a file; expected a folder"),
        ("solve puzzle --sytsem fake", "--sytsem"),
        ("solve", "Missing argument"),
        ("eval puzzle none.json", "none.json: cannot be read"),
        ("eval puzzle puzzle", "puzzle: cannot be read"),
        ("eval puzzle photo.png", "photo.png: is no valid JSON"),
        ("eval none solved/result.json", "none: no such folder"),
        ("demo --out puzzle --system fake", "puzzle: is not empty and holds no sheet.png"),
        ("demo --out solved --system fake", "solved: is not empty and holds no sheet.png"),
        ("demo --system magic", "system: 'magic' is unknown"),
        ("assemble", "No such command 'assemble'"),
    ],
)
def test_bad_arguments(
    here: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    refused(line.split(), capsys, here, message)


def test_a_grid_too_small_for_the_pieces(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "puzzle" / "puzzle.json").unlink()
    for grid, message in (
        (["--grid", "1x5"], "grid: 1x5 has 5 free cells for 6 pieces"),
        ([], "the grid of these 6 pieces is unknown; give it"),
    ):
        refused(["solve", "puzzle", "--system", "fake", *grid], capsys, here, message)


# Files of ours that somebody edited


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("truth", [[0, 1, 2], [3, 4, 4]], "truth: piece 4 lies in 2 cells"),
        ("truth", [[0, 1, 2], [3, 4, 6]], "truth: holds piece 6"),
        ("truth", [[0, 1], [2, 3], [4, 5]], "truth: is 3x2, the grid is 2x3"),
        ("truth", 7, "truth: expected a list of rows"),
        ("pins", {"000.png": [5, 5]}, "outside the 2x3 grid"),
        ("gap", -1, "gap: -1 is negative"),
        ("pieces", ["000.png", "gone.png"], "gone.png: no such file"),
        ("blocked", [[0, 0]], "5 free cells for 6 pieces"),
    ],
)
def test_a_malformed_puzzle_json(
    here: Path, capsys: pytest.CaptureFixture[str], entry: str, value: object, message: str
) -> None:
    edit(here / "puzzle" / "puzzle.json", **{entry: value})
    refused(["solve", "puzzle", "--system", "fake"], capsys, here, message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 9}, "format is 9; this version reads 1"),
        ({"board": None}, "board: expected a list of rows"),
        ({"board": [[0, 1, 2], [3, 4]]}, "board: its rows differ in length"),
        ({"board": [[0, 1, 2], [3, 4, 0]]}, "board: piece 0 lies in 2 cells"),
        ({"board": [[0, 1, 2], [3, 4, 10**9]]}, "board: holds piece 1000000000"),
        ({"board": [[0, 1, 2], [3, 4, 10**30]]}, "board: expected a list of rows"),
        ({"board": [[0, 1, 2]]}, "they must agree"),
        ({"pieces": "all"}, "pieces: expected a list of file names"),
        ({"pieces": ["x.png"] * 6}, "piece 'x.png' is none of the puzzle's"),
        ({"pieces": ["000.png"] * 6}, "a name is listed twice"),
    ],
)
def test_a_malformed_result_json(
    here: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], message: str
) -> None:
    edit(here / "solved" / "result.json", **changes)
    refused(["eval", "puzzle", "solved/result.json"], capsys, here, message)


def test_eval_needs_the_truth(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(here / "puzzle" / "puzzle.json", truth=None)
    refused(["eval", "puzzle", "solved/result.json"], capsys, here, "no truth to score against")


# What only the operating system knows; as root no permission stops us, so it is told to say no


def denied(*_: object, **__: object) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_an_unreadable_folder(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "puzzle" / "puzzle.json").unlink()
    monkeypatch.setattr(images.os, "scandir", denied)
    message = "puzzle: cannot be read: Permission denied"
    before = sorted(os.listdir(here))
    with pytest.raises(SystemExit) as end:
        run(["solve", "puzzle", "--grid", "2x3", "--system", "fake"])
    monkeypatch.undo()
    assert end.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"error: {message}"
    assert sorted(os.listdir(here)) == before


def test_an_unreadable_file(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def mostly(self: Path, *arguments: object, **options: object) -> object:
        if self == Path("puzzle/003.png"):
            denied()
        return opened(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", mostly)
    message = "puzzle/003.png: cannot be read: Permission denied"
    refused(["solve", "puzzle", "--system", "fake"], capsys, here, message)


def test_an_unwritable_folder(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", denied)
    refused(["create", "photo.png", "out"], capsys, here, "out: cannot be written: Permission")
    refused(["solve", "puzzle", "--system", "fake"], capsys, here, "cannot be written: Permission")


def test_a_disk_that_fills_up(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Image.Image, "save", full)
    refused(["create", "photo.png", "out", "--grid", "2x3"], capsys, here, "No space left")
    refused(["solve", "puzzle", "--system", "fake", "--out", "s"], capsys, here, "No space left")
