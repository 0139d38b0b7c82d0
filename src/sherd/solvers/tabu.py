"""Discrete tabu search on the association graph: Adamczewski, Suh & Lee (2015)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import SherdError
from ..perception.dissimilarity import lab, paikin_tal
from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle
from .base import Found, Recorder, Solver
from .classical import by_side, confidence, constraints, fill
from .stop import Stop
from .tabu_kernels import tabu_search

SHORTEST = 30
"""Moves without a better solution that are always allowed: enough to walk out of a conflict."""


@dataclass(frozen=True)
class TabuParams:
    """Chosen on held-out photographs, 7×10 pieces with 2 and 4 px missing."""

    starts: int = 1000
    """Starts of the search; its memory of the earlier ones says where the next begins."""
    patience: float = 0.5
    """Moves without a better solution that end a start, per piece; at least `SHORTEST`."""
    tenure: int = 7
    """A flipped vertex stays tabu for ``tenure`` to ``2·tenure − 1`` moves."""
    penalty: float = 0.5
    """Minus the weight between two vertices of one cell or of one piece (a pair is worth ≤ 1).
    It doubles while the search lingers in conflict, and falls back when it does not."""
    history: float = 1.0
    """What a move that gains nothing pays for a vertex that all earlier starts have ended with."""
    sharpness: float = 2.0
    """Affinity = exp(−sharpness · D / second best D of that side)."""

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise SherdError(f"starts: {self.starts}; must be at least 1")
        if self.tenure < 1:
            raise SherdError(f"tenure: {self.tenure}; must be at least 1")
        for name in ("patience", "penalty", "sharpness"):
            if not getattr(self, name) > 0:
                raise SherdError(f"{name}: {getattr(self, name)}; must be more than 0")
        if self.history < 0:
            raise SherdError(f"history: {self.history}; must be at least 0")


class Tabu(Solver):
    """Puzzle as graph matching, solved as a weighted clique problem with tabu search.

    From the paper: matching two graphs is finding the heaviest clique of their association graph,
    whose vertices are single assignments. Assignments that exclude each other get a negative
    weight, so that the one-to-one constraint is encouraged and not enforced, and the search walks
    through solutions that break it. A move adds or drops a vertex; the best move is made even if
    it loses, vertices just moved are tabu unless they lead to a new best (aspiration), and the
    history of the search guides its further course.

    For a puzzle the two graphs are the pieces and the cells of the grid: vertex (p, c) = piece p in
    cell c; two vertices of adjacent cells weigh the affinity of their pieces. Chosen, since the
    paper is silent on puzzles and its constants are not known here: the affinity
    ``exp(−sharpness · D / second best D)``, both directions averaged, with Paikin & Tal's
    dissimilarity D; tenure, penalty and length as in `TabuParams`; history = how often a vertex
    was part of a start's best board: it makes moves that gain nothing dearer, and every start
    begins with a random piece in a cell where it has lain least. Pinned vertices are never dropped,
    blocked cells have no vertices.
    """

    name = "tabu"
    summary = "Tabu search for the heaviest clique of piece–cell assignments."
    reference = "Adamczewski, Suh & Lee: Discrete tabu search for graph matching. ICCV 2015"

    def __init__(self, params: TabuParams | None = None) -> None:
        self.params = params or TabuParams()

    def _solve(
        self, puzzle: Puzzle, stop: Stop | None, rng: np.random.Generator, record: Recorder
    ) -> Found:
        p = self.params
        grid = puzzle.require_grid()
        record.stage("perception")
        evidence = affinity(paikin_tal(lab(puzzle.pieces)), p.sharpness)

        record.stage("search")
        n, cells = puzzle.n, grid[0] * grid[1]
        free, pins = constraints(puzzle)
        shut = ~free.ravel() | (pins != EMPTY)
        weight, near = by_side(evidence.h, evidence.v), neighbours(free)
        loose_pieces = np.setdiff1d(np.arange(n), pins)
        loose_cells = np.flatnonzero(~shut)
        gain = np.empty((cells, n), dtype=np.float32)
        chosen = np.empty((cells, n), dtype=np.bool_)
        until = np.empty((cells, n), dtype=np.int32)
        often = np.zeros((cells, n), dtype=np.float32)
        state = rng.integers(0, 2**64, size=1, dtype=np.uint64)
        patience = max(SHORTEST, round(p.patience * n))
        best, score = np.empty(0), -np.inf
        for start in range(p.starts):
            first = np.array([-1, -1])
            if len(loose_pieces) and len(loose_cells) and (start or not puzzle.pins):
                piece = rng.choice(loose_pieces)
                seen = often[loose_cells, piece]
                first[:] = rng.choice(loose_cells[seen == seen.min()]), piece
            flat = pins.copy()
            tabu_search(
                weight,
                near,
                shut,
                often,
                p.history / max(start, 1),
                p.penalty,
                p.tenure,
                patience,
                first,
                state,
                gain,
                chosen,
                until,
                flat,
            )
            board = fill(flat.reshape(grid).astype(np.int64), free, evidence)
            held = np.flatnonzero(board.ravel() != EMPTY)
            often[held, board.ravel()[held]] += 1
            value = evidence.score(board)
            if value > score:
                best, score = board, value
                record.board(best, score, start + 1)
            record.round(start + 1, score)
            if stop is not None and stop(score):
                break
        return Found(best, score, confidence(evidence, best), evidence)


def affinity(d: np.ndarray, sharpness: float) -> Evidence:
    """Affinities in 0..1 of directed dissimilarities ``d (4, n, n)``, both directions averaged."""
    n = d.shape[1]
    own = np.arange(n)
    if n < 3:  # no second best
        second = np.full((4, n), max(float(d.max()), 1e-6))
    else:
        others = d.copy()
        others[:, own, own] = np.inf
        second = np.maximum(np.partition(others, 1, axis=2)[:, :, 1], 1e-6)
    a = np.exp(-sharpness * d / second[:, :, None])
    a[:, own, own] = 0.0
    return Evidence(
        0.5 * (a[1] + a[3].T),
        0.5 * (a[2] + a[0].T),
        source="tabu: affinity exp(−sharpness · D / second best D), not a log-probability",
    )


def neighbours(free: np.ndarray) -> np.ndarray:
    """``(M·N, 4) int32``: the free cell at each side of a cell, -1 where there is none."""
    index = np.where(free, np.arange(free.size).reshape(free.shape), -1)
    index = np.pad(index, 1, constant_values=-1)
    sides = (index[:-2, 1:-1], index[1:-1, 2:], index[2:, 1:-1], index[1:-1, :-2])
    return np.stack([s.ravel() for s in sides], axis=1).astype(np.int32)
