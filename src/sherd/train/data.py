"""Puzzles cut from pictures, and varied, on the device that holds the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..data.cutting import Geometry
from ..errors import SherdError
from .jpeg import BLOCK, jpeg
from .store import KINDS, Store

WINDOW_STRETCH = 1.15
"""How far a picture's aspect may be stretched to fit a grid."""
JPEG_MOST = 98.0
"""Best quality of a fragment's JPEG."""


@dataclass(frozen=True)
class Entry:
    """One kind of puzzle in the training mix. A list with repeats is a list with weights."""

    weight: float
    """Relative share of the steps."""
    rows: tuple[int, int]
    """Fewest and most rows."""
    cols: tuple[int, int]
    """Fewest and most columns."""
    piece: tuple[int, ...]
    """Sides of a piece before erosion, in pixels."""
    gap: tuple[int, ...]
    """Eroded pixels."""
    erode: str = "between"
    """``between`` or ``side``, as in `Geometry`."""
    jitter: tuple[int, ...] = (0,)
    """Displacement of the pieces, in pixels."""
    art: float = 0.2
    """Share of art among the pictures."""

    def __post_init__(self) -> None:
        if self.weight < 0 or not 0 <= self.art <= 1:
            raise SherdError(f"mix: weight {self.weight}, art {self.art}; expected >= 0 and 0..1")
        for name in ("rows", "cols"):
            low, high = getattr(self, name)
            if not 2 <= low <= high:
                raise SherdError(f"mix: {name} {(low, high)}; expected 2 <= fewest <= most")
        for name in ("piece", "gap", "jitter"):
            if not getattr(self, name):
                raise SherdError(f"mix: {name} is empty; give at least one value")

    def draw(self, rng: np.random.Generator) -> Geometry:
        """A geometry of this kind."""
        side = int(rng.choice(self.piece))
        gap = int(rng.choice(self.gap))
        return Geometry(
            grid=(
                int(rng.integers(*self.rows, endpoint=True)),
                int(rng.integers(*self.cols, endpoint=True)),
            ),
            piece=(side, side),
            gap=min(gap, side // 2) if self.erode == "between" else gap,
            erode=self.erode,  # type: ignore[arg-type]
            jitter=int(rng.choice(self.jitter)),
        )


@dataclass(frozen=True)
class Augment:
    """How pictures are varied. Shares are probabilities per puzzle."""

    full: float = 0.5
    """Share of puzzles that show the whole picture; only these teach the border head."""
    upscale: float = 1.8
    """Largest enlargement of a picture, unless it is too small for the grid."""
    shrink: float = 3.0
    """Largest reduction of a picture."""
    lanczos: float = 0.6
    """Share resampled as test pictures are; the rest is bicubic or bilinear, half and half."""
    turn: float = 0.2
    """Share turned by a quarter or upside down."""
    colour: float = 0.7
    """Share with other colours (gamma, gain, saturation)."""
    grey: float = 0.07
    noise: float = 0.25
    noise_sigma: float = 0.02
    """Largest standard deviation of the noise, of 1."""
    blur: float = 0.15
    jpeg: float = 0.0
    """Share whose fragments were JPEGs, each by itself …"""
    jpeg_least: float = 70.0
    """… of this quality at least, and of 98 at most."""

    def __post_init__(self) -> None:
        for name, low, high in (("jpeg", 0, 1), ("jpeg_least", 1, JPEG_MOST)):
            if not low <= (value := getattr(self, name)) <= high:
                raise SherdError(f"augment.{name}: {value}; expected {low} to {high:g}")


@dataclass(frozen=True)
class Batch:
    """Puzzles of one geometry, pieces in true order."""

    pieces: Tensor
    """``(puzzles·n, 3, h, w)`` in 0..1."""
    geometry: Geometry
    puzzles: int
    full: Tensor
    """``(puzzles,)`` 1 where the puzzle shows the whole picture, else 0."""


def upload(values: np.ndarray, device: torch.device) -> Tensor:
    """A small array on the device, without waiting for the device to finish what it does."""
    tensor = torch.from_numpy(np.array(values))
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def _window(
    size: tuple[int, int],
    target: tuple[int, int],
    full: bool,
    cfg: Augment,
    rng: np.random.Generator,
) -> tuple[int, int, int, int, bool]:
    """``(y, x, h, w)`` of the part of a picture to be cut, and whether it is the whole picture."""
    want = target[1] / target[0]
    aspect = float(np.clip(size[1] / size[0], want / WINDOW_STRETCH, want * WINDOW_STRETCH))
    h = min(size[0], size[1] / aspect)
    w = h * aspect
    fit = target[0] / h  # pixels out per pixel in
    low = max(1.0, 1.0 / (fit * cfg.shrink))
    zoom = low
    if not full:
        zoom = low * float(np.exp(rng.uniform(0.0, np.log(max(1.0, cfg.upscale / fit / low)))))
    full = full and zoom == 1.0 and h * w >= 0.5 * size[0] * size[1]
    # rounding must not push the window past the picture
    h, w = min(size[0], max(2.0, h / zoom)), min(size[1], max(2.0, w / zoom))
    y, x = (rng.uniform(0.0, size[0] - h), rng.uniform(0.0, size[1] - w))
    return int(y), int(x), int(h), int(w), full


def _taps(size: int, goal: int, device: torch.device) -> Tensor:
    """``(goal, size)`` weights that resample a line by Lanczos' filter of three lobes."""
    scale = size / goal
    wide = max(1.0, scale)  # when reducing, the filter covers as many more pixels
    at = (torch.arange(goal, device=device) + 0.5) * scale - 0.5
    x = (torch.arange(size, device=device) - at[:, None]) / wide
    weights = torch.sinc(x) * torch.sinc(x / 3.0) * (x.abs() < 3.0)
    return weights / weights.sum(1, keepdim=True)


def lanczos(picture: Tensor, goal: tuple[int, int]) -> Tensor:
    """``(3, H, W)`` → ``(3, *goal)``, as `sherd.data.cutting.fit_image` resamples test pictures."""
    down = _taps(picture.shape[1], goal[0], picture.device)
    across = _taps(picture.shape[2], goal[1], picture.device)
    return down @ picture @ across.T


def _scaled(
    image: Tensor, target: tuple[int, int], cfg: Augment, rng: np.random.Generator
) -> tuple[Tensor, bool]:
    """``image`` cropped, turned and resampled to ``(3, *target)``, 0..255."""
    turned = rng.random() < cfg.turn
    quarter = turned and rng.random() < 0.5
    size = (int(image.shape[1]), int(image.shape[2]))
    goal = (target[1], target[0]) if quarter else target
    y, x, h, w, full = _window(size, goal, bool(rng.random() < cfg.full) and not turned, cfg, rng)
    part = image[:, y : y + h, x : x + w].float()[None]
    how = rng.random()
    if how < cfg.lanczos:
        part = lanczos(part[0], goal)
    else:
        mode = "bicubic" if how < 0.5 * (1.0 + cfg.lanczos) else "bilinear"
        part = F.interpolate(part, size=goal, mode=mode, antialias=True, align_corners=False)[0]
    if quarter:
        part = part.rot90(1 if rng.random() < 0.5 else -1, (1, 2))
    elif turned:
        part = part.flip(1)
    if rng.random() < 0.5:
        part = part.flip(2)
    return part, full


def _recolour(x: Tensor, cfg: Augment, rng: np.random.Generator, noise: torch.Generator) -> Tensor:
    """Vary colour, sharpness and noise of ``x (b, 3, H, W)`` in 0..255; → 0..1 in 255 steps."""
    b = len(x)

    def per_puzzle(share: float, values: np.ndarray, neutral: float) -> Tensor:
        on = (rng.random(b) < share).reshape(-1, *[1] * (values.ndim - 1))
        values = np.where(on, values, neutral).astype(np.float32)
        values = values.reshape(b, *values.shape[1:], *[1] * (4 - values.ndim))
        return upload(values, x.device)

    gamma = per_puzzle(cfg.colour, np.exp(rng.uniform(-0.35, 0.35, b)), 1.0)
    gain = per_puzzle(
        cfg.colour, np.exp(rng.uniform(-0.2, 0.2, (b, 1)) + rng.uniform(-0.1, 0.1, (b, 3))), 1.0
    )
    saturation = per_puzzle(cfg.colour, rng.uniform(0.6, 1.3, b), 1.0)
    saturation = saturation * per_puzzle(cfg.grey, np.zeros(b), 1.0)
    sigma = per_puzzle(cfg.noise, rng.uniform(0.0, cfg.noise_sigma, b), 0.0)
    soft = per_puzzle(cfg.blur, rng.uniform(0.05, 0.25, b), 0.0)

    x = (x / 255.0).clamp(0.0, 1.0) ** gamma * gain
    grey = x.mean(1, keepdim=True)
    x = grey + (x - grey) * saturation
    for axis in (2, 3):  # three taps (soft, 1 − 2·soft, soft), rims repeated
        n = x.shape[axis]
        before = torch.cat([x.narrow(axis, 0, 1), x.narrow(axis, 0, n - 1)], axis)
        after = torch.cat([x.narrow(axis, 1, n - 1), x.narrow(axis, n - 1, 1)], axis)
        x = x + soft * (before + after - 2.0 * x)
    x = x + sigma * torch.randn(x.shape, generator=noise, device=x.device)
    return (x.clamp(0.0, 1.0) * 255.0).round() / 255.0


def draw_corners(puzzles: int, geometry: Geometry, rng: np.random.Generator) -> np.ndarray:
    """``(puzzles, n, 2)`` top-left pixel (y, x) of every fragment, jitter included."""
    corners = np.broadcast_to(geometry.corners(), (puzzles, *geometry.corners().shape))
    if geometry.jitter:
        j = geometry.jitter
        corners = corners + rng.integers(-j, j + 1, size=corners.shape)
    return corners


def cut_at(pictures: Tensor, corners: Tensor, size: tuple[int, int]) -> Tensor:
    """Parts of ``pictures (b, c, H, W)`` at ``corners (b, n, 2)``: ``(b·n, c, *size)``."""
    h, w = size
    rows = corners[:, :, 0, None] + torch.arange(h, device=corners.device)  # (b, n, h)
    cols = corners[:, :, 1, None] + torch.arange(w, device=corners.device)  # (b, n, w)
    which = torch.arange(len(pictures), device=corners.device)[:, None, None, None]
    flat = pictures.permute(0, 2, 3, 1)[which, rows[:, :, :, None], cols[:, :, None, :]]
    return flat.flatten(0, 1).permute(0, 3, 1, 2)


def cut_pieces(pictures: Tensor, geometry: Geometry, rng: np.random.Generator) -> Tensor:
    """``(b, 3, H, W)`` → ``(b·n, 3, h, w)``, cut as `sherd.data.cutting.cut` does."""
    corners = upload(draw_corners(len(pictures), geometry, rng), pictures.device)
    return cut_at(pictures, corners, geometry.fragment)


def as_jpegs(pieces: Tensor, puzzles: int, cfg: Augment, rng: np.random.Generator) -> Tensor:
    """``pieces (puzzles·n, 3, h, w)`` in 0..1, those of some puzzles as they come back from JPEGs.

    Blocks begin anywhere in a piece. If they ran on from piece to piece, a network would learn to
    lay them in line: that helps with pictures that were compressed before they were cut, and with
    no fragments that there are.
    """
    n, (h, w) = len(pieces) // puzzles, pieces.shape[2:]
    on = rng.random(puzzles) < cfg.jpeg
    quality = rng.uniform(cfg.jpeg_least, JPEG_MOST, puzzles).astype(np.float32)
    begin = rng.integers(BLOCK, size=(len(pieces), 1, 2))
    if not on.any():
        return pieces
    at = np.flatnonzero(np.repeat(on, n))
    some, start = upload(at, pieces.device), upload(begin[at], pieces.device)
    wide = F.pad(pieces[some], (BLOCK,) * 4, mode="replicate")
    wide = cut_at(wide, BLOCK - start, (h + BLOCK, w + BLOCK))
    back = jpeg(wide, upload(np.repeat(quality, n)[at], pieces.device))
    return pieces.index_copy(0, some, cut_at(back, start, (h, w)))


def draw_pictures(
    store: Store,
    mix: Sequence[Entry],
    augment: Augment,
    budget: float,
    most: int,
    rng: np.random.Generator,
    noise: torch.Generator,
) -> tuple[Tensor, Geometry, np.ndarray]:
    """One geometry, and as many pictures to be cut by it as the budget allows.

    ``budget`` counts pieces of 64 px: the encoder's cost grows with a piece's area, the pair
    heads' with its side. ``most`` caps the number of pieces. Returns ``(b, 3, H, W)`` in 0..1,
    the geometry, and ``(b,)`` 1 where a picture is whole, else 0.
    """
    weights = np.array([e.weight for e in mix])
    entry = mix[int(rng.choice(len(mix), p=weights / weights.sum()))]
    geometry = entry.draw(rng)
    n = geometry.grid[0] * geometry.grid[1]
    r = geometry.fragment[0] / 64.0
    pieces = min(budget / (0.5 * r * r + 0.5 * r), most)
    puzzles = max(1, int(pieces / n))
    pictures, full = [], []
    for _ in range(puzzles):
        kind = KINDS[int(rng.random() < entry.art)]
        picture, whole = _scaled(store.pick(kind, rng), geometry.size, augment, rng)
        pictures.append(picture)
        full.append(float(whole))
    x = _recolour(torch.stack(pictures), augment, rng, noise)
    return x, geometry, np.array(full, dtype=np.float32)


def draw_batch(
    store: Store,
    mix: Sequence[Entry],
    augment: Augment,
    budget: float,
    most: int,
    rng: np.random.Generator,
    noise: torch.Generator,
) -> Batch:
    """Pieces of as many puzzles of one geometry as the budget allows (see `draw_pictures`)."""
    x, geometry, full = draw_pictures(store, mix, augment, budget, most, rng, noise)
    pieces = as_jpegs(cut_pieces(x, geometry, rng), len(x), augment, rng)
    return Batch(pieces, geometry, len(x), upload(full, x.device))
