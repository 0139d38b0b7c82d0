"""How progress, statistics and plots attach to a search: override what you need."""

from __future__ import annotations

import numpy as np


class Callbacks:
    """No-op methods. Boards are copies in the caller's piece order; keep them if you like."""

    def on_start(self, system: str, pieces: int) -> None:
        """The solver has begun."""

    def on_stage(self, stage: str) -> None:
        """The solver enters a stage, such as "perception" or "search"."""

    def on_note(self, note: str) -> None:
        """Something that the user should know, in one line."""

    def on_board(self, board: np.ndarray, score: float, round: int) -> None:
        """A better board was found."""

    def on_round(self, round: int, best: float) -> None:
        """One round (generation, restart, sweep) is over."""

    def on_end(self, board: np.ndarray, score: float) -> None:
        """The solver is done."""


class Many(Callbacks):
    """Several callbacks as one."""

    def __init__(self, *callbacks: Callbacks) -> None:
        self.callbacks = callbacks

    def on_start(self, system: str, pieces: int) -> None:
        for c in self.callbacks:
            c.on_start(system, pieces)

    def on_stage(self, stage: str) -> None:
        for c in self.callbacks:
            c.on_stage(stage)

    def on_note(self, note: str) -> None:
        for c in self.callbacks:
            c.on_note(note)

    def on_board(self, board: np.ndarray, score: float, round: int) -> None:
        for c in self.callbacks:
            c.on_board(board, score, round)

    def on_round(self, round: int, best: float) -> None:
        for c in self.callbacks:
            c.on_round(round, best)

    def on_end(self, board: np.ndarray, score: float) -> None:
        for c in self.callbacks:
            c.on_end(board, score)
