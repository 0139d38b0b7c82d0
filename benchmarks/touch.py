"""What the actor's touch-up of the default system's boards changes, and what the evaluator thinks.

    python benchmarks/touch.py [--data DIR] [--limit 40] [--seeds 0,1,2] [--jobs 2]

art5 val. Wherever the actor finds a board of higher evidence than `sherd` did, a line: the seed,
the picture, how much evidence and the evaluator's opinion rise, and Neighbor before and after.
"""

from __future__ import annotations

import argparse
import sys
from multiprocessing import get_context

import numpy as np

from sherd.data.sets import Item, Selection, art5_items, data_root
from sherd.errors import SherdError
from sherd.perception.evidence import Evidence
from sherd.puzzle import Puzzle, score_board
from sherd.solvers.sherd import Sherd
from sherd.solvers.sherd_evorl import MORE, SherdEvoRl

Change = tuple[float, float, float, float]
"""Evidence, opinion, Neighbor before, Neighbor after."""


class Keen(SherdEvoRl):
    """Takes every board of higher evidence, and notes what was thought of it."""

    seen: tuple[float, float] | None = None

    def takes(
        self, evidence: Evidence, puzzle: Puzzle, before: np.ndarray, after: np.ndarray
    ) -> bool:
        gain = evidence.full_score(after) - evidence.full_score(before)
        self.seen = gain, self.opinion(evidence, puzzle, before, after)
        return True


def change(job: tuple[int, Item]) -> tuple[int, str, Change | None]:
    """What became of one puzzle."""
    seed, item = job
    puzzle = item.puzzle(seed).shuffled(item.rng(seed, 1))
    assert puzzle.truth is not None
    keen, name = Keen(), f"{item.kind}/{item.id}"
    after = keen.solve(puzzle, seed=seed).board
    if keen.seen is None:
        return seed, name, None
    before = Sherd().solve(puzzle, seed=seed).board
    was, now = (score_board(b, puzzle.truth).neighbor for b in (before, after))
    return seed, name, (*keen.seen, was, now)


def numbers(text: str) -> list[int]:
    """``0,1,2``."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder that holds art5/ [default: $SHERD_DATA]")
    parser.add_argument("--limit", type=int, default=40, help="first so many puzzles of each kind")
    parser.add_argument("--seeds", type=numbers, default="0,1,2")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    try:
        items = list(art5_items(data_root(args.data), Selection(split="val", limit=args.limit)))
    except SherdError as error:
        sys.exit(f"error: {error}")
    jobs = [(seed, item) for seed in args.seeds for item in items]
    found: list[Change] = []
    print("seed  picture                evidence  evaluator  Neighbor")
    with get_context("spawn").Pool(args.jobs) as pool:
        for number, (seed, name, seen) in enumerate(pool.imap(change, jobs)):
            if seen is not None:
                found.append(seen)
                gain, opinion, was, now = seen
                print(
                    f"{seed:4d}  {name:21s}  {gain:+8.3f}  {opinion:+9.3f}  "
                    f"{100 * was:5.1f} → {100 * now:5.1f}",
                    flush=True,
                )
            if number % 20 == 19:
                print(f"{number + 1} of {len(jobs)}", file=sys.stderr)
    for what, some in (
        ("all", found),
        (f"evaluator above {MORE}", [c for c in found if c[1] > MORE]),
    ):
        won = sum(now == 1.0 > was for _, _, was, now in some)
        lost = sum(was == 1.0 > now for _, _, was, now in some)
        print(f"{what}: {len(some)} of {len(jobs)} boards; {won} became right, {lost} wrong")


if __name__ == "__main__":
    main()
