"""Fit how the pair heads and gradients share what they say where little is missing.

    python -m sherd.train.close --data DIR [--small]

rewrites six figures of the shipped network's ``calibration`` (or of ``--weights``): the temperature
of the pair heads and the weight of `perception.gradients`, both as functions of the gap and of the
side of a piece. With ``--small`` it rewrites the four that stand in their place for small pieces,
which are looked at in more mirrors and along their seams. All minimise the cross-entropy of the
true neighbour on validation photographs, after both sides of a seam were asked: by the evidence as
it is searched.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..data.images import Picture
from ..data.sets import Cutting
from ..perception.gradients import gradient_evidence
from ..perception.mppn.config import PIVOT_SIDE
from ..perception.mppn.weights import Model, load_model
from ..perception.neural import CANDIDATES, look, piece_side
from ..perception.reflections import LOOKS
from ..puzzle import Puzzle, pairs
from .calibrate import calibration_parser, position, some_photos, write_calibration
from .command import run_command

CELLS = (
    Cutting(((7, 10),), (0, 2, 4)),
    Cutting(((7, 10),), (2, 4), "side"),
    Cutting(gaps=(0, 1, 2), pieces=28),
)
"""What the figures are fitted on; every gap of each counts the same."""
SMALL_CELLS = (Cutting(gaps=(0, 1, 2), pieces=28),)
"""What those of small pieces are fitted on."""
FLOOR = 1e-4
"""Uniform doubt in every answer, as in `perception.evidence.from_logits`."""


@dataclass(frozen=True)
class Sample:
    """What is said of one puzzle, and its truth."""

    at: Tensor
    """``(3,)``: its `position`."""
    net: Tensor
    """``(2, n, n)`` logits of the pair heads."""
    gradients: Tensor
    """``(2, n, n)`` evidence."""
    links: tuple[Tensor, Tensor]
    """``(k, 2)`` true neighbours: right, below."""

    def loss(self, theta: Tensor) -> Tensor:
        """Mean cross-entropy of the true neighbours under ``theta (2, 3)``: log-weights of the
        pair heads and of the gradients."""
        net, gradients = (theta @ self.at).exp()
        logits = net * self.net + gradients * self.gradients
        total = torch.zeros(())
        for z, link in zip(both_ways(logits), self.links, strict=True):
            for rows, (ask, answer) in ((z, link.T), (z.T, link.T.flip(0))):
                total = total + F.cross_entropy(rows[ask], answer)
        return total / 4


def both_ways(logits: Tensor) -> Tensor:
    """``(…, n, n)`` answers of both sides of every seam together, as `from_logits` makes them."""
    n = logits.shape[-1]
    itself = torch.eye(n, dtype=torch.bool, device=logits.device)
    z = logits.masked_fill(itself, -1e4)
    ways = [(z.softmax(axis) * (1.0 - FLOOR) + FLOOR / (n - 1)).log() for axis in (-2, -1)]
    return (0.5 * (ways[0] + ways[1])).masked_fill(itself, -1e4)


def sample(puzzle: Puzzle, model: Model, small: bool = False) -> Sample:
    """What network and gradients say of ``puzzle``; the side of ``small`` pieces does not count."""
    assert puzzle.truth is not None
    assert puzzle.gap is not None
    with torch.inference_mode():
        logits, _, _ = look(puzzle, model, CANDIDATES, len(LOOKS) if small else 2)
    steps = gradient_evidence(puzzle, along=small)
    side = PIVOT_SIDE if small else piece_side(puzzle)
    right, below = (torch.from_numpy(p) for p in pairs(puzzle.truth))
    return Sample(
        position(puzzle.gap, side),
        torch.tensor(logits),
        torch.from_numpy(np.stack([steps.h, steps.v])),
        (right, below),
    )


def fit(cells: Sequence[Sequence[Sample]]) -> Tensor:
    """``theta (2, 3)`` of least mean loss; every cell counts the same."""
    theta = torch.tensor([[-0.1, 0.0, 0.0], [-1.2, 0.0, 0.0]], requires_grad=True)
    solver = torch.optim.LBFGS([theta], max_iter=20, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        total = torch.zeros(())
        for cell in cells:
            for s in cell:  # one at a time: tables of hundreds of pieces are large
                loss = s.loss(theta) / (len(cell) * len(cells))
                loss.backward()
                total = total + loss.detach()
        return total

    solver.step(closure)
    return theta.detach()


def puzzles(cutting: Cutting, gap: int, pictures: list[Picture]) -> list[Puzzle]:
    """The photographs cut, pieces shuffled."""
    items = replace(cutting, gaps=(gap,)).items("close", "photos-val", pictures)
    return [item.puzzle(0).shuffled(item.rng(0, 1)) for item in items]


def run(data: Path, weights: Path, photos: int, small: bool = False) -> None:
    """Fit, print, and rewrite the calibration; ``photos`` photographs per cell (0 = all)."""
    model = load_model(weights)
    c = model.calibration
    pictures = some_photos(data, photos)
    cells, names = [], []
    for cutting in SMALL_CELLS if small else CELLS:
        for gap in cutting.gaps:
            cells.append([sample(p, model, small) for p in puzzles(cutting, gap, pictures)])
            how = " off each side" if cutting.erode == "side" else ""
            names.append(f"{cutting.pieces or 64} px, {gap} px{how}")
    theta = fit(cells)
    before = torch.tensor([[-math.log(c.pair), -c.pair_slope, -c.pair_side], [-30.0, 0.0, 0.0]])
    with torch.inference_mode():
        for name, cell in zip(names, cells, strict=True):
            old, new = (torch.stack([s.loss(t) for s in cell]).mean() for t in (before, theta))
            print(f"{name}: {old:.4f} nats by the pair heads, {new:.4f} with gradients")
    (net, net_gap, net_side), (weight, weight_gap, weight_side) = theta.tolist()
    found = {"": math.exp(-net), "_slope": -net_gap, "_side": -net_side}
    figures = {f"{'fine' if small else 'close'}{k}": v for k, v in found.items()}
    found = {"": math.exp(weight), "_slope": weight_gap, "_side": weight_side}
    figures |= {f"{'fine_' if small else ''}gradient{k}": v for k, v in found.items()}
    known = c.asdict()  # small pieces have no figure for their side
    calibration = replace(c, **{k: v for k, v in figures.items() if k in known})
    print({k: round(v, 4) for k, v in calibration.asdict().items()})
    write_calibration(weights / "mppn.json", calibration)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = calibration_parser("close", __doc__)
    parser.add_argument("--small", action="store_true", help="fit the figures of small pieces")
    return run_command(parser, run, argv)


if __name__ == "__main__":
    sys.exit(main())
