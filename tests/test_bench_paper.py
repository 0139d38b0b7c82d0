"""The paper's tables in one command: plans, and runs that go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from skimage import data
from skimage.transform import resize

from sherd import SherdError
from sherd.bench import paper_run, plan, version
from sherd.bench.pace import Pace, clock
from sherd.bench.plan import Request
from sherd.bench.records import KEY, Log
from sherd.bench.worker import run_task
from sherd.cli.main import run as sherd
from sherd.solvers import registry

ROOT = Path(__file__).resolve().parents[1]
FAKES = {"greedy": "Fake", "ga": "Blind", "deepzzle": "Small", "sd2rl": "Weighty"}


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Fake systems under real names, one grid of photos; the file in which solves are noted."""
    for name, cls in FAKES.items():
        monkeypatch.setitem(registry.SYSTEMS, name, f"fake_system:{cls}")
    monkeypatch.setattr(plan, "GRIDS", ((7, 10),))
    monkeypatch.setattr(plan, "LARGE", (("bgu_large", (2, 3)),))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "solves.txt"))
    version.system_version.cache_clear()
    yield tmp_path / "solves.txt"
    version.system_version.cache_clear()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with photographs that come with scikit-image."""
    root = tmp_path_factory.mktemp("data")
    photos = [data.astronaut(), data.coffee(), data.cat()]
    for k, name in enumerate(("mit20", "mcgill20", "bgu20")):
        _save(root / "testsets" / name / "01.png", photos[k], (200, 300))
    for k in range(2):
        _save(root / "testsets" / "bgu_large" / f"{k}.png", photos[k], (56, 84))
        for kind in ("paintings", "engravings", "artifacts"):
            _save(root / "art5" / "test" / kind / f"{k}.png", photos[k], (534, 534))
    return root


def _save(path: Path, image: np.ndarray, size: tuple[int, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(resize(image, size, preserve_range=True).astype(np.uint8)).save(path)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puzzles are solved in this process."""
    monkeypatch.setattr("sherd.bench.run._each", lambda todo, jobs: (run_task(t) for t in todo))


def command(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        sherd(["bench", "paper", *map(str, words)])
    return int(end.value.code or 0)


def solves(log: Path, n: int) -> int:
    """Solves of puzzles of n pieces."""
    return sum(line.startswith(f"{n} ") for line in log.read_text().splitlines())


def test_one_command(
    pictures: Path, tmp_path: Path, fake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, log = tmp_path / "results", tmp_path / "log.jsonl"
    words = ("--tables", "jpleg5,mit", "--systems", "greedy,deepzzle", "--seeds", "0,1",
             "--limit", 1, "--data", pictures, "--log", log, "--save", out)  # fmt: skip
    assert command(*words, "--jobs", 2) == 0
    text = capsys.readouterr().out
    lines = log.read_text().splitlines()
    assert len(lines) == 2 * 2 * 3 + 2 * 4  # systems × seeds × kinds, and one photo × 4 readings
    record = json.loads(lines[0])
    assert {"commit", "cpu", "cores", "jobs", "wall"} <= set(record)
    assert sorted(p.name for p in out.iterdir()) == ["jpleg5.jsonl", "mit.jsonl"]
    rows = [[c.strip() for c in row.split("|")[1:-1]] for row in text.splitlines() if "|" in row]
    art, *photos = (row for row in rows if row[0] == "`deepzzle`")
    assert art[-4:] == ["0.0", "21.9", "10.9", "10.7"]  # the paper's
    assert photos == [["`deepzzle`", "n/a¹", "n/a¹", "–", "n/a¹"]] * 2
    assert text.count("¹ `deepzzle`: 7x10 is too many.") == 2
    greedy = [row for row in rows if row[0] == "`greedy`"]
    assert [row[3].replace("*", "") for row in greedy[1:]] == [
        "1.7 / 42.9 / 68.4",
        "0.0 / 12.1 / 41.4",
    ]
    assert "3 puzzles × 2 seeds" in text
    done = fake.read_text()
    assert command(*words, "--json") == 0  # nothing left to do
    cells = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(cells) == 2 + 2 * 4
    assert sum(c["cannot"] is not None for c in cells) == 4
    assert fake.read_text() == done


def work_of(pictures: Path, log: Path, **changes: Any) -> paper_run.Work:
    asked = {"tables": ("jpleg5",), "systems": ("greedy",), "seeds": (0, 1), "limit": 1, **changes}
    return paper_run.prepare(plan.plan(Request(**asked), pictures), Log(log))


@pytest.mark.usefixtures("here")
def test_a_run_goes_on_after_an_interruption(pictures: Path, tmp_path: Path, fake: Path) -> None:
    log = tmp_path / "log.jsonl"

    def interrupt(progress: paper_run.Progress) -> None:
        if progress.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        paper_run.run(work_of(pictures, log), jobs=1, show=interrupt)
    assert len(Log(log).read()) == 4
    seen: list[paper_run.Progress] = []
    made = paper_run.run(work_of(pictures, log), jobs=1, show=seen.append)
    assert [p.done for p in seen] == [4, 5, 6]
    assert seen[0].remaining.unknown == 0  # known from the log
    assert solves(fake, 25) == 6
    (cell,) = made["jpleg5"]
    assert (cell["n"], cell["seeds"]) == (3, [0, 1])
    with pytest.raises(paper_run.TimeIsUp, match="6 of 12 puzzles are left"):
        paper_run.run(work_of(pictures, log, tables=("jpleg5", "large")), jobs=1, minutes=-1)


def test_some_cells_by_name(pictures: Path) -> None:
    asked = Request(systems=("greedy",), cells=("*7x10, 2 px", "bgu_large 2x3, 1*"))
    cells = plan.plan(asked, pictures)
    assert [(c.table, c.place.label()) for c in cells] == [
        ("mit", "mit20+mcgill20+bgu20 7x10, 2 px"),
        ("large", "bgu_large 2x3, 1 px"),
    ]


@pytest.mark.usefixtures("here")
def test_lines_of_another_version_are_reused_only_if_told(
    pictures: Path, tmp_path: Path, fake: Path
) -> None:
    log = Log(tmp_path / "log.jsonl")
    paper_run.run(work_of(pictures, log.path), jobs=1)
    log.replace({**r, "version": "older", "commit": "abc"} for r in log.read())
    work = work_of(pictures, log.path)
    assert len(work.left) == 6
    kept = paper_run.prepare(work.cells, log, keep=True)
    assert kept.left == []
    (cell,) = paper_run.run(kept, jobs=1, keep=True)["jpleg5"]
    assert (cell["commits"], cell["versions"]) == (["abc"], ["older"])
    paper_run.run(work, jobs=1)
    assert solves(fake, 25) == 12


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--systems", "greedy,sd2rl"), "sd2rl: the weights are missing (untrained.json); train"),
        (("--tables", "chess"), "tables: 'chess' is unknown"),
        (("--systems", "magic"), "system: 'magic' is unknown"),
        (("--seeds", "0,x"), "seeds: '0,x'"),
        (("--seeds", "0,-1"), "seeds: (0, -1)"),
        (("--systems", "greedy", "--tables", "ablation"), "none of them is in these tables"),
        (
            ("--systems", "greedy", "--cells", "*9x9*"),
            "cells: none matches '*9x9*'; there are",
        ),
        (("--art", "jpleg5", "--systems", "greedy"), "test_img_12gap_55.npy: no such file"),
        (("--limit", 0), "limit: 0"),
        (("--systems", "greedy", "--jobs", 0), "jobs: 0; must be at least 1"),
        (("--minutes", -1), "minutes: -1; must not be negative"),
        (("--save", __file__), "test_bench_paper.py: is a file; expected a folder"),
        (("--systems", "greedy", "--jobs", 0, "--dry-run"), "jobs: 0; must be at least 1"),
    ],
)
def test_bad_requests_are_one_line(
    pictures: Path,
    tmp_path: Path,
    fake: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[object, ...],
    message: str,
) -> None:
    assert command(*words, "--data", pictures, "--log", tmp_path / "log") == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err
    assert not fake.exists()


def test_the_plan_of_a_quick_run(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "QUICK", 2)
    cells = plan.plan(Request(systems=("greedy", "ga"), quick=True, seeds=(3, 4)), pictures)
    assert {c.table for c in cells} == {"jpleg5", "kinds", "mit"}
    assert {t.seed for c in cells for t in c.tasks} == {3}
    assert {len(c.tasks) for c in cells if c.table != "jpleg5"} == {2}
    large = Request(tables=("large",), systems=("greedy",), quick=True)  # asked for by name
    cells = plan.plan(large, pictures)
    assert {(c.table, c.place.n) for c in cells} == {("large", 6)}
    assert {len(c.tasks) for c in cells} == {2}
    monkeypatch.setattr(plan, "QUICK_MANY", 5)
    with pytest.raises(SherdError, match="none of them"):
        plan.plan(large, pictures)
    whole, *_ = plan.plan(Request(systems=("greedy",)), pictures)
    assert len(whole.tasks) == 3 * 2 * 3


def test_many_pieces_are_shuffled_once(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """… unless there are so few puzzles that single boards decide."""
    monkeypatch.setattr(plan, "MANY", 60)
    asked = Request(systems=("greedy",), seeds=(3, 4))
    every = {t.seed for c in plan.plan(asked, pictures) for t in c.tasks if c.place.n > 60}
    assert every == {3, 4}
    monkeypatch.setattr(plan, "FEW", 1)
    cells = plan.plan(asked, pictures)
    shuffles = {c.place.n: {t.seed for t in c.tasks} for c in cells if c.tasks}
    assert {n: seeds for n, seeds in shuffles.items() if n < 60} == {25: {3, 4}, 6: {3, 4}}
    assert {n: seeds for n, seeds in shuffles.items() if n > 60} == {70: {3}}


def test_the_command_without_typer(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    words = ["--systems", "greedy", "--tables", "large", "--data", str(pictures), "--log", str(log)]
    assert paper_run.main([*words, "--dry-run"]) == 0
    assert "18 puzzles  0 s and 18 puzzles not timed yet" in capsys.readouterr().out
    base = dict.fromkeys(KEY)
    log.write_text(json.dumps({**base, "system": "greedy", "grid": "2x3", "pieces": 28,
                               "seconds": 1.0, "wall": 10.0}) + "\n")  # fmt: skip
    assert paper_run.main([*words, "--dry-run", "--jobs", "2"]) == 0
    assert "18 puzzles  1 min 30 s, 2 at a time" in capsys.readouterr().out
    assert paper_run.main([*words, "--seeds", "none"]) == 2


def test_asking_how_long_a_fresh_run_takes_forgets_nothing(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    words = ["--systems", "greedy", "--tables", "large", "--seeds", "0", "--limit", "1",
             "--data", str(pictures), "--log", str(log), "--jobs", "1"]  # fmt: skip
    assert paper_run.main(words) == 0
    capsys.readouterr()
    with log.open("ab") as f:
        f.write(b'{"protocol": "m')  # killed while writing; or another run is writing just now
    before = log.read_bytes()
    assert paper_run.main([*words, "--fresh", "--dry-run"]) == 0
    whole = capsys.readouterr().out
    assert "not timed yet" not in whole
    assert log.read_bytes() == before
    assert paper_run.main([*words, "--fresh", "--minutes", "0"]) == paper_run.NOT_FINISHED
    assert "give the same command without --fresh" in capsys.readouterr().err
    assert log.read_bytes() != before


def record(system: str, grid: str, wall: float) -> dict[str, Any]:
    return {"system": system, "grid": grid, "pieces": 28, "seconds": 0.1, "wall": wall}


def test_remaining_time_is_that_of_systems_and_sizes_not_of_counts() -> None:
    pace = Pace([record("ga", "10x10", 4.0), record("ga", "10x10", 6.0)])
    assert pace.estimate(("ga", 100, 28)) == 5.0
    assert pace.estimate(("ga", 400, 28)) == pytest.approx(40.0)  # 4 times the pieces, to the 1.5
    assert pace.estimate(("tabu", 100, 28)) is None
    left = pace.remaining({("ga", 100, 28): 4, ("tabu", 100, 28): 3}, 2)
    assert (left.seconds, left.unknown) == (10.0, 3)
    assert str(left) == "10 s and 3 puzzles not timed yet"
    assert pace.remaining({("ga", 400, 28): 1}, 8).seconds == pytest.approx(40.0)
    assert [clock(x) for x in (8, 200, 7500)] == ["8 s", "3 min 20 s", "2 h 05 min"]


def test_the_longest_puzzles_start_first(pictures: Path) -> None:
    asked = Request(("jpleg5", "large"), systems=("greedy", "ga"), seeds=(0,))
    tasks = [t for c in plan.plan(asked, pictures) for t in c.tasks]
    pace = Pace([{**record("greedy", "5x5", 1.0), "pieces": 96}, record("greedy", "2x3", 9.0),
                 record("ga", "2x3", 5.0)])  # fmt: skip
    order = [(t.system, t.item.piece) for t in pace.ordered(tasks)]
    assert list(dict.fromkeys(order)) == [("ga", 96), ("greedy", 28), ("ga", 28), ("greedy", 96)]
    assert [(t.system, t.item.piece) for t in pace.probes(tasks)] == [("ga", 96)]
