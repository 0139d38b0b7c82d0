"""From a random board to the best one seen: how a trained agent plays without a truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..errors import SherdError
from .dqn import DqnParams, QNetwork, choose
from .evolution import EvolutionParams
from .gains import score
from .place import PlaceParams, place_evidence
from .play import Agent
from .rules import Puzzles, apply, shuffle
from .weights import Networks

Progress = Callable[[Tensor, float, int], bool]
"""Best board ``(C,)``, its evidence and the number of steps → whether to stop."""


@dataclass(frozen=True)
class SolveParams:
    """How the agent plays; chosen on validation puzzles."""

    evolution: EvolutionParams = field(default_factory=lambda: EvolutionParams(settle=3))
    evidence: float = 1.0
    """Weight of the evidence beside the evaluator's value."""
    chains: int = 2
    """Random boards that are played side by side; the best counts."""
    powers: tuple[float, ...] = (2.0, 1.0, 3.0)
    """Trust in sure pairs when places are inferred (`PlaceParams.power`), chain by chain."""
    place: bool = True
    """Whether place evidence is used at all."""
    patience: int = 15
    """Steps without a better evidence or value after which a chain ends."""
    agreed: int = 4
    """The same, for a chain whose best board another chain has found too."""
    steps: int = 10_000
    """T: most steps."""

    def __post_init__(self) -> None:
        if min(self.chains, self.patience, self.agreed, self.steps) < 1 or not self.powers:
            raise SherdError("chains, patience, agreed and steps must be at least 1, powers given")


def _chains(puzzles: Puzzles, params: SolveParams) -> Puzzles:
    """One copy of the puzzle per chain, each with places of its own."""
    many = puzzles.pick(torch.zeros(params.chains, dtype=torch.long, device=puzzles.device))
    if not params.place:
        return replace(many, place=None)
    found = [place_evidence(puzzles, PlaceParams(power=p)) for p in params.powers[: params.chains]]
    order = [k % len(found) for k in range(params.chains)]
    return replace(many, place=torch.cat([found[k] for k in order]))


@torch.no_grad()
def reassemble(
    networks: Networks,
    puzzle: Puzzles,
    board: Tensor,
    params: SolveParams,
    generator: torch.Generator,
    progress: Progress,
) -> tuple[Tensor, Tensor]:
    """Play one puzzle from random boards.

    Returns the best board of every chain ``(chains, C)`` and its evidence, the best first.

    ``board (C,)`` holds the fixed pieces in place; all others are shuffled first.
    """
    agent = Agent(networks.actor, networks.evaluator, params.evolution, params.evidence)
    puzzles = _chains(puzzle, params)
    chains = torch.arange(params.chains)
    boards = shuffle(board.expand(params.chains, -1).clone(), ~puzzles.fixed, generator)
    seen = score(puzzles, boards, chains)
    value = agent.judge(puzzles, boards, chains)
    best = boards.clone()
    since = torch.zeros(params.chains, dtype=torch.long)
    history: Tensor | None = None
    top = int(seen.argmax())
    if progress(best[top], float(seen[top]), 0):
        return _sorted(best, seen)
    for number in range(1, params.steps + 1):
        alive = (since < _limits(best, params)).nonzero().squeeze(1)
        if not len(alive):
            break
        past = None if history is None else history[alive]
        step = agent.step(puzzles, boards[alive], chains[alive], past, generator)
        if history is None:
            history = step.history.new_full((params.chains, *step.history.shape[1:]), -1)
        history[alive], boards[alive] = step.history, step.boards
        now = score(puzzles, step.boards, alive)
        worth = agent.judge(puzzles, step.boards, alive)
        better = now > seen[alive] + 1e-4
        since[alive] = torch.where(better | (worth > value[alive] + 1e-5), 0, since[alive] + 1)
        value[alive] = torch.maximum(value[alive], worth)
        seen[alive] = torch.where(better, now, seen[alive])
        best[alive] = torch.where(better[:, None], step.boards, best[alive])
        since[alive[step.action[:, 0] < 0]] = params.patience  # nothing can be done any more
        top = int(seen.argmax())
        if progress(best[top], float(seen[top]), number):
            break
    return _sorted(best, seen)


def _sorted(boards: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    order = seen.argsort(descending=True, stable=True)
    return boards[order], seen[order]


def _limits(best: Tensor, params: SolveParams) -> Tensor:
    """Patience of every chain: less where another chain has found the same board."""
    same = (best[:, None] == best[None]).all(2).sum(1) > 1
    return torch.where(same, params.agreed, params.patience)


@torch.no_grad()
def reassemble_dqn(
    network: QNetwork,
    puzzle: Puzzles,
    board: Tensor,
    params: DqnParams,
    generator: torch.Generator,
    progress: Progress,
    steps: int = 10_000,
) -> tuple[Tensor, Tensor]:
    """Play one puzzle with the DQN agent: swaps are done while they raise the value.

    Returns what `reassemble` does, of one chain.
    """
    which = torch.zeros(1, dtype=torch.long)
    boards = shuffle(board[None], ~puzzle.fixed, generator)
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
