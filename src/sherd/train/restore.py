"""Training of decoder, blend and discriminator: ``python -m sherd.train.restore --data DIR``.

The MPPN is given and does not change. Every step has two halves: decoder and blend learn to
recover boards (the decoder also to pass as right before the discriminator), then the
discriminator learns to tell right boards of recovered fragments from wrong ones.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import SherdError
from ..perception.mppn.decoder import Restorer, load_decoder, save_decoder
from ..perception.mppn.discriminator import (
    BoardCalibration,
    Discriminator,
    load_discriminator,
    save_discriminator,
    to_tiles,
)
from ..perception.mppn.weights import Model, load_model
from ..perception.whole import recover_tiles
from .boards import adversarial_loss, cheap_pairs, discriminator_loss
from .command import add_schedule, check_out, run_training_command, training_parser
from .data import draw_pictures
from .evaluate import Cell
from .gaps import (
    CELLS,
    Boards,
    board_losses,
    cut_boards,
    draw_damage,
    evaluate_gaps,
    run_boards,
    val_boards,
)
from .judge import Verdicts, judge
from .loop import (
    Average,
    Clock,
    Metrics,
    Show,
    adamw,
    autocast,
    clip_gradients,
    learning_rate,
    load_shards,
    pack_state,
    pick_device,
    print_row,
    save_shards,
    unpack_state,
)
from .recipe import read_recipe
from .restore_recipe import Recipe
from .store import Store, load_store

LOSSES = (
    "loss", "blend", "gap", "inside", "adversarial", "grad_norm",
    "judge", "judge_top", "judge_swap", "judge_norm",
)  # fmt: skip


Net = TypeVar("Net", bound=nn.Module)


class Side(Generic[Net]):
    """A network, its optimiser and its averaged weights."""

    def __init__(self, net: Net, lr: float, decay: float, weight_decay: float) -> None:
        self.net, self.lr = net, lr
        self.shadow: Net = copy.deepcopy(net).eval().requires_grad_(False)
        device = next(net.parameters()).device
        self.fused = device.type == "cuda"
        self.optimiser = adamw([net], lr, weight_decay)
        self.average = Average(net, decay)

    def update(self, loss: Tensor, rate: float, clip: float, step: int) -> Tensor:
        """One step down; ``rate`` is the share of the peak rate. Returns the gradient's norm."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate * self.lr
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = clip_gradients(self.net.parameters(), clip)
        self.optimiser.step()
        self.average.update(step)
        return norm.float()


class Trainer:
    """One run: state, and what is done with it from time to time."""

    def __init__(
        self, recipe: Recipe, model: Model, store: Store, device: torch.device, out: Path,
        show: Show,
    ) -> None:  # fmt: skip
        self.recipe, self.model, self.store, self.device = recipe, model, store, device
        self.out = out
        self.mppn = model.net.to(device)
        self.restorer = Restorer(recipe.decoder, self.mppn.cfg).to(device)
        self.judge = Discriminator(recipe.discriminator).to(device)
        self.makers = Side(self.restorer, recipe.lr, recipe.decay, recipe.weight_decay)
        self.judges = Side(self.judge, recipe.judge_lr, recipe.decay, recipe.judge_decay)
        self.metrics = Metrics(out / "metrics.jsonl", show)
        self.figures: dict[str, dict[str, float]] = {}
        self.boards: dict[str, float] = {}
        self.calibration = BoardCalibration()

    def step(self, clock: Clock) -> Tensor:
        """Both halves of a step; returns the figures named in `LOSSES`, unsynchronised."""
        r = self.recipe
        # random state comes from the step alone, so a resumed run draws what it would have drawn
        rng = np.random.default_rng([r.seed, clock.step])
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**62)))
        pictures, geometry, _ = draw_pictures(
            self.store, r.mix, r.augment, r.budget, r.most, rng, generator
        )
        boards = cut_boards(pictures, geometry, rng)
        rate = learning_rate(clock.progress, 1.0, r.warm_up, r.lr_floor)
        clock.step += 1
        losses, tiles = self._make(boards, rate, clock, generator)
        judged = self._judge(boards, tiles, rate, clock.step, generator)
        return torch.stack([*losses, *judged])

    def _make(
        self, boards: Boards, rate: float, clock: Clock, generator: torch.Generator
    ) -> tuple[list[Tensor], Tensor]:
        """Decoder and blend take a step. Also returns ``(b, n, 3, S, S)`` tiles to be judged."""
        r = self.recipe
        damage = draw_damage(boards, r.damage, generator) if r.damage else (None, None)
        grid = boards.layout.grid
        n = grid[0] * grid[1]
        judged = max(1, min(boards.puzzles, r.judged // n))
        self.restorer.train()
        self.judge.eval()  # what it thinks, not what it guesses with parts left out
        with autocast(self.device):
            found = run_boards(self.mppn, self.restorer, boards, *damage)
            blend, gap, inside = board_losses(boards, found)
            loss = r.blend_weight * blend + r.gap_weight * gap + r.inside_weight * inside
            tiles = to_tiles(found.parts[: judged * n], r.discriminator.pitch)
            tiles = tiles.unflatten(0, (judged, n))
            against = torch.zeros((), device=self.device)
            if r.adversarial_weight and clock.progress >= r.adversarial_from:
                self.judge.requires_grad_(False)
                against = adversarial_loss(self.judge, tiles, grid)
                self.judge.requires_grad_(True)
                loss = loss + r.adversarial_weight * against
        norm = self.makers.update(loss, rate, r.clip, clock.step)
        kept = [v.detach().float() for v in (loss, blend, gap, inside, against)]
        return [*kept, norm], tiles.detach()

    def _judge(
        self, boards: Boards, tiles: Tensor, rate: float, step: int, generator: torch.Generator
    ) -> list[Tensor]:
        """The discriminator takes a step on right and wrong boards of ``tiles``."""
        r = self.recipe
        self.judge.train()
        with autocast(self.device):
            pieces = boards.pieces.unflatten(0, (boards.puzzles, -1))[: len(tiles)]
            pairs = cheap_pairs(self.mppn, pieces, boards.layout.gap)
            loss, figures = discriminator_loss(
                self.judge, tiles, *pairs, boards.layout.grid, generator
            )
        norm = self.judges.update(loss, rate, r.clip, step)
        return [loss.detach().float(), figures["top"], figures["swap"], norm]

    def evaluate(self, clock: Clock, cells: list[tuple[Cell, list[Boards]]], what: str) -> None:
        """Record the averaged networks' figures on validation pictures."""
        began = time.monotonic()
        for side in (self.makers, self.judges):
            side.average.copy_to(side.shadow)
        restorer, judge_net = self.makers.shadow, self.judges.shadow
        self.figures = evaluate_gaps(self.mppn, restorer, cells, autocast(self.device))
        boards = cells[-1][1]  # the discriminator is watched on 5×5 art
        generator = torch.Generator(self.device).manual_seed(11)
        verdicts = []
        with torch.no_grad(), autocast(self.device):
            for board in boards:
                gap, pitch = board.layout.gap, judge_net.cfg.pitch
                tiles = recover_tiles(self.mppn, restorer, board.pieces, float(gap), pitch)
                pairs = cheap_pairs(self.mppn, board.pieces[None], gap)
                verdicts.append(judge(judge_net, tiles[None], pairs, board.layout.grid, generator))
        found = Verdicts.join(verdicts)
        self.boards = found.figures()
        self.calibration = BoardCalibration(temperature=found.temperature())
        for name, figures in self.figures.items():
            self.metrics.write(kind=what, step=clock.step, cell=name, **figures)
        self.metrics.write(kind=what, step=clock.step, cell="boards", **self.boards)
        self.metrics.write(
            kind="evaluated", step=clock.step, temperature=self.calibration.temperature,
            seconds=time.monotonic() - began,
        )  # fmt: skip

    def save(self, clock: Clock) -> None:
        """Write the state of the run, and the averaged networks as they would be shipped."""
        r = self.recipe
        meta = {
            "format": 1, "step": clock.step, "used_s": clock.seconds,
            "total_minutes": clock.total_minutes, "mppn": self.model.sha256,
        }  # fmt: skip
        state = pack_state(self.restorer, self.makers.optimiser)
        other = pack_state(self.judge, self.judges.optimiser)
        save_shards(self.out, "resume", state | {f"judge/{k}": v for k, v in other.items()}, meta)
        for side in (self.makers, self.judges):
            side.average.copy_to(side.shadow)
        card = {
            "step": clock.step, "minutes": round(clock.seconds / 60.0, 2), "seed": r.seed,
            "pictures": {k: len(v) for k, v in self.store.images.items()}, "val": self.figures,
        }  # fmt: skip
        stem = self.out / "decoder"
        save_decoder(stem, self.makers.shadow, self.model.sha256, self.mppn.cfg, card)
        card = {**card, "val": {}, "boards": self.boards}
        save_discriminator(
            self.out / "discriminator", self.judges.shadow, load_decoder(stem).sha256,
            self.calibration, card,
        )  # fmt: skip

    def begin_with(self, folder: Path) -> None:
        """Start from trained networks, which may belong to another MPPN."""
        nets = (
            load_decoder(folder / "decoder").net,
            load_discriminator(folder / "discriminator").net,
        )
        if nets[0].cfg != self.recipe.decoder or nets[1].cfg != self.recipe.discriminator:
            raise SherdError(f"{folder}: its networks have other sizes; give them in --config")
        sides: tuple[Side[Any], ...] = (self.makers, self.judges)
        for side, net in zip(sides, nets, strict=True):
            side.net.load_state_dict(net.state_dict())
            side.average.copy_from(side.net)

    def resume(self, folder: Path, clock: Clock) -> None:
        """Go on from the checkpoint in ``folder``."""
        tensors, meta = load_shards(folder, "resume")
        if meta.get("format") != 1:
            raise SherdError(f"{folder}: checkpoint of format {meta.get('format')}; this reads 1")
        if meta.get("mppn") != self.model.sha256:
            raise SherdError(
                f"{folder}: was trained on MPPN {str(meta.get('mppn'))[:12]}…, --weights has "
                f"{self.model.sha256[:12]}…; give the same one or another --out"
            )
        clock.step, clock.used_s = int(meta["step"]), float(meta["used_s"])
        other = {k.removeprefix("judge/"): v for k, v in tensors.items() if k.startswith("judge/")}
        sides: tuple[tuple[Side[Any], dict[str, Tensor]], ...]
        sides = ((self.makers, tensors), (self.judges, other))
        for side, found in sides:
            unpack_state(found, clock.step, side.net, side.optimiser, fused=side.fused, what=folder)
            side.average.copy_from(side.net)
        if (folder / "decoder.json").exists():
            self.makers.average.copy_from(load_decoder(folder).net)
        if (folder / "discriminator.json").exists():
            self.judges.average.copy_from(load_discriminator(folder).net)


def train(
    data: Path, out: Path, model: Model, recipe: Recipe, clock: Clock, *, device: torch.device,
    resume: Path | None = None, start: Path | None = None, show: Show = print_row,
) -> Trainer:  # fmt: skip
    """Train until the clock says stop. Leaves a checkpoint, the networks and metrics in ``out``."""
    if not clock.started:
        clock.started = time.monotonic()
    store = load_store(data, "train", device, limit=recipe.limit, workers=recipe.workers)
    val = load_store(data, "val", device, limit=recipe.limit, workers=recipe.workers)
    out.mkdir(parents=True, exist_ok=True)
    if resume is None and (out / "resume-0.safetensors").exists():
        resume = out
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):  # initial weights and dropout, nobody else's
        torch.manual_seed(recipe.seed)
        run = Trainer(recipe, model, store, device, out, show)
        if resume is not None:
            run.resume(resume, clock)
        elif start is not None:
            run.begin_with(start)
        cells = val_boards(val, CELLS, recipe.val_images, device)
        clock.begin()
        counts = {
            name: sum(p.numel() for p in net.parameters())
            for name, net in (("parameters", run.restorer), ("judge_parameters", run.judge))
        }
        run.metrics.write(
            kind="start", step=clock.step, minutes=clock.seconds / 60.0, device=str(device),
            **counts, train=len(store), val=len(val), load_s=time.monotonic() - clock.started,
        )  # fmt: skip
        _loop(run, clock, cells)
        clock.stop()
        run.save(clock)  # a run that is cut off while it evaluates loses nothing
        run.evaluate(clock, val_boards(val, CELLS, 0, device), "val-all")
        run.save(clock)
        run.metrics.write(
            kind="end", step=clock.step, minutes=clock.seconds / 60.0, progress=clock.progress
        )
    return run


def _loop(run: Trainer, clock: Clock, cells: list[tuple[Cell, list[Boards]]]) -> None:
    r = run.recipe
    saved = evaluated = logged = time.monotonic()
    total = torch.zeros(len(LOSSES), device=run.device)
    count = bad = 0
    memory: dict[str, float] = {}
    while not clock.over:
        total += run.step(clock)
        count += 1
        if clock.step % r.log_every == 0:
            means = (total / count).tolist()  # the only wait for the device
            now = time.monotonic()
            if run.device.type == "cuda":
                memory = {"gpu_gib": torch.cuda.max_memory_allocated(run.device) / 2**30}
            run.metrics.write(
                kind="train", step=clock.step, progress=clock.progress,
                steps_per_s=count / (now - logged), **dict(zip(LOSSES, means, strict=True)),
                **memory,
            )  # fmt: skip
            bad = 0 if np.isfinite(means).all() else bad + 1  # one bad step is skipped
            if bad == 3:
                raise SherdError(f"step {clock.step}: the loss is not finite; lower lr in --config")
            total.zero_()
            count, logged = 0, now
        now = time.monotonic()
        if now - evaluated >= r.eval_s or now - saved >= r.save_s:
            if now - evaluated >= r.eval_s:
                run.evaluate(clock, cells, "val")
                evaluated = time.monotonic()
            run.save(clock)
            saved = logged = time.monotonic()
            total.zero_()
            count = 0


def run_training(
    data: Path, out: Path, *, weights: Path | None = None, minutes: float = 9.0,
    total_minutes: float = 18.0, steps: int = 0, total_steps: int = 0,
    resume: Path | None = None, start: Path | None = None, config: Path | None = None,
    device: str = "auto", show: Show = print_row,
) -> Trainer:  # fmt: skip
    """A run as a command line asks for it (see `main` for the options)."""
    started = time.monotonic()
    check_out(out)
    recipe = read_recipe(Recipe, config)
    where = pick_device(device)
    model = load_model(weights)
    clock = Clock(total_minutes, minutes, total_steps, steps, recipe.reserve_s, started=started)
    return train(
        data, out, model, recipe, clock, device=where, resume=resume, start=start, show=show
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    p = training_parser("restore", __doc__)
    add_schedule(p, 18.0)
    p.add_argument("--weights", type=Path, help="folder of the MPPN (default: the shipped one)")
    p.add_argument("--start", type=Path, help="folder of a decoder and discriminator to begin with")
    return run_training_command(p, run_training, argv)


if __name__ == "__main__":
    sys.exit(main())
