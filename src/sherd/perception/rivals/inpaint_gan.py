"""Networks of Inpaint-GAN (Bridger, Danon & Tal 2020): a generator and a discriminator.

Two pieces of 64 px lie side by side with the missing strip between them. The generator inpaints
the strip; the discriminator looks at the result. Of the paper's 64×128 px only the `columns`
around the seam are computed, the strip in their middle: this is where the two meet, and all pairs
of 150 pieces are 44 700 pictures. A pair one above the other is transposed; a channel says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import SherdError
from .pixels import SIDE
from .weights import Rival, load_rival

SYSTEM = "inpaint-gan"
REACH = 16
"""Columns around the seam that the generator can fill."""
GUESS = 4.0 / 64.0
"""Missing pixels, as a share of a piece's side, where the gap is unknown."""


@dataclass(frozen=True)
class InpaintConfig:
    """Sizes of the networks."""

    columns: int = 32
    """Of the pair image, half on each side of the seam."""
    generator: int = 16
    """Channels of the generator at half resolution, twice as many at a quarter."""
    discriminator: int = 32
    """Channels of the discriminator's first layer; 2, 4 and 4 times as many in the next."""
    hidden: int = 128

    def __post_init__(self) -> None:
        if self.columns % 8 or self.columns < 2 * REACH:
            raise SherdError(f"columns: {self.columns}; expected a multiple of 8, >= {2 * REACH}")
        for name in ("generator", "discriminator", "hidden"):
            if getattr(self, name) < 1:
                raise SherdError(f"{name}: {getattr(self, name)}; expected at least 1")


def strip_width(missing: float | None, side: int) -> int:
    """Columns of the missing strip when a piece's ``side`` is scaled to 64 px: even, 0..16."""
    share = GUESS if missing is None else missing / side
    return int(min(REACH, 2 * round(0.5 * SIDE * share)))


def _layer(inside: int, outside: int, size: int, stride: int = 1) -> nn.Sequential:
    pad = (size - 1) // 2
    return nn.Sequential(
        nn.Conv2d(inside, outside, size, stride, pad, bias=False),
        nn.BatchNorm2d(outside),
        nn.LeakyReLU(0.2, inplace=True),
    )


class Generator(nn.Module):
    """A small U-Net: pair image with a hole → what the hole held.

    Input channels: colours (0 in the strip), the strip's mask, the direction. Only the middle
    `REACH` columns are decoded; the strip is among them.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = _layer(5, width, 4, 2)  # (B, w, 32, W/2)
        self.down = _layer(width, 2 * width, 3, 2)  # (B, 2w, 16, W/4)
        self.middle = _layer(2 * width, 2 * width, 3)
        self.up = nn.Conv2d(2 * width, 4 * width, 1)
        self.fuse = _layer(2 * width, width, 3)
        self.out = nn.Conv2d(width, 12, 3, padding=1)

    def forward(self, pair: Tensor) -> Tensor:
        """``(B, 5, 64, W)`` → ``(B, 3, 64, REACH)`` in 0..1."""
        skip = self.first(pair)
        x = self.middle(self.down(skip))
        x = F.pixel_shuffle(self.up(_middle(x, REACH // 4)), 2)  # (B, w, 32, REACH/2)
        x = self.fuse(torch.cat([x, _middle(skip, REACH // 2)], 1))
        return F.pixel_shuffle(self.out(x), 2).sigmoid()


class Discriminator(nn.Module):
    """Pair image → logit: real, and later, neighbours."""

    def __init__(self, width: int, columns: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(5, width, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            _layer(width, 2 * width, 3, 2),
            _layer(2 * width, 4 * width, 3, 2),
            _layer(4 * width, 4 * width, 3, 2),  # (B, 4w, 4, W/16)
        )
        self.head = nn.Sequential(
            nn.Linear(4 * width * (SIDE // 16) * (columns // 16), hidden),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(hidden, 1),
        )

    def forward(self, pair: Tensor) -> Tensor:
        """``(B, 5, 64, W)`` → ``(B,)``."""
        out: Tensor = self.head(self.layers(pair).flatten(1))
        return out[:, 0]


def _middle(x: Tensor, columns: int) -> Tensor:
    from_ = (x.shape[3] - columns) // 2
    return x[..., from_ : from_ + columns]


class InpaintGan(nn.Module):
    """Both networks, and how a pair of pieces goes through them."""

    def __init__(self, cfg: InpaintConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.generator = Generator(cfg.generator)
        self.discriminator = Discriminator(cfg.discriminator, cfg.columns, cfg.hidden)

    def ends(self, squares: Tensor, strip: int, vertical: bool) -> tuple[Tensor, Tensor]:
        """What pieces ``(n, 3, 64, 64)`` show at their right and at their left in a pair image.

        ``(n, 3, 64, c)`` each, c = (columns − strip) / 2. ``vertical``: bottom and top, transposed.
        """
        if vertical:
            squares = squares.transpose(2, 3)
        c = (self.cfg.columns - strip) // 2
        return squares[..., SIDE - c :], squares[..., :c]

    def pair(self, left: Tensor, between: Tensor, right: Tensor, vertical: bool) -> Tensor:
        """The pair image ``(B, 5, 64, columns)``: colours about 0, the strip's mask, direction."""
        c, strip = left.shape[3], between.shape[3]
        about = left.new_zeros(len(left), 2, SIDE, self.cfg.columns)
        about[:, 0, :, c : c + strip] = 1.0
        if vertical:
            about[:, 1] = 1.0
        colours = torch.cat([left, between, right], 3) - 0.5
        return torch.cat([colours, about], 1).contiguous(memory_format=torch.channels_last)

    def inpaint(self, left: Tensor, right: Tensor, vertical: bool) -> Tensor:
        """The generator's strip ``(B, 3, 64, strip)`` between two ends."""
        strip = self.cfg.columns - 2 * left.shape[3]
        hole = left.new_full((len(left), 3, SIDE, strip), 0.5)
        if not strip:
            return hole
        made = self.generator(self.pair(left, hole, right, vertical))
        return _middle(made, strip).to(left.dtype)

    def forward(self, left: Tensor, right: Tensor, vertical: bool) -> Tensor:
        """Logits ``(B,)`` that the pieces with these ends are neighbours."""
        between = self.inpaint(left, right, vertical)
        out: Tensor = self.discriminator(self.pair(left, between, right, vertical))
        return out

    @torch.no_grad()
    def adapt(self, squares: Tensor, strip: int, count: int = 256) -> None:
        """Take the discriminator's statistics from ``count`` random pairs of this puzzle in each
        direction: those of all training puzzles together fit none of them well."""
        norms = [m for m in self.discriminator.modules() if isinstance(m, nn.BatchNorm2d)]
        before = [(m.momentum, m.training) for m in norms]
        for m in norms:
            m.reset_running_stats()
            m.momentum = None  # the mean of what follows
            m.train()
        generator = torch.Generator().manual_seed(0)
        for d in (0, 1):
            last, first = self.ends(squares, strip, bool(d))
            i, j = torch.randint(len(squares), (2, count), generator=generator).to(squares.device)
            self(last[i], first[j], bool(d))
        for m, (momentum, training) in zip(norms, before, strict=True):
            m.momentum = momentum
            m.train(training)


def load_inpaint_gan(path: str | Path | None = None) -> Rival[InpaintGan]:
    """The networks at ``path``, or those that come with sherd."""
    return load_rival(SYSTEM, InpaintConfig, InpaintGan, path)
