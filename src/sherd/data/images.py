"""Reading pictures: one place, one set of errors."""

from __future__ import annotations

import io
import os
import re
import tarfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps

from ..errors import SherdError
from .cutting import to_rgb

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP")
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp"})
MAX_PIXELS = 80_000_000
"""Largest picture that is decoded. Below PIL's own limit, so that ours is the one that speaks."""

READABLE = "PNG, JPEG, TIFF, WebP or BMP"
OTHERS = frozenset({
    ".gif", ".heic", ".heif", ".avif", ".jp2", ".jxl", ".jfif", ".jpe", ".psd", ".svg", ".pdf",
    ".tga", ".ppm", ".pgm", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".exr",
})  # fmt: skip
"""Endings of pictures that are not read."""
PAGES = "sherd_pages"
"""Entry of `Image.info`: how many pictures there are in the file."""
BITS, PHOTOMETRIC, PLANAR = 258, 262, 284
"""Entries of TIFF files."""


@dataclass(frozen=True)
class Picture:
    """A picture that can be read when it is needed: a file, or a stretch of a tar pack.

    Cheap to make and to send to another process: it holds no pixels.
    """

    path: Path
    member: str | None = None
    """Name inside the pack, None for a file of its own."""
    offset: int = 0
    """First byte inside the pack."""
    size: int = 0
    """Bytes inside the pack."""

    @property
    def name(self) -> str:
        """What a user calls it: its file name, or its name inside the pack."""
        return self.member or self.path.name

    @property
    def kind(self) -> str | None:
        """The folder it lies in inside its pack, None for a file."""
        parts = Path(self.member).parts if self.member else ()
        return parts[0] if len(parts) > 1 else None

    def read(self) -> np.ndarray:
        """``(height, width, 3) uint8``."""
        return rgb_of(self.open(), self._what)

    def dimensions(self) -> tuple[int, int]:
        """``(height, width)`` as the picture is seen, from its header where that is enough."""
        with self._stream() as stream:
            image = _identify(stream, self._what)
            try:
                turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
            except Exception as e:
                raise _damaged(self._what) from e
            w, h = image.size
            return (w, h) if turned else (h, w)

    def open(self) -> Image.Image:
        """The picture as PIL has it, upright."""
        with self._stream() as stream:
            return decode(stream, self._what)

    @property
    def _what(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}: {self.member}"

    def _stream(self) -> BinaryIO:
        try:
            file = self.path.open("rb")
            if self.member is None:
                return file
            with file:
                file.seek(self.offset)
                return io.BytesIO(file.read(self.size))
        except FileNotFoundError as e:
            raise SherdError(f"{self.path}: no such file") from e
        except IsADirectoryError as e:
            raise SherdError(f"{self.path}: is a folder; expected an image file") from e
        except OSError as e:
            raise SherdError(f"{self._what}: cannot be read: {_why(e)}") from e


def read_image(path: str | os.PathLike[str]) -> np.ndarray:
    """The picture in a file as ``(height, width, 3) uint8``, upright, whatever its mode."""
    return Picture(Path(path)).read()


def rgb_of(image: Image.Image | np.ndarray, what: str, white: float | None = None) -> np.ndarray:
    """`to_rgb`, with ``what`` in errors."""
    try:
        return to_rgb(image, white)
    except SherdError as e:
        raise SherdError(f"{what}: {e}") from e


def split_alpha(
    image: Image.Image | np.ndarray, what: str, white: float | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """``(H, W, 3) uint8`` and the mask that alpha makes, None where all is there.

    A pixel belongs to a fragment where its alpha is at least half. ``white`` as in `to_rgb`.
    """
    if isinstance(image, np.ndarray):
        rgb = rgb_of(image, what, white)
        alpha = None
        if image.ndim == 3 and image.shape[2] in (2, 4):
            alpha = to_rgb(image[..., -1])[..., 0]
        return rgb, _mask(alpha, what)
    alpha = None
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        alpha = np.asarray(image.convert("RGBA"))[..., 3]
    return rgb_of(image, what, white), _mask(alpha, what)


def _mask(alpha: np.ndarray | None, what: str) -> np.ndarray | None:
    mask = None if alpha is None else alpha >= 128
    if mask is not None and not mask.any():
        raise SherdError(f"{what}: every pixel is transparent; a fragment needs some that show")
    return None if mask is None or mask.all() else mask


def write_png(
    path: str | os.PathLike[str], image: np.ndarray, mask: np.ndarray | None = None
) -> None:
    """Write ``(h, w, 3) uint8`` as PNG; ``mask (h, w) bool`` becomes the alpha channel."""
    if mask is not None:
        alpha = np.where(mask, 255, 0).astype(np.uint8)
        image = np.concatenate([image, alpha[..., None]], axis=2)
    try:
        Image.fromarray(image).save(path, format="PNG")
    except OSError as e:
        raise SherdError(f"{path}: cannot be written: {_why(e)}") from e


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which ``2.png`` comes before ``10.png``."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name.lower())
    digits = [p.lstrip("0") if p.isascii() and p.isdigit() else None for p in parts]
    # of two numbers the longer is the larger: a name may have more digits than Python turns to one
    key = [(1, 0, p) if d is None else (0, len(d), d) for p, d in zip(parts, digits, strict=True)]
    return (*key, (2, 0, name))  # the name itself decides between a.png and A.png, 1 and 01


def list_images(folder: str | os.PathLike[str]) -> list[Path]:
    """The picture files of a folder (not of its subfolders), in natural order of their names."""
    folder = Path(folder)
    try:
        entries = [e.name for e in os.scandir(folder) if e.is_file()]
    except FileNotFoundError as e:
        raise SherdError(f"{folder}: no such folder") from e
    except NotADirectoryError as e:
        raise SherdError(f"{folder}: is a file; expected a folder of images") from e
    except OSError as e:
        raise SherdError(f"{folder}: cannot be read: {_why(e)}") from e
    names = [n for n in entries if Path(n).suffix.lower() in SUFFIXES and not n.startswith(".")]
    if not names:
        raise SherdError(f"{folder}: holds no images; expected {READABLE} files")
    return [folder / n for n in sorted(names, key=natural_key)]


def list_pictures(source: str | os.PathLike[str]) -> list[Picture]:
    """The pictures of a folder, or of an uncompressed ``.tar`` pack of them."""
    source = Path(source)
    if source.suffix.lower() != ".tar":
        return [Picture(p) for p in list_images(source)]
    try:
        with tarfile.open(source, "r:") as tar:
            members = [m for m in tar if m.isfile() and Path(m.name).suffix.lower() in SUFFIXES]
    except tarfile.TarError as e:
        raise SherdError(f"{source}: is no uncompressed tar file, or is cut off") from e
    except OSError as e:
        raise SherdError(f"{source}: cannot be read: {_why(e)}") from e
    if not members:
        raise SherdError(f"{source}: holds no images; expected {READABLE} files")
    members.sort(key=lambda m: natural_key(m.name))
    return [Picture(source, m.name, m.offset_data, m.size) for m in members]


def _pages(image: Image.Image) -> int:
    """Pictures in a file; of what phones add to a photograph, and of broken chains, one."""
    try:
        pages = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)
        image.seek(0)
    except Exception:
        return 1
    return int(pages)


def _tag(image: Image.Image, number: int) -> object:
    """A TIFF's entry; None of other pictures."""
    tags = getattr(image, "tag_v2", {})
    return tags.get(number)


def _identify(stream: BinaryIO, what: str) -> Image.Image:
    """The picture in ``stream``, only its header read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(stream, formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as e:
        raise SherdError(f"{what}: has too many pixels; at most {MAX_PIXELS:,} are read") from e
    except Exception as e:  # PIL's plugins raise whatever a broken header led them to
        raise SherdError(f"{what}: is not an image that can be read; expected {READABLE}") from e
    if image.width * image.height > MAX_PIXELS:
        raise SherdError(
            f"{what}: is {image.width}x{image.height} px; at most {MAX_PIXELS:,} pixels are read"
        )
    bits = _tag(image, BITS)
    if _tag(image, PLANAR) == 2 and isinstance(bits, tuple) and max(bits) > 8:
        raise SherdError(
            f"{what}: is a TIFF of {max(bits)} bits in separate colour planes, which is not read; "
            "save it as PNG"
        )
    return image


def decode(stream: BinaryIO, what: str) -> Image.Image:
    """The picture in ``stream``, upright; ``what`` is its name in errors."""
    image = _identify(stream, what)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # oddities in metadata are none of the user's business
            pages = _pages(image)
            image.load()
            negative = image.mode.startswith("I;16") and _tag(image, PHOTOMETRIC) == 0
    except Exception as e:
        raise _damaged(what) from e
    image = upright(image, what)
    if negative:  # Pillow turns those of 8 bits only
        image = Image.fromarray(65535 - np.asarray(image).astype(np.uint16))
    image.info[PAGES] = pages
    return image


def upright(image: Image.Image, what: str) -> Image.Image:
    """``image`` turned as its EXIF entry says."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ImageOps.exif_transpose(image)
    except Exception as e:
        raise _damaged(what) from e


def _damaged(what: str) -> SherdError:
    return SherdError(f"{what}: is damaged or cut off; save or copy it again")


def _why(e: OSError) -> str:
    return e.strerror or type(e).__name__
