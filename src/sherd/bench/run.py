"""Run the tasks of a benchmark that are not in its log yet."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from typing import Any

from ..data.sets import Item
from ..errors import SherdError
from ..solvers import registry
from .records import Log, Record, key_of, puzzle_of
from .version import cores, origin, system_version
from .worker import Task, run_task, start

__all__ = ["cores", "make_tasks", "reusable", "run_tasks"]


def make_tasks(
    items: Sequence[Item], systems: Sequence[str], *, seed: int, fixed_centre: bool = False
) -> list[Task]:
    """Every item for every system; raises if a system is unknown."""
    versions = {s: system_version(s) for s in systems}
    return [Task(item, s, seed, fixed_centre, versions[s]) for s in systems for item in items]


def run_tasks(
    tasks: Sequence[Task],
    log: Log,
    *,
    jobs: int = 1,
    fresh: bool = False,
    keep: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    heard: Callable[[Record], None] = lambda record: None,
) -> list[Record]:
    """The records of ``tasks``, in their order; those that ``log`` holds are not run again.

    Every record is in the log before the next is waited for: a run that is interrupted and
    started again with the same arguments goes on where it was. ``fresh`` forgets what the log
    says about these tasks. ``keep`` reuses lines of another version of a system, the latest where
    there are several, unless there is one of this version. ``progress`` hears how many are done,
    and of how many; ``heard`` hears every new record.
    """
    if jobs < 1:
        raise SherdError(f"jobs: {jobs}; must be at least 1")
    keys = [key_of(t.head()) for t in tasks]
    wanted = set(keys)
    held = log.read()
    if fresh:
        log.replace(r for r in held if key_of(r) not in wanted)
        held = []
    log.ready()
    done = reusable(wanted, held, keep=keep)
    todo = [t for t, k in zip(tasks, keys, strict=True) if k not in done]
    progress(len(done), len(wanted))
    if todo:
        with closing(_each(todo, min(jobs, len(todo)))) as records:
            for record in records:
                record |= {**origin(), "jobs": jobs}
                log.append(record)
                done[key_of(record)] = record
                heard(record)
                progress(len(done), len(wanted))
    return [done[k] for k in keys]


def reusable(
    wanted: set[tuple[Any, ...]], held: Sequence[Record], *, keep: bool = False
) -> dict[tuple[Any, ...], Record]:
    """The records that need not be made again, by key; ``keep`` as for `run_tasks`."""
    done = {k: r for r in held if (k := key_of(r)) in wanted}
    if keep:
        older = {puzzle_of(key_of(r)): r for r in held}
        for key in wanted - done.keys():
            if puzzle_of(key) in older:
                done[key] = older[puzzle_of(key)]
    return done


def _each(todo: Sequence[Task], jobs: int) -> Generator[Record, None, None]:
    """Records as they are finished, by ``jobs`` processes of one thread each.

    One job is a process of its own as well: what a system takes must not depend on ``jobs``.
    """
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),  # threads and fork do not mix
        initializer=start,
        initargs=(dict(registry.SYSTEMS),),
    )
    try:
        for future in as_completed([pool.submit(run_task, t) for t in todo]):
            yield future.result()
        pool.shutdown()
    except BrokenProcessPool as e:
        raise SherdError(
            "a worker process died, perhaps for want of memory; try fewer --jobs"
        ) from e
    finally:  # after an error or Ctrl-C nobody waits for puzzles that are half solved
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        pool.shutdown(cancel_futures=True)
