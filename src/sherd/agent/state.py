"""What actor, critic and evaluator see of a state: one token per cell, and global figures."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .gains import rims, sides
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


def block_evidence(pair: Tensor, puzzles: Puzzles) -> Tensor:
    """``(B, C+1)``: sum of the inner seams of every 2×2 block, by its top left; from `sides`."""
    layout = puzzles.layout
    out = pair.new_zeros(len(pair), layout.cells + 1)
    if len(layout.tops):
        a, b, c, _ = layout.blocks[layout.tops].unbind(1)
        out[:, layout.tops] = pair[:, a, 1] + pair[:, c, 1] + pair[:, a, 2] + pair[:, b, 2]
    return out


def place_now(puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
    """``(B, C)``: place evidence of every piece in its cell, 0 without place evidence."""
    if puzzles.place is None:
        return puzzles.at.new_zeros(boards.shape)
    n = puzzles.place.shape[-1]
    cell = torch.arange(boards.shape[1], device=boards.device)
    return puzzles.place.reshape(-1)[(which[:, None] * n + boards) * n + cell]


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
    b, c = boards.shape
    pair = sides(puzzles, boards, which)
    rim = rims(puzzles, boards, which) * layout.rim
    block = block_evidence(pair, puzzles)[:, layout.member]  # (B, C, 4)
    head = torch.zeros_like(block)
    if puzzlet is not None:
        pad = torch.cat([puzzlet, puzzlet.new_zeros(b, 1)], dim=1)
        head = pad[:, layout.member]
    place = place_now(puzzles, boards, which)
    placed = place.new_full((b, c), float(puzzles.place is not None))
    a, b_, c_, d = torch.where(layout.rim > 0, rim, pair).unbind(2)
    weakest = torch.minimum(torch.minimum(a, b_), torch.minimum(c_, d))
    real = puzzles.at.new_ones(c)
    real[layout.rows * layout.cols :] = 0.0
    cell = torch.arange(c, device=boards.device)
    row = (cell // layout.cols).to(pair.dtype) / max(1, layout.rows - 1) * real
    col = (cell % layout.cols).to(pair.dtype) / max(1, layout.cols - 1) * real
    flags = torch.stack(
        [
            place / NATS, placed, weakest / NATS,
            puzzles.fixed[which].to(pair.dtype), (1.0 - real).expand(b, c),
            row.expand(b, c), col.expand(b, c), puzzles.blank[which].gather(1, boards),
        ],
        dim=2,
    )  # fmt: skip
    cells = torch.cat([pair / NATS, rim / NATS, block / (4 * NATS), head / NATS, flags], dim=2)
    links = max(1, layout.links)
    ends = max(1, 2 * (layout.rows + layout.cols))
    ones = pair.new_ones(b)
    glob = torch.stack(
        [
            pair.sum((1, 2)) / (2 * links * NATS), rim.sum((1, 2)) / (ends * NATS),
            place.mean(1) / NATS, placed[:, 0],
            torch.zeros_like(ones) if whole is None else whole / NATS,
            ones * float(whole is not None), ones * (math.log(c) / 5.0), weakest.amin(1) / NATS,
        ],
        dim=1,
    )  # fmt: skip
    return State(cells.clamp(-LARGEST, LARGEST), glob.clamp(-LARGEST, LARGEST))
