"""Would the agent's evaluator choose a better board than the sum of all evidence does?

    python benchmarks/agent_choice.py [--data DIR] [--limit 40] [--agent DIR]

art5, validation (5×5 pieces of 96 px, 12 px missing, jitter 3). Each puzzle is searched as the
default system does. What it met (its population, those of the pair search, translations of its
best) and the true board stand for choice; of the 40 with the most evidence, and the true one, the
one with the highest sum is chosen:

    pairs + border + λ₂ · 2×2 + λ_g · E_g + w · C · (how right the evaluator thinks the board is)

with C cells. A row counts how often that is the true board. *Not met*: true boards that beat all
others by all evidence but were not found.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sherd.data.sets import Selection, art5_items, data_root
from sherd.errors import SherdError

MOST = 40
WEIGHTS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6)


@dataclass(frozen=True)
class Choice:
    """Boards of one puzzle: which is true, what they score, what was found."""

    true: np.ndarray
    """``(k,)`` bool."""
    pairs: np.ndarray
    """``(k,)``: all evidence but E_g."""
    boards: np.ndarray
    """``(k,)``: λ_g · E_g."""
    right: np.ndarray
    """``(k,)``: C times how right the evaluator thinks they are."""
    solved: bool

    def first(self, score: np.ndarray) -> bool:
        """Whether the true board has the highest score; equals count as first."""
        return bool(score[self.true].max() >= score.max() - 1e-6)


def look(item, seed: int, networks) -> Choice:  # type: ignore[no-untyped-def]
    """Search one puzzle and score what was met."""
    import torch

    from sherd.agent.place import with_place
    from sherd.agent.rules import from_evidence
    from sherd.agent.state import observe
    from sherd.search.evolution import Evolution
    from sherd.search.polish import Polish
    from sherd.search.problem import make_problem
    from sherd.solvers.sherd import Sherd

    puzzle = item.puzzle(seed).shuffled(np.random.default_rng([seed, 1]))
    hidden, rng = puzzle.without_truth(), np.random.default_rng([seed, 2])
    evidence = Sherd().perceive(hidden)
    problem = make_problem(evidence, hidden)
    evolution = Evolution(problem)
    evolution.run(rng, lambda *heard: False)
    polish = Polish(problem, evidence)
    found, _ = polish.run(evolution.archive, rng, lambda *heard: False)
    truth = problem.from_board(puzzle.truth)
    moved = polish._translations(polish.archive[0])
    boards = np.unique(
        np.concatenate([polish.archive, evolution.archive, moved, truth[None]]), axis=0
    )
    pairs = polish._score_of(boards)
    true = (boards == truth).all(1)
    keep = np.union1d(np.argsort(-pairs, kind="stable")[:MOST], np.flatnonzero(true))
    boards, pairs, true = boards[keep], pairs[keep], true[keep]
    e_g = np.zeros(len(boards))
    if evidence.board is not None:
        grids = polish._grids(boards).astype(np.int64)
        e_g = evidence.board_weight * np.asarray(evidence.board(grids), np.float64)
    states = with_place(from_evidence(evidence, hidden)[0])
    flat = torch.from_numpy(boards[:, : problem.cells].astype(np.int64))
    with torch.no_grad():
        which = torch.zeros(len(flat), dtype=torch.long)
        answer = networks.evaluator(observe(states, flat, which), states.layout)
    right = problem.cells * answer.right.double().numpy()
    return Choice(true, pairs, e_g, right, bool((found == puzzle.truth).all()))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--limit", type=int, default=40, help="pictures of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--agent", type=Path, help="folder of a trained agent")
    args = parser.parse_args()
    from sherd.agent.weights import load_agent

    try:
        networks = load_agent(args.agent).networks
        items = list(art5_items(args.data or data_root(), Selection(split="val", limit=args.limit)))
        seen = [look(item, args.seed, networks) for item in items]
    except SherdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"art5 val, {len(seen)} puzzles, seed {args.seed}")
    print(f"found by the search: {sum(c.solved for c in seen)}")
    missed = sum(not c.solved and c.first(c.pairs + c.boards) for c in seen)
    print(f"not met, though best by all evidence (or equal to the best): {missed}")
    print("chosen: the true board, by")
    print(f"  {'pairs + border + 2x2':32s} {sum(c.first(c.pairs) for c in seen):4d}")
    for w in WEIGHTS:
        count = sum(c.first(c.pairs + c.boards + w * c.right) for c in seen)
        name = "all evidence" if not w else f"all evidence + {w:g} x evaluator"
        print(f"  {name:32s} {count:4d}")
    print(f"  {'evaluator alone':32s} {sum(c.first(c.right) for c in seen):4d}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
