"""Recipe of the fringe network for wider gaps, 3 to 8 px:

    python -m sherd.train.fringe_wide --data DIR --out DIR --minutes M

It begins with the one for narrow gaps, which knows most of what there is to know, and is learned in
the same way; small enough for a CPU. There memory grows with every step, because a kernel of every
shape is kept, unless the environment says ``LRU_CACHE_CAPACITY=8``,
``ONEDNN_PRIMITIVE_CACHE_CAPACITY=8`` and ``MALLOC_MMAP_THRESHOLD_=1000000``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import ClassVar

from ..perception.fringe import WIDE
from .data import Augment, Entry
from .evaluate import Cell
from .fringe import SHIPPED, FringeRecipe, FringeTrainee
from .rivals import main

GAPS = (3, 4, 4, 4, 5, 6, 8, 8)
MIX = (
    Entry(0.55, (6, 8), (8, 11), (64,), GAPS, art=0.15),
    Entry(0.15, (6, 8), (8, 11), (64,), (2, 4), "side", art=0.15),
    Entry(0.15, (4, 7), (5, 10), (52, 72, 84, 96), GAPS, art=0.3),
    # fragments that were cropped by hand do not meet to the pixel
    Entry(0.15, (6, 8), (8, 11), (64,), GAPS, jitter=(1, 2, 3), art=0.3),
)


@dataclass(frozen=True)
class WideRecipe(FringeRecipe):
    """The defaults that differ."""

    start: str = SHIPPED
    augment: Augment = field(default_factory=lambda: Augment(jpeg=0.15))
    mix: tuple[Entry, ...] = MIX
    lr: float = 5e-4
    decay: float = 0.995
    budget: float = 70.0
    most: int = 120
    hard: int = 8
    spread: int = 3
    half: bool = True


class WideTrainee(FringeTrainee):
    """`FringeTrainee` on other puzzles."""

    system: ClassVar[str] = WIDE
    recipe_type = WideRecipe
    cells: ClassVar[tuple[Cell, ...]] = (
        Cell("photo-gap4", "photos", (7, 10), 64, 4),
        Cell("photo-side4", "photos", (7, 10), 64, 4, "side"),
        Cell("photo-gap4-jpeg", "photos", (7, 10), 64, 4, jpeg=85),
        Cell("photo-gap4-jitter", "photos", (7, 10), 64, 4, jitter=2),
    )


if __name__ == "__main__":
    sys.exit(main(WideTrainee))
