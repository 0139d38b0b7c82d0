"""What each kind of evidence adds: pairs, borders, 2×2 puzzlets, whole boards.

    python benchmarks/ablation.py [--data DIR] [--limit 40] [--split val]

art5 (5×5 pieces of 96 px, 12 px missing, jitter 3). Each puzzle is perceived once; every row then
searches it with the evidence that it names, weighed as the calibration says. A wrong board is
perception-limited if by the row's own objective it scores at least as high as the true one. Seconds
are perception and search together; what a row does not use of perception (the border head, say) is
not taken off.
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
    """One kind of evidence more than the row above."""

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
    pairs, border = Row("pairs"), Row("pairs+border")
    two, whole = Row("pairs+border+2x2"), Row("pairs+border+2x2+E_g")
    if not c.puzzlet_weight:
        two.missing = "the calibration gives 2x2 evidence no weight (python -m sherd.train.weigh)"
    if judges is None:
        whole.missing = "no discriminator: src/sherd/weights/discriminator.json is not there"
    elif not c.board_weight:
        whole.missing = "the calibration gives E_g no weight (python -m sherd.train.weigh)"
    rows = [pairs, border, two, whole]

    def measure(puzzle: Puzzle, into: list[Row]) -> None:
        pairs, border, two, whole = into
        start = time.perf_counter()
        evidence = perceive(puzzle, model, threads=threads)
        seen = time.perf_counter() - start
        solve(pairs, replace(evidence, border=None), puzzle, args.seed, seen)
        solve(border, evidence, puzzle, args.seed, seen)
        evidence = replace(evidence, puzzlet_weight=c.puzzlet_weight)
        if not two.missing:
            solve(two, evidence, puzzle, args.seed, seen)
        if judges is not None and not whole.missing:
            start = time.perf_counter()
            board = Whole(puzzle, model, judges.decoder, judges.discriminator, threads=threads)
            seen += time.perf_counter() - start
            evidence = replace(evidence, board=board, board_weight=c.board_weight)
            solve(whole, evidence, puzzle, args.seed, seen)

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
    first = done[0].share("perception")
    for row in done[1:]:
        print(
            f"perception-limited share: {first:.1f} % with pairs, "
            f"{row.share('perception'):.1f} % with {row.name} "
            f"({row.share('perception') - first:+.1f})"
        )


if __name__ == "__main__":
    main()
