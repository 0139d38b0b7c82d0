"""Protocols: which pictures a benchmark uses, and how each becomes a puzzle.

An item holds no pixels. It is read and cut when its puzzle is asked for, so that items can be
listed, counted and sent to other processes for nothing.

Where the data lies, below one folder (``--data`` or the variable ``SHERD_DATA``)::

    testsets/{mit20,mcgill20,bgu20,bgu_large}/*     photos
    art5/{val,test}/{paintings,engravings,artifacts}/*    pictures of 534x534
    jpleg5/, jpleg3/                                see `sherd.data.jpleg`
    photos/*.tar, art5/*.tar, div2k/DIV2K_*_HR/     see `training_pictures`
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from ..errors import SherdError
from ..puzzle import Cell, Puzzle
from .cutting import Erode, Geometry, cut
from .images import Picture, list_pictures

MIT_SETS = ("mit20", "mcgill20", "bgu20")
"""The 60 photos of the paper's "MIT" table."""
PHOTO_SETS = (*MIT_SETS, "bgu_large")
KINDS = ("paintings", "engravings", "artifacts")
ART5 = Geometry((5, 5), (96, 96), gap=12, jitter=3)
GRIDS = ((7, 10), (10, 15))
"""The grids of the paper's "MIT" table."""

Split = Literal["train", "val", "test"]


@dataclass(frozen=True)
class Item:
    """One puzzle of a protocol, not yet cut."""

    protocol: str
    set: str
    kind: str | None
    id: str
    grid: tuple[int, int]
    """The grid that was asked for; a portrait picture is cut into its transpose."""
    gap: int
    erode: Erode
    piece: int
    """Side of a piece before erosion, in pixels."""

    def puzzle(self, seed: int) -> Puzzle:
        """The puzzle in true order. ``seed`` draws its jitter."""
        raise NotImplementedError  # abstract

    def rng(self, seed: int, use: int) -> np.random.Generator:
        """A generator of this puzzle's own: others in the set do not change what it draws."""
        name = f"{self.protocol}/{self.set}/{self.kind}/{self.id}"
        return np.random.default_rng([seed, use, zlib.crc32(name.encode())])


@dataclass(frozen=True)
class PictureItem(Item):
    """A puzzle cut from a picture."""

    picture: Picture
    jitter: int = 0
    trim: bool = False
    """Crop the picture to whole pieces before it is cut, instead of stretching it."""

    def puzzle(self, seed: int) -> Puzzle:
        image = self.picture.read()
        rows, cols = grid = self.grid
        if self.trim:
            h, w = rows * self.piece, cols * self.piece
            y, x = (image.shape[0] - h) // 2, (image.shape[1] - w) // 2
            image = image[y : y + h, x : x + w]
        elif image.shape[0] > image.shape[1] and rows < cols:
            grid = (cols, rows)
        geometry = Geometry(grid, (self.piece, self.piece), self.gap, self.erode, self.jitter)
        return cut(image, geometry, rng=self.rng(seed, 0)).puzzle


@dataclass(frozen=True)
class Cutting:
    """How photos are cut: the options of the ``mit`` and ``folder`` protocols."""

    grids: tuple[tuple[int, int], ...] = GRIDS
    gaps: tuple[int, ...] = (2, 4)
    """Eroded pixels, one cell of the table each; see ``erode``."""
    erode: Erode = "between"
    pieces: int | None = None
    """Side of a piece in pixels. Given: the picture keeps its size and is cut into as many pieces
    as fit (``grids`` is not used), as with the 28-px pieces of the literature; a gap then
    stretches it to M·px + (M−1)·gap for that grid. None: 64-px pieces, and the picture is resized
    to fit the grid."""

    def __post_init__(self) -> None:
        if self.pieces is not None and self.pieces < 2:
            raise SherdError(f"pieces: {self.pieces} px; must be at least 2")
        for grid in self.grids:
            for gap in self.gaps:
                side = self.pieces or 64
                Geometry(grid, (side, side), gap, self.erode)  # raises where it cannot be

    def items(
        self, protocol: str, name: str, pictures: list[Picture], kind: str | None = None
    ) -> Iterator[PictureItem]:
        """One item per grid, gap and picture."""
        if self.pieces is None:
            yield from (
                PictureItem(protocol, name, kind, p.name, grid, gap, self.erode, 64, p)
                for grid in self.grids
                for gap in self.gaps
                for p in pictures
            )
            return
        px = self.pieces
        grids = [(h // px, w // px) for h, w in (p.dimensions() for p in pictures)]
        for p, grid in zip(pictures, grids, strict=True):
            if min(grid) < 1:
                raise SherdError(f"{p.path}: not one piece of {px}x{px} px fits into it")
        for gap in self.gaps:
            for p, grid in zip(pictures, grids, strict=True):
                yield PictureItem(
                    protocol, name, kind, p.name, grid, gap, self.erode, px, p, trim=True
                )


@dataclass(frozen=True)
class Selection:
    """Which part of a protocol is wanted."""

    sets: tuple[str, ...] = ()
    """Names of sets; empty = the protocol's own choice."""
    split: Split = "test"
    limit: int | None = None
    """First so many puzzles of a set (of each kind, where a set has kinds)."""
    cutting: Cutting = field(default_factory=Cutting)

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise SherdError(f"limit: {self.limit}; must be at least 1")


def data_root(data: str | os.PathLike[str] | None = None) -> Path:
    """The folder that all data lies below: ``data``, or else what ``SHERD_DATA`` names."""
    given = data or os.environ.get("SHERD_DATA")
    if not given:
        raise SherdError(
            "data: where is it? pass --data DIR or set SHERD_DATA to a folder that holds "
            "testsets/, art5/, jpleg5/ ..."
        )
    root = Path(given)
    if not root.is_dir():
        raise SherdError(f"{root}: no such folder; --data or SHERD_DATA must name the data folder")
    return root


def mit_items(data: Path, selection: Selection) -> Iterator[Item]:
    """Photos cut into 64-px pieces (or into ``pieces`` px): the paper's "MIT" table."""
    names = selection.sets or MIT_SETS
    for name in names:
        if name not in PHOTO_SETS:
            raise SherdError(f"sets: {name!r} is unknown; there are {', '.join(PHOTO_SETS)}")
    for name in names:
        pictures = _pictures(data / "testsets" / name, f"the photos of {name}")
        yield from selection.cutting.items("mit", name, pictures[: selection.limit])


def art5_items(data: Path, selection: Selection) -> Iterator[Item]:
    """Art of 534x534 cut into 5x5 pieces of 96 px, 12 px apart, each displaced by up to 3 px."""
    if selection.split not in ("val", "test"):
        raise SherdError(f"split: {selection.split!r}; art5 puzzles come as val or test")
    for kind in KINDS:
        folder = data / "art5" / selection.split / kind
        for p in _pictures(folder, f"{kind} of {ART5.size[0]}x{ART5.size[1]} px")[
            : selection.limit
        ]:
            yield PictureItem(
                "art5", selection.split, kind, p.name, ART5.grid, ART5.gap, ART5.erode,
                ART5.piece[0], p, jitter=ART5.jitter,
            )  # fmt: skip


def folder_items(source: Path, selection: Selection) -> Iterator[Item]:
    """The pictures of any folder, or of a tar pack, cut as photos are."""
    pictures = list_pictures(source)[: selection.limit]
    yield from selection.cutting.items("folder", str(source.resolve()), pictures)


def training_pictures(name: str, data: Path) -> list[Picture]:
    """Pictures to train or to choose on: ``photos-train``, ``photos-val``, ``art5-train``,
    ``art5-val``, ``div2k-train``, ``div2k-val``."""
    packs = {
        "photos-train": ("photos", "train-*.tar"),
        "photos-val": ("photos", "val-*.tar"),
        "art5-train": ("art5", "train-*.tar"),
    }
    if name in packs:
        folder, pattern = packs[name]
        tars = sorted((data / folder).glob(pattern))
        if not tars:
            raise SherdError(f"{data / folder}: holds no {pattern}; put the packs of {name} there")
        return [p for tar in tars for p in list_pictures(tar)]
    if name == "art5-val":
        return [p for kind in KINDS for p in _pictures(data / "art5" / "val" / kind, kind)]
    if name in ("div2k-train", "div2k-val"):
        split = "valid" if name.endswith("val") else "train"
        return _pictures(data / "div2k" / f"DIV2K_{split}_HR", f"the images of DIV2K's {split} set")
    raise SherdError(
        f"pictures: {name!r} is unknown; there are {', '.join(packs)}, art5-val, div2k-train, "
        "div2k-val"
    )


def centre(puzzle: Puzzle) -> tuple[int, Cell]:
    """The piece in the centre cell, and that cell: what JPLEG's protocol gives away."""
    rows, cols = puzzle.require_grid()
    if rows % 2 == 0 or cols % 2 == 0:
        raise SherdError(f"fixed centre: a {rows}x{cols} grid has no centre cell")
    if puzzle.truth is None:
        raise SherdError("fixed centre: the puzzle has no truth that says what lies there")
    cell = (rows // 2, cols // 2)
    return int(puzzle.truth[cell]), cell


def _pictures(folder: Path, what: str) -> list[Picture]:
    if not folder.is_dir():
        raise SherdError(
            f"{folder}: no such folder; put {what} there, or point --data or SHERD_DATA elsewhere"
        )
    return list_pictures(folder)
