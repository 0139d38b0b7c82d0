"""The log of a benchmark: one JSON line per solved puzzle, so that a run can be taken up again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

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
        """All records, without a last line that was cut off (a killed run)."""
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
        return records

    def ready(self) -> None:
        """Make room for the next line: what was cut off goes. Raises now, not after the first
        puzzle, if the file cannot be written."""
        with self._writing(self.path, "a+b") as f:
            f.seek(0)
            data = f.read()
            if not data.endswith(b"\n") and data:
                f.truncate(data.rfind(b"\n") + 1)

    def append(self, record: Record) -> None:
        """Add one line."""
        with self._writing(self.path, "ab") as f:
            f.write(_line(record))

    def replace(self, records: Iterable[Record]) -> None:
        """Start the file over with ``records``; the old one goes when the new one is whole."""
        place = self.path.resolve()  # a link stays one
        part = place.with_name(place.name + ".part")
        try:
            with self._writing(part, "wb") as f:
                f.writelines(map(_line, records))
                f.close()
                os.replace(part, place)
        finally:
            part.unlink(missing_ok=True)

    @contextmanager
    def _writing(self, path: Path, mode: str) -> Iterator[IO[bytes]]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with path.open(mode) as f:
                yield f
        except OSError as e:
            raise SherdError(f"{self.path}: cannot be written: {e.strerror or e}") from e


def _line(record: Record) -> bytes:
    return json.dumps(record).encode() + b"\n"
