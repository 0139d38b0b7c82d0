"""What JPEG does to pictures, on the device they are on: ITU-T T.81 as far as it loses anything."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 8
LUMA = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
"""Steps of the coefficients of luminance at quality 50 (ITU-T T.81, table K.1) …"""
CHROMA = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8,) * 4,
)
"""… and of colour (table K.2)."""
TO_YCC = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))
"""Luminance and colour differences of red, green and blue (JFIF)."""


def jpeg(x: Tensor, quality: Tensor) -> Tensor:
    """``x (b, 3, H, W)`` in 0..1 as it comes back from JPEGs of ``quality (b,)`` 1..100, with
    colour at half the resolution; in 255 steps."""
    height, width = x.shape[2:]
    to_ycc = torch.tensor(TO_YCC, device=x.device)
    planes = torch.einsum("kc,bchw->bkhw", to_ycc, x.float() * 255.0)
    planes[:, 0] -= 128.0
    pad = (0, -width % (2 * BLOCK), 0, -height % (2 * BLOCK))
    planes = F.pad(planes, pad, mode="replicate").round()
    luma = _quantised(planes[:, :1], _steps(LUMA, quality))
    chroma = _quantised(F.avg_pool2d(planes[:, 1:], 2).round(), _steps(CHROMA, quality))
    chroma = F.interpolate(chroma, scale_factor=2.0, mode="bilinear", align_corners=False)
    ycc = torch.cat([luma + 128.0, chroma], dim=1)[:, :, :height, :width]
    rgb = torch.einsum("ck,bkhw->bchw", torch.linalg.inv(to_ycc), ycc)
    return rgb.round().clamp(0.0, 255.0) / 255.0


def _steps(table: tuple[tuple[int, ...], ...], quality: Tensor) -> Tensor:
    """``(b, 1, 1, 1, 8, 8)`` steps at ``quality (b,)``, by the rule of the Independent JPEG
    Group."""
    scale = torch.where(quality < 50.0, 5000.0 / quality, 200.0 - 2.0 * quality)
    base = torch.tensor(table, device=quality.device, dtype=torch.float32)
    steps = ((base * scale[:, None, None] + 50.0) / 100.0).floor().clamp(1.0, 255.0)
    return steps[:, None, None, None]


def _quantised(planes: Tensor, steps: Tensor) -> Tensor:
    """``planes (b, k, H, W)`` around 0, whole numbers, with their blocks' coefficients rounded."""
    dct = _dct(planes.device)
    blocks = planes.unflatten(3, (-1, BLOCK)).unflatten(2, (-1, BLOCK)).transpose(3, 4)
    found = (dct @ blocks @ dct.T / steps).round() * steps  # (b, k, H/8, W/8, 8, 8)
    back = (dct.T @ found @ dct).round().clamp(-128.0, 127.0)
    return back.transpose(3, 4).flatten(4, 5).flatten(2, 3)


def _dct(device: torch.device) -> Tensor:
    """``(8, 8)``: the orthonormal cosine transform of a line of a block."""
    k = torch.arange(BLOCK, device=device, dtype=torch.float32)
    waves = torch.cos(math.pi / BLOCK * (k[None] + 0.5) * k[:, None])
    waves[0] /= math.sqrt(2.0)
    return waves * math.sqrt(2.0 / BLOCK)
