"""The MPPN: the shared encoder and every head that reads it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from .config import NetConfig
from .encoder import Encoder, GapEmbedding, pad_pieces
from .heads import BorderHead, Context, EdgeTokens, PairHead, PuzzletHead, Relations, Siamese
from .seams import against_rivals

FACING = ((1, 3), (2, 0))
"""Sides that meet, per direction: right and left, bottom and top."""
NEVER = -1e4
"""Logit of a piece beside itself."""


@dataclass(frozen=True)
class Features:
    """All that the heads need of n pieces; nothing of the pixels is kept."""

    embeddings: list[Tensor]
    """Four ``(n, L·embed)``: what the siamese score compares."""
    first: list[Tensor]
    """Two ``(n, L, C)``: the piece as the left / upper one of a pair."""
    second: list[Tensor]
    """Two ``(n, L, C)``: the piece as the right / lower one of a pair."""
    corners: Tensor
    """``(n, 4, corner)``: the piece as each member of a 2×2 puzzlet."""
    pooled: Tensor
    """``(n, 3·width)``: averages of F and of the stride-8 map."""
    edges: Tensor
    """``(n, 4, 2·edge)``: mean and maximum of the edge tokens of each side."""
    gap: Tensor
    """``(n, gap_dim)``: the gap embedding."""

    @staticmethod
    def join(parts: list[Features]) -> Features:
        """Features of several batches of pieces as one."""
        if len(parts) == 1:
            return parts[0]
        joined: dict[str, Any] = {}
        for f in fields(Features):
            values = [getattr(p, f.name) for p in parts]
            if isinstance(values[0], list):
                joined[f.name] = [torch.cat(v) for v in zip(*values, strict=True)]
            else:
                joined[f.name] = torch.cat(values)
        return Features(**joined)


@dataclass(frozen=True)
class Base:
    """Cheap scores of all pairs of one direction, for b puzzles."""

    score: Tensor
    """``(b, n, n)``: siamese score, relations and weighed seams; `NEVER` on the diagonal."""
    seams: Tensor
    """``(b, n, n)``: seam evidence relative to the pair's rivals, at most 0."""
    row: Tensor
    """``(b, n)``: best score of every row."""
    col: Tensor
    """``(b, n)``: best score of every column."""

    def rivalry(self, puzzle: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """``(p, RIVALRY)`` of the pairs ``i, j (p,)``: seam evidence, score behind its row's best,
        score behind its column's best."""
        here = self.score.detach()[puzzle, i, j]
        row, col = self.row[puzzle, i], self.col[puzzle, j]
        return torch.stack([self.seams[puzzle, i, j], here - row, here - col], dim=1)

    def fused(self, puzzle: Tensor, i: Tensor, j: Tensor, asked: Tensor) -> Tensor:
        """``(b, n, n)``: ``asked (p,)``, the logits of the pairs that a head was asked about, each
        pair once, and guesses for all others; no gradient through the score."""
        return guess_others(self.score.detach(), puzzle, i, j, asked)


def guess_others(plain: Tensor, puzzle: Tensor, i: Tensor, j: Tensor, asked: Tensor) -> Tensor:
    """``plain (b, n, n)`` scores with ``asked (p,)`` in the place of the pairs ``i, j``, each pair
    once, and guesses for all others.

    What the head would add to a score is guessed as the mean of what it added in that row and
    in that column. It need not be near 0: a head only ever compares candidates.
    """
    b, n, _ = plain.shape
    added = asked - plain[puzzle, i, j]
    row, col = (
        added.new_zeros(b * n).index_add(0, at, added) / torch.bincount(at, minlength=b * n)
        for at in (puzzle * n + i, puzzle * n + j)
    )
    guess = plain + 0.5 * (row.view(b, n, 1) + col.view(b, 1, n))
    return guess.index_put((puzzle, i, j), asked)


class MPPN(nn.Module):
    """Multi-head puzzle perception network (sec. MPPN), without decoder and discriminator."""

    def __init__(self, cfg: NetConfig | None = None) -> None:
        super().__init__()
        self.cfg = cfg = cfg or NetConfig()
        self.gap = GapEmbedding(cfg)
        self.encoder = Encoder(cfg)
        self.edge_tokens = EdgeTokens(cfg)
        self.siamese = Siamese(cfg)
        self.pair_1x2 = PairHead(cfg)
        self.pair_2x1 = PairHead(cfg)
        self.puzzlet_2x2 = PuzzletHead(cfg)
        self.context = Context(cfg)
        self.border = BorderHead(cfg)
        self.relations = Relations(cfg)
        self.seams_weight = nn.Linear(cfg.gap_dim, 2)
        self._init()

    def _init(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Conv2d) and module.bias is not None:
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)
        nn.init.zeros_(self.seams_weight.weight)
        nn.init.constant_(self.seams_weight.bias, math.log(0.2))

    def head(self, direction: int) -> PairHead:
        """The 1×2 head for left–right pairs (0), the 2×1 head for top–bottom pairs (1)."""
        return self.pair_2x1 if direction else self.pair_1x2

    def encode(self, pieces: Tensor, gap: Tensor) -> Features:
        """``pieces (n, 3, H, W)`` in 0..1, ``gap (n,)`` px (negative = unknown) → features."""
        padded = pad_pieces(pieces).contiguous(memory_format=torch.channels_last)
        g = self.gap(gap)
        maps = self.encoder(padded, g)
        nhwc = (0, 2, 3, 1)
        tokens = self.edge_tokens(maps, pieces.permute(nhwc), padded.permute(nhwc), gap, g)
        heads = (self.pair_1x2, self.pair_2x1)
        return Features(
            embeddings=self.siamese.embeddings(tokens),
            first=[h.first(tokens[FACING[d][0]]) for d, h in enumerate(heads)],
            second=[h.second(tokens[FACING[d][1]]) for d, h in enumerate(heads)],
            corners=self.puzzlet_2x2.corners(maps.f),
            pooled=torch.cat([maps.f.mean((1, 2)), maps.deep], dim=-1),
            edges=torch.stack([torch.cat([t.mean(1), t.amax(1)], -1) for t in tokens], dim=1),
            gap=g,
        )

    def tokens(self, x: Features, puzzles: int = 1) -> Tensor:
        """``(puzzles, n, context)``: every piece as the rest of its puzzle lets it appear."""
        shape = (puzzles, -1)
        gap = x.gap.unflatten(0, shape)[:, 0]
        return self.context(x.pooled.unflatten(0, shape), x.edges.unflatten(0, shape), gap)

    def base(self, x: Features, tokens: Tensor, seams: Tensor, direction: int) -> Base:
        """Score of j right of (0) / below (1) i for puzzles of equal size, from their `tokens`
        and the logits of their hand-made ``seams (b, n, n)``."""
        shape = (len(tokens), -1)
        a, b = (x.embeddings[s].unflatten(0, shape) for s in FACING[direction])
        seams = against_rivals(seams.float())
        weight = self.seams_weight(x.gap.unflatten(0, shape)[:, 0])[:, direction].float().exp()
        score = self.siamese.score(a, b, direction) + self.relations(tokens, direction)
        score = score + weight[:, None, None] * seams
        own = torch.eye(score.shape[-1], dtype=torch.bool, device=score.device)
        score = score.masked_fill(own, NEVER)
        plain = score.detach()
        return Base(score, seams, plain.amax(2), plain.amax(1))

    def pair(
        self, x: Features, i: Tensor, j: Tensor, direction: int, rivalry: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Seam vectors ``(p, seam)`` and residual logits ``(p,)`` of the pairs ``i, j (p,)``."""
        first = x.first[direction].index_select(0, i)
        second = x.second[direction].index_select(0, j)
        return self.head(direction)(first, second, rivalry)

    def border_logits(self, x: Features, tokens: Tensor) -> Tensor:
        """``(puzzles, 4, n)``: logit that a side has no neighbour."""
        return self.border(x.edges.unflatten(0, (len(tokens), -1)), tokens)

    def puzzlet(self, x: Features, members: Tensor, seams: Tensor, logits: Tensor) -> Tensor:
        """``(q,)`` logits of the puzzlets ``members (q, 4)``; ``seams (q, 4, seam)`` and their
        fused logits ``(q, 4)`` in the order top, bottom, left, right."""
        place = torch.arange(4, device=members.device)
        corners = x.corners[members, place]
        return self.puzzlet_2x2(seams, corners, logits, x.gap[members[:, 0]])


PUZZLET_SEAMS = ((0, 0, 1), (0, 2, 3), (1, 0, 2), (1, 1, 3))
"""Seams of a puzzlet (direction, first member, second member): top, bottom, left, right."""
