"""Inpaint-GAN (Bridger, Danon & Tal 2020): a discriminator's scores for the greedy placer."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..puzzle import Puzzle
from .classical import by_side
from .greedy import Greedy, GreedyParams

if TYPE_CHECKING:
    from ..perception.rivals.inpaint_gan import InpaintGan as Networks


@cache
def _shipped() -> Networks:
    from ..perception.rivals.inpaint_gan import load_inpaint_gan

    return load_inpaint_gan().net


class InpaintGan(Greedy):
    """Paints what is missing between two pieces, judges the result, and places greedily.

    From the paper: two 64-px pieces and the missing strip between them make a pair image; a
    generator inpaints the strip, trained with a discriminator; the discriminator is then trained on
    to tell neighbours from others; its scores of all pairs feed the greedy solver (Paikin & Tal).

    Chosen here: the 32 columns around the seam are computed, of the paper's 128 (on one core 150
    pieces take some 10 s so); the networks are small (0.4 M parameters); fragments of other sizes
    are scaled to 64 px; one network for both directions, vertical pairs transposed; without a gap
    there is nothing to paint and the discriminator judges the pair as it is. The dissimilarity of a
    pair is −log of the discriminator's probability; it is the same from both sides, but the
    compatibility 1 − D / (second best D of that side) is not. What the placer does from there on is
    what `greedy` does. An unknown gap counts as 4 px in 64.
    """

    name: ClassVar[str] = "inpaint-gan"
    summary: ClassVar[str] = "GAN that inpaints the gap; its discriminator feeds the greedy placer."
    reference: ClassVar[str] = (
        "Bridger, Danon & Tal: Solving jigsaw puzzles with eroded boundaries. CVPR 2020"
    )
    weights: ClassVar[tuple[str, ...]] = ("inpaint_gan",)

    def __init__(self, net: Networks | None = None, params: GreedyParams | None = None) -> None:
        super().__init__(params)
        self.net = net

    def dissimilarity(self, puzzle: Puzzle) -> np.ndarray:
        """−log p(neighbours), in nats."""
        from ..perception.rivals.inpaint_pairs import score_pairs
        from ..perception.threads import torch_threads
        from ..search.evolution import default_threads

        with torch_threads(default_threads()):
            logits = score_pairs(self.net or _shipped(), puzzle.pieces, puzzle.gap)
        right, below = np.logaddexp(0.0, -logits)  # −log sigmoid
        return by_side(right, below)
