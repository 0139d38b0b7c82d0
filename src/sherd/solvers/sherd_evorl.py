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
    from ..agent.weights import TrainedAgent
    from ..perception.mppn.weights import Model


class SherdEvoRl(Sherd):
    """What the default system found, and the actor's actions on its best boards.

    `sherd.agent.touch` does the latter.
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
        from .erl_mpp import _agent

        actor, params = (self.agent or _agent()).networks.actor, self.params or TouchParams()
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
        if score <= found.score:
            return found
        record.board(board, score, 0)
        return Found(board, score, sureness(evidence, puzzle, board), evidence, found.others)
