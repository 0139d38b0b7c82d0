"""Training of the perception network: ``python -m sherd.train.perception --data DIR --out DIR``."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..errors import SherdError
from ..perception.mppn.config import Calibration
from ..perception.mppn.network import MPPN
from ..perception.mppn.seams import seam_logits
from ..perception.mppn.weights import load_model, save_model
from .command import add_schedule, check_out, run_training_command, training_parser
from .data import Batch, draw_batch, upload
from .evaluate import CELLS, CellReport, Puzzles, calibrate, cut_cells, evaluate
from .fleet import Fleet
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
from .losses import (
    Grid,
    border_loss,
    draw_puzzlets,
    neighbour_loss,
    puzzlet_loss,
    score_pairs,
    score_puzzlets,
)
from .perception_recipe import Recipe
from .recipe import read_recipe
from .store import Store, load_store

LOSSES = ("loss", "base", "fused", "puzzlet", "border")


def batch_losses(
    net: MPPN, batch: Batch, recipe: Recipe, rng: np.random.Generator, generator: torch.Generator
) -> Tensor:
    """``(5,)`` as named in `LOSSES`; the first is the one to minimise."""
    device = batch.pieces.device
    grid = Grid.of(batch.geometry.grid, device)
    n = batch.geometry.grid[0] * batch.geometry.grid[1]
    hidden = rng.random(batch.puzzles) < recipe.unknown_gap
    missing = batch.geometry.missing
    gap = upload(np.where(hidden, -1.0, missing).astype(np.float32), device).repeat_interleave(n)
    x = net.encode(batch.pieces, gap)
    tokens = net.tokens(x, batch.puzzles)
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        seams = seam_logits(
            batch.pieces.unflatten(0, (batch.puzzles, n)), [None if h else missing for h in hidden]
        )
    bases = [net.base(x, tokens, seams[d], d) for d in (0, 1)]
    ranks = rng.choice(recipe.reach, recipe.spread, replace=False).tolist()
    pairs = [score_pairs(net, x, bases[d], d, grid, recipe.hard, ranks) for d in (0, 1)]
    base = 0.5 * sum(neighbour_loss(p.base.score, grid, d) for d, p in enumerate(pairs))
    fused = 0.5 * sum(neighbour_loss(p.fused, grid, d) for d, p in enumerate(pairs))
    members = draw_puzzlets(pairs, grid, max(1, recipe.groups // batch.puzzles), generator)
    puzzlet = puzzlet_loss(score_puzzlets(net, x, members, pairs))
    border = border_loss(net.border_logits(x, tokens), grid, batch.full)
    total = (
        recipe.base_weight * base
        + recipe.fused_weight * fused
        + recipe.puzzlet_weight * puzzlet
        + recipe.border_weight * border
    )
    return torch.stack([torch.as_tensor(v) for v in (total, base, fused, puzzlet, border)])


class Trainer:
    """One run: state, and what is done with it from time to time."""

    def __init__(
        self, recipe: Recipe, store: Store, device: torch.device, out: Path, show: Show,
        fleet: Fleet,
    ) -> None:  # fmt: skip
        self.recipe, self.store, self.device, self.out = recipe, store, device, out
        self.fleet = fleet
        self.net = MPPN(recipe.net).to(device)
        self.shadow = copy.deepcopy(self.net).requires_grad_(False)
        self.fused = device.type == "cuda"
        self.optimiser = adamw([self.net], recipe.lr, recipe.weight_decay)
        self.average = Average(self.net, recipe.decay)
        self.metrics = Metrics(out / "metrics.jsonl", show)
        self.calibration = Calibration()
        self.figures: dict[str, dict[str, float]] = {}

    def step(self, clock: Clock, progress: float) -> Tensor:
        """One step of the optimiser; returns the losses and the gradient's norm, unsynchronised."""
        r = self.recipe
        # random state comes from the step alone, so a resumed run draws what it would have drawn
        rng = self.fleet.rng(r.seed, clock.step)
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**62)))
        batch = draw_batch(self.store, r.mix, r.augment, r.budget, r.most, rng, generator)
        rate = learning_rate(progress, r.lr, r.warm_up, r.lr_floor)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.net.train()
        with autocast(self.device):
            losses = batch_losses(self.net, batch, r, rng, generator)
        self.optimiser.zero_grad(set_to_none=True)
        losses[0].backward()
        losses = self.fleet.average(self.net.parameters(), losses)
        norm = clip_gradients(self.net.parameters(), r.clip)
        self.optimiser.step()
        clock.step += 1
        self.average.update(clock.step)
        return torch.cat([losses.detach().float(), norm[None].float()])

    def evaluate(self, clock: Clock, cells: list[Puzzles], what: str) -> None:
        """Evaluate the averaged weights, fit the temperatures and record both."""
        began = time.monotonic()
        self.average.copy_to(self.shadow)
        reports: list[CellReport] = evaluate(self.shadow, cells, autocast(self.device))
        self.calibration = calibrate(reports)
        self.figures = {r.cell.name: r.figures for r in reports}
        for report in reports:
            self.metrics.write(kind=what, step=clock.step, cell=report.cell.name, **report.figures)
        self.metrics.write(
            kind="calibration", step=clock.step, **self.calibration.asdict(),
            seconds=time.monotonic() - began,
        )  # fmt: skip

    def save(self, clock: Clock) -> None:
        """Write the state of the run, and the averaged network as it would be shipped."""
        meta = {
            "format": 1, "step": clock.step, "used_s": clock.seconds,
            "total_minutes": clock.total_minutes, "net": self.recipe.net.asdict(),
        }  # fmt: skip
        save_shards(self.out, "resume", pack_state(self.net, self.optimiser), meta)
        self.average.copy_to(self.shadow)
        card = {
            "step": clock.step, "minutes": round(clock.seconds / 60.0, 2), "seed": self.recipe.seed,
            "pictures": {k: len(v) for k, v in self.store.images.items()}, "val": self.figures,
        }  # fmt: skip
        save_model(self.out / "mppn", self.shadow, self.calibration, card)

    def begin_with(self, net: MPPN) -> None:
        """Start from the weights of a trained network.

        The pair heads may have more blocks than its own: such a block adds nothing at first.
        """
        cfg = self.recipe.net
        if net.cfg.pair_blocks > cfg.pair_blocks or cfg != replace(
            net.cfg, pair_blocks=cfg.pair_blocks
        ):
            raise SherdError(
                "start: that network has other sizes; give its [net] in --config "
                "(only pair_blocks may be more)"
            )
        self.net.load_state_dict(net.state_dict(), strict=False)
        self.average.copy_from(self.net)

    def resume(self, folder: Path, clock: Clock) -> None:
        """Go on from the checkpoint in ``folder``."""
        tensors, meta = load_shards(folder, "resume")
        if meta.get("format") != 1:
            raise SherdError(f"{folder}: checkpoint of format {meta.get('format')}; this reads 1")
        clock.step, clock.used_s = int(meta["step"]), float(meta["used_s"])
        unpack_state(tensors, clock.step, self.net, self.optimiser, fused=self.fused, what=folder)
        beside = (folder / "mppn.json").exists()
        self.average.copy_from(load_model(folder).net if beside else self.net)


def train(
    data: Path, out: Path, recipe: Recipe, clock: Clock, *, device: torch.device,
    resume: Path | None = None, start: Path | None = None, show: Show = print_row,
    fleet: Fleet = Fleet(),
) -> Trainer:  # fmt: skip
    """Train until the clock says stop. Leaves a checkpoint, the network and metrics in ``out``.

    In a fleet every process trains, and the main one does the rest.
    """
    if not clock.started:
        clock.started = time.monotonic()
    store = load_store(data, "train", device, limit=recipe.limit, workers=recipe.workers)
    val = load_store(data, "val", device, limit=recipe.limit, workers=recipe.workers)
    if fleet.main:
        out.mkdir(parents=True, exist_ok=True)
    if resume is None and (out / "resume-0.safetensors").exists():
        resume = out
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):  # initial weights and dropout, nobody else's
        torch.manual_seed(recipe.seed)
        run = Trainer(recipe, store, device, out, show, fleet)
        if resume is not None:
            run.resume(resume, clock)
        elif start is not None:
            run.begin_with(load_model(start).net)
        (step,) = fleet.tell(clock.step)
        if step != clock.step:
            raise SherdError(
                f"{out}: process {fleet.rank} goes on from step {clock.step}, the main one from "
                f"step {step:.0f}; all need the same folder"
            )
        if not fleet.main:
            torch.manual_seed(int(fleet.rng(recipe.seed, clock.step).integers(2**62)))  # dropout
            _loop(run, clock, [])
            return run
        cells = cut_cells(val, CELLS, recipe.val_images, device, recipe.workers)
        clock.begin()
        run.metrics.write(
            kind="start", step=clock.step, minutes=clock.seconds / 60.0, device=str(device),
            processes=fleet.size,
            parameters=sum(p.numel() for p in run.net.parameters()),
            train=len(store), val=len(val), load_s=time.monotonic() - clock.started,
        )  # fmt: skip
        _loop(run, clock, cells)
        clock.stop()
        run.save(clock)  # a run that is cut off while it evaluates loses nothing
        run.evaluate(clock, cut_cells(val, CELLS, 0, device, recipe.workers), "val-all")
        run.save(clock)
        run.metrics.write(
            kind="end", step=clock.step, minutes=clock.seconds / 60.0, progress=clock.progress
        )
    return run


def _loop(run: Trainer, clock: Clock, cells: list[Puzzles]) -> None:
    r = run.recipe
    saved = evaluated = logged = time.monotonic()
    total = torch.zeros(len(LOSSES) + 1, device=run.device)
    count = bad = 0
    memory: dict[str, float] = {}
    while True:
        # the main process's clock is everybody's: one learning rate, one last step
        over, progress = run.fleet.tell(clock.over, clock.progress)
        if over:
            return
        total += run.step(clock, progress)
        count += 1
        if not run.fleet.main:
            continue
        if clock.step % r.log_every == 0:
            means = (total / count).tolist()  # the only wait for the device
            now = time.monotonic()
            rate = learning_rate(clock.progress, r.lr, r.warm_up, r.lr_floor)
            if run.device.type == "cuda":
                memory = {"gpu_gib": torch.cuda.max_memory_allocated(run.device) / 2**30}
            run.metrics.write(
                kind="train", step=clock.step, progress=clock.progress, lr=rate,
                steps_per_s=count / (now - logged),
                **dict(zip((*LOSSES, "grad_norm"), means, strict=True)), **memory,
            )  # fmt: skip
            bad = 0 if np.isfinite(means[0]) else bad + 1  # one bad step is skipped, many are not
            if bad == 3:
                raise SherdError(f"step {clock.step}: the loss is not finite; lower lr in --config")
            total.zero_()
            count, logged = 0, now
        now = time.monotonic()
        if now - evaluated >= r.eval_s:
            run.evaluate(clock, cells, "val")
            evaluated = logged = time.monotonic()
            total.zero_()
            count = 0
        if now - saved >= r.save_s:
            run.save(clock)
            saved = logged = time.monotonic()
            total.zero_()
            count = 0


def run_training(
    data: Path, out: Path, *, minutes: float = 9.0, total_minutes: float = 27.0, steps: int = 0,
    total_steps: int = 0, resume: Path | None = None, start: Path | None = None,
    config: Path | None = None, device: str = "auto", show: Show = print_row,
) -> Trainer:  # fmt: skip
    """A run as a command line asks for it (see `main` for the options)."""
    started = time.monotonic()
    check_out(out)
    recipe = read_recipe(Recipe, config)
    clock = Clock(total_minutes, minutes, total_steps, steps, recipe.reserve_s, started=started)
    place = pick_device(device)
    with Fleet.of_environment(place) as fleet:
        return train(
            data, out, recipe, clock, device=fleet.own(place), resume=resume, start=start,
            show=show, fleet=fleet,
        )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    p = training_parser("perception", __doc__)
    add_schedule(p, 27.0)
    p.add_argument("--start", type=Path, help="folder of a network to begin with")
    return run_training_command(p, run_training, argv)


if __name__ == "__main__":
    sys.exit(main())
