"""The sheet: before, after and truth side by side."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..errors import SherdError
from ..puzzle import EMPTY, Puzzle
from .board import render_board
from .style import FAINT, INK, PAPER, RGB


def arrival_board(puzzle: Puzzle) -> np.ndarray:
    """The fragments as they came: piece k in the k-th cell of a grid that holds all of them."""
    n = puzzle.n
    cols = puzzle.grid[1] if puzzle.grid is not None else max(1, round(n**0.5))
    rows = max(-(-n // cols), puzzle.grid[0] if puzzle.grid is not None else 1)
    board = np.full(rows * cols, EMPTY, dtype=np.int64)
    board[:n] = np.arange(n)
    return board.reshape(rows, cols)


def sheet(
    puzzle: Puzzle,
    board: np.ndarray,
    *,
    confidence: np.ndarray | None = None,
    truth: np.ndarray | None = None,
    mark_wrong: bool = True,
    width: int = 1440,
    background: RGB = PAPER,
) -> np.ndarray:
    """``(height, width, 3) uint8``: the fragments as they came, the board, and the truth if known.

    Parameters
    ----------
    puzzle, board
        What was solved, and the answer.
    confidence
        ``(M, N)`` in 0..1, drawn as frames on the answer (see `render_board`).
    truth
        The right board; by default the one that the puzzle carries. Without any, two panels.
    mark_wrong
        Tint the pieces of the answer that lie in the wrong cell, where the truth is known.
    width
        Of the sheet in pixels. Very wide puzzles are stacked instead of laid side by side.
    """
    if width < 200:
        raise SherdError(f"width: {width} px; a sheet needs at least 200")
    truth = puzzle.truth if truth is None else truth
    marks = truth if mark_wrong else None
    loose = max(puzzle.gap or 0, round(min(puzzle.piece_size) / 8))
    panels = [
        (
            "Fragments",
            _count(puzzle.n, "piece") + (f", {puzzle.gap} px gap" if puzzle.gap else ""),
            render_board(puzzle, arrival_board(puzzle), gap=loose, background=background),
        ),
        (
            "Reassembled",
            _verdict(puzzle, board, truth),
            render_board(puzzle, board, confidence=confidence, truth=marks, background=background),
        ),
    ]
    if truth is not None:
        panels.append(("Truth", "", render_board(puzzle, truth, background=background)))
    return _lay_out(panels, width, background)


def _count(k: int, noun: str) -> str:
    return f"{k} {noun}" if k == 1 else f"{k} {noun}s"


def _verdict(puzzle: Puzzle, board: np.ndarray, truth: np.ndarray | None) -> str:
    if truth is not None and truth.shape == board.shape:
        wanted = truth != EMPTY
        return f"{int(((board == truth) & wanted).sum())} of {int(wanted.sum())} in place"
    return f"{int((board != EMPTY).sum())} of {puzzle.n} placed"


def _lay_out(panels: list[tuple[str, str, np.ndarray]], width: int, background: RGB) -> np.ndarray:
    margin = max(12, width // 56)
    size = max(12, width // 72)
    strip = round(size * 2.1)  # height of a title line
    heights = [p.shape[0] for _, _, p in panels]
    widths = [p.shape[1] for _, _, p in panels]
    stacked = max(w / h for w, h in zip(widths, heights, strict=True)) > 2.4
    if stacked:
        scale = [(width - 2 * margin) / w for w in widths]
    else:
        aspect = sum(w / h for w, h in zip(widths, heights, strict=True))
        height = (width - (len(panels) + 1) * margin) / aspect
        scale = [height / h for h in heights]
    scaled = [_scaled(p, s) for (_, _, p), s in zip(panels, scale, strict=True)]
    if stacked:
        total = margin + sum(s.height + strip + margin for s in scaled)
    else:
        total = margin + max(s.height for s in scaled) + strip + margin
    canvas = Image.new("RGB", (width, total), background)
    draw = ImageDraw.Draw(canvas)
    x, y = margin, margin
    for (title, note, _), picture in zip(panels, scaled, strict=True):
        _write(draw, (x, y), title, note, size, picture.width)
        canvas.paste(picture, (x, y + strip))
        if stacked:
            y += strip + picture.height + margin
        else:
            x += picture.width + margin
    return np.array(canvas, dtype=np.uint8)


def _write(
    draw: ImageDraw.ImageDraw, at: tuple[int, int], title: str, note: str, size: int, room: int
) -> None:
    """Title in ink, note faint behind it as far as there is room."""
    big, small = ImageFont.load_default(size), ImageFont.load_default(round(size * 0.8))
    base = at[1] + round(size * 1.2)
    draw.text((at[0], base), title, INK, big, anchor="ls")
    start = at[0] + draw.textlength(title, big) + size * 0.6
    if note and start + draw.textlength(note, small) <= at[0] + room:
        draw.text((start, base), note, FAINT, small, anchor="ls")


def _scaled(picture: np.ndarray, scale: float) -> Image.Image:
    size = max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale))
    how = Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.BICUBIC
    return Image.fromarray(picture).resize(size, how)
