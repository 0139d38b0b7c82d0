"""A system for tests of everything around systems: it sorts the pieces by brightness.

Each solve adds a line to the file that FAKE_LOG names, which also tells what worker processes did.
"""

from __future__ import annotations

import os

import numpy as np

from sherd import Evidence, Puzzle
from sherd.puzzle import EMPTY
from sherd.solvers import Found, Recorder, Solver, Stop

SYSTEMS = {"fake": "fake_system:Fake", "blind": "fake_system:Blind"}


class Fake(Solver):
    """Row-major by mean brightness, pins and blocked cells respected."""

    name = "fake"
    summary = "sorts pieces by brightness"

    def _solve(
        self, puzzle: Puzzle, stop: Stop | None, rng: np.random.Generator, record: Recorder
    ) -> Found:
        if "FAKE_LOG" in os.environ:
            threads = [os.environ.get(k) for k in ("NUMBA_NUM_THREADS", "SHERD_THREADS")]
            with open(os.environ["FAKE_LOG"], "a") as f:
                f.write(f"{puzzle.n} {threads} {puzzle.truth is None}\n")
        record.stage("search")
        board = np.full(puzzle.require_grid(), EMPTY)
        for piece, cell in puzzle.pins.items():
            board[cell] = piece
        order = np.argsort(puzzle.pieces.mean(axis=(1, 2, 3)), kind="stable")
        loose = [int(k) for k in order if k not in puzzle.pins]
        for cell in np.ndindex(*board.shape):
            if loose and board[cell] == EMPTY and cell not in puzzle.blocked:
                board[cell] = loose.pop(0)
        evidence = Evidence(np.zeros((puzzle.n, puzzle.n)), np.zeros((puzzle.n, puzzle.n)))
        record.board(board, 1.0, 0)
        return Found(board, 1.0, np.full(board.shape, 0.5), self._evidence(evidence))

    def _evidence(self, evidence: Evidence) -> Evidence | None:
        return evidence


class Blind(Fake):
    """The same without evidence."""

    name = "blind"
    summary = "sorts pieces by brightness and keeps quiet about it"

    def _evidence(self, evidence: Evidence) -> Evidence | None:
        return None


def ramp(grid: tuple[int, int], side: int, *, wrong: bool = False) -> np.ndarray:
    """A picture of flat cells, brighter in reading order, which `Fake` solves; ``wrong``: not."""
    level = np.linspace(10, 240, grid[0] * grid[1]).astype(np.uint8)
    if wrong:
        level[[0, -1]] = level[[-1, 0]]
    cells = level.reshape(grid).repeat(side, axis=0).repeat(side, axis=1)
    return np.repeat(cells[..., None], 3, axis=2)


class Small(Fake):
    """Refuses grids with a side of more than 5."""

    name = "small"

    @classmethod
    def cannot(cls, grid: tuple[int, int]) -> str | None:
        return f"{grid[0]}x{grid[1]} is too many" if max(grid) > 5 else None


class Weighty(Fake):
    """Reads weights that nobody trained."""

    name = "weighty"
    weights = ("untrained",)
