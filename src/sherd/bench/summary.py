"""Summaries: one JSON line per cell of the paper's tables, with the spread over seeds.

They are small and are kept under version control (``results/paper/TABLE.jsonl``); tables and
figures of the docs are made of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from ..errors import SherdError
from .cells import METRICS
from .plan import PlannedCell
from .records import Record

Summary = dict[str, Any]
PLACE = ("protocol", "sets", "kind", "grid", "gap", "erode", "pieces")


def summary_key(summary: Summary) -> tuple[Any, ...]:
    """Place and system, hashable."""
    return (*(str(summary[k]) for k in PLACE), summary["system"])


def summarise(cell: PlannedCell, records: Sequence[Record]) -> Summary:
    """The summary of a cell; of one that a system cannot fill, only why.

    Metrics are percentages, averaged over the puzzles of a seed; ``mean`` and ``std`` (the sample
    standard deviation, null with one seed) are over the seeds.
    """
    head: Summary = {**cell.place.asdict(), "system": cell.system, "cannot": cell.cannot}
    if cell.cannot is not None:
        return head
    by_seed: dict[int, list[Record]] = {}
    for r in records:
        by_seed.setdefault(r["seed"], []).append(r)
    judged = all(r["limited"] != "unknown" for r in records)

    def limited(by: str) -> float | None:
        return 100.0 * sum(r["limited"] == by for r in records) / len(records) if judged else None

    return {
        **head,
        "n": len(next(iter(by_seed.values()))),
        "seeds": sorted(by_seed),
        **{m: _spread([100.0 * mean(r[m] for r in g) for g in by_seed.values()]) for m in METRICS},
        "perception_limited": limited("perception"),
        "search_limited": limited("search"),
        "seconds": _spread([mean(r["seconds"] for r in g) for g in by_seed.values()]),
        "cpu_seconds": _spread([mean(_cpu(r) for r in g) for g in by_seed.values()]),
        "versions": _all(records, "version"),
        "commits": _all(records, "commit"),
        "machines": sorted({f"{r.get('cpu', 'unknown')}, {r.get('cores', '?')} cores, "
                            f"{r.get('jobs', '?')} at a time" for r in records}),
    }  # fmt: skip


def _cpu(record: Record) -> float:
    """Seconds of one core: what a puzzle takes on a machine that does nothing else."""
    return record.get("cpu_seconds") or record["seconds"]


def _spread(values: list[float]) -> dict[str, float | None]:
    std = round(stdev(values), 3) if len(values) > 1 else None
    return {"mean": round(mean(values), 3), "std": std}


def _all(records: Iterable[Record], name: str) -> list[str]:
    return sorted({str(r.get(name, "unknown")) for r in records})


def read_summaries(path: Path) -> list[Summary]:
    """The lines of a file; none if there is no such file."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return []
    except OSError as e:
        raise SherdError(f"{path}: cannot be read: {e.strerror or e}") from e
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            summary = json.loads(line)
            summary_key(summary)
        except (ValueError, KeyError, TypeError) as e:
            raise SherdError(
                f"{path}:{number}: is no summary; write the file with: sherd bench paper --save DIR"
            ) from e
        found.append(summary)
    return found


def save_summaries(folder: Path, table: str, made: Sequence[Summary]) -> Path:
    """Write ``folder/TABLE.jsonl``; lines of cells that were not made now stay as they are."""
    path = folder / f"{table}.jsonl"
    lines = {summary_key(s): json.dumps(s) for s in (*read_summaries(path), *made)}
    part = path.with_name(path.name + ".part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.write_text("".join(lines[key] + "\n" for key in sorted(lines)), "utf-8")
        os.replace(part, path)
    except OSError as e:
        raise SherdError(f"{path}: cannot be written: {e.strerror or e}") from e
    return path
