"""What is looked up of puzzles again and again, laid out so that a look-up is one operation.

Built once per `Puzzles`. On a GPU an agent's step costs what its operations cost to launch, so the
tables hold what would else be worked out step by step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .layout import Layout


@dataclass(frozen=True)
class Tables:
    """Of P puzzles with C cells; n = C + 1."""

    look: Tensor
    """``(P, n, 5, n)``: by piece, side and other piece: evidence that the other lies there; other
    piece C: that there is none. Side 4: place evidence by cell; cell C: 1 for a blank piece."""
    side: Tensor
    """``(6,)``: sides of `look` that the six columns of `Layout.seen` are for."""
    closed: Tensor
    """``(P, 4, n, n)`` bool: two cells that an action of this type may not join. Beside cell C (no
    third cell) every cell is open, but for a Swap-3. Type 3 (or -1) is none: all is closed."""
    closed_first: Tensor
    """``(P, 3, C)`` bool: first cells from which no action of this type goes on."""
    closed_types: Tensor
    """``(P, 3)`` bool."""
    static: Tensor
    """``(P, C, 9)``: figures of a cell's token that do not depend on the board: no 2×2 evidence
    (4), whether there are places, fixed, in the pool, row and column in 0..1."""


def make_tables(
    layout: Layout, at: Tensor, border: Tensor, fixed: Tensor, blank: Tensor, place: Tensor | None
) -> Tables:
    """The tables of puzzles; arguments as in `rules.Puzzles`."""
    p, n, c = len(at), layout.cells + 1, layout.cells
    look = at.new_zeros(p, n, 5, n)
    look[:, :, :4] = at.transpose(1, 2)
    look[:, :, :4, c] = border.transpose(1, 2)
    if place is not None:
        look[:, :, 4] = place
    look[:, :, 4, c] = blank
    free = ~fixed
    pad = torch.cat([free, free.new_zeros(p, 1)], dim=1)
    blocks = pad[:, layout.blocks].all(2)  # (P, C)
    cell = torch.arange(c, device=at.device)
    closed = torch.ones(p, 4, n, n, dtype=torch.bool, device=at.device)
    single = free[:, :, None] & free[:, None] & (cell[:, None] != cell)
    closed[:, :2, :c, :c] = ~single[:, None]
    closed[:, 2, :c, :c] = ~(blocks[:, :, None] & blocks[:, None] & layout.apart)
    closed[:, 0:3:2, :c, c] = False
    enough = free.sum(1)[:, None, None] >= 3  # cells, for a cycle
    partner = ~closed[:, :3, :c, :c]
    first = partner.any(3)  # (P, 3, C)
    first[:, 1:2] &= enough
    real = layout.real[:, 0]
    row = (cell // layout.cols).to(at.dtype) / max(1, layout.rows - 1) * real
    col = (cell % layout.cols).to(at.dtype) / max(1, layout.cols - 1) * real
    static = at.new_zeros(p, c, 9)
    static[:, :, 4] = float(place is not None)
    static[:, :, 5] = fixed.to(at.dtype)
    static[:, :, 6], static[:, :, 7], static[:, :, 8] = 1.0 - real, row, col
    side = torch.tensor([0, 1, 2, 3, 4, 4], device=at.device)
    return Tables(look, side, closed, ~first, ~first.any(2), static)
