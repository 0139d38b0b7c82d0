"""``sherd solve`` for people with scans: knowledge as options, zips, reports, going on."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage import data

from sherd import Geometry, Knowledge, SherdError, cut
from sherd.cli.knowledge import parse_knowledge
from sherd.cli.main import run

NAMES = ("a.png", "b.png", "c 1.png", "c:d.png", "e,f.png", "g.tif", "g.png")


@pytest.mark.parametrize(
    ("options", "known"),
    [
        ({"pin": ["a.png=1,2", "b = 0 , 0"]}, Knowledge(pins={0: (1, 2), 1: (0, 0)})),
        ({"beside": ["a.png:b.png"]}, Knowledge(right=frozenset({(0, 1)}))),
        ({"beside": ["a/c 1"]}, Knowledge(below=frozenset({(0, 2)}))),
        ({"beside": ["c:d.png:a"]}, Knowledge(right=frozenset({(3, 0)}))),
        ({"beside": ["a:c:d"]}, Knowledge(right=frozenset({(0, 3)}))),
        ({"forbid": ["a=3,4"]}, Knowledge(not_in=frozenset({(0, (3, 4))}))),
        ({"forbid": ["a:b", "b/a"]},
         Knowledge(not_right=frozenset({(0, 1)}), not_below=frozenset({(1, 0)}))),
        ({"forbid": ["a,b"]}, Knowledge.apart(0, 1)),
        ({"forbid": ["e,f,b"]}, Knowledge.apart(4, 1)),
        ({"corner": ["a.png"]}, Knowledge(corners=frozenset({0}))),
        ({"corner": ["a=top-left"]}, Knowledge(rims=frozenset({(0, "top"), (0, "left")}))),
        ({"rim": ["b.png=Bottom"]}, Knowledge(rims=frozenset({(1, "bottom")}))),
    ],
)  # fmt: skip
def test_what_can_be_said(options: dict[str, list[str]], known: Knowledge) -> None:
    assert parse_knowledge(NAMES, **options) == known


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pin": ["a"]}, "pin: 'a'; expected PIECE=ROW,COLUMN"),
        ({"pin": ["z=0,0"]}, "pin: 'z' is none of the pieces"),
        ({"pin": ["g=0,0"]}, "could be any of 2 pieces"),
        ({"pin": ["a=0,0", "a.png=1,1"]}, "pinned twice"),
        ({"pin": ["a=0,0", "b=0,0"]}, "'a.png' and 'b.png' are pinned to one cell, "),
        ({"beside": ["a"]}, "beside: 'a'; expected LEFT:RIGHT"),
        ({"beside": ["a:z"]}, "beside: 'z' is none of the pieces"),
        ({"beside": ["a:a"]}, "beside itself"),
        ({"forbid": ["a"]}, "forbid: 'a'; expected"),
        ({"forbid": ["a/z"]}, "forbid: 'z' is none of the pieces"),
        ({"corner": ["a=middle"]}, "top-left"),
        ({"corner": ["z"]}, "corner: 'z' is none"),
        ({"rim": ["a=inside"]}, "rim: 'a=inside'; expected"),
        ({"rim": ["a"]}, "rim: 'a'; expected"),
    ],
)
def test_what_cannot(options: dict[str, list[str]], message: str) -> None:
    with pytest.raises(SherdError, match=message) as caught:
        parse_knowledge(NAMES, **options)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """Twelve scans, one of them larger, and where they belong."""
    folder = tmp_path_factory.mktemp("work") / "scans"
    folder.mkdir()
    whole = cut(data.coffee(), Geometry((3, 4), (48, 48)), fit="crop")
    order = np.random.default_rng(5).permutation(12)
    for k, p in enumerate(order):
        y, x = whole.corners[p]
        size = 50 if k == 4 and y < 96 and x < 144 else 48
        Image.fromarray(whole.image[y : y + size, x : x + size]).save(folder / f"{k}.png")
    return folder, np.argsort(order).reshape(3, 4)


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        run([str(a) for a in arguments])
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


def test_scans_and_nothing_else(
    scans: tuple[Path, np.ndarray], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, truth = scans
    common = ("--gap", 0, "--system", "evolve", "--missing", 1)
    code, out, err = call(capsys, "solve", folder, "--out", tmp_path / "one", "--report", *common)
    assert (code, err) == (0, "")
    assert "12 pieces, 3x4, by evolve" in out
    assert "grid: 3x4, found among" in out
    found = json.loads((tmp_path / "one" / "result.json").read_text())
    assert found["board"] == truth.tolist()
    assert found["grids"][0]["grid"] == [3, 4]
    assert (tmp_path / "one" / "report.html").is_file()
    with zipfile.ZipFile(tmp_path / "scans.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"prints/{path.name}")
    code, out, err = call(capsys, "solve", tmp_path / "scans.zip", "--json", *common)
    assert (code, err) == (0, "")
    assert json.loads(out)["board"] == truth.tolist()
    assert (tmp_path / "scans-solved" / "result.json").is_file()


def test_what_is_known_is_done(
    scans: tuple[Path, np.ndarray], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, truth = scans
    a, b, c = (f"{truth[cell]}.png" for cell in ((0, 0), (2, 2), (1, 1)))
    code, out, err = call(
        capsys, "solve", folder, "--grid", "3x4", "--gap", 0, "--system", "evolve", "--json",
        "--beside", f"{a}:{b}", "--corner", f"{c}=bottom-right", "--forbid", f"{truth[0, 3]}=0,3",
        "--out", tmp_path / "known",
    )  # fmt: skip
    assert (code, err) == (0, "")
    found = json.loads(out)
    names = np.array(found["names"])
    assert names[2, 3] == c
    row, column = np.argwhere(names == a)[0]
    assert names[row, column + 1] == b
    assert names[0, 3] != f"{truth[0, 3]}.png"
    assert found["knowledge"]["right"] == [[a, b]]
    code, out, err = call(
        capsys, "solve", folder, "--gap", 0, "--system", "evolve", "--json", "--out",
        tmp_path / "on", "--start", tmp_path / "known" / "result.json", "--pin", f"{a}=0,0",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert json.loads(out)["names"][0][0] == a
    assert json.loads(out)["grids"] == []  # the board to go on from says the grid


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beside", "0:1", "--beside", "0:2"], "room for one"),
        (["--rim", "0=left", "--rim", "0=right"], "no place is left for 0.png"),
        (["--missing", "-1"], "missing: -1"),
        (["--start", "none.json"], "none.json: cannot be read"),
        (["--corner", "0", "--system", "greedy"], "use sherd or evolve"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    scans: tuple[Path, np.ndarray],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: list[str],
    message: str,
) -> None:
    code, out, err = call(
        capsys, "solve", scans[0], "--grid", "3x4", "--out", tmp_path / "o",
        *(["--system", "evolve"] if "--system" not in options else []), *options,
    )  # fmt: skip
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []
