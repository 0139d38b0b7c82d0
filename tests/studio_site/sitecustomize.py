"""Python reads this first in every process of a studio under test.

Searches there show three boards of no worth before their first real one, and then wait as long as
the file ``STUDIO_HOLD`` exists: a test has all the time it needs to look at a search in progress.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from sherd.solvers.base import Recorder

real = Recorder.board


def board(self: Recorder, board: np.ndarray, score: float, round: int) -> None:
    if not self.history:
        for k in range(3):
            mixed = np.random.default_rng(k).permutation(board.ravel()).reshape(board.shape)
            real(self, mixed, -1e9 + k, 0)
        while Path(os.environ["STUDIO_HOLD"]).exists():
            time.sleep(0.02)
    real(self, board, score, round)


Recorder.board = board  # type: ignore[method-assign]
