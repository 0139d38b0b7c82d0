"""The Siamese discriminant networks of SD²RL, and the evidence they give.

One network for horizontal pairs and one for vertical ones. Each has one EfficientNet-B0 trunk for
both pieces of a pair → global pooling → embedding; the two embeddings side by side → two fully
connected layers → "these two are neighbours", a sigmoid.

Slimmer than the original, so that both networks together fit into 3 MiB: channels of the seven
stages 16-16-24-40-48-72-112 (B0: 16-24-40-80-112-192-320; the blocks per stage, kernels and strides
are B0's), expansion 4 instead of 6, last convolution 320 (1280), embedding and hidden layers of 256
(512). Pieces are resampled to 64 px.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import SherdError
from ...puzzle import Puzzle
from ..evidence import Evidence, from_logits
from .pixels import fragments, resample
from .weights import load_rival

BLOCKS = (1, 2, 2, 3, 3, 4, 1)
"""MBConv blocks per stage, as in EfficientNet-B0."""
KERNELS = (3, 3, 5, 3, 5, 5, 3)
STRIDES = (1, 2, 2, 2, 1, 2, 1)
PAIRS = 8192
"""Pairs that the fully connected layers see at a time on the CPU."""


@dataclass(frozen=True)
class SdnConfig:
    """Sizes of both networks."""

    side: int = 64
    """Side of a piece in pixels, as the networks see it."""
    stem: int = 16
    widths: tuple[int, ...] = (16, 16, 24, 40, 48, 72, 112)
    """Channels of the seven stages."""
    expand: int = 4
    """Expansion of the MBConv blocks but for those of the first stage."""
    head: int = 320
    """Channels of the last convolution, which is pooled."""
    embed: int = 256
    """Embedding of a piece."""
    hidden: int = 256
    """Both layers after the embeddings."""
    dropout: float = 0.2
    """Share of the pooled figures that are left out in training, as in EfficientNet."""
    temperature: float = 1.0
    """Logits are divided by this to become evidence; fitted on validation puzzles."""

    def __post_init__(self) -> None:
        if len(self.widths) != len(BLOCKS) or min(self.widths) < 1:
            raise SherdError(f"widths: {self.widths}; expected {len(BLOCKS)} numbers of at least 1")
        for name in ("side", "stem", "expand", "head", "embed", "hidden", "temperature"):
            if not getattr(self, name) > 0:
                raise SherdError(f"{name}: {getattr(self, name)}; expected more than 0")
        if not 0 <= self.dropout < 1:
            raise SherdError(f"dropout: {self.dropout}; expected at least 0, below 1")


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class MBConv(nn.Module):
    """Expand, depthwise convolution, squeeze and excite, project; a residual where shapes allow."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, expand: int) -> None:
        super().__init__()
        wide = before * expand
        self.residual = stride == 1 and before == after
        self.expand = (
            nn.Sequential(nn.Conv2d(before, wide, 1, bias=False), _norm(wide), nn.SiLU())
            if expand > 1
            else nn.Identity()
        )
        self.depth = nn.Sequential(
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False),
            _norm(wide),
            nn.SiLU(),
        )
        few = max(1, before // 4)
        self.squeeze, self.excite = nn.Conv2d(wide, few, 1), nn.Conv2d(few, wide, 1)
        self.project = nn.Sequential(nn.Conv2d(wide, after, 1, bias=False), _norm(after))

    def forward(self, x: Tensor) -> Tensor:
        """``(b, before, h, w)`` → ``(b, after, h', w')``."""
        y = self.depth(self.expand(x))
        gate = self.excite(F.silu(self.squeeze(y.mean((2, 3), keepdim=True))))
        y = self.project(y * gate.sigmoid())
        return x + y if self.residual else y


class Discriminant(nn.Module):
    """One direction: is the second piece right of (below) the first one?"""

    def __init__(self, cfg: SdnConfig) -> None:
        super().__init__()
        self.dropout = cfg.dropout
        layers: list[nn.Module] = [
            nn.Conv2d(3, cfg.stem, 3, 2, 1, bias=False), _norm(cfg.stem), nn.SiLU(),
        ]  # fmt: skip
        channels = cfg.stem
        for stage, width in enumerate(cfg.widths):
            for block in range(BLOCKS[stage]):
                stride = STRIDES[stage] if block == 0 else 1
                expand = cfg.expand if stage else 1
                layers.append(MBConv(channels, width, KERNELS[stage], stride, expand))
                channels = width
        layers += [nn.Conv2d(channels, cfg.head, 1, bias=False), _norm(cfg.head), nn.SiLU()]
        self.trunk = nn.Sequential(*layers)
        self.embed = nn.Linear(cfg.head, cfg.embed)
        # the layer on two embeddings side by side, as its two halves: all pairs of a puzzle share
        # what each piece puts in
        self.first = nn.Linear(cfg.embed, cfg.hidden)
        self.second = nn.Linear(cfg.embed, cfg.hidden, bias=False)
        self.hidden = nn.Linear(cfg.hidden, cfg.hidden)
        self.out = nn.Linear(cfg.hidden, 1)

    def encode(self, x: Tensor) -> Tensor:
        """Pieces ``(b, 3, side, side)`` in -1..1 → embeddings ``(b, embed)``."""
        pooled = F.dropout(self.trunk(x).mean((2, 3)), self.dropout, self.training)
        return F.silu(self.embed(pooled))

    def compare(self, first: Tensor, second: Tensor) -> Tensor:
        """Embeddings ``(…, embed)`` of two pieces, broadcast → logits ``(…)``."""
        x = F.relu(self.first(first) + self.second(second))
        return self.out(F.relu(self.hidden(x))).squeeze(-1)

    def all_pairs(self, embedded: Tensor) -> Tensor:
        """``(puzzles, n, embed)`` → logits ``(puzzles, n, n)``, first piece by second piece."""
        return self.compare(embedded[:, :, None], embedded[:, None])


class SDN(nn.Module):
    """The networks of both directions."""

    def __init__(self, cfg: SdnConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.across, self.down = Discriminant(cfg), Discriminant(cfg)

    def forward(self, pieces: Tensor, puzzles: int) -> tuple[Tensor, Tensor]:
        """``(puzzles·n, 3, h, w)`` in 0..1 → logits ``(puzzles, n, n)`` of right and below."""
        x = resample(pieces, self.cfg.side)
        right, below = (
            net.all_pairs(net.encode(x).unflatten(0, (puzzles, -1)))
            for net in (self.across, self.down)
        )
        return right, below


@torch.inference_mode()
def pair_logits(net: SDN, puzzle: Puzzle) -> tuple[np.ndarray, np.ndarray]:
    """Logits ``(n, n)`` of right and below for all pairs of a puzzle, on the CPU."""
    x = fragments(puzzle, net.cfg.side)
    out = []
    for part in (net.across, net.down):
        e = torch.cat([part.encode(chunk) for chunk in x.split(32)])
        rows = max(1, PAIRS // len(e))
        logits = [part.compare(chunk[:, None], e[None]) for chunk in e.split(rows)]
        out.append(torch.cat(logits).double().numpy())
    return out[0], out[1]


@cache
def shipped_sdn() -> SDN:
    """The networks that come with sherd."""
    return load_rival("sdn", SdnConfig, SDN).net


def perceive_sdn(puzzle: Puzzle, net: SDN | None = None) -> Evidence:
    """Pair probabilities as evidence, by ``net`` or by the networks that come with sherd.

    The networks are trained with as much weight on neighbours as on others, so a logit is the
    log-likelihood ratio of "neighbours" against "others"; among the candidates of one side exactly
    one is right, hence the softmax of `from_logits`.
    """
    net = net or shipped_sdn()
    right, below = pair_logits(net, puzzle)
    t = net.cfg.temperature
    return from_logits(right / t, below / t, source="SDN: Siamese discriminant networks of SD²RL")
