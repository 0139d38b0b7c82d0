"""Zip files from strangers: names and sizes are checked, and nothing they state is believed."""

from __future__ import annotations

import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..errors import SherdError
from .images import READABLE, SUFFIXES, natural_key

MiB = 2**20


@dataclass(frozen=True)
class Limits:
    """The most that one puzzle may bring."""

    files: int = 4000
    """Fragments."""
    file_bytes: int = 64 * MiB
    """Of one file, unpacked."""
    total_bytes: int = 1024 * MiB
    """Of all files together, unpacked."""
    zip_bytes: int = 1024 * MiB
    """Of a zip file as it is."""
    pixels: int = 80_000_000
    """Of one fragment."""
    total_pixels: int = 400_000_000
    """Of all fragments together."""

    def __post_init__(self) -> None:
        if min(vars(self).values()) < 1:
            raise SherdError("limits: must all be at least 1")


def is_zip(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this name is unpacked."""
    return Path(path).suffix.lower() == ".zip"


def read_zip(
    path: str | os.PathLike[str], limits: Limits | None = None, extra: tuple[str, ...] = ()
) -> dict[str, bytes]:
    """The pictures of a zip by file name, in natural order; files called ``extra`` come too.

    Folders inside do not count, other files are left. Bytes are counted as they are unpacked: a
    bomb ends at the limit, in memory, and nothing is written to disk.
    """
    limits, path = limits or Limits(), Path(path)
    try:
        if path.stat().st_size > limits.zip_bytes:
            raise SherdError(f"{path}: is over {limits.zip_bytes // MiB} MiB; pack fewer files")
        found: dict[str, bytes] = {}
        room = limits.total_bytes
        with zipfile.ZipFile(path) as archive:
            for info, name in _members(archive, path, limits, extra):
                found[name] = _unpacked(archive, info, path, min(room, limits.file_bytes))
                room -= len(found[name])
    except FileNotFoundError as e:
        raise SherdError(f"{path}: no such file") from e
    except (
        zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, ValueError
    ) as e:  # fmt: skip
        raise SherdError(f"{path}: is no zip file that can be read; pack it again") from e
    except RuntimeError as e:  # how zipfile says that a member is encrypted
        raise SherdError(f"{path}: is encrypted; pack it without a password") from e
    except OSError as e:
        raise SherdError(f"{path}: cannot be read: {e.strerror or e}") from e
    if not any(PurePosixPath(n).suffix.lower() in SUFFIXES for n in found):
        raise SherdError(f"{path}: holds no images; expected {READABLE} files")
    return {name: found[name] for name in sorted(found, key=natural_key)}


def _members(
    archive: zipfile.ZipFile, path: Path, limits: Limits, extra: tuple[str, ...]
) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    """The members that are wanted, with their plain file names."""
    infos = archive.infolist()
    if len(infos) > 4 * limits.files:
        raise SherdError(f"{path}: holds {len(infos)} files; at most {limits.files} are read")
    seen: set[str] = set()
    for info in infos:
        parts = info.filename.replace("\\", "/").split("/")
        if ".." in parts or parts[0] == "" or ":" in parts[0]:
            raise SherdError(f"{path}: holds {info.filename!r}, which points outside of it")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise SherdError(f"{path}: {parts[-1]!r} is a link; pack the file itself")
        name = parts[-1]
        if info.is_dir() or any(p.startswith(".") or p == "__MACOSX" for p in parts):
            continue  # what systems leave behind
        if PurePosixPath(name).suffix.lower() not in SUFFIXES and name not in extra:
            continue
        if name in seen:
            raise SherdError(f"{path}: holds two files called {name!r}; rename one")
        seen.add(name)
        if len(seen) > limits.files + len(extra):
            raise SherdError(f"{path}: holds more than {limits.files} images")
        yield info, name


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, most: int) -> bytes:
    with archive.open(info) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise SherdError(
            f"{path}: {info.filename!r} unpacks to more than there is room for ({most // MiB} MiB)"
        )
    return data
