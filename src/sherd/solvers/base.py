"""The contract of a solver, and its result."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..errors import SherdError
from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle, check_board
from .callbacks import Callbacks
from .stop import Stop


@dataclass(frozen=True)
class Snapshot:
    """One improvement of the best board."""

    seconds: float
    """Since the start of solving."""
    round: int
    score: float
    board: np.ndarray


@dataclass(frozen=True)
class Result:
    """What a solver returns."""

    board: np.ndarray
    """``(M, N)`` piece indices, -1 = empty."""
    score: float
    """The solver's own objective for ``board``, higher is better."""
    confidence: np.ndarray
    """``(M, N)`` estimated probability that the piece of a cell lies beside its true neighbours."""
    evidence: Evidence | None
    """What the board was built on; its ``full_score`` is the objective that was maximised."""
    system: str
    seed: int
    history: list[Snapshot] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds per stage, and ``total``."""

    @property
    def unplaced(self) -> list[int]:
        """Pieces that found no cell."""
        n = self.evidence.n if self.evidence is not None else int(self.board.max()) + 1
        return sorted(set(range(n)) - set(self.board[self.board != EMPTY].tolist()))


class Recorder:
    """Collects history and stage timings of one run, and hands boards out in the caller's order."""

    def __init__(self, callbacks: Callbacks, order: np.ndarray) -> None:
        self._callbacks = callbacks
        self._old = np.append(order, EMPTY)
        self._start = time.perf_counter()
        self._stage: tuple[str, float] | None = None
        self._best = float("-inf")
        self.history: list[Snapshot] = []
        self.timings: dict[str, float] = {}

    def stage(self, name: str) -> None:
        """Begin a stage; the one before it ends."""
        self._close()
        self._stage = (name, time.perf_counter())
        self._callbacks.on_stage(name)

    def board(self, board: np.ndarray, score: float, round: int) -> None:
        """Report the best board so far; kept only if it is better than the last."""
        if score <= self._best:
            return
        self._best = score
        outside = self._old[board]
        self.history.append(Snapshot(time.perf_counter() - self._start, round, score, outside))
        self._callbacks.on_board(outside.copy(), score, round)

    def round(self, number: int, best: float) -> None:
        """Report that one round is over."""
        self._callbacks.on_round(number, best)

    def _close(self) -> None:
        if self._stage is not None:
            name, since = self._stage
            self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - since

    def finish(self) -> None:
        """End the last stage."""
        self._close()
        self._stage = None
        self.timings["total"] = time.perf_counter() - self._start


class Solver:
    """Base of every system. Subclasses implement `_solve` and may keep parameters.

    `solve` hides the truth and shuffles the pieces with the seed before the system sees them, so
    that ties cannot fall the right way because of the order in which pieces came.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for ``sherd systems``."""
    reference: ClassVar[str] = ""
    """The paper that describes the system."""
    knows: ClassVar[bool] = False
    """Whether it honours `Puzzle.knowledge`; pins and blocked cells every system does."""
    weights: ClassVar[tuple[str, ...]] = ()
    """Names of the files below ``sherd/weights`` that it reads, without suffix. What a benchmark
    knows of a system's results ends where these change."""

    @classmethod
    def cannot(cls, grid: tuple[int, int]) -> str | None:
        """Why the system cannot solve puzzles of this grid at all, or None if it can.

        A table asks before it runs the system, and says so instead of a figure.
        """
        return None

    def solve(
        self,
        puzzle: Puzzle,
        *,
        stop: Stop | None = None,
        seed: int = 0,
        callbacks: Callbacks | None = None,
    ) -> Result:
        """Solve ``puzzle``. Deterministic for a seed unless ``stop`` looks at the clock."""
        grid = puzzle.require_grid()
        why = self.cannot(grid)
        if why is not None:
            raise SherdError(f"{self.name}: {why}")
        free = grid[0] * grid[1] - len(puzzle.blocked)
        if free < len(puzzle.pins):
            raise SherdError(f"pins: {len(puzzle.pins)} pins for {free} free cells")
        if puzzle.knowledge:
            if not self.knows:
                raise SherdError(
                    f"system: {self.name} knows of pins and blocked cells only; for what else is "
                    "known use sherd or evolve"
                )
            from ..search.bounds import bind

            bind(puzzle)  # contradictions, in the caller's names
        callbacks = callbacks or Callbacks()
        callbacks.on_start(self.name, puzzle.n)
        order = np.random.default_rng([seed, 1]).permutation(puzzle.n)
        record = Recorder(callbacks, order)
        hidden = puzzle.without_truth().reordered(order)
        found = self._solve(hidden, stop, np.random.default_rng([seed, 2]), record)
        record.finish()
        board = np.append(order, EMPTY)[found.board]
        check_board(board, puzzle.n)
        back = np.argsort(order)
        result = Result(
            board=board,
            score=found.score,
            confidence=found.confidence,
            evidence=None if found.evidence is None else found.evidence.reordered(back),
            system=self.name,
            seed=seed,
            history=record.history,
            timings=record.timings,
        )
        callbacks.on_end(board.copy(), result.score)
        return result

    def _solve(
        self, puzzle: Puzzle, stop: Stop | None, rng: np.random.Generator, record: Recorder
    ) -> Found:
        raise NotImplementedError  # abstract


@dataclass(frozen=True)
class Found:
    """What a system hands back to `Solver.solve`, in the shuffled order it was given."""

    board: np.ndarray
    score: float
    confidence: np.ndarray
    evidence: Evidence | None
    others: np.ndarray | None = None
    """``(k, M, N)`` further good boards that were met, best first."""
