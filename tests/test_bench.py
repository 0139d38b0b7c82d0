"""Benchmarks: logs, cells, tables, and runs that go on where they stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from fake_system import SYSTEMS, ramp
from sherd import SherdError
from sherd.bench import paper
from sherd.bench.cells import cells
from sherd.bench.protocols import protocol_items
from sherd.bench.records import KEY, Log, key_of
from sherd.bench.run import make_tasks, run_tasks
from sherd.bench.table import tables
from sherd.bench.version import system_version
from sherd.bench.worker import run_task
from sherd.cli.main import run
from sherd.data.sets import Cutting, Selection
from sherd.solvers import registry

CELL_KEYS = [
    "protocol", "sets", "kind", "grid", "gap", "erode", "pieces", "system", "n", "perfect",
    "perfect_star", "absolute", "horizontal", "vertical", "neighbor", "perception_limited",
    "search_limited", "seconds_per_puzzle",
]  # fmt: skip


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The fake systems, and the file in which they note each solve."""
    for name, place in SYSTEMS.items():
        monkeypatch.setitem(registry.SYSTEMS, name, place)
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "solves.txt"))
    return tmp_path / "solves.txt"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three pictures of 2x3 cells; the fake solves two of them."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for k, wrong in enumerate((False, True, False)):
        Image.fromarray(ramp((2, 3), 16, wrong=wrong)).save(folder / f"{k}.png")
    return folder


def solves(log: Path) -> int:
    """Solves so far, without those of the tiny puzzle that warms a process up."""
    return sum(line.startswith("6 ") for line in log.read_text().splitlines())


def bench(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        run([str(a) for a in ("bench", *arguments)])
    return int(end.value.code or 0)


def test_cells_as_json_and_nothing_else(
    photos: Path, tmp_path: Path, fake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "log.jsonl"
    arguments = ("folder", photos, "--pieces", 16, "--systems", "fake,blind", "--out", out)
    assert bench(*arguments, "--jobs", 2, "--json") == 0
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines()]
    assert printed.err == ""
    assert [list(line) for line in lines] == [CELL_KEYS] * 2
    seeing, blind = lines
    assert (seeing["system"], blind["system"]) == ("fake", "blind")
    assert (seeing["grid"], seeing["gap"], seeing["pieces"]) == ("2x3", 0, 16)
    assert (seeing["n"], seeing["kind"], seeing["erode"]) == (3, None, "between")
    assert seeing["perfect"] == pytest.approx(200 / 3)
    assert seeing["absolute"] == pytest.approx(100 * (1 + 4 / 6 + 1) / 3)
    assert seeing["perception_limited"] == pytest.approx(100 / 3)  # all boards score alike
    assert seeing["search_limited"] == 0
    assert blind["perception_limited"] is None
    assert seeing["seconds_per_puzzle"] > 0
    lines = fake.read_text().splitlines()
    assert all("['1', '1']" in line for line in lines)  # one thread each
    assert all(line.endswith("True") for line in lines)  # nobody saw the truth


def test_a_run_goes_on_where_it_stopped(
    photos: Path, tmp_path: Path, fake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "log.jsonl"
    arguments = ("folder", photos, "--pieces", 16, "--systems", "fake", "--jobs", 1, "--out", out)
    assert bench(*arguments) == 0
    table = capsys.readouterr().out
    assert solves(fake) == 3
    whole = out.read_bytes()
    assert bench(*arguments) == 0  # nothing left to do
    assert capsys.readouterr().out == table
    assert solves(fake) == 3
    first, second, _ = whole.splitlines(keepends=True)
    out.write_bytes(first + second[:40])  # killed while writing the second line
    assert bench(*arguments) == 0
    again = capsys.readouterr().out
    assert solves(fake) == 5
    assert len(out.read_bytes().splitlines()) == 3
    assert [row.split("│")[:10] for row in again.splitlines()] == [
        row.split("│")[:10] for row in table.splitlines()
    ]  # all but the seconds
    assert bench(*arguments, "--seed", 1) == 0  # another seed is another puzzle
    assert solves(fake) == 8
    assert bench(*arguments, "--fresh") == 0
    assert solves(fake) == 11
    assert len(out.read_bytes().splitlines()) == 6


def items(photos: Path) -> list:
    cutting = Cutting(gaps=(0,), pieces=16)
    return protocol_items("folder", Selection(cutting=cutting), source=photos)


def test_an_error_in_a_worker_names_the_puzzle_and_keeps_the_rest(
    photos: Path, tmp_path: Path
) -> None:
    tasks = make_tasks(items(photos), ["fake"], seed=0)
    (photos / "2.png").write_bytes(b"no picture")
    log = Log(tmp_path / "log.jsonl")
    with pytest.raises(SherdError, match=r"2\.png: is not an image"):
        run_tasks(tasks, log, jobs=1)
    assert len(log.read()) == 2


def test_pieces_are_shuffled_by_the_seed(photos: Path) -> None:
    item = items(photos)[0]
    orders = [item.rng(seed, 1).permutation(6).tolist() for seed in (0, 0, 1)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[0] != list(range(6))


def test_ties_do_not_leak_the_answer(tmp_path: Path) -> None:
    (tmp_path / "flat").mkdir()
    Image.new("RGB", (48, 32), (90, 90, 90)).save(tmp_path / "flat" / "a.png")
    (task,) = make_tasks(items(tmp_path / "flat"), ["fake"], seed=0)
    record = run_task(task)  # identical pieces: a system that keeps their order must be wrong
    assert (record["perfect"], record["perfect_star"]) == (0.0, 1.0)
    assert record["absolute"] < 1.0


def test_a_record_holds_its_key_and_the_solvers_own_seconds(photos: Path) -> None:
    (task,) = make_tasks(items(photos)[:1], ["fake"], seed=5)
    record = run_task(task)
    assert list(record)[: len(KEY)] == list(KEY)
    assert record["id"] == "0.png"
    assert record["seed"] == 5
    assert record["version"] == system_version("fake")
    assert record["seconds"] == record["timings"]["total"]
    assert record["perfect"] == 1.0
    assert record["limited"] is None


def test_the_centre_can_be_given(tmp_path: Path) -> None:
    for kind in ("paintings", "engravings", "artifacts"):
        folder = tmp_path / "art5" / "val" / kind
        folder.mkdir(parents=True)
        noise = np.random.default_rng(1).integers(0, 256, (534, 534, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / "1.png")
    art = protocol_items("art5", Selection(split="val"), data=tmp_path)
    given = [run_task(t) for t in make_tasks(art, ["fake"], seed=0, fixed_centre=True)]
    open_ = [run_task(t) for t in make_tasks(art, ["fake"], seed=0)]
    made = cells([*given, *open_])
    assert {key_of(r) for r in given}.isdisjoint(key_of(r) for r in open_)
    assert [c.kind for c in made] == [None, "paintings", "engravings", "artifacts"]
    shares = {24 * r["absolute"] for r in given}  # over 24 cells, not 25
    assert all(abs(s - round(s)) < 1e-9 for s in shares)


def record(**changes: object) -> dict[str, object]:
    base = {
        "protocol": "mit", "set": "mit20", "kind": None, "id": "1", "grid": "7x10", "gap": 2,
        "erode": "between", "pieces": 64, "fixed_centre": False, "system": "ga", "seed": 0,
        "version": "1", "perfect": 1.0, "perfect_star": 1.0, "absolute": 1.0, "horizontal": 1.0,
        "vertical": 1.0, "neighbor": 1.0, "limited": None, "seconds": 2.0,
    }  # fmt: skip
    return {**base, **changes}


def test_cells_group_by_grid_gap_kind_and_system() -> None:
    made = cells(
        [
            record(),
            record(set="bgu20", perfect=0.0, absolute=0.5, limited="search", seconds=4.0),
            record(gap=4, limited="perception", perfect=0.0),
            record(system="greedy"),
        ]
    )
    assert [(c.gap, c.system, c.n) for c in made] == [(2, "ga", 2), (2, "greedy", 1), (4, "ga", 1)]
    assert made[0].sets == ("mit20", "bgu20")
    assert made[0].perfect == 50.0
    assert made[0].absolute == 75.0
    assert (made[0].search_limited, made[0].perception_limited) == (50.0, 0.0)
    assert made[0].seconds_per_puzzle == 3.0
    assert made[2].perception_limited == 100.0


def rendered(*records: dict[str, object]) -> str:
    console = Console(width=100, file=None, record=True, quiet=False)
    with console.capture() as capture:
        for table in tables(cells(list(records))):
            console.print(table)
    return capture.get()


def test_the_papers_figures_stand_under_ours() -> None:
    text = rendered(record(), record(system="evolve"))
    rows = [[c.strip() for c in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    names = [row[0] for row in rows]
    assert names == ["ga", "paper", "evolve", "erl-mpp, paper"]
    assert rows[1][2:8] == ["3.3", "", "50.1", "", "", "72.7"]
    assert rows[3][2:8] == ["50.0", "", "90.8", "", "", "89.2"]
    assert rows[0][2] == "100.0"
    assert "paper" not in rendered(record(pieces=28, grid="18x24", gap=0)).split("Perf.*:")[0]


def test_the_papers_tables() -> None:
    best = [
        paper.figures("mit", None, g, p, 64, "erl-mpp") for g in ("7x10", "10x15") for p in (2, 4)
    ]
    assert [(f.perfect, f.absolute, f.neighbor) for f in best if f] == [
        (50.0, 90.8, 89.2), (13.3, 59.4, 67.3), (8.3, 70.9, 80.4), (0.0, 40.9, 59.7)
    ]  # fmt: skip
    whole = paper.figures("jpleg5", None, "5x5", 12, 96, "pdn-ga")
    assert whole == paper.Figures(6.1, 44.3, 30.8, 30.6)
    kind = paper.figures("art5", "artifacts", "5x5", 12, 96, "erl-mpp")
    assert kind == paper.Figures(28.1, 66.8)
    assert paper.figures("folder", None, "7x10", 2, 64, "ga") is None
    assert paper.figures("mit", None, "7x10", 0, 64, "ga") is None


def test_a_spoilt_log_is_refused_not_repaired(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.append(record())
    log.append(record(id="2"))
    text = log.path.read_text()
    log.path.write_text("not a record\n" + text)
    with pytest.raises(SherdError, match=r"log\.jsonl:1: is no line of a benchmark"):
        log.read()
    assert log.path.read_text().startswith("not a record")
    log.path.write_text(text[:-5])
    assert [r["id"] for r in log.read()] == ["1"]
    assert log.path.read_text() == text[:-5]  # who reads changes nothing
    log.ready()
    assert log.path.read_text() == text.splitlines(keepends=True)[0]


def test_a_log_that_cannot_be_started_over_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.append(record())
    before = log.path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(SherdError, match="cannot be written: No space left"):
            log.replace([])
    assert log.path.read_bytes() == before
    log.replace([record(id="2")])
    assert [r["id"] for r in log.read()] == ["2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("chess",), "protocol: 'chess' is unknown"),
        (("folder",), "needs the folder of images"),
        (("mit", "DIR"), "only the folder protocol takes a folder"),
        (("folder", "DIR", "--grid", "7by10"), "grid: '7by10'"),
        (("folder", "DIR", "--gap", "2,-1"), "gap: -1"),
        (("folder", "DIR", "--gap", "two"), "gap: 'two'"),
        (("folder", "DIR", "--erode", "rust"), "erode: 'rust'"),
        (("folder", "DIR", "--gap", "40", "--erode", "side"), "leaves nothing"),
        (("folder", "DIR", "--pieces", "999"), "not one piece of 999x999 px fits"),
        (("folder", "DIR", "--pieces", "16", "--grid", "2x3"), "give one"),
        (("folder", "DIR", "--split", "val"), "--split: folder does not take it"),
        (("folder", "DIR", "--fixed-centre"), "--fixed-centre: folder does not take it"),
        (("folder", "DIR", "--systems", "magic"), "system: 'magic' is unknown"),
        (("folder", "DIR", "--systems", "fake,"), "systems: 'fake,'"),
        (("folder", "DIR", "--limit", "0"), "limit: 0"),
        (("folder", "DIR", "--systems", "fake", "--jobs", "0"), "jobs: 0"),
        (("folder", "DIR", "--seed", "-1"), "seed: -1"),
        (("folder", "DIR/none"), "none: no such folder"),
        (("folder", "DIR/0.png"), "is a file; expected a folder"),
        (("art5", "--grid", "5x5"), "--grid: art5 does not take it; its geometry is fixed"),
        (("art5", "--split", "exam"), "split: 'exam'"),
        (("folder", "DIR", "--systems", "fake", "--out", "DIR/0.png/log"), "log: cannot be"),
    ],
)
def test_bad_arguments_are_one_line(
    photos: Path,
    fake: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bench(*(a.replace("DIR", str(photos)) for a in arguments), "--json") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err
    assert not fake.exists()
    assert not (tmp_path / "out").exists()


def test_workers_end_when_their_parent_is_killed() -> None:
    script = (
        "import multiprocessing as mp, os, time\n"
        "from sherd.bench.worker import start\n"
        "def work(q):\n"
        "    start({}); q.put(os.getpid()); time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    q = mp.get_context('fork').Queue()\n"
        "    mp.get_context('fork').Process(target=work, args=(q,)).start()\n"
        "    print(q.get(), flush=True); time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    for _ in range(600):
        if not _alive(worker):
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the worker outlived its parent")


def _alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
