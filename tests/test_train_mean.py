"""The mean of trained networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sherd.errors import SherdError
from sherd.perception.mppn.config import Calibration
from sherd.perception.mppn.network import MPPN
from sherd.perception.mppn.weights import load_model, save_model
from sherd.train import mean
from sherd.train.evaluate import CELLS
from test_mppn import TINY
from test_train_perception import data  # noqa: F401  (fixture)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    cells = (replace(CELLS[0], grid=(3, 4), piece=24),)
    monkeypatch.setattr("sherd.train.mean.CELLS", cells)
    for seed in (0, 1):
        torch.manual_seed(seed)
        card = {"step": 10 + seed, "minutes": 1.5, "seed": seed, "pictures": {"photos": 7 + seed}}
        save_model(tmp_path / str(seed) / "mppn", MPPN(TINY), Calibration(), card)
    return [tmp_path / "0", tmp_path / "1"]


def call(data: Path, out: Path, *networks: object) -> int:  # noqa: F811
    usual = ["--data", str(data), "--out", str(out), "--device", "cpu"]
    return mean.main([*usual, *map(str, networks)])


def test_weights_are_averaged_by_their_shares(
    networks: list[Path],
    data: Path,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    a, b = networks
    assert call(data, tmp_path / "out", a, f"{b}=3") == 0
    assert capsys.readouterr().out.startswith("photo-gap2 base=")
    one, other, found = (load_model(f) for f in (a, b, tmp_path / "out"))
    for name, value in found.net.state_dict().items():
        want = 0.25 * one.net.state_dict()[name] + 0.75 * other.net.state_dict()[name]
        torch.testing.assert_close(value, want, rtol=2e-3, atol=1e-4)  # written as fp16
    assert found.card["mean_of"] == [
        {"sha256": one.sha256, "share": 1.0, "step": 10, "minutes": 1.5, "seed": 0},
        {"sha256": other.sha256, "share": 3.0, "step": 11, "minutes": 1.5, "seed": 1},
    ]
    assert found.card["pictures"] == {"photos": 8}
    assert set(found.card["val"]) == {"photo-gap2"}


def test_the_mean_of_one_network_is_that_network(
    networks: list[Path],
    data: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    assert call(data, tmp_path / "out", networks[0], networks[0]) == 0
    assert load_model(tmp_path / "out").sha256 == load_model(networks[0]).sha256


@pytest.mark.parametrize("text", ["a=", "a=none", "a=0", "a=-1", "a=inf", "a=nan", "=2"])
def test_a_share_that_is_none(text: str) -> None:
    with pytest.raises(SherdError, match="expected DIR or DIR=SHARE"):
        mean.parse_network(text)


def test_networks_of_different_sizes_have_no_mean() -> None:
    other = MPPN(replace(TINY, seam=2 * TINY.seam))
    with pytest.raises(SherdError, match="different sizes"):
        mean.mean_network([MPPN(TINY), other], [1.0, 1.0])


def test_nothing_is_written_where_a_network_is_missing(
    networks: list[Path],
    data: Path,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(data, tmp_path / "out", networks[0], tmp_path / "nowhere") == 2
    assert "nowhere" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
