"""`evolve`: our search on evidence without a net, and what it shares with `sherd`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ..errors import SherdError
from ..perception.confidence import confidence
from ..perception.evidence import Evidence
from ..puzzle import Knowledge, Puzzle
from .base import Found, Recorder, Solver
from .stop import Stop

NEVER = -1e3
"""Evidence of a link that is forbidden, where rivals for a cell are compared."""
Sight = Callable[[Puzzle], Evidence]
"""What was seen of a puzzle's fragments: the puzzle with any grid, or none, → evidence on it."""


class Evolve(Solver):
    """Evolutionary search on classical seam evidence."""

    name: ClassVar[str] = "evolve"
    summary: ClassVar[str] = "Evolutionary search on hand-made seam evidence, without a network."
    knows: ClassVar[bool] = True

    def look(self, puzzle: Puzzle) -> Sight:
        """Look at the fragments once; what was seen is evidence on any grid."""
        from ..perception.classical import classical_evidence

        seen = classical_evidence(puzzle)
        return lambda puzzle: seen

    def perceive(self, puzzle: Puzzle) -> Evidence:
        """The evidence to search on."""
        return self.look(puzzle)(puzzle)

    def _solve(
        self, puzzle: Puzzle, stop: Stop | None, rng: np.random.Generator, record: Recorder
    ) -> Found:
        record.stage("perception")
        evidence = self.perceive(puzzle)
        return search(evidence, puzzle, stop, rng, record)


def search(
    evidence: Evidence,
    puzzle: Puzzle,
    stop: Stop | None,
    rng: np.random.Generator,
    record: Recorder,
    *,
    start: np.ndarray | None = None,
) -> Found:
    """The board of highest evidence: by pairs and borders first, then by all there is.

    ``start`` is a board to go on from. What is known of the puzzle is honoured, or an error says
    that it could not be.
    """
    from ..search.evolution import HUGE, Evolution
    from ..search.patches import Patches
    from ..search.polish import Polish
    from ..search.problem import make_problem

    record.stage("search")
    problem = make_problem(evidence, puzzle)
    watch = Watch(evidence, stop, record)
    evolution = Evolution(problem)
    first = None if start is None else problem.from_board(start)
    board, score = evolution.run(rng, watch.local, start=first)
    others = evolution.archive
    if problem.cells > HUGE and not watch.stopped:
        flat, score = Patches(problem).run(others[0], rng, watch.local, first=watch.rounds)
        board, others = problem.to_board(flat), np.concatenate([flat[None], others])
    if not evidence.complete:
        if not watch.stopped:
            record.stage("polish")
            polish = Polish(problem, evidence)
            polish.run(others, rng, watch.full, first=watch.rounds)
            others = np.concatenate([polish.archive, others])
        board, score = watch.board, watch.score
    if broken := puzzle.knowledge.broken(board, puzzle.n):
        raise SherdError(
            f"knowledge: no board was found that honours all of it ({len(broken)} things broken); "
            "take something back"
        )
    sure = sureness(evidence, puzzle, board)
    met = np.stack([problem.to_board(flat) for flat in others])
    return Found(board, score, sure, evidence, met)


def sureness(evidence: Evidence, puzzle: Puzzle, board: np.ndarray) -> np.ndarray:
    """``(M, N)`` calibrated confidence, by what is known of ``puzzle`` too."""
    return confidence(_ruled(evidence, puzzle.knowledge), board)


def _ruled(evidence: Evidence, knowledge: Knowledge) -> Evidence:
    """The evidence with forbidden links ruled out, so that nobody has them for rivals."""
    if not knowledge:
        return evidence
    h, v = evidence.h.copy(), evidence.v.copy()
    for links, sure, never in (
        (h, knowledge.right, knowledge.not_right),
        (v, knowledge.below, knowledge.not_below),
    ):
        for a, b in never:
            links[a, b] = NEVER
        for a, b in sure:
            good = links[a, b]
            links[a, :] = links[:, b] = NEVER
            links[a, b] = good
    return replace(evidence, h=h, v=v)


class Watch:
    """Hears of every round, reports in the full objective, and keeps the best board by it."""

    def __init__(self, evidence: Evidence, stop: Stop | None, record: Recorder) -> None:
        self._evidence, self._stop, self._record = evidence, stop, record
        self._local = float("-inf")
        self.board = np.empty(0)
        self.score = float("-inf")
        self.rounds = 0
        self.stopped = False

    def local(self, board: np.ndarray, score: float, number: int) -> bool:
        """A round of a search on pair and border evidence."""
        if self._evidence.complete:
            return self.full(board, score, number)
        if score <= self._local:
            return self.full(self.board, self.score, number)
        self._local = score
        return self.full(board, self._evidence.full_score(board), number)

    def full(self, board: np.ndarray, score: float, number: int) -> bool:
        """A round of a search on all evidence."""
        if score > self.score:
            self.board, self.score = board, score
        self._record.board(self.board, self.score, number)
        self._record.round(number, self.score)
        self.rounds = number + 1
        self.stopped = self._stop is not None and self._stop(self.score)
        return self.stopped
