"""The fringe: what the outermost pixels of two facing sides say where little is missing.

The pair heads of the MPPN read a seam in steps of four pixels. Where few pixels are missing there
is more to be seen at full resolution: whether grain, noise and fine texture go on. `Fringe` is a
small network for that; one looks where next to nothing is missing, another at wider gaps. It
compares pixels by their differences alone, in grey levels, and answers with a *residual* for what
is known of a pair already. It looks from both sides at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import SherdError
from ..puzzle import Puzzle
from .mppn.config import CLOSE
from .mppn.heads import AlongBlock
from .mppn.network import FACING, guess_others
from .rivals.weights import FOLDER, Rival, file_stem, load_rival

SYSTEM, WIDE = "fringe", "fringe-wide"
"""For at most `CLOSE` missing pixels, and for more."""
TOLD = 4
"""What is told of a pair beside its pixels (see `standing`)."""
STATS = 10
"""Figures of one side by itself (see `Fringe.side`)."""
TOKENS = 2048 * 28
"""Positions along the seam that are compared at a time."""


@dataclass(frozen=True)
class FringeConfig:
    """Sizes of the network, and what it was trained beside."""

    depth: int = 6
    """Lines of pixels of a side."""
    reach: int = 2
    """Pixels along the side to both sides of a position."""
    filters: int = 64
    """Differences that are formed at a position."""
    width: int = 96
    blocks: int = 3
    """Residual blocks along the seam."""
    mppn: str = ""
    """sha256 of the MPPN that it was trained beside; with another it does not count."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            least = 0 if f.name == "reach" else 2 if f.name == "depth" else 1
            if f.name != "mppn" and (not isinstance(value, int) or value < least):
                raise SherdError(
                    f"{f.name}: {value!r}; expected a whole number of at least {least}"
                )


class Side(NamedTuple):
    """One side of n pieces, as it meets another."""

    own: Tensor
    """``(n, L, filters)``: its part of the differences when it is asked first."""
    other: Tensor
    """``(n, L, filters)``: its part when it is asked second."""
    plain: Tensor
    """``(n, width)``: how much there is to be seen on it."""


class Fringe(nn.Module):
    """Outermost pixels of two facing sides → residual logit."""

    def __init__(self, cfg: FringeConfig | None = None) -> None:
        super().__init__()
        self.cfg = cfg = cfg or FringeConfig()
        taps, steps = 2 * cfg.reach + 1, 3 * (cfg.depth - 1)
        self.level = nn.Linear(3 * taps, cfg.filters, bias=False)
        self.own = nn.Linear(2 * steps * taps, cfg.filters, bias=False)
        self.other = nn.Linear(2 * steps * taps, cfg.filters, bias=False)
        self.lift = nn.Linear(cfg.filters, cfg.width)
        self.plain = nn.Linear(STATS, cfg.width)
        self.norm = nn.LayerNorm(cfg.width)
        self.blocks = nn.Sequential(*(AlongBlock(cfg.width) for _ in range(cfg.blocks)))
        self.fc1 = nn.Linear(2 * cfg.width, cfg.width)
        self.told = nn.Linear(TOLD, cfg.width, bias=False)
        self.fc2 = nn.Linear(cfg.width, cfg.width)
        self.fc3 = nn.Linear(cfg.width, 1)
        self.trust = nn.Linear(cfg.width, 1)
        for last in (self.fc3, self.trust):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def sides(self, pieces: Tensor, gap: Tensor) -> list[Side]:
        """Top, right, bottom and left side of ``pieces (n, 3, H, W)`` in grey levels, with
        ``gap (n,)`` pixels missing between neighbours."""
        x = pieces.float()
        turned = (
            x.transpose(2, 3),  # (n, 3, L, depth), outermost last
            x.flip(3),
            x.transpose(2, 3).flip(3),
            x,
        )
        return [self.side(t[..., : self.cfg.depth], gap) for t in turned]

    def side(self, strip: Tensor, gap: Tensor) -> Side:
        """``strip (n, 3, L, depth)``, outermost pixels first."""
        strip = F.pad(strip, (0, self.cfg.depth - strip.shape[3], 0, 0), mode="replicate")
        level = strip[..., 0]  # (n, 3, L)
        steps = strip[..., :-1] - strip[..., 1:]  # (n, 3, L, depth - 1), outwards
        along = level[..., 1:] - level[..., :-1]
        size = [steps[..., 0], steps.mean(3) * steps.shape[3] ** 0.5, along]
        stats = [torch.log(s.abs().mean(2) + 0.1) for s in size]
        plain = self.plain(torch.cat([*stats, torch.log1p(gap)[:, None]], dim=1))
        inner = steps.transpose(2, 3).flatten(1, 2)  # (n, 3·(depth - 1), L)
        # a step across g missing pixels is g + 1 steps long
        inner = torch.cat([inner, inner * gap[:, None, None]], dim=1)
        with torch.autocast(strip.device.type, enabled=False):  # fractions of a grey level count
            flat = self.level(self._taps(level))
            own, other = (part(self._taps(inner)) for part in (self.own, self.other))
        return Side(flat + own, other - flat, plain)

    def _taps(self, x: Tensor) -> Tensor:
        """``(n, C, L)`` → ``(n, L, C·taps)``: what lies around every position."""
        reach = self.cfg.reach
        around = F.pad(x, (reach, reach), mode="replicate").unfold(2, 2 * reach + 1, 1)
        return around.transpose(1, 2).flatten(2)

    def forward(self, a: Side, b: Side, i: Tensor, j: Tensor, told: Tensor) -> Tensor:
        """Sides ``a`` of the pieces ``i (p,)`` that face sides ``b`` of ``j (p,)``, and what is
        ``told (p, TOLD)`` of each pair → residual logits ``(p,)``."""
        plain = (a.plain[i] + b.plain[j])[:, None]
        seen = [
            F.gelu(self.lift(torch.asinh(d)) + plain)
            for d in (a.own[i] + b.other[j], b.own[j] + a.other[i])  # both ways: a mirror is alike
        ]
        x = self.blocks(self.norm(seen[0] + seen[1]).to(seen[0].dtype))
        pooled = torch.cat([x.mean(1), x.amax(1)], dim=-1)
        y = F.gelu(self.fc1(pooled) + self.told(torch.asinh(told).to(x.dtype)))
        y = F.gelu(self.fc2(y))
        behind = told[:, 0] + told[:, 1]
        return self.fc3(y).squeeze(-1).float() + self.trust(y).squeeze(-1).float() * behind


def standing(known: Tensor, gradients: Tensor, puzzle: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """``(p, TOLD)``: how the pairs ``i, j`` stand by what is ``known (b, n, n)`` in logits, and by
    ``gradients (b, n, n)``: nats before the best other of their row, and of their column."""
    parts = []
    for table in (known, gradients):
        for t, a, b in ((table, i, j), (table.mT, j, i)):
            best = t.topk(min(2, t.shape[-1]), dim=-1)
            first, second = best.values[..., 0], best.values[..., -1]
            own = best.indices[..., 0][puzzle, a] == b
            parts.append(t[puzzle, a, b] - torch.where(own, second[puzzle, a], first[puzzle, a]))
    return torch.stack(parts, dim=1).clamp(-60.0, 60.0)


def system_for(gap: float) -> str:
    """Which of the two networks looks where ``gap`` pixels are missing."""
    return SYSTEM if gap <= CLOSE else WIDE


@cache
def shipped_fringe(system: str = SYSTEM) -> Rival[Fringe] | None:
    """The one that comes with sherd, read once; None if there is none."""
    if not (FOLDER / f"{file_stem(system)}.json").is_file():
        return None
    return load_fringe(system=system)


def load_fringe(path: str | Path | None = None, system: str = SYSTEM) -> Rival[Fringe]:
    """The network at ``path`` (a folder, a stem or either file), or the shipped one."""
    return load_rival(system, FringeConfig, Fringe, path)


def add_fringe(
    net: Fringe,
    puzzle: Puzzle,
    known: np.ndarray,
    gradients: np.ndarray,
    keys: Sequence[np.ndarray],
) -> np.ndarray:
    """``known (2, n, n)`` logits with the residuals of the pairs ``keys`` (``i·n + j``, right and
    below), and guesses for all others."""
    assert puzzle.gap is not None
    x = torch.from_numpy(puzzle.pieces).permute(0, 3, 1, 2)
    sides = net.sides(x, torch.full((puzzle.n,), float(puzzle.gap)))
    out = []
    for d, facing in enumerate(FACING):
        table, steps = (torch.from_numpy(t[d]).float()[None] for t in (known, gradients))
        i, j = (torch.from_numpy(k) for k in divmod(keys[d], puzzle.n))
        at = torch.zeros_like(i)
        told = standing(table, steps, at, i, j)
        a, b = (sides[s] for s in facing)
        size = max(1, TOKENS // a.own.shape[1])
        parts = zip(i.split(size), j.split(size), told.split(size), strict=True)
        residual = torch.cat([net(a, b, *part) for part in parts])
        asked = table[0, i, j] + residual
        out.append(guess_others(table, at, i, j, asked)[0].numpy())
    return np.stack(out)
