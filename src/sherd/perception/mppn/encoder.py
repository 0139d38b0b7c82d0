"""The shared encoder: conv stem, Swin layers at strides 4 and 8, merged back to stride 4."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import NetConfig


class Maps(NamedTuple):
    """What the encoder says of n pieces."""

    fine: Tensor
    """``(n, H/2, W/2, fine)``: stride-2 map of the stem."""
    f: Tensor
    """``(n, H/4, W/4, width)``: the stride-4 map F."""
    deep: Tensor
    """``(n, 2·width)``: the stride-8 map, averaged."""


class GapEmbedding(nn.Module):
    """Missing pixels between neighbours → vector; a negative gap means unknown."""

    def __init__(self, cfg: NetConfig) -> None:
        super().__init__()
        self.unknown = nn.Parameter(torch.zeros(cfg.gap_dim))
        self.mlp = nn.Sequential(
            nn.Linear(cfg.gap_dim, cfg.gap_dim), nn.GELU(), nn.Linear(cfg.gap_dim, cfg.gap_dim)
        )
        half = cfg.gap_dim // 2
        self.register_buffer(
            "freq", math.pi * 4.0 ** torch.linspace(-1.0, 1.0, half), persistent=False
        )
        self.freq: Tensor

    def forward(self, gap: Tensor) -> Tensor:
        """``(n,)`` pixels → ``(n, gap_dim)``."""
        # log1p(48) is 3.9: dividing by 4 brings every gap into 0..1
        phase = torch.log1p(gap.clamp(min=0.0))[:, None] / 4.0 * self.freq
        known = self.mlp(torch.cat([phase.sin(), phase.cos()], dim=1))
        return torch.where(gap[:, None] < 0, self.unknown.to(known.dtype), known)


class Stem(nn.Module):
    """Full resolution → stride 2 (kept) → stride 4.

    It has no normalisation: absolute brightness and contrast at the edge are what is compared.
    """

    def __init__(self, cfg: NetConfig) -> None:
        super().__init__()
        self.full = nn.Conv2d(3, cfg.stem, 3, padding=1)
        self.to_half = nn.Conv2d(cfg.stem, cfg.fine, 3, stride=2, padding=1)
        self.refine = nn.Conv2d(cfg.fine, cfg.fine, 3, padding=1)
        self.to_quarter = nn.Conv2d(cfg.fine, cfg.width, 3, stride=2, padding=1)
        self.gap = nn.Linear(cfg.gap_dim, cfg.width)

    def forward(self, x: Tensor, gap: Tensor) -> tuple[Tensor, Tensor]:
        """``(n, 3, H, W)`` → stride 2 ``(n, fine, H/2, W/2)``, stride 4 ``(n, width, ...)``."""
        x = F.gelu(self.full(x))
        half = self.to_half(x)
        half = half + self.refine(F.gelu(half))
        quarter = self.to_quarter(F.gelu(half)) + self.gap(gap)[:, :, None, None]
        return half, quarter


@cache
def _split(size: int, largest: int) -> tuple[int, int]:
    """Into how many windows of which side an axis of ``size`` cells is split."""
    count = -(-size // largest)
    return count, -(-size // count)


def _axis(size: int, largest: int, shifted: bool) -> tuple[int, int, int]:
    """``(padded size, window, shift)`` of one axis; a single window is not shifted."""
    count, window = _split(size, largest)
    return count * window, window, window // 2 if shifted and count > 1 else 0


@cache
def _relative_index(wh: int, ww: int, largest: int, device: torch.device) -> Tensor:
    """``(T, T)`` index into the ``(2·largest−1)²`` table of relative positions."""
    with torch.inference_mode(False):  # the cache is shared by training and inference
        y, x = torch.meshgrid(torch.arange(wh), torch.arange(ww), indexing="ij")
        y, x = y.flatten(), x.flatten()
        dy = y[:, None] - y[None] + largest - 1
        dx = x[:, None] - x[None] + largest - 1
        return (dy * (2 * largest - 1) + dx).to(device)


@cache
def _window_mask(
    h: int, w: int, largest: int, shifted: bool, device: torch.device
) -> Tensor | None:
    """``(windows, 1, T, T)`` additive mask against padding and wrapped cells, None if all see all.

    Rolling the map brings cells from the other end into a window: cells that wrapped and cells
    that did not must not see each other. Nobody sees padding.
    """
    axes = [_axis(s, largest, shifted) for s in (h, w)]
    if (axes[0][0], axes[1][0]) == (h, w) and not (axes[0][2] or axes[1][2]):
        return None
    with torch.inference_mode(False):
        region, real = [], []
        for (padded, _, shift), size in zip(axes, (h, w), strict=True):
            origin = (torch.arange(padded) + shift) % padded
            region.append((origin < shift).long())
            real.append(origin < size)
        label = region[0][:, None] * 2 + region[1][None]
        keep = real[0][:, None] & real[1][None]

        def windows(m: Tensor) -> Tensor:
            (ph, wh, _), (pw, ww, _) = axes
            m = m.reshape(ph // wh, wh, pw // ww, ww).transpose(1, 2)
            return m.reshape(-1, wh * ww)

        label, keep = windows(label), windows(keep)
        seen = (label[:, :, None] == label[:, None, :]) & keep[:, None, :]
        mask = torch.zeros(seen.shape).masked_fill(~seen, -1e4)
        return mask[:, None].to(device)


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, windows: int) -> Tensor:
    """Softmax attention of ``(n·windows, heads, t, d)`` with an additive bias per window.

    Without gradients PyTorch's fused kernel halves the time on a CPU; with them, the plain
    products are as fast and their backward pass takes a bias of any size.
    """
    n = len(q) // windows
    if not torch.is_grad_enabled():
        bias = bias.expand(n, windows, *bias.shape[1:]).flatten(0, 1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    logits = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    logits = (logits.unflatten(0, (n, windows)) + bias).flatten(0, 1)
    return logits.softmax(-1).to(v.dtype) @ v


class SwinLayer(nn.Module):
    """Window attention (shifted or not) and an MLP, both residual, on ``(n, h, w, C)``."""

    def __init__(self, channels: int, cfg: NetConfig, shifted: bool) -> None:
        super().__init__()
        self.shifted, self.largest = shifted, cfg.window
        self.heads = channels // cfg.head_dim
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)
        self.bias = nn.Parameter(torch.zeros((2 * cfg.window - 1) ** 2, self.heads))
        self.up = nn.Linear(channels, cfg.mlp * channels)
        self.down = nn.Linear(cfg.mlp * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[1:3]
        wh, ww = (_axis(s, self.largest, self.shifted)[1] for s in (h, w))
        index = _relative_index(wh, ww, self.largest, x.device)
        mask = _window_mask(h, w, self.largest, self.shifted, x.device)
        x = x + self._attention(self.norm1(x), index, mask)
        return x + self.down(F.gelu(self.up(self.norm2(x))))

    def _attention(self, x: Tensor, index: Tensor, mask: Tensor | None) -> Tensor:
        n, h, w, c = x.shape
        (ph, wh, sh), (pw, ww, sw) = (_axis(s, self.largest, self.shifted) for s in (h, w))
        if (ph, pw) != (h, w):
            x = F.pad(x, (0, 0, 0, pw - w, 0, ph - h))
        if sh or sw:
            x = x.roll((-sh, -sw), (1, 2))
        rows, cols, t = ph // wh, pw // ww, wh * ww
        x = x.reshape(n, rows, wh, cols, ww, c).transpose(2, 3)  # (n, rows, cols, wh, ww, c)
        qkv = self.qkv(x.reshape(n * rows * cols, t, c))
        qkv = qkv.reshape(n * rows * cols, t, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # (n·windows, heads, t, d)
        bias = self.bias[index].permute(2, 0, 1)  # (heads, t, t)
        both = bias[None] if mask is None else bias + mask  # (1 or windows, heads, t, t)
        x = _attend(q, k, v, both.to(q.dtype), rows * cols)
        x = self.out(x.transpose(1, 2).reshape(n * rows * cols, t, c))
        x = x.reshape(n, rows, cols, wh, ww, c).transpose(2, 3).reshape(n, ph, pw, c)
        if sh or sw:
            x = x.roll((sh, sw), (1, 2))
        return x[:, :h, :w]


def _swin_pairs(channels: int, count: int, cfg: NetConfig) -> nn.Sequential:
    return nn.Sequential(
        *(SwinLayer(channels, cfg, s) for _ in range(count) for s in (False, True))
    )


class Encoder(nn.Module):
    """Pieces of any size → `Maps`. Sides must be multiples of 4 (see ``pad_pieces``)."""

    def __init__(self, cfg: NetConfig) -> None:
        super().__init__()
        c = cfg.width
        self.stem = Stem(cfg)
        self.norm = nn.LayerNorm(c)
        self.fine = _swin_pairs(c, cfg.pairs_fine, cfg)
        self.shrink = nn.Linear(4 * c, 2 * c)
        self.deep = _swin_pairs(2 * c, cfg.pairs_deep, cfg)
        self.deep_norm = nn.LayerNorm(2 * c)
        self.merge = nn.Linear(3 * c, c)
        self.last = nn.LayerNorm(c)

    def forward(self, x: Tensor, gap: Tensor) -> Maps:
        """``x (n, 3, H, W)`` in 0..1 and the gap embedding ``(n, gap_dim)`` → maps."""
        half, quarter = self.stem((x - 0.5) * 4.0, gap)
        f = self.fine(self.norm(quarter.permute(0, 2, 3, 1)))
        n, h, w, c = f.shape
        even = F.pad(f, (0, 0, 0, w % 2, 0, h % 2))  # strides 4 → 8 by folding 2×2 cells
        folded = even.reshape(n, (h + 1) // 2, 2, (w + 1) // 2, 2, c).transpose(2, 3)
        deep = self.deep_norm(self.deep(self.shrink(folded.flatten(3))))
        up = deep.repeat_interleave(2, 1).repeat_interleave(2, 2)[:, :h, :w]
        f = self.last(f + self.merge(torch.cat([f, up], dim=-1)))
        return Maps(half.permute(0, 2, 3, 1), f, deep.mean((1, 2)))


def pad_pieces(x: Tensor) -> Tensor:
    """``(n, 3, H, W)`` with its edge pixels repeated until both sides are multiples of 4."""
    h, w = x.shape[-2:]
    dh, dw = -h % 4, -w % 4
    if not (dh or dw):
        return x
    return F.pad(x, (dw // 2, dw - dw // 2, dh // 2, dh - dh // 2), mode="replicate")
