"""Evidence of boards, and how it changes with every action, batched.

Evidence of a board is the sum over its neighbour pairs and its rim (eq. sum_local without the 2×2
term). All gains are exact: what `score` says after an action minus what it said before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from .layout import OUTER, Layout, make_layout
from .rules import Puzzles


def around(layout: Layout, boards: Tensor) -> Tensor:
    """``(B, C, 6)``: the pieces beside each cell (C = none), the cell's number, and C: what
    `Tables.look` is asked for."""
    wide = torch.cat([boards, layout.tail.expand(len(boards), -1)], dim=1)
    return wide[:, layout.seen]


def seen(puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
    """``(B, C, 6)``: evidence of each cell's piece with its neighbour at every side, or that there
    is none at the rim; place evidence; 1 for a blank. What is said of sides of the pool is void."""
    t = puzzles.tables
    others = around(puzzles.layout, boards)
    return t.look[which[:, None, None], boards[:, :, None], t.side, others]


def sides(puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
    """``(B, C, 4)``: evidence of each cell's piece with its neighbour at every side, 0 = none."""
    return seen(puzzles, boards, which)[..., :4] * puzzles.layout.inner


def score(puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
    """``(B,)`` evidence of boards."""
    layout = puzzles.layout  # a pair is seen from both sides, a rim from one
    return (seen(puzzles, boards, which)[..., :4] * (0.5 * layout.inner + layout.rim)).sum((1, 2))


def fits(puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
    """``(B, 5, C, C)``: ``[b, d, c, k]`` = evidence at side d if the piece of cell k lay in c.

    The neighbours of c stay; at the rim it is the border evidence. The fifth is place evidence.
    """
    t, layout = puzzles.tables, puzzles.layout
    others = around(layout, boards)[..., :5].transpose(1, 2)  # (B, 5, C)
    out = t.look[
        which[:, None, None, None], boards[:, None, None], t.side[:5, None, None], others[..., None]
    ]
    return out * layout.real if layout.pool else out


def _apart(fit: Tensor) -> Tensor:
    """``(B, c, k)`` → gain of cell c alone, if it gets the piece of k."""
    return fit - fit.diagonal(dim1=1, dim2=2)[:, :, None]


def _both(one: Tensor) -> Tensor:
    """Gains of two cells that exchange their pieces."""
    return one + one.transpose(1, 2)


def swap_gain(puzzles: Puzzles, boards: Tensor, which: Tensor, fit: Tensor) -> Tensor:
    """``(B, C, C)``: gain of exchanging the pieces of two cells; ``fit`` is from `fits`."""
    return _swap_gain(puzzles, boards, which, _apart(fit[:, :4].sum(1)))


def _swap_gain(puzzles: Puzzles, boards: Tensor, which: Tensor, one: Tensor) -> Tensor:
    # neighbours: each was told to fit beside itself (0), and their seam was taken away twice
    layout = puzzles.layout
    pieces = boards[:, layout.adjacent]  # (B, A, 2)
    seam = puzzles.tables.look[
        which[:, None, None], pieces, layout.direction[:, None], pieces.flip(2)
    ]
    at = _indices(layout).neighbours
    return _both(one.flatten(1).index_add(1, at, seam.sum(2)).view_as(one))


def exchange_gain(
    puzzles: Puzzles, boards: Tensor, which: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """``(B, C)``: gains in pair and in place evidence of exchanging the piece of ``cell (B,)`` with
    that of every cell."""
    t, layout = puzzles.tables, puzzles.layout
    side, w = t.side[:5], which[:, None, None]
    others = around(layout, boards)[..., :5]  # (B, C, 5)
    here = cell[:, None, None].expand(-1, 1, 5)
    mine = others.gather(1, here)  # (B, 1, 5)
    own = boards.gather(1, cell[:, None])[..., None]  # (B, 1, 1)
    now = t.look[w, boards[..., None], side, others]
    there = t.look[w, own, side, others] - now  # this piece elsewhere
    stay = now.gather(1, here)
    back = t.look[w, boards[..., None], side, mine] - stay  # others in this cell
    if layout.pool:
        there, back = there * layout.real, back * layout.real[cell][:, None]
    gain = there + back
    # neighbours: each was told to fit beside itself, and their seam was taken away twice
    seam = stay[:, 0, :4] + t.look[which[:, None], mine[:, 0, :4], side[:4], own[..., 0]]
    extra = gain.new_zeros(len(gain), layout.cells + 1).scatter_(1, layout.near[cell], seam)
    pair = gain[..., :4].sum(2) + extra[:, :-1]
    return pair.scatter_(1, cell[:, None], 0.0), gain[..., 4]


def block_gain(puzzles: Puzzles, boards: Tensor, which: Tensor, fit: Tensor) -> Tensor:
    """``(B, C, C)``: gain of exchanging two 2×2 blocks, by their top left cells.

    Meaningful where `Layout.apart` holds, 0 where no block fits.
    """
    layout = puzzles.layout
    if not len(layout.tops):
        return fit.new_zeros(len(boards), layout.cells, layout.cells)
    x = _indices(layout)
    one = fit[:, x.outer_side, x.outer[:, :, None], x.outer[:, None]].sum(1)  # (B, K, K)
    if len(layout.touching):  # blocks that touch carry a part of each other's surroundings along
        pieces = boards[:, x.seams]  # (B, 2, 4, T)
        seam = puzzles.tables.look[
            which[:, None, None], pieces[:, 0], x.seam_side, pieces[:, 1]
        ]  # (B, 4, T)
        seam = (seam * x.sign).sum(1)
        one = one.flatten(1).index_add(1, x.touching, seam).view_as(one)
    return _spread(layout, _both(_apart(one)))


def _spread(layout: Layout, gain: Tensor) -> Tensor:
    """``(B, K, K)`` of blocks → ``(B, C, C)``."""
    out = gain.new_zeros(len(gain), layout.cells, layout.cells)
    out[:, layout.tops[:, None], layout.tops] = gain
    return out


def gains(puzzles: Puzzles, boards: Tensor, which: Tensor) -> tuple[Tensor, Tensor | None]:
    """``(B, 3, C, C)``: gain in pair evidence and in place evidence (if there is any), by type.

    For a Swap-3, whose third cell is not known yet: what cell b gains by getting a's piece.
    """
    layout = puzzles.layout
    fit = fits(puzzles, boards, which)
    one = _apart(fit[:, :4].sum(1))
    swap = _swap_gain(puzzles, boards, which, one)
    block = block_gain(puzzles, boards, which, fit)
    pair = torch.stack([swap, one.transpose(1, 2), block], dim=1)
    if puzzles.place is None:
        return pair, None
    at = fit[:, 4]
    one = _apart(at)
    block = torch.zeros_like(at)
    if len(layout.tops):
        x = _indices(layout)
        inside = at[:, x.blocks[:, :, None], x.blocks[:, None]].sum(1)
        block = _spread(layout, _both(_apart(inside)))
    return pair, torch.stack([_both(one), one.transpose(1, 2), block], dim=1)


@dataclass(frozen=True)
class _Indices:
    """Where gains of actions are added up; K blocks, T seams between blocks that touch."""

    neighbours: Tensor
    """``(A,)``: pairs of neighbours in a flat ``(C, C)``."""
    blocks: Tensor
    """``(4, K)``: cells of the blocks."""
    outer: Tensor
    """``(8, K)``: cells of the blocks at their outer sides."""
    outer_side: Tensor
    """``(8, 1, 1)``."""
    touching: Tensor
    """``(T,)``: blocks that touch, in a flat ``(K, K)``."""
    seams: Tensor
    """``(2, 4, T)``: cells whose pieces meet, or met, at a seam, in four ways."""
    seam_side: Tensor
    """``(4, T)``: on which side."""
    sign: Tensor
    """``(4, 1)``: whether that is won or lost."""


def _indices(layout: Layout) -> _Indices:
    return _make_indices(layout.rows, layout.cols, layout.pool, layout.near.device)


@cache
def _make_indices(rows: int, cols: int, pool: int, device: torch.device) -> _Indices:
    with torch.inference_mode(False):
        layout = make_layout(rows, cols, pool)
        cells, tops = layout.cells, layout.tops
        blocks = layout.blocks[tops].T
        number = torch.zeros(cells, dtype=torch.long)
        number[tops] = torch.arange(len(tops))
        a, b, side, u, w, to_u, to_w = layout.touching.unbind(1)
        back = (side + 2) % 4
        parts = (
            layout.adjacent[:, 0] * cells + layout.adjacent[:, 1],
            blocks,
            blocks[[member for member, _ in OUTER]],
            torch.tensor([s for _, s in OUTER])[:, None, None],
            number[a] * len(tops) + number[b],
            torch.stack([torch.stack([to_u, u, to_u, to_w]), torch.stack([to_w, w, w, u])]),
            torch.stack([side, side, side, back]),
            torch.tensor([1.0, 1.0, -1.0, -1.0])[:, None],
        )
        return _Indices(*(p.to(device) for p in parts))
