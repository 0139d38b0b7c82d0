"""What may be uploaded, and taking it in: names are checked, bytes are counted as they come."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import unicodedata
from collections.abc import AsyncIterator, Callable
from pathlib import Path, PurePosixPath

from ..data.folder import PUZZLE_JSON
from ..data.images import READABLE, SUFFIXES
from ..data.zips import Limits, MiB, is_zip
from ..errors import SherdError

CHUNK_SECONDS = 60.0
"""How long an upload may stand still."""
NAME_BYTES = 150
ROOM = 256 * MiB
"""Disk that must stay free."""
_RESERVED = {"con", "prn", "aux", "nul", *(f"{d}{k}" for d in ("com", "lpt") for k in range(10))}
"""What Windows takes for a device, whatever its ending."""


LIMITS = Limits(
    files=2000,
    file_bytes=64 * MiB,
    total_bytes=512 * MiB,
    zip_bytes=512 * MiB,
    pixels=25_000_000,
    total_pixels=160_000_000,
)
"""The most that one job may bring if nobody says otherwise."""


class Refused(SherdError):
    """An upload that is not taken. ``status`` is HTTP's word for why."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


def wanted(name: str) -> bool:
    """Whether a file of this name can be part of a puzzle."""
    return PurePosixPath(name).suffix.lower() in SUFFIXES or name == PUZZLE_JSON


def safe_name(text: str) -> str:
    """The last part of a path that a browser or a zip gave, fit to be a file's name; or raise."""
    if "\0" in text or any(part == ".." for part in text.replace("\\", "/").split("/")):
        raise Refused(f"{_shown(text)}: is no plain file name.")
    name = unicodedata.normalize("NFC", text.replace("\\", "/").rsplit("/", 1)[-1])
    bad = (
        not name
        or name.startswith(".")
        or name != name.strip()
        or any(unicodedata.category(c)[0] == "C" or c in '<>:"|?*' for c in name)
        or len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES
        or name.split(".")[0].lower() in _RESERVED
    )
    if bad:
        raise Refused(f"{_shown(text)}: is no plain file name.")
    return name


def _shown(text: str) -> str:
    """``text`` as it can be printed: short, and without control characters."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= 60 else f"{clean[:57]}..."


async def receive(
    stream: AsyncIterator[bytes],
    folder: Path,
    text: str,
    declared: int | None,
    limits: Limits,
    check: Callable[[], None],
) -> str:
    """Write an uploaded file into ``folder`` under its safe name, which is returned.

    The file appears only once all of it is there. ``declared`` is what the sender said its length
    would be; a shorter file was cut off on the way. ``check`` raises if it comes too late.
    """
    name = safe_name(text)
    if not (wanted(name) or is_zip(name)):
        raise Refused(f"{_shown(name)}: is neither a picture nor a zip; expected {READABLE}.", 415)
    most = limits.zip_bytes if is_zip(name) else limits.file_bytes
    if declared is not None and declared > most:
        raise Refused(f"{_shown(name)}: is larger than {most // MiB} MiB.", 413)
    present = [p for p in folder.iterdir() if not p.name.startswith(".")]
    if any(p.name.casefold() == name.casefold() for p in present):
        raise Refused(f"{_shown(name)}: there are two files of this name; rename one.", 409)
    if len(present) >= limits.files:
        raise Refused(f"More than {limits.files} files; that is too many.", 413)
    if shutil.disk_usage(folder).free < ROOM + (declared or 0):
        raise Refused("The disk is full. Delete what is done first.", 507)
    room = limits.zip_bytes + limits.total_bytes - sum(p.stat().st_size for p in present)
    part = folder / f".{secrets.token_hex(8)}.part"
    size = 0
    try:
        with part.open("xb") as file:
            while True:
                try:
                    chunk = await asyncio.wait_for(anext(stream, b""), CHUNK_SECONDS)
                except TimeoutError as e:
                    raise Refused(f"{_shown(name)}: the upload stood still.", 408) from e
                if not chunk:
                    break
                size += len(chunk)
                if size > min(most, room):
                    raise Refused(
                        f"{_shown(name)}: is larger than {min(most, room) // MiB} MiB.", 413
                    )
                file.write(chunk)
        if declared is not None and size != declared:
            raise Refused(f"{_shown(name)}: the upload was cut off; send it again.", 400)
        if size == 0:
            raise Refused(f"{_shown(name)}: is empty.")
        check()
        part.rename(folder / name)
    finally:
        part.unlink(missing_ok=True)
    return name
