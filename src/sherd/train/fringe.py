"""Recipe of the fringe network: ``python -m sherd.train.fringe --data DIR --out DIR --minutes M``.

It learns what to add to what is known of a pair already: the shipped MPPN looks at every puzzle
first, its logits and those of gradients are weighed as its calibration says, and the loss is the
cross-entropy of the true neighbour with the residual added, after both sides of a seam were asked.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..errors import SherdError
from ..perception.fringe import SYSTEM, Fringe, FringeConfig, load_fringe, standing
from ..perception.gradients import gradient_logits
from ..perception.mppn.config import CLOSE, NEAR, SMALL
from ..perception.mppn.network import FACING, guess_others
from ..perception.mppn.seams import seam_logits
from ..perception.mppn.weights import load_model
from .close import both_ways
from .data import Augment, Batch, Entry
from .evaluate import Cell, Puzzles, neighbours
from .loop import adamw, autocast
from .losses import Grid, hard_pairs, neighbour_loss, score_pairs
from .rivals import main
from .trainee import RivalRecipe, Step, Trainee, descend

SHIPPED = "shipped"
"""As a recipe's ``start``: the network for narrow gaps that comes with sherd."""
MIX = (
    Entry(0.60, (12, 20), (18, 30), (28,), (0, 1, 2), art=0.15),
    Entry(0.15, (8, 16), (12, 24), (24, 32, 36, 40, 48), (0, 1, 2), art=0.15),
    Entry(0.25, (6, 10), (8, 15), (56, 64, 72), (0, 1, 2, 2), art=0.15),
)


@dataclass(frozen=True)
class FringeRecipe(RivalRecipe):
    """Everything that a run depends on beside its pictures and the MPPN."""

    net: FringeConfig = field(default_factory=FringeConfig)
    start: str = ""
    """Folder of a network to begin with, of the same sizes, or `SHIPPED`."""
    augment: Augment = field(default_factory=lambda: Augment(jpeg=0.3))
    mix: tuple[Entry, ...] = MIX
    lr: float = 1.5e-3
    budget: float = 450.0
    most: int = 1800
    known: int = 20
    """Candidates per row and column that the MPPN's pair heads see."""
    hard: int = 12
    """Hardest candidates per row and column that the fringe network sees."""
    spread: int = 4
    """Further candidates, of random rank among the next `reach`."""
    reach: int = 30
    half: bool = False
    """bf16 on a CPU as well, where the fringe network learns: a third of the time where the CPU has
    instructions for it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("known", "hard"):
            if getattr(self, name) < 1:
                raise SherdError(f"{name}: {getattr(self, name)}; expected at least 1")
        if not 0 <= self.spread <= self.reach:
            raise SherdError(f"spread: {self.spread}; expected 0 to reach ({self.reach})")
        for entry in self.mix:
            taken = 2 * max(entry.gap) if entry.erode == "side" else 0
            most = CLOSE if min(entry.piece) - taken < SMALL else NEAR
            if (taken or max(entry.gap)) > most:
                raise SherdError(
                    f"mix: pieces of {min(entry.piece)} px with a gap of more than {most} px, "
                    "where the network has no say"
                )


class FringeTrainee(Trainee[FringeRecipe]):
    """The network beside a frozen MPPN."""

    system: ClassVar[str] = SYSTEM
    recipe_type = FringeRecipe
    cells: ClassVar[tuple[Cell, ...]] = (
        Cell("photo-28px-gap0", "photos", (18, 26), 28, 0),
        Cell("photo-28px-gap1", "photos", (18, 26), 28, 1),
        Cell("photo-28px-gap2", "photos", (18, 26), 28, 2),
        Cell("photo-gap2", "photos", (7, 10), 64, 2),
        Cell("photo-28px-gap1-jpeg", "photos", (18, 26), 28, 1, jpeg=85),
    )

    def __init__(self, recipe: FringeRecipe, device: torch.device) -> None:
        model = load_model()
        super().__init__(replace(recipe, net=replace(recipe.net, mppn=model.sha256)), device)
        self.mppn, self.calibration = model.net.to(device), model.calibration
        self.net = Fringe(recipe.net).to(device)
        if recipe.start:
            self._begin_with(load_fringe(None if recipe.start == SHIPPED else recipe.start).net)
        self.optimiser = adamw([self.net], recipe.lr, recipe.weight_decay)
        self._half = recipe.half and device.type == "cpu"

    def _begin_with(self, net: Fringe) -> None:
        if replace(net.cfg, mppn="") != replace(self.net.cfg, mppn=""):
            raise SherdError(f"start: {self.recipe.start} holds other sizes; give its [net]")
        self.net.load_state_dict(net.state_dict())

    def modules(self) -> dict[str, nn.Module]:
        return {"net": self.net}

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        return {"net": self.optimiser}

    def config(self) -> FringeConfig:
        return self.recipe.net

    def ship(self, nets: Mapping[str, nn.Module]) -> nn.Module:
        return nets["net"]

    @torch.no_grad()
    def known(self, pieces: Tensor, gap: int) -> tuple[Tensor, Tensor]:
        """What is known of ``pieces (b, n, 3, H, W)`` in 0..1, and what gradients say:
        ``(2, b, n, n)`` each."""
        b, n = pieces.shape[:2]
        side = (pieces.shape[3] * pieces.shape[4]) ** 0.5
        how = self.calibration.close_up(gap, side)
        assert how is not None
        with torch.autocast(self.device.type, enabled=False):
            every = torch.full((b * n,), float(gap), device=self.device)
            x = self.mppn.encode(pieces.flatten(0, 1), every)
            tokens = self.mppn.tokens(x, b)
            seams = seam_logits(pieces, [gap] * b)
            bases = [self.mppn.base(x, tokens, seams[d], d) for d in (0, 1)]
            fused = [
                score_pairs(self.mppn, x, base, d, None, self.recipe.known).fused
                for d, base in enumerate(bases)
            ]
            grey = (pieces * 255.0).permute(0, 1, 3, 4, 2)
            steps = both_ways(gradient_logits(grey, gap, how.along)).float()
        return torch.stack(fused).float() / how.temperature + how.weight * steps, steps

    def add(
        self, net: Fringe, pieces: Tensor, gap: int, known: Tensor, steps: Tensor,
        grid: Grid | None, ranks: Sequence[int] = (),
    ) -> list[Tensor]:  # fmt: skip
        """``known`` with the residuals, ``(b, n, n)`` per direction."""
        n = pieces.shape[1]
        x = (pieces.flatten(0, 1) * 255.0).round()
        sides = net.sides(x, torch.full((len(x),), float(gap), device=x.device))
        out = []
        for d, facing in enumerate(FACING):
            puzzle, i, j, _, _ = hard_pairs(known[d], d, grid, self.recipe.hard, ranks)
            told = standing(known[d], steps[d], puzzle, i, j)
            a, b = (sides[s] for s in facing)
            residual = net(a, b, puzzle * n + i, puzzle * n + j, told)
            out.append(guess_others(known[d], puzzle, i, j, known[d][puzzle, i, j] + residual))
        return out

    def step(self, s: Step) -> dict[str, Tensor]:
        r, batch = self.recipe, s.batch
        assert isinstance(batch, Batch)
        grid = Grid.of(batch.geometry.grid, self.device)
        pieces = batch.pieces.unflatten(0, (batch.puzzles, -1))
        gap = batch.geometry.missing
        known, steps = self.known(pieces, gap)
        ranks = s.rng.choice(r.reach, r.spread, replace=False).tolist()
        with torch.autocast("cpu", torch.bfloat16) if self._half else autocast(self.device):
            found = self.add(self.net, pieces, gap, known, steps, grid, ranks)
        loss = 0.5 * sum(neighbour_loss(both_ways(z), grid, d) for d, z in enumerate(found))
        before = 0.5 * sum(neighbour_loss(both_ways(z), grid, d) for d, z in enumerate(known))
        assert isinstance(loss, Tensor)
        norm = descend(self.optimiser, loss, r.clip)
        return {"loss": loss, "before": torch.as_tensor(before), "grad_norm": norm}

    def evaluate(
        self, nets: Mapping[str, nn.Module], puzzles: Sequence[Puzzles]
    ) -> dict[str, dict[str, float]]:
        net = nets["net"]
        assert isinstance(net, Fringe)
        return {p.cell.name: self._evaluate(net, p) for p in puzzles}

    def _evaluate(self, net: Fringe, puzzles: Puzzles) -> dict[str, float]:
        """Nats of the true neighbour and how often it ranks first, before and with the network."""
        gap = puzzles.cell.geometry.missing
        tables: dict[str, list[list[Tensor]]] = {"before_": [], "": []}
        for one in puzzles.pieces:
            pieces = one.permute(0, 3, 1, 2)[None].float() / 255.0
            known, steps = self.known(pieces, gap)
            found = self.add(net, pieces, gap, known, steps, None)
            for name, z in (("before_", list(known)), ("", found)):
                tables[name].append([both_ways(t)[0] for t in z])
        figures = {}
        for name, each in tables.items():
            nats, top = [], []
            for d in (0, 1):
                rows, target = neighbours(torch.stack([t[d] for t in each]), puzzles.grid, d)
                nats.append(nn.functional.cross_entropy(rows.float(), target))
                top.append((rows.argmax(1) == target).float().mean())
            figures[f"{name}nats"] = float(torch.stack(nats).mean())
            figures[f"{name}top1"] = float(torch.stack(top).mean())
        return figures


if __name__ == "__main__":
    sys.exit(main(FringeTrainee))
