"""A job: fragments that somebody brought, and everything that was found of them."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from ..errors import SherdError
from .table import Cell, Rows, Table

FORMAT = 1
UNDO = 50
"""Steps that can be taken back."""

State = Literal[
    "uploading", "ready", "waiting", "running", "done", "stopped", "failed", "interrupted"
]
"""What a job may be. ``stopped``: by its owner; ``failed``: the solver gave up, ``message`` says
why; ``interrupted``: the studio ended while it was running."""
BUSY = ("waiting", "running")
ID = re.compile(r"[A-Za-z0-9_-]{16}")


@dataclass
class Alternative:
    """Another board, nearly as good."""

    board: Rows
    odds: float
    """How likely it is against the board that was chosen, 0..1."""
    score: float
    """By the solver's objective."""

    def entries(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"board": self.board, "odds": self.odds, "score": self.score}


@dataclass
class Job:
    """One job. Only the studio's own loop changes it, so nothing here is locked."""

    id: str
    title: str
    created: float
    """Seconds since 1970, as ``changed``."""
    changed: float
    version: int = 0
    """Counts changes: of two views, the page shows the one with the higher number."""
    state: State = "uploading"
    message: str = ""
    """One sentence for its owner; empty when there is nothing to say."""
    names: tuple[str, ...] = ()
    """File names of the fragments, in the order that boards refer to."""
    size: tuple[int, int] = (0, 0)
    """Height and width of a fragment in pixels."""
    sheet: tuple[int, int] = (0, 0)
    """Rows and columns of the sheet of fragments that the page shows."""
    gap: int | None = None
    """Pixels missing between neighbours, where the owner knows them."""
    found_gap: int | None = None
    """The gap that the solver took."""
    found: dict[str, Any] = field(default_factory=dict)
    """What the last run said of its board: ``board``, ``score``, ``system``, ``grids``."""
    blocked: tuple[tuple[int, int], ...] = ()
    """Cells that must stay empty."""
    known: dict[str, Any] = field(default_factory=dict)
    """What its ``puzzle.json`` knew beyond cells, as `Knowledge.to_entries` writes it."""
    table: Table = field(default_factory=Table)
    past: list[Table] = field(default_factory=list)
    future: list[Table] = field(default_factory=list)
    alternatives: list[Alternative] = field(default_factory=list)
    seconds: float | None = None
    """How long the last run took."""
    runs: int = 0
    go_on: bool = False
    """Whether the run that waits or runs goes on from the board."""
    live: Rows | None = None
    """The best board of a run that is not over."""
    notes: tuple[str, ...] = ()
    """What the last run has to say, a sentence each."""

    @property
    def grid(self) -> Cell | None:
        """Rows and columns, where the owner knows them. Undo takes them back with the board."""
        return self.table.grid

    def lay(self, table: Table) -> None:
        """Put ``table`` in place of the present one, which undo brings back."""
        if table != self.table:
            self.past = [*self.past, self.table][-UNDO:]
            self.future = []
            self.table = table

    def keep_live(self) -> None:
        """Lay the best board of a run that ended too early; nobody has judged it."""
        if self.live is not None:
            self.lay(replace(self.table, board=self.live, confidence=None))
        self.live = None

    def undo(self) -> bool:
        """Take one step back; False when there is none."""
        if self.past:
            self.future.append(self.table)
            self.table = self.past.pop()
            return True
        return False

    def redo(self) -> bool:
        """Take one step forth again; False when there is none."""
        if self.future:
            self.past.append(self.table)
            self.table = self.future.pop()
            return True
        return False

    def entries(self) -> dict[str, Any]:
        """Everything, as ``job.json`` has it."""
        return {
            "format": FORMAT,
            **self.summary(),
            "version": self.version,
            "size": self.size,
            "sheet": self.sheet,
            "names": self.names,
            "grid": self.grid,
            "gap": self.gap,
            "found_gap": self.found_gap,
            "found": self.found,
            "blocked": self.blocked,
            "known": self.known,
            "seconds": self.seconds,
            "runs": self.runs,
            "go_on": self.go_on,
            "live": self.live,
            "notes": self.notes,
            "table": self.table.entries(),
            "past": [t.entries() for t in self.past],
            "future": [t.entries() for t in self.future],
            "alternatives": [a.entries() for a in self.alternatives],
        }

    def summary(self) -> dict[str, Any]:
        """What a list of jobs shows."""
        return {
            "id": self.id,
            "title": self.title,
            "created": self.created,
            "changed": self.changed,
            "state": self.state,
            "message": self.message,
            "pieces": len(self.names),
        }

    def view(self) -> dict[str, Any]:
        """What the page shows: everything but the tables that undo keeps."""
        entries = self.entries()
        found = _rows(entries.pop("found").get("board"))
        entries["by_hand"] = found is not None and found != self.table.board
        return {**entries, "past": len(self.past), "future": len(self.future)}

    @classmethod
    def of(cls, entries: Any) -> Job:
        """From what `entries` wrote."""
        if not isinstance(entries, dict) or entries.get("format") != FORMAT:
            raise SherdError("job.json: is of another version")
        if entries.get("state") not in get_args(State):
            raise SherdError(f"job.json: state is {entries.get('state')!r}")
        return cls(
            id=entries["id"],
            title=entries["title"],
            created=float(entries["created"]),
            changed=float(entries["changed"]),
            version=entries["version"],
            state=entries["state"],
            message=entries["message"],
            names=tuple(entries["names"]),
            size=_pair(entries["size"]),
            sheet=_pair(entries["sheet"]),
            gap=entries["gap"],
            found_gap=entries["found_gap"],
            found=entries["found"],
            blocked=tuple(_pair(c) for c in entries["blocked"]),
            known=entries["known"],
            table=_table(entries["table"], entries["grid"]),
            past=[_table(t, entries["grid"]) for t in entries["past"]],
            future=[_table(t, entries["grid"]) for t in entries["future"]],
            alternatives=[
                Alternative(_rows(a["board"]) or (), a["odds"], a["score"])
                for a in entries["alternatives"]
            ],
            seconds=entries["seconds"],
            runs=entries["runs"],
            go_on=entries["go_on"],
            live=_rows(entries["live"]),
            notes=tuple(entries["notes"]),
        )


def _rows(board: Any) -> Rows | None:
    return None if board is None else tuple(tuple(row) for row in board)


def _pair(values: Any) -> tuple[int, int]:
    return int(values[0]), int(values[1])


def new_job(title: str) -> Job:
    """A job that waits for its files. Its id cannot be guessed."""
    now = time.time()
    return Job(secrets.token_urlsafe(12), title, now, now)


def _table(entries: dict[str, Any], grid: Any) -> Table:
    """A table; one of an earlier version does not say its grid: its own, if ``grid`` is known."""
    board = entries["board"]
    shape = grid if board is None else [len(board), len(board[0])]
    return Table.of({"grid": None if grid is None else shape, **entries})
