"""Critic and evaluator: the value of a state (eq. vvalue), for thousands of states at a time."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import AgentConfig
from .layout import Layout
from .rules import ALPHA, PENALTY, Puzzles, best_reward
from .state import CELL, GLOBAL, State, observe

LINE = (0.3, 0.03, 0.7)
"""Value per unit of mean pair, border and place evidence: what an untrained critic says."""
CPU_BOARDS = 32
"""Boards that are judged at a time on a CPU, for its caches."""


class Answer(NamedTuple):
    """What a critic says of B states."""

    value: Tensor
    """``(B,)``: of what is to come, as a share of staying perfect for ever."""
    right: Tensor
    """``(B,)``: the reward of the board as it is, expected, as a share of a perfect board's."""
    cells: Tensor
    """``(B, C, 3)`` logits behind it: the cell's piece is in place; the pairs with its right and
    its lower neighbour are true."""


class Critic(nn.Module):
    """Value as a share of what staying perfect is worth, about 0..1, and how right a board is.

    Every cell looks at itself, then at itself, its four neighbours and the mean of all cells. What
    is right is asked of every cell, as the reward is a sum over cells and pairs; the mean over the
    cells and the global figures make the value. No attention: the evaluator judges S·Z states per
    action. The value starts as a line in the mean evidence, so that an untrained evaluator prefers
    what the evidence prefers.
    """

    def __init__(self, cfg: AgentConfig) -> None:
        super().__init__()
        w = cfg.critic
        self.cell = nn.Linear(CELL, w)
        self.own, self.near = nn.Linear(w, w), nn.Linear(w, w, bias=False)
        self.about = nn.Linear(w, w, bias=False)
        self.right = nn.Linear(w, 3)
        self.out = nn.Linear(2 * w + GLOBAL, w)
        self.value = nn.Linear(w, 1)
        self.line = nn.Linear(GLOBAL, 1)
        for layer in (self.value, self.right):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        with torch.no_grad():
            self.line.weight.zero_()
            self.line.weight[0, :3] = torch.tensor(LINE)
            self.line.bias.fill_(0.4)
        self.evidence: Tensor
        self.register_buffer("evidence", self.line.weight[0].detach().clone(), persistent=False)

    def forward(self, state: State, layout: Layout) -> Answer:
        """Value, rightness and what it is made of."""
        x = F.relu(self.cell(state.cells))
        mean = x.mean(1)
        # what neighbours say is added up after the layer: linear, and half the width to move
        y = self.own(x) + self.about(mean)[:, None]
        y = F.relu(_add_around(y, self.near(x), layout))
        value = self.conclude(mean, y.mean(1), state.glob)
        cells = self.right(y)
        share = (cells.sigmoid() * right_weights(layout)).sum((1, 2)) + PENALTY
        return Answer(value, share / max(1.0, best_reward(layout)), cells)

    def conclude(self, mean: Tensor, last: Tensor, glob: Tensor) -> Tensor:
        """``(B,)`` values, by the means of both hidden layers and the global figures."""
        pooled = torch.cat([mean, last, glob], dim=1)
        return (self.value(F.relu(self.out(pooled))) + self.line(glob)).squeeze(1)


def right_weights(layout: Layout) -> Tensor:
    """``(C, 3)``: what a cell in place, and true pairs to the right and below, add to a reward."""
    place = torch.ones_like(layout.inner[:, :1])
    return torch.cat([ALPHA * place, (1.0 - ALPHA) * layout.inner[:, 1:3]], dim=1)


def _add_around(out: Tensor, x: Tensor, layout: Layout) -> Tensor:
    """``out (B, C, w)`` plus a quarter of what a cell's four neighbours say, in place."""
    count = layout.rows * layout.cols
    grid = x[:, :count].unflatten(1, layout.grid)
    near = out[:, :count].unflatten(1, layout.grid)  # a view: shifted grids are added in place
    near[:, 1:].add_(grid[:, :-1], alpha=0.25)
    near[:, :-1].add_(grid[:, 1:], alpha=0.25)
    near[:, :, 1:].add_(grid[:, :, :-1], alpha=0.25)
    near[:, :, :-1].add_(grid[:, :, 1:], alpha=0.25)
    return out


def value_scale(layout: Layout, gamma: float) -> float:
    """Return of a board that is perfect for ever, the bonus left out: what a value of 1 means."""
    return max(1.0, best_reward(layout)) / (1.0 - gamma)


def evaluate(
    critic: Critic,
    puzzles: Puzzles,
    boards: Tensor,
    which: Tensor,
    *,
    value: float = 1.0,
    evidence: float = 0.0,
    chunk: int = 0,
) -> Tensor:
    """``(B,)``: how right boards are, plus ``value`` times their value and ``evidence`` times the
    `LINE`; without gradients.

    ``chunk`` boards at a time; 0 = as many as suit the device (on a CPU, its caches).
    """
    parts = []
    chunk = chunk or (CPU_BOARDS if boards.device.type == "cpu" else 16384)
    with torch.no_grad():
        for part, w in zip(boards.split(chunk), which.split(chunk), strict=True):
            state = observe(puzzles, part, w)
            answer = critic(state, puzzles.layout)
            worth = answer.right + value * answer.value
            if evidence:
                worth = torch.addmv(worth, state.glob, critic.evidence, alpha=evidence)
            parts.append(worth)
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def soft_update(evaluator: nn.Module, critic: nn.Module, beta: float) -> None:
    """Eq. evaluator_update: μ ← β·φ + (1−β)·μ."""
    with torch.no_grad():
        torch._foreach_lerp_(list(evaluator.parameters()), list(critic.parameters()), beta)
