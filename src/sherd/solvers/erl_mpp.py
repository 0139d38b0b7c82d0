"""`erl-mpp`: the paper's recipe; `mppn-dqn`: the same with the DQN agent of its ablation."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..perception.confidence import confidence
from ..perception.evidence import Evidence
from ..puzzle import Puzzle
from .base import Found, Recorder
from .evolve import Watch
from .sherd import NETWORKS, Sherd
from .stop import Stop

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ..agent.dqn import DqnParams
    from ..agent.rules import Puzzles
    from ..agent.solve import Progress, SolveParams
    from ..agent.weights import TrainedAgent, TrainedDqn
    from ..perception.mppn.weights import Model

EVERY = 10
"""Steps between two looks at 2×2 and global evidence, where there is any: they are dear."""


@cache
def shipped_agent() -> TrainedAgent:
    from ..agent.weights import load_agent

    return load_agent()


@cache
def _dqn() -> TrainedDqn:
    from ..agent.weights import load_dqn

    return load_dqn()


class Player(Sherd):
    """What the two have in common: the network's evidence, a random board, swaps."""

    knows: ClassVar[bool] = False
    close: ClassVar[bool] = False  # the paper's perception is its network's

    def _solve(
        self, puzzle: Puzzle, stop: Stop | None, rng: np.random.Generator, record: Recorder
    ) -> Found:
        self.check()  # before the slow part: an agent that is missing is missed at once
        record.stage("perception")
        evidence = self.perceive(puzzle)
        record.stage("agent")
        import torch

        from ..agent.rules import from_evidence, to_board
        from ..perception.threads import torch_threads
        from ..search.evolution import default_threads

        puzzles, start = from_evidence(evidence, puzzle)
        watch = Watch(evidence, stop, record)

        def progress(board: Tensor, score: float, number: int) -> bool:
            if evidence.complete or number % EVERY == 0:
                return watch.local(to_board(board, puzzles.layout, puzzle.n), score, number)
            return watch.full(watch.board, watch.score, number)

        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        with torch_threads(default_threads()):
            ends = self.play(puzzles, start, generator, progress)
        if not watch.stopped:  # the best of every chain, by all evidence
            found = [watch.board]
            found += [to_board(flat, puzzles.layout, puzzle.n) for flat in ends.unique(dim=0)]
            board, score = self.choose(evidence, puzzle, found, generator)
            if score > watch.score:
                watch.board, watch.score = board, score
                record.board(board, score, watch.rounds)
        board = watch.board
        return Found(board, watch.score, confidence(evidence, board), evidence)

    def check(self) -> None:
        """Raise if there is no trained agent."""
        raise NotImplementedError  # abstract

    def play(
        self, puzzles: Puzzles, start: Tensor, generator: torch.Generator, progress: Progress
    ) -> Tensor:
        """The best boards ``(k, C)``, one per chain."""
        raise NotImplementedError  # abstract

    def choose(
        self,
        evidence: Evidence,
        puzzle: Puzzle,
        found: list[np.ndarray],
        generator: torch.Generator,
    ) -> tuple[np.ndarray, float]:
        """The board to return, by all evidence, and its evidence."""
        scores = [evidence.full_score(board) for board in found]
        best = int(np.argmax(scores))
        return found[best], scores[best]


class ErlMpp(Player):
    """Evolutionary reinforcement learning on the network's evidence.

    From random boards, actions that the actor proposes are evolved for Z generations, the
    evaluator judges where they lead, the leading action of the best sequence is executed; and so
    on, until neither evidence nor value have risen for a while. The board of highest evidence that
    was seen is touched up by the actor, all evidence judging, and returned. What is the paper's and
    what was decided here: docs/agent.md.
    """

    name: ClassVar[str] = "erl-mpp"
    summary: ClassVar[str] = "EvoRL agent: swaps evolved from an actor's, judged by an evaluator."
    reference: ClassVar[str] = "Song et al.: ERL-MPP, AAAI 2025"
    weights: ClassVar[tuple[str, ...]] = (*NETWORKS, "agent")

    def __init__(
        self,
        model: Model | None = None,
        agent: TrainedAgent | None = None,
        params: SolveParams | None = None,
    ) -> None:
        super().__init__(model)
        self.agent, self.params = agent, params

    def check(self) -> None:
        self.agent or shipped_agent()

    def play(
        self, puzzles: Puzzles, start: Tensor, generator: torch.Generator, progress: Progress
    ) -> Tensor:
        from ..agent.solve import SolveParams, reassemble

        networks = (self.agent or shipped_agent()).networks
        params = self.params or SolveParams()
        return reassemble(networks, puzzles, start, params, generator, progress)[0]

    def choose(
        self,
        evidence: Evidence,
        puzzle: Puzzle,
        found: list[np.ndarray],
        generator: torch.Generator,
    ) -> tuple[np.ndarray, float]:
        """The best board of all chains and of what the actor's actions make of them."""
        from ..agent.touch import TouchParams, touch_up

        board, score = super().choose(evidence, puzzle, found, generator)
        params = TouchParams()
        if evidence.complete or board.size > params.cells:
            return board, score
        actor = (self.agent or shipped_agent()).networks.actor
        return touch_up(actor, evidence, puzzle, [board, *found], params, generator)


class MppnDqn(Player):
    """The DQN agent of the ablation: Swap-2 actions of highest gain, while they raise the value."""

    name: ClassVar[str] = "mppn-dqn"
    summary: ClassVar[str] = "Ablation of erl-mpp: a DQN agent (as SD²RL's) on the same evidence."
    reference: ClassVar[str] = "Song et al.: SD²RL, AAAI 2023; ERL-MPP, AAAI 2025, ablation"
    weights: ClassVar[tuple[str, ...]] = (*NETWORKS, "dqn")

    def __init__(
        self,
        model: Model | None = None,
        agent: TrainedDqn | None = None,
        params: DqnParams | None = None,
    ) -> None:
        super().__init__(model)
        self.agent, self.params = agent, params

    def check(self) -> None:
        self.agent or _dqn()

    def play(
        self, puzzles: Puzzles, start: Tensor, generator: torch.Generator, progress: Progress
    ) -> Tensor:
        from ..agent.dqn import DqnParams
        from ..agent.rules import shuffle
        from ..agent.solve import reassemble_dqn

        network = (self.agent or _dqn()).network
        params = self.params or DqnParams()
        board = shuffle(start[None], ~puzzles.fixed, generator)[0]
        return reassemble_dqn(network, puzzles, board, params, generator, progress)[0]
