"""What a pin is worth: how often must a person put a piece right until the whole board is?

    python benchmarks/pins.py [--data DIR] [--limit 20] [--seed 0]

art5 val (5×5 pieces of 96 px, 12 px missing, jitter 3). Of the puzzles that perception gets wrong
(the answer scores at least as high as the truth), each is looked at once and then solved again and
again: a random piece that lies wrong is pinned to its true cell, and the search goes on from the
board that there was. A line per number of pins: puzzles that are still wrong before it, mean
Neighbor over all puzzles, and in how many puzzles this pin made Neighbor fall.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np

from sherd.data.sets import Selection, art5_items, data_root
from sherd.errors import SherdError
from sherd.perception.evidence import Evidence, limited
from sherd.puzzle import Cell, Puzzle, score_board
from sherd.solvers.base import Recorder
from sherd.solvers.callbacks import Callbacks
from sherd.solvers.evolve import search
from sherd.solvers.sherd import Sherd


def solved(
    evidence: Evidence, puzzle: Puzzle, seed: int, start: np.ndarray | None
) -> tuple[np.ndarray, str | None]:
    """The board, and whose fault it is if it is wrong."""
    record = Recorder(Callbacks(), np.arange(puzzle.n))
    rng = np.random.default_rng(seed)
    found = search(evidence, puzzle.without_truth(), None, rng, record, start=start)
    assert puzzle.truth is not None
    return found.board, limited(evidence, found.board, puzzle.truth)


def one(puzzle: Puzzle, seed: int) -> list[float] | None:
    """Neighbor after 0, 1, 2, … pins, 1 at the end; None if perception was not at fault."""
    truth = puzzle.truth
    assert truth is not None
    rng = np.random.default_rng(seed)
    seen = Sherd().perceive(puzzle.without_truth())
    board, fault = solved(seen, puzzle, seed, None)
    if fault != "perception":
        return None
    known: dict[int, Cell] = {}
    history = [score_board(board, truth).neighbor]
    while not np.array_equal(board, truth):
        wrong = np.argwhere(board != truth)
        r, c = wrong[rng.integers(len(wrong))]
        known[int(truth[r, c])] = (int(r), int(c))
        board, _ = solved(seen, replace(puzzle, pins=known), seed, board)
        history.append(score_board(board, truth).neighbor)
    return history


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder that holds art5/ [default: $SHERD_DATA]")
    parser.add_argument("--limit", type=int, default=20, help="first so many puzzles of each kind")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    found: list[list[float]] = []
    try:
        items = list(art5_items(data_root(args.data), Selection(split="val", limit=args.limit)))
    except SherdError as error:
        sys.exit(f"error: {error}")
    for number, item in enumerate(items):
        history = one(item.puzzle(args.seed).shuffled(item.rng(args.seed, 1)), args.seed)
        if history is not None:
            found.append(history)
            text = " ".join(f"{100 * v:.0f}" for v in history)
            print(f"{number + 1}/{len(items)} {item.kind}/{item.id}: {text}", file=sys.stderr)
    print(f"art5 val, {len(items)} puzzles, {len(found)} perception-limited, seed {args.seed}")
    if not found:
        return
    print("pins  wrong  Neighbor  fell")
    for pins in range(max(len(h) for h in found)):
        wrong = sum(len(h) > pins for h in found) if pins else len(found)
        mean = np.mean([h[min(pins, len(h) - 1)] for h in found])
        fell = sum(0 < pins < len(h) and h[pins] < h[pins - 1] - 1e-9 for h in found)
        print(f"{pins:4d}  {wrong:5d}  {100 * mean:8.1f}  {fell:4d}")
    counts = [len(h) - 1 for h in found]
    steps = sum(counts)
    fell = sum(b < a - 1e-9 for h in found for a, b in pairwise(h))
    print(f"pins until perfect: median {np.median(counts):.0f}, most {max(counts)}")
    print(f"pins that made Neighbor fall: {fell} of {steps} = {100 * fell / steps:.1f} %")


if __name__ == "__main__":
    main()
