"""What a pin is worth: how often must a person put a piece right until the whole board is?

    python benchmarks/pins.py [--data DIR] [--limit 20] [--seed 0] [--far | --every]
                              [--pictures photos-val --grid 5x6 --piece 64 --gap 16]

art5 val (5×5 pieces of 96 px, 12 px missing, jitter 3), or pictures cut in another way. Of the
puzzles that perception gets wrong (the answer scores at least as high as the truth), each is looked
at once and then solved again and again: a random piece that lies wrong is pinned to its true cell,
and solving goes on from the board that there was. With --far the board of highest evidence that
honours the pins is taken each time, whatever becomes of the rest. A line per number of pins:
puzzles that are still wrong before it, mean Neighbor over all puzzles, and in how many puzzles this
pin made Neighbor fall. With --every no pin is left to chance: each piece that lies wrong is the
first pin once, and no second one follows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from sherd.cli.parse import parse_grid
from sherd.data.sets import (
    ART5,
    Item,
    PictureItem,
    Selection,
    art5_items,
    data_root,
    training_pictures,
)
from sherd.errors import SherdError
from sherd.perception.evidence import Evidence, limited
from sherd.puzzle import Cell, Puzzle, score_board
from sherd.solvers.base import Recorder
from sherd.solvers.callbacks import Callbacks
from sherd.solvers.evolve import search
from sherd.solvers.go_on import go_on
from sherd.solvers.sherd import Sherd

Answer = Callable[[Evidence, Puzzle, int, np.ndarray], np.ndarray]
"""Evidence, the puzzle with its pins, a seed and the board that there was → the next one."""


def far(evidence: Evidence, puzzle: Puzzle, seed: int, start: np.ndarray | None) -> np.ndarray:
    """The board of highest evidence."""
    record = Recorder(Callbacks(), np.arange(puzzle.n))
    rng = np.random.default_rng(seed)
    return search(evidence, puzzle.without_truth(), None, rng, record, start=start).board


def near(evidence: Evidence, puzzle: Puzzle, seed: int, seen: np.ndarray) -> np.ndarray:
    """The board that is shown to who has seen ``seen``."""
    record = Recorder(Callbacks(), np.arange(puzzle.n))
    rng = np.random.default_rng(seed)
    return go_on(evidence, puzzle.without_truth(), None, rng, record, seen).board


def one(puzzle: Puzzle, seed: int, answer: Answer, every: bool = False) -> list[float] | None:
    """Neighbor after 0, 1, 2, … pins, 1 at the end, or before any and after ``every`` first pin;
    None if perception was not at fault."""
    truth = puzzle.truth
    assert truth is not None
    seen = Sherd().perceive(puzzle.without_truth())
    board = far(seen, puzzle, seed, None)
    if limited(seen, board, truth) != "perception":
        return None
    return (firsts if every else course)(seen, board, puzzle, seed, answer)


def firsts(
    seen: Evidence, board: np.ndarray, puzzle: Puzzle, seed: int, answer: Answer
) -> list[float]:
    """Neighbor of ``board``, and of what follows each pin of a piece that lies wrong on it."""
    truth = puzzle.truth
    assert truth is not None
    found = [score_board(board, truth).neighbor]
    for r, c in np.argwhere(board != truth).tolist():
        pinned = replace(puzzle, pins={int(truth[r, c]): (r, c)})
        found.append(score_board(answer(seen, pinned, seed, board), truth).neighbor)
    return found


def course(
    seen: Evidence, board: np.ndarray, puzzle: Puzzle, seed: int, answer: Answer
) -> list[float]:
    """Neighbor from ``board`` on, pin by pin."""
    truth = puzzle.truth
    assert truth is not None
    rng = np.random.default_rng(seed)
    known: dict[int, Cell] = {}
    history = [score_board(board, truth).neighbor]
    while not np.array_equal(board, truth):
        wrong = np.argwhere(board != truth)
        r, c = wrong[rng.integers(len(wrong))]
        known[int(truth[r, c])] = (int(r), int(c))
        board = answer(seen, replace(puzzle, pins=known), seed, board)
        assert all(board[cell] == piece for piece, cell in known.items())
        history.append(score_board(board, truth).neighbor)
    return history


def chosen(args: argparse.Namespace) -> list[Item]:
    """The puzzles, not yet cut."""
    root = data_root(args.data)
    rows, cols = parse_grid(args.grid)
    asked = ((rows, cols), args.piece, args.gap)
    if args.pictures == "art5-val" and asked == (ART5.grid, ART5.piece[0], ART5.gap):
        return list(art5_items(root, Selection(split="val", limit=args.limit)))
    pictures = training_pictures(args.pictures, root)
    return [
        PictureItem(
            "pins", args.pictures, None, f"{p.name} {args.grid}", (rows, cols), args.gap, "between",
            args.piece, p, jitter=3,
        )
        for p in pictures[: args.limit]
    ]  # fmt: skip


def show(found: list[list[float]]) -> None:
    """Print what became of Neighbor, pin by pin."""
    print("pins  wrong  Neighbor  fell")
    for pins in range(max(len(h) for h in found)):
        wrong = sum(len(h) > pins for h in found) if pins else len(found)
        mean = np.mean([h[min(pins, len(h) - 1)] for h in found])
        fell = sum(0 < pins < len(h) and h[pins] < h[pins - 1] - 1e-9 for h in found)
        print(f"{pins:4d}  {wrong:5d}  {100 * mean:8.1f}  {fell:4d}")
    counts = [len(h) - 1 for h in found]
    steps = sum(counts)
    fell = sum(b < a - 1e-9 for h in found for a, b in pairwise(h))
    print(
        f"pins until perfect: median {np.median(counts):.0f}, mean {np.mean(counts):.2f}, "
        f"most {max(counts)}"
    )
    print(f"pins that made Neighbor fall: {fell} of {steps} = {100 * fell / steps:.1f} %")


def show_firsts(found: list[list[float]]) -> None:
    """Print what became of Neighbor after every first pin."""
    after = [np.array(h[1:]) for h in found]
    fell = [h < f[0] - 1e-9 for h, f in zip(after, found, strict=True)]
    before, mean = np.mean([f[0] for f in found]), np.mean([h.mean() for h in after])
    right = np.mean([(h == 1.0).mean() for h in after])
    print(
        f"mean over puzzles: Neighbor {100 * before:.1f} before a pin, {100 * mean:.1f} after it; "
        f"all right in {100 * right:.1f} %"
    )
    count, pins = sum(int(f.sum()) for f in fell), sum(map(len, after))
    share = np.mean([f.mean() for f in fell])
    print(
        f"first pins that made Neighbor fall: {count} of {pins}, {100 * share:.1f} % of a puzzle's"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder that holds art5/ [default: $SHERD_DATA]")
    parser.add_argument("--limit", type=int, default=20, help="first so many puzzles of each kind")
    parser.add_argument("--seed", type=int, default=0)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--far", action="store_true", help="always the board of highest evidence")
    how.add_argument("--every", action="store_true", help="every first pin, and no second one")
    parser.add_argument("--pictures", default="art5-val", help="or photos-val")
    parser.add_argument("--grid", default="5x5")
    parser.add_argument("--piece", type=int, default=96, help="side of a piece, in pixels")
    parser.add_argument("--gap", type=int, default=12, help="pixels missing between neighbours")
    args = parser.parse_args()
    found: list[list[float]] = []
    try:
        items = chosen(args)
    except SherdError as error:
        sys.exit(f"error: {error}")
    for number, item in enumerate(items):
        puzzle = item.puzzle(args.seed).shuffled(item.rng(args.seed, 1))
        history = one(puzzle, args.seed, far if args.far else near, args.every)
        if history is not None:
            found.append(history)
            text = " ".join(f"{100 * v:.0f}" for v in history)
            print(f"{number + 1}/{len(items)} {item.kind}/{item.id}: {text}", file=sys.stderr)
    what = f"{args.pictures}, {args.grid} of {args.piece} px, gap {args.gap} px"
    shown = "highest evidence" if args.far else "near the board that was seen"
    print(
        f"{what}, {len(items)} puzzles, {len(found)} perception-limited, seed {args.seed}: {shown}"
    )
    if found:
        (show_firsts if args.every else show)(found)


if __name__ == "__main__":
    main()
