"""``sherd/Swap-v0``: the same game behind Gymnasium's interface, one puzzle at a time."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from ..errors import SherdError
from ..perception.evidence import Evidence
from ..perception.synthetic import synthetic_evidence
from ..puzzle import check_board, identity_board
from .batch import BatchEnv
from .rules import NONE, SWAP_3, Puzzles, count_right, from_tensors, masks, shuffle
from .state import CELL, LARGEST, observe

ID = "sherd/Swap-v0"


class SwapEnv(gymnasium.Env[dict[str, np.ndarray], np.ndarray]):
    """Put a puzzle together by swapping pieces.

    Action space
        ``MultiDiscrete([3, C, C, C])``: type (Swap-2, Swap-3, Swap-puzzlet), then cells by rows.
        Swap-2 and Swap-puzzlet (top left cells of two 2×2 blocks) do not look at the last one. An
        action that is not legal (a cell twice, blocks that overlap or stick out) does nothing.
        ``info["first"]`` ``(3, C)`` says which types and first cells can be legal.
    Observation space
        ``board`` ``(M, N)``: the piece of every cell; ``cells`` ``(C, 24)``: what `state.observe`
        says of each.
    Starting state
        A random board; ``options={"board": …}`` of `reset` sets another.
    Reward
        0.8 · pieces in place + 0.2 · true neighbour pairs + 1000 if perfect − 1 (eq. reward).
    End
        Terminated when the board is perfect, truncated after ``max_steps``.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012  (Gymnasium's own form)

    def __init__(
        self,
        evidence: Evidence | None = None,
        truth: np.ndarray | None = None,
        *,
        grid: tuple[int, int] = (3, 3),
        max_steps: int = 200,
        render_mode: str | None = None,
    ) -> None:
        if max_steps < 1:
            raise SherdError(f"max_steps: {max_steps}; expected at least 1")
        if evidence is None:
            evidence = synthetic_evidence(grid, 0.9, np.random.default_rng(0))
            truth = identity_board(grid)
        elif truth is None:
            raise SherdError("environment: evidence without truth; rewards need the true board")
        truth = check_board(truth, evidence.n, what="truth")
        if truth.size != evidence.n or (truth < 0).any():
            raise SherdError(f"truth: {truth.size} cells, {evidence.n} pieces; give a full board")
        self.grid = (int(truth.shape[0]), int(truth.shape[1]))
        border = None if evidence.border is None else torch.from_numpy(evidence.border)[None]
        self._puzzles: Puzzles = from_tensors(
            torch.from_numpy(evidence.h)[None], torch.from_numpy(evidence.v)[None], border,
            self.grid, truth=torch.from_numpy(truth.reshape(1, -1).copy()),
        )  # fmt: skip
        self._env = BatchEnv(self._puzzles, torch.zeros(1, dtype=torch.long))
        self._first = masks(self._puzzles).first[0].numpy().astype(np.int8)
        self.max_steps, self._steps = max_steps, 0
        self.render_mode = render_mode
        cells = truth.size
        self.action_space = spaces.MultiDiscrete([3, cells, cells, cells])
        self.observation_space = spaces.Dict(  # type: ignore[assignment]
            {
                "board": spaces.Box(0, cells - 1, self.grid, np.int64),
                "cells": spaces.Box(-LARGEST, LARGEST, (cells, CELL), np.float32),
            }
        )

    def _look(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        boards = self._env.boards
        state = observe(self._puzzles, boards, self._env.which)
        counts = count_right(self._puzzles, boards, self._env.which)
        board = boards[0].numpy().reshape(self.grid).copy()
        info = {
            "in_place": int(counts.in_place),
            "pairs": int(counts.pairs),
            "first": self._first.copy(),
        }
        return {"board": board, "cells": state.cells[0].numpy().astype(np.float32)}, info

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin a new episode."""
        super().reset(seed=seed)
        self._steps = 0
        if options and "board" in options:
            board = check_board(np.asarray(options["board"]), self._first.shape[1])
            if board.shape != self.grid or (board < 0).any():
                raise SherdError(f"board: expected a full board of {self.grid[0]}x{self.grid[1]}")
            start = torch.from_numpy(board.reshape(1, -1).copy())
        else:
            generator = torch.Generator().manual_seed(int(self.np_random.integers(2**62)))
            whole = torch.arange(self._first.shape[1])[None]
            start = shuffle(whole, torch.ones_like(whole, dtype=torch.bool), generator)
        self._env.reset(start)
        return self._look()

    def step(
        self, action: np.ndarray
    ) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Do one action."""
        whole = torch.from_numpy(np.asarray(action, dtype=np.int64).reshape(1, 4).copy())
        if int(whole[0, 0]) != SWAP_3:
            whole[0, 3] = NONE
        outcome = self._env.step(whole)
        self._steps += 1
        seen, info = self._look()
        info["legal"] = bool(outcome.legal)
        done = bool(outcome.done)
        return seen, float(outcome.reward), done, self._steps >= self.max_steps and not done, info

    def render(self) -> str | None:
        """The board as text, if that was asked for."""
        if self.render_mode != "ansi":
            return None
        board = self._env.boards[0].numpy().reshape(self.grid)
        return "\n".join(" ".join(f"{p:3d}" for p in row) for row in board)


if ID not in gymnasium.registry:
    gymnasium.register(id=ID, entry_point="sherd.agent.env:SwapEnv")
