"""The reassembly as an animated GIF.

A GIF has 256 colours. The fragments are reduced to one common palette once and then moved as
they are, so that nothing shimmers, and pixels that stay the same between two frames cost nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from ..data.cutting import board_corners, paste
from ..errors import SherdError
from ..puzzle import EMPTY, Puzzle, check_board, positions
from .save import whole_file
from .style import HATCH, PAPER, RGB, hatched

if TYPE_CHECKING:
    from ..solvers.base import Snapshot

FRAME_MS = 60
"""Time of one frame; a GIF counts in steps of 10 ms."""
MAX_FRAMES = 240
MAX_MOVES = 8
"""Boards shown after the first arrangement; a longer history is thinned out."""
COLOURS = 160
"""Of the fragments. More would hardly be seen, and the file grows with them."""


def animate(
    puzzle: Puzzle,
    snapshots: Sequence[Snapshot],
    path: str | os.PathLike[str],
    *,
    seconds: float = 6.0,
    max_side: int = 640,
    background: RGB = PAPER,
) -> None:
    """Write a GIF in which the fragments travel from where they came to each board in turn.

    Parameters
    ----------
    puzzle
        Whose fragments to show.
    snapshots
        Boards of improving score, as in ``Result.history``; the last is held at the end.
    path
        The file to write; its name ends in ``.gif``.
    seconds
        Length of one loop.
    max_side
        Longest side of the GIF in pixels.
    """
    if not snapshots:
        raise SherdError("snapshots: there are none; an animation needs at least one board")
    if not 0.5 <= seconds <= 60:
        raise SherdError(f"seconds: {seconds}; an animation takes 0.5 to 60 s")
    if max_side < 32:
        raise SherdError(f"max_side: {max_side} px; at least 32")
    boards = [check_board(s.board, puzzle.n, what="snapshot") for s in _thinned(snapshots)]
    shapes = {b.shape for b in boards}
    if len(shapes) > 1:
        raise SherdError(f"snapshots: boards of several shapes {sorted(shapes)}; one is needed")
    stage = _Stage.of(puzzle, boards[-1].shape, max_side, background)
    boards = [_first(puzzle, boards[-1].shape), *boards]
    duration = max(FRAME_MS, 10 * math.ceil(100 * seconds / MAX_FRAMES))
    frames = stage.frames(boards, _schedule(boards, max(4, round(1000 * seconds / duration))))
    first = next(frames)
    with whole_file(path, (".gif",)) as file:
        first.save(
            file,
            "GIF",
            save_all=True,
            append_images=frames,
            duration=duration,
            loop=0,
            optimize=True,  # pixels that did not change become transparent, which packs well
        )


def _thinned(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """At most `MAX_MOVES` of them, evenly, the last included; boards that repeat are dropped."""
    kept = [snapshots[0]]
    for s in snapshots[1:]:
        if not np.array_equal(s.board, kept[-1].board):
            kept.append(s)
    ix = np.unique(np.linspace(0, len(kept) - 1, min(MAX_MOVES, len(kept))).round().astype(int))
    return [kept[i] for i in ix]


def _first(puzzle: Puzzle, grid: tuple[int, ...]) -> np.ndarray:
    """Pieces in the order they came, as many as there are cells."""
    board = np.full(grid[0] * grid[1], EMPTY, dtype=np.int64)
    k = min(puzzle.n, board.size)
    board[:k] = np.arange(k)
    return board.reshape(grid[0], grid[1])


def _schedule(boards: list[np.ndarray], frames: int) -> list[int]:
    """Frames for: the hold of the first board, each move, and the hold of the last board."""
    moved = np.array([(a != b).sum() for a, b in pairwise(boards)], dtype=np.float64)
    start, end = max(1, frames // 10), max(1, frames // 4)
    share = np.sqrt(
        moved + 0.05 * boards[0].size
    )  # a big rearrangement takes longer, but not by far
    share *= max(0, frames - start - end) / share.sum()
    moves = np.diff(np.rint(np.cumsum(share)), prepend=0).astype(int)
    return [start, *moves.tolist(), end]


@dataclass(frozen=True)
class _Stage:
    """Fragments in palette indices, scaled, and where the cells are."""

    sprites: np.ndarray
    """``(n, h, w) uint8`` palette indices."""
    masks: np.ndarray | None
    """``(n, h, w) bool``."""
    corners: np.ndarray
    """``(M·N, 2)`` top-left pixel (y, x) of every cell."""
    floor: np.ndarray
    """``(height, width) uint8`` palette indices: background and hatched cells."""
    shade: np.ndarray
    """``(k,) uint8``: a palette index → the index of the same colour in shadow."""
    palette: bytes

    @classmethod
    def of(cls, puzzle: Puzzle, grid: tuple[int, ...], max_side: int, background: RGB) -> _Stage:
        shape = (grid[0], grid[1])
        (h, w), gap = _scaled_size(puzzle, shape, max_side)
        pieces, masks = _scaled_pieces(puzzle, (h, w))
        corners, size = board_corners(shape, (h, w), gap)
        empty = np.broadcast_to(hatched((h, w), background), (len(corners), h, w, 3))
        ground = np.full((*size, 3), background, dtype=np.uint8)
        cells = paste(np.ones_like(empty), corners, size) > 0
        np.copyto(ground, paste(empty, corners, size), where=cells)
        colours = _palette(pieces, background)
        sprites = _indexed(pieces.reshape(-1, w, 3), colours, dither=True).reshape(-1, h, w)
        shade = _indexed((colours * 0.62).astype(np.uint8)[None], colours, dither=False)[0]
        return cls(
            sprites,
            masks,
            corners,
            _indexed(ground, colours, dither=False),
            shade,
            colours.tobytes(),
        )

    def frames(self, boards: list[np.ndarray], counts: list[int]) -> Iterator[Image.Image]:
        """Every frame, ``counts`` as `_schedule` gives them."""
        n = len(self.sprites)
        at = [positions(b, n) for b in boards]
        for _ in range(counts[0]):
            yield self._frame(at[0], at[0], 1.0)
        for (a, b), count in zip(pairwise(at), counts[1:-1], strict=True):
            for k in range(count):
                yield self._frame(a, b, (k + 1) / count)
        for _ in range(counts[-1]):
            yield self._frame(at[-1], at[-1], 1.0)

    def _frame(self, a: np.ndarray, b: np.ndarray, t: float) -> Image.Image:
        """Pieces on their way from cells ``a`` to cells ``b`` (-1 = not placed) at time 0..1."""
        canvas = self.floor.copy()
        both = (a >= 0) & (b >= 0)
        still = np.flatnonzero(both & (a == b))
        for p in still:
            self._put(canvas, p, self.corners[a[p]])
        moving = np.flatnonzero(both & (a != b))
        # Pieces leave one after the other, those that land further up first.
        late = 0.45 * self.corners[b[moving]].sum(axis=1) / max(1, self.corners.sum(axis=1).max())
        s = _ease(np.clip((t - late) / 0.55, 0.0, 1.0))[:, None]
        where = np.rint(self.corners[a[moving]] * (1 - s) + self.corners[b[moving]] * s).astype(int)
        flying = ((s > 0) & (s < 1)).ravel()
        for p, corner in zip(moving[~flying], where[~flying], strict=True):
            self._put(canvas, p, corner)
        for p in np.flatnonzero((a >= 0) ^ (b >= 0)):  # comes or goes: dissolves
            cell = a[p] if a[p] >= 0 else b[p]
            self._put(canvas, p, self.corners[cell], share=t if b[p] >= 0 else 1.0 - t)
        for p, corner in zip(moving[flying], where[flying], strict=True):
            self._shadow(canvas, p, corner)
            self._put(canvas, p, corner)
        image = Image.frombytes("P", (canvas.shape[1], canvas.shape[0]), canvas.tobytes())
        image.putpalette(self.palette)
        return image

    def _put(
        self, canvas: np.ndarray, p: np.intp | int, corner: np.ndarray, share: float = 1.0
    ) -> None:
        h, w = self.sprites.shape[1:]
        spot = canvas[corner[0] : corner[0] + h, corner[1] : corner[1] + w]
        seen = np.ones((h, w), dtype=bool) if self.masks is None else self.masks[p]
        if share < 1.0:
            seen = seen & (_threshold((h, w)) < share)
        np.copyto(spot, self.sprites[p], where=seen)

    def _shadow(self, canvas: np.ndarray, p: np.intp | int, corner: np.ndarray) -> None:
        h, w = self.sprites.shape[1:]
        off = max(1, min(h, w) // 12)
        y, x = corner[0] + off, corner[1] + off
        spot = canvas[y : y + h, x : x + w]
        dark = self.shade[spot]
        seen = np.ones((h, w), dtype=bool) if self.masks is None else self.masks[p]
        np.copyto(spot, dark, where=seen[: spot.shape[0], : spot.shape[1]])


def _ease(t: np.ndarray) -> np.ndarray:
    """0..1 → 0..1, slow at both ends."""
    return t * t * (3.0 - 2.0 * t)


def _threshold(size: tuple[int, int]) -> np.ndarray:
    """``(h, w)`` of 0..1 in an ordered 4×4 pattern, for dissolving without new colours."""
    bayer = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]]) / 16.0
    return np.tile(bayer, (size[0] // 4 + 1, size[1] // 4 + 1))[: size[0], : size[1]]


def _scaled_size(
    puzzle: Puzzle, grid: tuple[int, int], max_side: int
) -> tuple[tuple[int, int], int]:
    """Size (h, w) of a fragment and the gap in the GIF; small puzzles are enlarged."""
    gap = puzzle.gap or 0
    _, size = board_corners(grid, puzzle.piece_size, gap)
    ratio = max_side / max(size)
    scale = ratio if ratio < 1 else float(min(4, int(ratio)))
    g = max(1, round(gap * scale)) if gap else 0
    room = [(max_side - (grid[a] - 1) * g) // grid[a] for a in (0, 1)]
    h, w = (max(1, min(room[a], round(puzzle.piece_size[a] * scale))) for a in (0, 1))
    return (h, w), g


def _scaled_pieces(puzzle: Puzzle, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray | None]:
    if size == puzzle.piece_size:
        return puzzle.pieces, puzzle.mask
    wh, smooth = (size[1], size[0]), Image.Resampling.LANCZOS
    pieces = np.stack([np.array(Image.fromarray(p).resize(wh, smooth)) for p in puzzle.pieces])
    if puzzle.mask is None:
        return pieces, None
    nearest = Image.Resampling.NEAREST
    masks = [np.array(Image.fromarray(m).resize(wh, nearest)) for m in puzzle.mask]
    return pieces, np.stack(masks).astype(bool)


def _palette(pieces: np.ndarray, background: RGB) -> np.ndarray:
    """``(k, 3) uint8``: colours of the pieces, then the background's and the hatch's."""
    n, h, w = pieces.shape[:3]
    strip = Image.fromarray(pieces.reshape(n * h, w, 3))
    reduced = strip.quantize(COLOURS, method=Image.Quantize.MEDIANCUT)
    found = np.array(reduced.getpalette(), dtype=np.uint8).reshape(-1, 3)[:COLOURS]
    return np.concatenate([found, np.array([background, HATCH], dtype=np.uint8)])


def _indexed(picture: np.ndarray, colours: np.ndarray, *, dither: bool) -> np.ndarray:
    """``(height, width) uint8`` nearest palette indices of a ``(height, width, 3)`` picture."""
    target = Image.new("P", (1, 1))
    target.putpalette(colours.tobytes())
    how = Image.Dither.FLOYDSTEINBERG if dither else Image.Dither.NONE
    image = Image.fromarray(np.ascontiguousarray(picture))
    return np.array(image.quantize(palette=target, dither=how), dtype=np.uint8)
