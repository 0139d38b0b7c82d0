"""Levels along a side, fine enough to tell plain pieces apart.

A sky or a sheet of paper is told by fractions of a grey level, which bf16 arithmetic on plain
intensities cannot see. Waves of several periods can: a difference of one level turns a wave of
period 3 by a third, and products of waves compare two sides as cosines of their difference.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

PERIODS = (3.0, 12.0, 48.0, 192.0)
"""Of the waves, in grey levels of 255."""
DEPTH = 16
"""How deep the levels look, in pixels."""
SMOOTH = 5
"""Positions (of 4 px) along the edge that a smoothed level averages."""
LEVELS = 9 * 2 * len(PERIODS) + 4
"""Values per position."""


def _smoothed(x: Tensor) -> Tensor:
    """Moving average along the edge of ``(n, L, c)``."""
    y = F.avg_pool1d(
        x.transpose(1, 2), SMOOTH, stride=1, padding=SMOOTH // 2, count_include_pad=False
    )
    return y.transpose(1, 2)


def edge_levels(strip: Tensor, gap: Tensor) -> Tensor:
    """``(n, L, LEVELS)`` of a strip ``(n, 4·L, depth, 3)`` in 0..1, the outermost pixels first.

    Three levels per channel: of the 4×4 pixels at the edge, of the 8 outermost pixels smoothed
    along the edge, and of these continued to the middle of the gap ``(n,)`` (px; negative =
    unknown). Beside their waves: the smoothed slope and the contrast, on logarithmic scales.
    """
    strip = strip.float() * 255.0
    block = strip.unflatten(1, (-1, 4))  # (n, L, 4, depth, 3)
    lines = block.mean(2)
    half = max(1, strip.shape[2] // 2)
    near = lines[:, :, : min(4, half)].mean(2)
    outer = _smoothed(lines[:, :, :half].mean(2))
    inner = _smoothed(lines[:, :, -half:].mean(2))
    apart = max(1, strip.shape[2] - half)  # of the two halves' centres, in pixels
    slope = (outer - inner) / apart
    reach = half / 2 + torch.where(gap < 0, 2.0, gap)[:, None, None] / 2
    levels = torch.cat([near, outer, outer + slope * reach], dim=-1)
    contrast = (block[:, :, :, : min(4, half)] - near[:, :, None, None]).abs().mean((2, 3, 4))
    waves = [levels * (2.0 * math.pi / period) for period in PERIODS]
    return torch.cat(
        [w.sin() for w in waves]
        + [w.cos() for w in waves]
        + [torch.asinh(8.0 * slope), torch.log1p(contrast)[..., None]],
        dim=-1,
    )
