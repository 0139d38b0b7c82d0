"""Writing whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import SherdError

CLUTTER = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""What file browsers leave behind."""


@dataclass(frozen=True)
class Ours:
    """How a folder that sherd wrote is known."""

    marker: str
    """A file that it holds in any case."""
    names: str
    """All that it may hold, as a regular expression."""


@contextmanager
def new_folder(
    target: str | os.PathLike[str], ours: Ours, *, force: bool = False
) -> Iterator[Path]:
    """A folder to write into that becomes ``target`` when the block ends without an error.

    It lies beside ``target`` meanwhile; on an error it is removed, with the parents that were
    made for it. A ``target`` with something in it is refused. ``force`` replaces it, but only if
    it is one of ``ours`` and holds nothing else: a mistyped name must not cost anyone their
    pictures.
    """
    target = Path(target)
    check_replaceable(target, ours, force)
    place = target.resolve()  # a link to a folder stays one
    parent = place.parent
    made = [p for p in (parent, *parent.parents) if not p.exists()]
    temp = parent / f".{place.name}.{secrets.token_hex(4)}.part"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        temp.mkdir()
    except OSError as e:
        _remove(temp, made)
        raise SherdError(f"{target}: cannot be written: {e.strerror or e}") from e
    try:
        yield temp
        _swap(temp, place, ours, force)
    except BaseException:
        _remove(temp, made)
        raise


def check_replaceable(target: Path, ours: Ours, force: bool) -> None:
    """Raise unless there is nothing at ``target``, or what `new_folder` may replace."""
    try:
        inside = os.listdir(target)
    except FileNotFoundError:
        return
    except NotADirectoryError as e:
        raise SherdError(f"{target}: cannot be written: it is a file, or below one") from e
    except OSError as e:
        raise SherdError(f"{target}: cannot be read: {e.strerror or e}") from e
    others = sorted(n for n in inside if n not in CLUTTER and not re.fullmatch(ours.names, n))
    if inside and (ours.marker not in inside or others):
        lacks = f"no {ours.marker}" if ours.marker not in inside else f"{others[0]} as well"
        raise SherdError(
            f"{target}: is not empty and holds {lacks}, so it is not replaced; "
            "choose another folder"
        )
    if inside and not force:
        raise SherdError(f"{target}: is not empty; choose another folder or pass --force")


def _swap(temp: Path, target: Path, ours: Ours, force: bool) -> None:
    """Put ``temp`` where ``target`` is; what was there goes only once the new one is in place."""
    check_replaceable(target, ours, force)  # again: solving may have taken minutes
    old = temp.with_suffix(".old")
    try:
        if target.exists():
            target.rename(old)
        try:
            temp.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
    except OSError as e:
        raise SherdError(f"{target}: cannot be written: {e.strerror or e}") from e
    shutil.rmtree(old, ignore_errors=True)


def _remove(temp: Path, made: list[Path]) -> None:
    shutil.rmtree(temp, ignore_errors=True)
    for parent in made:
        with suppress(OSError):
            parent.rmdir()
