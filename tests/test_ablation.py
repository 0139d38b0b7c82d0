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
    assert [line.split()[0] for line in out[2:6]] == [
        "pairs",
        "pairs+border",
        "pairs+border+2x2",
        "pairs+border+2x2+E_g",
    ]
    assert out[2].split()[1:4] == ["100.0", "100.0", "100.0"]
    assert "perception-limited share: 0.0 % with pairs" in out[6]


def test_missing_data_is_one_line(
    ablation: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["ablation.py", "--data", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match=r"error: .*none: no such folder"):
        ablation.main()
