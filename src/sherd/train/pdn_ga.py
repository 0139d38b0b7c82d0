"""Recipe of PDN-GA: ``python -m sherd.train.pdn_ga --data DIR --out DIR --minutes M``.

The pairwise net learns all pairs of a puzzle: neighbours or not. The puzzlet net learns 2×2
puzzlets: right, or with something wrong in them; what looks right to the pairwise net is preferred
among the wrong ones. Places are learned on 5×5 puzzles that show a whole picture.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import SherdError
from ..perception.rivals.pdn import GRID, SYSTEM, Pdn, PdnConfig, Seen
from ..perception.rivals.pixels import to_squares
from .data import Batch
from .evaluate import Puzzles, auc
from .loop import adamw, autocast
from .losses import Grid
from .rivals import main
from .trainee import RivalRecipe, Step, Trainee, descend, pair_figures

KINDS = 4
"""Wrong puzzlets for every right one (see `wrong_quads`)."""


@dataclass(frozen=True)
class PdnRecipe(RivalRecipe):
    """Everything that a run depends on beside its pictures."""

    net: PdnConfig = field(default_factory=PdnConfig)
    budget: float = 800.0
    lr: float = 2e-3
    weight_decay: float = 0.05
    hard: int = 6
    """Highest-scoring wrong pairs of every side that carry half of the wrong pairs' weight."""
    quads: int = 640
    """Right puzzlets in a step, at most."""
    puzzlet_weight: float = 1.0
    place_weight: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hard", "quads"):
            if getattr(self, name) < 1:
                raise SherdError(f"{name}: {getattr(self, name)}; expected at least 1")


def score_all(net: Pdn, seen: Seen, puzzles: int) -> Tensor:
    """Pair logits ``(2, puzzles, n, n)`` of fragments that were seen puzzle by puzzle."""
    return torch.stack([net.pair.pairs(seen, d, puzzles) for d in (0, 1)]).float()


def pair_loss(logits: Tensor, grid: Grid, hard: int) -> Tensor:
    """Cross-entropy of ``(2, b, n, n)``: neighbours, all others, and the hardest of these."""
    n = logits.shape[-1]
    every = torch.arange(n, device=logits.device)
    true = (grid.after[:, :, None] == every)[:, None]  # (2, 1, n, n)
    other = ~true & (every[:, None] != every)
    b = logits.shape[1]
    # sums with masks, since picking by a mask waits for the device
    right = (F.softplus(-logits) * true).sum() / (b * true.sum())
    mean = (F.softplus(logits) * other).sum() / (b * other.sum())
    among = logits.masked_fill(~other, -torch.inf)
    top = among.topk(min(hard, n - 2), dim=-1).values
    return 0.5 * right + 0.25 * (mean + F.softplus(top).mean())


def right_quads(
    grid: tuple[int, int], puzzles: int, most: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Right puzzlets, at most ``most``: their puzzle ``(k,)`` and pieces ``(k, 4)`` in it."""
    device = generator.device
    cell = torch.arange(grid[0] * grid[1], device=device).view(grid)
    parts = (cell[:-1, :-1], cell[:-1, 1:], cell[1:, :-1], cell[1:, 1:])
    every = torch.stack([p.flatten() for p in parts], 1)
    which = torch.randperm(puzzles * len(every), generator=generator, device=device)[:most]
    return which // len(every), every[which % len(every)]


def wrong_quads(
    logits: Tensor, puzzle: Tensor, quads: Tensor, generator: torch.Generator
) -> Tensor:
    """``(k, 4, 4)``: four wrong puzzlets for each of ``quads (k, 4)``.

    With one piece exchanged for another that the pairwise net finds likely there (twice, at two
    corners); with the lower half of another right puzzlet of the same puzzle; of random pieces.
    ``logits (2, b, n, n)`` are the pairwise net's.
    """
    k, n, device = len(quads), logits.shape[-1], quads.device
    every = torch.arange(k, device=device)
    across = logits[0, puzzle]  # (k, n, n)
    a, b, c, d = quads.unbind(1)
    # what each corner's neighbour in its row says of all pieces
    rows = torch.stack(
        [across[every, :, b], across[every, a], across[every, :, d], across[every, c]], 1
    )  # (k, 4, n)
    rows = rows.scatter(2, quads[:, None].expand(-1, 4, -1), -torch.inf)  # none of the four
    likely = rows.topk(min(8, n - 4), dim=2).indices if n > 4 else None

    def draw(high: int, shape: tuple[int, ...]) -> Tensor:
        return torch.randint(high, shape, generator=generator, device=device)

    out = quads[:, None].repeat(1, KINDS, 1)
    corner = draw(4, (k,))
    for kind in (0, 1):
        at = (corner + kind * (1 + draw(3, (k,)))) % 4
        if likely is None:  # a 2×2 puzzle has no other pieces: two of the four change places
            out[every, kind] = quads.gather(1, _swapped(at, device))
        else:
            pick = likely[every, at, draw(likely.shape[2], (k,))]
            out[every, kind, at] = pick
    order = torch.rand(k, generator=generator, device=device).argsort()
    order = order[puzzle[order].argsort(stable=True)]  # puzzle by puzzle, random within
    after = torch.empty_like(order)
    after[order] = order.roll(-1)
    same = (puzzle[after] == puzzle) & (after != every)
    out[:, 2, 2:] = torch.where(same[:, None], quads[after][:, 2:], quads[:, [3, 2]])
    out[:, 3] = torch.rand(k, n, generator=generator, device=device).argsort(1)[:, :4]
    return out


def _swapped(at: Tensor, device: torch.device) -> Tensor:
    """``(k, 4)`` orders of four in which corner ``at`` and the next one change places."""
    order = torch.arange(4, device=device).repeat(len(at), 1)
    after = (at + 1) % 4
    every = torch.arange(len(at), device=device)
    order[every, at], order[every, after] = after, at
    return order


class PdnTrainee(Trainee[PdnRecipe]):
    """Pairwise and puzzlet net, one optimiser."""

    system: ClassVar[str] = SYSTEM
    recipe_type = PdnRecipe

    def __init__(self, recipe: PdnRecipe, device: torch.device) -> None:
        super().__init__(recipe, device)
        self.net = Pdn(recipe.net).to(device)
        self.optimiser = adamw([self.net], recipe.lr, recipe.weight_decay)

    def modules(self) -> dict[str, nn.Module]:
        return {"net": self.net}

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        return {"net": self.optimiser}

    def config(self) -> PdnConfig:
        return self.recipe.net

    def ship(self, nets: Mapping[str, nn.Module]) -> nn.Module:
        return nets["net"]

    def step(self, s: Step) -> dict[str, Tensor]:
        r, net = self.recipe, self.net
        batch: Batch = s.batch
        geometry = batch.geometry
        grid = Grid.of(geometry.grid, self.device)
        n = geometry.grid[0] * geometry.grid[1]
        squares = to_squares(batch.pieces)
        share = geometry.missing / geometry.fragment[1]
        gap = torch.full((len(squares),), share, device=self.device)
        puzzle, quads = right_quads(geometry.grid, batch.puzzles, r.quads, s.generator)
        with autocast(self.device):
            seen = net.pair.see(squares, gap)
            logits = score_all(net, seen, batch.puzzles)
            pairs = pair_loss(logits, grid, r.hard)
            wrong = wrong_quads(logits.detach(), puzzle, quads, s.generator)
            every = torch.cat([quads[:, None], wrong], 1) + n * puzzle[:, None, None]
            scores = net.puzzlet.puzzlets(net.puzzlet.see(squares, gap), every.flatten(0, 1))
            scores = scores.float().view(len(quads), -1)
            puzzlets = 0.5 * (F.softplus(-scores[:, 0]).mean() + F.softplus(scores[:, 1:]).mean())
            loss = pairs + r.puzzlet_weight * puzzlets
            losses = {"pair": pairs, "puzzlet": puzzlets}
            if geometry.grid == GRID:
                places = net.pair.places(seen, batch.puzzles).float()  # (b, n, 25)
                cell = torch.arange(n, device=self.device).expand(batch.puzzles, -1)
                errors = F.cross_entropy(places.transpose(1, 2), cell, reduction="none").mean(1)
                place = (errors * batch.full).sum() / batch.full.sum().clamp(min=1.0)
                loss = loss + r.place_weight * place
                losses["place"] = place
        top = (scores[:, 0] > scores[:, 1:].amax(1)).float().mean()
        norm = descend(self.optimiser, loss, r.clip)
        return {"loss": loss, **losses, "puzzlet_top": top, "grad_norm": norm}

    def evaluate(
        self, nets: Mapping[str, nn.Module], puzzles: Sequence[Puzzles]
    ) -> dict[str, dict[str, float]]:
        net = nets["net"]
        assert isinstance(net, Pdn)
        return {p.cell.name: self._evaluate(net, p) for p in puzzles}

    def _evaluate(self, net: Pdn, puzzles: Puzzles) -> dict[str, float]:
        """Figures of pairs and puzzlets, and of places where there are any."""
        geometry, grid = puzzles.cell.geometry, puzzles.grid
        n = len(grid.board)
        generator = torch.Generator(self.device).manual_seed(5)
        gap = torch.full((n,), geometry.missing / geometry.fragment[1], device=self.device)
        logits, right, wrong, hits = [], [], [], []
        for pieces in puzzles.pieces:
            squares = to_squares(pieces.permute(0, 3, 1, 2).float() / 255.0)
            seen = net.pair.see(squares, gap)
            logits.append(score_all(net, seen, 1)[:, 0])
            if geometry.grid == GRID:
                cell = net.pair.places(seen, 1)[0].argmax(1)  # (n,)
                hits.append((grid.board[cell] == torch.arange(n, device=cell.device)).float())
            puzzle, quads = right_quads(geometry.grid, 1, self.recipe.quads, generator)
            quads = grid.board[quads]  # pieces of the cells: they come in another order here
            others = wrong_quads(logits[-1][:, None], puzzle, quads, generator)
            seen = net.puzzlet.see(squares, gap)
            right.append(net.puzzlet.puzzlets(seen, quads).float())
            wrong.append(net.puzzlet.puzzlets(seen, others.flatten(0, 1)).float())
        figures = pair_figures(torch.stack(logits), grid)
        scores = torch.cat([*right, *wrong])
        labels = torch.zeros_like(scores)
        labels[: sum(map(len, right))] = 1.0
        figures["puzzlet_auc"] = auc(scores, labels)
        if hits:
            figures["place"] = float(torch.cat(hits).mean())
        return figures


if __name__ == "__main__":
    sys.exit(main(PdnTrainee))
