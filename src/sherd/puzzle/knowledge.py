"""What a person knows of a puzzle beyond its fragments, as hard constraints.

"The signature goes into the last row", "these two belong together", "never that piece there": a
search that is given such knowledge returns boards that honour all of it, or says that no board can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ..errors import SherdError
from .board import EMPTY, SIDES, positions

Cell = tuple[int, int]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Knowledge:
    """What is known for certain. Pieces are numbers; `Knowledge.named` takes file names.

    Pieces that are tied to others, to a corner or to a rim belong to the picture: they are placed
    even where other pieces have to stay out.
    """

    pins: Mapping[int, Cell] = field(default_factory=dict)
    """Piece → (row, column) where it lies. A `Puzzle` with a grid takes these into its own
    ``pins``."""
    right: frozenset[Pair] = frozenset()
    """(a, b): b lies right of a, in the next cell."""
    below: frozenset[Pair] = frozenset()
    """(a, b): b lies below a, in the next cell."""
    not_right: frozenset[Pair] = frozenset()
    """(a, b): b does not lie right of a."""
    not_below: frozenset[Pair] = frozenset()
    """(a, b): b does not lie below a."""
    not_in: frozenset[tuple[int, Cell]] = frozenset()
    """(piece, (row, column)): the piece does not lie in this cell."""
    corners: frozenset[int] = frozenset()
    """Pieces that lie in one of the four corners."""
    rims: frozenset[tuple[int, str]] = frozenset()
    """(piece, side of `SIDES`): the piece lies in the first or last row or column. Two sides name
    a corner."""

    def __post_init__(self) -> None:
        for name in ("right", "below", "not_right", "not_below"):
            pairs = frozenset((int(a), int(b)) for a, b in getattr(self, name))
            object.__setattr__(self, name, pairs)
            for a, b in pairs:
                if a == b:
                    raise SherdError(f"knowledge: {name}: piece {a} cannot lie beside itself")
        for name, no in (("right", "not_right"), ("below", "not_below")):
            if both := getattr(self, name) & getattr(self, no):
                a, b = min(both)
                raise SherdError(f"knowledge: piece {b} is both {_PLACE[name]} {a} and forbidden")
            for turn, what in ((0, f"two pieces {_PLACE[name]}"), (1, f"{_PLACE[name]} two of")):
                ends = [pair[turn] for pair in getattr(self, name)]
                if len(set(ends)) < len(ends):
                    twice = next(e for e in ends if ends.count(e) > 1)
                    raise SherdError(f"knowledge: {what} piece {twice}; there is room for one")
        for piece, side in self.rims:
            if side not in SIDES:
                raise SherdError(f"knowledge: rim: {side!r} of piece {piece}; use {_OR_SIDES}")
        for piece, cell in self.pins.items():
            if (piece, tuple(cell)) in self.not_in:
                raise SherdError(f"knowledge: piece {piece} is both pinned to {cell} and forbidden")
        first: dict[Cell, int] = {}
        for piece, cell in self.pins.items():
            if first.setdefault(cell, piece) != piece:
                raise SherdError(
                    f"pin: piece {first[cell]} and piece {piece} are pinned to one cell, {cell}"
                )

    @staticmethod
    def apart(a: int, b: int) -> Knowledge:
        """a and b are no neighbours, in whichever direction."""
        both = frozenset({(a, b), (b, a)})
        return Knowledge(not_right=both, not_below=both)

    @staticmethod
    def named(
        names: Sequence[str],
        *,
        pins: Mapping[str, Sequence[int]] | None = None,
        right: Iterable[Sequence[str]] = (),
        below: Iterable[Sequence[str]] = (),
        not_right: Iterable[Sequence[str]] = (),
        not_below: Iterable[Sequence[str]] = (),
        apart: Iterable[Sequence[str]] = (),
        not_in: Iterable[tuple[str, Sequence[int]]] = (),
        corners: Iterable[str] = (),
        rims: Iterable[tuple[str, str]] = (),
    ) -> Knowledge:
        """Knowledge in file names; ``names`` are those of the pieces, in their order.

        ``apart`` are pairs that are no neighbours in any direction; all else is as in `Knowledge`.
        """
        index = {name: k for k, name in enumerate(names)}

        def find(name: str) -> int:
            if name not in index:
                raise SherdError(f"knowledge: {name!r} is none of the pieces")
            return index[name]

        def pairs(given: Iterable[Sequence[str]]) -> frozenset[Pair]:
            return frozenset((find(a), find(b)) for a, b in given)

        known = Knowledge(
            pins={find(n): (int(c[0]), int(c[1])) for n, c in (pins or {}).items()},
            right=pairs(right),
            below=pairs(below),
            not_right=pairs(not_right),
            not_below=pairs(not_below),
            not_in=frozenset((find(n), (int(c[0]), int(c[1]))) for n, c in not_in),
            corners=frozenset(find(n) for n in corners),
            rims=frozenset((find(n), side) for n, side in rims),
        )
        for a, b in apart:
            known |= Knowledge.apart(find(a), find(b))
        return known

    def __or__(self, other: Knowledge) -> Knowledge:
        """What both say together; an error where they contradict each other."""
        for piece in self.pins.keys() & other.pins.keys():
            if self.pins[piece] != other.pins[piece]:
                raise SherdError(
                    f"knowledge: piece {piece} is pinned to {self.pins[piece]} and to "
                    f"{other.pins[piece]}"
                )
        sets = {n: getattr(self, n) | getattr(other, n) for n in _SETS}
        return Knowledge(pins={**self.pins, **other.pins}, **sets)

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return bool(self.pins) or any(getattr(self, name) for name in _SETS)

    @property
    def pieces(self) -> frozenset[int]:
        """All pieces that it speaks of."""
        pairs = (self.right, self.below, self.not_right, self.not_below)
        found = {p for group in pairs for pair in group for p in pair}
        found |= {p for p, _ in self.not_in} | {p for p, _ in self.rims}
        return frozenset(found | set(self.pins) | self.corners)

    def reordered(self, new: np.ndarray) -> Knowledge:
        """The same for renumbered pieces: old piece p is ``new[p]``, or gone where that is -1."""

        def kept(p: int) -> bool:
            return bool(new[p] != EMPTY)

        def pairs(given: frozenset[Pair]) -> frozenset[Pair]:
            return frozenset((int(new[a]), int(new[b])) for a, b in given if kept(a) and kept(b))

        return Knowledge(
            pins={int(new[p]): c for p, c in self.pins.items() if kept(p)},
            right=pairs(self.right),
            below=pairs(self.below),
            not_right=pairs(self.not_right),
            not_below=pairs(self.not_below),
            not_in=frozenset((int(new[p]), c) for p, c in self.not_in if kept(p)),
            corners=frozenset(int(new[p]) for p in self.corners if kept(p)),
            rims=frozenset((int(new[p]), s) for p, s in self.rims if kept(p)),
        )

    def check(self, n: int, grid: tuple[int, int] | None = None) -> None:
        """Raise where it speaks of pieces beyond ``n`` or of cells outside ``grid``."""
        for piece in self.pieces:
            if not 0 <= piece < n:
                raise SherdError(
                    f"knowledge: piece {piece} does not exist; pieces are 0 to {n - 1}"
                )
        for cell in self.pins.values():
            far = grid is not None and not (cell[0] < grid[0] and cell[1] < grid[1])
            if min(cell) < 0 or far:
                where = "" if grid is None else f" the {grid[0]}x{grid[1]} grid"
                raise SherdError(f"pin: cell {cell} is outside{where}")
        for _, cell in self.not_in:  # beyond the last row or column it says nothing new
            if min(cell) < 0:
                raise SherdError(f"forbid: cell {cell}; rows and columns are counted from 0")

    def broken(self, board: np.ndarray, n: int) -> list[str]:
        """What of it ``board (M, N)`` of ``n`` pieces does not honour, one line each."""
        rows, cols = board.shape
        cell = positions(board, n)
        at = {p: divmod(int(c), cols) for p, c in enumerate(cell) if c >= 0}
        found = [f"piece {p} is not in {c}" for p, c in self.pins.items() if at.get(p) != c]
        for name, (dr, dc) in (("right", (0, 1)), ("below", (1, 0))):
            for a, b in sorted(getattr(self, name)):
                if a not in at or b not in at or at[b] != (at[a][0] + dr, at[a][1] + dc):
                    found.append(f"piece {b} is not {_PLACE[name]} {a}")
            for a, b in sorted(getattr(self, f"not_{name}")):
                if a in at and b in at and at[b] == (at[a][0] + dr, at[a][1] + dc):
                    found.append(f"piece {b} is {_PLACE[name]} {a}")
        found += [f"piece {p} is in {c}" for p, c in sorted(self.not_in) if at.get(p) == c]
        found += [
            f"piece {p} is in no corner"
            for p in sorted(self.corners)
            if at.get(p) not in {(0, 0), (0, cols - 1), (rows - 1, 0), (rows - 1, cols - 1)}
        ]
        for p, side in sorted(self.rims):
            if p not in at or not _at_rim(at[p], side, (rows, cols)):
                found.append(f"piece {p} is not at the {side}")
        return found

    def to_entries(self, names: Sequence[str]) -> dict[str, Any]:
        """As JSON has it, by file name; `from_entries` reads it. What is empty is left out."""
        entries: dict[str, Any] = {
            "pins": {names[p]: list(c) for p, c in self.pins.items()},
            "corners": [names[p] for p in sorted(self.corners)],
            "rims": [[names[p], side] for p, side in sorted(self.rims)],
            "not_in": [[names[p], list(c)] for p, c in sorted(self.not_in)],
        }
        for name in _PAIRS:
            entries[name] = [[names[a], names[b]] for a, b in sorted(getattr(self, name))]
        return {name: value for name, value in entries.items() if value}

    @staticmethod
    def from_entries(entries: Any, names: Sequence[str], what: str = "knowledge") -> Knowledge:
        """Read what `to_entries` wrote; an error names ``what`` and the entry that is wrong."""
        if not isinstance(entries, dict):
            raise SherdError(f"{what}: expected an object, got {type(entries).__name__}")
        known = [f.name for f in fields(Knowledge)]
        if unknown := sorted(set(entries) - set(known)):
            raise SherdError(f"{what}: unknown entry {unknown[0]!r}; known are {known}")
        for name, value in entries.items():
            if not _FORMS[name][0](value):
                raise SherdError(f"{what}: {name}: expected {_FORMS[name][1]}")
        try:
            return Knowledge.named(names, **entries)
        except SherdError as e:
            raise SherdError(f"{what}: {str(e).removeprefix('knowledge: ')}") from e

    def without_pins(self) -> Knowledge:
        """All of it but the pins."""
        return replace(self, pins={})


_PAIRS = ("right", "below", "not_right", "not_below")
_SETS = (*_PAIRS, "not_in", "corners", "rims")
_PLACE = {"right": "right of", "below": "below"}
_OR_SIDES = ", ".join(SIDES[:-1]) + f" or {SIDES[-1]}"


def _at_rim(cell: Cell, side: str, grid: tuple[int, int]) -> bool:
    at = (cell[0] == 0, cell[1] == grid[1] - 1, cell[0] == grid[0] - 1, cell[1] == 0)
    return at[SIDES.index(side)]


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _is_cell(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 2**31 for v in value)
    )


def _is_list(value: Any, first: Any, second: Any = None) -> bool:
    if not isinstance(value, list):
        return False
    if second is None:
        return all(first(v) for v in value)
    return all(isinstance(v, list) and len(v) == 2 and first(v[0]) and second(v[1]) for v in value)


def _are_pins(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_cell(c) for c in value.values())


_PAIR_FORM = (lambda v: _is_list(v, _is_name, _is_name), 'a list of ["file name", "file name"]')
_FORMS: dict[str, tuple[Any, str]] = {
    "pins": (_are_pins, '{"file name": [row, column]}'),
    "corners": (lambda v: _is_list(v, _is_name), "a list of file names"),
    "rims": (lambda v: _is_list(v, _is_name, _is_name), 'a list of ["file name", side]'),
    "not_in": (lambda v: _is_list(v, _is_name, _is_cell), 'a list of ["file name", [row, column]]'),
    **dict.fromkeys(_PAIRS, _PAIR_FORM),
}
