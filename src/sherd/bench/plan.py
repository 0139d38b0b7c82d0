"""What the paper's tables measure: places (puzzles cut in one way) and the systems measured there.

The places are known without the data, so that a table can be checked for what it lacks; the
puzzles of a place are listed when it is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ..data.cutting import Erode
from ..data.jpleg import EDITIONS
from ..data.sets import ART5, GRIDS, KINDS, MIT_SETS, Cutting, Item, Selection, data_root
from ..errors import SherdError
from ..solvers.registry import solver_class
from .protocols import protocol_items
from .run import make_tasks
from .version import missing_weights
from .worker import Task

SYSTEMS = (
    "greedy", "tabu", "ga", "deepzzle", "inpaint-gan", "pdn-ga", "sd2rl", "erl-mpp", "evolve",
    "sherd",
)  # fmt: skip
"""The compared systems, in the order of the rows."""
ABLATION = ("sd2rl", "mppn-dqn", "sdn-evorl", "erl-mpp")
"""SDN + DQN, MPPN + DQN, SDN + EvoRL, MPPN + EvoRL: the paper's order."""
LARGE = (
    ("mit20", (18, 24)),
    ("mcgill20", (20, 27)),
    ("bgu20", (23, 35)),
    ("bgu_large", (40, 59)),
    ("bgu_large", (50, 66)),
)
"""Sets of large puzzles and their grids of 28-px pieces."""
LARGE_SYSTEMS = ("greedy", "ga", "evolve", "sherd")
"""Without tabu search, which takes more than a minute for 432 pieces and minutes for 805."""
LARGE_MOST = {"ga": 500}
"""Most pieces that a system is asked to solve: the genetic algorithm takes half a minute and more
for 540 pieces, a minute and more for 805."""
LARGE_GAPS = (0, 1, 2)
MANY = 150
"""More pieces than this: the first shuffle only, to keep the run within hours …"""
FEW = 10
"""… but all of them where there are fewer puzzles than this: there single boards decide."""
ART = ("jpleg5", "art5")
"""What the tables of JPLEG-5 can be measured on."""
QUICK = 5
"""Puzzles of a cell in a quick run (of each kind)."""
QUICK_WITHOUT = "large"
"""Table that a quick run leaves out unless it is asked for by name …"""
QUICK_MANY = 500
"""… and then up to so many pieces."""


@dataclass(frozen=True)
class Place:
    """Puzzles cut in one way: what a cell of a table is measured on, whatever the system."""

    protocol: str
    sets: tuple[str, ...]
    kind: str | None
    """None = all kinds."""
    grid: tuple[int, int]
    gap: int
    erode: Erode
    pieces: int
    """Side of a piece before erosion, in pixels."""

    @property
    def n(self) -> int:
        """Pieces of a puzzle."""
        return self.grid[0] * self.grid[1]

    def label(self) -> str:
        """For messages."""
        how = " off each side" if self.erode == "side" else ""
        kind = f" {self.kind}" if self.kind else ""
        name = "+".join(self.sets) if self.protocol == "mit" else self.protocol
        return f"{name}{kind} {self.grid[0]}x{self.grid[1]}, {self.gap} px{how}"

    def asdict(self) -> dict[str, Any]:
        """As it stands in a summary; a key, together with the system."""
        return {
            "protocol": self.protocol,
            "sets": list(self.sets),
            "kind": self.kind,
            "grid": f"{self.grid[0]}x{self.grid[1]}",
            "gap": self.gap,
            "erode": self.erode,
            "pieces": self.pieces,
        }

    def items(self, data: Path, limit: int | None = None) -> list[Item]:
        """The puzzles; ``limit`` takes the first so many (of each kind)."""
        if self.protocol != "mit":
            found = protocol_items(self.protocol, Selection(limit=limit), data=data)
            return [item for item in found if self.kind in (None, item.kind)]
        pieces = None if self.pieces == 64 else self.pieces
        cutting = Cutting((self.grid,), (self.gap,), self.erode, pieces)
        selection = Selection(sets=self.sets, cutting=cutting)
        found = protocol_items("mit", selection, data=data)
        found = [item for item in found if item.grid == self.grid]
        if not found:
            raise SherdError(
                f"{data / 'testsets' / self.sets[0]}: holds no photo of {self.grid[0]}x"
                f"{self.grid[1]} pieces of {self.pieces} px; leave the table out with --tables"
            )
        return found[:limit]


def _art(protocol: str, kinds: Iterable[str | None]) -> list[Place]:
    return [
        Place(protocol, ("test",), kind, ART5.grid, ART5.gap, ART5.erode, ART5.piece[0])
        for kind in kinds
    ]


def _mit(_: str) -> list[Place]:
    erosions: tuple[Erode, ...] = ("between", "side")
    return [
        Place("mit", MIT_SETS, None, grid, gap, erode, 64)
        for grid in GRIDS
        for gap in (2, 4)
        for erode in erosions
    ]


def _large(_: str) -> list[Place]:
    return [
        Place("mit", (name,), None, grid, gap, "between", 28)
        for name, grid in LARGE
        for gap in LARGE_GAPS
    ]


@dataclass(frozen=True)
class Table:
    """One table of the paper: every system at every place."""

    name: str
    places: Callable[[str], list[Place]]
    """Given what JPLEG-5's tables are measured on (`ART`)."""
    systems: tuple[str, ...]
    most: dict[str, int] = field(default_factory=dict)
    """Most pieces, for systems that take too long beyond."""

    def cannot(self, system: str, place: Place) -> str | None:
        """Why a cell stays empty; None if it does not."""
        why = solver_class(system).cannot(place.grid)
        if why is None and place.n > self.most.get(system, place.n):
            return f"left out beyond {self.most[system]} pieces, to keep the run within hours"
        return why


TABLES = {
    t.name: t
    for t in (
        Table("jpleg5", lambda art: _art(art, (None,)), SYSTEMS),
        Table("kinds", lambda art: _art(art, KINDS), SYSTEMS),
        Table("mit", _mit, SYSTEMS),
        Table("ablation", lambda art: _art(art, (None,)), ABLATION),
        Table("large", _large, LARGE_SYSTEMS, LARGE_MOST),
    )
}


@dataclass(frozen=True)
class Request:
    """Which part of the tables is wanted."""

    tables: tuple[str, ...] | None = None
    """None = all; in a quick run, without `QUICK_WITHOUT`."""
    systems: tuple[str, ...] | None = None
    """None = all of a table's."""
    seeds: tuple[int, ...] = (0, 1, 2)
    quick: bool = False
    limit: int | None = None
    """First so many puzzles of a cell."""
    art: str | None = None
    """What JPLEG-5's tables are measured on; None = JPLEG-5 where its files are, else art5."""
    cells: tuple[str, ...] = ()
    """Patterns, as file names have them, of which a cell's label must match one; none = all."""

    def __post_init__(self) -> None:
        for name in self.tables or ():
            if name not in TABLES:
                raise SherdError(f"tables: {name!r} is unknown; there are {', '.join(TABLES)}")
        known = dict.fromkeys(s for t in TABLES.values() for s in t.systems)
        for name in self.systems or ():
            solver_class(name)  # raises if there is none
            if name not in known:
                raise SherdError(f"systems: {name!r} is in no table; there are {', '.join(known)}")
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) < len(self.seeds):
            raise SherdError(f"seeds: {self.seeds}; expected different numbers from 0 on")
        if self.limit is not None and self.limit < 1:
            raise SherdError(f"limit: {self.limit}; must be at least 1")
        if self.art not in (None, *ART):
            raise SherdError(f"art: {self.art!r}; use {' or '.join(ART)}")


@dataclass(frozen=True)
class PlannedCell:
    """One system at one place of a table."""

    table: str
    place: Place
    system: str
    cannot: str | None
    tasks: tuple[Task, ...] = ()


def plan(request: Request, data: Path | None = None) -> list[PlannedCell]:
    """All cells that were asked for; raises if weights or pictures are missing."""
    names = request.tables or [t for t in TABLES if not (request.quick and t == QUICK_WITHOUT)]
    wanted = [
        (table, [s for s in table.systems if request.systems is None or s in request.systems])
        for table in (TABLES[name] for name in names)
    ]
    _check_weights({s: None for _, systems in wanted for s in systems})
    root = data_root(data)
    art = request.art or (
        "jpleg5" if EDITIONS["jpleg5"].files(root, "test")[0].is_file() else "art5"
    )
    seeds = request.seeds[:1] if request.quick else request.seeds
    cells, labels = [], []
    for table, systems in wanted:
        for place in table.places(art) if systems else ():
            if request.quick and place.n > QUICK_MANY:
                continue
            labels.append(place.label())
            if request.cells and not any(fnmatchcase(labels[-1], p) for p in request.cells):
                continue
            items = place.items(root)
            once = place.n > MANY and len(items) >= FEW
            items = place.items(root, request.limit or (QUICK if request.quick else None))
            shuffles = seeds[:1] if once else seeds
            for system in systems:
                why = table.cannot(system, place)
                tasks = [task for s in shuffles for task in make_tasks(items, [system], seed=s)]
                cells.append(
                    PlannedCell(table.name, place, system, why, () if why else tuple(tasks))
                )
    if not labels:
        raise SherdError("systems: none of them is in these tables; see sherd bench paper --help")
    if not cells:
        raise SherdError(
            f"cells: none matches {' or '.join(map(repr, request.cells))}; there are "
            f"{'; '.join(dict.fromkeys(labels))}"
        )
    return cells


def _check_weights(systems: Iterable[str]) -> None:
    """A system without its weights is missed before hours have gone by."""
    systems = list(systems)
    without = {s: lost for s in systems if (lost := missing_weights(s))}
    if without:
        named = dict.fromkeys(f for names in without.values() for f in names)
        files = ", ".join(f for f in named if f.endswith(".json"))
        rest = ",".join(s for s in systems if s not in without)
        raise SherdError(
            f"{', '.join(without)}: the weights are missing ({files or 'safetensors'}); train them "
            f"(sherd train --help), or leave them out{f': --systems {rest}' if rest else ''}"
        )
