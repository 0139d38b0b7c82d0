"""Going on from a board that a person has seen: near it first, then everywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..perception.evidence import Evidence
from ..puzzle import Puzzle
from .base import Found, Recorder
from .evolve import search, sureness
from .stop import Stop

SOME, MORE = 0.5, 2.0
"""Nats more for each link of the board that was seen, in the second and third search."""


def go_on(
    evidence: Evidence,
    puzzle: Puzzle,
    stop: Stop | None,
    rng: np.random.Generator,
    record: Recorder,
    seen: np.ndarray,
) -> Found:
    """The board to show to who has seen ``seen`` and knows what ``puzzle`` says.

    Near ``seen`` are boards for every reading of what was answered, farther from it those that
    searches find: on all evidence, on evidence that trusts rims less, and on such as would rather
    keep what there is. `sherd.search.stay` chooses among them. What is known is
    honoured, or an error says that it could not be.
    """
    from ..search.nearby import readings, settle
    from ..search.problem import make_problem
    from ..search.stay import choose, fond_of, softened

    record.stage("search")
    problem = make_problem(evidence, puzzle)
    soft = softened(evidence)
    near = [settle(soft, puzzle, held, rng) for held in readings(evidence, problem, seen)]
    boards = [board for board in near if board is not None]
    quiet = _Rounds(record, stop)
    plain = search(evidence, puzzle, quiet.asked, rng, quiet, start=seen)
    boards.append(plain.board)
    quiet.best = plain.score
    for other in (fond_of(soft, seen, SOME), fond_of(evidence, seen, MORE)):
        if not quiet.stopped:
            found = search(other, puzzle, quiet.still_asked, rng, quiet, start=seen)
            boards.append(found.board)
    boards = list({b.tobytes(): b for b in boards}.values())
    board = boards.pop(choose(evidence, seen, boards))
    score = evidence.full_score(board)
    record.board(board, score, quiet.number)
    met = np.stack([*boards, *(() if plain.others is None else plain.others)])
    return replace(
        plain, board=board, score=score, confidence=sureness(evidence, puzzle, board), others=met
    )


class _Rounds(Recorder):
    """Passes rounds on, and keeps boards to itself: the best of a search need not be shown."""

    def __init__(self, heard: Recorder, stop: Stop | None) -> None:
        self._heard, self._stop = heard, stop
        self.number = 0
        self.best = float("-inf")
        self.stopped = False

    def stage(self, name: str) -> None:
        """Nothing new begins."""

    def board(self, board: np.ndarray, score: float, round: int) -> None:
        """Not shown."""

    def round(self, number: int, best: float) -> None:
        """One more, of whichever search."""
        self._heard.round(self.number, max(best, self.best))
        self.number += 1

    def asked(self, best: float) -> bool:
        """Whether the caller wants no more."""
        self.stopped = self._stop is not None and self._stop(best)
        return self.stopped

    def still_asked(self, best: float) -> bool:
        """The same, by the best score so far: this search counts some links for more."""
        return self.asked(self.best)
