"""The log of a benchmark: one JSON line per solved puzzle, so that a run can be taken up again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import SherdError

Record = dict[str, Any]

KEY = (
    "protocol", "set", "kind", "id", "grid", "gap", "erode", "pieces", "fixed_centre",
    "system", "seed", "version",
)  # fmt: skip
"""What makes two lines the same puzzle under the same conditions; `sherd.bench.version` says what
``version`` is."""


def key_of(record: Record) -> tuple[Any, ...]:
    """The key of a record, hashable."""
    return tuple(record[k] for k in KEY)


def puzzle_of(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key without the version: the same puzzle, system and seed, whatever code it was."""
    return key[:-1]


class Log:
    """An append-only file of records."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[Record]:
        """All records. A last line that was cut off (a killed run) is removed from the file."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as e:
            raise SherdError(f"{self.path}: cannot be read: {e.strerror or e}") from e
        whole = data[: data.rfind(b"\n") + 1]
        records = []
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                record = json.loads(line)
                key_of(record)
            except (ValueError, KeyError, TypeError) as e:
                raise SherdError(
                    f"{self.path}:{number}: is no line of a benchmark; "
                    "choose another --out or remove the line"
                ) from e
            records.append(record)
        if len(whole) < len(data):
            self._write(whole, "wb")
        return records

    def append(self, record: Record) -> None:
        """Add one line."""
        self._write(json.dumps(record).encode() + b"\n", "ab")

    def ready(self) -> None:
        """Raise now, not after the first puzzle, if the file cannot be written."""
        self._write(b"", "ab")

    def replace(self, records: Iterable[Record]) -> None:
        """Start the file over with ``records``."""
        self._write(b"".join(json.dumps(r).encode() + b"\n" for r in records), "wb")

    def _write(self, data: bytes, mode: str) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open(mode) as f:
                f.write(data)
        except OSError as e:
            raise SherdError(f"{self.path}: cannot be written: {e.strerror or e}") from e
