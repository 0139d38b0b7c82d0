"""A grid as index tables: neighbours, rims, 2×2 blocks. Built once per grid and device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

OUTER = ((0, 0), (0, 3), (1, 0), (1, 1), (2, 2), (2, 3), (3, 2), (3, 1))
"""Outer sides of a 2×2 block as (member, side); members top left, top right, bottom left, bottom
right, sides as in `puzzle.SIDES`."""


@dataclass(frozen=True)
class Layout:
    """Cells ``0 … M·N−1`` row by row, then the pool: cells for spare pieces, beside nothing.

    Index ``cells`` stands for "no cell" in every table; boards are padded by one entry for it.
    """

    rows: int
    cols: int
    pool: int
    near: Tensor
    """``(C, 4)``: neighbouring cell per side, C where there is none."""
    rim: Tensor
    """``(C, 4)`` float: 1 where a side lies at the rim of the grid."""
    blocks: Tensor
    """``(C, 4)``: cells of the 2×2 block whose top left is this cell, C where it does not fit."""
    member: Tensor
    """``(C, 4)``: top left of the block in which a cell is the top left, top right, bottom left,
    bottom right one; C where there is none."""
    tops: Tensor
    """``(K,)``: cells at which a block fits."""
    apart: Tensor
    """``(C, C)`` bool: two blocks that both fit and do not overlap."""
    adjacent: Tensor
    """``(A, 2)``: neighbouring cells, left–right first, then top–bottom."""
    joined: Tensor
    """``(C, C)``: 1 where the second cell is to the right of the first, 2 where it is below."""
    direction: Tensor
    """``(A,)``: the same of ``adjacent``."""
    touching: Tensor
    """``(T, 7)``: seams between blocks that touch: block, block, side, cell of the first block at
    the seam, cell of the second, the place of the first in the other block, and vice versa."""
    columns: Tensor
    """``(4, 16)``: by type of action (the last: none), the places of an action that name the cells
    that get another piece (8) and those it comes from (8)."""
    moves: Tensor
    """``(4, 16, C+1)``: what such a place stands for if it names this cell; C = nothing moves."""
    slots: Tensor
    """``(16,)``: 0 … 15."""
    pairs: Tensor
    """``(2, 3)``: places of an action that are compared: a with b, a with c, b with c."""
    cell: Tensor
    """``(C+1,)``: 0 … C."""
    tail: Tensor
    """``(C+1,)``: C, then all cells: what `gains.seen` appends to a board."""
    seen: Tensor
    """``(C, 6)``: entries of such a board beside each cell: its four neighbours, its own number,
    C."""
    inner: Tensor
    """``(C, 4)`` float: 1 where a side has a neighbour."""
    real: Tensor
    """``(C, 1)`` float: 1 for cells of the grid, 0 for the pool."""

    @property
    def grid(self) -> tuple[int, int]:
        """``(M, N)``."""
        return self.rows, self.cols

    @property
    def cells(self) -> int:
        """C: cells of the grid and of the pool."""
        return self.rows * self.cols + self.pool

    @property
    def links(self) -> int:
        """Neighbouring pairs of cells."""
        return self.rows * (self.cols - 1) + (self.rows - 1) * self.cols


@cache
def make_layout(
    rows: int, cols: int, pool: int = 0, device: torch.device = torch.device("cpu")
) -> Layout:
    """The tables of a grid."""
    with torch.inference_mode(False):  # the cache is shared by training and inference
        count, total = rows * cols, rows * cols + pool
        at = torch.arange(count)
        r, c = at // cols, at % cols
        none = torch.full_like(at, total)
        sides = [
            torch.where(r > 0, at - cols, none),
            torch.where(c < cols - 1, at + 1, none),
            torch.where(r < rows - 1, at + cols, none),
            torch.where(c > 0, at - 1, none),
        ]
        near = torch.full((total, 4), total)
        near[:count] = torch.stack(sides, dim=1)
        rim = torch.zeros(total, 4)
        rim[:count] = (near[:count] == total).float()
        fits = (r < rows - 1) & (c < cols - 1)
        blocks = torch.full((total, 4), total)
        four = torch.stack([at, at + 1, at + cols, at + cols + 1], dim=1)
        blocks[:count] = torch.where(fits[:, None], four, total)
        tops = at[fits]
        member = torch.full((total, 4), total)
        for place in range(4):
            member[blocks[tops, place], place] = tops
        apart = torch.zeros(total, total, dtype=torch.bool)
        dr, dc = (r[:, None] - r[None]).abs(), (c[:, None] - c[None]).abs()
        both = fits[:, None] & fits[None]
        apart[:count, :count] = both & ((dr >= 2) | (dc >= 2))
        right = torch.stack([at, at + 1], dim=1)[c < cols - 1]
        below = torch.stack([at, at + cols], dim=1)[r < rows - 1]
        adjacent = torch.cat([right, below])
        direction = torch.cat([torch.ones(len(right)), torch.full((len(below),), 2.0)]).long()
        joined = torch.zeros(total, total, dtype=torch.long)
        joined[adjacent[:, 0], adjacent[:, 1]] = direction
        tables = (
            near, rim, blocks, member, tops, apart,
            adjacent, joined, direction, _touching(near, blocks, apart),
        )  # fmt: skip
        cell = torch.arange(total)
        seen = torch.cat([near, (total + 1 + cell)[:, None], torch.full((total, 1), total)], 1)
        inner = (near < total).float()
        real = (cell < count).float()[:, None]
        more = (
            *_moves(blocks), torch.arange(16), torch.tensor([[1, 1, 2], [2, 3, 3]]),
            torch.arange(total + 1), torch.cat([torch.tensor([total]), cell]), seen, inner, real,
        )  # fmt: skip
        near, rim, blocks, member, tops, apart, adjacent, joined, direction, touching = (
            t.to(device) for t in tables
        )
        columns, moves, slots, pairs, cell, tail, seen, inner, real = (t.to(device) for t in more)
    return Layout(
        rows, cols, pool, near, rim, blocks, member, tops, apart, adjacent, joined,
        direction, touching,
        columns, moves, slots, pairs, cell, tail, seen, inner, real,
    )  # fmt: skip


def _moves(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """`Layout.columns` and `Layout.moves`: an action's moves are two look-ups."""
    total = len(blocks)
    a, b, c = 1, 2, 3  # places of an action
    swap, cycle = ((b, a), (a, b)), ((b, c, a), (a, b, c))  # to, from
    block = ((b, b, b, b, a, a, a, a), (a, a, a, a, b, b, b, b))
    columns = torch.zeros(4, 16, dtype=torch.long)
    moves = torch.full((4, 16, total + 1), total)
    for kind, halves in enumerate((swap, cycle, block)):
        for half, places in enumerate(halves):
            for k, place in enumerate(places):
                slot = 8 * half + k
                columns[kind, slot] = place
                moves[kind, slot, :total] = blocks[:, k % 4] if kind == 2 else torch.arange(total)
    return columns, moves


def _touching(near: Tensor, blocks: Tensor, apart: Tensor) -> Tensor:
    """The seams of `Layout.touching`; each once, from the upper or left block."""
    total = len(near)
    owner: list[list[tuple[int, int]]] = [[] for _ in range(total + 1)]
    for block, members in enumerate(blocks.tolist()):
        for place, cell in enumerate(members):
            if cell < total:
                owner[cell].append((block, place))
    rows = []
    for cell in range(total):
        for side in (1, 2):
            other = int(near[cell, side])
            for a, i in owner[cell] if other < total else []:
                for b, j in owner[other]:
                    if apart[a, b]:
                        rows.append((a, b, side, cell, other, int(blocks[b, i]), int(blocks[a, j])))
    return torch.tensor(rows, dtype=torch.long).reshape(-1, 7)
