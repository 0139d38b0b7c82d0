"""The agent's step as a CUDA graph: on a GPU, one launch instead of a thousand.

A step has fixed shapes and never waits for the device, so it can be recorded once per kind of
puzzle and replayed. Networks that learn in place are read as they are at each replay.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .play import Agent, Step
from .rules import Puzzles

WARM_UP = 3
"""Steps before a graph is recorded: tables are built, libraries choose their kernels."""


class GraphedStep:
    """`Agent.step` for boards of one `Puzzles`, recorded; call it as that, from the second step of
    an episode on (the first has no history)."""

    def __init__(
        self, agent: Agent, puzzles: Puzzles, count: int, generator: torch.Generator, pool: Any
    ) -> None:
        """``count`` boards; ``generator`` is the one of every later call; graphs that share a
        ``pool`` (`torch.cuda.graph_pool_handle`) must not be replayed at the same time."""
        device, p = puzzles.device, agent.evolution.params
        cells = puzzles.layout.cells
        self._boards = torch.arange(cells, device=device).repeat(count, 1)
        self._which = torch.zeros(count, dtype=torch.long, device=device)
        self._history = torch.full((count, p.history, p.length, 4), -1, device=device)
        self._prior = torch.zeros(3, device=device)
        state = generator.get_state()

        def step() -> Step:
            return agent.step(
                puzzles, self._boards, self._which, self._history, generator, self._prior
            )

        beside = torch.cuda.Stream(device)
        beside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(beside):
            for _ in range(WARM_UP):
                step()
        torch.cuda.current_stream(device).wait_stream(beside)
        self._graph = torch.cuda.CUDAGraph()
        self._graph.register_generator_state(generator)
        with torch.cuda.graph(self._graph, pool=pool):
            self._out = step()
        generator.set_state(state)  # what was drawn to record it was not drawn

    def __call__(self, boards: Tensor, which: Tensor, history: Tensor, prior: Tensor) -> Step:
        """One step, as `Agent.step`."""
        self._boards.copy_(boards)
        self._which.copy_(which)
        self._history.copy_(history)
        self._prior.copy_(prior)
        self._graph.replay()
        out = self._out  # the next replay writes over it
        return Step(out.action.clone(), out.boards.clone(), out.value.clone(), out.history.clone())
