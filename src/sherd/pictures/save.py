"""Pictures to files: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image

from ..errors import SherdError


@contextmanager
def whole_file(path: str | os.PathLike[str], kinds: tuple[str, ...]) -> Iterator[IO[bytes]]:
    """A binary file to write to, which takes the name ``path`` when the block ends without error.

    ``kinds`` are the file name endings that are allowed, such as ``(".png",)``.
    """
    path = Path(path)
    if path.suffix.lower() not in kinds:
        raise SherdError(f"{path}: the name must end in {' or '.join(kinds)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as e:
        raise SherdError(f"{path}: cannot be written ({e.strerror})") from e
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())  # mkstemp makes it private
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def save_picture(picture: np.ndarray, path: str | os.PathLike[str]) -> None:
    """Write a ``(height, width, 3) uint8`` picture as PNG or JPEG."""
    with whole_file(path, (".png", ".jpg", ".jpeg")) as file:
        if Path(path).suffix.lower() == ".png":
            Image.fromarray(picture).save(file, "PNG", optimize=True)
        else:
            Image.fromarray(picture).save(file, "JPEG", quality=92)
