"""Algorithm 1: episodes with evolved actions, and the updates that follow them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor, nn

from ..agent.actor import Actor
from ..agent.batch import BatchEnv, start_boards
from ..agent.critic import Critic, soft_update, value_scale
from ..agent.evolution import type_prior
from ..agent.play import Agent
from ..agent.rules import TYPES, Counts, Puzzles, best_reward, count_right
from ..agent.state import observe
from ..errors import SherdError
from .agent_data import Group
from .agent_recipe import AgentRecipe
from .loop import clip_gradients


@dataclass(frozen=True)
class Memory:
    """One step of N puzzles in the buffer 𝔹."""

    group: Tensor
    """``()``: which group, and whether places were known (2·group + 1)."""
    puzzle: Tensor
    """``(N,)``."""
    board: Tensor
    """``(N, C) int16``."""
    action: Tensor
    """``(N, 4) int16``."""
    log_p: Tensor
    """``(N,)``: of the action, when it was done."""
    reward: Tensor
    """``(N,)``, in units of the value."""
    after: Tensor
    """``(N, C) int16``."""
    target: Tensor
    """``(N,)``: discounted sum of the rewards that followed."""
    used: Tensor
    """``(N,)`` bool: the episode was not over, and something was done."""


def plain(counts: Counts) -> Tensor:
    """The reward without the bonus for perfection."""
    return replace(counts, perfect=torch.zeros_like(counts.perfect)).reward()


def returns(rewards: Tensor, last: Tensor, gamma: float) -> Tensor:
    """``(T, N)`` discounted sums; ``last (N,)`` is what comes after the end."""
    out = torch.empty_like(rewards)
    for t in range(len(rewards) - 1, -1, -1):
        last = rewards[t] + gamma * last
        out[t] = last
    return out


class Learner:
    """Actor, critic and evaluator, their optimisers and the memory."""

    def __init__(self, recipe: AgentRecipe, groups: list[Group], device: torch.device) -> None:
        self.recipe, self.groups, self.device = recipe, groups, device
        self.actor = Actor(recipe.net).to(device)
        self.critic = Critic(recipe.net).to(device)
        self.evaluator = copy.deepcopy(self.critic).requires_grad_(False)
        self.optimisers = {
            "actor": torch.optim.Adam(self.actor.parameters(), lr=recipe.lr, eps=1e-5),
            "critic": torch.optim.Adam(self.critic.parameters(), lr=recipe.critic_lr, eps=1e-5),
        }
        self.memory: list[Memory] = []
        self.agent = Agent(self.actor, self.evaluator, recipe.evolution, recipe.evidence)

    def modules(self) -> Mapping[str, nn.Module]:
        """Everything that is learned, by name."""
        return {"actor": self.actor, "critic": self.critic, "evaluator": self.evaluator}

    def iterate(self, number: int, progress: float) -> dict[str, float]:
        """One iteration of Algorithm 1: an episode of N puzzles, then updates."""
        r = self.recipe
        # random state comes from the iteration alone, so a resumed run draws what it would have
        rng = np.random.default_rng([r.seed, number])
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**62)))
        sizes = np.array([len(g) for g in self.groups], dtype=float) ** 0.5
        group = int(rng.choice(len(self.groups), p=sizes / sizes.sum()))
        placed = bool(rng.random() >= r.bare)
        count = len(self.groups[group])
        index = torch.from_numpy(rng.integers(count, size=r.puzzles)).to(self.device)
        figures = self._episode(2 * group + placed, index, progress, generator)
        for name, peak in (("actor", r.lr), ("critic", r.critic_lr)):
            for params in self.optimisers[name].param_groups:
                params["lr"] = peak * (1.0 - (1.0 - r.lr_floor) * progress)
        figures |= self._update(2 * group + placed, progress, generator)
        soft_update(self.evaluator, self.critic, r.beta)
        return figures

    def _puzzles(self, code: int) -> Puzzles:
        puzzles = self.groups[code // 2].puzzles
        return puzzles if code % 2 else replace(puzzles, place=None)

    def _prior(self, progress: float) -> Tensor:
        return torch.tensor(type_prior(progress, self.recipe.large_first), device=self.device)

    @torch.no_grad()
    def _episode(
        self, code: int, index: Tensor, progress: float, generator: torch.Generator
    ) -> dict[str, float]:
        """Play; remember every step. Returns figures of the episode."""
        r = self.recipe
        puzzles = self._puzzles(code).pick(index)
        layout = puzzles.layout
        scale, best = value_scale(layout, r.gamma), best_reward(layout)
        which = torch.arange(len(index), device=self.device)
        env = BatchEnv(puzzles, which)
        boards = env.reset(start_boards(puzzles, which, r.starts, generator))
        first = count_right(puzzles, boards, which)
        prior = self._prior(progress)
        history: Tensor | None = None
        steps: list[dict[str, Tensor]] = []
        mix = torch.zeros(len(TYPES) + 1, device=self.device)
        for _ in range(r.steps):
            over = env.done
            step = self.agent.step(puzzles, boards, which, history, generator, prior)
            history = step.history
            done_one = step.action[:, 0] >= 0
            log_p, _ = self.actor.log_prob(step.plan, step.action.clamp(min=0))
            out = env.step(step.action)
            used = ~over & done_one
            mix += torch.bincount(step.action[used, 0] + 1, minlength=4).float()
            reward = plain(out.counts) + 1000.0 * (out.done & ~over)
            steps.append(
                {"board": boards, "action": step.action, "log_p": log_p, "reward": reward / scale,
                 "after": env.boards, "used": used}
            )  # fmt: skip
            boards = env.boards
        counts = count_right(puzzles, boards, which)
        # a board that is left as it is goes on earning its reward
        rewards = torch.stack([s["reward"] for s in steps])
        target = returns(rewards, plain(counts) / max(best, 1.0), r.gamma)
        for s, g in zip(steps, target.unbind(0), strict=True):
            self.memory.append(
                Memory(
                    torch.tensor(code, device=self.device), index, s["board"].to(torch.int16),
                    s["action"].to(torch.int16), s["log_p"], s["reward"],
                    s["after"].to(torch.int16), g, s["used"],
                )
            )  # fmt: skip
        del self.memory[: -r.buffer]
        total = mix[1:].sum().clamp(min=1.0)
        return {
            "reward": float((rewards * scale).mean()),
            "start": float((first.in_place / layout.cells).mean()),
            "absolute": float((counts.in_place / layout.cells).mean()),
            "neighbor": float((counts.pairs / max(1, layout.links)).mean()),
            "perfect": float(counts.perfect.float().mean()),
            **{n: float(c / total) for n, c in zip(TYPES, mix[1:], strict=True)},
        }

    def _update(self, code: int, progress: float, generator: torch.Generator) -> dict[str, float]:
        """PPO on transitions of this kind of puzzle (eq. advantage, actor_gradient,
        critic_gradient)."""
        r = self.recipe
        mine = [m for m in self.memory if int(m.group) == code]
        joined = {f.name: torch.cat([getattr(m, f.name) for m in mine])
                  for f in fields(Memory) if f.name != "group"}  # fmt: skip
        usable = joined["used"].nonzero().squeeze(1)
        figures = dict.fromkeys(("entropy", "kl", "clip_share", "value_error", "grad_norm"), 0.0)
        if not len(usable):
            return figures
        puzzles = self._puzzles(code)
        solved = count_right(puzzles, joined["after"].long(), joined["puzzle"]).perfect
        prior = self._prior(progress)
        for _ in range(r.epochs):
            order = torch.randperm(len(usable), generator=generator, device=self.device)
            take = usable[order[: r.batch]]
            got = self._step(puzzles, {k: v[take] for k, v in joined.items()}, solved[take], prior)
            for name, value in zip(figures, got, strict=True):
                figures[name] += float(value) / r.epochs
        return figures

    def _step(
        self, puzzles: Puzzles, rows: Mapping[str, Tensor], solved: Tensor, prior: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        r = self.recipe
        which, boards = rows["puzzle"], rows["board"].long()
        value = self.critic(observe(puzzles, boards, which), puzzles.layout)
        with torch.no_grad():
            after = self.critic(observe(puzzles, rows["after"].long(), which), puzzles.layout)
            after = torch.where(solved, 1.0, after)
            advantage = rows["reward"] + r.gamma * after - value
            advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
        plan = self.actor(puzzles, boards, which, prior)
        log_p, entropy = self.actor.log_prob(plan, rows["action"].long())
        ratio = (log_p - rows["log_p"]).clamp(-20.0, 20.0).exp()
        clipped = ratio.clamp(1.0 - r.clip, 1.0 + r.clip)
        policy = -torch.minimum(ratio * advantage, clipped * advantage).mean()
        self._descend("actor", self.actor, policy - r.entropy * entropy.mean())
        error = (value - rows["target"]).square().mean()
        norm = self._descend("critic", self.critic, error)
        with torch.no_grad():
            log_ratio = log_p - rows["log_p"]
            kl = (ratio - 1.0 - log_ratio).clamp(max=100.0).mean()  # an estimate of low variance
            share = ((ratio - 1.0).abs() > r.clip).float().mean()
        return entropy.mean().detach(), kl, share, error.detach().sqrt(), norm

    def _descend(self, name: str, module: nn.Module, loss: Tensor) -> Tensor:
        optimiser = self.optimisers[name]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = clip_gradients(module.parameters(), self.recipe.norm)
        optimiser.step()
        return norm

    def pack(self) -> dict[str, Tensor]:
        """All state, bit for bit."""
        out = pack_modules(self.modules(), self.optimisers)
        for k, memory in enumerate(self.memory):
            for f in fields(Memory):
                # a copy: the steps of an episode share the numbers of their puzzles
                out[f"memory.{k:04d}.{f.name}"] = getattr(memory, f.name).clone()
        return out

    def unpack(self, tensors: Mapping[str, Tensor], what: str) -> None:
        """Take back what `pack` gave."""
        unpack_modules(tensors, self.modules(), self.optimisers, what)
        keys = sorted({k.split(".")[1] for k in tensors if k.startswith("memory.")})
        self.memory = [
            Memory(*(tensors[f"memory.{k}.{f.name}"].to(self.device) for f in fields(Memory)))
            for k in keys
        ]


def pack_modules(
    modules: Mapping[str, nn.Module], optimisers: Mapping[str, torch.optim.Optimizer]
) -> dict[str, Tensor]:
    """Weights and optimiser states as they are."""
    out: dict[str, Tensor] = {}
    for name, module in modules.items():
        for key, p in module.named_parameters():
            out[f"{name}.{key}"] = p.detach()
            state = optimisers[name].state.get(p, {}) if name in optimisers else {}
            for part, value in state.items():
                out[f"{name}.{key}|{part}"] = value
    return out


def unpack_modules(
    tensors: Mapping[str, Tensor],
    modules: Mapping[str, nn.Module],
    optimisers: Mapping[str, torch.optim.Optimizer],
    what: str,
) -> None:
    """Put what `pack_modules` took back into place."""
    with torch.no_grad():
        for name, module in modules.items():
            for key, p in module.named_parameters():
                stored = tensors.get(f"{name}.{key}")
                if stored is None or stored.shape != p.shape:
                    got = "nothing" if stored is None else tuple(stored.shape)
                    raise SherdError(
                        f"{what}: holds {got} for {name}.{key}, this network has {tuple(p.shape)}; "
                        "resume with the configuration it was trained with"
                    )
                p.copy_(stored)
                state = {
                    part: tensors[f"{name}.{key}|{part}"].clone()
                    for part in ("step", "exp_avg", "exp_avg_sq")
                    if f"{name}.{key}|{part}" in tensors
                }
                if state:
                    optimisers[name].state[p] = {
                        k: v if k == "step" else v.to(p.device) for k, v in state.items()
                    }
