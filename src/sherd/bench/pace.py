"""How long the rest of a benchmark takes, from what puzzles like these have taken so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .records import Record
from .worker import Task

POWER = 1.5
"""Seconds grow as pieces to this power between two sizes of which only one was timed. Between what
was measured of a fast search (1.1) and of systems that compare all pairs (2)."""

Kind = tuple[str, int, int]
"""System, pieces of a puzzle, side of a piece."""


@dataclass(frozen=True)
class Remaining:
    """What is left of a run."""

    seconds: float
    """Of wall-clock time, for the puzzles that can be estimated."""
    unknown: int
    """Puzzles of systems that were never timed."""

    def __str__(self) -> str:
        text = clock(self.seconds)
        if self.unknown:
            text += f" and {self.unknown} puzzles not timed yet"
        return text


def clock(seconds: float) -> str:
    """``2 h 05 min``, ``3 min 20 s`` or ``8 s``."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


class Pace:
    """Mean seconds per system and size, as far as they were seen."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._seen: dict[Kind, tuple[float, int]] = {}
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Take note of a solved puzzle; its wall time, cutting and scoring included."""
        rows, cols = map(int, record["grid"].split("x"))
        kind = record["system"], rows * cols, record["pieces"]
        seconds, count = self._seen.get(kind, (0.0, 0))
        self._seen[kind] = seconds + (record.get("wall") or record["seconds"]), count + 1

    def estimate(self, kind: Kind) -> float | None:
        """Seconds of a puzzle; None if its system was never timed.

        By puzzles of the same size where there are any, else by the nearest size, scaled.
        """
        system, n, side = kind
        if kind in self._seen:
            return self._mean(kind)
        others = [k for k in self._seen if k[0] == system]
        if not others:
            return None
        near = min(others, key=lambda k: (max(k[1], n) / min(k[1], n), abs(k[2] - side)))
        return self._mean(near) * (n / near[1]) ** POWER

    def _mean(self, kind: Kind) -> float:
        seconds, count = self._seen[kind]
        return seconds / count

    def remaining(self, left: Mapping[Kind, int], jobs: int) -> Remaining:
        """Of so many puzzles of each kind, run by ``jobs`` processes: no less than the longest."""
        known = {k: s for k, c in left.items() if c and (s := self.estimate(k)) is not None}
        total = sum(s * left[k] for k, s in known.items())
        unknown = sum(c for k, c in left.items() if k not in known)
        return Remaining(max(total / jobs, max(known.values(), default=0.0)), unknown)

    def ordered(self, tasks: Sequence[Task]) -> list[Task]:
        """Longest first, those never timed at the head by their size: so the last puzzles of a run
        are short, all cores have work until the end, and what remains is known early."""

        def cost(task: Task) -> tuple[bool, float]:
            seconds = self.estimate(kind_of(task))
            return seconds is None, kind_of(task)[1] if seconds is None else seconds

        return sorted(tasks, key=cost, reverse=True)

    def probes(self, tasks: Sequence[Task]) -> list[Task]:
        """The first task of every system and size that was not timed yet, largest first."""
        first: dict[Kind, Task] = {}
        for task in tasks:
            if kind_of(task) not in self._seen:
                first.setdefault(kind_of(task), task)
        return sorted(first.values(), key=lambda t: kind_of(t)[1], reverse=True)


def kind_of(task: Task) -> Kind:
    """What a puzzle's time depends on, above all."""
    rows, cols = task.item.grid
    return task.system, rows * cols, task.item.piece
