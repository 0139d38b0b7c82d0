"""Fragments as people have them: scans in a folder or a zip, of nearly one size.

Sizes that differ by a few pixels are brought to one: the odd ones are scaled to the usual size, so
that all keep their outermost pixels, which is where fragments are compared.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from ..errors import SherdError
from .cutting import is_deep, white_of
from .images import OTHERS, PAGES, Picture, decode, list_images, split_alpha, upright
from .zips import Limits, is_zip, read_zip

TOLERANCE = 0.1
"""Share of the usual height or width by which a fragment may differ from it."""
TOLERATED = 4
"""Pixels by which it may differ in any case."""

Picturelike = str | os.PathLike[str] | np.ndarray | Image.Image


@dataclass(frozen=True)
class Loaded:
    """Fragments as they were read: of any sizes still."""

    names: tuple[str, ...]
    images: list[np.ndarray]
    """``(H, W, 3) uint8`` each."""
    masks: list[np.ndarray | None]
    """``(H, W) bool`` each, None where all is there."""
    notes: tuple[str, ...] = ()
    """On what was left out."""


def load_images(images: Sequence[Picturelike], limits: Limits | None = None) -> Loaded:
    """Fragments from arrays, PIL images or files, in the order in which they come."""
    if len(images) == 0:
        raise SherdError("fragments: there are none; give at least one image")
    names = [
        Path(image).name if isinstance(image, str | os.PathLike) else str(k)
        for k, image in enumerate(images)
    ]
    if len(set(names)) < len(names):
        names = [f"{k}-{name}" for k, name in enumerate(names)]

    def opened(k: int) -> Image.Image | np.ndarray:
        image = images[k]
        if isinstance(image, str | os.PathLike):
            return Picture(Path(image)).open()
        if isinstance(image, Image.Image):
            return upright(image, f"fragments: number {k}")
        if isinstance(image, np.ndarray):
            return image
        raise SherdError(
            f"fragments: number {k} is of type {type(image).__name__}; expected an array, a PIL "
            "image or a file"
        )

    return _load(names, (opened(k) for k in range(len(images))), limits or Limits())


def load_files(
    source: Path, wanted: Sequence[str] | None = None, limits: Limits | None = None
) -> Loaded:
    """The images of a folder in natural order of their names, or those called ``wanted``."""
    paths = list_images(source) if wanted is None else [source / name for name in wanted]
    names = [p.name for p in paths]
    return _load(names, (Picture(p).open() for p in paths), limits or Limits(), f"{source}/")


def load_zip(
    files: dict[str, bytes], source: Path, wanted: Sequence[str], limits: Limits | None = None
) -> Loaded:
    """The images called ``wanted`` of an unpacked zip (see `read_zip`)."""
    if missing := [n for n in wanted if n not in files]:
        raise SherdError(f"{source}: {missing[0]}: no such file")
    opened = (decode(io.BytesIO(files[n]), f"{source}: {n}") for n in wanted)
    return _load(wanted, opened, limits or Limits(), f"{source}: ")


def _load(
    names: Sequence[str],
    opened: Iterable[Image.Image | np.ndarray],
    limits: Limits,
    where: str = "",
) -> Loaded:
    """Decode one after the other, as long as the limits allow."""
    if len(names) > limits.files:
        raise SherdError(f"fragments: {len(names)} of them; at most {limits.files} are read")
    images, masks, total = [], [], 0
    deep: dict[int, Image.Image | np.ndarray] = {}
    notes: list[str] = []
    for k, (name, image) in enumerate(zip(names, opened, strict=True)):
        fragment, mask = split_alpha(image, where + name)
        if is_deep(image):
            deep[k] = image
        pages = image.info.get(PAGES, 1) if isinstance(image, Image.Image) else 1
        if pages > 1:
            notes.append(f"{name}: holds {pages} pictures; only the first is read")
        h, w = fragment.shape[:2]
        total += h * w
        if h * w > limits.pixels:
            raise SherdError(f"{where}{name}: is {w}x{h} px; at most {limits.pixels:,} pixels")
        if total > limits.total_pixels:
            raise SherdError(
                f"{where}{name}: with it there are over {limits.total_pixels:,} pixels; give "
                "smaller scans"
            )
        images.append(fragment)
        masks.append(mask)
    for kinds in ("iu", "f"):  # whole numbers and floats have levels of their own
        alike = {k: i for k, i in deep.items() if np.asarray(i).dtype.kind in kinds}
        white = white_of(alike.values())
        for k, image in alike.items():
            images[k], masks[k] = split_alpha(image, where + names[k], white)
    return Loaded(tuple(names), images, masks, tuple(notes))


def even(loaded: Loaded) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Fragments of one size: ``(n, H, W, 3) uint8``, their mask, and a note per changed file.

    That is the median height and width. A fragment far from it is an error.
    """
    sizes = np.array([image.shape[:2] for image in loaded.images])
    usual = np.median(sizes, axis=0)
    far = np.abs(sizes - usual) > np.maximum(TOLERATED, TOLERANCE * usual)
    if far.any():
        k = int(np.flatnonzero(far.any(axis=1))[0])
        raise SherdError(
            f"{loaded.names[k]}: is {sizes[k, 1]}x{sizes[k, 0]} px, most fragments are about "
            f"{usual[1]:.0f}x{usual[0]:.0f}; all must be of one size, give or take a few pixels"
        )
    height, width = (int(s) for s in np.rint(usual))
    notes = tuple(
        f"{name}: scaled from {w}x{h} to {width}x{height} px"
        for name, (h, w) in zip(loaded.names, sizes, strict=True)
        if (h, w) != (height, width)
    )
    pieces = np.stack([_scaled(image, height, width) for image in loaded.images])
    mask = None
    if any(m is not None for m in loaded.masks):
        whole = np.ones((height, width), dtype=bool)
        mask = np.stack([whole if m is None else _scaled(m, height, width) for m in loaded.masks])
    return pieces, mask, (*loaded.notes, *notes)


def _scaled(image: np.ndarray, height: int, width: int) -> np.ndarray:
    if image.shape[:2] == (height, width):
        return image
    grey = Image.fromarray(image.astype(np.uint8) * 255 if image.dtype == bool else image)
    scaled = np.asarray(grey.resize((width, height), Image.Resampling.BICUBIC))
    return scaled >= 128 if image.dtype == bool else scaled


def unpack(source: Path, limits: Limits, extra: str) -> dict[str, bytes] | None:
    """The files of a zip; None where ``source`` is a folder."""
    return read_zip(source, limits, (extra,)) if is_zip(source) and not source.is_dir() else None


def unread(source: Path) -> list[str]:
    """Pictures in a folder or zip file of a kind that is not read."""
    if is_zip(source) and not source.is_dir():
        with zipfile.ZipFile(source) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
    else:
        names = [entry.name for entry in os.scandir(source) if entry.is_file()]
    plain = (name.rpartition("/")[2] for name in names)
    return sorted(n for n in plain if Path(n).suffix.lower() in OTHERS and not n.startswith("."))
