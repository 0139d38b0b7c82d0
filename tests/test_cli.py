"""The commands, end to end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import sherd
from fake_system import SYSTEMS, ramp
from sherd.cli import demo
from sherd.cli.main import run
from sherd.data.folder import read_puzzle
from sherd.solvers import registry

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, place in SYSTEMS.items():
        monkeypatch.setitem(registry.SYSTEMS, name, place)


@pytest.fixture
def sherd_(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Run:
    """Run a command in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    Image.fromarray(ramp((2, 3), 20)).save(tmp_path / "ramp.png")

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            run([str(a) for a in arguments])
        printed = capsys.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    return call


def test_create_solve_eval(sherd_: Run, tmp_path: Path) -> None:
    assert sherd_("create", "ramp.png", "p", "--grid", "2x3", "--seed", 3)[0] == 0
    puzzle = read_puzzle(tmp_path / "p")
    assert puzzle.piece_size == (20, 20)
    assert puzzle.truth is not None
    assert (puzzle.truth != np.arange(6).reshape(2, 3)).any()  # shuffled
    code, out, err = sherd_("solve", "p", "--system", "fake")
    assert (code, err) == (0, "")
    assert "perfect 100.0" in out
    made = sorted(p.name for p in (tmp_path / "p-solved").iterdir())
    assert made == ["assembled.png", "layout.csv", "result.json"]
    assembled = np.asarray(Image.open(tmp_path / "p-solved" / "assembled.png"))
    assert (assembled == ramp((2, 3), 20)).all()
    code, out, err = sherd_("eval", "p", "p-solved/result.json", "--json")
    assert code == 0
    assert json.loads(out)["perfect"] == 1.0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p", "p-solved", "ramp.png"]


def test_what_result_json_says(sherd_: Run, tmp_path: Path) -> None:
    sherd_("create", "ramp.png", "p", "--grid", "2x3", "--gap", 2, "--missing", 1)
    code, out, _ = sherd_("solve", "p", "--system", "fake", "--seed", 4, "--out", "s", "--json")
    result = json.loads(out)
    assert code == 0
    assert result == json.loads((tmp_path / "s" / "result.json").read_text())
    assert (result["system"], result["seed"], result["version"]) == ("fake", 4, sherd.__version__)
    assert result["gap"] == 2
    assert len(result["pieces"]) == 5
    assert result["unplaced"] == []
    flat = [p for row in result["board"] for p in row]
    assert sorted(flat) == [-1, 0, 1, 2, 3, 4]
    assert [n for row in result["names"] for n in row] == [
        result["pieces"][p] if p >= 0 else None for p in flat
    ]
    assert np.array(result["confidence"]).shape == (2, 3)
    assert set(result["scores"]) == set(sherd.Scores.__dataclass_fields__)
    assert result["timings"]["total"] > 0
    assert result["score"] == 1.0


def test_the_same_seed_makes_the_same_puzzle(sherd_: Run, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        options = ("--grid", "2x3", "--piece", 12, "--jitter", 2, "--seed", seed)
        assert sherd_("create", "ramp.png", name, *options)[0] == 0
    a, b, c = (read_puzzle(tmp_path / n) for n in "abc")
    assert (a.pieces == b.pieces).all()
    assert (a.truth == b.truth).all()
    assert (a.truth != c.truth).any()


def test_create_says_what_it_made(sherd_: Run) -> None:
    code, out, _ = sherd_(
        "create", "ramp.png", "p", "--grid", "2x3", "--gap", 2, "--erode", "side", "--json"
    )
    assert code == 0
    assert json.loads(out) == {
        "folder": "p", "pieces": 6, "grid": "2x3", "piece_size": [16, 16], "gap": 4, "missing": 0,
        "seed": 0,
    }  # fmt: skip


def test_a_plain_folder_with_pins(sherd_: Run, tmp_path: Path) -> None:
    sherd_("create", "ramp.png", "p", "--grid", "2x3")
    (tmp_path / "p" / "puzzle.json").unlink()
    code, out, _ = sherd_(
        "solve", "p", "--grid", "2x3", "--system", "fake", "--out", "s", "--json",
        "--pin", "004.png=1,2", "--pin", "001=0,0",
    )  # fmt: skip
    result = json.loads(out)
    assert code == 0
    assert result["names"][1][2] == "004.png"
    assert result["names"][0][0] == "001.png"
    assert result["scores"] is None


def test_animate_writes_a_gif(sherd_: Run, tmp_path: Path) -> None:
    sherd_("create", "ramp.png", "p", "--grid", "2x3")
    code, _, err = sherd_("solve", "p", "--system", "fake", "--out", "s", "--animate", "--time", 9)
    assert (code, err) == (0, "")
    with Image.open(tmp_path / "s" / "reassembly.gif") as gif:
        assert gif.n_frames > 1


def test_force_replaces_a_result(sherd_: Run) -> None:
    sherd_("create", "ramp.png", "p", "--grid", "2x3")
    assert sherd_("solve", "p", "--system", "fake")[0] == 0
    code, out, err = sherd_("solve", "p", "--system", "fake")
    assert (code, out) == (2, "")
    assert "not empty" in err
    assert sherd_("solve", "p", "--system", "fake", "--force")[0] == 0


def test_a_result_is_matched_by_name(sherd_: Run, tmp_path: Path) -> None:
    sherd_("create", "ramp.png", "p", "--grid", "2x3")
    sherd_("solve", "p", "--system", "fake", "--out", "s")
    path = tmp_path / "s" / "result.json"
    result = json.loads(path.read_text())
    result["pieces"].reverse()  # the same board, its pieces numbered the other way round
    result["board"] = [[5 - p for p in row] for row in result["board"]]
    path.write_text(json.dumps(result))
    assert json.loads(sherd_("eval", "p", path, "--json")[1])["perfect"] == 1.0


def test_eval_without_the_centre(sherd_: Run, tmp_path: Path) -> None:
    Image.fromarray(ramp((3, 3), 8, wrong=True)).save(tmp_path / "nine.png")
    sherd_("create", "nine.png", "p", "--grid", "3x3")
    sherd_("solve", "p", "--system", "fake", "--out", "s")
    whole = json.loads(sherd_("eval", "p", "s/result.json", "--json")[1])
    fixed = json.loads(sherd_("eval", "p", "s/result.json", "--json", "--fixed-centre")[1])
    assert whole["absolute"] == pytest.approx(7 / 9)
    assert fixed["absolute"] == pytest.approx(6 / 8)
    code, out, _ = sherd_("eval", "p", "s/result.json")
    assert code == 0
    assert "absolute 77.8" in out


def test_the_demo_leaves_all_its_pictures(sherd_: Run, tmp_path: Path) -> None:
    for _ in range(2):  # a second run replaces the first
        code, out, err = sherd_("demo", "--system", "fake", "--out", "d")
        assert (code, err) == (0, "")
    made = {p.name for p in (tmp_path / "d").iterdir()}
    assert made == {
        "puzzle", "sheet.png", "assembled.png", "reassembly.gif", "convergence.png", "layout.csv",
        "result.json",
    }  # fmt: skip
    assert all(f"d/{name}" in out for name in made)
    assert read_puzzle(tmp_path / "d" / "puzzle").n == demo.GRID[0] * demo.GRID[1]
    assert sherd_("eval", "d/puzzle", "d/result.json")[0] == 0


def test_systems_lists_every_entry(sherd_: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(registry.SYSTEMS) - set(SYSTEMS):
        monkeypatch.delitem(registry.SYSTEMS, name)
    code, out, _ = sherd_("systems", "--json")
    assert code == 0
    assert [json.loads(line)["system"] for line in out.splitlines()] == ["fake", "blind"]
    assert "sorts pieces by brightness" in sherd_("systems")[1]


def test_systems_says_what_is_not_trained(sherd_: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sherd.bench.version.missing_weights", lambda s: ["x"] * (s == "sherd"))
    entries = [json.loads(line) for line in sherd_("systems", "--json")[1].splitlines()]
    assert [e["system"] for e in entries if not e["trained"]] == ["sherd"]
    assert "sherd train sherd" in " ".join(sherd_("systems")[1].split())


def test_version_and_help(sherd_: Run) -> None:
    assert sherd_("--version") == (0, f"sherd {sherd.__version__}\n", "")
    assert "Commands:" in sherd_()[1]
    for command in ("create", "solve", "eval", "bench", "systems", "demo"):
        code, out, _ = sherd_(command, "--help")
        assert code == 0
        assert f"Example: sherd {command}" in out


def test_ctrl_c_leaves_nothing_half_written(
    sherd_: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fake_system import Fake

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    sherd_("create", "ramp.png", "p", "--grid", "2x3")
    monkeypatch.setattr(Fake, "_solve", interrupt)
    code, out, err = sherd_("solve", "p", "--system", "fake", "--out", "s")
    assert (code, out, err) == (130, "", "interrupted\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p", "ramp.png"]


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has after ``code``."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules, file=sys.stderr)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stderr.split())


def test_import_sherd_is_light() -> None:
    assert loaded("import sherd").isdisjoint({"torch", "numba", "matplotlib", "numpy", "skimage"})


def test_help_is_light() -> None:
    code = (
        "from sherd.cli.main import run\n"
        "for a in (['--help'], ['bench', '--help'], ['--version']):\n"
        "    try: run(a)\n"
        "    except SystemExit as e: assert not e.code, e.code"
    )
    heavy = {"numpy", "numba", "torch", "matplotlib", "PIL", "skimage", "scipy", "rich"}
    assert loaded(code).isdisjoint(heavy)


def test_the_command_is_installed() -> None:
    path = Path(sys.executable).with_name("sherd")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"sherd {sherd.__version__}\n"
