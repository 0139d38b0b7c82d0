"""`sherd`: the default system, our search on what the perception network sees."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

from ..puzzle import Puzzle
from .evolve import Evolve, Sight

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
    weights: ClassVar[tuple[str, ...]] = ("mppn", "decoder", "discriminator")

    def __init__(self, model: Model | None = None, candidates: int = 40) -> None:
        self.model = model
        self.candidates = candidates

    def look(self, puzzle: Puzzle) -> Sight:
        """Look at the fragments once; what was seen is evidence on any grid."""
        from ..perception.full import weigh
        from ..perception.neural import observe
        from ..search.evolution import default_threads

        model, threads = self.model or _shipped(), default_threads()
        judges = _judges() if model.calibration.board_weight else None
        seen = observe(puzzle, model, candidates=self.candidates, threads=threads)
        return lambda puzzle: weigh(seen, puzzle, model, judges, threads=threads)
