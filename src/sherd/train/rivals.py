"""The frame in which the compared systems are trained: one loop, a file per system.

A system is a `Trainee`: it makes its networks and optimisers, takes a step on a batch, and is
judged on validation puzzles. The frame has the clock, the rate, averaged weights, checkpoints,
metrics and the weights file. A run that was interrupted goes on as if it had not been.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import SherdError
from ..perception.rivals.weights import file_stem, save_rival
from .command import add_schedule, check_out, run_training_command, training_parser
from .evaluate import Puzzles, cut_cells
from .loop import (
    Average,
    Clock,
    Metrics,
    Show,
    autocast,
    learning_rate,
    load_shards,
    pick_device,
    print_row,
    save_shards,
)
from .recipe import read_recipe
from .store import Store, load_store
from .trainee import R, RivalRecipe, Step, Trainee


class Run:
    """One run: the system, its averaged weights, and what is done with them from time to time."""

    def __init__(self, trainee: Trainee[Any], store: Store, out: Path, show: Show) -> None:
        self.trainee, self.store, self.out = trainee, store, out
        self.recipe: RivalRecipe = trainee.recipe
        self.nets = trainee.modules()
        self.shadows = {
            name: copy.deepcopy(net).eval().requires_grad_(False) for name, net in self.nets.items()
        }
        self.averages = {name: Average(n, self.recipe.decay) for name, n in self.nets.items()}
        self.optimisers = trainee.optimisers()
        self.peaks = {
            name: [group["lr"] for group in o.param_groups] for name, o in self.optimisers.items()
        }
        self.metrics = Metrics(out / "metrics.jsonl", show)
        self.figures: dict[str, dict[str, float]] = {}

    @property
    def stem(self) -> str:
        """Of the weights file."""
        return file_stem(self.trainee.system)

    def step(self, clock: Clock) -> dict[str, Tensor]:
        """Draw a batch and learn from it."""
        r = self.recipe
        # random state comes from the step alone, so a resumed run draws what it would have drawn
        rng = np.random.default_rng([r.seed, clock.step])
        seed = int(rng.integers(2**62))
        torch.manual_seed(seed)  # dropout; `train` keeps this from the rest of the program
        generator = torch.Generator(self.trainee.device).manual_seed(seed)
        progress = clock.progress
        for name, optimiser in self.optimisers.items():
            for group, peak in zip(optimiser.param_groups, self.peaks[name], strict=True):
                group["lr"] = learning_rate(progress, peak, r.warm_up, r.lr_floor)
        for net in self.nets.values():
            net.train()
        batch = self.trainee.draw(self.store, rng, generator)
        losses = self.trainee.step(Step(batch, rng, generator, progress, clock.step))
        clock.step += 1
        for average in self.averages.values():
            average.update(clock.step)
        return {name: v.detach().float() for name, v in losses.items()}

    def averaged(self) -> dict[str, nn.Module]:
        """The averaged networks; buffers (statistics of a batch norm) are the latest."""
        for name, shadow in self.shadows.items():
            shadow.load_state_dict(self.nets[name].state_dict())
            self.averages[name].copy_to(shadow)
        return self.shadows

    def evaluate(self, clock: Clock, puzzles: Sequence[Puzzles], what: str) -> None:
        """Record the averaged networks' figures on validation puzzles."""
        began = time.monotonic()
        with torch.no_grad(), autocast(self.trainee.device):
            self.figures = self.trainee.evaluate(self.averaged(), puzzles)
        for name, figures in self.figures.items():
            self.metrics.write(kind=what, step=clock.step, cell=name, **figures)
        seconds = time.monotonic() - began
        self.metrics.write(kind="evaluated", step=clock.step, seconds=seconds)

    def save(self, clock: Clock) -> None:
        """Write the state of the run, and the averaged networks as they would be shipped."""
        tensors = {f"extra/{k}": v for k, v in self.trainee.state().items()}
        for name, net in self.nets.items():
            tensors |= {f"net/{name}/{k}": v for k, v in net.state_dict().items()}
            means = self.averages[name].mean
            tensors |= {f"mean/{name}/{k}": v for k, v in enumerate(means)}
        for name, optimiser in self.optimisers.items():
            for k, state in optimiser.state_dict()["state"].items():
                tensors |= {f"opt/{name}/{k}/{key}": v for key, v in state.items()}
        meta = {
            "format": 1, "system": self.trainee.system, "step": clock.step,
            "used_s": clock.seconds, "total_minutes": clock.total_minutes,
        }  # fmt: skip
        save_shards(self.out, "resume", tensors, meta)
        card = {
            "step": clock.step, "minutes": round(clock.seconds / 60.0, 2),
            "pictures": {k: len(v) for k, v in self.store.images.items()},
            "val": self.figures, "recipe": asdict(self.recipe),
        }  # fmt: skip
        net = self.trainee.ship(self.averaged())
        save_rival(self.out / self.stem, self.trainee.system, net, self.trainee.config(), card)

    def resume(self, folder: Path, clock: Clock) -> float:
        """Go on from the checkpoint in ``folder``; returns the minutes of its whole recipe."""
        tensors, meta = load_shards(folder, "resume")
        system = self.trainee.system
        if meta.get("format") != 1 or meta.get("system") != system:
            raise SherdError(
                f"{folder}: holds a checkpoint of {meta.get('system', 'something else')}, "
                f"not of {system}; give another --out"
            )
        clock.step, clock.used_s = int(meta["step"]), float(meta["used_s"])
        for name, net in self.nets.items():
            found = _below(tensors, f"net/{name}/")
            wanted = {k: v.shape for k, v in net.state_dict().items()}
            if {k: v.shape for k, v in found.items()} != wanted:
                raise SherdError(
                    f"{folder}: {name} has other sizes there; resume with the configuration it "
                    "was trained with"
                )
            net.load_state_dict(found)
            for k, mean in enumerate(self.averages[name].mean):
                mean.copy_(tensors[f"mean/{name}/{k}"])
        for name, optimiser in self.optimisers.items():
            states: dict[int, dict[str, Tensor]] = {}
            for key, value in _below(tensors, f"opt/{name}/").items():
                number, what = key.split("/")
                states.setdefault(int(number), {})[what] = value
            groups = optimiser.state_dict()["param_groups"]
            optimiser.load_state_dict({"state": states, "param_groups": groups})
        self.trainee.restore(_below(tensors, "extra/"))
        return float(meta["total_minutes"])


def _below(tensors: Mapping[str, Tensor], head: str) -> dict[str, Tensor]:
    return {k.removeprefix(head): v for k, v in tensors.items() if k.startswith(head)}


def train(
    cls: type[Trainee[R]], data: Path, out: Path, recipe: R, clock: Clock, *,
    device: torch.device, resume: Path | None = None, fit: bool = False, show: Show = print_row,
) -> Run:  # fmt: skip
    """Train until the clock says stop. Leaves a checkpoint, the weights and metrics in ``out``.

    ``fit``: the recipe is as long as this run (or as the run that is resumed said it is).
    """
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
        run = Run(cls(recipe, device), store, out, show)
        total = run.resume(resume, clock) if resume is not None else 0.0
        cells = cut_cells(val, cls.cells, recipe.val_images, device, recipe.workers)
        if fit:
            spent = time.monotonic() - clock.started + recipe.reserve_s
            clock.total_minutes = total or max(0.01, clock.run_minutes - spent / 60.0)
        clock.begin()
        run.metrics.write(
            kind="start", step=clock.step, minutes=clock.seconds / 60.0, device=str(device),
            parameters=sum(p.numel() for n in run.nets.values() for p in n.parameters()),
            train=len(store), val=len(val), load_s=time.monotonic() - clock.started,
        )  # fmt: skip
        _loop(run, clock, cells)
        clock.stop()
        run.save(clock)  # a run that is cut off while it evaluates loses nothing
        every = cut_cells(val, cls.cells, 0, device, recipe.workers)
        run.evaluate(clock, every, "val-all")
        run.save(clock)
        run.metrics.write(
            kind="end", step=clock.step, minutes=clock.seconds / 60.0, progress=clock.progress
        )
    return run


def _loop(run: Run, clock: Clock, cells: Sequence[Puzzles]) -> None:
    r = run.recipe
    saved = evaluated = logged = time.monotonic()
    sums: dict[str, Tensor] = {}
    counts: dict[str, int] = {}
    first, bad = clock.step, 0
    memory: dict[str, float] = {}
    while not clock.over:
        for name, value in run.step(clock).items():
            sums[name] = sums.get(name, 0.0) + value
            counts[name] = counts.get(name, 0) + 1
        if clock.step % r.log_every == 0:
            totals = torch.stack(list(sums.values())).tolist()  # the only wait for the device
            means = {k: v / counts[k] for k, v in zip(sums, totals, strict=True)}
            now = time.monotonic()
            if run.trainee.device.type == "cuda":
                memory = {"gpu_gib": torch.cuda.max_memory_allocated() / 2**30}
            run.metrics.write(
                kind="train", step=clock.step, progress=clock.progress,
                lr=learning_rate(clock.progress, r.lr, r.warm_up, r.lr_floor),
                steps_per_s=(clock.step - first) / max(1e-9, now - logged), **means, **memory,
            )  # fmt: skip
            bad = 0 if np.isfinite(totals).all() else bad + 1  # one bad step is skipped
            if bad == 3:
                raise SherdError(f"step {clock.step}: the loss is not finite; lower lr in --config")
            sums, counts, first, logged = {}, {}, clock.step, now
        now = time.monotonic()
        if now - evaluated >= r.eval_s or now - saved >= r.save_s:
            if now - evaluated >= r.eval_s:
                run.evaluate(clock, cells, "val")
                evaluated = time.monotonic()
            run.save(clock)
            saved = logged = time.monotonic()
            sums, counts, first = {}, {}, clock.step


def run_training(
    cls: type[Trainee[Any]], data: Path, out: Path, *, minutes: float = 9.0,
    total_minutes: float | None = None, steps: int = 0, total_steps: int = 0,
    resume: Path | None = None, config: Path | None = None, device: str = "auto",
    show: Show = print_row,
) -> Run:  # fmt: skip
    """A run as a command line asks for it (see `main` for the options)."""
    started = time.monotonic()
    check_out(out)
    recipe = read_recipe(cls.recipe_type, config)
    total = minutes if total_minutes is None else total_minutes
    clock = Clock(total, minutes, total_steps, steps, recipe.reserve_s, started=started)
    return train(
        cls, data, out, recipe, clock, device=pick_device(device), resume=resume,
        fit=total_minutes is None, show=show,
    )  # fmt: skip


def main(cls: type[Trainee[Any]], argv: Sequence[str] | None = None) -> int:
    """The command line of a system."""
    p = training_parser(file_stem(cls.system), f"Training of {cls.system}.")
    add_schedule(p, None)
    return run_training_command(p, partial(run_training, cls), argv)
