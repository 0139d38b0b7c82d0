"""What a compared system has to be, to be trained: a recipe, networks, a step, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import SherdError
from .data import Augment, Entry, draw_batch
from .evaluate import Cell, Puzzles, auc, neighbours
from .loop import clip_gradients
from .losses import Grid
from .store import Store

MIX = (
    # photographs as the MIT table cuts them, by missing pixels and by pixels off each side
    Entry(0.40, (4, 7), (5, 10), (64,), (0, 1, 2, 2, 3, 4, 4, 4, 6, 8), art=0.15),
    Entry(0.20, (4, 7), (5, 10), (64,), (1, 2, 2, 3, 4), "side", art=0.15),
    # JPLEG-5
    Entry(0.40, (5, 5), (5, 5), (96,), (12,), jitter=(3,), art=0.85),
)
CELLS = (
    Cell("photo-gap0", "photos", (7, 10), 64, 0),
    Cell("photo-gap2", "photos", (7, 10), 64, 2),
    Cell("photo-gap4", "photos", (7, 10), 64, 4),
    Cell("photo-side2", "photos", (7, 10), 64, 2, "side"),
    Cell("art-gap12", "art5", (5, 5), 96, 12, jitter=3),
)


@dataclass(frozen=True)
class RivalRecipe:
    """What every recipe has; a system's own recipe inherits it and adds its networks' sizes."""

    augment: Augment = field(default_factory=Augment)
    mix: tuple[Entry, ...] = MIX
    seed: int = 0
    lr: float = 1e-3
    """Peak learning rate."""
    warm_up: float = 0.02
    """Share of the recipe."""
    lr_floor: float = 0.01
    """Last learning rate, as a share of the peak."""
    weight_decay: float = 0.01
    clip: float = 1.0
    """Largest norm of a gradient."""
    decay: float = 0.999
    """Of the averaged weights, which are evaluated and shipped."""
    budget: float = 800.0
    """Pieces of 64 px in a step; larger ones count more."""
    most: int = 1200
    """Most pieces in a step."""
    limit: int = 0
    """Most pictures of each kind (0 = all)."""
    val_images: int = 16
    """Pictures per cell while training; the last evaluation uses all."""
    log_every: int = 50
    """Steps."""
    save_s: float = 90.0
    """Seconds between checkpoints."""
    eval_s: float = 120.0
    """Seconds between evaluations."""
    reserve_s: float = 30.0
    """Seconds at the end of a run for the last evaluation."""
    workers: int = 16

    def __post_init__(self) -> None:
        for name in ("lr", "clip", "budget", "most", "log_every", "workers"):
            if getattr(self, name) <= 0:
                raise SherdError(f"{name}: {getattr(self, name)}; expected more than 0")
        for name in ("warm_up", "lr_floor", "decay"):
            if not 0 <= getattr(self, name) < 1:
                raise SherdError(f"{name}: {getattr(self, name)}; expected at least 0, below 1")
        if not self.mix or sum(e.weight for e in self.mix) <= 0:
            raise SherdError("mix: is empty; give at least one entry with a weight")


R = TypeVar("R", bound=RivalRecipe)


@dataclass(frozen=True)
class Step:
    """What a step is taken with. All that is random comes from the seed and the step's number."""

    batch: Any
    """What `Trainee.draw` returned."""
    rng: np.random.Generator
    generator: torch.Generator
    """On the device."""
    progress: float
    """0 at the start of the recipe, 1 at its end."""
    number: int


class Trainee(Generic[R]):
    """Base of every trained system.

    A subclass sets ``system`` and ``recipe_type``, and implements `modules`, `optimisers`, `step`,
    `evaluate` and `config`; the rest may stay. ``__init__`` makes the networks on ``device``.
    """

    system: ClassVar[str]
    """Name in the registry; its weights are called the same, with ``_`` for ``-``."""
    recipe_type: type[R]
    cells: ClassVar[tuple[Cell, ...]] = CELLS
    """Validation puzzles."""

    def __init__(self, recipe: R, device: torch.device) -> None:
        self.recipe, self.device = recipe, device

    def modules(self) -> dict[str, nn.Module]:
        """All networks by name, those that are only needed for training too."""
        raise NotImplementedError  # abstract

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """One or several; the rates they were made with are the peaks of the schedule."""
        raise NotImplementedError  # abstract

    def draw(self, store: Store, rng: np.random.Generator, generator: torch.Generator) -> Any:
        """The batch of a step: pieces of puzzles of one geometry, in true order."""
        r = self.recipe
        return draw_batch(store, r.mix, r.augment, r.budget, r.most, rng, generator)

    def step(self, s: Step) -> dict[str, Tensor]:
        """Learn from ``s.batch`` (see `descend`); losses to be recorded, not synchronised."""
        raise NotImplementedError  # abstract

    def evaluate(
        self, nets: Mapping[str, nn.Module], puzzles: Sequence[Puzzles]
    ) -> dict[str, dict[str, float]]:
        """Figures of ``nets`` (averaged, in evaluation mode) by validation cell."""
        raise NotImplementedError  # abstract

    def config(self) -> Any:
        """The dataclass from which the shipped network is built anew."""
        raise NotImplementedError  # abstract

    def ship(self, nets: Mapping[str, nn.Module]) -> nn.Module:
        """What is written to the weights file: all networks by their names, unless overridden."""
        return nn.ModuleDict(dict(nets))

    def state(self) -> dict[str, Tensor]:
        """Further tensors that a resumed run needs (a replay memory, say)."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""


def descend(optimiser: torch.optim.Optimizer, loss: Tensor, clip: float) -> Tensor:
    """One step of ``optimiser`` down ``loss``; returns the gradient's norm."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    params = [p for group in optimiser.param_groups for p in group["params"]]
    norm = clip_gradients(params, clip)
    optimiser.step()
    return norm.float()


def pair_figures(logits: Tensor, grid: Grid) -> dict[str, float]:
    """How well scores ``(b, 2, n, n)`` (j right of i, j below i) find the neighbours.

    ``top1``: share of inner sides whose neighbour scores highest; ``auc`` of neighbours against
    all others.
    """
    n = logits.shape[-1]
    own = torch.eye(n, dtype=torch.bool, device=logits.device)
    hits, scores, labels = [], [], []
    for d in (0, 1):
        m = logits[:, d].float()
        rows, target = neighbours(m.masked_fill(own, -torch.inf), grid, d)
        hits.append((rows.argmax(1) == target).float())
        after = grid.after[d]
        truth = (torch.arange(n, device=m.device) == after[:, None]).expand_as(m)
        scores.append(m[:, ~own].flatten())
        labels.append(truth[:, ~own].flatten().float())
    return {
        "top1": float(torch.cat(hits).mean()),
        "auc": auc(torch.cat(scores), torch.cat(labels)),
    }
