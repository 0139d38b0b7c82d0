"""The evaluator on a CPU, for the boards of one puzzle: what it has seen it need not look at again.

The offspring of an evolution are much alike, and alike from step to step. What the evaluator's
first layers say of a cell depends on the 3×3 pieces around it alone, so it is kept by these; only
neighbourhoods that are new go through the network. Says what `critic.evaluate` says, but for
rounding.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .critic import Critic, right_weights
from .layout import Layout
from .recall_kernels import SUMS, find, weigh
from .rules import PENALTY, Puzzles, best_reward
from .state import CELL, GLOBAL, LARGEST, NATS

KEPT = 1 << 15
"""Neighbourhoods that are kept, at least; when there is no room, all are forgotten."""

UNITS = (np.float32(NATS), np.float32(LARGEST))
"""What the kernels divide evidence by, and where it ends."""


class Recall:
    """Judges boards of one puzzle; the puzzle and the evaluator must not change."""

    def __init__(
        self, critic: Critic, puzzle: Puzzles, *, value: float, evidence: float, kept: int = KEPT
    ) -> None:
        """``value`` and ``evidence`` as in `critic.evaluate`; ``kept`` neighbourhoods."""
        self._critic, self._value, self._evidence = critic, value, evidence
        layout, tables = puzzle.layout, puzzle.tables
        cells, width = layout.cells, critic.own.in_features
        kept = max(kept, cells)
        rng = np.random.default_rng(0)
        self._layout = layout
        self._placed = float(puzzle.place is not None)
        self._nine = _nine(layout)
        self._code = rng.integers(1 << 64, size=(9, cells + 1), dtype=np.uint64)
        self._cell_code = rng.integers(1 << 64, size=cells, dtype=np.uint64)
        self._look, self._static = tables.look[0].numpy(), tables.static[0].numpy()
        self._inner, self._near = layout.inner.numpy(), layout.near.numpy()
        self._slots = np.zeros(1 << (2 * kept - 1).bit_length(), np.int32)
        self._keys = np.empty(kept, np.uint64)
        self._sums = np.empty((kept, SUMS), np.float32)
        self._tokens = np.empty((kept, CELL), np.float32)
        self._layers = torch.empty(3, kept, width)  # of a cell; its own share, that of neighbours
        self._known = 0
        self._weight = right_weights(layout).numpy()
        self._about = critic.about.weight.detach().T.contiguous().numpy()
        self._right = critic.right.weight.detach().numpy(), critic.right.bias.detach().numpy()

    @torch.no_grad()
    def __call__(self, boards: Tensor) -> Tensor:
        """``(B,)``: what boards ``(B, C)`` are worth."""
        room = len(self._keys) // boards.shape[1]
        parts = [self._judge(part) for part in boards.split(room)]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _judge(self, boards: Tensor) -> Tensor:
        critic, layout, b = self._critic, self._layout, len(boards)
        ids = self._look_at(boards)
        width = self._layers.shape[2]
        mean, last = torch.empty(b, width), torch.empty(b, width)
        total, share = torch.empty(b, SUMS), torch.empty(b)
        x, own, near = self._layers.numpy()
        weigh(
            ids, x, own, near, self._sums, self._near, self._about, *self._right, self._weight,
            mean.numpy(), last.numpy(), total.numpy(), share.numpy(),
        )  # fmt: skip
        glob = torch.zeros(b, GLOBAL)
        glob[:, 0] = total[:, 0] / (2 * max(1, layout.links))
        glob[:, 1] = total[:, 1] / (2 * (layout.rows + layout.cols))
        glob[:, 2] = total[:, 2] / layout.cells
        glob[:, 3] = self._placed
        glob[:, 6] = math.log(layout.cells) / 5.0
        glob[:, 7] = total[:, 3]
        glob.clamp_(-LARGEST, LARGEST)
        right = (share + PENALTY) / max(1.0, best_reward(layout))
        worth = right + self._value * critic.conclude(mean, last, glob)
        return torch.addmv(worth, glob, critic.evidence, alpha=self._evidence)

    def _look_at(self, boards: Tensor) -> np.ndarray:
        """``(B, C)``: numbers of the neighbourhoods; new ones go through the first layers."""
        critic = self._critic
        if self._known + boards.numel() > len(self._keys):
            self._slots[:] = 0
            self._known = 0
        ids = np.empty(boards.shape, np.int32)
        known = find(
            boards.numpy(), self._nine, self._code, self._cell_code, self._slots, self._keys,
            self._known, self._look, self._inner, self._static, UNITS, ids, self._tokens,
            self._sums,
        )  # fmt: skip
        x, own, near = self._layers[:, self._known : known]
        x.copy_(F.relu(critic.cell(torch.from_numpy(self._tokens[: len(x)]))))
        own.copy_(critic.own(x))
        torch.mm(x, critic.near.weight.T, out=near).mul_(0.25)
        self._known = known
        return ids


def _nine(layout: Layout) -> np.ndarray:
    """``(C, 9)``: cells around each cell, row by row, itself in the middle; C = none."""
    rows, cols, none = layout.rows, layout.cols, layout.cells
    out = np.full((none, 9), none)
    cell = np.arange(none)
    out[:, 4] = cell
    grid = np.full((rows + 2, cols + 2), none)
    grid[1:-1, 1:-1] = cell[: rows * cols].reshape(rows, cols)
    for k in range(9):
        r, c = divmod(k, 3)
        out[: rows * cols, k] = grid[r : r + rows, c : c + cols].ravel()
    return out
