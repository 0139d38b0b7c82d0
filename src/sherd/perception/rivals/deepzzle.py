"""The network of Deepzzle: where does a fragment lie, seen from another one?

A Siamese network. Each fragment: five blocks of convolution, batch norm, ReLU and pooling → dense
512. The two vectors meet in a bilinear (Kronecker) product, from which one layer reads the
relative position.

Slimmer than the original, so that it fits into 3 MiB: the last two convolutions have 192 and 256
channels (256 and 512), and a layer brings the 512 figures to 48 before the Kronecker product, which
has 48² entries (512²). Fragments are resampled to 64 px (96). Beside the 8 positions there is a
class "elsewhere", which the paper has for fragments of other pictures: on grids larger than 3×3
most fragments lie beyond the 8 cells around a given one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import SherdError
from ...puzzle import Puzzle
from .offsets import OFFSETS
from .pixels import fragments, resample

ELSEWHERE = len(OFFSETS)
"""The class after the positions."""
CLASSES = ELSEWHERE + 1


@dataclass(frozen=True)
class DeepzzleConfig:
    """Sizes of the network."""

    side: int = 64
    """Side of a fragment in pixels, as the network sees it; a multiple of 32."""
    widths: tuple[int, ...] = (32, 64, 128, 192, 256)
    """Channels of the five blocks."""
    dense: int = 512
    factor: int = 48
    """Figures per fragment that enter the Kronecker product."""
    dropout: float = 0.3
    """Share of the dense layer's figures that are left out in training."""

    def __post_init__(self) -> None:
        if self.side < 32 or self.side % 32:
            raise SherdError(f"side: {self.side}; expected a multiple of 32")
        if len(self.widths) != 5 or min(self.widths) < 1:
            raise SherdError(f"widths: {self.widths}; expected 5 numbers of at least 1")
        if self.dense < 1 or self.factor < 1:
            raise SherdError(f"dense {self.dense}, factor {self.factor}; expected at least 1")
        if not 0 <= self.dropout < 1:
            raise SherdError(f"dropout: {self.dropout}; expected at least 0, below 1")


class Deepzzle(nn.Module):
    """Relative positions of all ordered pairs of fragments."""

    def __init__(self, cfg: DeepzzleConfig) -> None:
        super().__init__()
        self.cfg = cfg
        layers: list[nn.Module] = []
        before = 3
        for width in cfg.widths:
            layers += [
                nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
                nn.ReLU(), nn.MaxPool2d(2),
            ]  # fmt: skip
            before = width
        self.features = nn.Sequential(*layers)
        self.dense = nn.Linear(before * (cfg.side // 32) ** 2, cfg.dense, bias=False)
        self.norm = nn.BatchNorm1d(cfg.dense)
        self.factor = nn.Linear(cfg.dense, cfg.factor)
        self.out = nn.Linear(cfg.factor**2, CLASSES)

    def encode(self, x: Tensor) -> Tensor:
        """Fragments ``(b, 3, side, side)`` in -1..1 → ``(b, factor)``."""
        y = F.relu(self.norm(self.dense(self.features(x).flatten(1))))
        return self.factor(F.dropout(y, self.cfg.dropout, self.training))

    def relate(self, first: Tensor, second: Tensor) -> Tensor:
        """``(…, k, factor)`` and ``(…, m, factor)`` → logits ``(…, k, m, classes)``.

        The layer on the Kronecker product a ⊗ b is a bilinear form a·W_c·b per class: the k·m
        products are never written down.
        """
        f = self.cfg.factor
        weight = self.out.weight.view(CLASSES * f, f)  # (c·f, f): row (c, p), column q
        half = F.linear(second, weight).unflatten(-1, (CLASSES, f))  # (…, m, c, f)
        both = torch.einsum("...kp,...mcp->...kmc", first, half)
        return both + self.out.bias

    def forward(self, pieces: Tensor, puzzles: int) -> Tensor:
        """``(puzzles·n, 3, h, w)`` in 0..1 → logits ``(puzzles, n, n, classes)``.

        Entry ``[p, i, j]`` says where j lies, seen from i.
        """
        x = self.encode(resample(pieces, self.cfg.side)).unflatten(0, (puzzles, -1))
        return self.relate(x, x)


@torch.inference_mode()
def position_log_probabilities(
    net: Deepzzle, puzzle: Puzzle, *, elsewhere: bool = True
) -> np.ndarray:
    """``(n, n, 8)``: log p(j lies at a position around i), on the CPU.

    Without ``elsewhere`` every fragment is known to lie beside i, as in the paper's 3×3 puzzles.
    """
    x = torch.cat([net.encode(part) for part in fragments(puzzle, net.cfg.side).split(32)])
    logits = net.relate(x, x)
    if not elsewhere:
        logits = logits[..., :ELSEWHERE]
    return np.asarray(logits.double().log_softmax(-1)[..., :ELSEWHERE].numpy())
