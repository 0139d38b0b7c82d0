"""All the evidence there is of a puzzle: pairs, borders, 2×2 puzzlets and whole boards, weighed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from ..puzzle import Puzzle
from .evidence import Evidence
from .mppn.decoder import DecoderModel, shipped_decoder
from .mppn.discriminator import DEFAULT, DiscriminatorModel, load_discriminator
from .neural import Observation

if TYPE_CHECKING:
    from .mppn.weights import Model

PUZZLET_CELLS = 1000
"""Cells of the largest grid that is searched with 2×2 evidence; it pays at 25 to 432 pieces, and
beyond that was not measured."""
GLOBAL_CELLS = 36
"""Cells of the largest grid whose boards are judged as a whole: a judgement costs in proportion."""


@dataclass(frozen=True)
class Judges:
    """What the global evidence is made with."""

    decoder: DecoderModel
    discriminator: DiscriminatorModel


@cache
def shipped_judges() -> Judges | None:
    """Those that come with sherd, read once; None if there are none."""
    if not DEFAULT.with_suffix(".json").is_file():
        return None
    return Judges(shipped_decoder(), load_discriminator())


def weigh(
    seen: Observation,
    puzzle: Puzzle,
    model: Model,
    judges: Judges | None = None,
    *,
    threads: int = 2,
) -> Evidence:
    """What was seen of ``puzzle`` as evidence on its grid, all kinds weighed.

    Without a grid there is no global evidence: judgements of boards of several grids do not
    compare.
    """
    from .whole import Whole

    c = model.calibration
    evidence = seen.on(puzzle.grid)
    rows, cols = puzzle.grid or (1, puzzle.n)
    if rows * cols <= PUZZLET_CELLS:
        evidence = replace(evidence, puzzlet_weight=c.puzzlet_weight)
    judged = puzzle.grid is not None and puzzle.n > 1 and rows * cols <= GLOBAL_CELLS
    if judges is not None and c.board_weight and judged:
        whole = Whole(puzzle, model, judges.decoder, judges.discriminator, threads=threads)
        evidence = replace(evidence, board=whole, board_weight=c.board_weight)
    return evidence
