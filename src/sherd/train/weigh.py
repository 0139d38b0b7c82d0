"""Choose how much 2×2 and global evidence count in the search, on validation puzzles.

    python -m sherd.train.weigh --data DIR

writes λ of the 2×2 puzzlets and λ_g of whole boards (eq. evidence) into the ``calibration`` of the
shipped network (or of ``--weights``). Every puzzle is perceived and searched by pairs and borders
once; from there the search goes on with each weight. What a weight is worth is the mean of
Perfect, Absolute and Neighbor. λ is chosen on art and photos, λ_g, given λ, on art: boards of many
pieces are not judged as a whole. To be run after ``sherd.train.calibrate``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from ..data.cutting import Geometry, cut
from ..data.images import Picture
from ..data.sets import ART5, training_pictures
from ..perception.evidence import Evidence
from ..perception.full import shipped_judges
from ..perception.mppn.weights import DEFAULT, Model, load_model
from ..perception.neural import perceive
from ..perception.whole import Whole
from ..puzzle import Puzzle, score_puzzle
from ..search.evolution import Evolution, default_threads
from ..search.polish import Polish
from ..search.problem import make_problem
from .calibrate import write_calibration
from .command import run_command

PUZZLET_WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5)
BOARD_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
LEAST_GAIN = 0.004
"""What a weight must be worth more than none: evidence costs time, and one puzzle of 120 put right
is worth about this much and may be chance."""
PHOTO = Geometry((7, 10), (64, 64), 4, "side")
"""Hard enough that the search has something to decide."""


def puzzles(pictures: Sequence[Picture], geometry: Geometry, repeats: int = 1) -> Iterator[Puzzle]:
    """The pictures cut and shuffled, each ``repeats`` times with a random stream of its own."""
    for repeat in range(repeats):
        for k, picture in enumerate(pictures):
            rng = np.random.default_rng([k, 3, repeat])
            yield cut(picture.read(), geometry, rng=rng).puzzle.shuffled(rng)


def worth(puzzle: Puzzle, variants: Sequence[Evidence]) -> np.ndarray:
    """``(variants, 3)`` Perfect, Absolute and Neighbor of one puzzle.

    The variants share pair and border evidence, so the search by these is done once.
    """
    problem = make_problem(variants[0], puzzle)
    first = Evolution(problem)
    found, _ = first.run(np.random.default_rng(0), lambda *_: False)
    out = []
    for evidence in variants:
        board = found
        if not evidence.complete:
            more = Polish(problem, evidence)
            board, _ = more.run(first.archive, np.random.default_rng(1), lambda *_: False)
        s = score_puzzle(board, puzzle)
        out.append([s.perfect, s.absolute, s.neighbor])
    return np.array(out)


def choose(name: str, choices: Sequence[float], groups: Sequence[np.ndarray]) -> float:
    """Print what each choice is worth and return the best.

    ``groups``: ``(puzzles, choices, 3)`` per set; sets count the same. A puzzle more or less is
    noise: each choice is judged together with its neighbours, they count half. The first choice
    is to leave the evidence out, and stays unless another is worth `LEAST_GAIN` more.
    """
    for k, choice in enumerate(choices):
        figures = "; ".join(
            f"{int(g[:, k, 0].sum())} of {len(g)} perfect, absolute {100 * g[:, k, 1].mean():.1f}, "
            f"neighbor {100 * g[:, k, 2].mean():.1f}"
            for g in groups
        )
        print(f"{name} {choice}: {figures}", flush=True)
    value = np.mean([g.mean(axis=(0, 2)) for g in groups], axis=0)
    smoothed = smooth(value)
    best = int(np.argmax(np.round(smoothed, 6)))
    return choices[best if smoothed[best] > value[0] + LEAST_GAIN else 0]


def smooth(value: np.ndarray) -> np.ndarray:
    """``(k,)`` averaged with its neighbours, which count half; ends have one."""
    around = np.pad(value, 1, mode="edge")
    return np.asarray(0.25 * around[:-2] + 0.5 * value + 0.25 * around[2:])


def _one_thread() -> None:
    """A process solves one puzzle at a time, with one thread."""
    os.environ["SHERD_THREADS"] = "1"


@cache
def _model(weights: Path) -> Model:
    return load_model(weights)


def worth_of_puzzlets(weights: Path, puzzle: Puzzle) -> np.ndarray:
    """``(choices, 3)``: what each λ of the 2×2 evidence is worth on ``puzzle``."""
    evidence = perceive(puzzle, _model(weights), threads=1)
    return worth(puzzle, [replace(evidence, puzzlet_weight=w) for w in PUZZLET_WEIGHTS])


def worth_of_boards(weights: Path, two: float, puzzle: Puzzle) -> np.ndarray:
    """``(choices, 3)``: what each λ_g is worth on ``puzzle``, with λ = ``two``."""
    model, judges = _model(weights), shipped_judges()
    assert judges is not None
    evidence = replace(
        perceive(puzzle, model, threads=1),
        puzzlet_weight=two,
        board=Whole(puzzle, model, judges.decoder, judges.discriminator, threads=1),
    )
    return worth(puzzle, [replace(evidence, board_weight=w) for w in BOARD_WEIGHTS])


def run(data: Path, weights: Path, every: int, repeats: int) -> None:
    """Choose, print, and rewrite the calibration. Puzzles are shared out among the cores."""
    model = load_model(weights)
    art = training_pictures("art5-val", data)[::every]
    photos = training_pictures("photos-val", data)[::every]
    spawn = multiprocessing.get_context("spawn")  # threads and fork do not mix
    with ProcessPoolExecutor(default_threads(), spawn, _one_thread) as pool:

        def table(work: Callable[[Puzzle], np.ndarray], some: Iterable[Puzzle]) -> np.ndarray:
            return np.stack(list(pool.map(work, some)))

        groups = (puzzles(art, ART5, repeats), puzzles(photos, PHOTO))
        found = [table(partial(worth_of_puzzlets, weights), group) for group in groups]
        two, g = choose("2x2 weight", PUZZLET_WEIGHTS, found), 0.0
        if shipped_judges() is None:
            print("E_g weight 0.0: there is no discriminator")
        else:
            rows = table(partial(worth_of_boards, weights, two), puzzles(art, ART5, repeats))
            g = choose("E_g weight", BOARD_WEIGHTS, [rows])
    calibration = replace(model.calibration, puzzlet_weight=two, board_weight=g)
    write_calibration(weights / "mppn.json", calibration)
    print(f"2x2 weight {calibration.puzzlet_weight}, E_g weight {calibration.board_weight}")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m sherd.train.weigh", description=__doc__)
    p.add_argument("--data", type=Path, required=True, help="folder with photos/ and art5/")
    p.add_argument("--weights", type=Path, default=DEFAULT.parent, help="folder of mppn.json")
    p.add_argument("--every", type=int, default=1, help="use every so-many-th picture only")
    p.add_argument("--repeats", type=int, default=1, help="puzzles per picture of art")
    return run_command(p, run, argv)


if __name__ == "__main__":
    sys.exit(main())
