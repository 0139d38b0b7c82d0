"""JPLEG-5 and JPLEG-3 as their authors hand them out: ``.npy`` files of whole splits.

Below the data folder::

    jpleg5/{valid,test}_img_12gap_55.npy, jpleg5/train_img_12gap_55-002.npy
    jpleg3/{valid,test}_img_48gap_33.npy, jpleg3/train_img_48gap_33-001.npy
    {jpleg5,jpleg3}/{train,valid,test}_label_<same>.npy        (if there are labels)

Images are ``(n, side, side, 3)``: 5x5 (3x3) pieces of 96 px pushed together, the gap already
taken out.

With a label file the pieces of an image are taken as shuffled around the centre, which stays:
``label[k]`` is ``(n-1, n-1)`` one-hot, both axes count cells row-major without the centre, and
the column of row i's 1 is the true cell of the piece that lies in cell i. This is how most public
readers of the files take them. Without a label file the images are taken to be in true order.

The splits list paintings, engravings, artifacts, a third each (test: 667, 667, 666).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import SherdError
from ..puzzle import Puzzle, identity_board
from .cutting import to_rgb
from .sets import KINDS, Item, Selection

PIECE = 96


@dataclass(frozen=True)
class Edition:
    """One of the two datasets."""

    name: str
    side: int
    """Pieces along a side."""
    gap: int
    suffix: str
    train: str
    """What the training images' name ends in: their authors numbered it."""

    def files(self, data: Path, split: str) -> tuple[Path, Path]:
        """Where the images and the labels of a split lie."""
        word = {"train": "train", "val": "valid", "test": "test"}[split]
        ending = self.train if split == "train" else self.suffix
        folder = data / self.name
        return folder / f"{word}_img_{ending}.npy", folder / f"{word}_label_{self.suffix}.npy"


EDITIONS = {
    "jpleg5": Edition("jpleg5", 5, 12, "12gap_55", "12gap_55-002"),
    "jpleg3": Edition("jpleg3", 3, 48, "48gap_33", "48gap_33-001"),
}


@dataclass(frozen=True)
class JplegItem(Item):
    """Image ``index`` of a ``.npy`` file."""

    images: Path
    labels: Path | None
    index: int

    def puzzle(self, seed: int) -> Puzzle:
        image = to_rgb(np.array(_array(self.images)[self.index]))
        side = self.grid[0]
        cells = image.reshape(side, self.piece, side, self.piece, 3).swapaxes(1, 2)
        pieces = cells.reshape(side * side, self.piece, self.piece, 3)
        puzzle = Puzzle(pieces, self.grid, gap=self.gap, truth=identity_board(self.grid))
        if self.labels is None:
            return puzzle
        true_cell = _true_cells(np.array(_array(self.labels)[self.index]), self._what())
        puzzle = Puzzle(
            pieces, self.grid, gap=self.gap, truth=np.argsort(true_cell).reshape(self.grid)
        )
        return puzzle.reordered(np.argsort(true_cell))  # true order, as every item's

    def _what(self) -> str:
        return f"{self.labels}: label {self.index}"


def jpleg_items(name: str, data: Path, selection: Selection) -> Iterator[JplegItem]:
    """The puzzles of a split, first ``limit`` of each kind."""
    edition = EDITIONS[name]
    images, labels = edition.files(data, selection.split)
    if not images.is_file():
        raise SherdError(
            f"{images}: no such file; put the {name} file of that name there, "
            "or point --data or SHERD_DATA elsewhere"
        )
    grid = (edition.side, edition.side)
    stored = _array(images)
    want = (edition.side * PIECE, edition.side * PIECE, 3)
    if stored.ndim != 4 or stored.shape[1:] != want or len(stored) == 0:
        raise SherdError(f"{images}: shape {stored.shape}; expected (n, {want[0]}, {want[1]}, 3)")
    n = len(stored)
    if labels.is_file():
        cells = edition.side**2 - 1
        if _array(labels).shape != (n, cells, cells):
            raise SherdError(
                f"{labels}: shape {_array(labels).shape}; expected {(n, cells, cells)}, "
                f"one label per image of {images.name}"
            )
    for k, kind in enumerate(KINDS):
        first, last = -(-n * k // 3), -(-n * (k + 1) // 3)  # rounded up: 667, 667, 666 of 2000
        for index in range(first, last)[: selection.limit]:
            yield JplegItem(
                name, selection.split, kind, str(index), grid, edition.gap, "between", PIECE,
                images, labels if labels.is_file() else None, index,
            )  # fmt: skip


def _true_cells(label: np.ndarray, what: str) -> np.ndarray:
    """``(n,)`` true cell of the piece in every cell, the centre added."""
    n = len(label) + 1
    hot = label.astype(bool)
    if not ((hot.sum(axis=0) == 1).all() and (hot.sum(axis=1) == 1).all()):
        raise SherdError(f"{what}: is no one-hot permutation; expected one 1 per row and column")
    others = np.delete(np.arange(n), n // 2)
    true_cell = np.arange(n)
    true_cell[others] = others[hot.argmax(axis=1)]
    return true_cell


def _array(path: Path) -> np.ndarray:
    """A ``.npy`` file, mapped: only what is used is read."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as e:
        raise SherdError(f"{path}: cannot be read: {e.strerror or e}") from e
    except (ValueError, EOFError) as e:
        raise SherdError(f"{path}: is no .npy file, or is cut off") from e
    assert isinstance(array, np.ndarray)
    return array
