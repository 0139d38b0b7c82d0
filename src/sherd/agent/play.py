"""The agent at work: one step of Algorithm 1 (lines 4 to 11) for many boards at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .actor import Actor
from .critic import Critic, evaluate
from .evolution import Evolution, EvolutionParams
from .rules import Puzzles, apply


@dataclass(frozen=True)
class Step:
    """What was done to B boards."""

    action: Tensor
    """``(B, 4)``."""
    boards: Tensor
    """``(B, C)`` afterwards."""
    value: Tensor
    """``(B,)``: the evaluator's opinion of the best sequence."""
    history: Tensor
    """``(B, H, L, 4)``: to hand to the next step."""


class Agent:
    """Actor and evaluator, and how they act together."""

    def __init__(
        self,
        actor: Actor,
        evaluator: Critic,
        params: EvolutionParams | None = None,
        evidence: float = 1.0,
        value: float = 1.0,
    ) -> None:
        """``evidence`` and ``value`` are the weights of the evidence and of the evaluator's value
        beside how right it thinks a board is (a value with γ = 0.998 hardly tells apart two boards
        that differ by a swap).
        """
        self.actor, self.evaluator = actor, evaluator
        self.evidence, self.value = evidence, value
        self.evolution = Evolution(params)

    def judge(self, puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
        """``(B,)``: what a board is worth to the evolution."""
        return evaluate(
            self.evaluator, puzzles, boards, which, value=self.value, evidence=self.evidence
        )

    @torch.no_grad()
    def step(
        self,
        puzzles: Puzzles,
        boards: Tensor,
        which: Tensor,
        history: Tensor | None,
        generator: torch.Generator,
        prior: Tensor | None = None,
    ) -> Step:
        """Choose an action for every board and do it."""
        plan = self.actor(puzzles, boards, which, prior)
        draws = self.evolution.params.draws
        proposed = self.actor.sample(plan, draws, generator)

        def judge(states: Tensor, owner: Tensor) -> Tensor:
            return self.judge(puzzles, states, owner)

        found = self.evolution.run(puzzles, boards, which, proposed, history, judge, generator)
        after = apply(puzzles.layout, boards, found.action)
        return Step(found.action, after, found.value, found.history)
