"""Fragments as the compared systems' networks see them: of one size, in -1..1."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ...puzzle import Puzzle
from ..neural import filled

SIDE = 64
"""Side of a fragment in pixels, for networks that see squares of one size."""


@lru_cache(maxsize=256)
def _triangle(before: int, after: int, device: torch.device) -> Tensor:
    """``(after, before)``: weights of bilinear resampling that averages what it shrinks."""
    scale = before / after
    centre = (torch.arange(after, dtype=torch.float64)[:, None] + 0.5) * scale
    at = torch.arange(before, dtype=torch.float64)[None] + 0.5
    weight = (1.0 - (at - centre).abs() / max(1.0, scale)).clamp(min=0.0)
    return (weight / weight.sum(1, keepdim=True)).float().to(device)


def resize(x: Tensor, size: tuple[int, int]) -> Tensor:
    """``(b, c, h, w)`` → ``(b, c, *size)``, bilinear with antialiasing, as two products.

    The same as `torch.nn.functional.interpolate` with ``antialias=True``, whose kernel for GPUs
    goes through a batch one picture after the other: seconds for thousands of pieces.
    """
    if x.shape[2:] == size:
        return x.float()
    with torch.autocast(x.device.type, enabled=False):
        rows = _triangle(x.shape[2], size[0], x.device)
        cols = _triangle(x.shape[3], size[1], x.device)
        return rows @ x.float() @ cols.T


def to_squares(pieces: Tensor) -> Tensor:
    """``(n, 3, h, w)`` in 0..1 → ``(n, 3, SIDE, SIDE)``."""
    return resize(pieces, (SIDE, SIDE))


def resample(pieces: Tensor, side: int) -> Tensor:
    """``(b, 3, h, w)`` in 0..1 → ``(b, 3, side, side)`` in -1..1."""
    return resize(pieces, (side, side)) * 2.0 - 1.0


def fragments(puzzle: Puzzle, side: int) -> Tensor:
    """``(n, 3, side, side)`` in -1..1; holes have their fragment's mean colour."""
    x = torch.from_numpy(np.array(filled(puzzle).pieces)).permute(0, 3, 1, 2)
    return torch.cat([resample(part.float() / 255.0, side) for part in x.split(256)])
