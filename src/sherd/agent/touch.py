"""Boards of a search touched up: the actor proposes, all evidence judges.

The actor's swaps of two, three and 2×2 pieces are tried on the best boards; where they lead is
judged by all evidence, whole boards included, and what is better is gone on from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import SherdError
from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle
from .actor import Actor
from .gains import score
from .rules import apply, from_evidence, to_board


@dataclass(frozen=True)
class TouchParams:
    """How the actor touches up boards."""

    boards: int = 8
    """Boards that it looks at."""
    draws: int = 96
    """Actions that it proposes for each."""
    judged: int = 16
    """Boards of a round that all evidence is asked of, the best by pairs and borders."""
    rounds: int = 4
    """At most; a round that betters nothing is the last."""
    cells: int = 200
    """Larger boards are left alone: one action changes little of them, and asking is dear."""

    def __post_init__(self) -> None:
        if min(self.boards, self.draws, self.judged, self.rounds) < 1:
            raise SherdError("touch: boards, draws, judged and rounds must be at least 1")


def touch_up(
    actor: Actor,
    evidence: Evidence,
    puzzle: Puzzle,
    found: Sequence[np.ndarray],
    params: TouchParams,
    generator: torch.Generator,
) -> tuple[np.ndarray, float]:
    """The best board by all evidence, of ``found[0]`` and what actions lead to, and its evidence.

    ``found`` are boards ``(M, N)``, the best first.
    """
    puzzles, start = from_evidence(evidence, puzzle)
    layout = puzzles.layout
    first = list({b.tobytes(): b for b in found}.values())[: params.boards]
    boards = torch.stack([flat_board(b, start, puzzle.n) for b in first])
    best, value = first[0], evidence.full_score(first[0])
    met = {b.numpy().tobytes() for b in boards}
    for _ in range(params.rounds):
        which = torch.zeros(len(boards), dtype=torch.long)
        with torch.no_grad():
            actions = actor.sample(actor(puzzles, boards, which), params.draws, generator)
            every = apply(layout, boards.repeat_interleave(params.draws, 0), actions.flatten(0, 1))
            every = every.unique(dim=0)
            local = score(puzzles, every, torch.zeros(len(every), dtype=torch.long))
        asked: list[Tensor] = []
        for k in local.argsort(descending=True, stable=True).tolist():
            if len(asked) == params.judged:
                break
            key = every[k].numpy().tobytes()
            if key not in met:
                met.add(key)
                if not puzzle.knowledge.broken(to_board(every[k], layout, puzzle.n), puzzle.n):
                    asked.append(every[k])
        if not asked:
            break
        grids = np.stack([to_board(b, layout, puzzle.n) for b in asked])
        values = evidence.full_scores(grids)
        k = int(values.argmax())
        if values[k] <= value + 1e-4:
            break
        best, value = grids[k], float(values[k])
        boards = torch.stack([asked[j] for j in np.argsort(-values, kind="stable")[: len(first)]])
    return best, value


def flat_board(board: np.ndarray, start: Tensor, pieces: int) -> Tensor:
    """A board ``(M, N)`` as the agent lays it out: blanks and spare pieces where they are free."""
    flat = start.numpy().copy()
    cells = board.ravel()
    blocked = np.zeros(len(flat), dtype=bool)
    blocked[: len(cells)] = (cells == EMPTY) & (flat[: len(cells)] >= pieces)
    flat[: len(cells)] = np.where(blocked[: len(cells)], flat[: len(cells)], cells)
    flat[len(cells) :] = EMPTY
    flat[flat == EMPTY] = np.setdiff1d(np.arange(len(flat)), flat)
    return torch.from_numpy(flat)
