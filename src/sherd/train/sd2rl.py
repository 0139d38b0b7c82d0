"""Recipe of SD²RL: ``python -m sherd.train.sd2rl --data DIR --out DIR``.

Two parts, one after the other: the Siamese discriminant networks learn which pairs are neighbours
(binary cross entropy, neighbours weigh as much as all other pairs together), then the DQN learns
to swap pieces on what these networks say of training puzzles.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..agent.rules import from_tensors
from ..agent.weights import load_dqn
from ..errors import SherdError
from ..perception.mppn.weights import save_part
from ..perception.rivals.pixels import resample
from ..perception.rivals.sdn import SDN, SdnConfig
from ..perception.rivals.weights import FORMAT, load_rival
from . import agent, rivals
from .agent_data import CELLS as AGENT_CELLS
from .agent_data import Group, both_ways, load_groups, save_groups
from .agent_recipe import AgentRecipe
from .command import add_schedule, check_out, run_training_command, training_parser
from .data import Augment, Batch, draw_batch
from .evaluate import TEMPERATURES, Puzzles, cut_cells, neighbours
from .loop import Clock, Show, adamw, autocast, load_shards, pick_device, print_row
from .losses import Grid
from .recipe import read_recipe
from .store import Store, load_store
from .trainee import RivalRecipe, Step, Trainee, descend

PARTS = ("both", "sdn", "dqn")
ROUND = 256
"""The pieces of a step are a multiple of this."""
DONE = 0.99
"""Progress with which a part is over: the clock of a run may end a moment before its recipe."""


@dataclass(frozen=True)
class Sd2rlRecipe(RivalRecipe):
    """Everything that a run depends on beside its pictures."""

    net: SdnConfig = field(default_factory=SdnConfig)
    agent: AgentRecipe = field(default_factory=lambda: AgentRecipe(eval_s=120.0, reserve_s=20.0))
    """Of the DQN; of its fields only those count that a DQN has."""
    augment: Augment = field(
        default_factory=lambda: Augment(turn=0.0, colour=0.4, noise=0.1, blur=0.05)
    )
    """Less than the others have: these networks learn slowest."""
    share: float = 0.85
    """Of the time that the Siamese networks get; the DQN gets the rest."""
    lr: float = 1.5e-3
    weight_decay: float = 0.05
    budget: float = 2000.0
    most: int = 2400
    parts: int = 4
    """Geometries in a step, each with its share of the budget: batch norm sees a mixture."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parts < 1 or not 0 < self.share < 1:
            raise SherdError("parts must be at least 1, share between 0 and 1")


def pair_loss(logits: Tensor, grid: Grid, direction: int) -> tuple[Tensor, Tensor]:
    """Of ``logits (b, n, n)``: cross entropy and accuracy, neighbours and others half and half.

    Half of the loss asks of every pair whether it is right, half asks of every side with a
    neighbour which of all pieces that is: most wrong pairs are easy, and a side has a few that are
    not.
    """
    n = logits.shape[-1]
    at = torch.arange(n, device=logits.device)
    true = grid.after[direction][:, None] == at  # (n, n)
    other = ~true & (at[:, None] != at)
    loss, right = [], []
    for mask, sign in ((true, -1.0), (other, 1.0)):
        weight = mask / mask.sum().clamp(min=1)
        loss.append((F.softplus(sign * logits) * weight).sum((1, 2)).mean())
        right.append(((sign * logits < 0) * weight).sum((1, 2)).mean())
    binary, accuracy = 0.5 * (loss[0] + loss[1]), 0.5 * (right[0] + right[1])
    own = logits.masked_fill(at[:, None] == at, -1e4)
    return 0.5 * (binary + F.cross_entropy(*neighbours(own, grid, direction))), accuracy


class TrainSdn(Trainee[Sd2rlRecipe]):
    """The Siamese networks of both directions."""

    system: ClassVar[str] = "sdn"
    recipe_type = Sd2rlRecipe

    def __init__(self, recipe: Sd2rlRecipe, device: torch.device) -> None:
        super().__init__(recipe, device)
        self.net = SDN(recipe.net).to(device)
        self.optimiser = adamw([self.net], recipe.lr, recipe.weight_decay)
        self.temperature = recipe.net.temperature

    def modules(self) -> dict[str, nn.Module]:
        """Both networks as one."""
        return {"net": self.net}

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """AdamW."""
        return {"net": self.optimiser}

    def draw(
        self, store: Store, rng: np.random.Generator, generator: torch.Generator
    ) -> list[Batch]:
        """Puzzles of several geometries."""
        r = self.recipe
        budget, most = r.budget / r.parts, max(1, r.most // r.parts)
        return [
            draw_batch(store, r.mix, r.augment, budget, most, rng, generator)
            for _ in range(r.parts)
        ]

    def step(self, s: Step) -> dict[str, Tensor]:
        """Cross entropy of all pairs of both directions."""
        batches: list[Batch] = s.batch
        with autocast(self.device):
            x = torch.cat([resample(b.pieces, self.recipe.net.side) for b in batches])
            # a library that plans every convolution for its shape plans for few of them: some
            # pieces come twice
            count = len(x)
            x = x[torch.arange(-(-count // ROUND) * ROUND, device=self.device) % count]
            # depthwise convolutions on a GPU are twice as fast with the channels last
            x = x.contiguous(memory_format=torch.channels_last)
            losses, right = [], []
            for direction, net in enumerate((self.net.across, self.net.down)):
                embedded = net.encode(x)[:count].split([len(b.pieces) for b in batches])
                for batch, e in zip(batches, embedded, strict=True):
                    logits = net.all_pairs(e.unflatten(0, (batch.puzzles, -1))).float()
                    grid = Grid.of(batch.geometry.grid, self.device)
                    loss, accuracy = pair_loss(logits, grid, direction)
                    losses.append(loss)
                    right.append(accuracy.detach())
            total = torch.stack(losses).mean()
        norm = descend(self.optimiser, total, self.recipe.clip)
        return {"loss": total, "accuracy": torch.stack(right).mean(), "grad_norm": norm}

    def evaluate(
        self, nets: Mapping[str, nn.Module], puzzles: Sequence[Puzzles]
    ) -> dict[str, dict[str, float]]:
        """``neighbour``: share of sides whose likeliest neighbour is right; ``accuracy`` of pairs.

        Fits the temperature on the way.
        """
        net = nets["net"]
        assert isinstance(net, SDN)
        figures, curves = {}, []
        for cut in puzzles:
            rows, targets, right = [], [], []
            for direction, logits in enumerate(zip(*_look(net, cut), strict=True)):
                every = torch.cat(logits)
                right.append(pair_loss(every, cut.grid, direction)[1])
                own = torch.eye(every.shape[-1], dtype=torch.bool, device=every.device)
                found, want = neighbours(every.masked_fill(own, -1e4), cut.grid, direction)
                rows.append(found)
                targets.append(want)
            score, want = torch.cat(rows), torch.cat(targets)
            curve = torch.stack([F.cross_entropy(score / t, want) for t in TEMPERATURES.tolist()])
            curves.append(curve.cpu())
            figures[cut.cell.name] = {
                "neighbour": float((score.argmax(1) == want).float().mean()),
                "accuracy": float(torch.stack(right).mean()),
                "nll": float(curve.min()),
            }
        if curves:
            self.temperature = float(TEMPERATURES[int(torch.stack(curves).mean(0).argmin())])
        return figures

    def config(self) -> SdnConfig:
        """Sizes, and the temperature of the last evaluation."""
        return replace(self.recipe.net, temperature=self.temperature)

    def ship(self, nets: Mapping[str, nn.Module]) -> nn.Module:
        """Both networks as one."""
        return nets["net"]


def _look(net: SDN, cut: Puzzles, most: int = 1500) -> list[tuple[Tensor, Tensor]]:
    """Logits ``(b, n, n)`` of both directions, ``most`` pieces at a time."""
    out = []
    for chunk in cut.pieces.split(max(1, most // cut.pieces.shape[1])):
        pieces = chunk.flatten(0, 1).permute(0, 3, 1, 2).float() / 255.0
        right, below = net(pieces, len(chunk))
        out.append((right.float(), below.float()))
    return out


@torch.no_grad()
def perceive_store(
    net: SDN, store: Store, limit: int, device: torch.device, workers: int
) -> list[Group]:
    """What the Siamese networks say of the puzzles that the DQN learns on, a group per cell."""
    groups = []
    for cell in AGENT_CELLS:
        for cut in cut_cells(store, (cell,), limit, device, workers):
            with autocast(device):
                looks = _look(net, cut)
            h, v = (both_ways(torch.cat(part) / net.cfg.temperature)
                    for part in zip(*looks, strict=True))  # fmt: skip
            truth = cut.grid.board.expand(len(h), -1)
            groups.append(Group(cell.name, from_tensors(h, v, None, cell.grid, truth=truth)))
    return groups


def _evidence(
    data: Path, out: Path, recipe: Sd2rlRecipe, device: torch.device
) -> dict[str, list[Group]]:
    """Puzzles for the DQN: of an earlier run in ``out``, or perceived now."""
    path = out / agent.EVIDENCE
    if not path.is_file():
        net = load_rival("sdn", SdnConfig, SDN, out / "sdn").net.to(device)
        sets, r = {}, recipe.agent
        for split, limit in (("train", r.limit), ("val", r.val_limit)):
            store = load_store(data, split, device, limit=limit, workers=r.workers)
            sets[split] = perceive_store(net, store, limit, device, r.workers)
        save_groups(path, sets)
    return load_groups(path, device)  # as a resumed run would read it


def _trained(out: Path, total_minutes: float | None, total_steps: int) -> bool:
    """Whether the Siamese networks in ``out`` are done."""
    if not (out / "resume-0.safetensors").exists():
        return False
    meta = load_shards(out, "resume")[1]
    if total_steps:
        return int(meta["step"]) >= total_steps
    total = meta["total_minutes"] if total_minutes is None else total_minutes
    return float(meta["used_s"]) >= DONE * 60.0 * float(total)


def train_dqn(
    data: Path, out: Path, recipe: Sd2rlRecipe, clock: Clock, *, device: torch.device,
    fit: bool = False, show: Show = print_row,
) -> agent.Run:  # fmt: skip
    """The second part: needs the Siamese networks in ``out``. Leaves ``sd2rl.safetensors``.

    ``fit``: the recipe is as long as this run, less what perception takes.
    """
    sdn = load_rival("sdn", SdnConfig, SDN, out / "sdn")
    sets = _evidence(data, out, recipe, device)
    if fit:
        spent = time.monotonic() - clock.started + clock.reserve_s
        clock.total_minutes = max(0.01, clock.run_minutes - spent / 60.0)
    run = agent.train(sets, out, recipe.agent, clock, device=device, dqn=True, show=show)
    found = load_dqn(out / "dqn")
    about = {"card": dict(found.card), "sdn": sdn.sha256}
    save_part(out / "sd2rl", found.network, "sherd-sd2rl", about, version=FORMAT)
    return run


def run_training(
    data: Path, out: Path, *, minutes: float = 9.0, total_minutes: float | None = None,
    steps: int = 0, total_steps: int = 0, resume: Path | None = None, config: Path | None = None,
    device: str = "auto", show: Show = print_row, part: str = "both",
) -> rivals.Run | agent.Run:  # fmt: skip
    """A run as a command line asks for it (see `main`); returns its last part.

    Steps are those of each part: steps of the Siamese networks, iterations of the DQN.
    """
    started = time.monotonic()
    if part not in PARTS:
        raise SherdError(f"part: {part!r}; expected one of {', '.join(PARTS)}")
    check_out(out)
    recipe = read_recipe(Sd2rlRecipe, config)
    chosen = pick_device(device)
    share = recipe.share if part == "both" else 1.0
    first = None if total_minutes is None else share * total_minutes
    run: rivals.Run | agent.Run | None = None
    if part == "sdn" or (part == "both" and not _trained(out, first, total_steps)):
        mine = minutes if total_minutes is not None else share * minutes
        clock = Clock(first or mine, mine, total_steps, steps, recipe.reserve_s, started=started)
        run = rivals.train(
            TrainSdn, data, out, recipe, clock, device=chosen, resume=resume,
            fit=total_minutes is None, show=show,
        )  # fmt: skip
        left = minutes - (time.monotonic() - started) / 60.0
        if part == "sdn" or clock.progress < DONE or left * 60.0 <= 2.0 * recipe.agent.reserve_s:
            return run
    whole = minutes if total_minutes is None else total_minutes
    length = whole if part == "dqn" else (1.0 - share) * whole
    clock = Clock(length, minutes, total_steps, steps, recipe.agent.reserve_s, started=started)
    fit = total_minutes is None
    return train_dqn(data, out, recipe, clock, device=chosen, fit=fit, show=show)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    p = training_parser("sd2rl", __doc__)
    add_schedule(p, None)
    p.add_argument("--part", default="both", help="both, sdn or dqn")
    return run_training_command(p, run_training, argv)


if __name__ == "__main__":
    sys.exit(main())
