"""An iteration of the agent's training: kernels, waits for the device, seconds.

    python benchmarks/agent_training.py [--puzzles 32] [--steps 24] [--no-time]

Counted on the CPU, since the same operations are launched on a GPU: an operation that is no view is
about one kernel, and on a GPU that is what a small batch costs. A *wait* is whatever makes the host
wait for the device: a figure that is read, an index whose size depends on values, a table that is
copied from Python. Synthetic evidence, the default recipe, one thread.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode

from agent import GRIDS, puzzles_of

WAITS = {
    "_local_scalar_dense", "nonzero", "bincount", "_unique2", "unique_dim", "masked_select",
    "lift_fresh", "equal", "repeat_interleave.Tensor",
}  # fmt: skip
FREE = {"detach", "lift_fresh", "_local_scalar_dense", "_unsafe_view", "empty", "empty_like",
        "new_empty", "empty_strided", "alias"}  # fmt: skip


class Count(TorchDispatchMode):
    """Counts operations by name, and waits."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self._on = True  # optimisers count their steps on the CPU: no wait

        def switch(on: bool) -> Callable[..., None]:
            return lambda *_: setattr(self, "_on", on)

        register_optimizer_step_pre_hook(switch(False))
        register_optimizer_step_post_hook(switch(True))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.split("::")[1]
        masks = name.startswith("index") and len(args) > 1 and isinstance(args[1], (list, tuple))
        if not self._on:
            pass
        elif name in WAITS or f"{name}.{func._overloadname}" in WAITS:
            self.waits[name] += 1
        elif masks and any(t is not None and t.dtype == torch.bool for t in args[1]):
            self.waits[f"{name} by mask"] += 1
        if not func.is_view and name not in FREE:
            self.kernels[name] += 1
        return func(*args, **(kwargs or {}))


def count(work: Callable[[], object]) -> Count:
    """What ``work`` launches."""
    with Count() as seen:
        work()
    return seen


def main() -> None:
    """Measure and print."""
    from sherd.agent import critic
    from sherd.train.agent import validate
    from sherd.train.agent_data import Group, add_places
    from sherd.train.agent_ppo import Learner
    from sherd.train.agent_recipe import AgentRecipe

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--puzzles", type=int, default=32, help="side by side")
    parser.add_argument("--steps", type=int, default=24, help="of an episode")
    parser.add_argument("--top", type=int, default=0, help="name the most frequent operations")
    parser.add_argument("--no-time", action="store_true", help="count only")
    args = parser.parse_args()
    torch.set_num_threads(1)
    as_is = critic.CPU_BOARDS
    print("grid   kernels  waits  s/iteration  kernels and waits per step of evaluation")
    for grid in GRIDS:
        groups = add_places([Group("x", puzzles_of(grid, 0.9, 4))])
        recipe = replace(AgentRecipe(), bare=0.0, steps=args.steps, puzzles=args.puzzles)
        # how many operations there are does not depend on how much each has to do
        few = replace(recipe.evolution, population=8, draws=8, parents=4, history=4)
        small = replace(recipe, puzzles=2, batch=8, evolution=few)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            learner, other = (Learner(r, groups, torch.device("cpu")) for r in (small, recipe))
        critic.CPU_BOARDS = 16384  # all at once, as on a GPU
        learner.iterate(0, 0.0)  # tables are built, states of the optimisers made
        seen = count(lambda at=learner: at.iterate(1, 0.0))
        pair = Group("x", groups[0].puzzles.pick(torch.arange(2)))
        play = count(lambda at=learner, pair=pair: validate(at, [pair], pair.puzzles))
        turns = grid[0] * grid[1] + 10
        critic.CPU_BOARDS = as_is
        start = time.process_time()
        if not args.no_time:
            other.iterate(0, 0.0)
        seconds = time.process_time() - start
        took = f"{seconds:11.1f}" if not args.no_time else "          –"
        print(f"{grid[0]}x{grid[1]:<4d} {seen.kernels.total():7d}  {seen.waits.total():5d}  {took}"
              f"  {play.kernels.total() / turns:.0f} and {play.waits.total() / turns:.1f}",
              flush=True)  # fmt: skip
        if args.top:
            print(seen.kernels.most_common(args.top), dict(seen.waits))


if __name__ == "__main__":
    main()
