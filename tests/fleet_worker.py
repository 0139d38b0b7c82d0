"""One process of a fleet, as a launcher would start it: ``fleet_worker.py DATA OUT NOTES``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sherd.cli.main import run
from sherd.train import perception
from sherd.train.evaluate import CELLS
from sherd.train.fleet import Fleet
from sherd.train.loop import Clock, clip_gradients
from test_train_perception import CPU, RECIPE


def state(trainer: perception.Trainer) -> dict[str, Any]:
    return {
        "net": [p.detach().clone() for p in trainer.net.parameters()],
        "mean": [m.clone() for m in trainer.average.mean],
        "figures": trainer.figures,
    }


def gradients(fleet: Fleet) -> dict[str, Any]:
    """What becomes of gradients of which only one process has some, or one is not finite."""
    a, b, c = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    a.grad = torch.tensor([1.0, 2.0]) * (fleet.rank + 1)
    if fleet.main:
        b.grad = torch.tensor([4.0, 6.0])
    losses = fleet.average([a, b], torch.tensor([1.0, 5.0]) * (fleet.rank + 1))
    c.grad = torch.tensor([1.0, 1.0 if fleet.main else torch.nan])
    fleet.average([c], torch.zeros(1))
    norm = clip_gradients([c], 1.0)
    return {"a": a.grad, "b": b.grad, "losses": losses, "norm": norm, "c": c.grad}


def main(data: Path, out: Path, notes: Path) -> None:
    torch.set_num_threads(1)
    perception.CELLS = (replace(CELLS[0], grid=(3, 4), piece=24),)
    perception.read_recipe = lambda cls, path: RECIPE
    fleet = Fleet.of_environment(CPU)
    note = gradients(fleet)
    # clocks differ: the main one's says two steps of four
    clock = Clock(1.0, 60.0, total_steps=4, run_steps=2 if fleet.main else 50)
    if not fleet.main:
        clock.total_steps = 9
    note["first"] = state(perception.train(data, out, RECIPE, clock, device=CPU, fleet=fleet))
    note["steps"] = clock.step
    train = perception.train

    def noted(*args: Any, **options: Any) -> perception.Trainer:
        trainer = train(*args, **options)
        note["second"] = state(trainer)
        return trainer

    perception.train = noted
    usual = ["--data", str(data), "--out", str(out), "--device", "cpu", "--total-steps", "4"]
    try:
        run(["train", "perception", *usual])
    except SystemExit as end:
        note["code"] = end.code
    torch.save(note, notes / f"{fleet.rank}.pt")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
