"""`sherd`: the default system, our search on what the perception network sees."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

from ..perception.evidence import Evidence
from ..puzzle import Puzzle
from .evolve import Evolve

if TYPE_CHECKING:
    from ..perception.full import Judges
    from ..perception.mppn.weights import Model


@cache
def _shipped() -> Model:
    from ..perception.mppn.weights import load_model

    return load_model()


@cache
def _judges() -> Judges | None:
    from ..perception.full import shipped_judges

    return shipped_judges()


class Sherd(Evolve):
    """Evolutionary search on the network's evidence: on pairs and borders first, then, from the
    boards that found, on 2×2 puzzlets and whole boards as well."""

    name: ClassVar[str] = "sherd"
    summary: ClassVar[str] = "Evolutionary search on what the perception network sees."

    def __init__(self, model: Model | None = None, candidates: int = 40) -> None:
        self.model = model
        self.candidates = candidates

    def perceive(self, puzzle: Puzzle) -> Evidence:
        """The evidence to search on."""
        from ..perception.full import perceive_fully
        from ..search.evolution import default_threads

        model = self.model or _shipped()
        judges = _judges() if model.calibration.board_weight else None
        return perceive_fully(
            puzzle, model, judges, candidates=self.candidates, threads=default_threads()
        )
