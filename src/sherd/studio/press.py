"""What people take home: pictures, layouts and reports of a board, made when they are asked for."""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from .job import Job
from .store import Store
from .uploads import Refused
from .workers import Ended, Worker

MADE = {
    "picture.png": "image/png",
    "restored.png": "image/png",
    "layout.json": "application/json",
    "layout.csv": "text/csv",
    "report.html": "text/html",
}
"""What can be made of a board, and its media type."""
HEAVY = {"restored.png"}
"""Made where torch may be loaded."""
SECONDS = 600.0
"""The most that one file may take."""
IDLE_SECONDS = 600.0
"""After which the process that restores pictures, a large one, is let go."""


class Press:
    """Makes files, each once per board, in processes of their own: no search is waited for."""

    def __init__(self, store: Store, desk: Worker) -> None:
        self._store = store
        self._desk = desk
        self._painter = Worker("bench")
        self._making: dict[Path, asyncio.Task[None]] = {}

    async def make(self, job: Job, what: str) -> Path:
        """The file ``what`` of the present board, made now if there is none yet."""
        if job.table.board is None or job.state == "uploading":
            raise Refused("There is no board yet.", 409)
        about = {
            "title": job.title,
            "names": job.names,
            "gap": job.gap if job.gap is not None else job.found_gap,
            "table": {**job.table.entries(), "grid": None},  # it changes no picture
            "alternatives": [a.entries() for a in job.alternatives],
            "found": job.found,
            "notes": job.notes,
            "seconds": job.seconds,
        }
        mark = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
        path = self._store.made(job) / f"{mark}-{what}"
        if not path.exists():
            if path not in self._making:
                task = asyncio.create_task(self._make(job, what, path, about))
                self._making[path] = task
                task.add_done_callback(lambda _: self._making.pop(path, None))
            # shielded: one who turns away must not spoil it for the others
            await asyncio.shield(self._making[path])
        return path

    async def _make(self, job: Job, what: str, path: Path, about: dict[str, Any]) -> None:
        for old in self._store.made(job).glob(f"*-{what}"):
            with suppress(OSError):
                old.unlink()
        worker = self._painter if what in HEAVY else self._desk
        request = {
            "task": "make",
            "what": what,
            "folder": str(self._store.fragments(job)),
            "to": str(path),
            **about,
        }
        try:
            await worker.ask(request, seconds=SECONDS)
        except Ended as e:
            raise Refused("This could not be made.", 500) from e

    def rest(self) -> None:
        """Let processes go that have nothing to do."""
        self._painter.rest(IDLE_SECONDS)

    def kill(self) -> None:
        """End all work at once."""
        self._painter.kill()
