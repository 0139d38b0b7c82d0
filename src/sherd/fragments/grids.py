"""Which grid? All that are possible are tried, and the evidence decides.

The score of a board is a log-likelihood ratio against chance: 0 for an empty cell, positive for
every link that is more likely than chance. A wrong grid tears true links apart and forces false
ones, so it scores lower; one that is too large can hold the true board but gains nothing by it.
Three things make the comparison fair:

- Border evidence is held against one chance for all grids (`Observation.on` with None). Against
  the share of rim pieces of each grid, the constant that the sum leaves out would differ.
- A grid with empty cells has more boards to choose from, and the best of many scores higher by
  chance alone. With a uniform prior over the boards of each grid, log(C! / ((C−k)! k!)) nats are
  taken off for k pieces on C cells.
- A piece without a cell is a claim that it belongs elsewhere, which is seldom so: `STRANGER` nats.
  So is a piece in a cell for which nothing speaks: of pieces that lie right one in 150 has links
  that sum to less than `SPOKEN`, of strangers nearly all. It counts as if it had no cell; else a
  stranger would speak against the one grid that has no room to put it out of the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..errors import SherdError
from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle
from ..search.evolution import Evolution, EvolutionParams
from ..search.polish import Polish
from ..search.problem import Problem, make_problem
from .result import GridTrial
from .strangers import lift_strangers

STRANGER = 4.0
"""Nats that a piece costs that has no cell, or one that nothing speaks for."""
SPOKEN = 2.0
"""Nats of pair evidence with which a piece is spoken for."""
SECOND = 5
"""Grids that get a second, longer look."""
SHORT = EvolutionParams(islands=1, population=8, patience=120)
"""The longer look."""
CLOSE = 15.0
"""Nats behind the leader with which a grid is looked at with 2×2 evidence as well."""


def handicap(pieces: int, cells: int, out: int) -> float:
    """Nats to take off the score of a board of ``pieces`` on ``cells`` that leaves ``out`` out."""
    boards = math.lgamma(cells + 1) - math.lgamma(cells - pieces + 1) - math.lgamma(pieces + 1)
    return boards + STRANGER * out


def fair_score(evidence: Evidence, board: np.ndarray) -> float:
    """All evidence of ``board``, such that boards of different grids compare."""
    kept, _ = lift_strangers(evidence, board, frozenset(), low=SPOKEN)
    placed = int((kept != EMPTY).sum())
    return evidence.full_score(kept) - handicap(placed, board.size, evidence.n - placed)


@dataclass(frozen=True)
class _Look:
    """A grid, its problem, and the boards that a search on it ended with, best first."""

    problem: Problem
    boards: np.ndarray
    score: float
    """See `fair_score`."""

    @property
    def grid(self) -> tuple[int, int]:
        return self.problem.world.rows, self.problem.world.cols


def rank_grids(
    evidence: Evidence,
    puzzle: Puzzle,
    grids: list[tuple[int, int]],
    rng: np.random.Generator,
    heard: Callable[[tuple[int, int], float], bool],
) -> tuple[list[GridTrial], np.ndarray]:
    """The grids, best first, and the best board.

    ``evidence`` is the same for all grids. ``heard`` is told each grid that was tried with the best
    score so far, and may say stop. Grids on which what is known cannot be honoured are left out.
    """
    n = puzzle.n
    few = 3 if n <= 100 else 2 if n <= 300 else 1
    quick = EvolutionParams(islands=1, population=max(2, few), patience=1)
    looks: dict[tuple[int, int], _Look] = {}
    best, stopped, why = -math.inf, False, ""
    for grid in _likely_first(grids, n):
        try:
            placed = replace(puzzle, grid=grid)
            problem = make_problem(evidence, placed)
        except SherdError as e:
            why = str(e)
            continue
        looks[grid] = _look(problem, evidence, quick, rng)
        best = max(best, looks[grid].score)
        stopped = heard(grid, best)
        if stopped:
            break
    if not looks:
        raise SherdError(why or f"grid: none is possible for {n} pieces")
    for look in _leaders(looks)[:SECOND]:
        if stopped:
            break
        looks[look.grid] = _look(look.problem, evidence, SHORT, rng, look.boards[0])
        best = max(best, looks[look.grid].score)
        stopped = heard(look.grid, best)
    leaders = _leaders(looks)
    close = [look for look in leaders[:SECOND] if look.score > leaders[0].score - CLOSE]
    if len(close) > 1 and not evidence.complete and not stopped:
        full = [_polished(look, evidence, rng) for look in close]
        gained = full[0].score - close[0].score  # the others are given as much: they stay behind
        rest = [replace(look, score=look.score + gained) for look in leaders[len(close) :]]
        leaders = [*sorted(full, key=lambda look: -look.score), *rest]
    trials = [
        GridTrial(x.grid, x.score, max(0, x.problem.cells - n), max(0, n - x.problem.cells))
        for x in leaders
    ]
    return trials, leaders[0].problem.to_board(leaders[0].boards[0])


def _likely_first(grids: list[tuple[int, int]], n: int) -> list[tuple[int, int]]:
    """Exact grids before others, square ones before strips: a search may be stopped early."""
    return sorted(grids, key=lambda g: (abs(g[0] * g[1] - n), abs(g[0] - g[1]), g))


def _leaders(looks: dict[tuple[int, int], _Look]) -> list[_Look]:
    return sorted(looks.values(), key=lambda look: -look.score)


def _look(
    problem: Problem,
    evidence: Evidence,
    params: EvolutionParams,
    rng: np.random.Generator,
    start: np.ndarray | None = None,
) -> _Look:
    search = Evolution(problem, params)
    board, _ = search.run(rng, lambda *_: False, start=start)
    local = replace(evidence, puzzlet_weight=0.0)  # what was searched
    return _Look(problem, search.archive, fair_score(local, board))


def _polished(look: _Look, evidence: Evidence, rng: np.random.Generator) -> _Look:
    """The same by all evidence."""
    board, _ = Polish(look.problem, evidence).run(look.boards, rng, lambda *_: False)
    flat = look.problem.from_board(board)[None]
    return _Look(look.problem, flat, fair_score(evidence, board))
