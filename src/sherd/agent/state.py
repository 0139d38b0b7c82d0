"""What actor, critic and evaluator see of a state: one token per cell, and global figures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from .gains import seen
from .layout import make_layout
from .rules import Puzzles

CELL = 24
"""Figures in a cell's token."""
GLOBAL = 8
"""Global figures."""
NATS = 4.0
"""Evidence is divided by this: a sure pair says about one unit."""
LARGEST = 3.0
"""Evidence beyond this many units says no more."""


@dataclass(frozen=True)
class State:
    """Boards as the networks see them."""

    cells: Tensor
    """``(B, C, CELL)``, in this order: evidence with the four neighbours (4), border evidence where
    a side lies at the rim (4), 2×2 puzzlets with this cell as each member (4), the 2×2 head's share
    of them (4), place evidence and whether there is any (2), weakest side (1), whether the cell is
    fixed and whether it is in the pool (2), row and column in 0..1 (2), blank piece (1)."""
    glob: Tensor
    """``(B, GLOBAL)``: mean evidence per pair, per rim side and of the places, whether there are
    places, E_g and whether there is one, size (log C), weakest cell."""


@dataclass(frozen=True)
class _Frame:
    """How a layout's figures are put together, in few operations."""

    scale: Tensor
    """``(C, 6)``: units of `gains.seen`."""
    split: Tensor
    """``(C, 2, 4)``: which sides have a neighbour, which lie at the rim."""
    seams: Tensor
    """``(K+1, 4)``: inner seams of the 2×2 blocks in a flat ``(C, 2, 4)``; the last is no block."""
    member: Tensor
    """``(C, 4)``: `Layout.member`, in the order of ``seams``."""
    mean: Tensor
    """``(C·6, 7)``: global figures are linear in the figures of the cells …"""
    start: Tensor
    """``(7,)``: … and begin with these."""


@cache
def _frame(rows: int, cols: int, pool: int, placed: bool, device: torch.device) -> _Frame:
    with torch.inference_mode(False):
        layout = make_layout(rows, cols, pool)
        c, tops = layout.cells, layout.tops
        scale = torch.ones(c, 6)
        scale[:, :4] = layout.real / NATS
        scale[:, 4] = placed / NATS
        four = layout.blocks[tops]  # (K, 4)
        # a block's seams: right of its upper and lower left cell, below its upper cells; a flat
        # place of 0 is above cell 0, where there is never a neighbour: evidence 0
        seams = torch.zeros(len(tops) + 1, 4, dtype=torch.long)
        for k, (member, side) in enumerate(((0, 1), (2, 1), (0, 2), (1, 2))):
            seams[:-1, k] = four[:, member] * 8 + side
        number = torch.full((c + 1,), len(tops))
        number[tops] = torch.arange(len(tops))
        mean = torch.zeros(c, 6, 7)
        mean[:, :4, 0] = layout.inner / (2 * max(1, layout.links))
        mean[:, :4, 1] = layout.rim / max(1, 2 * (rows + cols))
        mean[:, 4, 2] = 1.0 / c
        start = torch.tensor([0.0, 0.0, 0.0, float(placed), 0.0, 0.0, math.log(c) / 5.0])
        parts = (
            scale, torch.stack([layout.inner, layout.rim], 1), seams, number[layout.member],
            mean.flatten(0, 1), start,
        )  # fmt: skip
        return _Frame(*(p.to(device) for p in parts))


def observe(
    puzzles: Puzzles,
    boards: Tensor,
    which: Tensor,
    *,
    puzzlet: Tensor | None = None,
    whole: Tensor | None = None,
) -> State:
    """The state of ``boards (B, C)``.

    Parameters
    ----------
    puzzlet
        ``(B, C)`` evidence of the 2×2 head for the block at each cell, by its top left; optional.
    whole
        ``(B,)`` global evidence E_g; optional.
    """
    layout = puzzles.layout
    f = _frame(layout.rows, layout.cols, layout.pool, puzzles.place is not None, boards.device)
    figures = seen(puzzles, boards, which) * f.scale  # (B, C, 6)
    around = figures[:, :, :4]
    apart = around[:, :, None] * f.split  # (B, C, 2, 4): pair, rim
    block = apart.flatten(1)[:, f.seams].mean(2)[:, f.member]  # (B, C, 4)
    weakest = around.amin(2, keepdim=True)
    static = puzzles.tables.static[which]
    head = static[..., :4]
    if puzzlet is not None:
        pad = torch.cat([puzzlet, puzzlet.new_zeros(len(boards), 1)], dim=1)
        head = pad[:, layout.member] / NATS
    cells = torch.cat(
        [
            apart.flatten(2), block, head, figures[..., 4:5], static[..., 4:5], weakest,
            static[..., 5:], figures[..., 5:],
        ],
        dim=2,
    )  # fmt: skip
    glob = torch.addmm(f.start, figures.flatten(1), f.mean)
    if whole is not None:
        glob[:, 4], glob[:, 5] = whole / NATS, 1.0
    glob = torch.cat([glob, weakest.amin(1)], dim=1)
    return State(cells.clamp_(-LARGEST, LARGEST), glob.clamp_(-LARGEST, LARGEST))
