"""Recipe of Inpaint-GAN: ``python -m sherd.train.inpaint_gan --data DIR --out DIR --minutes M``.

First the GAN: the generator learns to inpaint the strip between true neighbours (L1 and
adversarial loss), the discriminator to tell inpainted pairs from real ones. Then the generator
rests, and the same discriminator is trained on to tell neighbours from others, both inpainted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import SherdError
from ..perception.rivals.inpaint_gan import (
    SIDE,
    SYSTEM,
    InpaintConfig,
    InpaintGan,
    strip_width,
)
from ..perception.rivals.inpaint_pairs import all_pairs
from ..perception.rivals.pixels import resize, to_squares
from .data import cut_at, draw_pictures
from .evaluate import Puzzles
from .gaps import Boards, cut_boards
from .loop import adamw, autocast
from .rivals import main
from .store import Store
from .trainee import RivalRecipe, Step, Trainee, descend, pair_figures


@dataclass(frozen=True)
class InpaintRecipe(RivalRecipe):
    """Everything that a run depends on beside its pictures."""

    net: InpaintConfig = field(default_factory=InpaintConfig)
    budget: float = 700.0
    lr: float = 1e-3
    """Of the discriminator."""
    generator_lr: float = 1e-3
    gan: float = 0.3
    """Share of the recipe that is the GAN; the rest trains the classifier."""
    l1_weight: float = 50.0
    """Of the strip's error, beside an adversarial loss of weight 1."""
    pairs: int = 768
    """True neighbours in a step and direction, at most."""
    negatives: int = 3
    """Wrong pairs for every true one; all but one of them are hard."""
    hard: int = 8
    """Hard: among so many whose facing pixels are nearest in colour."""
    val_puzzles: int = 24
    """Most puzzles per validation cell: all pairs of a puzzle are pictures of their own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("pairs", "negatives", "hard", "generator_lr", "val_puzzles"):
            if getattr(self, name) <= 0:
                raise SherdError(f"{name}: {getattr(self, name)}; expected more than 0")
        if not 0 <= self.gan < 1:
            raise SherdError(f"gan: {self.gan}; expected at least 0, below 1")


@dataclass(frozen=True)
class Pairs:
    """True neighbours of one direction among puzzles of one geometry."""

    puzzle: Tensor
    """``(k,)``."""
    first: Tensor
    """``(k,)`` piece of its puzzle: the left or upper one."""
    second: Tensor
    """``(k,)`` its neighbour."""


def true_pairs(
    grid: tuple[int, int], puzzles: int, vertical: bool, most: int, generator: torch.Generator
) -> Pairs:
    """Neighbours, at most ``most`` of them, drawn at random."""
    device = generator.device
    cell = torch.arange(grid[0] * grid[1], device=device).view(grid)
    first = (cell[:-1] if vertical else cell[:, :-1]).flatten()
    second = (cell[1:] if vertical else cell[:, 1:]).flatten()
    k = len(first)
    every = torch.randperm(puzzles * k, generator=generator, device=device)[:most]
    return Pairs(every // k, first[every % k], second[every % k])


def true_strips(boards: Boards, pairs: Pairs, strip: int, vertical: bool) -> Tensor:
    """What lay between ``pairs``: ``(k, 3, 64, strip)``, transposed if ``vertical``."""
    layout = boards.layout
    h, w = layout.fragment
    gap, (rows, cols) = layout.gap, layout.grid
    size = (gap, w) if vertical else (h, gap)
    y, x = torch.meshgrid(
        torch.arange(rows) * (h + gap) + (h if vertical else 0),
        torch.arange(cols) * (w + gap) + (0 if vertical else w),
        indexing="ij",
    )
    # pieces at the rim have nothing beyond them and are not asked for
    y, x = y.clamp(max=layout.size[0] - size[0]), x.clamp(max=layout.size[1] - size[1])
    corners = torch.stack([y.flatten(), x.flatten()], 1).expand(boards.puzzles, -1, -1)
    every = cut_at(boards.target, corners.to(boards.target.device), size)
    parts = every[pairs.puzzle * rows * cols + pairs.first]
    if vertical:
        parts = parts.transpose(2, 3)
    return resize(parts, (SIDE, strip))


def wrong_seconds(
    last: Tensor, first: Tensor, pairs: Pairs, n: int, recipe: InpaintRecipe,
    generator: torch.Generator,
) -> Tensor:  # fmt: skip
    """``(k, negatives)`` pieces that are not the neighbours: the last random, the others hard.

    ``last``, ``first``: outermost pixels ``(puzzles, n, 192)`` of the facing sides.
    """
    k, device = len(pairs.first), last.device
    far = torch.cdist(last.float(), first.float(), p=1.0)[pairs.puzzle, pairs.first]  # (k, n)
    every = torch.arange(k, device=device)
    far[every, pairs.second] = torch.inf
    far[every, pairs.first] = torch.inf
    near = far.topk(min(recipe.hard, n - 2), largest=False).indices  # (k, hard)
    hard = torch.rand(near.shape, generator=generator, device=device).argsort(1)
    hard = near.gather(1, hard[:, : recipe.negatives - 1])
    shift = torch.randint(1, n, (k, 1), generator=generator, device=device)
    return torch.cat([hard, (pairs.second[:, None] + shift) % n], 1)


class InpaintTrainee(Trainee[InpaintRecipe]):
    """Generator and discriminator, an optimiser each."""

    system: ClassVar[str] = SYSTEM
    recipe_type = InpaintRecipe

    def __init__(self, recipe: InpaintRecipe, device: torch.device) -> None:
        super().__init__(recipe, device)
        self.net = InpaintGan(recipe.net).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        betas = (0.5, 0.98)  # a short memory, as GANs need it
        self.maker = adamw(
            [self.net.generator], recipe.generator_lr, recipe.weight_decay, betas
        )  # fmt: skip
        self.judge = adamw([self.net.discriminator], recipe.lr, recipe.weight_decay, betas)

    def modules(self) -> dict[str, nn.Module]:
        return {"net": self.net}

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        return {"generator": self.maker, "discriminator": self.judge}

    def config(self) -> InpaintConfig:
        return self.recipe.net

    def ship(self, nets: Mapping[str, nn.Module]) -> nn.Module:
        return nets["net"]

    def draw(self, store: Store, rng: np.random.Generator, generator: torch.Generator) -> Boards:
        r = self.recipe
        pictures, geometry, _ = draw_pictures(
            store, r.mix, r.augment, r.budget, r.most, rng, generator
        )
        return cut_boards(pictures, geometry, rng)

    def step(self, s: Step) -> dict[str, Tensor]:
        boards: Boards = s.batch
        layout = boards.layout
        squares = to_squares(boards.pieces)
        strips = [
            strip_width(layout.gap, side) for side in (layout.fragment[1], layout.fragment[0])
        ]
        gan = s.progress < self.recipe.gan and min(strips) > 0  # without a strip, nothing to paint
        vertical = bool(s.rng.random() < 0.5)
        strip = strips[vertical]
        pairs = true_pairs(layout.grid, boards.puzzles, vertical, self.recipe.pairs, s.generator)
        ends = self.net.ends(squares, strip, vertical)
        n = layout.grid[0] * layout.grid[1]
        if gan:
            return self._paint(
                ends, n, pairs, true_strips(boards, pairs, strip, vertical), vertical
            )
        return self._classify(ends, n, pairs, vertical, s.generator)

    def _paint(
        self, ends: tuple[Tensor, Tensor], n: int, pairs: Pairs, truth: Tensor, vertical: bool
    ) -> dict[str, Tensor]:
        """A step of the GAN; ``truth (k, 3, 64, strip)`` lay between the pairs."""
        net, r = self.net, self.recipe
        left = ends[0][pairs.puzzle * n + pairs.first]
        right = ends[1][pairs.puzzle * n + pairs.second]
        with autocast(self.device):
            made = net.inpaint(left, right, vertical).float()
            real = net.pair(left, truth, right, vertical)
            fake = net.pair(left, made, right, vertical)
            scores = net.discriminator(torch.cat([real, fake.detach()])).float()
        k = len(left)
        loss = 0.5 * (F.softplus(-scores[:k]).mean() + F.softplus(scores[k:]).mean())
        norm = descend(self.judge, loss, r.clip)
        net.discriminator.requires_grad_(False)  # its part in the generator's step is only to judge
        with autocast(self.device):
            against = F.softplus(-net.discriminator(fake).float()).mean()
        net.discriminator.requires_grad_(True)
        error = (made - truth).abs().mean()
        generator_norm = descend(self.maker, r.l1_weight * error + against, r.clip)
        return {
            "gan": loss, "l1": error, "adversarial": against, "gan_norm": norm,
            "generator_norm": generator_norm,
        }  # fmt: skip

    def _classify(
        self, ends: tuple[Tensor, Tensor], n: int, pairs: Pairs, vertical: bool,
        generator: torch.Generator,
    ) -> dict[str, Tensor]:  # fmt: skip
        """A step of the classifier."""
        net, r = self.net, self.recipe
        last, first = ends
        rims = [e.flatten(1).unflatten(0, (-1, n)) for e in (last[..., -1], first[..., 0])]
        wrong = wrong_seconds(rims[0], rims[1], pairs, n, r, generator)  # (k, negatives)
        seconds = torch.cat([pairs.second[:, None], wrong], 1)
        width = seconds.shape[1]
        left = last[(pairs.puzzle * n + pairs.first).repeat_interleave(width)]
        right = first[(pairs.puzzle[:, None] * n + seconds).flatten()]
        net.generator.eval()
        with autocast(self.device):
            with torch.no_grad():
                between = net.inpaint(left, right, vertical)
            scores = net.discriminator(net.pair(left, between, right, vertical)).float()
        scores = scores.view(-1, width)
        loss = 0.5 * (F.softplus(-scores[:, 0]).mean() + F.softplus(scores[:, 1:]).mean())
        right_ = (scores[:, 0] > scores[:, 1:].amax(1)).float().mean()
        return {"loss": loss, "top": right_, "grad_norm": descend(self.judge, loss, r.clip)}

    def evaluate(
        self, nets: Mapping[str, nn.Module], puzzles: Sequence[Puzzles]
    ) -> dict[str, dict[str, float]]:
        net = nets["net"]
        assert isinstance(net, InpaintGan)
        figures = {}
        for some in puzzles:
            geometry = some.cell.geometry
            strip = strip_width(geometry.missing, geometry.fragment[1])
            logits = []
            for pieces in some.pieces[: self.recipe.val_puzzles]:
                squares = to_squares(pieces.permute(0, 3, 1, 2).float() / 255.0)
                chunk = 4096 if squares.is_cuda else 128
                logits.append(all_pairs(net, squares, strip, chunk))
            figures[some.cell.name] = pair_figures(torch.stack(logits), some.grid)
        return figures


if __name__ == "__main__":
    sys.exit(main(InpaintTrainee))
