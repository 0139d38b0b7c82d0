"""The sheet: before, after and truth side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..errors import SherdError
from ..puzzle import EMPTY, Puzzle
from .board import render_board
from .style import FAINT, INK, PAPER, RGB, confidence_colours


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
        _Panel(
            "Fragments",
            _count(puzzle.n, "piece") + (f", {puzzle.gap} px gap" if puzzle.gap else ""),
            render_board(puzzle, arrival_board(puzzle), gap=loose, background=background),
        ),
        _Panel(
            "Reassembled",
            _verdict(puzzle, board, truth),
            render_board(puzzle, board, confidence=confidence, truth=marks, background=background),
            key=confidence is not None,
        ),
    ]
    if truth is not None:
        panels.append(_Panel("Truth", "", render_board(puzzle, truth, background=background)))
    return _lay_out(panels, width, background)


@dataclass(frozen=True)
class _Panel:
    title: str
    note: str
    picture: np.ndarray
    key: bool = False
    """Whether frames show confidence, so that their colours need a key."""


def _count(k: int, noun: str) -> str:
    return f"{k} {noun}" if k == 1 else f"{k} {noun}s"


def _verdict(puzzle: Puzzle, board: np.ndarray, truth: np.ndarray | None) -> str:
    if truth is not None and truth.shape == board.shape:
        wanted = truth != EMPTY
        return f"{int(((board == truth) & wanted).sum())} of {int(wanted.sum())} in place"
    return f"{int((board != EMPTY).sum())} of {puzzle.n} placed"


def _lay_out(panels: list[_Panel], width: int, background: RGB) -> np.ndarray:
    margin = max(12, width // 56)
    size = max(12, width // 72)
    strip = round(size * 2.1)  # height of a title line
    shapes = [p.picture.shape for p in panels]
    stacked = max(w / h for h, w, _ in shapes) > 2.4
    if stacked:
        scales = [(width - 2 * margin) / w for _, w, _ in shapes]
    else:
        height = (width - (len(panels) + 1) * margin) / sum(w / h for h, w, _ in shapes)
        scales = [height / h for h, _, _ in shapes]
    pictures = [_scaled(p.picture, s) for p, s in zip(panels, scales, strict=True)]
    if stacked:
        total = margin + sum(s.height + strip + margin for s in pictures)
    else:
        total = margin + max(s.height for s in pictures) + strip + margin
    canvas = Image.new("RGB", (width, total), background)
    x, y = margin, margin
    for panel, picture in zip(panels, pictures, strict=True):
        _write(canvas, (x, y), panel, size, picture.width)
        canvas.paste(picture, (x, y + strip))
        if stacked:
            y += strip + picture.height + margin
        else:
            x += picture.width + margin
    return np.array(canvas, dtype=np.uint8)


def _write(canvas: Image.Image, at: tuple[int, int], panel: _Panel, size: int, room: int) -> None:
    """Title in ink, note and colour key faint behind it as far as there is room."""
    draw = ImageDraw.Draw(canvas)
    big, small = ImageFont.load_default(size), ImageFont.load_default(round(size * 0.8))
    base, end = at[1] + round(size * 1.2), at[0] + room
    draw.text((at[0], base), panel.title, INK, big, anchor="ls")
    x = at[0] + draw.textlength(panel.title, big) + size * 0.6
    if x + draw.textlength(panel.note, small) <= end:
        draw.text((x, base), panel.note, FAINT, small, anchor="ls")
        x += draw.textlength(panel.note, small) + size
    bar = size * 3
    words = draw.textlength("unsure", small), draw.textlength("sure", small)
    if panel.key and x + sum(words) + bar + size <= end:
        draw.text((end, base), "sure", FAINT, small, anchor="rs")
        left = round(end - words[1] - size * 0.4 - bar)
        ramp = confidence_colours(np.linspace(0, 1, bar))
        thick = max(3, size // 4)
        canvas.paste(
            Image.fromarray(np.broadcast_to(ramp, (thick, bar, 3)).copy()),
            (left, base - round(size * 0.3) - thick // 2),
        )
        draw.text((left - size * 0.4, base), "unsure", FAINT, small, anchor="rs")


def _scaled(picture: np.ndarray, scale: float) -> Image.Image:
    size = max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale))
    how = Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.BICUBIC
    return Image.fromarray(picture).resize(size, how)
