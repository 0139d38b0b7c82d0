"""What users type, checked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar, get_args

from ..errors import SherdError

if TYPE_CHECKING:
    from ..data.cutting import Erode, Fit
    from ..data.sets import Split

T = TypeVar("T", bound=str)


def parse_grid(text: str) -> tuple[int, int]:
    """``7x10`` → 7 rows, 10 columns."""
    from ..data.folder import MAX_SIDE

    match = re.fullmatch(r"\s*(\d{1,4})\s*[xX×]\s*(\d{1,4})\s*", text, re.ASCII)
    if not match or not all(1 <= int(n) <= MAX_SIDE for n in match.groups()):
        raise SherdError(
            f"grid: {text!r}; expected ROWSxCOLUMNS such as 7x10, each from 1 to {MAX_SIDE}"
        )
    return int(match[1]), int(match[2])


def parse_grids(text: str) -> tuple[tuple[int, int], ...]:
    """``7x10,10x15``."""
    return tuple(dict.fromkeys(parse_grid(part) for part in text.split(",")))


def check_gap(gap: int) -> int:
    """A gap in pixels."""
    from ..data.folder import MAX_GAP

    if not 0 <= gap <= MAX_GAP:
        raise SherdError(f"gap: {gap}; expected 0 to {MAX_GAP} pixels")
    return gap


def check_missing(missing: int) -> int:
    """How many pieces may be lost."""
    if not 0 <= missing <= 1000:
        raise SherdError(f"missing: {missing}; expected 0 to 1000 pieces")
    return missing


def parse_gaps(text: str) -> tuple[int, ...]:
    """``0,2,4``."""
    try:
        gaps = [int(part) for part in text.split(",")]
    except ValueError:
        raise SherdError(f"gap: {text!r}; expected pixels such as 2 or 0,2,4") from None
    return tuple(dict.fromkeys(check_gap(g) for g in gaps))


def parse_seed(seed: int) -> int:
    """A seed: any whole number from 0 on."""
    if seed < 0:
        raise SherdError(f"seed: {seed}; must not be negative")
    return seed


def parse_erode(text: str) -> Erode:
    """``between`` or ``side``."""
    from ..data.cutting import Erode

    return _choice(text, get_args(Erode), "erode")


def parse_fit(text: str) -> Fit:
    """``crop`` or ``resize``."""
    from ..data.cutting import Fit

    return _choice(text, get_args(Fit), "fit")


def parse_split(text: str) -> Split:
    """``train``, ``val`` or ``test``."""
    from ..data.sets import Split

    return _choice(text, get_args(Split), "split")


def _choice(text: str, choices: tuple[T, ...], what: str) -> T:
    for choice in choices:
        if choice == text:
            return choice
    raise SherdError(f"{what}: {text!r}; use {' or '.join(choices)}")
