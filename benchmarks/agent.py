"""The agent: steps of its environment, states that its evaluator judges, seconds per puzzle.

    python benchmarks/agent.py [--threads 1] [--runs 5] [--untrained] [--no-place] [--device cuda]

*Environment*: the same random legal Swap-2 actions on 7x10 puzzles, one board at a time through
``sherd/Swap-v0`` and through the batched environment, and many boards at once; all in one run, so
that the ratio holds on a busy machine too. *Evaluator*: boards judged per second, 64 at a time, as
an evolution asks for them, and 4096 at a time, as training does; then the offspring of one board,
judged anew and by ``sherd.agent.recall``. *Puzzles* (on the CPU): from a random board to the end,
on synthetic evidence of known quality (share of sides whose true neighbour ranks first).
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable

import numpy as np
import torch

GRIDS = ((5, 5), (7, 10), (10, 15))
GRADES = (0.95, 0.85)
BATCHES = (512, 8192)


def rate(work: Callable[[], int], seconds: float = 2.0) -> float:
    """Units of work per second; `work` says how many units it did."""
    work()
    wait()
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        done += work()
        wait()
    return done / (time.perf_counter() - start)


def wait() -> None:
    """Until a GPU has done what it was told to, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def puzzles_of(  # type: ignore[no-untyped-def]
    grid: tuple[int, int], top1: float, count: int, seed: int = 0, device: str = "cpu"
):
    """Synthetic puzzles, pieces shuffled."""
    from sherd.agent.rules import from_tensors
    from sherd.perception.synthetic import synthetic_evidence

    parts, truths = [], []
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        order = rng.permutation(grid[0] * grid[1])
        parts.append(synthetic_evidence(grid, top1, rng).reordered(order))
        truths.append(np.argsort(order))
    h, v = (torch.from_numpy(np.stack([getattr(e, m) for e in parts])).to(device) for m in "hv")
    return from_tensors(h, v, None, grid, truth=torch.from_numpy(np.stack(truths)).to(device))


def environments(device: str) -> None:
    """Steps per second, one at a time and batched."""
    from sherd.agent.batch import BatchEnv, Starts, start_boards

    grid = (7, 10)
    alone = "not measured"
    try:
        import gymnasium

        import sherd.agent.env  # noqa: F401
    except ImportError:
        pass
    else:
        rng = np.random.default_rng(0)
        gym = gymnasium.make("sherd/Swap-v0", grid=grid, max_steps=10**9).unwrapped
        gym.reset(seed=0)

        def one_gym() -> int:
            a, b = rng.choice(70, 2, replace=False)
            gym.step(np.array([0, a, b, 0]))
            return 1

        alone = f"{rate(one_gym):.0f}"

    def batched(boards: int) -> Callable[[], int]:
        puzzles = puzzles_of(grid, 0.9, min(boards, 16), device=device)
        which = torch.arange(boards, device=device) % len(puzzles)
        env = BatchEnv(puzzles, which)
        g = torch.Generator(device).manual_seed(0)
        env.reset(start_boards(puzzles, which, Starts(0.0, 0.0), g))

        def work() -> int:
            a = torch.randint(70, (boards,), generator=g, device=device)
            b = (a + 1 + torch.randint(69, (boards,), generator=g, device=device)) % 70
            none = torch.full_like(a, -1)
            env.step(torch.stack([torch.zeros_like(a), a, b, none], 1))
            return boards

        return work

    single = rate(batched(1))
    print(f"environment, 7x10, {device}: {alone} steps/s through Gymnasium (with observation), "
          f"{single:.0f} one board at a time")  # fmt: skip
    for boards in BATCHES:
        many = rate(batched(boards))
        print(f"  {boards} boards: {many:.0f} steps/s, {many / single:.0f} times as many")


def offspring(evaluator, puzzle) -> None:  # type: ignore[no-untyped-def]
    """Boards per second of a step's evolution (ten generations of 64 boards, three swaps away from
    one), judged anew and by an evaluator that remembers what it has seen."""
    from sherd.agent.critic import evaluate
    from sherd.agent.recall import Recall

    cells, g = puzzle.layout.cells, torch.Generator().manual_seed(0)
    boards = puzzle.truth.repeat(640, 1)
    pool = torch.randint(cells, (24, 2), generator=g)  # what an actor proposes
    for board in boards:
        for a, b in pool[torch.randint(len(pool), (3,), generator=g)].tolist():
            board[a], board[b] = board[b].clone(), board[a].clone()
    owner = torch.zeros(64, dtype=torch.long)

    def anew() -> int:
        for part in boards.split(64):
            evaluate(evaluator, puzzle, part, owner, value=0.1, evidence=1.0)
        return len(boards)

    def remembering() -> int:
        recall = Recall(evaluator, puzzle, value=0.1, evidence=1.0)
        for part in boards.split(64):
            recall(part)
        return len(boards)

    slow, fast = rate(anew), rate(remembering)
    print(f"  a step's offspring: {slow:.0f} boards/s, {fast:.0f} by one that remembers, "
          f"{fast / slow:.1f} times as many")  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5, help="puzzles per line")
    parser.add_argument("--untrained", action="store_true", help="an agent that knows gains only")
    parser.add_argument("--no-place", action="store_true", help="without place evidence")
    parser.add_argument("--device", default="cpu", help="of environments and evaluator")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    from sherd.agent import gains
    from sherd.agent.config import AgentConfig
    from sherd.agent.critic import evaluate
    from sherd.agent.rules import count_right
    from sherd.agent.solve import SolveParams, reassemble
    from sherd.agent.weights import Networks, load_agent

    with torch.random.fork_rng():
        torch.manual_seed(0)
        untrained = Networks(AgentConfig())
    networks = untrained if args.untrained else load_agent().networks
    environments(args.device)
    zero = torch.zeros(1, dtype=torch.long)
    evaluator = copy.deepcopy(networks.evaluator).to(args.device)
    for grid in GRIDS:
        puzzle = puzzles_of(grid, 0.9, 1, device=args.device)
        for count in (64, 4096):
            boards, owner = puzzle.truth.repeat(count, 1), zero.to(args.device).repeat(count)
            speed = rate(lambda p=puzzle, b=boards, o=owner: len(evaluate(evaluator, p, b, o)))
            print(f"evaluator, {grid[0]}x{grid[1]}, {args.device}: {speed:.0f} boards/s, "
                  f"{1e3 * count / speed:.1f} ms for {count}")  # fmt: skip
        if args.device == "cpu":
            offspring(networks.evaluator, puzzle)
    print("grid   top-1  perfect  evidence of the truth's  steps  s/puzzle  s/solved")
    for grid in GRIDS:
        for top1 in GRADES:
            seconds, steps, solved, share = 0.0, 0, 0, 0.0
            for k in range(args.runs):
                puzzle = puzzles_of(grid, top1, 1, seed=k + 1)
                heard: list[int] = []

                def progress(board: object, score: float, number: int, heard=heard) -> bool:  # type: ignore[no-untyped-def]
                    heard.append(number)
                    return False

                start = time.perf_counter()
                found, score = reassemble(
                    networks, puzzle, torch.arange(grid[0] * grid[1]),
                    SolveParams(place=not args.no_place), torch.Generator().manual_seed(k),
                    progress,
                )  # fmt: skip
                seconds += time.perf_counter() - start
                steps += heard[-1]
                solved += int(count_right(puzzle, found[:1], zero).perfect)
                share += float(score[0] / gains.score(puzzle, puzzle.truth, zero)[0])
            n = args.runs
            each = f"{seconds / solved:8.1f}" if solved else "       –"
            print(f"{grid[0]}x{grid[1]:<4d} {top1:5.2f}  {solved:3d}/{n:<3d}  {share / n:23.3f}  "
                  f"{steps / n:5.0f}  {seconds / n:8.1f}  {each}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
