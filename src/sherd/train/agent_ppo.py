"""Algorithm 1: episodes with evolved actions, and the updates that follow them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..agent.actor import Actor
from ..agent.batch import BatchEnv, start_boards
from ..agent.critic import Critic, right_weights, soft_update, value_scale
from ..agent.evolution import type_prior
from ..agent.graphs import GraphedStep
from ..agent.play import Agent, Step
from ..agent.rules import NONE, TYPES, Counts, Puzzles, best_reward, count_right, which_right
from ..agent.state import observe
from ..errors import SherdError
from .agent_data import Group
from .agent_recipe import AgentRecipe
from .loop import clip_gradients


@dataclass(frozen=True)
class Memory:
    """One step of N puzzles in the buffer 𝔹."""

    group: int
    """Which group, and whether places were known (2·group + 1)."""
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
        if not recipe.head_start:
            nn.init.zeros_(self.critic.line.weight)
        self.evaluator = copy.deepcopy(self.critic).requires_grad_(False)
        self.optimisers = {
            name: torch.optim.Adam(module.parameters(), lr=lr, eps=1e-5, foreach=True)
            for name, module, lr in (
                ("actor", self.actor, recipe.lr),
                ("critic", self.critic, recipe.critic_lr),
            )
        }
        self.memory: list[Memory] = []
        # tables of puzzles are built once: with places, and without
        self._bare = [replace(g.puzzles, place=None) for g in groups]
        self.agent = Agent(
            self.actor, self.evaluator, recipe.evolution, recipe.evidence, recipe.value
        )
        self._generator = torch.Generator(device)
        self._graphs: dict[int, GraphedStep] = {}
        self._graphed = recipe.graphs and device.type == "cuda"
        self._pool = torch.cuda.graph_pool_handle() if self._graphed else None

    def modules(self) -> Mapping[str, nn.Module]:
        """Everything that is learned, by name."""
        return {"actor": self.actor, "critic": self.critic, "evaluator": self.evaluator}

    def iterate(self, number: int, progress: float) -> dict[str, Tensor]:
        """One iteration of Algorithm 1: an episode of N puzzles, then updates.

        Returns figures ``()`` on the device: nothing waits for it.
        """
        r = self.recipe
        # random state comes from the iteration alone, so a resumed run draws what it would have
        rng = np.random.default_rng([r.seed, number])
        generator = self._generator.manual_seed(int(rng.integers(2**62)))
        sizes = np.array([len(g) for g in self.groups], dtype=float) ** 0.5
        group = int(rng.choice(len(self.groups), p=sizes / sizes.sum()))
        placed = bool(rng.random() >= r.bare)
        count = len(self.groups[group])
        index = torch.from_numpy(rng.integers(count, size=r.puzzles))
        index = index.to(self.device, non_blocking=True)
        figures = self._episode(2 * group + placed, index, progress, generator)
        for name, peak in (("actor", r.lr), ("critic", r.critic_lr)):
            for params in self.optimisers[name].param_groups:
                params["lr"] = peak * (1.0 - (1.0 - r.lr_floor) * progress)
        figures |= self._update(2 * group + placed, progress, generator)
        soft_update(self.evaluator, self.critic, r.beta)
        return figures

    def _puzzles(self, code: int) -> Puzzles:
        return self.groups[code // 2].puzzles if code % 2 else self._bare[code // 2]

    def _prior(self, progress: float) -> Tensor:
        prior = torch.tensor(type_prior(progress, self.recipe.large_first))
        return prior.to(self.device, non_blocking=True)

    def _act(
        self, code: int, boards: Tensor, which: Tensor, history: Tensor | None,
        generator: torch.Generator, prior: Tensor,
    ) -> Step:  # fmt: skip
        """A step of the agent; the first of an episode has no history."""
        puzzles = self._puzzles(code)
        if history is None or not self._graphed:
            return self.agent.step(puzzles, boards, which, history, generator, prior)
        if code not in self._graphs:
            self._graphs[code] = GraphedStep(
                self.agent, puzzles, len(boards), generator, self._pool
            )
        return self._graphs[code](boards, which, history, prior)

    def _log_prob(self, puzzles: Puzzles, steps: Mapping[str, Tensor], prior: Tensor) -> Tensor:
        """``(T, N)``: of the actions of an episode, many steps at once."""
        boards, which, action = (steps[k].flatten(0, 1) for k in ("board", "which", "action"))
        parts = []
        for b, w, a in zip(*(x.split(self.recipe.batch) for x in (boards, which, action)),
                           strict=True):  # fmt: skip
            plan = self.actor(puzzles, b, w, prior)
            parts.append(self.actor.log_prob(plan, a)[0])
        return torch.cat(parts).view_as(steps["which"])

    @torch.no_grad()
    def _episode(
        self, code: int, which: Tensor, progress: float, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Play the puzzles ``which``; remember every step. Returns figures of the episode."""
        r = self.recipe
        puzzles = self._puzzles(code)
        layout = puzzles.layout
        scale, best = value_scale(layout, r.gamma), best_reward(layout)
        env = BatchEnv(puzzles, which)
        boards = env.reset(start_boards(puzzles, which, r.starts, generator))
        first = count_right(puzzles, boards, which)
        prior = self._prior(progress)
        history: Tensor | None = None
        rows: list[dict[str, Tensor]] = []
        for _ in range(r.steps):
            over = env.done
            step = self._act(code, boards, which, history, generator, prior)
            history = step.history
            counts = env.follow(step.boards)
            rows.append(
                {"board": boards, "action": step.action, "after": env.boards, "over": over,
                 "in_place": counts.in_place, "pairs": counts.pairs, "perfect": counts.perfect,
                 "which": which}
            )  # fmt: skip
            boards = env.boards
        steps = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}  # (T, N, …)
        log_p = self._log_prob(puzzles, steps, prior)
        used = ~steps["over"] & (steps["action"][..., 0] >= 0)
        # a board that is left as it is goes on earning its reward, but the bonus only once
        bonus = steps["perfect"] & ~steps["over"]
        rewards = Counts(steps["in_place"], steps["pairs"], bonus).reward() / scale
        target = returns(rewards, plain(counts) / max(best, 1.0), r.gamma)
        small = {k: steps[k].to(torch.int16) for k in ("board", "action", "after")}
        for t in range(r.steps):
            self.memory.append(
                Memory(
                    code, which, small["board"][t], small["action"][t], log_p[t], rewards[t],
                    small["after"][t], target[t], used[t],
                )
            )  # fmt: skip
        del self.memory[: -r.buffer]
        kinds = steps["action"][..., 0].masked_fill(~used, NONE)
        mix = torch.stack([(kinds == k).sum() for k in range(len(TYPES))])
        mix = mix / mix.sum().clamp(min=1)
        return {
            "reward": (rewards * scale).mean(),
            "start": first.in_place.float().mean() / layout.cells,
            "absolute": counts.in_place.float().mean() / layout.cells,
            "neighbor": counts.pairs.float().mean() / max(1, layout.links),
            "perfect": counts.perfect.float().mean(),
            **dict(zip(TYPES, mix.unbind(0), strict=True)),
        }

    def _update(self, code: int, progress: float, generator: torch.Generator) -> dict[str, Tensor]:
        """PPO on transitions of this kind of puzzle (eq. advantage, actor_gradient,
        critic_gradient)."""
        r = self.recipe
        mine = [m for m in self.memory if m.group == code]
        joined = {f.name: torch.cat([getattr(m, f.name) for m in mine])
                  for f in fields(Memory) if f.name != "group"}  # fmt: skip
        puzzles = self._puzzles(code)
        joined["solved"] = count_right(puzzles, joined["after"].long(), joined["puzzle"]).perfect
        prior = self._prior(progress)
        used = joined["used"]
        got = []
        for _ in range(r.epochs):
            # a random batch, transitions that count before those that do not: these weigh nothing
            key = torch.rand(len(used), generator=generator, device=self.device)
            take = torch.where(used, key, key - 2.0).topk(min(r.batch, len(used))).indices
            got.append(self._step(puzzles, {k: v[take] for k, v in joined.items()}, prior))
        names = ("entropy", "kl", "clip_share", "value_error", "doubt", "grad_norm")
        means = torch.stack([torch.stack(g) for g in got]).mean(0)
        return dict(zip(names, means.unbind(0), strict=True))

    def _step(
        self, puzzles: Puzzles, rows: Mapping[str, Tensor], prior: Tensor
    ) -> tuple[Tensor, ...]:
        r = self.recipe
        weight = rows["used"].float()
        weight = weight / weight.sum().clamp(min=1.0)

        def mean(x: Tensor) -> Tensor:
            return (x * weight).sum()

        which, boards = rows["puzzle"], rows["board"].long()
        answer = self.critic(observe(puzzles, boards, which), puzzles.layout)
        value = answer.value
        with torch.no_grad():
            after = self.critic(observe(puzzles, rows["after"].long(), which), puzzles.layout)
            # how right the boards are is known here; the value is learned
            gain = after.value.masked_fill(rows["solved"], 1.0)
            advantage = rows["reward"] + r.gamma * gain - value
            # scaled, not centred: evolved actions lead to better boards more often than not, and
            # the actor is to learn to propose them
            advantage = advantage / (mean(advantage.square()).sqrt() + 1e-8)
        plan = self.actor(puzzles, boards, which, prior)
        log_p, entropy = self.actor.log_prob(plan, rows["action"].long())
        log_ratio = (log_p - rows["log_p"]).clamp(-20.0, 20.0)
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1.0 - r.clip, 1.0 + r.clip)
        policy = -mean(torch.minimum(ratio * advantage, clipped * advantage))
        kl = mean((ratio - 1.0 - log_ratio).clamp(max=100.0)).detach()  # low variance, above 0
        before = [p.detach().clone() for p in self.actor.parameters()]
        self._descend("actor", self.actor, policy - r.entropy * mean(entropy))
        # beyond the limit the update is taken back; the device is not asked, nobody waits for it
        with torch.no_grad():
            for p, old in zip(self.actor.parameters(), before, strict=True):
                p.copy_(torch.where(kl > r.kl, old, p))
        error = mean((value - rows["target"]).square())
        truth = which_right(puzzles, boards, which).float()
        weight3 = right_weights(puzzles.layout)
        doubt = F.binary_cross_entropy_with_logits(answer.cells, truth, reduction="none")
        doubt = mean((doubt * weight3).sum((1, 2))) / weight3.sum()
        norm = self._descend("critic", self.critic, error + doubt)
        with torch.no_grad():
            share = mean(((ratio - 1.0).abs() > r.clip).float())
        return mean(entropy.detach()), kl, share, error.detach().sqrt(), doubt.detach(), norm

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
                out[f"memory.{k:04d}.{f.name}"] = torch.as_tensor(getattr(memory, f.name)).clone()
        return out

    def unpack(self, tensors: Mapping[str, Tensor], what: str) -> None:
        """Take back what `pack` gave."""
        unpack_modules(tensors, self.modules(), self.optimisers, what)
        keys = sorted({k.split(".")[1] for k in tensors if k.startswith("memory.")})
        names = [f.name for f in fields(Memory)][1:]
        self.memory = [
            Memory(
                int(tensors[f"memory.{k}.group"]),
                *(tensors[f"memory.{k}.{name}"].to(self.device) for name in names),
            )
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
