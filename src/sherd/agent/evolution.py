"""Evolution of action sequences (Algorithm 1, lines 4 to 10), for many boards at a time.

A genome is a sequence of at most L actions, ``(L, 4)``, type -1 = nothing. Its worth is what the
evaluator says of the board at its end. Parents are sequences of actions that the actor drew and the
board's best sequences of the step before; offspring come by crossover and mutation; after Z
generations the leading action of the best sequence is executed. Everything is a tensor
``(B, S, L, 4)``: no loop over genomes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ..errors import SherdError
from .rules import NONE, SWAP_3, Puzzles, apply, legal

Judge = Callable[[Tensor, Tensor], Tensor]
"""Boards ``(n, C)`` and whose they are ``(n,)`` → values ``(n,)``."""


@dataclass(frozen=True)
class EvolutionParams:
    """Sizes and rates of the evolution."""

    population: int = 64
    """S: offspring per generation."""
    generations: int = 10
    """Z."""
    length: int = 6
    """L: most actions in a sequence."""
    parents: int = 16
    """Best sequences that breed."""
    history: int = 8
    """Best sequences of a step that are parents in the next."""
    draws: int = 96
    """Actions that the actor proposes per step."""
    crossover: float = 0.6
    """Share of offspring with two parents."""
    settle: int = 0
    """Generations without a better sequence after which an evolution ends early; 0 = never."""
    shorter: float = 1e-4
    """What an action costs, in values: of two ways to a board, the shorter is better."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "crossover":
                if not 0 <= value <= 1:
                    raise SherdError(f"crossover: {value}; expected a share in 0..1")
            elif f.name in ("history", "generations", "shorter", "settle"):
                if value < 0:
                    raise SherdError(f"{f.name}: {value}; expected at least 0")
            elif value < 1:
                raise SherdError(f"{f.name}: {value}; expected at least 1")
        if max(self.parents, self.history) > self.population:
            raise SherdError(
                f"parents: {self.parents}, history: {self.history}; "
                f"at most the population, {self.population}"
            )


@dataclass(frozen=True)
class Evolved:
    """What an evolution found for B boards."""

    action: Tensor
    """``(B, 4)``: leading action of the best sequence; -1 where nothing may be done."""
    value: Tensor
    """``(B,)``: of the best sequence."""
    history: Tensor
    """``(B, H, L, 4)``: best sequences, as they stand after the action."""


def compact(genomes: Tensor) -> Tensor:
    """``(…, L, 4)`` with its actions at the front, in order."""
    order = (genomes[..., 0] < 0).to(torch.int8).argsort(dim=-1, stable=True)
    return genomes.gather(-2, order[..., None].expand_as(genomes))


def final_boards(puzzles: Puzzles, boards: Tensor, genomes: Tensor) -> Tensor:
    """``(B·S, C)``: boards ``(B, C)`` after the sequences ``(B, S, L, 4)``."""
    state = boards.repeat_interleave(genomes.shape[1], 0)
    for action in genomes.flatten(0, 1).unbind(1):
        state = apply(puzzles.layout, state, action)
    return state


class Evolution:
    """One evolution per call of `run`; keeps nothing between calls."""

    def __init__(self, params: EvolutionParams | None = None) -> None:
        self.params = params or EvolutionParams()

    def run(
        self,
        puzzles: Puzzles,
        boards: Tensor,
        which: Tensor,
        proposed: Tensor,
        history: Tensor | None,
        judge: Judge,
        generator: torch.Generator,
    ) -> Evolved:
        """Evolve sequences for ``boards (B, C)``; ``proposed (B, D, 4)`` come from the actor."""
        p = self.params
        parents = self._founders(proposed, history, generator)
        worth = self._judge(puzzles, boards, which, parents, judge)
        since, last = 0, worth.amax(1)
        for _ in range(p.generations):
            if p.settle and since >= p.settle:
                break
            parents, worth = _best(parents, worth, p.parents)
            children = self._breed(puzzles, which, parents, proposed, generator)
            value = self._judge(puzzles, boards, which, children, judge)
            parents = torch.cat([parents, children], dim=1)
            worth = torch.cat([worth, value], dim=1)
            if p.settle:
                top = worth.amax(1)
                since = 0 if bool((top > last).any()) else since + 1
                last = top
        parents, worth = _best(parents, worth, max(1, p.history))
        action = parents[:, 0, 0]
        # a sequence that begins with the action goes on with its rest
        done = (parents[:, :, 0] == action[:, None]).all(-1)[:, :, None, None]
        rest = torch.cat([parents[:, :, 1:], torch.full_like(parents[:, :, :1], NONE)], dim=2)
        return Evolved(action, worth[:, 0], torch.where(done, rest, parents)[:, : p.history])

    def _judge(
        self, puzzles: Puzzles, boards: Tensor, which: Tensor, genomes: Tensor, judge: Judge
    ) -> Tensor:
        """``(B, S)``."""
        b, s = genomes.shape[:2]
        final = final_boards(puzzles, boards, genomes)
        value = judge(final, which.repeat_interleave(s)).reshape(b, s)
        length = (genomes[..., 0] >= 0).sum(2)
        value = value - self.params.shorter * length
        return value.masked_fill(length == 0, float("-inf"))  # an action must be done

    def _founders(
        self, proposed: Tensor, history: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        """``(B, S, L, 4)``: every proposal leads a sequence; half go on with other proposals."""
        p, device = self.params, proposed.device
        b, d = proposed.shape[:2]
        pick = torch.randint(d, (b, p.population, p.length), generator=generator, device=device)
        lead = torch.arange(p.population, device=device) % d
        pick[:, :, 0] = lead
        out = proposed.gather(1, pick.flatten(1)[..., None].expand(-1, -1, 4))
        out = out.unflatten(1, (p.population, p.length)).clone()
        length = torch.randint(
            1, p.length + 1, (b, p.population), generator=generator, device=device
        )
        length[:, ::2] = 1
        beyond = torch.arange(p.length, device=device) >= length[..., None]
        out.masked_fill_(beyond[..., None], NONE)
        if history is not None and history.shape[1]:
            out[:, -history.shape[1] :] = history
        return compact(out)

    def _breed(
        self,
        puzzles: Puzzles,
        which: Tensor,
        parents: Tensor,
        proposed: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        """``(B, S, L, 4)`` offspring; what has become illegal is left out."""
        p, device = self.params, parents.device
        b, s = len(parents), p.population

        def draw(high: int, *size: int) -> Tensor:
            return torch.randint(high, size, generator=generator, device=device)

        k = parents.shape[1]
        one = torch.minimum(draw(k, b, s), draw(k, b, s))  # better parents breed more
        mother = _take(parents, one)
        father = _take(parents, draw(k, b, s))
        mixed = self._cross(mother, father, draw)
        chance = torch.rand((b, s), generator=generator, device=device)
        child = torch.where((chance < p.crossover)[..., None, None], mixed, mother)
        child = self._mutate(puzzles, child, proposed, draw)
        flat = child.reshape(-1, 4)
        owner = which.repeat_interleave(s * p.length)
        ok = legal(puzzles, owner, flat)
        return compact(flat.masked_fill(~ok[:, None], NONE).reshape(child.shape))

    def _cross(self, mother: Tensor, father: Tensor, draw: Callable[..., Tensor]) -> Tensor:
        """Cut and splice, or an exchange of one cell between two actions."""
        b, s, length, _ = mother.shape
        place = torch.arange(length, device=mother.device)
        head = draw(length + 1, b, s)  # actions of the mother that stay
        tail = draw(length, b, s)  # where the father's part begins
        at = place - head[..., None] + tail[..., None]
        inside = (at >= 0) & (at < length)
        from_father = father.gather(2, at.clamp(0, length - 1)[..., None].expand(-1, -1, -1, 4))
        from_father = from_father.masked_fill(~inside[..., None], NONE)
        spliced = torch.where((place < head[..., None])[..., None], mother, from_father)
        slot, spot = 1 + draw(2, b, s), draw(length, b, s)
        here = (place == spot[..., None])[..., None] & (
            torch.arange(4, device=mother.device) == slot[..., None, None]
        )
        exchanged = torch.where(here, father, mother)
        return torch.where((draw(4, b, s) == 0)[..., None, None], exchanged, spliced)

    def _mutate(
        self, puzzles: Puzzles, child: Tensor, proposed: Tensor, draw: Callable[..., Tensor]
    ) -> Tensor:
        """One action of every child: another of the actor's, another cell, a neighbour's cell,
        another type, or none."""
        b, s, length, _ = child.shape
        device = child.device
        layout = puzzles.layout
        used = (child[..., 0] >= 0).sum(2)
        spot = draw(1 << 20, b, s) % (used + 1).clamp(max=length)  # one past the end: longer
        old = child.gather(2, spot[..., None, None].expand(b, s, 1, 4)).squeeze(2)  # (B, S, 4)
        kind = old[..., 0]
        fresh = _take(proposed, draw(proposed.shape[1], b, s))
        slots = torch.where(kind == SWAP_3, 3, 2)
        slot = 1 + draw(6, b, s) % slots
        column = torch.arange(4, device=device) == slot[..., None]
        cell = draw(layout.cells, b, s)
        another = torch.where(column, cell[..., None], old)
        now = old.gather(2, slot[..., None]).squeeze(2).clamp(min=0)
        beside = layout.near[now, draw(4, b, s)]
        beside = torch.where(beside < layout.cells, beside, cell)
        nearby = torch.where(column, beside[..., None], old)
        type_ = draw(3, b, s)
        third = torch.where(type_ == SWAP_3, cell, NONE)
        retyped = torch.stack([type_, old[..., 1], old[..., 2], third], dim=-1)
        none = torch.full_like(old, NONE)
        empty = (kind < 0)[..., None]
        choice = draw(8, b, s)[..., None]
        new = torch.where(choice < 3, fresh, torch.where(choice < 5, another, nearby))
        new = torch.where(choice == 6, retyped, torch.where(choice == 7, none, new))
        new = torch.where(empty, fresh, new)  # past the end: one action more
        return child.scatter(2, spot[..., None, None].expand(b, s, 1, 4), new[:, :, None])


def _take(genomes: Tensor, index: Tensor) -> Tensor:
    """``genomes (B, K, …)`` at ``index (B, S)``."""
    shape = genomes.shape[2:]
    flat = index.reshape(*index.shape, *[1] * len(shape)).expand(*index.shape, *shape)
    return genomes.gather(1, flat)


def _best(genomes: Tensor, worth: Tensor, count: int) -> tuple[Tensor, Tensor]:
    worth, order = worth.topk(min(count, worth.shape[1]), dim=1)
    return _take(genomes, order), worth


def type_prior(progress: float, strength: float) -> tuple[float, float, float]:
    """Log-prior of the types: large swaps first, then small ones (0 at the end of training)."""
    left = strength * max(0.0, 1.0 - progress)
    return (-left, 0.0, left) if strength else (0.0, 0.0, 0.0)
