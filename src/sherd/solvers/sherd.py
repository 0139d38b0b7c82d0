"""`sherd`: the default system, our search on what the perception network sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..puzzle import Puzzle
from .evolve import Evolve, Sight

if TYPE_CHECKING:
    from ..perception.mppn.weights import Model


NETWORKS = ("mppn", "decoder", "discriminator")
"""What the search on all evidence reads."""


class Sherd(Evolve):
    """Evolutionary search on the network's evidence: on pairs and borders first, then, from the
    boards that found, on 2×2 puzzlets and whole boards as well."""

    name: ClassVar[str] = "sherd"
    summary: ClassVar[str] = "Evolutionary search on what the perception network sees."
    weights: ClassVar[tuple[str, ...]] = (*NETWORKS, "fringe", "fringe_wide")
    close: ClassVar[bool] = True
    """Gradients and the fringe networks have a say, where little is missing."""

    def __init__(self, model: Model | None = None, candidates: int = 40) -> None:
        self.model = model
        self.candidates = candidates

    def look(self, puzzle: Puzzle) -> Sight:
        """Look at the fragments once; what was seen is evidence on any grid."""
        from ..perception.full import shipped_judges, weigh
        from ..perception.mppn.weights import shipped_model
        from ..perception.neural import looks_worth, observe
        from ..search.evolution import default_threads

        model, threads = self.model or shipped_model(), default_threads()
        judges = shipped_judges() if model.calibration.board_weight else None
        seen = observe(
            puzzle,
            model,
            candidates=self.candidates,
            looks=looks_worth(puzzle),
            close=self.close,
            threads=threads,
        )
        return lambda puzzle: weigh(seen, puzzle, model, judges, threads=threads)
