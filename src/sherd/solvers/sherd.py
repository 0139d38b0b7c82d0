"""`sherd`: the default system, our search on what the perception network sees."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

from ..perception.evidence import Evidence
from ..puzzle import Puzzle
from .evolve import Evolve

if TYPE_CHECKING:
    from ..perception.mppn.weights import Model


@cache
def _shipped() -> Model:
    from ..perception.mppn.weights import load_model

    return load_model()


class Sherd(Evolve):
    """Evolutionary search on the network's evidence."""

    name: ClassVar[str] = "sherd"
    summary: ClassVar[str] = "Evolutionary search on what the perception network sees."

    def __init__(self, model: Model | None = None, candidates: int = 12) -> None:
        self.model = model
        self.candidates = candidates

    def perceive(self, puzzle: Puzzle) -> Evidence:
        """The evidence to search on."""
        from ..perception.neural import perceive
        from ..search.evolution import default_threads

        model = self.model or _shipped()
        return perceive(puzzle, model, candidates=self.candidates, threads=default_threads())
