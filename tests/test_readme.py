"""What the README and the docs say can be done, can be done."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage import data

import sherd
from sherd.cli.main import run
from sherd.data.folder import read_puzzle
from sherd.solvers import SYSTEMS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_snippet_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (snippet,) = blocks(README, "python")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(snippet, "README.md", "exec"), names)
    assert (tmp_path / "sheet.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert "Scores(perfect=" in printed
    result = names["result"]
    assert sorted(result.board.ravel().tolist()) == list(range(70))


def test_the_tour_of_commands_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tour = next(b for b in blocks(README, "sh") if "sherd create" in b)
    lines = [shlex.split(line, comments=True) for line in tour.splitlines()]
    commands = [words for words in lines if words]
    assert {words[1] for words in commands} == {"create", "solve", "eval", "systems", "bench"}
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    Image.fromarray(data.coffee()).save("photo.jpg")
    Image.fromarray(data.astronaut()).save("photos/a.png")
    for program, *arguments in commands:
        assert program == "sherd"
        with pytest.raises(SystemExit) as ended:
            run(arguments)
        assert ended.value.code == 0, arguments
    assert {p.name for p in Path("solved").iterdir()} == {
        "assembled.png",
        "layout.csv",
        "reassembly.gif",
        "result.json",
    }


def test_the_example_of_puzzle_json_is_read(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "formats.md").read_text("utf-8")
    (example,) = blocks(text, "json")
    for name in json.loads(example)["pieces"]:
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / name)
    (tmp_path / "puzzle.json").write_text(example, "utf-8")
    puzzle = read_puzzle(tmp_path)
    assert (puzzle.n, puzzle.grid, puzzle.gap) == (3, (2, 2), 4)
    assert puzzle.pins == {2: (0, 0)}
    assert puzzle.blocked == {(1, 0)}
    assert (sherd.solve(puzzle, system="evolve").board == puzzle.truth).all()  # as the page says


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        where = (page.parent / path).resolve() if path else page
        assert where.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.*)$", where.read_text("utf-8"), re.MULTILINE)
            assert heading in {t.lower().replace(" ", "-") for t in titles}, target


def test_every_system_has_its_section() -> None:
    text = (ROOT / "docs" / "systems.md").read_text("utf-8")
    sections = {t.split()[0] for t in re.findall(r"^## (.*)$", text, re.MULTILINE)}
    assert set(SYSTEMS) <= sections


def test_the_picture_is_small_enough_to_ship() -> None:
    assert (ROOT / "docs" / "img" / "demo.png").stat().st_size < 300 * 1024
