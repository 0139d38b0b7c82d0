"""The commands that fit numbers to finished networks and features."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from sherd.train import calibrate, close, seams, weigh
from sherd.train.evaluate import expected_calibration_error

MAINS = [calibrate.main, close.main, weigh.main, seams.main]


@pytest.mark.parametrize("main", MAINS)
@pytest.mark.parametrize("name", ["nowhere", "empty", "file"])
def test_wrong_data_is_an_error_of_one_line(
    main: Callable[[list[str]], int],
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no folder")
    assert main(["--data", str(tmp_path / name)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: {tmp_path / name}")
    assert printed.err.count("\n") == 1


def test_a_pack_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photos").mkdir()
    for name in ("train-0.tar", "val-0.tar"):
        (tmp_path / "photos" / name).write_bytes(b"no pack")
    for main in (calibrate.main, close.main, seams.main):
        assert main(["--data", str(tmp_path)]) == 2
        assert "is no uncompressed tar file" in capsys.readouterr().err


def test_a_border_weight_must_lead_clearly() -> None:
    assert calibrate.leading({0.0: 90.9, 0.5: 102.9, 1.0: 101.9}) == 1.0
    assert calibrate.leading({0.0: 90.9, 0.5: 103.9, 1.0: 101.9}) == 0.5
    assert calibrate.leading({0.25: 104.5, 0.5: 104.5, 1.0: 101.9}) == 0.25


def test_calibration_error_of_sure_and_unsure_answers() -> None:
    even = torch.zeros(4, 2)
    sure = torch.tensor([[50.0, 0.0]] * 4)
    half, never = torch.tensor([0, 1, 0, 1]), torch.ones(4, dtype=torch.long)
    assert expected_calibration_error(even, half) == pytest.approx(0.0)
    assert expected_calibration_error(sure, half) == pytest.approx(0.5)
    assert expected_calibration_error(sure, never) == pytest.approx(1.0)
    both, answers = torch.cat([even, sure]), torch.cat([half, never])
    assert expected_calibration_error(both, answers) == pytest.approx(0.5)
