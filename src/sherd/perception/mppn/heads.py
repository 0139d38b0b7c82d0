"""Edge tokens, the siamese score, and the heads: 1×2 and 2×1 pairs, 2×2 puzzlets, border."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import NetConfig
from .encoder import Maps
from .levels import DEPTH, LEVELS, edge_levels

FINE_DEPTH, F_DEPTH, RAW_DEPTH = 4, 2, 4
"""How deep an edge token looks: stride-2 cells, stride-4 cells, pixels."""


RIVALRY = 3
"""What a pair head is told about a pair's rivals (see `Base.rivalry`)."""


def _cells(m: Tensor, side: int, depth: int) -> Tensor:
    """The outermost ``depth`` cells along one side of ``m (n, h, w, c)``: ``(n, L, depth, c)``.

    Sides are top, right, bottom, left; positions run left to right or top to bottom.
    """
    if side == 0:
        return m[:, :depth].transpose(1, 2)
    if side == 1:
        return m[:, :, -depth:]
    if side == 2:
        return m[:, -depth:].transpose(1, 2)
    return m[:, :, :depth]


def _strip(m: Tensor, side: int, depth: int, fold: int) -> Tensor:
    """`_cells`, ``fold`` of them along the edge per position: ``(n, L, fold·depth·c)``."""
    s = _cells(m, side, depth)
    return s.reshape(len(s), s.shape[1] // fold, -1)


class Along(nn.Module):
    """Convolution of three taps along the edge, on ``(..., L, C)``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        p = F.pad(x, (0, 0, 1, 1))
        return self.linear(torch.cat([p[..., :-2, :], x, p[..., 2:, :]], dim=-1))


class AlongBlock(nn.Module):
    """Residual: three taps along the edge, then a mix of the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.taps = Along(channels, channels)
        self.mix = nn.Linear(channels, channels)
        nn.init.zeros_(self.mix.weight)  # a block that is added to a trained head changes nothing

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mix(F.gelu(self.taps(x)))


class EdgeTokens(nn.Module):
    """One token per stride-4 position along a side, from the fine map, F, raw pixels and levels.

    Every side has its own weights: orientation carries meaning.
    """

    def __init__(self, cfg: NetConfig) -> None:
        super().__init__()
        inputs = 2 * FINE_DEPTH * cfg.fine + F_DEPTH * cfg.width + 4 * RAW_DEPTH * 3
        self.project = nn.ModuleList(nn.Linear(inputs, cfg.edge) for _ in range(4))
        self.levels = nn.ModuleList(nn.Linear(LEVELS, cfg.edge, bias=False) for _ in range(4))
        self.gap = nn.ModuleList(nn.Linear(cfg.gap_dim, 2 * cfg.edge) for _ in range(4))
        self.block = nn.ModuleList(AlongBlock(cfg.edge) for _ in range(4))
        self.norm = nn.ModuleList(nn.LayerNorm(cfg.edge) for _ in range(4))
        for weight in self.gap.parameters():
            nn.init.zeros_(weight)

    def forward(
        self, maps: Maps, raw: Tensor, padded: Tensor, missing: Tensor, gap: Tensor
    ) -> list[Tensor]:
        """Four ``(n, L, edge)``. ``raw`` and ``padded`` are ``(n, H, W, 3)`` pixels in 0..1,
        ``missing`` is the gap in pixels ``(n,)`` and ``gap`` its embedding."""
        tokens = []
        for side in range(4):
            # depth from the piece itself, so that padding never hides its outermost pixels
            h, w = raw.shape[1:3]
            ph, pw = padded.shape[1:3]
            top, left = (ph - h) // 2, (pw - w) // 2
            if side in (0, 2):
                pixels = padded[:, top : top + h]
            else:
                pixels = padded[:, :, left : left + w]
            parts = [
                _strip(maps.fine, side, FINE_DEPTH, 2),
                _strip(maps.f, side, F_DEPTH, 1),
                (_strip(pixels, side, RAW_DEPTH, 4) - 0.5) * 4.0,
            ]
            dtype = torch.promote_types(parts[0].dtype, parts[1].dtype)
            x = self.project[side](torch.cat([p.to(dtype) for p in parts], dim=-1))
            strip = _cells(pixels, side, min(DEPTH, pixels.shape[1 + side % 2]))
            strip = strip.flip(2) if side in (1, 2) else strip  # outermost pixels first
            x = x + self.levels[side](edge_levels(strip, missing).to(dtype))
            scale, shift = self.gap[side](gap)[:, None].chunk(2, dim=-1)
            x = self.block[side](x * (1.0 + scale) + shift)
            tokens.append(self.norm[side](x))
        return tokens


class Siamese(nn.Module):
    """Cheap score of all n² pairs: dot products of per-position embeddings."""

    def __init__(self, cfg: NetConfig) -> None:
        super().__init__()
        self.embed = nn.ModuleList(nn.Linear(cfg.edge, cfg.embed) for _ in range(4))
        self.scale = nn.Parameter(torch.zeros(2))
        self.power = nn.Parameter(torch.full((2,), 0.5))
        self.dim = cfg.embed

    def embeddings(self, tokens: list[Tensor]) -> list[Tensor]:
        """Four ``(n, L·embed)``."""
        return [e(t).flatten(1) for e, t in zip(self.embed, tokens, strict=True)]

    def score(self, first: Tensor, second: Tensor, direction: int) -> Tensor:
        """``(..., n, L·embed)`` twice → ``(..., n, n)``: second is right of / below first.

        ``direction`` 0 is left–right, 1 is top–bottom. The evidence of neighbouring positions is
        correlated, so that the sum over L positions is divided by a learned power of L.
        """
        length = first.shape[-1] // self.dim
        with torch.autocast(first.device.type, enabled=False):
            scale = torch.exp(self.scale[direction]) * self.dim**-0.5
            scale = scale * float(length) ** -self.power[direction]
            return (first.float() * scale) @ second.float().transpose(-1, -2)


class PairHead(nn.Module):
    """The 1×2 (or 2×1) puzzlet head: two facing edges → seam vector → residual logit.

    What depends on one piece only (`first`, `second`) is computed once per piece. The head is
    told how the pair stands against its rivals, and says how far the seam evidence counts.
    """

    def __init__(self, cfg: NetConfig) -> None:
        super().__init__()
        self.width = cfg.pair
        self.first = Along(cfg.edge, cfg.pair + cfg.edge)
        self.second = Along(cfg.edge, cfg.pair + cfg.edge)
        self.compare = nn.Linear(2 * cfg.edge, cfg.pair, bias=False)
        self.norm = nn.LayerNorm(cfg.pair)
        self.blocks = nn.Sequential(*(AlongBlock(cfg.pair) for _ in range(cfg.pair_blocks)))
        self.fc1 = nn.Linear(2 * cfg.pair, cfg.seam)
        self.rivals = nn.Linear(RIVALRY, cfg.seam, bias=False)
        self.fc2 = nn.Linear(cfg.seam, cfg.seam // 2)
        self.fc3 = nn.Linear(cfg.seam // 2, 1)
        self.trust = nn.Linear(cfg.seam // 2, 1)
        for last in (self.fc3, self.trust):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(self, first: Tensor, second: Tensor, rivalry: Tensor) -> tuple[Tensor, Tensor]:
        """``(p, L, pair + edge)`` twice and ``(p, RIVALRY)`` → seam vectors ``(p, seam)``,
        residual logits ``(p,)``."""
        a, b = first[..., self.width :], second[..., self.width :]
        x = self.compare(torch.cat([a * b, (a - b).abs()], dim=-1))
        x = self.norm(x + first[..., : self.width] + second[..., : self.width])
        x = self.blocks(x.to(first.dtype))  # autocast's norm answers in float32
        pooled = torch.cat([x.mean(1), x.amax(1)], dim=-1)
        told = self.rivals(torch.asinh(rivalry).to(x.dtype))
        seam = F.gelu(self.fc1(pooled) + told)
        last = F.gelu(self.fc2(seam))
        trust = self.trust(last).squeeze(-1).float()
        return seam, self.fc3(last).squeeze(-1).float() + trust * rivalry[:, 0]


class PuzzletHead(nn.Module):
    """The 2×2 puzzlet head: four seams and the four corners that meet → three FC → logit."""

    def __init__(self, cfg: NetConfig) -> None:
        super().__init__()
        self.corner = nn.ModuleList(nn.Linear(4 * cfg.width, cfg.corner) for _ in range(4))
        inputs = 4 * (cfg.seam + cfg.corner + 1) + cfg.gap_dim
        self.norm = nn.LayerNorm(inputs)
        self.fc1 = nn.Linear(inputs, 256)
        self.fc2 = nn.Linear(256, 128)
        self.fc3 = nn.Linear(128, 1)

    def corners(self, f: Tensor) -> Tensor:
        """``(n, 4, corner)``: 2×2 cells of F at the corner where the piece meets the others.

        Index k is the piece's place in the puzzlet: the top-left piece meets the others with its
        bottom right corner, and so on.
        """
        a, b = slice(None, 2), slice(-2, None)
        cells = [f[:, b, b], f[:, b, a], f[:, a, b], f[:, a, a]]
        both = zip(self.corner, cells, strict=True)
        return torch.stack([lin(c.flatten(1)) for lin, c in both], dim=1)

    def forward(self, seams: Tensor, corners: Tensor, logits: Tensor, gap: Tensor) -> Tensor:
        """``seams (q, 4, seam)`` top, bottom, left, right; ``corners (q, 4, corner)`` of the four
        pieces; ``logits (q, 4)`` of the seams; ``gap (q, gap_dim)`` → ``(q,)``."""
        scalars = logits.to(seams.dtype) * 0.1
        x = torch.cat([seams.flatten(1), corners.flatten(1), scalars, gap.to(seams.dtype)], dim=-1)
        x = F.gelu(self.fc1(self.norm(x)))
        return self.fc3(F.gelu(self.fc2(x))).squeeze(-1)


class ContextLayer(nn.Module):
    """Self-attention over the pieces of one puzzle, and an MLP. No order: pieces are a set."""

    def __init__(self, cfg: NetConfig) -> None:
        super().__init__()
        c = cfg.context
        self.heads = c // cfg.head_dim
        self.norm1, self.norm2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.out = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.up, self.down = nn.Linear(c, 2 * c), nn.Linear(2 * c, c)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v)  # memory grows with n, not n²
        x = x + self.drop(self.out(seen.transpose(1, 2).reshape(b, n, c)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Context(nn.Module):
    """Piece tokens that have seen all pieces of their puzzle."""

    def __init__(self, cfg: NetConfig) -> None:
        super().__init__()
        self.token = nn.Linear(3 * cfg.width + 4 * cfg.edge, cfg.context)
        self.gap = nn.Linear(cfg.gap_dim, cfg.context)
        self.count = nn.Linear(1, cfg.context)
        self.layers = nn.Sequential(*(ContextLayer(cfg) for _ in range(cfg.context_layers)))
        self.norm = nn.LayerNorm(cfg.context)

    def forward(self, pooled: Tensor, edges: Tensor, gap: Tensor) -> Tensor:
        """``pooled (b, n, 3·width)``, ``edges (b, n, 4, 2·edge)`` (mean, max), ``gap (b, gap_dim)``
        → ``(b, n, context)``."""
        b, n = pooled.shape[:2]
        means = edges[..., : edges.shape[-1] // 2].flatten(2)
        size = torch.full((b, 1), float(n), device=pooled.device).log() / 4.0
        x = self.token(torch.cat([pooled, means], dim=-1))
        x = x + (self.gap(gap) + self.count(size))[:, None]
        tokens: Tensor = self.norm(self.layers(x))
        return tokens.to(edges.dtype)


class BorderHead(nn.Module):
    """Per side: logit that it has no neighbour, judged in the context of the whole puzzle."""

    def __init__(self, cfg: NetConfig) -> None:
        super().__init__()
        self.hidden = nn.ModuleList(
            nn.Linear(2 * cfg.edge + cfg.context, cfg.context) for _ in range(4)
        )
        self.logit = nn.ModuleList(nn.Linear(cfg.context, 1) for _ in range(4))
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, edges: Tensor, tokens: Tensor) -> Tensor:
        """``edges (b, n, 4, 2·edge)``, ``tokens (b, n, context)`` → ``(b, 4, n)`` logits."""
        sides = []
        for side, (hidden, logit) in enumerate(zip(self.hidden, self.logit, strict=True)):
            y = F.gelu(hidden(torch.cat([edges[:, :, side], tokens], dim=-1)))
            sides.append(logit(self.drop(y)).squeeze(-1))
        return torch.stack(sides, dim=1)


class Relations(nn.Module):
    """Score of all n² pairs from what the whole puzzle says of each piece: sky is above land."""

    def __init__(self, cfg: NetConfig) -> None:
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(cfg.context, cfg.relate) for _ in range(2))
        self.second = nn.ModuleList(nn.Linear(cfg.context, cfg.relate) for _ in range(2))
        for linear in self.second:
            assert isinstance(linear, nn.Linear)
            nn.init.zeros_(linear.weight)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, tokens: Tensor, direction: int) -> Tensor:
        """``(b, n, context)`` → ``(b, n, n)``: j right of (0) / below (1) i."""
        a = self.first[direction](self.drop(tokens))
        b = self.second[direction](self.drop(tokens))
        with torch.autocast(a.device.type, enabled=False):
            return (a.float() * a.shape[-1] ** -0.5) @ b.float().transpose(-1, -2)
