"""The cutter: one picture into the fragments of one puzzle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from PIL import Image

from ..errors import SherdError
from ..puzzle import EMPTY, Puzzle, identity_board

Erode = Literal["between", "side"]
Fit = Literal["resize", "crop"]


@dataclass(frozen=True)
class Geometry:
    """How a picture is cut. Lengths in pixels."""

    grid: tuple[int, int]
    """``(M, N)`` rows and columns."""
    piece: tuple[int, int] = (64, 64)
    """``(H, W)`` of a piece before erosion."""
    gap: int = 0
    """Eroded pixels: in total between two neighbours, or off each side (see ``erode``)."""
    erode: Erode = "between"
    """``between``: the pieces keep their size and ``gap`` pixels are missing between two of them.
    ``side``: every piece loses ``gap`` pixels on each of its sides, so ``2·gap`` are missing."""
    jitter: int = 0
    """Every piece is displaced by up to this many pixels in both directions."""

    def __post_init__(self) -> None:
        if min(self.grid) < 1 or min(self.piece) < 1 or self.gap < 0 or self.jitter < 0:
            raise SherdError(
                f"geometry: grid {self.grid}, piece {self.piece} must be at least 1, "
                f"gap {self.gap} and jitter {self.jitter} at least 0"
            )
        if self.erode not in ("between", "side"):
            raise SherdError(f"erode: {self.erode!r}; use 'between' or 'side'")
        if self.erode == "side" and min(self.piece) <= 2 * self.gap:
            raise SherdError(
                f"gap: {self.gap} px off each side leaves nothing of a "
                f"{self.piece[0]}x{self.piece[1]} piece"
            )

    @property
    def fragment(self) -> tuple[int, int]:
        """``(H, W)`` of a fragment: the piece after erosion."""
        off = 2 * self.gap if self.erode == "side" else 0
        return self.piece[0] - off, self.piece[1] - off

    @property
    def missing(self) -> int:
        """Pixels missing between two neighbours (jitter aside)."""
        return 2 * self.gap if self.erode == "side" else self.gap

    @property
    def size(self) -> tuple[int, int]:
        """``(height, width)`` of the picture that this geometry cuts."""
        (m, n), (h, w) = self.grid, self.piece
        between = self.gap if self.erode == "between" else 0
        return (
            m * h + (m - 1) * between + 2 * self.jitter,
            n * w + (n - 1) * between + 2 * self.jitter,
        )

    def corners(self) -> np.ndarray:
        """``(M·N, 2)`` top-left pixel (y, x) of every fragment, row-major, without jitter."""
        (m, n), (h, w) = self.fragment_pitch_grid()
        inset = self.jitter + (self.gap if self.erode == "side" else 0)
        ys, xs = np.meshgrid(np.arange(m) * h + inset, np.arange(n) * w + inset, indexing="ij")
        return np.stack([ys.ravel(), xs.ravel()], axis=1)

    def fragment_pitch_grid(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The grid, and the pitch (y, x) from one fragment to the next."""
        f = self.fragment
        return self.grid, (f[0] + self.missing, f[1] + self.missing)


@dataclass(frozen=True)
class Cut:
    """A cut picture: the puzzle, in true order, and where its fragments came from."""

    puzzle: Puzzle
    geometry: Geometry
    image: np.ndarray
    """``(height, width, 3) uint8``: the picture that was cut, already resized."""
    corners: np.ndarray
    """``(n, 2)`` top-left pixel (y, x) of every fragment in ``image``."""


WHITES = (1.0, 255.0, 65535.0)
"""What white may be where numbers have 32 bits and more: the least that none exceeds."""
BEYOND = 1.2
"""Floats may exceed it by this factor: what scales pictures overshoots at edges."""


def is_deep(image: Image.Image | np.ndarray) -> bool:
    """Whether its type does not say what white is: whole numbers of 32 bits and more, floats."""
    if isinstance(image, np.ndarray):
        return image.dtype.newbyteorder("=") not in (np.bool_, np.uint8, np.uint16)
    return image.mode in ("I", "F")


def white_of(images: Iterable[Image.Image | np.ndarray]) -> float:
    """What white is in deep pictures that belong together: a dark one does not say so itself."""
    top = 0.0
    for image in images:
        a = np.asarray(image)
        if a.dtype.kind not in "iuf" or not np.isfinite(a).all():
            raise SherdError(f"image: of {a.dtype}, or with NaN; expected finite numbers")
        top = max(top, float(a.max(initial=0)) / (BEYOND if a.dtype.kind == "f" else 1.0))
    for white in WHITES:
        if top <= white:
            return white
    raise SherdError(f"image: levels up to {top:.0f}; expected at most {WHITES[-1]:.0f}")


def to_rgb(image: Image.Image | np.ndarray, white: float | None = None) -> np.ndarray:
    """Any picture as ``(height, width, 3) uint8``: grey, 16 bit, palette, CMYK, alpha on white.

    ``white`` is the level of white if the picture `is_deep`; by default, by its own brightest.
    """
    if isinstance(image, np.ndarray):
        return _array_to_rgb(image, white)
    if image.mode in ("I;16", "I;16B", "I;16L", "I", "F"):
        return _array_to_rgb(np.asarray(image), white)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        paper = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        image = Image.alpha_composite(paper, rgba)
    return np.array(image.convert("RGB"), dtype=np.uint8)


def _array_to_rgb(a: np.ndarray, white: float | None) -> np.ndarray:
    if a.ndim == 2:
        a = a[..., None]
    if a.ndim != 3 or a.shape[2] not in (1, 2, 3, 4) or 0 in a.shape:
        raise SherdError(f"image: shape {a.shape}; expected (height, width[, 1 to 4 channels])")
    if a.dtype == np.bool_:
        a = a.astype(np.uint8) * 255
    elif a.dtype.newbyteorder("=") == np.uint16:
        a = (a // 257).astype(np.uint8)
    elif a.dtype != np.uint8:
        top = white or white_of([a])
        a = np.clip(np.rint(a.astype(np.float64) * (255.0 / top)), 0, 255).astype(np.uint8)
    if a.shape[2] in (2, 4):
        alpha = a[..., -1:].astype(np.float64) / 255.0
        a = np.rint(a[..., :-1] * alpha + 255.0 * (1.0 - alpha)).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(a, (*a.shape[:2], 3)))


def fit_image(image: np.ndarray, size: tuple[int, int], how: Fit = "resize") -> np.ndarray:
    """``image`` brought to ``size`` (height, width): stretched, or centre-cropped and scaled."""
    if image.shape[:2] == size:
        return image
    box = None
    if how == "crop":
        scale = min(image.shape[0] / size[0], image.shape[1] / size[1])
        # rounding may make a side a trifle longer than the picture, which PIL does not take
        h, w = min(size[0] * scale, image.shape[0]), min(size[1] * scale, image.shape[1])
        y, x = (image.shape[0] - h) / 2, (image.shape[1] - w) / 2
        box = (x, y, x + w, y + h)
    scaled = Image.fromarray(image).resize((size[1], size[0]), Image.Resampling.LANCZOS, box=box)
    return np.array(scaled, dtype=np.uint8)


def largest_piece(
    image_size: tuple[int, int], grid: tuple[int, int], gap: int, erode: Erode = "between"
) -> tuple[int, int]:
    """The largest square piece such that ``grid`` pieces fit into the picture unscaled."""
    between = gap if erode == "between" else 0
    side = min((image_size[a] - (grid[a] - 1) * between) // grid[a] for a in (0, 1))
    if side < 1 or (erode == "side" and side <= 2 * gap):
        raise SherdError(
            f"grid: {grid[0]}x{grid[1]} with a gap of {gap} px does not fit into a picture of "
            f"{image_size[1]}x{image_size[0]} px"
        )
    return side, side


def cut(
    image: Image.Image | np.ndarray,
    geometry: Geometry,
    *,
    rng: np.random.Generator | None = None,
    fit: Fit = "resize",
) -> Cut:
    """Cut ``image`` as ``geometry`` says, pieces in true order (shuffle before solving).

    ``rng`` draws the jitter and may be left out when there is none.
    """
    picture = fit_image(to_rgb(image), geometry.size, fit)
    corners = geometry.corners()
    if geometry.jitter:
        if rng is None:
            raise SherdError("jitter: needs a random generator")
        j = geometry.jitter
        corners = corners + rng.integers(-j, j + 1, size=corners.shape)
    h, w = geometry.fragment
    pieces = np.stack([picture[y : y + h, x : x + w] for y, x in corners])
    puzzle = Puzzle(
        pieces, geometry.grid, gap=geometry.missing, truth=identity_board(geometry.grid)
    )
    return Cut(puzzle, geometry, picture, corners)


def paste(
    pieces: np.ndarray, corners: np.ndarray, size: tuple[int, int], fill: int = 0
) -> np.ndarray:
    """The inverse of cutting: fragments laid at ``corners`` on a canvas of ``size``."""
    canvas = np.full((*size, 3), fill, dtype=np.uint8)
    h, w = pieces.shape[1:3]
    for piece, (y, x) in zip(pieces, corners, strict=True):
        canvas[y : y + h, x : x + w] = piece
    return canvas


def board_corners(
    grid: tuple[int, int], fragment: tuple[int, int], gap: int
) -> tuple[np.ndarray, tuple[int, int]]:
    """Where fragments lie when a board is drawn with ``gap`` pixels between them, and its size."""
    g = Geometry(grid, fragment, gap)
    return g.corners(), g.size


def lose_pieces(puzzle: Puzzle, count: int, rng: np.random.Generator) -> Puzzle:
    """The puzzle without ``count`` of its pieces, drawn by ``rng``; their cells stay empty."""
    if not 0 <= count < puzzle.n:
        raise SherdError(f"missing: {count} of {puzzle.n} pieces; at least one must be left")
    order = rng.permutation(puzzle.n)
    kept = np.sort(order[count:])
    new = np.full(puzzle.n + 1, EMPTY)  # new[-1] is EMPTY: an empty cell stays empty
    new[kept] = np.arange(len(kept))
    return replace(
        puzzle,
        pieces=puzzle.pieces[kept],
        mask=None if puzzle.mask is None else puzzle.mask[kept],
        pins={int(new[p]): c for p, c in puzzle.pins.items() if new[p] != EMPTY},
        knowledge=puzzle.knowledge.reordered(new),
        truth=None if puzzle.truth is None else new[puzzle.truth],
        names=None if puzzle.names is None else tuple(puzzle.names[int(k)] for k in kept),
    )
