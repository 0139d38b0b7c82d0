"""Puzzles on disk: a folder of fragments, with what is known of them in ``puzzle.json``.

``puzzle.json`` of format 1::

    {"format": 1,
     "grid": [7, 10],            rows and columns, or null
     "gap": 4,                   pixels missing between neighbours, or null
     "pieces": ["000.png", ...], the fragments, in the order that the numbers below refer to
     "truth": [[12, 3, ...], ...] piece numbers per cell, -1 = the piece is missing; or null
     "pins": {"003.png": [2, 4]}, fragment -> row, column (from 0)
     "blocked": [[0, 0]],        cells that must stay empty
     "knowledge": {...}}         what else is known, see `sherd.puzzle.Knowledge`

A folder of images without ``puzzle.json`` is a puzzle of which nothing is known; a zip file of
either is as good. An alpha channel is the fragment's mask.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SherdError
from ..puzzle import Knowledge, Puzzle
from .atomic import Ours, new_folder
from .fragments import even, load_files, load_zip, unpack, unread
from .images import READABLE, write_png
from .zips import Limits

FORMAT = 1
PUZZLE_JSON = "puzzle.json"
PUZZLE_FOLDER = Ours(PUZZLE_JSON, r"puzzle\.json|\d{3,}\.png")
MAX_SIDE = 1000
"""Most rows or columns of a grid that is read: more is a slip of the keyboard."""
MAX_CELLS = 20_000
"""Most cells of a grid that is searched."""
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
    about: dict[str, Any] = {
        "format": FORMAT,
        "grid": None if puzzle.grid is None else list(puzzle.grid),
        "gap": puzzle.gap,
        "pieces": list(names),
        "truth": None if puzzle.truth is None else puzzle.truth.tolist(),
        "pins": {names[p]: list(cell) for p, cell in puzzle.pins.items()},
        "blocked": [list(cell) for cell in sorted(puzzle.blocked)],
    }
    if puzzle.knowledge:
        about["knowledge"] = puzzle.knowledge.to_entries(names)
    with new_folder(folder, PUZZLE_FOLDER, force=force) as part:
        for k, name in enumerate(names):
            write_png(
                part / name, puzzle.pieces[k], None if puzzle.mask is None else puzzle.mask[k]
            )
        write_json(part / PUZZLE_JSON, about)
    return names


def read_puzzle(
    source: str | os.PathLike[str],
    grid: tuple[int, int] | None = None,
    gap: int | None = None,
) -> Puzzle:
    """The puzzle in a folder or zip file, as `read_fragments` reads it."""
    return read_fragments(source, grid, gap)[0]


def read_fragments(
    source: str | os.PathLike[str],
    grid: tuple[int, int] | None = None,
    gap: int | None = None,
    *,
    limits: Limits | None = None,
) -> tuple[Puzzle, tuple[str, ...]]:
    """The puzzle in a folder or zip file, and notes on the files that had to be changed.

    ``grid`` and ``gap``, where given, go before what ``puzzle.json`` says.
    """
    source, limits = Path(source), limits or Limits()
    files = unpack(source, limits, PUZZLE_JSON)
    where = source / PUZZLE_JSON
    about: dict[str, Any] = {}
    names = None
    if files is not None and PUZZLE_JSON in files:
        about = parse_json(files.pop(PUZZLE_JSON), where)
        names = _checked(about, where)
    elif files is None and where.is_file():
        about = read_json(where)
        names = _checked(about, where)
    if files is None:
        loaded = load_files(source, names, limits)
    else:
        loaded = load_zip(files, source, names or list(files), limits)
    try:
        pieces, mask, notes = even(loaded)
    except SherdError as e:
        raise SherdError(f"{source}: {e}") from e
    if names is None:
        notes = (*(f"{name}: not read; expected {READABLE}" for name in unread(source)), *notes)
    given = None if about.get("grid") is None else (about["grid"][0], about["grid"][1])
    truth = about.get("truth")
    try:
        pins = Knowledge.named(loaded.names, pins=about.get("pins") or {})
        entries = about.get("knowledge")
        known = Knowledge.from_entries({} if entries is None else entries, loaded.names)
        puzzle = Puzzle(
            pieces,
            grid=grid or given,
            gap=about.get("gap") if gap is None else gap,
            mask=mask,
            blocked=frozenset((c[0], c[1]) for c in about.get("blocked") or []),
            truth=None if truth is None else np.array(truth),
            names=loaded.names,
            knowledge=pins | known,
        )
    except SherdError as e:
        raise SherdError(f"{where if about else source}: {e}") from e
    return puzzle, notes


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        text = path.read_bytes()
    except OSError as e:
        raise SherdError(f"{path}: cannot be read: {e.strerror or e}") from e
    return parse_json(text, path)


def parse_json(text: bytes, path: Path) -> dict[str, Any]:
    """The object in the text of a JSON file; ``path`` is its name in errors."""
    try:
        value = json.loads(text.decode("utf-8"))
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
    known = {"format", "grid", "gap", "pieces", "truth", "pins", "blocked", "knowledge"}
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
    pins = {} if about.get("pins") is None else about["pins"]
    blocked = [] if about.get("blocked") is None else about["blocked"]
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
