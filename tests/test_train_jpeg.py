"""Fragments that were JPEGs, in training and in validation."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data

from sherd.errors import SherdError
from sherd.train import data as train_data
from sherd.train.data import Augment, Entry, as_jpegs, draw_batch
from sherd.train.evaluate import Cell, calibrate, cut_cells, evaluate_cell
from sherd.train.jpeg import BLOCK, jpeg
from sherd.train.store import Store

CPU = torch.device("cpu")
PICTURE = data.astronaut()[:203, :310]


def tensor(image: np.ndarray) -> torch.Tensor:
    """``(1, 3, H, W)`` in 0..1."""
    return torch.from_numpy(image.copy()).permute(2, 0, 1)[None] / 255.0


@pytest.mark.parametrize("quality", [30, 60, 85, 95])
def test_what_is_lost_is_what_a_file_loses(quality: int) -> None:
    file = io.BytesIO()
    Image.fromarray(PICTURE).save(file, "JPEG", quality=quality, subsampling=2)
    real = tensor(np.asarray(Image.open(file)))
    before = tensor(PICTURE)
    ours = jpeg(before, torch.tensor([float(quality)]))
    assert ours.shape == before.shape
    lost = 255.0 * (before - real).abs().mean().item()
    off = 255.0 * (ours - real).abs().mean().item()
    assert off < 0.35 * lost
    assert off < 0.8  # decoders may differ by one grey level
    assert 255.0 * (before - ours).abs().mean().item() == pytest.approx(lost, rel=0.03)


def test_each_has_a_quality_of_its_own() -> None:
    twice = tensor(PICTURE).repeat(2, 1, 1, 1)
    poor, good = jpeg(twice, torch.tensor([20.0, 95.0]))
    assert (poor - twice[0]).abs().mean() > 2 * (good - twice[0]).abs().mean()
    assert torch.equal(jpeg(twice[:1], torch.tensor([95.0]))[0], good)


def pieces_of(puzzles: int, n: int) -> torch.Tensor:
    """``(puzzles·n, 3, 28, 28)``, all of them alike."""
    return tensor(PICTURE[40:68, 60:88]).repeat(puzzles * n, 1, 1, 1)


def test_some_puzzles_are_jpegs() -> None:
    pieces = pieces_of(40, 3)
    cfg = Augment(jpeg=0.5)
    out = as_jpegs(pieces, 40, cfg, np.random.default_rng(0))
    changed = (out != pieces).flatten(1).any(1).reshape(40, 3)
    assert torch.equal(changed.any(1), changed.all(1))  # all of a puzzle, or none
    assert 10 < changed.all(1).sum() < 30
    assert torch.equal(out, as_jpegs(pieces, 40, cfg, np.random.default_rng(0)))
    assert (out * 255).round().sub(out * 255).abs().max() < 1e-3
    assert as_jpegs(pieces, 40, Augment(jpeg=0.0), np.random.default_rng(0)) is pieces


def test_blocks_begin_anywhere_in_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the worst quality a block of a ramp is of one grey: its sides are where the steps are."""
    monkeypatch.setattr(train_data, "JPEG_MOST", 1.0)
    ramp = torch.linspace(0.2, 0.8, 48).expand(1, 3, 48, 48)
    for pieces, axis in ((ramp, 1), (ramp.mT, 0)):
        cfg = Augment(jpeg=1.0, jpeg_least=1.0)
        out = as_jpegs(pieces.repeat(99, 1, 1, 1), 1, cfg, np.random.default_rng(1))
        line = out[:, 1].mean(2 - axis)
        steps = (line[:, 1:] - line[:, :-1]).abs() > 1e-3  # (99, 47)
        begin = [set((np.flatnonzero(s) % BLOCK).tolist()) for s in steps.numpy()]
        assert all(len(b) == 1 for b in begin)
        assert len(set.union(*begin)) == BLOCK


def test_better_files_lose_less(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = pieces_of(1, 4)
    lost = []
    for quality in (10.0, 95.0):
        monkeypatch.setattr(train_data, "JPEG_MOST", quality)
        cfg = Augment(jpeg=1.0, jpeg_least=quality)
        lost.append((as_jpegs(pieces, 1, cfg, np.random.default_rng(0)) - pieces).abs().mean())
    assert lost[0] > 2 * lost[1] > 0


def test_a_batch_of_jpegs() -> None:
    """What is drawn is the same but for them."""
    store = Store({"photos": [tensor(data.astronaut())[0].mul(255).to(torch.uint8)], "art5": []})
    mix = (Entry(1.0, (3, 3), (4, 4), (28,), (2,)),)

    def drawn(share: float) -> torch.Tensor:
        rng, noise = np.random.default_rng(5), torch.Generator().manual_seed(5)
        return draw_batch(store, mix, Augment(jpeg=share), 10.0, 100, rng, noise).pieces

    plain, lossy = drawn(0.0), drawn(1.0)
    assert plain.shape == lossy.shape
    assert 0.0005 < (plain - lossy).abs().mean() < 0.03


@pytest.mark.parametrize("wrong", [{"jpeg": 1.5}, {"jpeg": -0.1}, {"jpeg_least": 99.0}])
def test_shares_and_qualities_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(SherdError, match=rf"augment\.{next(iter(wrong))}: "):
        Augment(**wrong)


def test_validation_looks_at_jpegs_and_calibrates_without() -> None:
    from sherd.perception.mppn.config import NetConfig
    from sherd.perception.mppn.network import MPPN

    store = Store({"photos": [torch.from_numpy(data.coffee()).permute(2, 0, 1)], "art5": []})
    cells = (
        Cell("plain", "photos", (2, 3), 28, 2),
        Cell("lossy", "photos", (2, 3), 28, 2, jpeg=60),
    )
    plain, lossy = cut_cells(store, cells, 0, CPU, workers=1)
    back = torch.argsort(plain.grid.after[0])  # each cell is shuffled by itself
    assert back.shape == (6,)
    a, b = (p.pieces.float().flatten(0, 1).mean((1, 2, 3)).sort().values for p in (plain, lossy))
    assert 0 < (a - b).abs().max() < 2
    torch.manual_seed(0)
    net = MPPN(NetConfig()).eval()
    with torch.no_grad():
        reports = [
            evaluate_cell(net, p, torch.autocast("cpu", enabled=False)) for p in (plain, lossy)
        ]
    assert calibrate(reports) == calibrate(reports[:1])
    assert calibrate(reports[1:]) == calibrate([])
