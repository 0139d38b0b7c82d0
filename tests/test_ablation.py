"""The table of what each kind of evidence adds."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image
from skimage import data

from search_cases import blank_puzzle, planted_evidence
from sherd.puzzle import identity_board

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "ablation.py"


@pytest.fixture(scope="module")
def ablation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ablation", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ablation"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_a_row_counts_by_its_own_objective(ablation: ModuleType) -> None:
    from dataclasses import replace

    truth = identity_board((3, 3))
    puzzle = replace(blank_puzzle(9, (3, 3)), truth=truth)
    row = ablation.Row("pairs")
    ablation.solve(row, planted_evidence((3, 3)), puzzle, 0, 0.0)
    assert row.why == [None]
    turned = replace(puzzle, truth=truth[::-1].copy())
    ablation.solve(row, planted_evidence((3, 3)), turned, 0, 1.0)
    assert row.why == [None, "perception"]
    assert (row.share("perception"), row.share("search")) == (50.0, 0.0)
    assert row.seconds[1] > 1.0
    assert row.line().split()[:2] == ["pairs", "50.0"]


def test_the_command_prints_every_row(
    ablation: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for kind in ("paintings", "engravings", "artifacts"):
        folder = tmp_path / "art5" / "val" / kind
        folder.mkdir(parents=True)
        image = Image.fromarray(np.asarray(data.astronaut())).resize((534, 534))
        image.save(folder / "one.png")
    monkeypatch.setattr(sys, "argv", ["ablation.py", "--data", str(tmp_path)])
    ablation.main()
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "art5 val, 3 puzzles, seed 0"
    assert [line.split()[0] for line in out[2 : 2 + len(ablation.KINDS)]] == list(ablation.KINDS)
    assert out[2].split()[1:4] == ["100.0", "100.0", "100.0"]


def test_the_last_lines_say_how_many_fewer_are_lost(
    ablation: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    score = ablation.Scores(*[1.0] * len(ablation.Scores.__dataclass_fields__))

    def run(args: object) -> list[object]:
        lost = {"pairs": 4, "pairs+border": 2, "pairs+2x2+E_g": 3, "pairs+border+2x2+E_g": 1}
        return [
            ablation.Row(name, [score] * 4, ["perception"] * k + [None] * (4 - k), [0.0] * 4)
            for name, k in lost.items()
        ]

    monkeypatch.setattr(ablation, "run", run)
    monkeypatch.setattr(sys, "argv", ["ablation.py"])
    ablation.main()
    out = capsys.readouterr().out
    assert "100.0 % with pairs, 75.0 % with pairs+2x2+E_g: 25 % fewer" in out
    assert out.count("50.0 % with pairs+border, 25.0 % with pairs+border+2x2+E_g: 50 % fewer") == 1


def test_missing_data_is_one_line(
    ablation: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["ablation.py", "--data", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match=r"error: .*none: no such folder"):
        ablation.main()
