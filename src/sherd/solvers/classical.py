"""What the systems without a neural net share."""

from __future__ import annotations

import numpy as np

from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle


def constraints(puzzle: Puzzle) -> tuple[np.ndarray, np.ndarray]:
    """``free (M, N)`` bool: not blocked; ``pins (M·N,)`` int32: pinned piece of a cell, else -1."""
    grid = puzzle.require_grid()
    free = np.ones(grid, dtype=np.bool_)
    for cell in puzzle.blocked:
        free[cell] = False
    pins = np.full(grid, EMPTY, dtype=np.int32)
    for piece, cell in puzzle.pins.items():
        pins[cell] = piece
    return free, pins.ravel()


def by_side(right: np.ndarray, below: np.ndarray) -> np.ndarray:
    """``(4, n, n)``: entry ``[d, i, j]`` speaks of j at side d of i, sides as in `puzzle.SIDES`."""
    return np.ascontiguousarray(np.stack([below.T, right, below, right.T]))


def confidence(evidence: Evidence, board: np.ndarray) -> np.ndarray:
    """``(M, N)`` in 0..1: the share of a piece's neighbours that are its best buddies.

    Best buddies: each has the other as the strongest evidence for that side. 0 for empty cells and
    for pieces without neighbours.
    """
    met = np.zeros(board.shape)
    links = np.zeros(board.shape)
    for m, first, second in (
        (evidence.h, np.s_[:, :-1], np.s_[:, 1:]),
        (evidence.v, np.s_[:-1, :], np.s_[1:, :]),
    ):
        if evidence.n < 2:
            break
        s = m.copy()
        np.fill_diagonal(s, -np.inf)
        a, b = board[first], board[second]
        there = (a != EMPTY) & (b != EMPTY)
        mutual = there & (s.argmax(axis=1)[a] == b) & (s.argmax(axis=0)[b] == a)
        for part in (first, second):
            links[part] += there
            met[part] += mutual
    return met / np.maximum(links, 1.0)


def fill(board: np.ndarray, free: np.ndarray, evidence: Evidence) -> np.ndarray:
    """``board`` with its empty free cells filled, row by row, by what suits the neighbours best."""
    board = board.copy()
    for r, c in np.argwhere(free & (board == EMPTY)):
        spare = np.setdiff1d(np.arange(evidence.n), board)
        if len(spare) == 0:
            break
        fit = np.zeros(len(spare))
        for table, dr, dc in (
            (evidence.v, -1, 0),
            (evidence.h.T, 0, 1),
            (evidence.v.T, 1, 0),
            (evidence.h, 0, -1),
        ):
            y, x = r + dr, c + dc
            if 0 <= y < board.shape[0] and 0 <= x < board.shape[1] and board[y, x] != EMPTY:
                fit += table[board[y, x], spare]
        board[r, c] = spare[int(fit.argmax())]
    return board
