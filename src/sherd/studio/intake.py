"""Uploaded files made a puzzle: zips unpacked, every fragment looked at, a sheet for the page.

Runs in the desk's process, never in the server: whatever a file does to its reader, the server
lives. What is refused is refused with one sentence.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..data.folder import PUZZLE_JSON, read_fragments
from ..data.images import Picture, list_images
from ..data.zips import Limits, MiB, is_zip, read_zip
from ..errors import SherdError
from .uploads import safe_name, wanted

SHEET_PIXELS = 12_000_000
SHEET_CELL = 256
"""Longest side of a fragment on the sheet, in pixels."""
SHEET_SIDE = 12_000
"""Longest side of the sheet; WebP ends at 16383."""


def take_in(folder: Path, sheet: Path, limits: Limits) -> dict[str, Any]:
    """Check the fragments in ``folder``, draw ``sheet``, and say what is known of them."""
    for path in sorted(folder.iterdir()):
        if is_zip(path.name):
            unpack(path, folder, limits)
            path.unlink()
    check_sizes(folder, limits)
    puzzle, notes = read_fragments(folder, limits=limits)
    names, known = puzzle.names or (), puzzle.knowledge
    on_cells = known.not_in if puzzle.grid is not None else frozenset()  # the table shows those
    shape = draw_sheet(puzzle.pieces, puzzle.mask, sheet)
    return {
        "names": list(names),
        "size": list(puzzle.piece_size),
        "sheet": list(shape),
        "grid": None if puzzle.grid is None else list(puzzle.grid),
        "gap": puzzle.gap,
        "pins": [[p, *cell] for p, cell in puzzle.pins.items()],
        "blocked": [list(c) for c in sorted(puzzle.blocked)],
        "not_in": [[p, *cell] for p, cell in sorted(on_cells)],
        "known": replace(known, not_in=known.not_in - on_cells).to_entries(names),
        "notes": list(notes),
    }


def unpack(path: Path, folder: Path, limits: Limits) -> None:
    """Take the pictures out of a zip into ``folder``, all on one level, while there is room."""
    there = [p.stat().st_size for p in folder.iterdir() if wanted(p.name)]
    room = limits.total_bytes - sum(there)
    if room < 1:
        raise _too_much(limits)
    found = read_zip(path, replace(limits, total_bytes=room), (PUZZLE_JSON,))
    if len(there) + len(found) > limits.files + 1:  # one may be puzzle.json
        raise _too_many(limits)
    for text, data in found.items():
        to = folder / safe_name(text)
        if to.exists():
            raise SherdError(f"{to.name}: there are two files of this name; rename one.")
        to.write_bytes(data)


def check_sizes(folder: Path, limits: Limits) -> None:
    """Refuse too many or too large pictures by their headers, before any is decoded."""
    paths = list_images(folder)
    if len(paths) < 2:
        raise SherdError("One fragment alone is no puzzle; bring at least two.")
    if len(paths) > limits.files:
        raise _too_many(limits)
    if sum(p.stat().st_size for p in paths) > limits.total_bytes:
        raise _too_much(limits)
    total = 0
    for path in paths:
        h, w = Picture(path).dimensions()
        total += h * w
        if h * w > limits.pixels:
            raise SherdError(
                f"{path.name}: has {w}x{h} pixels; at most {limits.pixels // 10**6} million."
            )
        if min(h, w) < 4:
            raise SherdError(f"{path.name}: is {w}x{h} px; a fragment needs at least 4x4.")
        if total > limits.total_pixels:
            raise SherdError(
                f"The fragments have more than {limits.total_pixels // 10**6} million pixels."
            )


def _too_many(limits: Limits) -> SherdError:
    return SherdError(f"More than {limits.files} fragments; that is too many.")


def _too_much(limits: Limits) -> SherdError:
    return SherdError(f"More than {limits.total_bytes // MiB} MiB of fragments; too much.")


def draw_sheet(pieces: Any, masks: Any, path: Path) -> tuple[int, int]:
    """All fragments on one picture, row by row, scaled down; returns its rows and columns."""
    import numpy as np
    from PIL import Image

    n, h, w = pieces.shape[:3]
    cols = max(1, min(n, round(math.sqrt(n * h / w))))
    rows = -(-n // cols)
    scale = min(
        1.0,
        SHEET_CELL / max(h, w),
        math.sqrt(SHEET_PIXELS / (n * h * w)),
        SHEET_SIDE / max(rows * h, cols * w),
    )
    size = max(1, round(w * scale)), max(1, round(h * scale))
    canvas = Image.new("RGBA", (cols * size[0], rows * size[1]))
    for k in range(n):
        image = Image.fromarray(pieces[k]).convert("RGBA")
        if masks is not None:
            image.putalpha(Image.fromarray(np.where(masks[k], 255, 0).astype(np.uint8)))
        at = (k % cols) * size[0], (k // cols) * size[1]
        canvas.paste(image.resize(size, Image.Resampling.LANCZOS), at)
    part = path.with_name(f".{path.name}.part")
    (canvas if masks is not None else canvas.convert("RGB")).save(part, "WEBP", quality=90)
    part.replace(path)
    return rows, cols
