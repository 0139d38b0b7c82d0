"""Hand-made seam evidence for the network: on any device, and relative to its rivals."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..classical import SOFTEN, weights_at

WORST = -40.0
"""Seam evidence is cut off here: beyond, a pair is out of the question anyway."""
CHUNK = 2**26
"""Values that are compared at a time."""

_XYZ = (
    (0.412453, 0.357580, 0.180423),
    (0.212671, 0.715160, 0.072169),
    (0.019334, 0.119193, 0.950227),
)
_WHITE = (0.95047, 1.0, 1.08883)


def rgb_to_lab(rgb: Tensor) -> Tensor:
    """sRGB ``(..., 3)`` in 0..1 → L*a*b* (D65), as `skimage.color.rgb2lab` does."""
    linear = torch.where(rgb > 0.04045, ((rgb + 0.055) / 1.055).clamp(min=0) ** 2.4, rgb / 12.92)
    # added up channel by channel: a matrix product may round to tf32
    to_xyz = rgb.new_tensor(_XYZ) / rgb.new_tensor(_WHITE)[:, None]
    xyz = (linear[..., None, :] * to_xyz).sum(-1)
    f = torch.where(xyz > 0.008856, xyz.clamp(min=1e-6) ** (1.0 / 3.0), 7.787 * xyz + 16.0 / 116.0)
    x, y, z = f.unbind(-1)
    return torch.stack([116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)], dim=-1)


def _profiles(pieces: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Per side of ``(..., 3, H, W)``: outermost L*a*b* pixels and outward slope ``(..., L, 3)``."""
    x = pieces.float()
    y1, x1 = min(1, x.shape[-2] - 1), min(1, x.shape[-1] - 1)
    lines = [
        (x[..., 0, :], x[..., y1, :]),
        (x[..., -1], x[..., -1 - x1]),
        (x[..., -1, :], x[..., -1 - y1, :]),
        (x[..., 0], x[..., x1]),
    ]
    out = []
    for outer, inner in lines:
        a, b = (rgb_to_lab(t.transpose(-1, -2)) for t in (outer, inner))
        out.append((a, a - b))
    return out


def _features(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> Tensor:
    """``(b, 5, m, n)`` features of ``(b, m, L, 3)`` sides against ``(b, n, L, 3)`` sides."""
    (a, sa), (b, sb) = ((t[:, :, None], s[:, :, None]) for t, s in (first, second))
    b, sb = b.transpose(1, 2), sb.transpose(1, 2)
    d = (a - b).abs()
    step = d.mean((-1, -2))
    predict = 0.5 * ((a + sa - b).abs() + (b + sb - a).abs()).mean((-1, -2))
    robust = (d + 1e-3).sqrt().sqrt().mean((-1, -2))
    slope = (sa + sb).abs().mean((-1, -2))
    slip = d.sum(-1)
    length = a.shape[-2]
    for s in (-2, -1, 1, 2):  # b moved along the edge; nothing beyond its ends
        moved = F.pad(b, (0, 0, max(0, -s), max(0, s)), value=1e6)
        moved = moved[..., max(0, s) : max(0, s) + length, :]
        slip = torch.minimum(slip, (a - moved).abs().sum(-1))
    return torch.stack([step, predict, robust, slip.mean(-1) / 3.0, slope], dim=1)


def seam_logits(pieces: Tensor, gaps: Sequence[int | None]) -> list[Tensor]:
    """Two ``(b, n, n)``: `sherd.perception.classical.seam_logits` of ``(b, n, 3, H, W)`` pieces."""
    weights = torch.stack([torch.from_numpy(weights_at(g)).float() for g in gaps])
    weights = weights.to(pieces.device, non_blocking=True)
    top, right, bottom, left = _profiles(pieces)
    out = []
    for first, second in ((right, left), (bottom, top)):
        b, n, length, _ = first[0].shape
        rows = max(1, CHUNK // (b * n * length * 3))
        parts = []
        for k in range(0, n, rows):
            some = (first[0][:, k : k + rows], first[1][:, k : k + rows])
            logs = (_features(some, second) + SOFTEN).log()
            parts.append(-(logs * weights[:, :, None, None]).sum(1))
        out.append(torch.cat(parts, dim=1))
    return out


def against_rivals(logits: Tensor) -> Tensor:
    """``(..., n, n)`` logits relative to the best of their row and column: `WORST` … 0."""
    own = torch.eye(logits.shape[-1], dtype=torch.bool, device=logits.device)
    others = logits.masked_fill(own, float("-inf"))
    best = 0.5 * (others.amax(-1, keepdim=True) + others.amax(-2, keepdim=True))
    return (logits - best).clamp(min=WORST).masked_fill(own, 0.0)
