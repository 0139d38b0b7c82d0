"""`evolve`: our search on evidence without a net."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..perception.confidence import confidence
from ..perception.evidence import Evidence
from ..puzzle import Puzzle
from .base import Found, Recorder, Solver
from .stop import Stop


class Evolve(Solver):
    """Evolutionary search on classical seam evidence."""

    name: ClassVar[str] = "evolve"
    summary: ClassVar[str] = "Evolutionary search on hand-made seam evidence, without a network."

    def perceive(self, puzzle: Puzzle) -> Evidence:
        """The evidence to search on."""
        from ..perception.classical import classical_evidence

        return classical_evidence(puzzle)

    def _solve(
        self, puzzle: Puzzle, stop: Stop | None, rng: np.random.Generator, record: Recorder
    ) -> Found:
        from ..search.evolution import Evolution
        from ..search.problem import make_problem

        record.stage("perception")
        evidence = self.perceive(puzzle)
        record.stage("search")

        def progress(board: np.ndarray, score: float, number: int) -> bool:
            record.board(board, score, number)
            record.round(number, score)
            return stop is not None and stop(score)

        board, score = Evolution(make_problem(evidence, puzzle)).run(rng, progress)
        return Found(board, score, confidence(evidence, board), evidence)
