"""Boards as pictures: fragments and their recovered surroundings laid out, gaps filled.

Fragments lie at their nominal places, ``gap`` pixels apart; nobody knows by how much each was
displaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import SherdError

MARGIN = 64
"""Pixels around a tile that the blend sees as well: more than its receptive field reaches."""
STRIDE = 8
"""Of the blend's coarsest map."""
PLANES = 10
"""Of the blend's input: start (3), recovered (3), known, recovered at all, depth in y and in x."""


@dataclass(frozen=True)
class Layout:
    """Where fragments lie on a board that is drawn. Lengths in pixels."""

    grid: tuple[int, int]
    """Rows and columns."""
    fragment: tuple[int, int]
    """Height and width of a fragment."""
    gap: int
    """Between two fragments."""

    def __post_init__(self) -> None:
        if min(self.grid) < 1 or min(self.fragment) < 1 or self.gap < 0:
            raise SherdError(
                f"layout: grid {self.grid}, fragment {self.fragment} must be at least 1, "
                f"gap {self.gap} at least 0"
            )

    @property
    def half(self) -> int:
        """Half of the gap, rounded up: what is recovered on every side of a fragment."""
        return -(-self.gap // 2)

    @property
    def size(self) -> tuple[int, int]:
        """``(height, width)`` of the picture."""
        (m, n), (h, w) = self.grid, self.fragment
        return m * h + (m - 1) * self.gap, n * w + (n - 1) * self.gap

    def axis(self, vertical: bool) -> tuple[int, int, int]:
        """Fragments, their length and the gap, down (True) or across."""
        a = 0 if vertical else 1
        return self.grid[a], self.fragment[a], self.gap


def lay_out(parts: Tensor, layout: Layout, around: int = 0) -> Tensor:
    """Pieces in the order of their cells → whole pictures.

    Parameters
    ----------
    parts
        ``(b·cells, c, h + 2·around, w + 2·around)``: fragments, or recovered fragments.
    layout
        Where they lie.
    around
        0 for fragments (gaps become 0), `Layout.half` for recovered ones (gaps are covered; what
        lies beyond the board's rim is cut off). Where an odd gap makes two overlap by a pixel,
        the left and the upper one is seen.

    Returns
    -------
    ``(b, c, *layout.size)``.
    """
    (m, n), gap = layout.grid, layout.gap
    if around == 0:
        parts, before = F.pad(parts, (0, gap, 0, gap)), 0
    elif around == layout.half:
        odd = gap % 2
        parts, before = parts[..., odd:, odd:], around - odd
    else:
        raise SherdError(f"around: {around}; expected 0 or {layout.half}, half of the gap")
    c, h, w = parts.shape[1:]
    whole = parts.reshape(-1, m, n, c, h, w).permute(0, 3, 1, 4, 2, 5)  # (b, c, m, h, n, w)
    whole = whole.reshape(-1, c, m * h, n * w)
    height, width = layout.size
    return whole[..., before : before + height, before : before + width]


@cache
def bridges(count: int, length: int, gap: int, device: torch.device) -> tuple[Tensor, ...]:
    """Between which pixels every pixel of an axis lies.

    Returns ``lo``, ``hi`` (pixels of fragments before and after, the pixel itself inside one),
    ``t`` (how far from ``lo`` to ``hi``, 0..1) and ``depth`` (pixels to the nearer fragment).
    """
    with torch.inference_mode(False):  # the cache is shared by training and inference
        x = torch.arange(count * length + (count - 1) * gap)
        cell, at = x // (length + gap), x % (length + gap)
        out = (at - length + 1).clamp(min=0)  # 1..gap in a gap
        lo = x - out
        hi = torch.where(out > 0, (cell + 1) * (length + gap), x)
        t = out / (gap + 1)
        depth = torch.where(out > 0, torch.minimum(out, gap + 1 - out), out).float()
        return lo.to(device), hi.to(device), t.to(device), depth.to(device)


def linear_fill(canvas: Tensor, known: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Straight lines across every gap, in both directions where four fragments meet.

    Parameters
    ----------
    canvas, known
        ``(b, 3, H, W)`` picture and ``(b, 1, H, W)`` 1 where it is known, else 0.
    layout
        Where the fragments lie.

    Returns
    -------
    The filled picture, and ``(b, 1, H, W)`` 1 where there was something to fill it from. Beside
    an empty cell the last known pixel is repeated.
    """
    value, weight = canvas * known, known
    for dim, vertical in ((3, False), (2, True)):
        lo, hi, t, _ = bridges(*layout.axis(vertical), canvas.device)
        t = t.view(-1, 1) if vertical else t
        sides = [(value.index_select(dim, at), weight.index_select(dim, at)) for at in (lo, hi)]
        parts = [(1.0 - t) * sides[0][1], t * sides[1][1]]
        total = parts[0] + parts[1]
        mixed = (parts[0] * sides[0][0] + parts[1] * sides[1][0]) / total.clamp(min=1e-6)
        inside = weight > 0  # what is known already stays as it is
        value = torch.where(inside, value, mixed)
        weight = ((total > 0) | inside).to(known.dtype)
    return value, weight


class ResBlock(nn.Module):
    """Two 3×3 convolutions, residual; starts near the identity."""

    def __init__(self, channels: int, dilation: int = 1) -> None:
        super().__init__()
        self.one = nn.Conv2d(channels, channels, 3, padding=dilation, dilation=dilation)
        self.two = nn.Conv2d(channels, channels, 3, padding=dilation, dilation=dilation)
        with torch.no_grad():
            self.two.weight.mul_(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.two(F.relu(self.one(F.relu(x))))


class Blend(nn.Module):
    """A small U-Net on the whole picture: it sees both sides of a seam at once.

    It has no normalisation and no global step, so that a pixel depends on what lies within
    `MARGIN` only: large pictures are worked on in tiles, with the same result.
    """

    def __init__(self, channels: tuple[int, int, int, int]) -> None:
        super().__init__()
        a, b, c, d = channels
        self.first = nn.Conv2d(PLANES, a, 3, padding=1)
        self.down = nn.ModuleList(
            nn.Conv2d(i, o, 3, stride=2, padding=1) for i, o in ((a, b), (b, c), (c, d))
        )
        self.into = nn.ModuleList(ResBlock(k) for k in (a, b, c))
        self.deep = ResBlock(d)
        self.up = nn.ModuleList(nn.Conv2d(i, 4 * o, 1) for i, o in ((b, a), (c, b), (d, c)))
        self.out = nn.ModuleList(ResBlock(k) for k in (a, b, c))
        self.last = nn.Conv2d(a, 3, 3, padding=1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]

    def residual(self, x: Tensor) -> Tensor:
        """``(b, PLANES, H, W)``, sides multiples of `STRIDE` → ``(b, 3, H, W)``."""
        x = self.first(x.contiguous(memory_format=torch.channels_last))
        kept = []
        for into, down in zip(self.into, self.down, strict=True):
            x = into(x)
            kept.append(x)
            x = down(F.relu(x))
        x = self.deep(x)
        for level in (2, 1, 0):
            x = kept[level] + F.pixel_shuffle(self.up[level](F.relu(x)), 2)
            x = self.out[level](x)
        return self.last(F.relu(x))

    def forward(
        self,
        canvas: Tensor,
        known: Tensor,
        recovered: Tensor,
        covered: Tensor,
        layout: Layout,
        tile: int = 0,
    ) -> Tensor:
        """The picture with its gaps filled; known pixels are handed back as they came.

        Parameters
        ----------
        canvas, recovered
            ``(b, 3, H, W)`` in 0..1: the fragments, and the recovered fragments, laid out.
        known, covered
            ``(b, 1, H, W)``: 1 where ``canvas`` is known, where ``recovered`` says something.
        layout
            Where the fragments lie.
        tile
            Side in pixels of the parts that a large picture is worked on in; 0 = whole.
        """
        line, reached = linear_fill(canvas, known, layout)
        start = torch.where(reached > 0, line, recovered * covered)
        planes = self._planes(start, known, recovered, covered, layout)
        if tile:
            extra = self._tiled(planes, tile)
        else:
            extra = self.residual(planes)
        filled = start + extra[..., : canvas.shape[2], : canvas.shape[3]].to(start.dtype)
        return torch.where(known > 0, canvas, into_range(filled))

    @staticmethod
    def _planes(
        start: Tensor, known: Tensor, recovered: Tensor, covered: Tensor, layout: Layout
    ) -> Tensor:
        """``(b, PLANES, H', W')``: the input, its sides brought to multiples of `STRIDE`."""
        b, _, h, w = start.shape
        deep = [bridges(*layout.axis(v), start.device)[3] / 8.0 for v in (True, False)]
        planes = torch.cat(
            [
                2.0 * start - 1.0,
                (2.0 * recovered - 1.0) * covered,
                known,
                covered,
                deep[0].view(1, 1, h, 1).expand(b, 1, h, w),
                deep[1].view(1, 1, 1, w).expand(b, 1, h, w),
            ],
            dim=1,
        )
        return F.pad(planes, (0, -w % STRIDE, 0, -h % STRIDE))

    def _tiled(self, planes: Tensor, tile: int) -> Tensor:
        """`residual`, part by part; each part sees `MARGIN` pixels more on every side."""
        tile = -(-tile // STRIDE) * STRIDE
        h, w = planes.shape[2:]
        out = planes.new_empty(len(planes), 3, h, w)
        for y in range(0, h, tile):
            for x in range(0, w, tile):
                top, left = max(0, y - MARGIN), max(0, x - MARGIN)
                part = planes[..., top : y + tile + MARGIN, left : x + tile + MARGIN]
                if not bool((part[:, 6] == 0).any()):
                    out[..., y : y + tile, x : x + tile] = 0.0  # nothing to fill
                    continue
                answer = self.residual(part)[..., y - top :, x - left :]
                out[..., y : y + tile, x : x + tile] = answer[..., :tile, :tile]
        return out


def into_range(x: Tensor) -> Tensor:
    """``x`` cut to 0..1; gradients pass as if it were not, so that no pixel gets stuck."""
    return x + (x.clamp(0.0, 1.0) - x).detach() if x.requires_grad else x.clamp(0.0, 1.0)
