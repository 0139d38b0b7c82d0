"""The one renderer of boards."""

from __future__ import annotations

import numpy as np

from ..data.cutting import board_corners, paste
from ..errors import SherdError
from ..puzzle import EMPTY, Puzzle, check_board
from .style import PAPER, RGB, WRONG, confidence_colours, hatched

SURE_FADES = 0.7
"""How much of its ink the frame of a piece of confidence 1 loses."""


def render_board(
    puzzle: Puzzle,
    board: np.ndarray,
    *,
    gap: int | None = None,
    confidence: np.ndarray | None = None,
    truth: np.ndarray | None = None,
    background: RGB = PAPER,
) -> np.ndarray:
    """``(height, width, 3) uint8`` picture of ``board``, at the fragments' own resolution.

    Parameters
    ----------
    puzzle
        Whose fragments to lay out. Its grid is not asked: ``board`` says the shape.
    board
        ``(M, N)`` piece indices; a cell with -1 is hatched.
    gap
        Pixels between neighbours; by default the puzzle's own, or none.
    confidence
        ``(M, N)`` in 0..1: every piece gets a thin frame, from strong red (0) over yellow to
        faint green (1).
    truth
        ``(M, N)`` board: pieces that lie elsewhere in it are tinted and outlined.
    background
        Colour between the fragments and under their masks.
    """
    board = check_board(board, puzzle.n)
    for name, other in (("confidence", confidence), ("truth", truth)):
        if other is not None and other.shape != board.shape:
            raise SherdError(f"{name}: is {other.shape}, the board is {board.shape}")
    gap = (puzzle.gap or 0) if gap is None else gap
    grid = (board.shape[0], board.shape[1])
    corners, size = board_corners(grid, puzzle.piece_size, gap)
    cells = board.ravel()
    placed = cells != EMPTY
    canvas = np.full((*size, 3), background, dtype=np.uint8)
    empty = hatched(puzzle.piece_size, background)
    _stamp(canvas, np.broadcast_to(empty, (int((~placed).sum()), *empty.shape)), corners[~placed])
    pieces = puzzle.pieces[cells[placed]]
    stroke = _stroke(puzzle)
    if truth is not None:
        wrong = (board != truth).ravel()[placed]
        # A double line, inside the place of the confidence frame: seen on any picture.
        inset = stroke if confidence is not None else 0
        faded = _framed(_faded(pieces[wrong]), np.array(WRONG), inset, inset + stroke + 1)
        pieces[wrong] = _framed(faded, np.array(PAPER), inset + stroke + 1, inset + stroke + 2)
    if confidence is not None:
        sure = np.clip(np.nan_to_num(confidence), 0.0, 1.0).reshape(-1, 1, 1, 1)[placed]
        colours = confidence_colours(sure[..., 0])
        # What is sure is drawn faintly: the eye goes to what needs another look.
        ink = 1.0 - SURE_FADES * sure**2
        pieces = _framed(pieces, colours * ink + pieces * (1.0 - ink), 0, stroke)
    mask = None if puzzle.mask is None else puzzle.mask[cells[placed]]
    _stamp(canvas, pieces, corners[placed], mask)
    return canvas


def _stamp(
    canvas: np.ndarray, pieces: np.ndarray, corners: np.ndarray, mask: np.ndarray | None = None
) -> None:
    """Lay ``pieces (k, H, W, 3)`` on ``canvas`` where their ``mask (k, H, W)`` allows."""
    size = (canvas.shape[0], canvas.shape[1])
    covered = np.ones(pieces.shape[:3], dtype=bool) if mask is None else mask
    stencil = np.broadcast_to(covered[..., None].astype(np.uint8), pieces.shape)
    where = paste(stencil, corners, size) > 0
    np.copyto(canvas, paste(pieces, corners, size), where=where)


def _stroke(puzzle: Puzzle) -> int:
    """Width of a frame in pixels: thin, but still seen when the picture is scaled down."""
    return max(1, round(min(puzzle.piece_size) / 32))


def _faded(pieces: np.ndarray) -> np.ndarray:
    """``pieces`` almost drained of colour, lighter, with a touch of red."""
    grey = pieces.mean(axis=-1, keepdims=True)
    mixed = 0.15 * pieces + 0.50 * grey + 0.20 * np.array(PAPER) + 0.15 * np.array(WRONG)
    return np.rint(mixed).astype(np.uint8)


def _framed(pieces: np.ndarray, colours: np.ndarray, start: int, end: int) -> np.ndarray:
    """``pieces`` with a frame from ``start`` to ``end`` pixels inside their edges."""
    h, w = pieces.shape[1:3]
    y, x = np.arange(h)[:, None], np.arange(w)
    depth = np.minimum(np.minimum(y, h - 1 - y), np.minimum(x, w - 1 - x))
    frame = (depth >= start) & (depth < end)
    return np.rint(np.where(frame[None, :, :, None], colours, pieces)).astype(np.uint8)
