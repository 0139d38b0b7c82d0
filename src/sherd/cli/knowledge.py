"""What users say of their pieces, as options: nothing in it means anything to a shell.

    --pin a.png=0,3       a lies in row 0, column 3
    --beside a.png:b.png  b lies right of a
    --beside a.png/b.png  b lies below a, as in a fraction
    --corner a.png        a lies in a corner; --corner a.png=top-left in this one
    --rim a.png=bottom    a lies in the last row
    --forbid a.png=0,3    a does not lie there; a.png:b.png, a.png/b.png: not so beside each other;
                          a.png,b.png: no neighbours at all

The ending of a file name may be left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from ..errors import SherdError
from ..puzzle import SIDES, Cell, Knowledge

_CELL = re.compile(r"\s*(.+?)\s*=\s*(-?\d{1,6})\s*,\s*(-?\d{1,6})\s*", re.ASCII)


def parse_knowledge(
    names: tuple[str, ...],
    *,
    pin: Iterable[str] = (),
    beside: Iterable[str] = (),
    forbid: Iterable[str] = (),
    corner: Iterable[str] = (),
    rim: Iterable[str] = (),
) -> Knowledge:
    """All that the options say of the pieces called ``names``."""
    known = Knowledge(pins=parse_pins(pin, names))
    for text in beside:
        known |= _beside(text, names)
    for text in forbid:
        known |= _forbid(text, names)
    for text in corner:
        known |= _corner(text, names)
    for text in rim:
        known |= _rim(text, names)
    return known


def check_forbidden(known: Knowledge, grid: tuple[int, int] | None) -> None:
    """A forbidden cell outside of the grid is a slip of the keyboard."""
    rows, cols = grid or (math.inf, math.inf)
    for _, cell in known.not_in:
        if not (0 <= cell[0] < rows and 0 <= cell[1] < cols):
            where = "" if grid is None else f" the {grid[0]}x{grid[1]} grid"
            raise SherdError(f"forbid: cell {cell} is outside{where}")


def parse_pins(texts: Iterable[str], names: tuple[str, ...]) -> dict[int, Cell]:
    """``003.png=2,4`` (the ending may be left out) → piece number and cell."""
    pins: dict[int, Cell] = {}
    for text in texts:
        match = _CELL.fullmatch(text)
        if not match:
            raise SherdError(f"pin: {text!r}; expected PIECE=ROW,COLUMN such as 003.png=2,4")
        piece = _find(match[1], names, "pin")
        if piece in pins:
            raise SherdError(f"pin: {match[1]!r} is pinned twice")
        cell = (int(match[2]), int(match[3]))
        for other, taken in pins.items():
            if taken == cell:
                both = f"{names[other]!r} and {names[piece]!r}"
                raise SherdError(f"pin: {both} are pinned to one cell, {cell}")
        pins[piece] = cell
    return pins


def _beside(text: str, names: tuple[str, ...]) -> Knowledge:
    pair = _pair(text, names, ":/", "beside")
    if pair is None:
        raise SherdError(
            f"beside: {text!r}; expected LEFT:RIGHT or UPPER/LOWER such as 003.png:007.png"
        )
    sign, link = pair
    return Knowledge(right=link) if sign == ":" else Knowledge(below=link)


def _forbid(text: str, names: tuple[str, ...]) -> Knowledge:
    match = _CELL.fullmatch(text)
    if match:
        piece = _find(match[1], names, "forbid")
        return Knowledge(not_in=frozenset({(piece, (int(match[2]), int(match[3])))}))
    pair = _pair(text, names, ":/,", "forbid")
    if pair is None:
        raise SherdError(
            f"forbid: {text!r}; expected PIECE=ROW,COLUMN, LEFT:RIGHT, UPPER/LOWER or PIECE,PIECE"
        )
    sign, link = pair
    if sign == ",":
        return Knowledge.apart(*next(iter(link)))
    return Knowledge(not_right=link) if sign == ":" else Knowledge(not_below=link)


def _corner(text: str, names: tuple[str, ...]) -> Knowledge:
    piece, _, where = text.rpartition("=") if "=" in text else (text, "", "")
    if not where and _number(text, names) is not None:
        return Knowledge(corners=frozenset({_find(text, names, "corner")}))
    sides = where.strip().lower().split("-")
    if len(sides) != 2 or sides[0] not in ("top", "bottom") or sides[1] not in ("left", "right"):
        if "=" in text:
            raise SherdError(
                f"corner: {text!r}; expected PIECE or PIECE=top-left, top-right, bottom-left or "
                "bottom-right"
            )
        _find(text, names, "corner")  # says what is wrong with the name
    number = _find(piece.strip(), names, "corner")
    return Knowledge(rims=frozenset({(number, side) for side in sides}))


def _rim(text: str, names: tuple[str, ...]) -> Knowledge:
    piece, sign, side = (part.strip() for part in text.rpartition("="))
    if not sign or side.lower() not in SIDES:
        raise SherdError(f"rim: {text!r}; expected PIECE=SIDE, a side being {', '.join(SIDES)}")
    return Knowledge(rims=frozenset({(_find(piece, names, "rim"), side.lower())}))


def _pair(
    text: str, names: tuple[str, ...], signs: str, what: str
) -> tuple[str, frozenset[tuple[int, int]]] | None:
    """The sign between two pieces, and the pair; a sign may also be part of a name."""
    places = [k for k, c in enumerate(text) if c in signs]
    for k in places:
        a, b = _number(text[:k].strip(), names), _number(text[k + 1 :].strip(), names)
        if a is not None and b is not None:
            return text[k], frozenset({(a, b)})
    if len(places) == 1:  # then this is what was meant, and a name is wrong
        a, b = (_find(part.strip(), names, what) for part in re.split(f"[{signs}]", text))
    return None


def _matches(piece: str, names: Sequence[str]) -> list[int]:
    if piece in names:
        return [list(names).index(piece)]
    return [k for k, name in enumerate(names) if name.rpartition(".")[0] == piece]


def _number(piece: str, names: tuple[str, ...]) -> int | None:
    found = _matches(piece, names)
    return found[0] if len(found) == 1 else None


def _find(piece: str, names: tuple[str, ...], what: str) -> int:
    found = _matches(piece, names)
    if len(found) != 1:
        if found:
            several = " or ".join(repr(names[k]) for k in found)
            raise SherdError(f"{what}: {piece!r} could be any of {len(found)} pieces: {several}")
        raise SherdError(f"{what}: {piece!r} is none of the pieces; name one such as {names[0]!r}")
    return found[0]
