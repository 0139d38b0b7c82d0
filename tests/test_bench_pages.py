"""The paper's tables as summaries, pages and figures."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from sherd import SherdError
from sherd.bench import plan
from sherd.bench.plan import TABLES, Place, PlannedCell
from sherd.bench.report import RENDER, Sheet
from sherd.bench.summary import read_summaries, save_summaries, summarise

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "GRIDS", ((7, 10),))
    monkeypatch.setattr(plan, "LARGE", (("bgu_large", (2, 3)),))


def records(right: list[float], *, seeds: int = 3) -> list[dict[str, Any]]:
    """One puzzle per seed and share."""
    names = ("perfect", "perfect_star", "absolute", "horizontal", "vertical", "neighbor")
    return [
        {**dict.fromkeys(names, share), "seed": seed, "limited": None, "seconds": 2.0,
         "version": "1", "commit": "abc", "cpu": "X", "cores": 2, "jobs": 2}
        for seed in range(seeds) for share in (right[seed], 0.0)
    ]  # fmt: skip


def test_the_spread_is_that_of_the_seeds() -> None:
    place = TABLES["jpleg5"].places("art5")[0]
    cell = summarise(PlannedCell("jpleg5", place, "greedy", None), records([1.0, 0.8, 0.6]))
    assert cell["absolute"] == {"mean": 40.0, "std": 10.0}  # 50, 40, 30
    assert (cell["n"], cell["seeds"], cell["seconds"]["mean"]) == (2, [0, 1, 2], 2.0)
    assert cell["machines"] == ["X, 2 cores, 2 at a time"]
    one = summarise(PlannedCell("jpleg5", place, "greedy", None), records([1.0], seeds=1))
    assert one["absolute"] == {"mean": 50.0, "std": None}


def everything(folder: Path) -> None:
    """Made-up summaries of all cells; later systems are better."""
    for name, table in TABLES.items():
        made = []
        for place in table.places("art5"):
            for k, system in enumerate(table.systems):
                why = table.cannot(system, place)
                share = [0.1 * k, 0.1 * k + 0.02, 0.1 * k + 0.04]
                found = records(share, seeds=1 if name == "large" else 3)
                made.append(summarise(PlannedCell(name, place, system, why), found))
        save_summaries(folder, name, made)


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["x", *map(str, words)])
    return int(module.main())


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A copy of what is written into, and results of all cells."""
    everything(tmp_path / "paper")
    (tmp_path / "docs" / "img").mkdir(parents=True)
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def test_pages_are_made_of_the_results(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    render = script("render_results")
    words = ("--results", site / "paper", "--into", site)
    assert call(render, monkeypatch, *words) == 0
    page, readme = (site / "docs" / "results.md").read_text(), (site / "README.md").read_text()
    assert "{" not in page
    assert "art5 is not JPLEG-5" in page
    assert "**46.0** ± 1.0" in page  # sherd's, the best of its column
    assert "**18.6**" in page  # the paper's best
    assert "MPPN + EvoRL (`erl-mpp`)" in page
    assert "n/a¹" in page
    assert "1.7 / 42.9 / 68.4" in page
    assert "commits `abc`; seeds 0, 1, 2; X, 2 cores" in page
    assert "(three shuffles: art, photos in 70 pieces, the ablation; one shuffle: 6 pieces" in page
    assert "| 2 photos, 7x10, 2 px off each side | 46.0 / 46.0 / 46.0 |" in readme
    assert "50.0 / 90.8 / 89.2" in readme
    assert call(render, monkeypatch, *words, "--check") == 0
    (site / "README.md").write_text(readme.replace("46.0 / 46.0 / 46.0", "99.0 / 99.0 / 99.0"))
    assert call(render, monkeypatch, *words, "--check") == 1


def test_the_page_says_who_is_behind(site: Path) -> None:
    book = script("render_results").Book
    assert "in 31 of the 31 figures that the tables compare" in book(site / "paper").first_says()
    file = site / "paper" / "large.jsonl"
    lines = read_summaries(file)
    lost = next(s for s in lines if (s["system"], s["gap"]) == ("sherd", 1))
    lost["perfect"]["mean"] = 9.0
    file.write_text("".join(json.dumps(s) + "\n" for s in lines))
    changed = book(site / "paper")
    ahead = "in 30 of the 31 figures that the tables compare systems by; not in Perfect at 6 pieces"
    assert ahead in changed.first_says()
    assert "1 px (9.0; `evolve` 10.0)." in changed.first_says()
    lost["perfect"]["std"] = 0.55
    file.write_text("".join(json.dumps(s) + "\n" for s in lines))
    assert "1 px (9.0 ± 0.6; `evolve` 10.0)." in book(site / "paper").first_says()
    assert (
        "neighbours: `greedy` -67.4 (7x10, 2 px), -40.4 (7x10, 4 px); `tabu`" in changed.shortfall()
    )


def test_a_missing_cell_fails_the_pages(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = site / "paper" / "mit.jsonl"
    lines = read_summaries(file)
    lost = next(s for s in lines if (s["system"], s["gap"], s["erode"]) == ("ga", 4, "side"))
    file.write_text("".join(json.dumps(s) + "\n" for s in lines if s is not lost))
    before = (site / "README.md").read_text()
    words = ("--results", site / "paper", "--into", site)
    assert call(script("render_results"), monkeypatch, *words) == 1
    error = capsys.readouterr().err
    assert "table mit: ga on mit20+mcgill20+bgu20 7x10, 4 px off each side: has no result" in error
    assert (site / "README.md").read_text() == before
    assert not (site / "docs" / "results.md").exists()


def test_systems_of_a_place_must_have_seen_the_same_puzzles() -> None:
    (place,) = TABLES["ablation"].places("art5")
    made = [
        summarise(PlannedCell("ablation", place, s, None), records([1.0] * 3, seeds=3 - k // 3))
        for k, s in enumerate(TABLES["ablation"].systems)
    ]
    with pytest.raises(SherdError, match="erl-mpp on art5 5x5, 12 px: 2 puzzles with seeds"):
        Sheet(TABLES["ablation"], "art5", made)


def test_the_ablation_has_the_papers_order_and_figures(site: Path) -> None:
    sheet = Sheet(TABLES["ablation"], "art5", read_summaries(site / "paper" / "ablation.jsonl"))
    rows = [[c.strip() for c in r.split("|")[1:-1]] for r in RENDER["ablation"](sheet).splitlines()]
    assert [row[0].split(" (")[0] for row in rows[2:]] == [
        "SDN + DQN", "MPPN + DQN", "SDN + EvoRL", "MPPN + EvoRL"
    ]  # fmt: skip
    assert [row[-4] for row in rows[2:]] == ["5.1", "9.8", "13.5", "**18.6**"]


def test_published_figures_stand_beside_large_puzzles() -> None:
    place = Place("mit", ("mit20",), None, (18, 24), 0, "between", 28)
    table = plan.Table("large", lambda art: [place], ("greedy",))
    cell = summarise(PlannedCell("large", place, "greedy", None), records([1.0] * 3))
    text = RENDER["large"](Sheet(table, "art5", [cell]))
    assert "| 432, LP (published) | **70.0** / **95.8** / **95.6** " in text


def test_figures_are_drawn(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into = site / "docs" / "img"
    draw = script("make_figures")
    monkeypatch.setattr(draw, "PHOTOS", ("coffee",))
    monkeypatch.setattr(draw.boards, "__defaults__", (("coffee",),))
    words = ("--results", site / "paper", "--into", into, "--systems", "greedy,deepzzle")
    assert call(draw, monkeypatch, *words) == 0
    sizes = {p.name: Image.open(p).size for p in into.iterdir()}
    assert set(sizes) == {"accuracy-gap.png", "accuracy-pieces.png", "limits.png", "boards.png"}
    assert all(w > 600 for w, _ in sizes.values())
