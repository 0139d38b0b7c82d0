"""Training of the fringe network, and the mean of several."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from skimage import data as photographs

from rival_cases import write_data
from sherd.data.cutting import Geometry, cut
from sherd.errors import SherdError
from sherd.perception import neural
from sherd.perception.fringe import (
    SYSTEM,
    WIDE,
    Fringe,
    FringeConfig,
    load_fringe,
    shipped_fringe,
)
from sherd.perception.mppn.weights import shipped_model
from sherd.perception.rivals.weights import file_stem, save_rival
from sherd.train import mean
from sherd.train.data import Augment, Entry
from sherd.train.evaluate import Cell, Puzzles
from sherd.train.fringe import FringeRecipe, FringeTrainee, main
from sherd.train.fringe_wide import WideRecipe, WideTrainee
from sherd.train.loop import Clock
from sherd.train.losses import Grid, hard_pairs
from sherd.train.rivals import Run, train

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = FringeConfig(depth=3, reach=1, filters=8, width=8, blocks=1)
RECIPE = FringeRecipe(
    net=SMALL, mix=(Entry(1.0, (3, 3), (4, 4), (24,), (1,)),), augment=Augment(turn=0.0),
    budget=6.0, most=12, limit=2, val_images=1, log_every=1, workers=1, reserve_s=0.0, lr=3e-3,
)  # fmt: skip
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    for trainee in (FringeTrainee, WideTrainee):
        monkeypatch.setattr(trainee, "cells", (Cell("photo", "photos", (3, 4), 24, 1),))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("fringe") / "data")


def go(recipe: FringeRecipe, data: Path, out: Path, steps: int, total: int = 4) -> Run:
    clock = Clock(1.0, 60.0, total_steps=total, run_steps=steps)
    return train(FringeTrainee, data, out, recipe, clock, device=CPU, show=lambda row: None)


def test_one_seed_one_network_also_if_it_was_interrupted(data: Path, tmp_path: Path) -> None:
    go(RECIPE, data, tmp_path / "whole", 4)
    go(RECIPE, data, tmp_path / "half", 3)
    go(RECIPE, data, tmp_path / "half", 1)
    one, other = (load_fringe(tmp_path / name) for name in ("whole", "half"))
    assert one.sha256 == other.sha256
    assert one.net.cfg == replace(SMALL, mppn=shipped_model().sha256)
    assert set(one.card["val"]["photo"]) == {"before_nats", "before_top1", "nats", "top1"}


def test_it_learns_what_the_mppn_does_not_say(data: Path, tmp_path: Path) -> None:
    go(replace(RECIPE, lr=1e-2), data, tmp_path, 25, total=25)
    lines = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    last = [row for row in lines if row["kind"] == "train"][-8:]
    assert np.mean([r["loss"] for r in last]) < np.mean([r["before"] for r in last])


def test_it_sees_what_the_evidence_is_made_of() -> None:
    """What is known in training is what `observe` knows without the network, by one look."""
    puzzle = cut(photographs.coffee(), Geometry((3, 4), (28, 28), 1), fit="crop").puzzle
    model = shipped_model()
    trainee = FringeTrainee(RECIPE, CPU)
    pieces = torch.from_numpy(puzzle.pieces).permute(0, 3, 1, 2)[None].float() / 255.0
    known, steps = trainee.known(pieces, 1)
    logits, _, _ = neural.look(puzzle, model, puzzle.n - 1, 1)
    how = model.calibration.close_up(1, 28.0)
    assert how is not None
    want = logits / how.temperature + how.weight * steps[:, 0].numpy()
    off = ~np.eye(puzzle.n, dtype=bool)
    for d in (0, 1):
        np.testing.assert_allclose(known[d, 0].numpy()[off], want[d][off], atol=2e-2)


def test_beginning_with_a_network(data: Path, tmp_path: Path) -> None:
    first = go(RECIPE, data, tmp_path / "first", 2)
    begun = FringeTrainee(replace(RECIPE, start=str(tmp_path / "first"), seed=5), CPU)
    for name, value in first.averaged()["net"].state_dict().items():
        torch.testing.assert_close(begun.net.state_dict()[name], value, rtol=1e-3, atol=1e-3)
    with pytest.raises(SherdError, match="holds other sizes"):
        FringeTrainee(
            replace(RECIPE, net=replace(SMALL, width=4), start=str(tmp_path / "first")), CPU
        )


def test_the_one_for_wider_gaps_begins_with_the_one_for_narrow_ones() -> None:
    begun, narrow = WideTrainee(WideRecipe(), CPU), shipped_fringe()
    assert narrow is not None
    for name, value in narrow.net.state_dict().items():
        torch.testing.assert_close(begun.net.state_dict()[name], value)


def test_half_precision_on_a_cpu_learns_nearly_the_same(data: Path, tmp_path: Path) -> None:
    nets = []
    for half in (False, True):
        recipe = WideRecipe(
            half=half, mix=RECIPE.mix, augment=RECIPE.augment, budget=6.0, most=12, limit=2,
            val_images=1, workers=1, reserve_s=0.0,
        )  # fmt: skip
        clock = Clock(1.0, 60.0, total_steps=2, run_steps=2)
        out = tmp_path / str(half)
        run = train(WideTrainee, data, out, recipe, clock, device=CPU, show=lambda row: None)
        nets.append(run.averaged()["net"].state_dict())
        assert load_fringe(out, WIDE).card["step"] == 2
    full, short = nets
    assert any(not torch.equal(full[name], short[name]) for name in full)
    for name, value in full.items():
        torch.testing.assert_close(short[name], value, atol=2e-3, rtol=0.0)


def test_pixels_taken_off_each_side_are_missing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    trainee = FringeTrainee(RECIPE, CPU)
    told = []

    def known(pieces: torch.Tensor, gap: int) -> tuple[torch.Tensor, torch.Tensor]:
        told.append(gap)
        return torch.zeros(2, 1, 6, 6), torch.zeros(2, 1, 6, 6)

    monkeypatch.setattr(trainee, "known", known)
    cell = Cell("side", "photos", (2, 3), 24, 2, "side")
    pieces = torch.zeros(1, 6, 20, 20, 3, dtype=torch.uint8)
    with torch.no_grad():
        trainee.evaluate({"net": trainee.net}, [Puzzles(cell, pieces, Grid.of((2, 3), CPU))])
    assert told == [4]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"known": 0}, "known: 0"),
        ({"spread": 40}, "spread: 40"),
        ({"mix": (Entry(1.0, (3, 3), (4, 4), (24,), (3,)),)}, "24 px with a gap of more than 2"),
        ({"mix": (Entry(1.0, (3, 3), (4, 4), (24,), (2,), "side"),)}, "a gap of more than 2"),
        ({"mix": (Entry(1.0, (3, 3), (4, 4), (52,), (3,), "side"),)}, "a gap of more than 2"),
        ({"mix": (Entry(1.0, (3, 3), (4, 4), (64,), (4, 9)),)}, "64 px with a gap of more than 8"),
        ({"mix": (Entry(1.0, (3, 3), (4, 4), (64,), (5,), "side"),)}, "a gap of more than 8"),
    ],
)
def test_recipes_that_make_no_sense(values: dict[str, object], says: str) -> None:
    with pytest.raises(SherdError, match=says):
        replace(RECIPE, **values)  # type: ignore[arg-type]


def test_hard_pairs_are_the_best_of_rows_and_columns_once() -> None:
    scores = torch.randn(2, 6, 6, generator=torch.Generator().manual_seed(0))
    grid = Grid.of((2, 3), CPU)
    puzzle, i, j, _, _ = hard_pairs(scores, 0, grid, 1)
    got = set(zip(puzzle.tolist(), i.tolist(), j.tolist(), strict=True))
    assert len(got) == len(puzzle)
    for b in range(2):
        for k, after in enumerate(grid.after[0].tolist()):
            best = scores[b, k].argmax().item()
            assert (b, k, best) in got
            assert after < 0 or (b, k, after) in got  # the true one is always among them
            assert (b, scores[b, :, k].argmax().item(), k) in got


@pytest.mark.parametrize("system", [SYSTEM, WIDE])
def test_the_mean_of_two(data: Path, tmp_path: Path, system: str) -> None:
    for k in (0, 1):
        torch.manual_seed(k)
        net = Fringe(SMALL)
        stem = tmp_path / str(k) / file_stem(system)
        save_rival(stem, system, net, net.cfg, {"step": k, "minutes": 1.0})
    usual = ["--data", str(data), "--out", str(tmp_path / "mean"), "--device", "cpu", "--fringe"]
    assert mean.main([*usual, str(tmp_path / "0"), f"{tmp_path / '1'}=3"]) == 0
    a, b, found = (load_fringe(tmp_path / name, system) for name in ("0", "1", "mean"))
    for name, value in found.net.state_dict().items():
        want = 0.25 * a.net.state_dict()[name] + 0.75 * b.net.state_dict()[name]
        torch.testing.assert_close(value, want, rtol=2e-3, atol=1e-3)  # written as fp16
    assert [m["share"] for m in found.card["mean_of"]] == [1.0, 3.0]
    assert "nats" in found.card["val"]["photo"]


def test_the_command(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "tiny.toml"
    config.write_text("budget = 2.0\nmost = 10\nlimit = 1\nval_images = 1\nworkers = 1\ngap = 3\n")
    usual = ["--data", str(data), "--out", str(tmp_path / "out"), "--config", str(config)]
    assert main(FringeTrainee, usual) == 2
    assert "gap" in capsys.readouterr().err
