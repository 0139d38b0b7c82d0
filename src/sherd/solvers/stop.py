"""Stopping criteria: tiny classes behind one protocol."""

from __future__ import annotations

import time
from typing import Protocol

from ..errors import SherdError


class Stop(Protocol):
    """Called after every round of a search with its best score so far; True ends the search."""

    def __call__(self, best: float) -> bool: ...


class MaxRuntime:
    """Stop after ``seconds`` of wall time, counted from the first call."""

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise SherdError(f"time limit: {seconds} s; must be more than 0")
        self.seconds = seconds
        self._start: float | None = None

    def __call__(self, best: float) -> bool:
        now = time.perf_counter()
        if self._start is None:
            self._start = now
        return now - self._start >= self.seconds


class MaxRounds:
    """Stop after ``rounds`` calls."""

    def __init__(self, rounds: int) -> None:
        if rounds < 1:
            raise SherdError(f"rounds: {rounds}; must be at least 1")
        self.rounds = rounds
        self._seen = 0

    def __call__(self, best: float) -> bool:
        self._seen += 1
        return self._seen >= self.rounds


class NoImprovement:
    """Stop after ``rounds`` calls in a row that brought no better score."""

    def __init__(self, rounds: int) -> None:
        if rounds < 1:
            raise SherdError(f"rounds without improvement: {rounds}; must be at least 1")
        self.rounds = rounds
        self._best = float("-inf")
        self._since = 0

    def __call__(self, best: float) -> bool:
        if best > self._best + 1e-9 * abs(best):
            self._best, self._since = best, 0
            return False
        self._since += 1
        return self._since >= self.rounds


class AnyOf:
    """Stop as soon as one of several criteria says so."""

    def __init__(self, *criteria: Stop) -> None:
        self.criteria = criteria

    def __call__(self, best: float) -> bool:
        answers = [c(best) for c in self.criteria]  # all are asked: each counts its calls
        return any(answers)
