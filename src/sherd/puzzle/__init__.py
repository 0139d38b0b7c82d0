"""Pieces, grid, boards and metrics: what every other part speaks about."""

from .board import EMPTY, SIDES, check_board, identity_board, pairs, positions
from .knowledge import Knowledge
from .metrics import Scores, alike, score_board, score_puzzle
from .puzzle import Cell, Puzzle

__all__ = [
    "EMPTY",
    "SIDES",
    "Cell",
    "Knowledge",
    "Puzzle",
    "Scores",
    "alike",
    "check_board",
    "identity_board",
    "pairs",
    "positions",
    "score_board",
    "score_puzzle",
]
