"""From pixels to a board with the network: seconds and memory, cascade against all pairs.

    python benchmarks/perception.py [--all-pairs 150] [--sizes 25,70] [--repeats 1]

The *cascade* lets the pair heads see those pairs only that may be neighbours, at most 40 of every
row and column, as the system ``sherd`` does; *all pairs* lets them see every pair. Both solve the
same puzzles, cut from
photographs that come with scikit-image (scaled to the size a puzzle needs, so that large puzzles
are softer than real photographs of that size). Every line is a process of its own on at most two
cores; a small puzzle is solved first, so that no time includes compiling or reading weights.
Figures are means over the puzzles. *others* is what other processes used of the machine meanwhile,
in cores: more than a little, and the seconds mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

SIZES = {
    25: ((5, 5), 96, 12),
    70: ((7, 10), 64, 4),
    150: ((10, 15), 64, 4),
    432: ((18, 24), 28, 2),
    805: ((23, 35), 28, 2),
    3300: ((50, 66), 28, 2),
}
"""Pieces → grid, side of a piece and gap in pixels."""
USUAL = 805
"""Most pieces unless asked for by --sizes."""
PICTURES = ("astronaut", "coffee", "cat")
CORES = 2
CASCADE = 40
"""Most candidates per row and column, as `sherd.perception.neural.CANDIDATES`."""


def peak() -> float:
    """Largest resident memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def busy() -> float:
    """Seconds that all cores together have worked since the machine started (0 where unknown)."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, soft, steal = map(int, file.readline().split()[1:9])
    except OSError:
        return 0.0
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def measure(pieces: int, candidates: int, repeats: int, seed: int) -> dict[str, float]:
    """Solve every picture and average; ``candidates`` per row and column go to the pair heads."""
    from skimage import data

    from sherd.data.cutting import Geometry, cut
    from sherd.puzzle import score_puzzle
    from sherd.solvers.sherd import Sherd

    grid, side, gap = SIZES[pieces]
    solver = Sherd(candidates=candidates)
    small = cut(data.coffee(), Geometry((3, 3), (side, side), gap), fit="crop").puzzle
    solver.solve(small)
    idle = peak()
    runs = []
    for k in range(repeats):
        for number, name in enumerate(PICTURES):
            whole = cut(getattr(data, name)(), Geometry(grid, (side, side), gap), fit="crop")
            puzzle = whole.puzzle.shuffled(np.random.default_rng([seed, number]))
            began, own, all_cores = time.perf_counter(), time.process_time(), busy()
            result = solver.solve(puzzle, seed=seed + k)
            cpu = time.process_time() - own
            others = (busy() - all_cores - cpu) / (time.perf_counter() - began)
            runs.append(
                {
                    **{s: result.timings[s] for s in ("perception", "search", "total")},
                    "cpu": cpu,
                    "others": max(0.0, others),
                    "neighbor": score_puzzle(result.board, puzzle).neighbor,
                }
            )
    means = {name: float(np.mean([r[name] for r in runs])) for name in runs[0]}
    return {**means, "peak": peak(), "above": peak() - idle, "runs": len(runs)}


def fresh(pieces: int, candidates: int, args: argparse.Namespace) -> dict[str, float]:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "--only", str(pieces), "--candidates", str(candidates)]
    command += ["--repeats", str(args.repeats), "--seed", str(args.seed)]
    threads = {"SHERD_THREADS": str(CORES), "OMP_NUM_THREADS": str(CORES)}
    reply = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **threads}
    )
    answer: dict[str, float] = json.loads(reply.stdout.splitlines()[-1])
    return answer


def line(pieces: int, mode: str, x: dict[str, float]) -> str:
    """One row of the table."""
    return (
        f"{pieces:6d}  {mode:9s}  {x['runs']:4.0f}  {x['perception']:10.2f}  {x['search']:8.2f}  "
        f"{x['total']:7.2f}  {x['cpu']:6.2f}  {x['peak']:8.0f}  {x['above']:9.0f}  "
        f"{100 * x['neighbor']:8.1f}  {x['others']:6.1f}"
    )


def main() -> None:
    """Run every size, cascade and all pairs one after the other, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", help="numbers of pieces, by commas (default: all up to 805)")
    parser.add_argument("--all-pairs", type=int, default=150, help="up to so many pieces")
    parser.add_argument("--repeats", type=int, default=1, help="of each picture")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this many pieces (used for the sub-processes)")
    parser.add_argument("--candidates", type=int, default=CASCADE, help="with --only")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    if args.only:
        print(json.dumps(measure(args.only, args.candidates, args.repeats, args.seed)))
        return
    known = {str(pieces): pieces for pieces in SIZES}
    usual = [size for size, pieces in known.items() if pieces <= USUAL]
    wanted = args.sizes.split(",") if args.sizes else usual
    if not set(wanted) <= set(known):
        parser.error(f"--sizes: {args.sizes}; known are {', '.join(known)}")
    sizes = [known[size] for size in wanted]
    print(
        "pieces  mode       runs  perception    search    total   CPU s  peak MiB  above MiB  "
        "Neighbor  others"
    )
    both = {}
    for pieces in sizes:
        cascade = fresh(pieces, CASCADE, args)
        print(line(pieces, "cascade", cascade), flush=True)
        if pieces <= args.all_pairs:
            every = fresh(pieces, pieces - 1, args)
            print(line(pieces, "all pairs", every), flush=True)
            both[pieces] = (cascade, every)
    print("\nall pairs against the cascade")
    print("pieces  perception   total  CPU  above MiB  Neighbor")
    for pieces, (a, b) in both.items():
        print(
            f"{pieces:6d}  {b['perception'] / a['perception']:9.1f}x  "
            f"{b['total'] / a['total']:5.1f}x  {b['cpu'] / a['cpu']:3.1f}x  "
            f"{b['above'] / max(a['above'], 1.0):7.1f}x  "
            f"{100 * (b['neighbor'] - a['neighbor']):+8.1f}"
        )


if __name__ == "__main__":
    main()
