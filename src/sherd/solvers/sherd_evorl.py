"""`sherd-evorl`: the default system, whose last boards the trained actor tries to better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..errors import SherdError
from ..perception.evidence import Evidence, quads
from ..puzzle import EMPTY, Puzzle
from .base import Found, Recorder
from .evolve import sureness
from .sherd import Sherd
from .stop import Stop

if TYPE_CHECKING:
    from torch import Tensor

    from ..agent.weights import TrainedAgent
    from ..perception.mppn.weights import Model


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


class SherdEvoRl(Sherd):
    """What the default system found, and the actor's actions on its best boards.

    The actor proposes swaps of two, three and 2×2 pieces; where they lead is judged by all
    evidence, whole boards included, and what is better is gone on from.
    """

    name: ClassVar[str] = "sherd-evorl"
    summary: ClassVar[str] = "The default system, its last boards touched up by the agent."
    weights: ClassVar[tuple[str, ...]] = (*Sherd.weights, "agent")

    def __init__(
        self,
        model: Model | None = None,
        agent: TrainedAgent | None = None,
        params: TouchParams | None = None,
    ) -> None:
        super().__init__(model)
        self.agent, self.params = agent, params or TouchParams()

    def _solve(
        self, puzzle: Puzzle, stop: Stop | None, rng: np.random.Generator, record: Recorder
    ) -> Found:
        from .erl_mpp import _agent

        agent = self.agent or _agent()
        found = super()._solve(puzzle, stop, rng, record)
        evidence = found.evidence
        if evidence is None or evidence.complete or found.board.size > self.params.cells:
            return found
        if stop is not None and stop(found.score):
            return found
        record.stage("agent")
        board, score = touch_up(agent, evidence, puzzle, found, self.params, rng)
        if score <= found.score:
            return found
        record.board(board, score, 0)
        return Found(board, score, sureness(evidence, puzzle, board), evidence, found.others)


def touch_up(
    agent: TrainedAgent,
    evidence: Evidence,
    puzzle: Puzzle,
    found: Found,
    params: TouchParams,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """The best board by all evidence that actions of the actor lead to, and its evidence."""
    import torch

    from ..agent.gains import score
    from ..agent.rules import apply, from_evidence, to_board

    puzzles, start = from_evidence(evidence, puzzle)
    layout, actor = puzzles.layout, agent.networks.actor
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    others = () if found.others is None else found.others
    first = list({b.tobytes(): b for b in (found.board, *others)}.values())[: params.boards]
    boards = torch.stack([_flat(b, start, puzzle.n) for b in first])
    best, value = found.board, found.score
    met = {b.numpy().tobytes() for b in boards}
    for _ in range(params.rounds):
        which = torch.zeros(len(boards), dtype=torch.long)
        with torch.no_grad():
            actions, _ = actor.sample(actor(puzzles, boards, which), params.draws, generator)
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
        values = _values(evidence, grids)
        k = int(values.argmax())
        if values[k] <= value + 1e-4:
            break
        best, value = grids[k], float(values[k])
        boards = torch.stack([asked[j] for j in np.argsort(-values, kind="stable")[: len(first)]])
    return best, value


def _values(evidence: Evidence, boards: np.ndarray) -> np.ndarray:
    """`Evidence.full_score` of ``boards (k, M, N)``, whole boards asked for together."""
    total = np.array([evidence.score(b) for b in boards])
    if evidence.puzzlet is not None and evidence.has_puzzlets:
        each = [evidence.puzzlet(quads(b)).sum(dtype=np.float64) for b in boards]
        total += evidence.puzzlet_weight * np.array(each)
    if evidence.board is not None and evidence.has_board:
        total += evidence.board_weight * np.asarray(evidence.board(boards), np.float64)
    return total


def _flat(board: np.ndarray, start: Tensor, pieces: int) -> Tensor:
    """A board ``(M, N)`` as the agent lays it out: blanks and spare pieces where they are free."""
    import torch

    flat = start.numpy().copy()
    cells = board.ravel()
    blocked = np.zeros(len(flat), dtype=bool)
    blocked[: len(cells)] = (cells == EMPTY) & (flat[: len(cells)] >= pieces)
    flat[: len(cells)] = np.where(blocked[: len(cells)], flat[: len(cells)], cells)
    flat[len(cells) :] = EMPTY
    flat[flat == EMPTY] = np.setdiff1d(np.arange(len(flat)), flat)
    return torch.from_numpy(flat)
