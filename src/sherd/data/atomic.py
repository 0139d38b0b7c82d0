"""Writing whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import SherdError


@contextmanager
def new_folder(
    target: str | os.PathLike[str], *, marker: str, force: bool = False
) -> Iterator[Path]:
    """A folder to write into that becomes ``target`` when the block ends without an error.

    It lies beside ``target`` meanwhile; on an error it is removed, with the parents that were
    made for it. A ``target`` with something in it is refused. ``force`` replaces it, but only if
    it holds ``marker``, the file by which a folder that sherd wrote is known: a mistyped name
    must not cost anyone their pictures.
    """
    target = Path(target)
    _check(target, marker, force)
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
        _swap(temp, place, marker, force)
    except BaseException:
        _remove(temp, made)
        raise


def _check(target: Path, marker: str, force: bool) -> None:
    try:
        inside = os.listdir(target)
    except FileNotFoundError:
        return
    except NotADirectoryError as e:
        raise SherdError(f"{target}: cannot be written: it is a file, or below one") from e
    except OSError as e:
        raise SherdError(f"{target}: cannot be read: {e.strerror or e}") from e
    if inside and not force:
        raise SherdError(f"{target}: is not empty; choose another folder or pass --force")
    if inside and marker not in inside:
        raise SherdError(
            f"{target}: is not empty and holds no {marker}, so it is not replaced; "
            "choose another folder"
        )


def _swap(temp: Path, target: Path, marker: str, force: bool) -> None:
    """Put ``temp`` where ``target`` is; what was there goes only once the new one is in place."""
    _check(target, marker, force)  # again: solving may have taken minutes
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
