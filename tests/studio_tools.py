"""A studio in a process of its own, and a small client to talk to it."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from PIL import Image

from sherd import Geometry, Puzzle, cut
from sherd.data.zips import Limits

SITE = Path(__file__).parent / "studio_site"
SERVE = """
import json, sys
from pathlib import Path
from sherd.data.zips import Limits
from sherd.studio.server import serve
words = json.loads(sys.argv[1])
limits = Limits(**words.pop("limits")) if "limits" in words else None
ready = lambda address: print(address, flush=True)
serve(Path(words.pop("folder")), port=0, limits=limits, on_ready=ready, **words)
"""
SECONDS = 120.0
"""Before a test gives up; nothing here should take a tenth of it."""


class Studio:
    """A server process and its folder."""

    def __init__(
        self,
        folder: Path,
        *,
        system: str = "evolve",
        limits: Limits | None = None,
        log: Path | None = None,
        **words: Any,
    ) -> None:
        self.folder = folder
        self.log = log
        self.hold = folder.parent / f"{folder.name}.hold"
        self._words = {"folder": str(folder), "system": system, **words}
        if limits is not None:
            self._words["limits"] = asdict(limits)
        self.start()

    def start(self) -> None:
        """Begin, or begin again in the same folder."""
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(SITE), os.environ.get("PYTHONPATH", "")]),
            "STUDIO_HOLD": str(self.hold),
            "OMP_NUM_THREADS": "1",
            "SHERD_THREADS": "1",
        }
        with contextlib.nullcontext() if self.log is None else self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVE, json.dumps(self._words)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=env,
            )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), "the studio did not start"
        self.port = int(re.findall(r":(\d+)", self.address)[0])

    def end(self, how: int = signal.SIGTERM) -> None:
        """End the server process."""
        self.process.send_signal(how)
        self.process.wait(timeout=SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ask(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Status and JSON of one request; the bytes where the answer is no JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        head = dict(headers or {})
        if value is not None:
            body, head["Content-Type"] = json.dumps(value).encode(), "application/json"
        try:
            connection.request(method, path, body=body, headers=head)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        kind = answer.headers.get("content-type", "")
        return answer.status, json.loads(text) if kind.startswith("application/json") else text

    def good(self, method: str, path: str, value: Any = None, **words: Any) -> Any:
        """The answer to a request that must be granted."""
        status, answer = self.ask(method, path, value, **words)
        assert status < 300, answer
        return answer

    def put(self, job: str, name: str, data: bytes) -> tuple[int, Any]:
        """Upload one file."""
        return self.ask("PUT", f"/api/jobs/{job}/files?name={quote(name, safe='')}", body=data)

    def bring(self, files: dict[str, bytes], title: str = "test") -> tuple[int, Any]:
        """A job of ``files``: the first refusal, or the answer to the last request."""
        job = self.good("POST", "/api/jobs", {"title": title})["id"]
        for name, data in files.items():
            status, answer = self.put(job, name, data)
            if status >= 300:
                self.ask("DELETE", f"/api/jobs/{job}")
                return status, answer
        return self.ask("POST", f"/api/jobs/{job}/complete", {"files": len(files)})

    def job(self, job: str) -> dict[str, Any]:
        """A job as the page sees it."""
        found = self.good("GET", f"/api/jobs/{job}")
        assert isinstance(found, dict)
        return found

    def wait(self, job: str, *states: str) -> dict[str, Any]:
        """The job once it is in one of ``states``."""
        return until(lambda: self.job(job), lambda j: j["state"] in states)


def until(look: Callable[[], Any], good: Callable[[Any], bool]) -> Any:
    """What ``look`` finds once it is ``good``."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = look()
        if good(found):
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited in vain: {found}")


def png(image: np.ndarray) -> bytes:
    """A PNG file."""
    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return out.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    """A zip file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def puzzle_of(
    photo: np.ndarray, grid: tuple[int, int] = (3, 4), seed: int = 0, piece: int = 40
) -> Puzzle:
    """Shuffled fragments with 2 px missing between them, and their truth."""
    whole = cut(photo, Geometry(grid, (piece, piece), 2), fit="crop")
    return whole.puzzle.shuffled(np.random.default_rng(seed))


def files_of(puzzle: Puzzle, *, tell_grid: bool = True) -> dict[str, bytes]:
    """The puzzle as files; a puzzle.json says its grid and gap, but not its truth."""
    names = [f"f{k:03d}.png" for k in range(puzzle.n)]
    files = {name: png(piece) for name, piece in zip(names, puzzle.pieces, strict=True)}
    if tell_grid:
        about = {"format": 1, "grid": puzzle.grid, "gap": puzzle.gap, "pieces": names}
        files["puzzle.json"] = json.dumps(about).encode()
    return files


def truth_of(puzzle: Puzzle) -> list[list[int]]:
    """The right board."""
    assert puzzle.truth is not None
    return [[int(p) for p in row] for row in puzzle.truth]


def noise(side: int = 24, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)


def children(pid: int) -> list[int]:
    """Processes that a process has started, where the system tells."""
    told = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(k) for k in told.read_text().split()] if told.exists() else []
