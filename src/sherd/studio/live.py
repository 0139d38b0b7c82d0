"""Who watches which job, and what they are told."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from .table import Rows

BACKLOG = 256
"""Messages that wait for one watcher; a slower one misses the oldest."""
FILM = 400
"""Boards of one run that are kept to be watched again."""

Message = dict[str, Any]


@dataclass
class Run:
    """A run in progress."""

    began: float = field(default_factory=time.monotonic)
    stage: str = "start"
    round: int = 0
    film: list[Rows] = field(default_factory=list)
    saved: float = 0.0
    """When the job was last written."""

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self.began

    def shot(self, board: Rows) -> None:
        """Keep a board; of a long film, every other early one is dropped."""
        self.film.append(board)
        if len(self.film) > FILM:
            self.film = self.film[: FILM // 2 : 2] + self.film[FILM // 2 :]

    def entries(self) -> Message:
        """What a watcher who comes late is told."""
        return {"stage": self.stage, "round": self.round, "seconds": round(self.seconds, 2)}


class Hub:
    """Hands messages to everybody who watches a job."""

    def __init__(self) -> None:
        self._watchers: defaultdict[str, set[asyncio.Queue[Message]]] = defaultdict(set)

    def watch(self, job_id: str) -> asyncio.Queue[Message]:
        """A queue that gets every message about the job from now on."""
        box: asyncio.Queue[Message] = asyncio.Queue(BACKLOG)
        self._watchers[job_id].add(box)
        return box

    def leave(self, job_id: str, box: asyncio.Queue[Message]) -> None:
        """Watch no longer."""
        self._watchers[job_id].discard(box)
        if not self._watchers[job_id]:
            del self._watchers[job_id]

    def tell(self, job_id: str, message: Message) -> None:
        """Tell everybody who watches the job."""
        for box in self._watchers.get(job_id, ()):
            if box.full():
                box.get_nowait()
            box.put_nowait(message)

    def watched(self) -> list[str]:
        """Jobs that somebody watches."""
        return list(self._watchers)
