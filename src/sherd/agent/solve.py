"""From a random board to the best one seen: how a trained agent plays without a truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..errors import SherdError
from .dqn import DqnParams, QNetwork, choose
from .evolution import EvolutionParams
from .gains import score, sides
from .place import PlaceParams, place_evidence
from .play import Agent
from .recall import Recall
from .rules import Puzzles, apply, shuffle
from .weights import Networks

SMALL = 50
"""Cells of a small board."""

Progress = Callable[[Tensor, float, int], bool]
"""Best board ``(C,)``, its evidence and the number of steps → whether to stop."""


@dataclass(frozen=True)
class SolveParams:
    """How the agent plays; chosen on validation puzzles."""

    evolution: EvolutionParams = field(default_factory=lambda: EvolutionParams(settle=3))
    evidence: float = 1.0
    """Weight of the evidence beside how right the evaluator thinks a board is."""
    value: float = 0.1
    """Weight of the evaluator's value."""
    chains: int = 5
    """Random boards that are played one after the other at most; the best counts."""
    places: tuple[PlaceParams, ...] = (
        PlaceParams(power=2.0),
        PlaceParams(power=3.0),
        PlaceParams(power=1.5),
        PlaceParams(power=2.5),
        PlaceParams(power=1.0),
    )
    """How places are inferred, chain by chain: not all chains shall fall into one trap."""
    place: bool = True
    """Whether place evidence is used at all."""
    alike: tuple[int, int] = (4, 2)
    """Chains that must have found a board if it is to be agreed on: on boards of at most `SMALL`
    cells, where two of them may fall into the same trap, and on larger ones."""
    patience: int = 15
    """Steps without a better evidence or value after which a chain ends."""
    agreed: int = 4
    """The same, for a chain that still follows its places."""
    steps: int = 10_000
    """T: most steps."""

    def __post_init__(self) -> None:
        least = min(self.chains, *self.alike, self.patience, self.agreed, self.steps)
        if least < 1 or not self.places:
            raise SherdError(
                "chains, alike, patience, agreed and steps must be at least 1, places given"
            )


@torch.inference_mode()
def reassemble(
    networks: Networks,
    puzzle: Puzzles,
    board: Tensor,
    params: SolveParams,
    generator: torch.Generator,
    progress: Progress,
) -> tuple[Tensor, Tensor]:
    """Play one puzzle from random boards, one chain after the other.

    A chain follows the place evidence until it brings nothing more, and goes on without it. A
    board without unlikely pairs that is where the place evidence puts it is agreed on, and so is
    any board that ``alike`` chains have found: no other follows.

    Returns the best board of every chain ``(k, C)`` and its evidence ``(k,)``, the best first.
    ``board (C,)`` holds the fixed pieces in place.
    """
    agent = _Player(
        networks.actor, networks.evaluator, params.evolution, params.evidence, params.value
    )
    ends: list[Tensor] = []
    scores: list[float] = []
    number, alike = 0, params.alike[len(board) > SMALL]
    for k in range(params.chains):
        chain = _Chain(agent, _with_place(puzzle, params, k), board, generator)
        while number <= params.steps:
            top, seen = chain.best, chain.seen
            if scores and max(scores) > seen:
                seen = max(scores)
                top = ends[scores.index(seen)]
            if progress(top, seen, number):
                return _sorted([*ends, chain.best], [*scores, chain.seen])
            if chain.since >= params.agreed:
                known = bool(_known(chain.best, ends))
                if (chain.likely and (chain.at_home or known)) or (chain.released and known):
                    break
                if not chain.released:
                    chain.release()
            if chain.stuck or chain.since >= params.patience:
                break
            chain.step()
            number += 1
        ends.append(chain.best)
        scores.append(chain.seen)
        if _known(chain.best, ends) >= alike or (chain.likely and chain.at_home):
            break
    return _sorted(ends, scores)


def _with_place(puzzle: Puzzles, params: SolveParams, chain: int) -> Puzzles:
    """The puzzle with the places that ``chain`` believes in."""
    if not params.place:
        return replace(puzzle, place=None)
    how = params.places[chain % len(params.places)]
    return replace(puzzle, place=place_evidence(puzzle, how))


class _Player(Agent):
    """The agent with one puzzle at a time; on a CPU it need not look twice at what it has seen."""

    _recall: tuple[Puzzles, Recall] | None = None

    def judge(self, puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
        if boards.device.type != "cpu":
            return super().judge(puzzles, boards, which)
        if self._recall is None or self._recall[0] is not puzzles:
            recall = Recall(self.evaluator, puzzles, value=self.value, evidence=self.evidence)
            self._recall = (puzzles, recall)
        return self._recall[1](boards)


class _Chain:
    """One board on its way, and the best it has been."""

    def __init__(
        self, agent: Agent, puzzle: Puzzles, board: Tensor, generator: torch.Generator
    ) -> None:
        self._agent, self._puzzle, self._generator = agent, puzzle, generator
        self._place = puzzle.place
        self._which = torch.zeros(1, dtype=torch.long, device=board.device)
        self._board = shuffle(board[None], ~puzzle.fixed, generator)
        self._history: Tensor | None = None
        self._worth = float(agent.judge(puzzle, self._board, self._which))
        self.seen = float(score(puzzle, self._board, self._which))
        self.best = self._board[0]
        self.since = 0
        """Steps since evidence or value last rose."""
        self.stuck = False
        """Nothing can be done any more."""
        self.released = puzzle.place is None
        """Place evidence is no longer followed."""

    @property
    def at_home(self) -> bool:
        """Every piece of the best board lies where its places say."""
        if self._place is None:
            return False
        cells = torch.arange(len(self.best), device=self.best.device)
        return bool((self._place[0, self.best, :-1].argmax(1) == cells).all())

    @property
    def likely(self) -> bool:
        """No pair of neighbours is less likely than chance: a shifted board has such pairs."""
        return bool((sides(self._puzzle, self.best[None], self._which) >= 0).all())

    def release(self) -> None:
        """Go on from the best board, without place evidence."""
        self._puzzle = replace(self._puzzle, place=None)
        self._board, self._history = self.best[None], None
        self._worth = float(self._agent.judge(self._puzzle, self._board, self._which))
        self.released, self.since = True, 0

    def step(self) -> None:
        """One action."""
        step = self._agent.step(
            self._puzzle, self._board, self._which, self._history, self._generator
        )
        self._board, self._history = step.boards, step.history
        self.stuck = int(step.action[0, 0]) < 0
        worth = float(self._agent.judge(self._puzzle, self._board, self._which))
        seen = float(score(self._puzzle, self._board, self._which))
        self.since += 1
        if worth > self._worth + 1e-5:
            self._worth, self.since = worth, 0
        if seen > self.seen + 1e-4:
            self.seen, self.best, self.since = seen, self._board[0], 0


def _known(board: Tensor, others: list[Tensor]) -> int:
    """How many of ``others`` are this board."""
    return sum(torch.equal(board, other) for other in others)


def _sorted(boards: list[Tensor], scores: list[float]) -> tuple[Tensor, Tensor]:
    seen = torch.tensor(scores)
    order = seen.argsort(descending=True, stable=True)
    return torch.stack(boards)[order], seen[order]


@torch.inference_mode()
def reassemble_dqn(
    network: QNetwork,
    puzzle: Puzzles,
    board: Tensor,
    params: DqnParams,
    generator: torch.Generator,
    progress: Progress,
    steps: int = 10_000,
) -> tuple[Tensor, Tensor]:
    """Play one puzzle from ``board (C,)`` with the DQN agent: swaps are done while they raise the
    value.

    Returns what `reassemble` does, of one chain.
    """
    which = torch.zeros(1, dtype=torch.long)
    boards = board[None]
    best, seen = boards[0], float(score(puzzle, boards, which))
    if progress(best, seen, 0):
        return best[None], torch.tensor([seen])
    for number in range(1, steps + 1):
        action, q = choose(network, puzzle, boards, which, params, 0.0, generator)
        if int(action[0, 0]) < 0 or float(q) <= float(network(puzzle, boards, which)) + 1e-6:
            break
        boards = apply(puzzle.layout, boards, action)
        now = float(score(puzzle, boards, which))
        if now > seen:
            best, seen = boards[0], now
        if progress(best, seen, number):
            break
    return best[None], torch.tensor([seen])
