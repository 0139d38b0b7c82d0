"""What each kind of evidence adds: pairs, borders, 2×2 puzzlets, whole boards.

    python benchmarks/ablation.py [--data DIR] [--limit 40] [--split val]

art5 (5×5 pieces of 96 px, 12 px missing, jitter 3). Each puzzle is perceived once; every row then
searches it with the evidence that it names, weighed as the calibration says. A wrong board is
perception-limited if by the row's own objective it scores at least as high as the true one. Seconds
are perception and search together; what a row does not use of perception (the border head, say) is
not taken off. What the networks answered is kept from row to row: later rows pay less for it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from sherd.data.sets import Selection, art5_items, data_root
from sherd.errors import SherdError
from sherd.perception.evidence import Evidence, limited
from sherd.puzzle import Puzzle, Scores, score_puzzle


@dataclass
class Row:
    """What one choice of evidence gives."""

    name: str
    scores: list[Scores] = field(default_factory=list)
    why: list[str | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    missing: str = ""
    """Why there are no figures."""

    def share(self, by: str) -> float:
        """Percentage of puzzles that are limited ``by`` perception or search."""
        return 100.0 * sum(w == by for w in self.why) / len(self.why)

    def line(self) -> str:
        if self.missing:
            return f"{self.name:24s}  {self.missing}"
        mean = {
            name: 100.0 * float(np.mean([getattr(s, name) for s in self.scores]))
            for name in ("perfect", "absolute", "neighbor")
        }
        return (
            f"{self.name:24s}  {mean['perfect']:7.1f}  {mean['absolute']:8.1f}  "
            f"{mean['neighbor']:8.1f}  {self.share('perception'):10.1f}  "
            f"{self.share('search'):6.1f}  {np.mean(self.seconds):8.2f}"
        )


KINDS = (
    "pairs",
    "pairs+2x2",
    "pairs+E_g",
    "pairs+2x2+E_g",
    "pairs+border",
    "pairs+border+2x2",
    "pairs+border+E_g",
    "pairs+border+2x2+E_g",
)
"""The last is what the default system uses."""
HEAD = f"{'evidence':24s}  Perfect  Absolute  Neighbor  perception  search  s/puzzle"


def solve(row: Row, evidence: Evidence, puzzle: Puzzle, seed: int, before: float) -> None:
    """Search with ``evidence`` and add the figures to ``row``; ``before`` = seconds till here."""
    from sherd.solvers.base import Recorder
    from sherd.solvers.callbacks import Callbacks
    from sherd.solvers.evolve import search

    start = time.perf_counter()
    record = Recorder(Callbacks(), np.arange(puzzle.n))
    found = search(evidence, puzzle.without_truth(), None, np.random.default_rng(seed), record)
    row.seconds.append(before + time.perf_counter() - start)
    assert puzzle.truth is not None
    row.scores.append(score_puzzle(found.board, puzzle))
    row.why.append(limited(evidence, found.board, puzzle.truth))


def puzzles(args: argparse.Namespace) -> Iterator[Puzzle]:
    """The puzzles as ``sherd bench art5`` makes them."""
    selection = Selection(split=args.split, limit=args.limit)
    for item in art5_items(data_root(args.data), selection):
        yield item.puzzle(args.seed).shuffled(item.rng(args.seed, 1))


def run(args: argparse.Namespace) -> list[Row]:
    """All rows."""
    from sherd.perception.full import shipped_judges
    from sherd.perception.mppn.weights import load_model
    from sherd.perception.neural import perceive
    from sherd.perception.whole import Whole
    from sherd.search.evolution import default_threads

    model, judges, threads = load_model(), shipped_judges(), default_threads()
    c = model.calibration
    if args.puzzlet_weight is not None:
        c = replace(c, puzzlet_weight=args.puzzlet_weight)
    if args.board_weight is not None:
        c = replace(c, board_weight=args.board_weight)
    rows = [Row(name) for name in KINDS]
    for row in rows:
        if "2x2" in row.name and not c.puzzlet_weight:
            row.missing = "the calibration gives 2x2 evidence no weight (sherd.train.weigh)"
        if "E_g" in row.name and judges is None:
            row.missing = "no discriminator: src/sherd/weights/discriminator.json is not there"
        elif "E_g" in row.name and not c.board_weight:
            row.missing = "the calibration gives E_g no weight (sherd.train.weigh)"

    def measure(puzzle: Puzzle, into: list[Row]) -> None:
        start = time.perf_counter()
        looked = perceive(puzzle, model, threads=threads)
        seen = time.perf_counter() - start
        board, made = None, 0.0
        if judges is not None and c.board_weight:
            start = time.perf_counter()
            board = Whole(puzzle, model, judges.decoder, judges.discriminator, threads=threads)
            made = time.perf_counter() - start
        for row in into:
            if row.missing:
                continue
            evidence = looked if "border" in row.name else replace(looked, border=None)
            if "2x2" in row.name:
                evidence = replace(evidence, puzzlet_weight=c.puzzlet_weight)
            before = seen
            if "E_g" in row.name:
                evidence = replace(evidence, board=board, board_weight=c.board_weight)
                before += made
            solve(row, evidence, puzzle, args.seed, before)

    for number, puzzle in enumerate(puzzles(args)):
        if not number:  # kernels compile outside the clock
            measure(puzzle, [Row(r.name, missing=r.missing) for r in rows])
        measure(puzzle, rows)
        if sys.stderr.isatty():
            print(f"\r{number + 1} puzzles", end="", file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder that holds art5/ [default: $SHERD_DATA]")
    parser.add_argument("--split", default="val", choices=["val", "test"])
    parser.add_argument("--limit", type=int, help="first so many puzzles of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--puzzlet-weight", type=float, help="another λ of the 2×2 evidence")
    parser.add_argument("--board-weight", type=float, help="another λ_g of the global evidence")
    args = parser.parse_args()
    try:
        rows = run(args)
    except SherdError as error:
        sys.exit(f"error: {error}")
    done = [r for r in rows if not r.missing]
    print(f"art5 {args.split}, {len(done[0].why)} puzzles, seed {args.seed}")
    print(HEAD)
    for row in rows:
        print(row.line())
    share = {row.name: row.share("perception") for row in done}
    for base in ("pairs", "pairs+border"):
        for name in dict.fromkeys((f"{base}+2x2+E_g", "pairs+border+2x2+E_g")):
            if share.get(base) and name in share:
                fall = 100.0 * (1.0 - share[name] / share[base])
                print(
                    f"perception-limited: {share[base]:.1f} % with {base}, {share[name]:.1f} % "
                    f"with {name}: {fall:.0f} % fewer"
                )


if __name__ == "__main__":
    main()
