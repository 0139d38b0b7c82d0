"""Training of decoder, blend and discriminator, on pictures that fit into a test."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from sherd.data.cutting import Geometry
from sherd.errors import SherdError
from sherd.perception.mppn.blend import lay_out, linear_fill
from sherd.perception.mppn.config import Calibration
from sherd.perception.mppn.decoder import Restorer, load_decoder
from sherd.perception.mppn.discriminator import DiscriminatorConfig, load_discriminator
from sherd.perception.mppn.weights import Model, load_model, save_model
from sherd.train.data import Augment, Entry
from sherd.train.evaluate import Cell
from sherd.train.gaps import (
    board_losses,
    cut_boards,
    draw_damage,
    evaluate_gaps,
    follow,
    run_boards,
)
from sherd.train.loop import Clock
from sherd.train.recipe import read_recipe
from sherd.train.restore import Side, main, train
from sherd.train.restore_recipe import MIX, Recipe
from test_decoder import SMALL, tiny_restorer
from test_mppn import tiny_net
from test_train_perception import data, picture  # noqa: F401 (a fixture)

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
JUDGE = DiscriminatorConfig(
    pitch=32, stem=8, widths=(8, 8, 8, 8, 8, 8, 8), head=16, hidden=(8, 8), group=8
)
RECIPE = Recipe(
    decoder=SMALL, discriminator=JUDGE, mix=(Entry(1.0, (2, 2), (2, 3), (24,), (6,), art=0.5),),
    budget=8.0, most=12, judged=6, val_images=1, limit=3, log_every=1, workers=1, lr=3e-3,
    reserve_s=0.0, adversarial_from=0.0, decay=0.9,
    augment=Augment(full=1.0, turn=0.0, colour=0.0, noise=0.0, blur=0.0),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _small_cells(monkeypatch):
    cells = (Cell("gap6", "photos", (2, 3), 24, 6), Cell("art", "art5", (2, 2), 24, 6, jitter=2))
    monkeypatch.setattr("sherd.train.restore.CELLS", cells)


def run(data, out, steps=2, total=2, recipe=RECIPE, resume=None, sha="0" * 64):  # noqa: F811
    clock = Clock(1.0, 60.0, total_steps=total, run_steps=steps)
    model = Model(tiny_net(), Calibration(), {}, sha)
    return train(data, out, model, recipe, clock, device=CPU, resume=resume)


def pictures(size: tuple[int, int], count: int = 2) -> torch.Tensor:
    stack = np.stack([picture(k, size) for k in range(count)])
    return torch.from_numpy(stack).permute(0, 3, 1, 2).float() / 255.0


@pytest.mark.parametrize("erode", ["between", "side"])
@pytest.mark.parametrize(("gap", "jitter"), [(4, 0), (5, 0), (4, 3), (3, 2)])
def test_targets(erode, gap, jitter):
    """Fragments are what their targets hold inside; what is right in the gap is the picture."""
    geometry = Geometry((2, 3), (28, 32), gap, erode, jitter)
    images = pictures(geometry.size)
    boards = cut_boards(images, geometry, np.random.default_rng(0))
    half, (h, w) = boards.layout.half, geometry.fragment
    inside = np.s_[..., half : half + h, half : half + w]
    assert torch.equal(boards.around[inside], boards.pieces)
    assert (boards.valid[inside] == 1).all()
    assert boards.layout.size == tuple(boards.target.shape[2:])
    known = lay_out(torch.ones(12, 1, h, w), boards.layout)
    canvas = lay_out(boards.pieces, boards.layout)
    assert ((boards.target - canvas) * known).abs().max() < 1e-3
    if not jitter:
        laid = lay_out(boards.around, boards.layout, half)
        assert torch.equal(laid, boards.target)
        corners = torch.from_numpy(geometry.corners())[None].expand(2, -1, -1)
        same = follow(images, corners, boards.layout)
        assert (same - boards.target).abs().max() < 1e-3
    else:  # between displaced fragments, an even slope stays even from one edge to the other
        y, x = (torch.arange(s, dtype=torch.float32) for s in geometry.size)
        slope = (0.1 + 0.004 * y[:, None] + 0.003 * x).expand(2, 3, -1, -1)
        boards = cut_boards(slope, geometry, np.random.default_rng(0))
        line, _ = linear_fill(lay_out(boards.pieces, boards.layout), known, boards.layout)
        assert (line - boards.target).abs().max() < 1e-3  # the rim of a bicubic filter


def test_what_lies_outside_the_picture_is_not_asked():
    boards = cut_boards(pictures((44, 44)), Geometry((2, 2), (20, 20), 4), np.random.default_rng(0))
    valid = boards.valid.view(2, 4, 24, 24)
    assert not valid[:, 0, :2].any()
    assert not valid[:, 0, :, :2].any()
    assert valid[:, 0, 2:, 2:].all()
    assert valid[:, 3, :22, :22].all()


def test_losses_are_zero_only_when_right():
    boards = cut_boards(pictures((44, 44)), Geometry((2, 2), (20, 20), 4), np.random.default_rng(0))
    found = run_boards(tiny_net(), tiny_restorer(), boards)
    assert all(float(v) > 1e-3 for v in board_losses(boards, found))
    right = replace(found, parts=boards.around, picture=boards.target)
    assert all(float(v) == pytest.approx(0.0, abs=1e-6) for v in board_losses(boards, right))


def test_damage():
    boards = cut_boards(pictures((74, 74), 40), Geometry((3, 3), (24, 24), 1),
                        np.random.default_rng(0))  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    known, present = draw_damage(boards, 0.5, generator)
    lost = 1 - present.view(40, 9)
    assert 0.2 < (lost.sum(1) > 0).float().mean() < 0.6
    holes = 1 - known.view(40, 9, 24, 24)
    assert 0.2 < (holes.sum((1, 2, 3)) > 0).float().mean() < 0.8
    assert holes[..., 0, :].mean() > holes[..., 12, :].mean()  # at the edges above all
    found = run_boards(tiny_net(), tiny_restorer(), boards, known, present)
    solid = lay_out(known * present.view(-1, 1, 1, 1), boards.layout)
    assert ((found.picture - boards.target) * solid).abs().max() < 1e-6
    assert (found.wanted * solid).max() == 0


def test_it_learns():
    """Sixty steps on two pictures: their gaps are filled better than by straight lines."""
    net = tiny_net()
    boards = cut_boards(pictures((52, 80)), Geometry((2, 3), (24, 24), 4),
                        np.random.default_rng(0))  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        side = Side(Restorer(SMALL, net.cfg), 5e-3, 0.9, 0.0)
    losses = []
    for step in range(1, 61):
        blend, gap, inside = board_losses(boards, run_boards(net, side.net, boards))
        side.update(blend + gap + 0.1 * inside, 1.0, 1.0, step)
        losses.append([blend.item(), gap.item()])
    first, last = np.mean(losses[:5], axis=0), np.mean(losses[-5:], axis=0)
    assert (last < 0.8 * first).all()
    side.average.copy_to(side.shadow)
    cell = Cell("x", "photos", (2, 3), 24, 4)
    figures = evaluate_gaps(net, side.shadow, [(cell, [boards])], nullcontext())["x"]
    assert figures["blend"] < 0.9 * figures["line"]


def test_same_seed_same_bits_and_files(data, tmp_path):  # noqa: F811
    before = torch.get_rng_state()
    for name in ("a", "b"):
        run(data, tmp_path / name)
    assert torch.equal(before, torch.get_rng_state())
    for file in ("decoder.safetensors", "discriminator.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert {p.name for p in (tmp_path / "a").iterdir()} == {
        "metrics.jsonl", "decoder.json", "decoder.safetensors", "discriminator.json",
        "discriminator.safetensors", "resume-0.safetensors",
    }  # fmt: skip
    found = load_decoder(tmp_path / "a")
    assert found.mppn == "0" * 64
    assert set(found.card["val"]["gap6"]) == {"line", "decoder", "blend"}
    judge = load_discriminator(tmp_path / "a")
    judge.check(found.sha256)
    assert 0 <= judge.card["boards"]["beats_swap"] <= 1


def test_both_sides_learn(data, tmp_path):  # noqa: F811
    one = run(data, tmp_path / "a", 1, 4)
    two = run(data, tmp_path / "b", 2, 4)
    for side in ("restorer", "judge"):
        pairs = zip(getattr(one, side).parameters(), getattr(two, side).parameters(), strict=True)
        assert any((a != b).any() for a, b in pairs)
    # the MPPN is not touched
    for a, b in zip(two.mppn.parameters(), tiny_net().parameters(), strict=True):
        assert torch.equal(a, b)
        assert a.grad is None


def test_resume_goes_on(data, tmp_path):  # noqa: F811
    whole = run(data, tmp_path / "whole", 4, 4)
    run(data, tmp_path / "half", 2, 4)
    half = run(data, tmp_path / "half", 2, 4)  # the same command again
    rows = [json.loads(r) for r in (tmp_path / "half" / "metrics.jsonl").read_text().splitlines()]
    assert [r["step"] for r in rows if r["kind"] == "train"] == [1, 2, 3, 4]
    assert rows[-1]["progress"] == 1.0
    for a, b in zip(whole.restorer.parameters(), half.restorer.parameters(), strict=True):
        assert (a - b).abs().max() < 0.03  # 16 bits and no first moments: near, not equal
    with pytest.raises(SherdError, match="was trained on MPPN"):
        run(data, tmp_path / "half", 2, 4, sha="e" * 64)
    other = replace(RECIPE, decoder=replace(SMALL, quarter=16))
    with pytest.raises(SherdError, match="resume with the configuration"):
        run(data, tmp_path / "half", 2, 4, recipe=other)


def test_command_line(data, tmp_path, capsys):  # noqa: F811
    save_model(tmp_path / "mppn", tiny_net(), Calibration(), {})
    config = tmp_path / "tiny.toml"
    config.write_text(
        "budget = 8\nmost = 8\njudged = 4\nlimit = 2\nval_images = 1\nworkers = 1\nreserve_s = 0\n"
        "[decoder]\nquarter = 8\nhalf = 8\nfull = 8\n"
        "[[mix]]\nweight = 1\nrows = [2, 2]\ncols = [2, 2]\npiece = [24]\ngap = [2, 4]\n"
    )
    args = ["--data", str(data), "--config", str(config), "--device", "cpu", "--steps", "1",
            "--weights", str(tmp_path / "mppn")]  # fmt: skip
    assert main([*args, "--out", str(tmp_path / "out")]) == 0
    assert "gap6 line=" in capsys.readouterr().out
    assert load_decoder(tmp_path / "out").mppn == load_model(tmp_path / "mppn").sha256
    assert main([*args, "--out", str(config)]) == 2
    assert "is a file" in capsys.readouterr().err
    config.write_text("lr = -1.0")
    assert main([*args, "--out", str(tmp_path / "no")]) == 2
    assert capsys.readouterr().err == "error: lr: -1.0; expected more than 0\n"
    assert not (tmp_path / "no").exists()
    config.write_text("colour = 1")
    with pytest.raises(SherdError, match="unknown key 'colour'"):
        read_recipe(Recipe, config)


def test_the_mix_is_what_it_is_for():
    """Half of the steps are 5x5 art, and no board is without a gap to fill."""
    total = sum(e.weight for e in MIX)
    assert sum(e.weight for e in MIX if (e.rows, e.piece) == ((5, 5), (96,))) == total / 2
    assert all(min(e.gap) > 0 for e in MIX)
    assert max(g for e in MIX for g in e.gap) == 48


def test_start_takes_trained_networks_to_another_mppn(data, tmp_path):  # noqa: F811
    first = run(data, tmp_path / "first", 1, 1)
    still = replace(RECIPE, lr=1e-12, judge_lr=1e-12)
    clock = Clock(1.0, 60.0, total_steps=1, run_steps=1)
    model = Model(tiny_net(), Calibration(), {}, "e" * 64)
    after = train(
        data, tmp_path / "next", model, still, clock, device=CPU, start=tmp_path / "first"
    )
    shadows = (first.makers.shadow, after.makers.shadow), (first.judges.shadow, after.judges.shadow)
    for before, now in shadows:
        for a, b in zip(before.parameters(), now.parameters(), strict=True):
            assert torch.allclose(a, b, atol=2e-3)  # shipped in 16 bits
    assert load_decoder(tmp_path / "next").mppn == "e" * 64
    other = replace(RECIPE, decoder=replace(SMALL, quarter=16))
    with pytest.raises(SherdError, match="other sizes"):
        train(data, tmp_path / "no", model, other, clock, device=CPU, start=tmp_path / "first")
