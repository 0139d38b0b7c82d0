"""Evidence of boards, and how it changes with every action, batched.

Evidence of a board is the sum over its neighbour pairs and its rim (eq. sum_local without the 2×2
term). All gains are exact: what `score` says after an action minus what it said before.
"""

from __future__ import annotations

from torch import Tensor

from .layout import OUTER
from .rules import Puzzles


def padded(boards: Tensor) -> Tensor:
    """``(B, C+1)``: boards with "nothing" (piece C) in the cell that stands for no cell."""
    return _cat(boards, boards.shape[1])


def _cat(boards: Tensor, value: int) -> Tensor:
    out = boards.new_full((len(boards), boards.shape[1] + 1), value)
    out[:, :-1] = boards
    return out


def lookup(puzzles: Puzzles, which: Tensor, side: int, i: Tensor, j: Tensor) -> Tensor:
    """Evidence of piece j at ``side`` of piece i; ``i``, ``j`` broadcast to ``(B, …)``."""
    n = puzzles.at.shape[-1]
    base = (which * 4 + side) * n
    base = base.reshape(-1, *[1] * (max(i.ndim, j.ndim) - 1))
    return puzzles.at.reshape(-1)[(base + i) * n + j]


def sides(puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
    """``(B, C, 4)``: evidence of each cell's piece with its neighbour at every side, 0 = none."""
    layout = puzzles.layout
    n = puzzles.at.shape[-1]
    around = padded(boards)[:, layout.near]  # (B, C, 4)
    offset = (which[:, None] * 4 + boards.new_tensor([0, 1, 2, 3])) * n  # (B, 4)
    at = (offset[:, None] + boards[:, :, None]) * n + around
    return puzzles.at.reshape(-1)[at]


def rims(puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
    """``(B, C, 4)``: evidence that each side of each cell's piece has no neighbour."""
    n = puzzles.at.shape[-1]
    offset = (which[:, None] * 4 + boards.new_tensor([0, 1, 2, 3])) * n
    return puzzles.border.reshape(-1)[offset[:, None] + boards[:, :, None]]


def score(puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
    """``(B,)`` evidence of boards."""
    rim = rims(puzzles, boards, which) * puzzles.layout.rim
    return 0.5 * sides(puzzles, boards, which).sum((1, 2)) + rim.sum((1, 2))


def fits(puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
    """``(B, 4, C, C)``: ``[b, d, c, k]`` = evidence at side d if the piece of cell k lay in c.

    The neighbours of c stay; at the rim it is the border evidence.
    """
    layout = puzzles.layout
    n = puzzles.at.shape[-1]
    around = padded(boards)[:, layout.near].transpose(1, 2)  # (B, 4, C)
    offset = (which[:, None] * 4 + boards.new_tensor([0, 1, 2, 3])) * n  # (B, 4)
    row = offset[:, :, None] + boards[:, None]  # (B, 4, C): of piece k
    out = puzzles.at.reshape(-1)[(row * n)[:, :, None] + around[..., None]]
    rim = puzzles.border.reshape(-1)[row]
    return out + rim[:, :, None] * layout.rim.T[None, :, :, None]


def swap_gain(puzzles: Puzzles, boards: Tensor, which: Tensor, fit: Tensor) -> Tensor:
    """``(B, C, C)``: gain of exchanging the pieces of two cells; ``fit`` is from `fits`."""
    g = fit.sum(1)
    own = g.diagonal(dim1=1, dim2=2)
    gain = g + g.transpose(1, 2) - own[:, :, None] - own[:, None]
    # neighbours: each was told to fit beside itself (0), and their seam was taken away twice
    layout = puzzles.layout
    for side, part in ((1, slice(0, layout.across)), (2, slice(layout.across, None))):
        a, b = layout.adjacent[part].unbind(1)
        x, y = boards[:, a], boards[:, b]
        extra = lookup(puzzles, which, side, x, y) + lookup(puzzles, which, side, y, x)
        gain[:, a, b] += extra
        gain[:, b, a] += extra
    return gain


def swap_gain_of(puzzles: Puzzles, boards: Tensor, which: Tensor, cell: Tensor) -> Tensor:
    """``(B, C)``: gain of exchanging the piece of ``cell (B,)`` with that of every cell."""
    layout = puzzles.layout
    pad = padded(boards)
    own = pad.gather(1, cell[:, None])  # (B, 1)
    mine, others = layout.near[cell], pad[:, layout.near]  # (B, 4), (B, C, 4)
    around = pad.gather(1, mine)
    total = boards.new_zeros(boards.shape, dtype=puzzles.at.dtype)
    now_here = total.new_zeros(len(boards), 1)
    rim_here = layout.rim[cell]  # (B, 4)
    everywhere = rims(puzzles, boards, which)  # (B, C, 4): of each cell's piece
    of_own = everywhere.gather(1, cell[:, None, None].expand(-1, 1, 4))  # (B, 1, 4)
    total = total + (everywhere * rim_here[:, None]).sum(2) + (of_own * layout.rim).sum(2)
    total = total - (everywhere * layout.rim).sum(2)
    now_here = now_here + (of_own[:, 0] * rim_here).sum(1, keepdim=True)
    for side in range(4):
        beside = around[:, side : side + 1]
        total = total + lookup(puzzles, which, side, boards, beside)  # others in this cell
        total = total + lookup(puzzles, which, side, own, others[..., side])  # this one elsewhere
        total = total - lookup(puzzles, which, side, boards, others[..., side])
        now_here = now_here + lookup(puzzles, which, side, own, beside)
        extra = lookup(puzzles, which, side, own, beside)
        extra = extra + lookup(puzzles, which, side, beside, own)
        wide = total.new_zeros(len(total), layout.cells + 1)
        total = total + wide.scatter(1, mine[:, side : side + 1], extra)[:, :-1]
    total = total - now_here
    return total.scatter(1, cell[:, None], 0.0)


def block_gain(puzzles: Puzzles, boards: Tensor, which: Tensor, fit: Tensor) -> Tensor:
    """``(B, C, C)``: gain of exchanging two 2×2 blocks, by their top left cells.

    Meaningful where `Layout.apart` holds, 0 where no block fits.
    """
    layout, tops = puzzles.layout, puzzles.layout.tops
    gain = fit.new_zeros(len(boards), layout.cells, layout.cells)
    if not len(tops):
        return gain
    x = fit.new_zeros(len(boards), len(tops), len(tops))
    for member, side in OUTER:
        cells = layout.blocks[tops, member]
        x = x + fit[:, side].index_select(1, cells).index_select(2, cells)
    own = x.diagonal(dim1=1, dim2=2)
    gain[:, tops[:, None], tops] = x + x.transpose(1, 2) - own[:, :, None] - own[:, None]
    if len(layout.touching):  # blocks that touch carry a part of each other's surroundings along
        a, b, seam, u, w, to_u, to_w = layout.touching.unbind(1)
        at = puzzles.at.reshape(-1)
        n = puzzles.at.shape[-1]
        base = (which[:, None] * 4 + seam) * n  # (B, T)
        back = (which[:, None] * 4 + (seam + 2) % 4) * n
        old_u, old_w, new_u, new_w = (boards[:, k] for k in (u, w, to_u, to_w))
        extra = (
            at[(base + new_u) * n + new_w]
            + at[(base + old_u) * n + old_w]
            - at[(base + new_u) * n + old_w]
            - at[(back + new_w) * n + old_u]
        )
        flat = gain.reshape(len(boards), -1)
        flat.index_add_(1, a * layout.cells + b, extra)
        flat.index_add_(1, b * layout.cells + a, extra)
    return gain
