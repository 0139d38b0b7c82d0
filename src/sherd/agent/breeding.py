"""Offspring: crossover and mutation of action sequences, for many boards at once.

What the dice decide does not depend on the parents, so it is thrown and worked out for all
generations of an evolution together (`throw`); what is left per generation (`breed`) is few
operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from .layout import Layout
from .rules import NONE, SWAP_3, Puzzles, open_actions

LARGE = 1 << 30
FRESH, RETYPED, REMOVED = 8, 6, 7
"""Mutations by code: 0 … 5 change one cell (the code says which), then these."""


@dataclass(frozen=True)
class Dice:
    """Chance of Z generations of S offspring for B boards; all begin with ``(Z, B, S)``."""

    source: Tensor
    """``(…, L+1)``: which actions of the parents, all in a row, a child begins with (one past the
    last: none), and then the one of which it may get a cell."""
    exchanged: Tensor
    """``(…, L, 4)`` bool: the cell that it gets so."""
    spot: Tensor
    """Which action is mutated; to be taken modulo the number of actions."""
    code: Tensor
    """How."""
    turn: Tensor
    """0 … 5: which cell of it is changed."""
    nearby: Tensor
    """bool: to a neighbouring cell."""
    way: Tensor
    """To which neighbour."""
    value: Tensor
    """``(…, 4)``: what places of an action are changed to."""
    fresh: Tensor
    """``(…, 4)``: another action of the actor's."""

    def generation(self, z: int) -> Dice:
        """Those of generation ``z``: ``(B, S)``."""
        return Dice(*(getattr(self, name)[z] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class _Constants:
    sides: Tensor
    """``(16,)``: of the dice."""
    places: Tensor
    """``(L·4,)``: 0, 1, 2 …"""
    codes: Tensor
    """``(8, 6)``: code of a choice, by turn."""
    columns: Tensor
    """``(4, 9, 4)`` bool: places that change, by type of action (the last: none) and code."""
    slots: Tensor
    """``(4, 6)``: place of the cell that changes, by type and turn."""
    none: Tensor
    """``(1, 4)``: no action."""


@cache
def _constants(
    parents: int, length: int, draws: int, cells: int, device: torch.device
) -> _Constants:
    with torch.inference_mode(False):
        sides = (parents, parents, parents, LARGE, length + 1, length, 2, length, 4, LARGE, draws,
                 6, cells, 4, 3, 8)  # fmt: skip
        codes = torch.full((8, 6), FRESH)
        codes[3:6] = torch.arange(6)
        codes[6], codes[7] = RETYPED, REMOVED
        slots = torch.ones(4, 6, dtype=torch.long)
        slots[:3] += torch.arange(6) % 2
        slots[SWAP_3] = 1 + torch.arange(6) % 3
        columns = torch.ones(4, 9, 4, dtype=torch.bool)
        columns[:3, :6] = slots[:3, :, None] == torch.arange(4)
        columns[:3, RETYPED, 1:3] = False
        parts = (
            torch.tensor(sides), torch.arange(4 * length), codes, columns, slots,
            torch.full((1, 4), NONE),
        )  # fmt: skip
        return _Constants(*(p.to(device) for p in parts))


def throw(
    generations: int,
    offspring: int,
    parents: int,
    length: int,
    crossover: float,
    layout: Layout,
    proposed: Tensor,
    generator: torch.Generator,
) -> Dice:
    """The dice of an evolution; ``proposed (B, D, 4)`` are the actor's actions.

    Of the ``parents`` the better ones breed more. A child with two of them is cut and spliced, or
    is its mother but for one cell of one action. Then one action of every child becomes another of
    the actor's, or gets another cell, a neighbouring cell, another type, or is left out.
    """
    device, (b, draws) = proposed.device, proposed.shape[:2]
    k = _constants(parents, length, draws, layout.cells, device)
    size = (generations, b, offspring, len(k.sides))
    dice = torch.randint(LARGE, size, generator=generator, device=device) % k.sides
    (one, two, father, chance, head, tail, slot, gift, kind, spot, pick, turn, cell, way, type_,
     choice) = dice.unbind(3)  # fmt: skip
    mother = torch.minimum(one, two)
    crossed = chance < int(crossover * LARGE)
    spliced = crossed & (kind > 0)
    place = k.places[:length]
    head = head.masked_fill(~spliced, length)[..., None]  # actions of the mother that stay
    at = place - head + tail[..., None]  # the father's part
    at = torch.where(at < length, father[..., None] * length + at, parents * length)
    source = torch.where(place < head, mother[..., None] * length + place, at)
    source = torch.cat([source, (father * length + gift)[..., None]], dim=3)
    given = (gift * 4 + 1 + slot).masked_fill(~crossed | spliced, -1)
    exchanged = (k.places == given[..., None]).unflatten(3, (length, 4))
    row = torch.arange(b, device=device)[:, None]
    fresh = proposed[row, pick]
    third = cell.masked_fill(type_ != SWAP_3, NONE)
    typed = torch.stack([type_, type_, type_, third], dim=3)
    value = torch.where((choice == 6)[..., None], typed, cell[..., None])
    value = value.masked_fill((choice == 7)[..., None], NONE)
    value = torch.where((choice < 3)[..., None], fresh, value)
    code = k.codes[choice, turn]
    return Dice(source, exchanged, spot, code, turn, choice == 5, way, value, fresh)


def breed(
    puzzles: Puzzles, which: Tensor, parents: Tensor, dice: Dice, draws: int
) -> tuple[Tensor, Tensor]:
    """``(B, S, L, 4)`` offspring of ``parents (B, K, L, 4)`` and their lengths ``(B, S)``; what has
    become illegal is left out. ``dice`` are those of one generation."""
    layout = puzzles.layout
    b, count, length, _ = parents.shape
    s = dice.spot.shape[1]
    k = _constants(count, length, draws, layout.cells, parents.device)
    pool = torch.cat([parents.flatten(1, 2), k.none.expand(b, 1, 4)], dim=1)
    got = pool.gather(1, dice.source.reshape(b, -1, 1).expand(-1, -1, 4))
    got = got.unflatten(1, (s, length + 1))
    child = torch.where(dice.exchanged, got[:, :, -1:], got[:, :, :-1])

    used = (child[..., 0] >= 0).sum(2)
    spot = dice.spot % (used + 1).clamp_(max=length)  # one past the end: longer
    spot = spot[..., None, None].expand(b, s, 1, 4)
    old = child.gather(2, spot).squeeze(2)  # (B, S, 4)
    kind = old[..., 0]
    now = old.gather(2, k.slots[kind, dice.turn][..., None]).squeeze(2)
    beside = layout.near[now, dice.way]
    step = dice.nearby & (beside < layout.cells)
    value = torch.where(step[..., None], beside[..., None], dice.value)
    value = torch.where((kind < 0)[..., None], dice.fresh, value)
    new = torch.where(k.columns[kind, dice.code], value, old)
    child.scatter_(2, spot, new[:, :, None])
    return pack(child, open_actions(puzzles, which[:, None, None], child))


def pack(genomes: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """``genomes (…, L, 4)`` with the actions ``keep (…, L)`` at the front, in order, and no others;
    and how many these are."""
    number = keep.cumsum(-1)
    shape = (*genomes.shape[:-2], genomes.shape[-2] + 1, 4)
    out = genomes.new_full(shape, NONE)  # its first entry takes what is not kept
    out.scatter_(-2, (number * keep)[..., None].expand_as(genomes), genomes)
    return out[..., 1:, :], number[..., -1]
