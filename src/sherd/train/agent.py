"""Recipe of the EvoRL agent: ``python -m sherd.train.agent --data DIR --out DIR``.

Perception runs once over the training pictures, then Algorithm 1 trains on what it said. With
``--dqn`` the DQN agent of the ablation is trained instead, on the same puzzles.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..agent.batch import Starts, start_boards
from ..agent.dqn import choose
from ..agent.gains import score
from ..agent.rules import Puzzles, apply, count_right
from ..agent.weights import Networks, save_agent, save_dqn
from ..errors import SherdError
from ..perception.mppn.weights import load_model
from .agent_data import (
    CELLS,
    Group,
    add_places,
    describe,
    join,
    load_groups,
    perceive_store,
    save_groups,
)
from .agent_dqn import DqnLearner
from .agent_ppo import Learner
from .agent_recipe import AgentRecipe
from .command import check_out, run_training_command, training_parser
from .loop import Clock, Metrics, Show, autocast, load_shards, pick_device, print_row, save_shards
from .recipe import read_recipe
from .store import load_store

EVIDENCE = "evidence.safetensors"
"""File in --out that keeps what perception said."""


def load_evidence(
    data: Path | None,
    out: Path,
    recipe: AgentRecipe,
    device: torch.device,
    *,
    weights: Path | None,
    evidence: Path | None,
) -> dict[str, list[Group]]:
    """Train and val groups: from ``evidence``, from an earlier run in ``out``, or perceived now."""
    path = evidence or out / EVIDENCE
    if evidence is not None or path.is_file():
        return load_groups(path, device)
    if data is None:
        raise SherdError("data: neither pictures (--data) nor evidence (--evidence) were given")
    model = load_model(weights)
    net = model.net.to(device)
    sets = {}
    for split, limit in (("train", recipe.limit), ("val", recipe.val_limit)):
        # pictures stay where they are cut
        store = load_store(data, split, torch.device("cpu"), workers=recipe.workers)
        sets[split] = perceive_store(
            net, model.calibration, store, CELLS, limit, device, autocast(device), recipe.workers
        )
    save_groups(path, sets)
    return load_groups(path, device)  # as a resumed run would read it


@torch.no_grad()
def play(learner: Learner | DqnLearner, puzzles: Puzzles, which: Tensor) -> tuple[Tensor, Tensor]:
    """Play the puzzles ``which`` from random boards, all side by side.

    Returns the boards of highest evidence ``(B, C)``, and their evidence.
    """
    layout, recipe = puzzles.layout, learner.recipe
    generator = torch.Generator(puzzles.device).manual_seed(0)
    boards = start_boards(puzzles, which, Starts(0.0, 0.0), generator)
    best, seen = boards, score(puzzles, boards, which)
    history: Tensor | None = None
    for _ in range(layout.cells + 10):
        if isinstance(learner, Learner):
            step = learner.agent.step(puzzles, boards, which, history, generator)
            boards, history = step.boards, step.history
        else:
            action, q = choose(learner.network, puzzles, boards, which, recipe.dqn, 0.0, generator)
            better = q > learner.network(puzzles, boards, which)
            boards = torch.where(better[:, None], apply(layout, boards, action), boards)
        now = score(puzzles, boards, which)
        best = torch.where((now > seen)[:, None], boards, best)
        seen = torch.maximum(seen, now)
    return best, seen


@torch.no_grad()
def validate(
    learner: Learner | DqnLearner, groups: list[Group], puzzles: Puzzles, limit: int = 0
) -> dict[str, dict[str, float]]:
    """Figures of validation puzzles, by group; at most ``limit`` of each (0 = all).

    ``groups`` are of one grid, and ``puzzles`` are theirs (`agent_data.join`).
    """
    counts, first, some = [], 0, []
    for group in groups:
        counts.append(min(len(group), limit or len(group)))
        some.append(torch.arange(first, first + counts[-1], device=puzzles.device))
        first += len(group)
    which = torch.cat(some)
    best, seen = play(learner, puzzles, which)
    right, layout = count_right(puzzles, best, which), puzzles.layout
    assert puzzles.truth is not None
    table = torch.stack(
        [
            right.perfect.float(), right.in_place / layout.cells,
            right.pairs / max(1, layout.links), seen / score(puzzles, puzzles.truth[which], which),
        ],
        dim=1,
    )  # fmt: skip
    names = ("perfect", "absolute", "neighbor", "evidence")
    means = torch.stack([part.mean(0) for part in table.split(counts)]).tolist()
    return {
        g.name: dict(zip(names, row, strict=True)) for g, row in zip(groups, means, strict=True)
    }


class Run:
    """One training run: the learner, its metrics and files."""

    def __init__(
        self, learner: Learner | DqnLearner, val: list[Group], out: Path, show: Show
    ) -> None:
        self.learner, self.val, self.out = learner, val, out
        self.metrics = Metrics(out / "metrics.jsonl", show)
        self.figures: dict[str, dict[str, float]] = {}
        grids: dict[tuple[int, int], list[Group]] = {}
        for group in val:
            grids.setdefault(group.puzzles.layout.grid, []).append(group)
        # groups of one grid are played side by side
        self._joined = [(groups, join(groups)) for groups in grids.values()]

    @property
    def stem(self) -> str:
        """Of the network's files."""
        return "agent" if isinstance(self.learner, Learner) else "dqn"

    def evaluate(self, clock: Clock, what: str, limit: int = 0) -> None:
        """Play the validation puzzles, at most ``limit`` of each kind (0 = all)."""
        for groups, puzzles in self._joined:
            for name, figures in validate(self.learner, groups, puzzles, limit).items():
                self.figures[name] = figures
                self.metrics.write(kind=what, step=clock.step, cell=name, **figures)

    def save(self, clock: Clock) -> None:
        """Write the state of the run, and the networks as they would be shipped."""
        meta = {"format": 1, "step": clock.step, "used_s": clock.seconds, "kind": self.stem,
                "seed": self.learner.recipe.seed}  # fmt: skip
        save_shards(self.out, f"resume-{self.stem}", self.learner.pack(), meta)
        recipe = self.learner.recipe
        card: dict[str, Any] = {
            "iterations": clock.step, "minutes": round(clock.seconds / 60.0, 2),
            "seed": recipe.seed, "puzzles": describe(self.learner.groups), "val": self.figures,
        }  # fmt: skip
        if isinstance(self.learner, Learner):
            networks = Networks(recipe.net)
            networks.actor.load_state_dict(self.learner.actor.state_dict())
            networks.evaluator.load_state_dict(self.learner.evaluator.state_dict())
            save_agent(self.out / "agent", networks, card)
        else:
            save_dqn(self.out / "dqn", self.learner.network, card)

    def resume(self, folder: Path, clock: Clock) -> None:
        """Go on from the checkpoint in ``folder``."""
        tensors, meta = load_shards(folder, f"resume-{self.stem}")
        if meta.get("format") != 1 or meta.get("kind") != self.stem:
            raise SherdError(f"{folder}: is no checkpoint of this agent; train anew in another")
        seed = meta.get("seed", self.learner.recipe.seed)
        if seed != self.learner.recipe.seed:
            raise SherdError(
                f"{folder}: was trained with seed {seed}, not {self.learner.recipe.seed}; "
                "go on with that seed, or train in another folder"
            )
        clock.step, clock.used_s = int(meta["step"]), float(meta["used_s"])
        self.learner.unpack(tensors, str(folder))


def train(
    sets: dict[str, list[Group]], out: Path, recipe: AgentRecipe, clock: Clock, *,
    device: torch.device, dqn: bool = False, resume: Path | None = None, show: Show = print_row,
) -> Run:  # fmt: skip
    """Train until the clock says stop. Leaves a checkpoint, the networks and metrics in ``out``."""
    if not clock.started:
        clock.started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    groups, val = sets["train"], sets.get("val", [])
    if not dqn:  # the DQN agent knows pair scores only
        groups, val = add_places(groups), add_places(val)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):  # initial weights, nobody else's
        torch.manual_seed(recipe.seed)
        learner: Learner | DqnLearner = (DqnLearner if dqn else Learner)(recipe, groups, device)
        run = Run(learner, val, out, show)
        if resume is None and (out / f"resume-{run.stem}-0.safetensors").exists():
            resume = out
        if resume is not None:
            run.resume(resume, clock)
        clock.begin()
        count = sum(p.numel() for m in learner.modules().values() for p in m.parameters())
        run.metrics.write(
            kind="start", step=clock.step, minutes=clock.seconds / 60.0, device=str(device),
            parameters=count, train=sum(map(len, groups)), val=sum(map(len, val)),
            load_s=time.monotonic() - clock.started,
        )  # fmt: skip
        if clock.step == 0:  # where the curve begins
            run.evaluate(clock, "val", recipe.glance)
        _loop(run, clock)
        clock.stop()
        run.save(clock)  # a run that is cut off while it evaluates loses nothing
        run.evaluate(clock, "val-all")
        run.save(clock)
        run.metrics.write(
            kind="end", step=clock.step, minutes=clock.seconds / 60.0, progress=clock.progress
        )
    return run


def _loop(run: Run, clock: Clock) -> None:
    r = run.learner.recipe
    saved = evaluated = logged = time.monotonic()
    rows: list[Mapping[str, Tensor | float]] = []
    while not clock.over:
        rows.append(run.learner.iterate(clock.step, clock.progress))
        clock.step += 1
        now = time.monotonic()
        if clock.step % r.log_every == 0:
            means = _means(rows)  # waits for the device
            now = time.monotonic()
            run.metrics.write(
                kind="train", step=clock.step, progress=clock.progress,
                steps_per_s=len(rows) / (now - logged), lr=_rate(run.learner),
                loss=means["value_error"], **means,
            )  # fmt: skip
            if not bool(torch.stack([torch.isfinite(p).all() for p in _parameters(run)]).all()):
                raise SherdError(f"step {clock.step}: weights are not finite; lower lr in --config")
            rows, logged = [], now
        if now - evaluated >= r.eval_s:
            run.evaluate(clock, "val", r.glance)
            evaluated = logged = time.monotonic()
            rows = []
        if now - saved >= r.save_s:
            run.save(clock)
            saved = logged = time.monotonic()
            rows = []


def _rate(learner: Learner | DqnLearner) -> float:
    """Learning rate of the actor, or of the Q network."""
    first = next(iter(learner.optimisers.values()))
    return float(first.param_groups[0]["lr"])


def _means(rows: list[Mapping[str, Tensor | float]]) -> dict[str, float]:
    """Means of figures that may still lie on the device: read once."""
    means: dict[str, float] = {}
    with torch.no_grad():
        for name, value in rows[0].items():
            if not isinstance(value, Tensor):
                means[name] = sum(float(row[name]) for row in rows) / len(rows)
        names = [n for n, value in rows[0].items() if isinstance(value, Tensor)]
        if names:
            table = [torch.stack([torch.as_tensor(row[n]) for n in names]) for row in rows]
            means |= dict(zip(names, torch.stack(table).mean(0).tolist(), strict=True))
    return means


def _parameters(run: Run) -> list[Tensor]:
    return [p for m in run.learner.modules().values() for p in m.parameters()]


def run_training(
    data: Path | None, out: Path, *, minutes: float = 9.0, iterations: int = 1000, steps: int = 0,
    resume: Path | None = None, config: Path | None = None, device: str = "auto",
    weights: Path | None = None, evidence: Path | None = None, dqn: bool = False,
    seed: int | None = None, show: Show = print_row,
) -> Run:  # fmt: skip
    """A run as a command line asks for it (see `main` for the options)."""
    started = time.monotonic()
    check_out(out)
    if iterations < 1:
        raise SherdError(f"iterations: {iterations}; expected at least 1")
    recipe = read_recipe(AgentRecipe, config)
    if seed is not None:
        recipe = replace(recipe, seed=seed)
    clock = Clock(1e6, minutes, iterations, steps, recipe.reserve_s, started=started)
    chosen = pick_device(device)
    sets = load_evidence(data, out, recipe, chosen, weights=weights, evidence=evidence)
    return train(sets, out, recipe, clock, device=chosen, dqn=dqn, resume=resume, show=show)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    p = training_parser("agent", __doc__, needs_data=False)
    p.add_argument("--iterations", type=int, default=1000, help="K, over all runs")
    p.add_argument("--weights", type=Path, help="folder of the perception network")
    p.add_argument("--evidence", type=Path, help="evidence of an earlier run, instead of --data")
    p.add_argument("--dqn", action="store_true", help="train the ablation's DQN agent instead")
    p.add_argument("--seed", type=int, help="of weights and games, instead of the recipe's")
    return run_training_command(p, run_training, argv)


if __name__ == "__main__":
    sys.exit(main())
