"""Fragments as the compared systems' networks see them: of one size, in -1..1."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...puzzle import Puzzle
from ..neural import _whole


def resample(pieces: Tensor, side: int) -> Tensor:
    """``(b, 3, h, w)`` in 0..1 → ``(b, 3, side, side)`` in -1..1."""
    if pieces.shape[2:] != (side, side):
        pieces = F.interpolate(
            pieces.float(), (side, side), mode="bilinear", antialias=True, align_corners=False
        )
    return pieces * 2.0 - 1.0


def fragments(puzzle: Puzzle, side: int) -> Tensor:
    """``(n, 3, side, side)`` in -1..1; holes have their fragment's mean colour."""
    x = torch.from_numpy(np.array(_whole(puzzle).pieces)).permute(0, 3, 1, 2)
    return torch.cat([resample(part.float() / 255.0, side) for part in x.split(256)])
