"""Training of the DQN agent of the ablation: replay, ε-greedy, a soft target network."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..agent.batch import BatchEnv, start_boards
from ..agent.critic import soft_update, value_scale
from ..agent.dqn import QNetwork, candidate_swaps, choose, q_values
from ..agent.rules import apply, count_right
from .agent_data import Group
from .agent_ppo import pack_modules, plain, unpack_modules
from .agent_recipe import AgentRecipe
from .loop import clip_gradients


@dataclass(frozen=True)
class Replay:
    """One step of N puzzles."""

    group: Tensor
    """``()``, on the CPU: reading it must not wait for the device."""
    puzzle: Tensor
    board: Tensor
    action: Tensor
    reward: Tensor
    done: Tensor
    used: Tensor


class DqnLearner:
    """The Q network, its target network, optimiser and replay memory."""

    def __init__(self, recipe: AgentRecipe, groups: list[Group], device: torch.device) -> None:
        self.recipe, self.groups, self.device = recipe, groups, device
        self.network = QNetwork().to(device)
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        self.optimisers = {
            "network": torch.optim.Adam(self.network.parameters(), lr=recipe.critic_lr, eps=1e-5)
        }
        self.memory: list[Replay] = []

    def modules(self) -> Mapping[str, nn.Module]:
        """Everything that is learned, by name."""
        return {"network": self.network, "target": self.target}

    def iterate(self, number: int, progress: float) -> dict[str, float]:
        """An episode of N puzzles, an update after every step."""
        r, p = self.recipe, self.recipe.dqn
        rng = np.random.default_rng([r.seed, number])
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**62)))
        sizes = np.array([len(g) for g in self.groups], dtype=float) ** 0.5
        group = int(rng.choice(len(self.groups), p=sizes / sizes.sum()))
        index = torch.from_numpy(rng.integers(len(self.groups[group]), size=r.puzzles))
        index = index.to(self.device)
        puzzles, which = self.groups[group].puzzles, index
        layout, scale = puzzles.layout, value_scale(puzzles.layout, p.gamma)
        env = BatchEnv(puzzles, which)
        boards = env.reset(start_boards(puzzles, which, r.starts, generator))
        explore = p.explore + (p.explore_end - p.explore) * progress
        errors, rewards = [], []
        for _ in range(r.steps):
            over = env.done
            action, _ = choose(self.network, puzzles, boards, which, p, explore, generator)
            out = env.step(action)
            reward = plain(out.counts) + 1000.0 * (out.done & ~over)
            self.memory.append(
                Replay(
                    torch.tensor(group), index, boards.to(torch.int16),
                    action.to(torch.int16), reward / scale, out.done,
                    ~over & (action[:, 0] >= 0),
                )
            )  # fmt: skip
            del self.memory[: -p.replay]
            boards = env.boards
            rewards.append(reward.mean())
            errors.append(self._update(group, generator))
        counts = count_right(puzzles, boards, which)
        return {
            "reward": float(torch.stack(rewards).mean()),
            "absolute": float((counts.in_place / layout.cells).mean()),
            "neighbor": float((counts.pairs / max(1, layout.links)).mean()),
            "perfect": float(counts.perfect.float().mean()),
            "explore": explore,
            "value_error": float(torch.stack(errors).mean()),
        }

    def _update(self, group: int, generator: torch.Generator) -> Tensor:
        """One step of Q learning on a batch from the replay memory."""
        r, p = self.recipe, self.recipe.dqn
        mine = [m for m in self.memory if int(m.group) == group]
        rows = {f.name: torch.cat([getattr(m, f.name) for m in mine])
                for f in fields(Replay) if f.name != "group"}  # fmt: skip
        usable = rows["used"].nonzero().squeeze(1)
        if not len(usable):
            return torch.zeros((), device=self.device)
        draw = torch.randint(len(usable), (min(r.batch, len(usable)),), generator=generator,
                             device=self.device)  # fmt: skip
        take = usable[draw]
        which = rows["puzzle"][take]
        puzzles = self.groups[group].puzzles
        after = apply(puzzles.layout, rows["board"][take].long(), rows["action"][take].long())
        with torch.no_grad():
            actions = candidate_swaps(puzzles, after, which, p.candidates)
            best = q_values(self.target, puzzles, after, which, actions).amax(1)
            best = torch.where(rows["done"][take] | ~best.isfinite(), 1.0, best)
            goal = rows["reward"][take] + p.gamma * best
        loss = F.smooth_l1_loss(self.network(puzzles, after, which), goal)
        optimiser = self.optimisers["network"]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        clip_gradients(self.network.parameters(), r.norm)
        optimiser.step()
        soft_update(self.target, self.network, p.soft)
        return loss.detach().sqrt()

    def pack(self) -> dict[str, Tensor]:
        """All state, bit for bit."""
        out = pack_modules(self.modules(), self.optimisers)
        for k, memory in enumerate(self.memory):
            for f in fields(Replay):
                out[f"memory.{k:04d}.{f.name}"] = getattr(memory, f.name).clone()
        return out

    def unpack(self, tensors: Mapping[str, Tensor], what: str) -> None:
        """Take back what `pack` gave."""
        unpack_modules(tensors, self.modules(), self.optimisers, what)
        keys = sorted({k.split(".")[1] for k in tensors if k.startswith("memory.")})
        self.memory = [
            Replay(
                *(
                    tensors[f"memory.{k}.{f.name}"].to("cpu" if f.name == "group" else self.device)
                    for f in fields(Replay)
                )
            )
            for k in keys
        ]
