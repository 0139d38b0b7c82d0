"""A system that shows some boards first, and waits as long as a file says so."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sherd.puzzle import EMPTY, Puzzle
from sherd.solvers import Found, Recorder
from sherd.solvers.evolve import Evolve


class Patient(Evolve):
    """`evolve`, after a few boards of no worth. It holds while the file ``STUDIO_HOLD`` exists."""

    name: ClassVar[str] = "patient"
    summary: ClassVar[str] = "For tests of the studio."

    def _solve(
        self, puzzle: Puzzle, stop: Any, rng: np.random.Generator, record: Recorder, **more: Any
    ) -> Found:
        rows, cols = puzzle.require_grid()
        record.stage("search")
        for k in range(5):
            board = np.full(rows * cols, EMPTY)
            board[: puzzle.n] = np.random.default_rng(k).permutation(puzzle.n)[: rows * cols]
            record.board(board.reshape(rows, cols), -1e9 + k, k)
            time.sleep(0.02)
        hold = Path(os.environ["STUDIO_HOLD"])
        while hold.exists():
            record.round(5, 0.0)
            time.sleep(0.02)
        return super()._solve(puzzle, stop, rng, record, **more)
