"""Next-best boards: where the best is uncertain, and what it could be instead."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..perception.confidence import TEMPERATURE
from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle, alike
from ..search.kernels.moves import near_swaps
from ..search.problem import make_problem
from .result import Alternative

MOST = 5
"""Alternatives that are shown."""
ODDS = 0.01
"""Least odds against the best board with which one is worth showing."""
MET = 24
"""Boards of the search that are looked at."""
SWAPS = 24
"""Single exchanges on the best board that are looked at."""


def find_alternatives(
    evidence: Evidence, puzzle: Puzzle, board: np.ndarray, met: np.ndarray | None
) -> tuple[Alternative, ...]:
    """The best boards other than ``board`` that come near it, no two differing in the same cells.

    Looked at are boards that the search has ``met (k, M, N)`` and all exchanges of two pieces.
    Boards break no rule, and exchanges of pieces that nobody can tell apart do not count.
    """
    score = evidence.full_score(board)
    cheap = replace(evidence, board_weight=0.0)  # judgements of whole boards are dear
    least = cheap.full_score(board)
    span = -TEMPERATURE * math.log(ODDS)
    boards = [*(() if met is None else met[:MET]), *_swapped(evidence, puzzle, board, span)]
    found: dict[bytes, Alternative] = {}
    for other in boards:
        differs = other != board
        if not differs.any() or _told_apart(puzzle, board, other) == 0:
            continue
        if (other != EMPTY).sum() != (board != EMPTY).sum():
            continue
        if puzzle.knowledge.broken(other, puzzle.n):
            continue
        if cheap.full_score(other) < least - 2.0 * span:
            continue
        value = evidence.full_score(other)
        if value < score - span:
            continue
        odds = math.exp(min(0.0, value - score) / TEMPERATURE)
        key = differs.tobytes()
        if key not in found or value > found[key].score:
            found[key] = Alternative(other.copy(), value, differs, odds)
    return tuple(sorted(found.values(), key=lambda a: -a.score)[:MOST])


def _told_apart(puzzle: Puzzle, board: np.ndarray, other: np.ndarray) -> int:
    """Cells in which the two boards hold pieces that can be told apart."""
    return sum(
        min(a, b) == EMPTY or not alike(puzzle.pieces[a], puzzle.pieces[b])
        for a, b in zip(board.ravel(), other.ravel(), strict=True)
        if a != b
    )


def _swapped(
    evidence: Evidence, puzzle: Puzzle, board: np.ndarray, span: float
) -> list[np.ndarray]:
    """``board`` with two cells exchanged, for the exchanges that lose least."""
    problem = make_problem(evidence, puzzle)
    flat = problem.from_board(board)
    if not np.array_equal(problem.to_board(flat), board):
        return []  # pieces were lifted out: there is no board of all pieces to exchange on
    cells, gains = near_swaps(problem.world, flat, -2.0 * span)
    out = []
    for k in np.argsort(-gains, kind="stable")[:SWAPS]:
        other = flat.copy()
        a, b = cells[k]
        other[a], other[b] = flat[b], flat[a]
        out.append(problem.to_board(other))
    return out
