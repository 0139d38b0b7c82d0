"""Recipe of Deepzzle's network: ``python -m sherd.train.deepzzle --data DIR --out DIR``.

Where a fragment lies, seen from another one: one of 8 positions, or elsewhere. All ordered pairs of
a puzzle's fragments are examples, so every fragment is encoded once per step. Cross entropy;
"elsewhere", which most pairs are on 5×5, counts less.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import SherdError
from ..perception.rivals.deepzzle import ELSEWHERE, Deepzzle, DeepzzleConfig
from ..perception.rivals.offsets import OFFSETS
from ..perception.rivals.pixels import resample
from .data import Augment, Batch, Entry, draw_batch
from .evaluate import Cell, Puzzles
from .loop import adamw, autocast
from .rivals import main
from .store import Store
from .trainee import RivalRecipe, Step, Trainee, descend

MIX = (
    # JPLEG-5, and JPLEG-3: the kind of puzzle that the paper is about
    Entry(0.45, (5, 5), (5, 5), (96,), (12,), jitter=(3,), art=0.85),
    Entry(0.20, (3, 3), (3, 3), (96,), (48,), jitter=(7,), art=0.8),
    # photographs, by missing pixels and by pixels off each side
    Entry(0.25, (3, 5), (3, 5), (64,), (0, 1, 2, 2, 4, 4, 6, 8), art=0.3),
    Entry(0.10, (3, 5), (3, 5), (64,), (1, 2, 3, 4), "side", art=0.3),
)
CELLS = (
    Cell("art-3x3-gap48", "art5", (3, 3), 96, 48, jitter=7),
    Cell("art-gap12", "art5", (5, 5), 96, 12, jitter=3),
    Cell("photo-5x5-gap2", "photos", (5, 5), 64, 2),
    Cell("photo-5x5-side4", "photos", (5, 5), 64, 4, "side"),
)


@dataclass(frozen=True)
class DeepzzleRecipe(RivalRecipe):
    """Everything that a run depends on beside its pictures."""

    net: DeepzzleConfig = field(default_factory=DeepzzleConfig)
    mix: tuple[Entry, ...] = MIX
    # what lies above what is the signal: pictures are not turned. Parts of them make it harder to
    # learn pictures by heart
    augment: Augment = field(default_factory=lambda: Augment(full=0.4, turn=0.0))
    weight_decay: float = 0.05
    budget: float = 2000.0
    most: int = 2000
    parts: int = 4
    """Geometries in a step, each with its share of the budget: batch norm sees a mixture."""
    elsewhere: float = 0.5
    """Weight of pairs that are not beside each other."""
    smooth: float = 0.02
    """Label smoothing: no answer is certain."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parts < 1 or not self.elsewhere > 0 or not 0 <= self.smooth < 1:
            raise SherdError("parts must be at least 1, elsewhere more than 0, smooth in 0..1")


@cache
def positions(grid: tuple[int, int], device: torch.device) -> Tensor:
    """``(n, n)``: class of piece j seen from piece i, pieces in true order; -1 for i = j."""
    at = np.stack(np.divmod(np.arange(grid[0] * grid[1]), grid[1]), axis=1)
    step = at[None] - at[:, None]  # [i, j]: from i to j
    out = np.full(step.shape[:2], ELSEWHERE)
    for k, offset in enumerate(OFFSETS):
        out[(step == offset).all(axis=2)] = k
    np.fill_diagonal(out, -1)
    return torch.from_numpy(out).to(device)


class TrainDeepzzle(Trainee[DeepzzleRecipe]):
    """The Siamese network."""

    system: ClassVar[str] = "deepzzle"
    recipe_type = DeepzzleRecipe
    cells: ClassVar[tuple[Cell, ...]] = CELLS

    def __init__(self, recipe: DeepzzleRecipe, device: torch.device) -> None:
        super().__init__(recipe, device)
        self.net = Deepzzle(recipe.net).to(device)
        self.weight = torch.ones(ELSEWHERE + 1, device=device)
        self.weight[ELSEWHERE] = recipe.elsewhere
        self.optimiser = adamw([self.net], recipe.lr, recipe.weight_decay)

    def modules(self) -> dict[str, nn.Module]:
        """The network."""
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
        """Cross entropy of all ordered pairs."""
        batches: list[Batch] = s.batch
        side = self.recipe.net.side
        with autocast(self.device):
            x = torch.cat([resample(b.pieces, side) for b in batches])
            codes = self.net.encode(x).split([len(b.pieces) for b in batches])
            losses, hits = [], []
            for batch, code in zip(batches, codes, strict=True):
                code = code.unflatten(0, (batch.puzzles, -1))
                logits = self.net.relate(code, code).float()  # (puzzles, n, n, 9)
                target = positions(batch.geometry.grid, self.device).expand(logits.shape[:3])
                loss = F.cross_entropy(
                    logits.permute(0, 3, 1, 2), target, self.weight, ignore_index=-1,
                    label_smoothing=self.recipe.smooth,
                )  # fmt: skip
                losses.append(loss)
                beside = (target >= 0) & (target != ELSEWHERE)
                right = logits.detach()[..., :ELSEWHERE].argmax(-1) == target
                hits.append((right & beside).sum() / beside.sum())
            loss = torch.stack(losses).mean()
        norm = descend(self.optimiser, loss, self.recipe.clip)
        return {"loss": loss, "position": torch.stack(hits).mean(), "grad_norm": norm}

    def evaluate(
        self, nets: Mapping[str, nn.Module], puzzles: Sequence[Puzzles]
    ) -> dict[str, dict[str, float]]:
        """``position``: share of neighbours whose position (of 8) is right; ``who``: share of
        positions around a piece for which the right piece is the likeliest."""
        net = nets["net"]
        assert isinstance(net, Deepzzle)
        return {p.cell.name: self._judge(net, p) for p in puzzles}

    def _judge(self, net: Deepzzle, puzzles: Puzzles, most: int = 2000) -> dict[str, float]:
        b, n = puzzles.pieces.shape[:2]
        board = puzzles.grid.board
        place = torch.empty_like(board)
        place[board] = torch.arange(n, device=board.device)  # the cell of every piece
        target = positions(puzzles.cell.grid, self.device)[place][:, place]
        beside = (target >= 0) & (target != ELSEWHERE)
        i, j = beside.nonzero(as_tuple=True)
        want = target[i, j]
        right = who = nll = 0.0
        for chunk in puzzles.pieces.split(max(1, most // n)):
            pieces = chunk.flatten(0, 1).permute(0, 3, 1, 2).float() / 255.0
            logits = net(pieces, len(chunk)).float()
            position = logits[..., :ELSEWHERE].argmax(-1)[:, i, j]
            right += float((position == want).sum())
            nll += float(
                F.cross_entropy(
                    logits.permute(0, 3, 1, 2), target.expand(logits.shape[:3]), ignore_index=-1
                )
            ) * len(chunk)
            own = torch.eye(n, dtype=torch.bool, device=self.device)[:, :, None]
            chance = logits.log_softmax(-1)[..., :ELSEWHERE].masked_fill(own, float("-inf"))
            who += float((chance.argmax(2)[:, i, want] == j).sum())
        return {"position": right / (b * len(i)), "who": who / (b * len(i)), "nll": nll / b}

    def config(self) -> DeepzzleConfig:
        """Sizes."""
        return self.recipe.net

    def ship(self, nets: Mapping[str, nn.Module]) -> nn.Module:
        """The network itself."""
        return nets["net"]


if __name__ == "__main__":
    sys.exit(main(TrainDeepzzle))
