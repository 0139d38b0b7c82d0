"""The frame in which compared systems are trained, with the two that use it from here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rival_cases import write_data
from sherd import SherdError
from sherd.cli.main import run as cli
from sherd.cli.train_rivals import RIVALS
from sherd.perception.rivals.inpaint_gan import InpaintConfig
from sherd.perception.rivals.pdn import PdnConfig
from sherd.perception.rivals.pixels import resize
from sherd.perception.rivals.weights import LIMIT, load_rival, save_rival
from sherd.solvers import SYSTEMS
from sherd.train.data import Augment, Entry
from sherd.train.evaluate import Cell
from sherd.train.inpaint_gan import InpaintRecipe, InpaintTrainee
from sherd.train.loop import Clock, adamw
from sherd.train.pdn_ga import PdnRecipe, PdnTrainee
from sherd.train.recipe import read_recipe
from sherd.train.rivals import Run, main, train
from sherd.train.trainee import MIX, RivalRecipe, Step, Trainee, descend, pair_figures

CPU = torch.device("cpu")
COMMON: dict[str, Any] = {
    "mix": (Entry(1.0, (5, 5), (5, 5), (16,), (3,), jitter=(1,)),),
    "augment": Augment(full=1.0, turn=0.0), "budget": 2.0, "most": 25, "limit": 2,
    "val_images": 1, "log_every": 1, "workers": 1, "reserve_s": 0.0, "lr": 3e-3,
}  # fmt: skip
PDN = PdnRecipe(
    net=PdnConfig((4, 4, 4), (4, 4, 4), strip=4, seam=4, link=4, hidden=8), quads=8, **COMMON
)
GAN = InpaintRecipe(
    net=InpaintConfig(generator=4, discriminator=4, hidden=8), pairs=8, gan=0.5, **COMMON
)
CASES = [(PdnTrainee, PDN), (InpaintTrainee, GAN)]
systems = pytest.mark.parametrize(("cls", "recipe"), CASES, ids=["pdn-ga", "inpaint-gan"])
CELLS = (
    Cell("photo", "photos", (2, 3), 24, 2),
    Cell("art", "art5", (5, 5), 24, 3, jitter=1),
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(Trainee, "cells", CELLS)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("rivals") / "data")


def go(cls: Any, recipe: Any, data: Path, out: Path, steps: int, total: int = 4) -> Run:
    clock = Clock(1.0, 60.0, total_steps=total, run_steps=steps)
    return train(cls, data, out, recipe, clock, device=CPU, show=lambda row: None)


def rows(out: Path, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [row for row in lines if row["kind"] == kind]


@systems
def test_a_resumed_run_ends_like_one_that_was_not_interrupted(
    cls: Any, recipe: Any, data: Path, tmp_path: Path
) -> None:
    before = torch.get_rng_state()
    whole = go(cls, recipe, data, tmp_path / "whole", 4)
    go(cls, recipe, data, tmp_path / "half", 3)
    half = go(cls, recipe, data, tmp_path / "half", 1)
    assert torch.equal(before, torch.get_rng_state())
    for mine, other in zip(whole.nets.values(), half.nets.values(), strict=True):
        for name, tensor in mine.state_dict().items():
            assert torch.equal(tensor, other.state_dict()[name]), name
    file = f"{whole.stem}.safetensors"
    assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "half" / file).read_bytes()
    assert [r["step"] for r in rows(tmp_path / "half", "train")] == [1, 2, 3, 4]
    assert rows(tmp_path / "half", "val-all")[-2:] == rows(tmp_path / "whole", "val-all")


@systems
def test_every_network_learns_and_the_card_says_how(
    cls: Any, recipe: Any, data: Path, tmp_path: Path
) -> None:
    start = {k: v.clone() for k, v in cls_state(cls, recipe).items()}
    run = go(cls, recipe, data, tmp_path, 4)
    ended = dict(run.trainee.modules()["net"].named_parameters())
    still = {k for k, v in ended.items() if torch.equal(v, start[k])}
    assert not still
    about = json.loads((tmp_path / f"{run.stem}.json").read_text())
    card = about["card"]
    assert card["step"] == 4
    assert card["pictures"] == {"photos": 2, "art5": 2}
    assert card["recipe"]["lr"] == 3e-3
    assert set(card["val"]) == {"photo", "art"}
    assert all(0 <= card["val"]["photo"][k] <= 1 for k in ("top1", "auc"))


def cls_state(cls: Any, recipe: Any) -> dict[str, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        return dict(cls(recipe, CPU).modules()["net"].named_parameters())


def test_the_gan_comes_first_and_the_classifier_leaves_the_generator(
    data: Path, tmp_path: Path
) -> None:
    first = go(InpaintTrainee, GAN, data, tmp_path, 2)
    kept = {k: v.clone() for k, v in first.nets["net"].generator.state_dict().items()}  # type: ignore[union-attr,operator]
    last = go(InpaintTrainee, GAN, data, tmp_path, 2)
    seen = rows(tmp_path, "train")
    assert ["l1" in row for row in seen] == [True, True, False, False]
    assert ["loss" in row for row in seen] == [False, False, True, True]
    for name, tensor in last.nets["net"].generator.state_dict().items():  # type: ignore[union-attr,operator]
        assert torch.equal(tensor, kept[name])


def test_without_a_gap_there_is_nothing_to_paint(data: Path, tmp_path: Path) -> None:
    bare = replace(GAN, mix=(Entry(1.0, (3, 3), (3, 3), (16,), (0,)),))
    go(InpaintTrainee, bare, data, tmp_path, 1)
    assert "loss" in rows(tmp_path, "train")[0]


class Dummy(Trainee[RivalRecipe]):
    """One layer with dropout and a batch norm, and a counter of its own."""

    system = "dummy"
    recipe_type = RivalRecipe

    def __init__(self, recipe: RivalRecipe, device: torch.device) -> None:
        super().__init__(recipe, device)
        self.net = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Conv2d(4, 1, 1)
        )
        self.optimiser = adamw([self.net], recipe.lr, 0.01)
        self.count = torch.zeros(1)
        self.rates: list[float] = []

    def modules(self) -> dict[str, nn.Module]:
        return {"net": self.net}

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        return {"net": self.optimiser}

    def config(self) -> RivalRecipe:
        return self.recipe

    def state(self) -> dict[str, Tensor]:
        return {"count": self.count}

    def restore(self, tensors: Any) -> None:
        self.count = tensors["count"].clone()

    def step(self, s: Step) -> dict[str, Tensor]:
        self.count += 1
        self.rates.append(self.optimiser.param_groups[0]["lr"])
        loss = self.net(s.batch.pieces).pow(2).mean()
        descend(self.optimiser, loss, 1.0)
        return {"loss": loss}

    def evaluate(self, nets: Any, puzzles: Any) -> dict[str, dict[str, float]]:
        assert not nets["net"].training
        return {p.cell.name: {"puzzles": float(len(p.pieces))} for p in puzzles}


def test_the_frame_keeps_everything_a_run_needs(data: Path, tmp_path: Path) -> None:
    """Dropout, moments, statistics of a batch norm, averaged weights, a system's own tensors."""
    recipe = RivalRecipe(**COMMON)
    whole = go(Dummy, recipe, data, tmp_path / "a", 6, 6)
    go(Dummy, recipe, data, tmp_path / "b", 2, 6)
    half = go(Dummy, recipe, data, tmp_path / "b", 4, 6)
    assert float(half.trainee.count) == 6  # type: ignore[attr-defined]
    for one, two in ((whole.nets, half.nets), (whole.averaged(), half.averaged())):
        for name, tensor in one["net"].state_dict().items():
            assert torch.equal(tensor, two["net"].state_dict()[name]), name
    live, mean = (n["net"].state_dict()["0.weight"] for n in (whole.nets, whole.averaged()))
    assert not torch.equal(live, mean)
    assert whole.trainee.rates[2:] == half.trainee.rates  # type: ignore[attr-defined]
    assert whole.trainee.rates[-1] < 0.2 * whole.trainee.rates[1]  # type: ignore[attr-defined]
    assert whole.figures == {"photo": {"puzzles": 2.0}, "art": {"puzzles": 2.0}}


def test_a_recipe_is_as_long_as_its_first_run(data: Path, tmp_path: Path) -> None:
    recipe = RivalRecipe(**{**COMMON, "reserve_s": 20.0})
    clock = Clock(1.0, 1.0, run_steps=1)
    args = (Dummy, data, tmp_path, recipe)
    train(*args, clock, device=CPU, fit=True, show=lambda row: None)
    assert 0.3 < clock.total_minutes <= 1.0 - 20.0 / 60.0
    again = Clock(5.0, 5.0, run_steps=1)
    train(*args, again, device=CPU, fit=True, show=lambda row: None)
    assert again.total_minutes == clock.total_minutes
    assert again.step == 2


def test_another_systems_checkpoint_is_refused(data: Path, tmp_path: Path) -> None:
    go(PdnTrainee, PDN, data, tmp_path, 1)
    with pytest.raises(SherdError, match="checkpoint of pdn-ga, not of inpaint-gan"):
        go(InpaintTrainee, GAN, data, tmp_path, 1)
    wider = replace(PDN, net=replace(PDN.net, hidden=9))
    with pytest.raises(SherdError, match="resume with the configuration"):
        go(PdnTrainee, wider, data, tmp_path, 1)


def test_weights_that_are_too_large_are_refused(tmp_path: Path) -> None:
    net = nn.Linear(LIMIT // 2, 1)
    with pytest.raises(SherdError, match="at most"):
        save_rival(tmp_path / "x", "x", net, PdnConfig(), {})
    assert not list(tmp_path.iterdir())


def test_a_config_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    save_rival(tmp_path / "x", "x", nn.Linear(1, 1), PdnConfig(), {})
    with pytest.raises(SherdError, match=r"x\.json: net: unknown key"):
        load_rival("x", InpaintConfig, lambda cfg: nn.Linear(1, 1), tmp_path / "x.json")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lr = -1.0", "lr: -1.0; expected more than 0"),
        ("gan = 1.0", "gan: 1.0; expected at least 0, below 1"),
        ("colour = 1", "unknown key 'colour'"),
        ("lr = ", "cannot be read as TOML"),
        ("[net]\ncolumns = 20", "columns: 20"),
    ],
)
def test_a_bad_recipe_is_one_line(
    text: str, why: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "bad.toml"
    config.write_text(text)
    words = ["--data", str(data), "--out", str(tmp_path / "out"), "--config", str(config)]
    assert main(InpaintTrainee, words) == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


TOML = """
budget = 2.0
most = 9
limit = 2
val_images = 1
log_every = 1
workers = 1
reserve_s = 0.0
quads = 4
[net]
strip = 4
seam = 4
link = 4
hidden = 4
[[mix]]
weight = 1
rows = [3, 3]
cols = [3, 3]
piece = [16]
gap = [2]
"""


def test_command_lines(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "tiny.toml"
    config.write_text(TOML)
    assert read_recipe(PdnRecipe, config).net.seam == 4
    usual = ["--data", str(data), "--config", str(config), "--device", "cpu", "--steps", "1"]
    assert main(PdnTrainee, [*usual, "--out", str(tmp_path / "a")]) == 0
    assert "photo top1=" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        cli(["train", "pdn-ga", *usual, "--out", str(tmp_path / "b")])
    assert not end.value.code
    assert "pdn_ga.safetensors" in capsys.readouterr().out
    assert {p.name for p in (tmp_path / "a").iterdir()} == {
        p.name for p in (tmp_path / "b").iterdir()
    }


def test_trained_systems_are_known() -> None:
    assert {"inpaint-gan", "pdn-ga"} <= set(RIVALS) & set(SYSTEMS)
    for cls, _ in CASES:
        assert RIVALS[cls.system] == f"{cls.__module__}:{cls.__name__}"


def test_the_mix_holds_the_compared_geometries() -> None:
    art = [e for e in MIX if e.piece == (96,)]
    assert [(e.rows, e.cols, e.gap, e.jitter) for e in art] == [((5, 5), (5, 5), (12,), (3,))]
    photos = [e for e in MIX if e.piece == (64,)]
    assert {e.erode for e in photos} == {"between", "side"}
    assert {g for e in photos for g in e.gap if e.erode == "between"} >= {0, 2, 4, 8}


def test_pair_figures() -> None:
    from sherd.train.losses import Grid

    grid = Grid.of((2, 2), CPU)
    perfect = torch.zeros(1, 2, 4, 4)
    perfect[0, 0, [0, 2], [1, 3]] = 1.0
    perfect[0, 1, [0, 1], [2, 3]] = 1.0
    assert pair_figures(perfect, grid) == {"top1": 1.0, "auc": 1.0}
    assert pair_figures(-perfect, grid)["auc"] == 0.0
    assert pair_figures(-perfect, grid)["top1"] == 0.0


@pytest.mark.parametrize(("before", "after"), [((62, 60), (64, 64)), ((96, 84), (64, 12))])
def test_resizing_is_torchs_own(before, after):
    x = torch.rand(2, 3, *before, generator=torch.Generator().manual_seed(0))
    want = torch.nn.functional.interpolate(x, after, mode="bilinear", antialias=True)
    assert torch.allclose(resize(x, after), want, atol=1e-5)
    assert torch.equal(resize(x, before), x)
