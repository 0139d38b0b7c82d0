"""Boards: ``(M, N)`` integer arrays of piece indices, row-major, -1 = empty cell."""

from __future__ import annotations

import numpy as np

from ..errors import SherdError

EMPTY = -1
"""What an empty cell holds."""

SIDES = ("top", "right", "bottom", "left")
"""The order of a piece's sides wherever an array has one row per side."""


def identity_board(grid: tuple[int, int]) -> np.ndarray:
    """The board on which piece k lies in cell k."""
    return np.arange(grid[0] * grid[1], dtype=np.int64).reshape(grid)


def check_board(board: np.ndarray, pieces: int, *, what: str = "board") -> np.ndarray:
    """Return ``board`` as int64, or raise: each of ``pieces`` at most once, else -1.

    When the board has as many cells as there are pieces and no cell is empty, this makes it a
    permutation.
    """
    board = np.asarray(board)
    if board.ndim != 2 or not np.issubdtype(board.dtype, np.integer):
        raise SherdError(
            f"{what}: expected a 2-D array of whole numbers, got {board.dtype} "
            f"of shape {board.shape}"
        )
    placed = board[board != EMPTY]
    if placed.size and (placed.min() < 0 or placed.max() >= pieces):
        raise SherdError(
            f"{what}: holds piece {int(placed.max() if placed.max() >= pieces else placed.min())}, "
            f"but the {pieces} pieces are numbered 0 to {pieces - 1} (-1 = empty cell)"
        )
    values, counts = np.unique(placed, return_counts=True)
    if (counts > 1).any():
        raise SherdError(
            f"{what}: piece {int(values[counts > 1][0])} lies in {int(counts.max())} cells; "
            "every piece may lie in one cell only"
        )
    return board.astype(np.int64)


def positions(board: np.ndarray, pieces: int) -> np.ndarray:
    """``(pieces,)`` flat cell index of every piece, -1 for a piece that is not placed."""
    cell = np.full(pieces, -1, dtype=np.int64)
    flat = board.ravel()
    cell[flat[flat != EMPTY]] = np.flatnonzero(flat != EMPTY)
    return cell


def pairs(board: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Adjacent pairs of placed pieces: ``(k, 2)`` left–right and ``(k, 2)`` top–bottom."""
    right = np.stack([board[:, :-1].ravel(), board[:, 1:].ravel()], axis=1)
    below = np.stack([board[:-1].ravel(), board[1:].ravel()], axis=1)
    return right[(right != EMPTY).all(axis=1)], below[(below != EMPTY).all(axis=1)]
