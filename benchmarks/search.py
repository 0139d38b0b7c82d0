"""Search alone, on synthetic evidence: does it find boards as good as the true one, and how fast?

    python benchmarks/search.py [--quick]

A run is *search-limited* when it ends below the true board's score. Time is from evidence to
board; memory is the peak of a fresh process that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

GRIDS = {25: (5, 5), 70: (7, 10), 150: (10, 15), 432: (18, 24), 805: (23, 35), 3300: (50, 66)}
RUNS = {25: 40, 70: 40, 150: 30, 432: 20, 805: 10, 3300: 3}
GRADES = [(0.95, 0.0), (0.8, 0.0), (0.6, 0.0), (0.8, 0.1)]
"""(share of sides whose true neighbour ranks first, share of plain pieces)"""


def measure(pieces: int, runs: int, seed: int) -> list[dict[str, float]]:
    """One line per grade: search-limited runs, seconds."""
    from sherd.perception.synthetic import synthetic_evidence
    from sherd.puzzle import Puzzle, identity_board
    from sherd.solvers.base import Recorder
    from sherd.solvers.callbacks import Callbacks
    from sherd.solvers.evolve import search

    def solve(grid: tuple[int, int], top1: float, plain: float, seed: int) -> tuple[float, float]:
        truth = identity_board(grid)
        order = np.random.default_rng([seed, 1]).permutation(truth.size)
        evidence = synthetic_evidence(grid, top1, np.random.default_rng([seed, 0]), plain=plain)
        goal = evidence.score(truth)
        evidence = evidence.reordered(order)
        puzzle = Puzzle(np.zeros((truth.size, 1, 1, 3), np.uint8), grid)
        start = time.perf_counter()
        record = Recorder(Callbacks(), np.arange(puzzle.n))
        found = search(evidence, puzzle, None, np.random.default_rng([seed, 2]), record)
        return found.score - goal, time.perf_counter() - start

    solve((3, 3), 0.9, 0.0, 0)  # compile outside the clock
    lines = []
    for top1, plain in GRADES:
        results = [solve(GRIDS[pieces], top1, plain, seed * 1000 + k) for k in range(runs)]
        short = [gain for gain, _ in results if gain < -1e-2]
        lines.append(
            {
                "pieces": pieces,
                "top1": top1,
                "plain": plain,
                "runs": runs,
                "search_limited": len(short),
                "worst": min(0.0, *[gain for gain, _ in results]),
                "seconds": float(np.mean([t for _, t in results])),
                "slowest": max(t for _, t in results),
            }
        )
    return lines


def main() -> None:
    """Run every size in a process of its own and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this many pieces (used for the sub-processes)")
    args = parser.parse_args()
    if args.only:
        runs = max(1, RUNS[args.only] // 10) if args.quick else RUNS[args.only]
        lines = measure(args.only, runs, args.seed)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps({"lines": lines, "peak_gib": peak}))
        return
    print("pieces  top-1  plain  runs  search-limited  worst nats  s/run  slowest  peak GiB")
    means, totals = {}, {True: [0, 0], False: [0, 0]}
    for pieces in GRIDS:
        command = [sys.executable, __file__, "--only", str(pieces), "--seed", str(args.seed)]
        reply = subprocess.run(
            command + ["--quick"] * args.quick, check=True, capture_output=True, text=True
        )
        answer = json.loads(reply.stdout.splitlines()[-1])
        for x in answer["lines"]:
            print(
                f"{pieces:6d}  {x['top1']:5.2f}  {x['plain']:5.2f}  {x['runs']:4d}  "
                f"{x['search_limited']:14d}  {x['worst']:10.2f}  {x['seconds']:5.2f}  "
                f"{x['slowest']:7.2f}  {answer['peak_gib']:8.2f}",
                flush=True,
            )
            totals[pieces <= 432][0] += x["search_limited"]
            totals[pieces <= 432][1] += x["runs"]
        means[pieces] = np.mean([x["seconds"] for x in answer["lines"]])
    for small, (bad, all_runs) in totals.items():
        print(
            f"search-limited {'up to 432' if small else 'beyond 432'} pieces: "
            f"{bad} of {all_runs} = {100 * bad / all_runs:.1f} %"
        )
    slope, _ = np.polyfit(np.log(list(means)), np.log(list(means.values())), 1)
    print(f"seconds grow as pieces^{slope:.2f}")


if __name__ == "__main__":
    main()
