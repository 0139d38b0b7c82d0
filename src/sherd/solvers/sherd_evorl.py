"""`sherd-evorl`: the default system, whose last boards the trained actor tries to better."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..puzzle import Puzzle
from .base import Found, Recorder
from .evolve import sureness
from .sherd import Sherd
from .stop import Stop

if TYPE_CHECKING:
    from ..agent.touch import TouchParams
    from ..agent.weights import Networks, TrainedAgent
    from ..perception.evidence import Evidence
    from ..perception.mppn.weights import Model


MORE = 0.03
"""By how much more right the evaluator must think a board, to have it taken; chosen on validation
puzzles (docs/agent.md)."""


class SherdEvoRl(Sherd):
    """What the default system found, and the actor's actions on its best boards.

    `sherd.agent.touch` does the latter. A board of higher evidence is taken only if the evaluator,
    too, thinks that it is clearly more right: evidence alone prefers wrong boards as often as true
    ones there (docs/agent.md).
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
        self.agent, self.params = agent, params

    def _solve(
        self, puzzle: Puzzle, stop: Stop | None, rng: np.random.Generator, record: Recorder
    ) -> Found:
        import torch

        from ..agent.touch import TouchParams, touch_up

        actor, params = self._networks().actor, self.params or TouchParams()
        found = super()._solve(puzzle, stop, rng, record)
        evidence = found.evidence
        if evidence is None or evidence.complete or found.board.size > params.cells:
            return found
        if stop is not None and stop(found.score):
            return found
        record.stage("agent")
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        others = () if found.others is None else found.others
        boards = [found.board, *others]
        board, score = touch_up(actor, evidence, puzzle, boards, params, generator)
        if score <= found.score or not self.takes(evidence, puzzle, found.board, board):
            return found
        record.board(board, score, 0)
        return Found(board, score, sureness(evidence, puzzle, board), evidence, found.others)

    def takes(
        self, evidence: Evidence, puzzle: Puzzle, before: np.ndarray, after: np.ndarray
    ) -> bool:
        """Whether ``after``, a board of higher evidence, is taken."""
        return self.opinion(evidence, puzzle, before, after) > MORE

    def opinion(
        self, evidence: Evidence, puzzle: Puzzle, before: np.ndarray, after: np.ndarray
    ) -> float:
        """How much more right the evaluator thinks ``after``, pieces and pairs."""
        import torch

        from ..agent.critic import evaluate
        from ..agent.rules import from_evidence
        from ..agent.touch import flat_board

        puzzles, start = from_evidence(evidence, puzzle)
        boards = torch.stack([flat_board(board, start, puzzle.n) for board in (before, after)])
        which = torch.zeros(2, dtype=torch.long)
        evaluator = self._networks().evaluator
        old, new = evaluate(evaluator, puzzles, boards, which, value=0.0).tolist()
        return float(new - old)

    def _networks(self) -> Networks:
        from .erl_mpp import shipped_agent

        return (self.agent or shipped_agent()).networks
