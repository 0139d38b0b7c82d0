"""The rules of the game (sec. *Formulation of Markov Decision Process*), in one place, batched.

A state is a board ``(B, C)``: the piece of every cell, a permutation. An action is four whole
numbers ``(type, a, b, c)``: Swap-2 exchanges the pieces of cells a and b; Swap-3 moves the piece of
a to b, of b to c, of c to a; Swap-puzzlet exchanges the 2×2 blocks whose top left cells are a and
b. Unused places hold -1; type -1 does nothing. ``which (B,)`` says which puzzle of a `Puzzles` a
board belongs to, so that many boards of few puzzles (the offspring of an evolution) need no copies
of the evidence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..errors import SherdError
from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle
from .layout import Layout, make_layout
from .tables import Tables, make_tables

SWAP_2, SWAP_3, SWAP_PUZZLET = 0, 1, 2
TYPES = ("swap-2", "swap-3", "swap-puzzlet")
NONE = -1
"""Unused place of an action."""

ALPHA = 0.8
"""α of eq. reward: weight of pieces in place; 1 − α is that of neighbour pairs."""
PERFECT = 1000.0
"""r^P of eq. reward."""
PENALTY = -1.0
"""b of eq. reward."""


@dataclass(frozen=True)
class Puzzles:
    """P puzzles of one layout. Blank pieces fill up cells for which there is no piece."""

    layout: Layout
    at: Tensor
    """``(P, 4, C+1, C+1)``: evidence of piece j at the top, right, bottom, left of piece i. 0 on
    the diagonal, for blanks, and for the extra piece C that stands for "nothing"."""
    border: Tensor
    """``(P, 4, C+1)``: evidence that a side of a piece has no neighbour."""
    fixed: Tensor
    """``(P, C)`` bool: cells whose piece must stay (pins, blocked cells)."""
    blank: Tensor
    """``(P, C+1)`` float: 1 for blanks."""
    truth: Tensor | None = None
    """``(P, C)``: the right board, where it is known."""
    pooled: Tensor | None = None
    """``(P, C+1, D)``: pooled fragment features of the perception network."""
    place: Tensor | None = None
    """``(P, C+1, C+1)``: evidence of a piece (first) in a cell (second), see `place`."""

    def __len__(self) -> int:
        return len(self.at)

    @property
    def device(self) -> torch.device:
        """Where the tensors lie."""
        return self.at.device

    @cached_property
    def tables(self) -> Tables:
        """Look-up tables; change nothing in place once they are there."""
        with torch.inference_mode(False), torch.no_grad():
            return make_tables(
                self.layout, self.at, self.border, self.fixed, self.blank, self.place
            )

    def pick(self, index: Tensor) -> Puzzles:
        """The puzzles ``index``, in that order, repeated where it repeats."""
        return replace(
            self,
            at=self.at[index],
            border=self.border[index],
            fixed=self.fixed[index],
            blank=self.blank[index],
            truth=None if self.truth is None else self.truth[index],
            pooled=None if self.pooled is None else self.pooled[index],
            place=None if self.place is None else self.place[index],
        )

    def to(self, device: torch.device) -> Puzzles:
        """The same puzzles on another device."""
        size = self.layout
        return Puzzles(
            make_layout(size.rows, size.cols, size.pool, device),
            self.at.to(device), self.border.to(device), self.fixed.to(device),
            self.blank.to(device), None if self.truth is None else self.truth.to(device),
            None if self.pooled is None else self.pooled.to(device),
            None if self.place is None else self.place.to(device),
        )  # fmt: skip


def from_tensors(
    h: Tensor,
    v: Tensor,
    border: Tensor | None,
    grid: tuple[int, int],
    *,
    truth: Tensor | None = None,
    pooled: Tensor | None = None,
    pool: int = 0,
    fixed: Tensor | None = None,
) -> Puzzles:
    """Puzzles from ``h, v (P, n, n)``, ``border (P, 4, n)``, ``truth (P, C)``,
    ``pooled (P, n, D)``.

    n may be smaller than the number of cells; the rest are blanks.
    """
    p, n = h.shape[:2]
    layout = make_layout(grid[0], grid[1], pool, h.device)
    cells = layout.cells
    if n > cells:
        raise SherdError(f"pieces: {n} for {cells} cells; give a pool for those that are left")
    at = h.new_zeros(p, 4, cells + 1, cells + 1)
    for side, table in enumerate((v.transpose(1, 2), h, v, h.transpose(1, 2))):
        at[:, side, :n, :n] = table
    at.diagonal(dim1=2, dim2=3).zero_()
    rim = h.new_zeros(p, 4, cells + 1)
    if border is not None:
        rim[:, :, :n] = border
    if pooled is not None:
        wide = pooled.new_zeros(p, cells + 1, pooled.shape[-1])
        wide[:, :n] = pooled
        pooled = wide
    if fixed is None:
        fixed = torch.zeros(p, cells, dtype=torch.bool, device=h.device)
    blank = h.new_ones(p, cells + 1)
    blank[:, :n] = 0.0
    return Puzzles(layout, at, rim, fixed, blank, truth, pooled)


def from_evidence(evidence: Evidence, puzzle: Puzzle) -> tuple[Puzzles, Tensor]:
    """One puzzle with its pins, blocked cells and spare pieces, and a board ``(C,)`` to start from.

    The board is the pieces as they come, pins laid; its truth is taken if the puzzle is whole.
    """
    rows, cols = puzzle.require_grid()
    count, n = rows * cols, evidence.n
    pool = max(0, n - (count - len(puzzle.blocked)))
    cells = count + pool
    board = np.full(cells, EMPTY, dtype=np.int64)
    fixed = np.zeros(cells, dtype=bool)
    blank = cells - 1  # blocked cells get the last blanks
    for r, c in sorted(puzzle.blocked):
        board[r * cols + c], fixed[r * cols + c] = blank, True
        blank -= 1
    for piece, (r, c) in puzzle.pins.items():
        board[r * cols + c], fixed[r * cols + c] = piece, True
    board[board == EMPTY] = np.setdiff1d(np.arange(cells), board)
    truth = None
    if puzzle.truth is not None and n == cells:
        truth = torch.from_numpy(puzzle.truth.reshape(1, -1).copy())
    puzzles = from_tensors(
        torch.from_numpy(evidence.h)[None],
        torch.from_numpy(evidence.v)[None],
        None if evidence.border is None else torch.from_numpy(evidence.border)[None],
        (rows, cols),
        pool=pool,
        truth=truth,
        fixed=torch.from_numpy(fixed)[None],
    )
    return puzzles, torch.from_numpy(board)


def to_board(board: Tensor, layout: Layout, pieces: int) -> np.ndarray:
    """``(C,)`` → ``(M, N)`` board, -1 where a blank lies."""
    flat = board[: layout.rows * layout.cols].cpu().numpy().astype(np.int64)
    return np.where(flat < pieces, flat, EMPTY).reshape(layout.rows, layout.cols)


def shuffle(boards: Tensor, free: Tensor, generator: torch.Generator) -> Tensor:
    """``boards (B, C)`` with the pieces of the cells ``free (B, C)`` in random order."""
    key = torch.rand(boards.shape, generator=generator, device=boards.device)
    stay = torch.arange(boards.shape[1], device=boards.device).to(key.dtype)
    # free cells sorted by their number, and by a random key: matching the two orders permutes them
    here = torch.where(free, stay, stay + 2 * boards.shape[1]).argsort(1)
    there = torch.where(free, key, stay + 2).argsort(1)
    return boards.scatter(1, here, boards.gather(1, there))


# ---------------------------------------------------------------- actions


def moved(layout: Layout, actions: Tensor) -> tuple[Tensor, Tensor]:
    """``(…, 8)`` cells that get another piece by ``actions (…, 4)``, and the cells it comes from;
    C where fewer do."""
    kind = actions[..., 0]
    cells = actions.gather(-1, layout.columns[kind])  # (…, 16); type -1 is the last row
    both = layout.moves[kind[..., None], layout.slots, cells]
    return both[..., :8], both[..., 8:]


def apply(layout: Layout, boards: Tensor, actions: Tensor) -> Tensor:
    """``boards (B, C)`` after ``actions (B, 4)``; actions are taken to be legal."""
    to, source = moved(layout, actions)
    padded = torch.cat([boards, layout.tail[:1].expand(len(boards), 1)], dim=1)
    return padded.scatter(1, to, padded.gather(1, source))[:, :-1]


def open_actions(puzzles: Puzzles, which: Tensor, actions: Tensor) -> Tensor:
    """``(…,)`` bool: whether well-formed ``actions (…, 4)`` of the puzzles ``which (…,)`` may be
    done; type -1 may not."""
    one, two = actions[..., puzzles.layout.pairs].unbind(-2)  # (…, 3)
    closed = puzzles.tables.closed[which[..., None], actions[..., :1], one, two]
    return ~closed.any(-1)


def legal(puzzles: Puzzles, which: Tensor, actions: Tensor) -> Tensor:
    """``(B,)`` bool: whether ``actions (B, 4)`` may be done."""
    kind, cells = actions[:, 0], puzzles.layout.cells
    formed = ((actions[:, 1:] >= 0) & (actions[:, 1:] < cells)).all(1) & (kind == SWAP_3)
    two = ((actions[:, 1:3] >= 0) & (actions[:, 1:3] < cells)).all(1) & (actions[:, 3] == NONE)
    formed = formed | (two & ((kind == SWAP_2) | (kind == SWAP_PUZZLET)))
    return open_actions(puzzles, which, actions.masked_fill(~formed[:, None], NONE))


@dataclass(frozen=True)
class Masks:
    """What may be chosen, given the puzzles alone (boards do not matter)."""

    types: Tensor
    """``(P, 3)``."""
    first: Tensor
    """``(P, 3, C)``: first cells that have at least one continuation."""


def masks(puzzles: Puzzles) -> Masks:
    """The choices of ``puzzles``."""
    return Masks(~puzzles.tables.closed_types, ~puzzles.tables.closed_first)


def second_mask(puzzles: Puzzles, which: Tensor, kind: Tensor, a: Tensor) -> Tensor:
    """``(…, C)``: second cells that may follow a type and a first cell."""
    return ~puzzles.tables.closed[which, kind, a, :-1]


def third_mask(puzzles: Puzzles, which: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``(…, C)``: third cells of a Swap-3."""
    closed = puzzles.tables.closed[:, SWAP_3]
    return ~(closed[which, a, :-1] | closed[which, b, :-1])


# ---------------------------------------------------------------- reward


@dataclass(frozen=True)
class Counts:
    """How right boards are, as counts ``(B,)``."""

    in_place: Tensor
    pairs: Tensor
    perfect: Tensor
    """bool"""

    def reward(self) -> Tensor:
        """Eq. reward: α·in place + (1−α)·pairs + 1000 if perfect − 1."""
        raw = ALPHA * self.in_place + (1.0 - ALPHA) * self.pairs + PENALTY
        return raw + PERFECT * self.perfect


def count_right(puzzles: Puzzles, boards: Tensor, which: Tensor) -> Counts:
    """Pieces in their true cell and true neighbour pairs (wherever they lie) of ``boards``."""
    if puzzles.truth is None:
        raise SherdError("reward: these puzzles have no truth; rewards exist in training only")
    layout, truth = puzzles.layout, puzzles.truth[which]
    in_place = (boards == truth).sum(1)
    # where the piece of each cell belongs; two cells are right if their pieces belong so
    home = torch.zeros_like(truth).scatter_(1, truth, layout.tail[1:].expand_as(truth))
    at = home.gather(1, boards)[:, layout.adjacent]  # (B, A, 2)
    pairs = layout.joined[at[..., 0], at[..., 1]]
    pairs = (pairs == layout.direction).sum(1)
    return Counts(in_place, pairs, in_place == layout.cells)


def which_right(puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
    """``(B, C, 3)`` bool, what `count_right` counts: a cell's piece is in place; the pairs with its
    right and its lower neighbour are true."""
    if puzzles.truth is None:
        raise SherdError("reward: these puzzles have no truth; rewards exist in training only")
    layout, truth = puzzles.layout, puzzles.truth[which]
    home = torch.zeros_like(truth).scatter_(1, truth, layout.tail[1:].expand_as(truth))
    here = home.gather(1, boards)
    beside = layout.near[:, 1:3]  # (C, 2)
    found = torch.cat([here, here.new_full((len(here), 1), -1)], 1)[:, beside]
    pairs = (found == layout.near[here][..., 1:3]) & (beside < layout.cells)
    return torch.cat([(boards == truth)[..., None], pairs], 2)


def best_reward(layout: Layout) -> float:
    """Reward of a perfect board without the bonus: what staying perfect is worth a step."""
    return ALPHA * layout.cells + (1.0 - ALPHA) * layout.links + PENALTY
