"""The environment for training: many puzzles at once, as tensors, on any device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import SherdError
from .rules import Counts, Puzzles, apply, count_right, legal, shuffle


@dataclass(frozen=True)
class Outcome:
    """What a step brought, per board."""

    reward: Tensor
    """``(B,)``, eq. reward."""
    done: Tensor
    """``(B,)`` bool: the board is perfect."""
    legal: Tensor
    """``(B,)`` bool: an action that is not legal leaves the board as it is."""
    counts: Counts


class BatchEnv:
    """B boards of P puzzles, the rules of `rules`.

    Boards that are perfect stay as they are: their episode is over.
    """

    def __init__(self, puzzles: Puzzles, which: Tensor) -> None:
        if puzzles.truth is None:
            raise SherdError("environment: these puzzles have no truth, so there is no reward")
        self.puzzles, self.which = puzzles, which
        self.boards = puzzles.truth[which].clone()
        self.done = torch.ones(len(which), dtype=torch.bool, device=which.device)

    def reset(self, boards: Tensor) -> Tensor:
        """Begin with ``boards (B, C)``."""
        self.boards = boards
        self.done = count_right(self.puzzles, boards, self.which).perfect
        return boards

    def step(self, actions: Tensor) -> Outcome:
        """Do one action ``(B, 4)`` per board."""
        fine = legal(self.puzzles, self.which, actions) & ~self.done
        after = apply(self.puzzles.layout, self.boards, actions.masked_fill(~fine[:, None], -1))
        counts = self._arrive(after)
        return Outcome(counts.reward(), self.done, fine, counts)

    def follow(self, after: Tensor) -> Counts:
        """Go on with boards ``(B, C)`` to which legal actions have led, each by one."""
        return self._arrive(torch.where(self.done[:, None], self.boards, after))

    def _arrive(self, after: Tensor) -> Counts:
        self.boards = after
        counts = count_right(self.puzzles, after, self.which)
        self.done = self.done | counts.perfect
        return counts


@dataclass(frozen=True)
class Starts:
    """What boards episodes begin with, as shares; the rest are random boards."""

    partial: float = 0.3
    """Truths of which a random share of the pieces is shuffled."""
    shifted: float = 0.1
    """Truths that are shifted around the grid, and a little shuffled: the deepest of traps."""

    def __post_init__(self) -> None:
        if min(self.partial, self.shifted) < 0 or self.partial + self.shifted > 1:
            raise SherdError("starts: shares must be at least 0 and together at most 1")


def start_boards(
    puzzles: Puzzles, which: Tensor, starts: Starts, generator: torch.Generator
) -> Tensor:
    """``(B, C)`` boards to begin with; fixed cells hold their true piece."""
    assert puzzles.truth is not None
    layout, device = puzzles.layout, which.device
    b, c = len(which), layout.cells
    truth = puzzles.truth[which]

    def uniform(*size: int) -> Tensor:
        return torch.rand(size, generator=generator, device=device)

    kind, share = uniform(b), uniform(b)
    partial = kind < starts.partial
    shifted = ~partial & (kind < starts.partial + starts.shifted)
    loose = uniform(b, c)
    free = ~puzzles.fixed[which]
    part = torch.where(shifted, 0.1 * share, torch.where(partial, share, 1.0))
    rows = (uniform(b) * layout.rows).long()
    cols = (uniform(b) * layout.cols).long()
    at = torch.arange(layout.rows * layout.cols, device=device)
    row = (at // layout.cols + rows[:, None]) % layout.rows
    col = (at % layout.cols + cols[:, None]) % layout.cols
    moved = truth.clone()
    moved[:, : len(at)] = truth.gather(1, row * layout.cols + col)
    whole = free.all(1)  # a shift would carry fixed pieces away
    boards = torch.where((shifted & whole)[:, None], moved, truth)
    return shuffle(boards, free & (loose < part[:, None]), generator)
