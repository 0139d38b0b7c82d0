"""Puzzles on disk: a folder of fragments, with what is known of them in ``puzzle.json``.

``puzzle.json`` of format 1::

    {"format": 1,
     "grid": [7, 10],            rows and columns, or null
     "gap": 4,                   pixels missing between neighbours, or null
     "pieces": ["000.png", ...], the fragments, in the order that the numbers below refer to
     "truth": [[12, 3, ...], ...] piece numbers per cell, -1 = the piece is missing; or null
     "pins": {"003.png": [2, 4]}, fragment -> row, column (from 0)
     "blocked": [[0, 0]]}        cells that must stay empty

A folder of equally large images without ``puzzle.json`` is a puzzle of which nothing is known.
An alpha channel is the fragment's mask.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SherdError
from ..puzzle import Puzzle
from .atomic import new_folder
from .images import list_images, read_fragment, same_size, write_png

FORMAT = 1
PUZZLE_JSON = "puzzle.json"
MAX_SIDE = 1000
"""Most rows or columns of a grid that is read: more is a slip of the keyboard."""
MAX_GAP = 10_000
"""Widest gap in pixels that is read."""


def write_puzzle(
    folder: str | os.PathLike[str], puzzle: Puzzle, *, force: bool = False
) -> tuple[str, ...]:
    """Write ``puzzle``, in its order of pieces, and return the fragments' file names.

    Shuffle before writing: a folder in true order gives the answer away. The folder appears
    whole or not at all.
    """
    digits = max(3, len(str(puzzle.n - 1)))
    names = tuple(f"{k:0{digits}d}.png" for k in range(puzzle.n))
    about = {
        "format": FORMAT,
        "grid": None if puzzle.grid is None else list(puzzle.grid),
        "gap": puzzle.gap,
        "pieces": list(names),
        "truth": None if puzzle.truth is None else puzzle.truth.tolist(),
        "pins": {names[p]: list(cell) for p, cell in puzzle.pins.items()},
        "blocked": [list(cell) for cell in sorted(puzzle.blocked)],
    }
    with new_folder(folder, marker=PUZZLE_JSON, force=force) as part:
        for k, name in enumerate(names):
            write_png(
                part / name, puzzle.pieces[k], None if puzzle.mask is None else puzzle.mask[k]
            )
        write_json(part / PUZZLE_JSON, about)
    return names


def read_puzzle(
    folder: str | os.PathLike[str],
    grid: tuple[int, int] | None = None,
    gap: int | None = None,
) -> Puzzle:
    """The puzzle in ``folder``. ``grid`` and ``gap``, where given, go before what the file says."""
    folder = Path(folder)
    about: dict[str, Any] = {}
    where = folder / PUZZLE_JSON
    if where.is_file():
        about = read_json(where)
        names = _checked(about, where)
    else:
        names = [p.name for p in list_images(folder)]
    fragments, masks = zip(*(read_fragment(folder / n) for n in names), strict=True)
    same_size(names, fragments)
    mask = None
    if any(m is not None for m in masks):
        whole = np.ones(fragments[0].shape[:2], dtype=bool)
        mask = np.stack([whole if m is None else m for m in masks])
    index = {name: k for k, name in enumerate(names)}
    given = None if about.get("grid") is None else (about["grid"][0], about["grid"][1])
    truth = about.get("truth")
    try:
        return Puzzle(
            np.stack(fragments),
            grid=grid or given,
            gap=about.get("gap") if gap is None else gap,
            mask=mask,
            pins={index[n]: (c[0], c[1]) for n, c in (about.get("pins") or {}).items()},
            blocked=frozenset((c[0], c[1]) for c in about.get("blocked") or []),
            truth=None if truth is None else np.array(truth),
            names=tuple(names),
        )
    except SherdError as e:
        raise SherdError(f"{where if about else folder}: {e}") from e


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise SherdError(f"{path}: cannot be read: {e.strerror or e}") from e
    except ValueError as e:  # bad JSON, or bytes that are no UTF-8
        raise SherdError(f"{path}: is no valid JSON: {e}") from e
    except RecursionError as e:
        raise SherdError(f"{path}: is no valid JSON: nested too deeply") from e
    if not isinstance(value, dict):
        raise SherdError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write ``value`` as JSON, a line per entry."""
    lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
    try:
        path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    except OSError as e:
        raise SherdError(f"{path}: cannot be written: {e.strerror or e}") from e


def _checked(about: dict[str, Any], where: Path) -> list[str]:
    """The fragments' names, once every entry of ``puzzle.json`` is of its form."""
    if about.get("format") != FORMAT:
        raise SherdError(f"{where}: format is {about.get('format')!r}; this version reads {FORMAT}")
    known = {"format", "grid", "gap", "pieces", "truth", "pins", "blocked"}
    if unknown := sorted(set(about) - known):
        raise SherdError(f"{where}: unknown entry {unknown[0]!r}; known are {sorted(known)}")
    names = about.get("pieces")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise SherdError(f"{where}: pieces: expected a list of file names")
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
            raise SherdError(f"{where}: pieces: {name!r} is no plain file name")
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise SherdError(f"{where}: pieces: {twice!r} is listed twice")
    grid, gap, truth = about.get("grid"), about.get("gap"), about.get("truth")
    if grid is not None and not (_is_cell(grid) and max(grid) <= MAX_SIDE):
        raise SherdError(
            f"{where}: grid: {grid!r}; expected [rows, columns] of at most {MAX_SIDE}, or null"
        )
    if gap is not None and not (_is_int(gap) and gap <= MAX_GAP):
        raise SherdError(f"{where}: gap: {gap!r}; expected 0 to {MAX_GAP} pixels, or null")
    if truth is not None:
        check_rows(truth, f"{where}: truth")
    pins, blocked = about.get("pins") or {}, about.get("blocked") or []
    if not isinstance(pins, dict) or not all(_is_cell(c) for c in pins.values()):
        raise SherdError(f'{where}: pins: expected {{"file name": [row, column]}}')
    for name in pins:
        if name not in names:
            raise SherdError(f"{where}: pins: {name!r} is none of the pieces")
    if not isinstance(blocked, list) or not all(_is_cell(c) for c in blocked):
        raise SherdError(f"{where}: blocked: expected a list of [row, column]")
    return names


def check_rows(rows: Any, what: str) -> None:
    """Raise unless ``rows`` is a list of equally long lists of whole numbers."""
    good = isinstance(rows, list) and bool(rows) and all(isinstance(r, list) and r for r in rows)
    if not good or not all(_is_int(v) for r in rows for v in r):
        raise SherdError(f"{what}: expected a list of rows of piece numbers")
    if len({len(r) for r in rows}) > 1:
        raise SherdError(f"{what}: its rows differ in length")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31


def _is_cell(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(_is_int(v) for v in value)
