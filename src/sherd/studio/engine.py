"""All that the studio asks of sherd, in one place. Runs in the workers' processes."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SherdError

if TYPE_CHECKING:
    import numpy as np

    from ..puzzle import Puzzle
    from ..solvers import Callbacks

Send = Callable[[dict[str, Any]], None]
"""Takes one event to whoever watches."""

ROUND_SECONDS = 0.25
"""Rounds are reported no more often than this; boards always are."""


def warm(system: str) -> None:
    """Load what solving needs, so that the first job does not wait for it."""
    from ..solvers import make_solver

    make_solver(system)
    if system == "sherd":
        from ..solvers import sherd as default

        default._shipped()


def solve(
    folder: Path,
    *,
    names: list[str],
    grid: list[int] | None,
    gap: int | None,
    blocked: list[list[int]],
    known: dict[str, Any],
    table: dict[str, Any],
    go_on: bool,
    system: str,
    send: Send,
) -> dict[str, Any]:
    """Put the fragments in ``folder`` together, honouring the pins of ``table``.

    ``send`` hears of stages, boards and rounds. Returns board, confidence, gap, alternatives,
    notes and seconds.
    """
    import numpy as np

    from ..solvers import make_solver

    began = time.perf_counter()
    puzzle = _puzzle(folder, names, grid, gap)
    start = np.array(table["board"]) if go_on and table["board"] is not None else None
    if grid is None and start is not None:
        puzzle = replace(puzzle, grid=start.shape)
    puzzle = replace(
        puzzle,
        pins={p: (r, c) for p, r, c in table["pins"]},
        blocked=frozenset((r, c) for r, c in blocked),
    )
    result = make_solver(system).solve(puzzle, callbacks=_watch(send))
    return {
        "board": result.board.tolist(),
        "confidence": [[round(float(v), 4) for v in row] for row in result.confidence],
        "gap": puzzle.gap,
        "alternatives": [],
        "notes": [],
        "seconds": round(time.perf_counter() - began, 3),
    }


def _watch(send: Send) -> Callbacks:
    """Callbacks that send events on."""
    from ..solvers import Callbacks

    class Watch(Callbacks):
        """Every better board, and now and then a sign of life."""

        last = 0.0

        def on_stage(self, stage: str) -> None:
            send({"event": "stage", "stage": stage})

        def on_note(self, note: str) -> None:
            send({"event": "note", "note": note})

        def on_board(self, board: np.ndarray, score: float, round: int) -> None:
            send({"event": "board", "board": board.tolist(), "round": round})

        def on_round(self, round: int, best: float) -> None:
            now = time.perf_counter()
            if now - self.last > ROUND_SECONDS:
                self.last = now
                send({"event": "round", "round": round})

    return Watch()


def _puzzle(folder: Path, names: list[str], grid: list[int] | None, gap: int | None) -> Puzzle:
    """The fragments in the order of ``names``, without truth and pins: the table has those."""
    import numpy as np

    from ..data.folder import read_puzzle

    read = read_puzzle(folder)
    here = {name: k for k, name in enumerate(read.names or ())}
    if set(here) != set(names):
        raise SherdError("The fragments of this job are not what they were; upload them again.")
    puzzle = replace(read, truth=None, pins={}, blocked=frozenset(), grid=None, gap=gap)
    puzzle = puzzle.reordered(np.array([here[name] for name in names]))
    return puzzle if grid is None else replace(puzzle, grid=(grid[0], grid[1]))


# ------------------------------------------------------------------------ what people take home


def make(
    what: str,
    folder: Path,
    to: Path,
    *,
    title: str,
    names: list[str],
    gap: int | None,
    table: dict[str, Any],
    alternatives: list[dict[str, Any]],
) -> None:
    """Write what is asked for of the board of ``table`` to ``to``, whole or not at all."""
    part = to.with_name(f".{to.name}.part{to.suffix}")
    part.parent.mkdir(exist_ok=True)
    try:
        if what == "layout.json":
            part.write_text(layout_json(title, names, gap, table), "utf-8")
        elif what == "layout.csv":
            part.write_text(layout_csv(names, table), "utf-8")
        else:
            _draw(what, _puzzle(folder, names, None, gap), table, part)
        part.replace(to)
    finally:
        part.unlink(missing_ok=True)


def _draw(what: str, puzzle: Puzzle, table: dict[str, Any], to: Path) -> None:
    import numpy as np

    from ..pictures import render_board, save_picture

    board = np.array(table["board"])
    drawn = render_board(puzzle, board)
    if what == "restored.png":
        from ..perception.restore import restore
        from ..search.evolution import default_threads

        drawn = restore(puzzle, board, under=drawn, threads=default_threads())
    save_picture(drawn, to)


def layout_json(title: str, names: list[str], gap: int | None, table: dict[str, Any]) -> str:
    """The layout as JSON: the entries of ``result.json`` that a layout has."""
    board = table["board"]
    placed = {p for row in board for p in row}
    entries = {
        "format": 1,
        "title": title,
        "gap": gap,
        "unplaced": [name for k, name in enumerate(names) if k not in placed],
        "board": board,
        "names": [[names[p] if p >= 0 else None for p in row] for row in board],
        "confidence": table["confidence"],
        "pins": {names[p]: [r, c] for p, r, c in table["pins"]},
        "pieces": names,
    }
    lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items())
    return f"{{\n{lines}\n}}\n"


def layout_csv(names: list[str], table: dict[str, Any]) -> str:
    """The layout as a table for spreadsheets: a line per fragment, rows and columns from 1."""
    pinned = {p for p, _, _ in table["pins"]}
    sure = table["confidence"]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["file", "row", "column", "confidence", "pinned"])
    placed = set()
    for r, row in enumerate(table["board"]):
        for c, p in enumerate(row):
            if p < 0:
                continue
            placed.add(p)
            value = None if sure is None else sure[r][c]
            writer.writerow([_cell(names[p]), r + 1, c + 1, value, "yes" if p in pinned else "no"])
    for k, name in enumerate(names):
        if k not in placed:
            writer.writerow([_cell(name), "", "", "", "no"])
    return out.getvalue()


def _cell(text: str) -> str:
    """``text`` so that no spreadsheet takes it for a formula."""
    return f"'{text}" if text[:1] in "=+-@\t\r" else text
