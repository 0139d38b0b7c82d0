"""Fit what turns the network's logits into evidence, on validation puzzles.

    python -m sherd.train.calibrate --data DIR

rewrites the ``calibration`` of the shipped network (or of ``--weights``). The temperature of the
pair heads minimises the cross-entropy of the true neighbour over photos and art; the weight of the
border evidence is the one that solves most art puzzles.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..data.cutting import Geometry, cut
from ..data.images import Picture
from ..data.sets import training_pictures
from ..perception.mppn.config import PIVOT_GAP, PIVOT_SIDE, Calibration
from ..perception.mppn.weights import DEFAULT, Model, load_model
from ..perception.neural import CANDIDATES, look
from ..puzzle import Puzzle, pairs
from .command import run_command
from .evaluate import expected_calibration_error
from .loop import write_text

PHOTOS = {
    "7x10, 0 px": Geometry((7, 10), (64, 64), 0),
    "7x10, 2 px": Geometry((7, 10), (64, 64), 2),
    "7x10, 4 px": Geometry((7, 10), (64, 64), 4),
    "7x10, 2 px off each side": Geometry((7, 10), (64, 64), 2, "side"),
    "7x10, 4 px off each side": Geometry((7, 10), (64, 64), 4, "side"),
    "14x20 of 28 px, 2 px": Geometry((14, 20), (28, 28), 2),
}
ART = Geometry((5, 5), (96, 96), 12, jitter=3)
CLEARLY = 2.0
"""Puzzles by which a weight of the border evidence must lead: one may be chance."""


@dataclass(frozen=True)
class Sample:
    """The questions of one cell: whose neighbour is the true one?"""

    name: str
    gap: int
    side: float
    net: Tensor
    """``(q, n)`` logits of the pair heads, -1e4 at the asking piece itself."""
    answer: Tensor
    """``(q,)``"""

    def logits(self, theta: Tensor) -> Tensor:
        """Weighed by ``theta (3,)``: log-weight, slope with the gap, slope with the side."""
        return (theta @ position(self.gap, self.side)).exp() * self.net


def position(gap: float, side: float) -> Tensor:
    """``(3,)``: 1, and where on a calibration's scales of gap and side a puzzle lies."""
    x = math.log1p(gap) - math.log1p(PIVOT_GAP)
    return torch.tensor([1.0, x, math.log(side / PIVOT_SIDE)])


def questions(puzzle: Puzzle, model: Model) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of pair-head logits and the true neighbours, from all four sides."""
    assert puzzle.truth is not None
    with torch.inference_mode():
        logits, _, _ = look(puzzle, model, CANDIDATES)
    for net, true in zip(logits, pairs(puzzle.truth), strict=True):
        for rows, (ask, answer) in ((net, true.T), (net.T, true.T[::-1])):
            yield torch.tensor(rows[ask]), torch.tensor(answer.copy())


def sample(name: str, geometry: Geometry, images: list[np.ndarray], model: Model) -> Sample:
    """All questions of ``images`` cut as ``geometry`` says, pieces shuffled."""
    parts: list[tuple[Tensor, Tensor]] = []
    for k, image in enumerate(images):
        rng = np.random.default_rng(k)
        puzzle = cut(image, geometry, rng=rng).puzzle.shuffled(rng)
        parts.extend(questions(puzzle, model))
    net, answer = (torch.cat(list(p)) for p in zip(*parts, strict=True))
    side = math.sqrt(math.prod(geometry.fragment))
    return Sample(name, geometry.missing, side, net, answer)


def fit_pairs(samples: list[Sample]) -> Tensor:
    """``theta (3,)`` of least mean cross-entropy; every sample counts the same."""
    theta = torch.tensor([-0.3, 0.0, 0.0], requires_grad=True)
    solver = torch.optim.LBFGS([theta], max_iter=40, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = torch.stack([F.cross_entropy(s.logits(theta), s.answer) for s in samples]).mean()
        loss.backward()
        return loss

    solver.step(closure)
    return theta.detach()


def best_border_weight(
    model: Model, puzzles: list[Puzzle], choices: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
) -> float:
    """The weight with which most of ``puzzles`` are solved perfectly (see `leading`)."""
    from ..perception.neural import perceive
    from ..puzzle import score_puzzle
    from ..search.evolution import Evolution
    from ..search.problem import make_problem

    solved = dict.fromkeys(choices, 0.0)
    plain = replace(model, calibration=replace(model.calibration, border_weight=1.0))
    for k, puzzle in enumerate(puzzles):
        evidence = perceive(puzzle, plain)
        assert evidence.border is not None
        for weight in choices:
            weighed = replace(evidence, border=weight * evidence.border)
            search = Evolution(make_problem(weighed, puzzle))
            board, _ = search.run(np.random.default_rng(k), lambda *_: False)
            scores = score_puzzle(board, puzzle)
            solved[weight] += scores.perfect + 1e-3 * scores.absolute
    for weight, count in solved.items():
        print(f"border weight {weight}: {int(count)} of {len(puzzles)} perfect")
    return leading(solved)


def leading(solved: Mapping[float, float]) -> float:
    """The weight that solves most puzzles, the smaller of equals.

    Evidence that is honest counts in full: 1 stays unless another weight solves `CLEARLY` more.
    """
    best = max(solved, key=lambda w: (solved[w], -w))
    return best if solved[best] >= solved[1.0] + CLEARLY else 1.0


def run(data: Path, weights: Path, photos: int) -> None:
    """Fit, print, and rewrite the calibration; ``photos`` photographs per cell (0 = all)."""
    model = load_model(weights)
    images = [p.read() for p in some_photos(data, photos)]
    art = [p.read() for p in training_pictures("art5-val", data)]
    samples = [sample(name, geometry, images, model) for name, geometry in PHOTOS.items()]
    samples.append(sample("art", ART, art[::2], model))
    theta = fit_pairs(samples)
    for s in samples:
        logits = s.logits(theta)
        top = float((logits.argmax(1) == s.answer).float().mean())
        print(
            f"{s.name}: top-1 {100 * top:.1f} %, "
            f"{float(F.cross_entropy(logits, s.answer)):.3f} nats, "
            f"calibration error {expected_calibration_error(logits, s.answer):.4f}"
        )
    level, slope, per_side = theta.tolist()
    calibration = replace(
        model.calibration,
        pair=math.exp(-level),
        pair_slope=-slope,
        pair_side=-per_side,
    )
    model = replace(model, calibration=calibration)
    rngs = [np.random.default_rng(k) for k in range(len(art))]
    puzzles = [
        cut(image, ART, rng=rng).puzzle.shuffled(rng) for image, rng in zip(art, rngs, strict=True)
    ]
    calibration = replace(calibration, border_weight=best_border_weight(model, puzzles))
    write_calibration(weights / "mppn.json", calibration)


def some_photos(data: Path, count: int) -> list[Picture]:
    """About ``count`` of the validation photographs, evenly chosen; 0 = all."""
    pictures = training_pictures("photos-val", data)
    return pictures[:: max(1, len(pictures) // count)] if count else pictures


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Put ``calibration`` into the description of a network."""
    about = json.loads(path.read_text())
    about["calibration"] = {k: round(v, 4) for k, v in calibration.asdict().items()}
    write_text(path, json.dumps(about, indent=1) + "\n")


def calibration_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """The options of the commands that rewrite a calibration."""
    p = argparse.ArgumentParser(prog=f"python -m sherd.train.{module}", description=description)
    p.add_argument("--data", type=Path, required=True, help="folder with photos/ and art5/")
    p.add_argument("--weights", type=Path, default=DEFAULT.parent, help="folder of mppn.json")
    p.add_argument("--photos", type=int, default=20, help="photographs per cell (0 = all)")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    return run_command(calibration_parser("calibrate", __doc__), run, argv)


if __name__ == "__main__":
    sys.exit(main())
