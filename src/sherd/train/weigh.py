"""Fit λ_g, the weight of the global evidence (eq. evidence), on validation art.

    python -m sherd.train.weigh --data DIR [--weights FOLDER] [--write]

Every puzzle is searched on pair and border evidence. Among the boards that the search ends with,
and those shifted by a row or a column, the one of most evidence is taken, for several λ_g; the λ_g
with which most puzzles come out right is the best, the smaller of equals. The truth is added to no
pool: it must have been found.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..data.cutting import Geometry, cut
from ..data.sets import training_pictures
from ..errors import SherdError
from ..perception.mppn.decoder import load_decoder
from ..perception.mppn.discriminator import DEFAULT, BoardCalibration, load_discriminator
from ..perception.mppn.weights import load_model
from ..puzzle import EMPTY
from .loop import write_text

CHOICES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0)
POOL = 24
"""Boards of the search that are weighed."""
ART = Geometry((5, 5), (96, 96), 12, jitter=3)


@dataclass(frozen=True)
class Pool:
    """Boards of one puzzle."""

    local: np.ndarray
    """``(k,)`` E_p and border evidence."""
    whole: np.ndarray
    """``(k,)`` E_g."""
    absolute: np.ndarray
    """``(k,)`` share of pieces in their true cell; 1 = right."""

    def taken(self, weight: float) -> float:
        """``absolute`` of the board of most evidence; the earlier of equals."""
        return float(self.absolute[int(np.argmax(self.local + weight * self.whole))])


def results(pools: Sequence[Pool], choices: Sequence[float] = CHOICES) -> list[tuple[float, float]]:
    """Per λ_g: share of puzzles that come out right, and mean share of pieces in place."""
    out = []
    for weight in choices:
        taken = np.array([pool.taken(weight) for pool in pools])
        out.append((float((taken == 1.0).mean()), float(taken.mean())))
    return out


def best_weight(pools: Sequence[Pool], choices: Sequence[float] = CHOICES) -> float:
    """The λ_g of most right puzzles, then of most pieces in place, then the smallest."""
    rows = results(pools, choices)
    return choices[max(range(len(choices)), key=lambda k: (rows[k], -choices[k]))]


def with_shifts(boards: np.ndarray) -> np.ndarray:
    """``(k, M, N)`` boards, then the first of them shifted by one row or column each way."""
    first = boards[0]
    moved = [np.roll(first, step, axis) for axis in (0, 1) for step in (1, -1)]
    both = np.concatenate([boards, np.stack(moved)])
    kept = np.unique(both.reshape(len(both), -1), axis=0, return_index=True)[1]
    return both[np.sort(kept)]


def gather(weights: Path, images: Sequence[np.ndarray], *, threads: int = 2) -> list[Pool]:
    """Search every picture's puzzle and weigh what was found."""
    from ..perception.neural import perceive
    from ..perception.whole import Whole
    from ..search.evolution import Evolution
    from ..search.problem import make_problem

    model, decoder = load_model(weights), load_decoder(weights)
    discriminator = load_discriminator(weights)
    pools = []
    for k, image in enumerate(images):
        rng = np.random.default_rng(k)
        puzzle = cut(image, ART, rng=rng).puzzle.shuffled(rng)
        assert puzzle.truth is not None
        evidence = perceive(puzzle, model, threads=threads)
        search = Evolution(make_problem(evidence, puzzle))
        search.run(np.random.default_rng(k), lambda *_: False)
        found = [search.problem.to_board(flat) for flat in search.archive[:POOL]]
        boards = with_shifts(np.stack([b for b in found if (b != EMPTY).all()]))
        whole = Whole(puzzle, model, decoder, discriminator, threads=threads)
        pools.append(
            Pool(
                np.array([evidence.score(board) for board in boards]),
                whole(boards).astype(np.float64),
                (boards == puzzle.truth).mean((1, 2)),
            )
        )
    return pools


def write_weight(path: Path, weight: float) -> None:
    """Put λ_g into the description of a discriminator."""
    about = json.loads(path.read_text())
    old = BoardCalibration.from_dict(about.get("calibration", {}), f"{path}: calibration")
    about["calibration"] = replace(old, weight=weight).asdict()
    write_text(path, json.dumps(about, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m sherd.train.weigh", description=__doc__)
    p.add_argument("--data", type=Path, required=True, help="folder with art5/")
    p.add_argument("--weights", type=Path, default=DEFAULT.parent, help="folder of the networks")
    p.add_argument("--write", action="store_true", help="keep the best weight")
    p.add_argument("--limit", type=int, default=0, help="most pictures (0 = all)")
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args(argv)
    try:
        pictures = training_pictures("art5-val", args.data)
        if args.limit and len(pictures) > args.limit:  # spread, since they are sorted by kind
            at = np.linspace(0, len(pictures) - 1, args.limit).astype(int)
            pictures = [pictures[i] for i in at]
        pools = gather(args.weights, [p.read() for p in pictures], threads=args.threads)
        for weight, (perfect, absolute) in zip(CHOICES, results(pools), strict=True):
            print(f"{weight:4.2f}  perfect {100 * perfect:.1f} %, in place {100 * absolute:.1f} %")
        within = float(np.mean([(pool.absolute == 1.0).any() for pool in pools]))
        print(f"right board among those weighed: {100 * within:.1f} %")
        print(f"best weight {best_weight(pools)}, {len(pools)} puzzles")
        if args.write:
            write_weight(args.weights / "discriminator.json", best_weight(pools))
    except SherdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
