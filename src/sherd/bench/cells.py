"""From records to the cells of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .records import Record

METRICS = ("perfect", "perfect_star", "absolute", "horizontal", "vertical", "neighbor")


@dataclass(frozen=True)
class Cell:
    """One system on one group of puzzles. Shares are percentages."""

    protocol: str
    sets: tuple[str, ...]
    kind: str | None
    """None = all kinds."""
    grid: str
    gap: int
    erode: str
    pieces: int
    """Side of a piece before erosion, in pixels."""
    system: str
    n: int
    perfect: float
    perfect_star: float
    absolute: float
    horizontal: float
    vertical: float
    neighbor: float
    perception_limited: float | None
    """Share of puzzles whose wrong board scores at least as high as the true one; None if the
    system gives no evidence to tell by."""
    search_limited: float | None
    """Share of puzzles whose true board scores higher than the one found."""
    seconds_per_puzzle: float

    def asdict(self) -> dict[str, Any]:
        """The fields by name, as they go into JSON."""
        return {**asdict(self), "sets": list(self.sets)}


def cells(records: Sequence[Record]) -> list[Cell]:
    """One cell per grid, gap and system, and, where puzzles have kinds, one more per kind."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        for kind in dict.fromkeys((None, r["kind"])):
            key = (r["protocol"], r["grid"], r["gap"], r["erode"], r["pieces"], kind, r["system"])
            groups.setdefault(key, []).append(r)
    order = [r["kind"] for r in records]
    kinds = [None, *dict.fromkeys(k for k in order if k is not None)]
    places = list(dict.fromkeys(key[:5] for key in groups))
    ordered = sorted(groups, key=lambda k: (places.index(k[:5]), kinds.index(k[5])))
    return [_cell(key, groups[key]) for key in ordered]


def _cell(key: tuple[Any, ...], group: list[Record]) -> Cell:
    protocol, grid, gap, erode, pieces, kind, system = key
    n = len(group)
    judged = all(r["limited"] != "unknown" for r in group)

    def limited(by: str) -> float | None:
        return 100.0 * sum(r["limited"] == by for r in group) / n if judged else None

    return Cell(
        protocol=protocol,
        sets=tuple(dict.fromkeys(r["set"] for r in group)),
        kind=kind,
        grid=grid,
        gap=gap,
        erode=erode,
        pieces=pieces,
        system=system,
        n=n,
        **{m: 100.0 * sum(r[m] for r in group) / n for m in METRICS},
        perception_limited=limited("perception"),
        search_limited=limited("search"),
        seconds_per_puzzle=sum(r["seconds"] for r in group) / n,
    )
