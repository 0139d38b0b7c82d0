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
from .breeding import breed, pack, throw
from .rules import NONE, Puzzles, moved

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


def final_boards(puzzles: Puzzles, boards: Tensor, genomes: Tensor) -> Tensor:
    """``(B·S, C)``: boards ``(B, C)`` after the sequences ``(B, S, L, 4)``."""
    layout, s = puzzles.layout, genomes.shape[1]
    to, source = moved(layout, genomes.flatten(0, 1))  # (B·S, L, 8)
    # every action as a map, cell → cell its piece comes from; maps are joined two by two
    maps = layout.cell.expand(*to.shape[:2], -1).scatter(2, to, source)  # (B·S, L, C+1)
    while maps.shape[1] > 1:
        even = maps.shape[1] // 2 * 2
        joined = maps[:, 0:even:2].gather(2, maps[:, 1:even:2])
        maps = torch.cat([joined, maps[:, even:]], dim=1) if even < maps.shape[1] else joined
    return boards.repeat_interleave(s, 0).gather(1, maps[:, 0, :-1])


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
        p, draws = self.params, proposed.shape[1]
        owner = which.repeat_interleave(p.population)

        def judged(genomes: Tensor, length: Tensor) -> Tensor:
            value = judge(final_boards(puzzles, boards, genomes), owner).view_as(length)
            value = torch.sub(value, length, alpha=p.shorter)
            return value.masked_fill(length == 0, float("-inf"))  # an action must be done

        parents, length = self._founders(proposed, history, generator)
        worth = judged(parents, length)
        if p.generations:
            dice = throw(
                p.generations, p.population, p.parents, p.length, p.crossover, puzzles.layout,
                proposed, generator,
            )  # fmt: skip
        since, last = 0, worth.amax(1)
        for z in range(p.generations):
            if p.settle and since >= p.settle:
                break
            parents, worth = _best(parents, worth, p.parents)
            children, length = breed(puzzles, which, parents, dice.generation(z), draws)
            parents = torch.cat([parents, children], dim=1)
            worth = torch.cat([worth, judged(children, length)], dim=1)
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

    def _founders(
        self, proposed: Tensor, history: Tensor | None, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """``(B, S, L, 4)`` and their lengths ``(B, S)``: every proposal leads a sequence; half go
        on with other proposals."""
        p, device = self.params, proposed.device
        b, d = proposed.shape[:2]
        size = (b, p.population, p.length + 1)
        dice = torch.randint(1 << 30, size, generator=generator, device=device)
        pick = dice[..., :-1] % d
        pick[:, :, 0] = torch.arange(p.population, device=device) % d
        out = proposed.gather(1, pick.flatten(1)[..., None].expand(-1, -1, 4))
        out = out.unflatten(1, (p.population, p.length))
        length = dice[..., -1] % p.length
        length[:, ::2].zero_()
        beyond = torch.arange(p.length, device=device) > length[..., None]
        out = out.masked_fill(beyond[..., None], NONE)
        if history is not None and history.shape[1]:
            out[:, -history.shape[1] :] = history
        return pack(out, out[..., 0] >= 0)


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
