"""Losses of the perception heads, over whole puzzles of one grid at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from ..perception.mppn.network import MPPN, PUZZLET_SEAMS, Base, Features

VARIANTS = 7
"""Near-right puzzlets beside each true one."""


@dataclass(frozen=True)
class Grid:
    """Neighbours of every piece of an ``M × N`` puzzle, -1 = none."""

    shape: tuple[int, int]
    after: Tensor
    """``(2, n)``: right neighbour, lower neighbour."""
    before: Tensor
    """``(2, n)``: left neighbour, upper neighbour."""
    rim: Tensor
    """``(4, n)``: 1 where the top, right, bottom, left side has no neighbour."""
    board: Tensor
    """``(n,)``: the piece of every cell, row by row."""

    @staticmethod
    @cache
    def of(shape: tuple[int, int], device: torch.device) -> Grid:
        """The grid with piece k in cell k."""
        m, n = shape
        at = torch.arange(m * n)
        row, col = at // n, at % n
        right, below = torch.where(col < n - 1, at + 1, -1), torch.where(row < m - 1, at + n, -1)
        left, above = torch.where(col > 0, at - 1, -1), torch.where(row > 0, at - n, -1)
        rim = torch.stack([above, right, below, left]) < 0
        return Grid(
            shape,
            torch.stack([right, below]).to(device),
            torch.stack([left, above]).to(device),
            rim.float().to(device),
            at.to(device),
        )

    def reordered(self, order: Tensor) -> Grid:
        """The same grid for pieces in another order: new piece k is old ``order[k]``."""
        new = torch.empty_like(order)
        new[order] = torch.arange(len(order), device=order.device)
        named = torch.cat([new, new.new_tensor([-1])])  # named[-1] is -1: none stays none
        after, before = named[self.after[:, order]], named[self.before[:, order]]
        return Grid(self.shape, after, before, self.rim[:, order], new[self.board])


@dataclass(frozen=True)
class Pairs:
    """Scores of one direction for b puzzles."""

    base: Base
    """Cheap scores of all pairs, with the gradient."""
    fused: Tensor
    """``(b, n, n)``: cheap score (no gradient), plus the head's residual or a guess of it."""
    rows: Tensor
    """``(b, n, k)``: hardest second pieces for every first one, the true one among them."""
    cols: Tensor
    """``(b, n, k)``: hardest first pieces for every second one."""


TRUE = 2e4
"""Added to the true neighbour's score where it must be among the candidates."""


def score_pairs(
    net: MPPN,
    x: Features,
    base: Base,
    direction: int,
    grid: Grid | None,
    hard: int,
    ranks: Sequence[int] = (),
) -> Pairs:
    """The head's residual on the ``hard`` best of every row and column by the cheap score.

    ``ranks`` names further candidates by their rank beyond these. With ``grid`` the true neighbour
    is always among them (training); without, it is not forced.
    """
    plain = base.score.detach()
    puzzle, i, j, rows, cols = hard_pairs(plain, direction, grid, hard, ranks)
    rivalry = base.rivalry(puzzle, i, j)
    n = plain.shape[1]
    _, residual = net.pair(x, puzzle * n + i, puzzle * n + j, direction, rivalry)
    asked = plain[puzzle, i, j] + residual.float()
    return Pairs(base, base.fused(puzzle, i, j, asked), rows, cols)


def hard_pairs(
    plain: Tensor, direction: int, grid: Grid | None, hard: int, ranks: Sequence[int] = ()
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The ``hard`` best of every row and column of ``plain (b, n, n)``, and further ``ranks``.

    Every pair once: its puzzle, i and j ``(p,)``; then the candidates of every row and of every
    column ``(b, n, k)``. With ``grid`` the true neighbour is among them.
    """
    b, n, _ = plain.shape
    at = torch.arange(n, device=plain.device)
    ranked = plain
    if grid is not None:
        ranked = plain + TRUE * (grid.after[direction][:, None] == at)
    first = min(hard + (grid is not None), n - 1)
    columns = [*range(first), *sorted({first + r for r in ranks if first + r < n - 1})]
    depth = columns[-1] + 1
    rows = ranked.topk(depth, dim=2).indices[:, :, columns]
    cols = ranked.transpose(1, 2).topk(depth, dim=2).indices[:, :, columns]
    own = at[None, :, None].expand_as(rows)
    i = torch.cat([own.flatten(1), cols.flatten(1)], dim=1)  # (b, 2·n·k)
    j = torch.cat([rows.flatten(1), own.flatten(1)], dim=1)
    place = i * n + j
    # a pair may be listed by its row and by its column: count it once
    order = torch.arange(place.shape[1], device=plain.device).expand_as(place)
    owner = torch.zeros(b, n * n, dtype=torch.long, device=plain.device).scatter(1, place, order)
    once = owner.gather(1, place) == order
    puzzle = torch.arange(b, device=plain.device)[:, None].expand_as(i)[once]
    return puzzle, i[once], j[once], rows, cols


def neighbour_loss(logits: Tensor, grid: Grid, direction: int) -> Tensor:
    """Cross-entropy of the true neighbour over whole rows and whole columns ``(b, n, n)``."""
    b, n, _ = logits.shape
    after, before = grid.after[direction].repeat(b), grid.before[direction].repeat(b)
    down = F.cross_entropy(logits.reshape(b * n, n), after, ignore_index=-1)
    up = F.cross_entropy(logits.transpose(1, 2).reshape(b * n, n), before, ignore_index=-1)
    return 0.5 * (down + up)


def draw_puzzlets(
    pairs: list[Pairs], grid: Grid, groups: int, generator: torch.Generator
) -> Tensor:
    """``(b, groups, 1 + VARIANTS, 4)`` pieces: the true puzzlet, then near-right ones.

    In most of them one piece is replaced by a hard candidate of one of its seams, in two of them
    two pieces are exchanged, and the last but two is made of two true halves (`_draw_halves`).
    """
    b, _, k = pairs[0].rows.shape
    device = pairs[0].rows.device
    m, cols = grid.shape

    def draw(high: int, *size: int) -> Tensor:
        return torch.randint(high, size, generator=generator, device=device)

    spot = draw((m - 1) * (cols - 1), b, groups)
    corner = spot // (cols - 1) * cols + spot % (cols - 1)
    four = torch.arange(4, device=device)
    cells = corner[..., None] + four // 2 * cols + four % 2
    true = grid.board[cells]  # (b, g, 4)
    members = true[:, :, None].expand(b, groups, VARIANTS, 4)
    place = draw(4, b, groups, VARIANTS)
    upright = draw(2, b, groups, VARIANTS)  # which of the place's two seams
    partner = members.gather(3, (place ^ (1 + upright))[..., None]).squeeze(3)
    second = torch.where(upright == 1, place // 2, place % 2)  # 1: right or lower one of its seam
    # all candidate lists in one table: (direction, asked from, puzzle, piece, rank)
    table = torch.stack([torch.stack([p.cols, p.rows]) for p in pairs])
    puzzle = torch.arange(b, device=device)[:, None, None]
    rank = draw(k, b, groups, VARIANTS)
    old = members.gather(3, place[..., None])
    new = table[upright, second, puzzle, partner, rank]
    other = table[upright, second, puzzle, partner, (rank + 1) % k]
    new = torch.where(new == old.squeeze(3), other, new)[..., None]
    swapped = members.gather(3, (place[..., None] + 1 + draw(3, b, groups, VARIANTS, 1)) % 4)
    exchange = torch.arange(VARIANTS, device=device)[None, None, :, None] >= VARIANTS - 2
    new = torch.where(exchange, swapped, new)
    # a candidate that lies in the puzzlet already changes places with the piece it replaces
    variants = torch.where(members == new, old, members).scatter(3, place[..., None], new)
    variants[:, :, VARIANTS - 3] = _draw_halves(grid, b, groups, generator)
    return torch.cat([true[:, :, None], variants], dim=2)


def _draw_halves(grid: Grid, b: int, groups: int, generator: torch.Generator) -> Tensor:
    """``(b, groups, 4)`` pieces: two true pairs that do not belong side by side.

    Half of them join the picture's opposite rims, as a board does that is shifted as a whole.
    """
    device = grid.board.device
    m, cols = grid.shape
    board = grid.board.reshape(m, cols)

    def draw(high: int) -> Tensor:
        return torch.randint(high, (b, groups), generator=generator, device=device)

    def halves(board: Tensor) -> Tensor:
        """Left and right half, each a true pair one above the other."""
        rows, cols = board.shape
        top, left = draw(rows - 1), draw(cols)
        other, right = draw(rows - 1), draw(cols)
        true = (other == top) & (right == left + 1)
        shared = (right == left) & ((other - top).abs() < 2)
        rim = (draw(2) == 0) | true | shared
        left, right = torch.where(rim, cols - 1, left), torch.where(rim, 0, right)
        other = torch.where(rim, top, other)
        cells = [(top, left), (other, right), (top + 1, left), (other + 1, right)]
        return torch.stack([board[r, c] for r, c in cells], dim=2)

    beside, above = halves(board), halves(board.T)
    above = above[..., [0, 2, 1, 3]]  # upper and lower half
    return torch.where((draw(2) == 0)[..., None], beside, above)


def score_puzzlets(net: MPPN, x: Features, members: Tensor, pairs: list[Pairs]) -> Tensor:
    """``(b, ...)`` logits of the puzzlets ``members (b, ..., 4)``."""
    b, n = len(members), pairs[0].fused.shape[-1]
    local = members.reshape(b, -1, 4)
    puzzle = torch.arange(b, device=members.device).repeat_interleave(local.shape[1])
    local = local.flatten(0, 1)  # (q, 4)
    seams: list[Tensor] = []
    logits: list[Tensor] = []
    both = puzzle.repeat(2)
    for direction in (0, 1):
        sides = [s[1:] for s in PUZZLET_SEAMS if s[0] == direction]
        i = torch.cat([local[:, a] for a, _ in sides])
        j = torch.cat([local[:, c] for _, c in sides])
        base = pairs[direction].base
        rivalry = base.rivalry(both, i, j)
        seam, residual = net.pair(x, both * n + i, both * n + j, direction, rivalry)
        seams.extend(seam.chunk(2))
        logits.extend((base.score.detach()[both, i, j] + residual.float()).chunk(2))
    world = local + (puzzle * n)[:, None]
    out = net.puzzlet(x, world, torch.stack(seams, 1), torch.stack(logits, 1))
    return out.float().reshape(members.shape[:-1])


def puzzlet_loss(logits: Tensor) -> Tensor:
    """Cross-entropy of the true puzzlet in its group ``(b, g, 8)``.

    A little binary cross-entropy pins the offset, which cross-entropy alone leaves free.
    """
    flat = logits.flatten(0, 1)
    target = torch.zeros_like(flat)
    target[:, 0] = 1.0
    pin = F.binary_cross_entropy_with_logits(flat, target)
    return F.cross_entropy(flat, target) + 0.25 * pin


def border_loss(logits: Tensor, grid: Grid, full: Tensor) -> Tensor:
    """Binary cross-entropy of ``(b, 4, n)`` over the puzzles that show a whole picture."""
    target = grid.rim.expand_as(logits)
    loss = F.binary_cross_entropy_with_logits(logits.float(), target, reduction="none")
    return (loss.mean((1, 2)) * full).sum() / full.sum().clamp(min=1.0)
