"""The DQN agent of the ablation, after SD²RL, in the same environment.

Only Swap-2 actions, filtered to those of highest gain in evidence; Q(s, a) is the value of the
board that follows, read from its pair scores alone. The reference has one input per pair of a 5×5
board; here every seam goes through the same layer and the mean goes on, so that any grid will do.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import SherdError
from .gains import fits, sides, swap_gain
from .rules import NONE, SWAP_2, Puzzles, apply
from .state import LARGEST, NATS


@dataclass(frozen=True)
class DqnParams:
    """As far as known, those of SD²RL."""

    candidates: int = 32
    """Swap-2 actions that are looked at, best by evidence."""
    gamma: float = 0.995
    soft: float = 5e-4
    """Share of the network that enters the target network in an update."""
    explore: float = 0.9
    """ε at the beginning of training."""
    explore_end: float = 0.1
    """ε at its end."""
    replay: int = 200
    """Batched steps that are remembered."""

    def __post_init__(self) -> None:
        if self.candidates < 1 or self.replay < 1 or not 0 < self.soft <= 1:
            raise SherdError("dqn: candidates and replay must be at least 1, soft in 0..1")


class QNetwork(nn.Module):
    """Pair scores of a board → 128 → 64 → value."""

    def __init__(self) -> None:
        super().__init__()
        self.seam = nn.Linear(3, 128)
        self.hidden = nn.Linear(128, 64)
        self.value = nn.Linear(64, 1)

    def forward(self, puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
        """``(B,)`` values of boards, about 0..1."""
        pair = sides(puzzles, boards, which)[:, :, 1:3] / NATS  # right and below
        there = 1.0 - puzzles.layout.rim[:, 1:3]
        pair = pair.clamp(-LARGEST, LARGEST).flatten(1)  # (B, C·2)
        weight = there.flatten()
        kind = torch.tensor([0.0, 1.0], device=pair.device).repeat(puzzles.layout.cells)
        x = torch.stack([pair, kind.expand_as(pair), torch.ones_like(pair)], dim=2)
        x = F.relu(self.seam(x)) * weight[:, None]
        x = x.sum(1) / weight.sum().clamp(min=1.0)
        return self.value(F.relu(self.hidden(x))).squeeze(1)


def candidate_swaps(puzzles: Puzzles, boards: Tensor, which: Tensor, count: int) -> Tensor:
    """``(B, K, 4)``: the Swap-2 actions of highest gain; type -1 where there are fewer."""
    gain = swap_gain(puzzles, boards, which, fits(puzzles, boards, which))
    cells = puzzles.layout.cells
    free = ~puzzles.fixed[which]
    may = free[:, :, None] & free[:, None]
    may = may & torch.ones(cells, cells, dtype=torch.bool, device=gain.device).triu(1)
    value, at = gain.masked_fill(~may, float("-inf")).flatten(1).topk(min(count, cells * cells))
    kind = torch.where(value > float("-inf"), SWAP_2, NONE)
    return torch.stack([kind, at // cells, at % cells, torch.full_like(at, NONE)], dim=2)


@torch.no_grad()
def q_values(
    net: QNetwork, puzzles: Puzzles, boards: Tensor, which: Tensor, actions: Tensor
) -> Tensor:
    """``(B, K)`` of actions ``(B, K, 4)``; -inf for actions that are none."""
    b, k = actions.shape[:2]
    after = apply(puzzles.layout, boards.repeat_interleave(k, 0), actions.flatten(0, 1))
    value = net(puzzles, after, which.repeat_interleave(k)).reshape(b, k)
    return value.masked_fill(actions[..., 0] < 0, float("-inf"))


def choose(
    net: QNetwork,
    puzzles: Puzzles,
    boards: Tensor,
    which: Tensor,
    params: DqnParams,
    explore: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """ε-greedy: actions ``(B, 4)`` and their Q values ``(B,)``."""
    actions = candidate_swaps(puzzles, boards, which, params.candidates)
    q = q_values(net, puzzles, boards, which, actions)
    noise = torch.rand(q.shape, generator=generator, device=q.device)
    dice = torch.rand(len(q), 1, generator=generator, device=q.device) < explore
    noise = noise.masked_fill(actions[..., 0] < 0, float("-inf"))
    pick = torch.where(dice, noise, q).argmax(1, keepdim=True)
    chosen = actions.gather(1, pick[..., None].expand(-1, -1, 4)).squeeze(1)
    return chosen, q.gather(1, pick).squeeze(1)
