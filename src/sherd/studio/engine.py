"""All that the studio asks of sherd, in one place. Runs in the workers' processes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SherdError

if TYPE_CHECKING:
    import numpy as np

    from ..fragments import Reassembly
    from ..puzzle import Puzzle
    from ..solvers import Callbacks

Send = Callable[[dict[str, Any]], None]
"""Takes one event to whoever watches."""

ROUND_SECONDS = 0.25
"""Rounds are reported no more often than this; boards always are."""
GRIDS = 12
"""Grids that were tried of which a job keeps record."""
DOUBTFUL = 5.0
"""Nats by which the grid that was found must lead, or others are named."""


def warm(system: str) -> None:
    """Load what solving needs, so that the first job does not wait for it."""
    from .. import fragments, perception, search  # noqa: F401
    from ..solvers import make_solver

    make_solver(system)
    if system == "sherd":
        from ..perception.mppn.weights import shipped_model

        shipped_model()


def solve(
    folder: Path,
    *,
    names: list[str],
    grid: list[int] | None,
    gap: int | None,
    blocked: list[list[int]],
    known: dict[str, Any],
    table: dict[str, Any],
    seen: list[list[int]] | None,
    system: str,
    send: Send,
) -> dict[str, Any]:
    """Put the fragments in ``folder`` together, honouring what ``table`` and ``known`` say.

    ``seen`` is the board to go on from. ``send`` hears of stages, notes, boards and rounds. Returns
    board, confidence, gap, alternatives, notes and seconds.
    """
    import numpy as np

    from ..fragments import solve as reassemble
    from ..puzzle import Knowledge

    began = time.perf_counter()
    puzzle = _puzzle(folder, names, gap)
    if grid is not None:
        cells = frozenset((r, c) for r, c in blocked)
        puzzle = replace(puzzle, grid=(grid[0], grid[1]), blocked=cells)
    knowledge = Knowledge.from_entries(known, names) | Knowledge(
        pins={p: (r, c) for p, r, c in table["pins"]},
        not_in=frozenset((p, (r, c)) for p, r, c in table["forbidden"]),
    )
    try:
        result = reassemble(
            puzzle,
            knowledge=knowledge,
            start=None if seen is None else np.array(seen),
            system=system,
            callbacks=_watch(send),
        )
    except SherdError as e:
        raise SherdError(_named(str(e), names)) from e
    return {
        "board": result.board.tolist(),
        "confidence": [[round(float(v), 4) for v in row] for row in result.confidence],
        "gap": result.puzzle.gap,
        "score": round(float(result.score), 3),
        "system": result.system,
        "grids": [asdict(g) for g in result.grids[:GRIDS]],
        "alternatives": [
            {
                "board": a.board.tolist(),
                "odds": round(float(a.odds), 4),
                "score": round(float(a.score), 3),
            }
            for a in result.alternatives
            if a.board.shape == result.board.shape
        ],
        "notes": _notes(result),
        "seconds": round(time.perf_counter() - began, 3),
    }


def _notes(result: Reassembly) -> list[str]:
    """What of a result's notes helps somebody who sees the grid and the gap on the page."""
    notes = [note for note in result.notes if _shown(note)]
    if result.grids:
        best = result.grids[0]
        close = [g.grid for g in result.grids[1:] if best.score - g.score < DOUBTFUL]
        if close:
            others = " or ".join(f"{rows} × {cols}" for rows, cols in close[:3])
            notes.insert(0, f"The grid is not certain: it could also be {others}.")
    return notes


def _shown(note: str) -> bool:
    return not note.startswith(("grid:", "gap:"))


def _named(message: str, names: list[str]) -> str:
    """A message that speaks of files, where sherd's speaks of piece numbers."""

    def name(match: re.Match[str]) -> str:
        k = int(match[1])
        return names[k] if k < len(names) else match[0]

    return re.sub(r"\bpiece (\d+)\b", name, message)


def _watch(send: Send) -> Callbacks:
    """Callbacks that send events on."""
    from ..solvers import Callbacks

    class Watch(Callbacks):
        """Every better board, and now and then a sign of life."""

        last = 0.0

        def on_stage(self, stage: str) -> None:
            send({"event": "stage", "stage": stage})

        def on_note(self, note: str) -> None:
            if _shown(note):
                send({"event": "note", "note": note})

        def on_board(self, board: np.ndarray, score: float, round: int) -> None:
            send({"event": "board", "board": board.tolist(), "round": round})

        def on_round(self, round: int, best: float) -> None:
            now = time.perf_counter()
            if now - self.last > ROUND_SECONDS:
                self.last = now
                send({"event": "round", "round": round})

    return Watch()


def _puzzle(folder: Path, names: list[str], gap: int | None) -> Puzzle:
    """The fragments in the order of ``names``, and nothing else that their folder knows."""
    import numpy as np

    from ..data.folder import read_puzzle
    from ..puzzle import Puzzle

    read = read_puzzle(folder)
    here = {name: k for k, name in enumerate(read.names or ())}
    if set(here) != set(names):
        raise SherdError("The fragments of this job are not what they were; upload them again.")
    order = np.array([here[name] for name in names])
    mask = None if read.mask is None else read.mask[order]
    return Puzzle(read.pieces[order], gap=gap, mask=mask, names=tuple(names))


# ------------------------------------------------------------------------ what people take home


def make(what: str, folder: Path, to: Path, **about: Any) -> None:
    """Write what is asked for of the board in ``about`` (see `Press.make`), whole or not at all."""
    part = to.with_name(f".{to.name}.part{to.suffix}")
    part.parent.mkdir(exist_ok=True)
    names, table = about["names"], about["table"]
    try:
        if what == "layout.json":
            part.write_text(layout_json(about["title"], names, about["gap"], table), "utf-8")
        elif what == "layout.csv":
            from ..fragments.save import layout_csv

            pinned = {p for p, _, _ in table["pins"]}
            text = layout_csv(names, table["board"], table["confidence"], pinned)
            part.write_text(text, "utf-8")
        else:
            _draw(
                what, _result(_puzzle(folder, names, about["gap"]), **about), about["title"], part
            )
        part.replace(to)
    finally:
        part.unlink(missing_ok=True)


def _draw(what: str, result: Reassembly, title: str, to: Path) -> None:
    if what == "report.html":
        from ..fragments.report import report_html

        to.write_text(report_html(result, title), "utf-8")
        return
    from ..pictures import save_picture

    save_picture(result.restored() if what == "restored.png" else result.image(), to)


def _result(
    puzzle: Puzzle,
    *,
    table: dict[str, Any],
    alternatives: list[dict[str, Any]],
    found: dict[str, Any],
    notes: list[str],
    seconds: float | None,
    **_: Any,
) -> Reassembly:
    """The board of ``table`` as a result. What a person pinned is certain, what nobody judged
    counts as 0; of a board that was changed by hand, a note says so."""
    import numpy as np

    from ..fragments import Alternative, GridTrial, Reassembly

    board = np.array(table["board"])
    sure = np.zeros(board.shape)
    if table["confidence"] is not None:
        sure = np.array([[v or 0.0 for v in row] for row in table["confidence"]], dtype=float)
    for p, r, c in table["pins"]:
        sure[r, c] = 1.0 if board[r, c] == p else sure[r, c]
    told = list(notes)
    if not found:
        told.append("The board was laid by hand.")
    elif found["board"] != table["board"]:
        told.append("The board was changed by hand; the score is that of the board that was found.")
    grids = [{**g, "grid": tuple(g["grid"])} for g in found.get("grids", [])]
    others = [(np.array(a["board"]), a) for a in alternatives]
    return Reassembly(
        board=board,
        score=found.get("score", 0.0),
        confidence=sure,
        evidence=None,
        system=found.get("system", "by hand"),
        seed=0,
        timings={"total": seconds or 0.0},
        puzzle=replace(puzzle, grid=board.shape),
        alternatives=tuple(
            Alternative(other, a["score"], other != board, a["odds"])
            for other, a in others
            if other.shape == board.shape
        ),
        grids=tuple(GridTrial(**g) for g in grids),
        notes=tuple(told),
    )


def layout_json(title: str, names: list[str], gap: int | None, table: dict[str, Any]) -> str:
    """The layout with the entries of ``result.json`` that it has; null = not judged."""
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
