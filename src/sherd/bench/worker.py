"""One puzzle, one system: what a worker process does.

Nothing heavy is imported with this module: `start` must set the number of threads before numpy,
numba or torch are loaded.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..data.sets import Item
    from .records import Record

_ONE_THREAD = (
    "NUMBA_NUM_THREADS",
    "SHERD_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)
"""Variables that are 1 in a worker: puzzles run side by side, so nothing inside one may."""


@dataclass(frozen=True)
class Task:
    """One puzzle for one system."""

    item: Item
    system: str
    seed: int
    fixed_centre: bool
    version: str

    def head(self) -> Record:
        """The part of the record that is known before solving: its key."""
        item = self.item
        return {
            "protocol": item.protocol,
            "set": item.set,
            "kind": item.kind,
            "id": item.id,
            "grid": f"{item.grid[0]}x{item.grid[1]}",
            "gap": item.gap,
            "erode": item.erode,
            "pieces": item.piece,
            "fixed_centre": self.fixed_centre,
            "system": self.system,
            "seed": self.seed,
            "version": self.version,
        }


def start(systems: dict[str, str]) -> None:
    """Begin a worker process. ``systems`` is the caller's registry."""
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    from ..solvers import registry

    registry.SYSTEMS.update(systems)


def _end_with(parent: int) -> None:
    """Leave when the parent process is gone: killed, it cannot tell its workers."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def run_task(task: Task) -> Record:
    """Cut, shuffle, solve and score."""
    from ..data.sets import centre
    from ..errors import SherdError
    from ..perception.evidence import limited
    from ..puzzle import score_puzzle
    from ..solvers import make_solver

    item = task.item
    begin = time.perf_counter()
    puzzle = item.puzzle(task.seed).shuffled(item.rng(task.seed, 1))
    if task.fixed_centre:
        piece, cell = centre(puzzle)
        puzzle = replace(puzzle, pins={piece: cell})
    try:
        cold = time.perf_counter()
        _warm(task.system, puzzle.piece_size, task.fixed_centre)
        begin += time.perf_counter() - cold  # once per process: no part of what a puzzle takes
        before = time.process_time()
        result = make_solver(task.system).solve(puzzle, seed=task.seed)
        cpu = time.process_time() - before
    except SherdError as e:
        raise SherdError(f"{task.system} on {item.set}/{item.id}: {e}") from e
    assert puzzle.truth is not None
    why: str | None
    if result.evidence is not None:
        why = limited(result.evidence, result.board, puzzle.truth)
    else:
        why = None if (result.board == puzzle.truth).all() else "unknown"
    record: dict[str, Any] = task.head()
    record.update(score_puzzle(result.board, puzzle, fixed_centre=task.fixed_centre).asdict())
    record["limited"] = why
    record["seconds"] = result.timings["total"]
    record["cpu_seconds"] = cpu
    record["timings"] = result.timings
    record["wall"] = time.perf_counter() - begin
    return record


@cache
def _warm(system: str, piece: tuple[int, int], fixed_centre: bool) -> None:
    """Solve a tiny puzzle once per process, so that no timing includes the compiling of kernels."""
    import numpy as np

    from ..data.cutting import Geometry, cut
    from ..data.sets import centre
    from ..solvers import make_solver

    noise = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    puzzle = cut(noise, Geometry((3, 3), piece)).puzzle
    if fixed_centre:
        puzzle = replace(puzzle, pins=dict([centre(puzzle)]))
    make_solver(system).solve(puzzle, seed=0)
