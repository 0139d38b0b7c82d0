"""The search goes on, on the full objective: 2×2 and global evidence beside pairs and borders.

    F(board) = pairs + border + λ₂ · Σ 2×2 puzzlets + λ_g · E_g(board)      (eq. evidence)

The evolution knows pairs and borders only: they are a table. 2×2 evidence has n⁴ entries and E_g
one per board, so they come in here, where there are good boards already: what is asked is what
these boards and their children contain.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..errors import SherdError
from ..perception.evidence import Evidence, quads
from .evolution import Progress, default_threads
from .kernels.puzzlets import Quads, objectives, offspring
from .problem import Problem
from .puzzlets import PuzzletTable


@dataclass(frozen=True)
class PolishParams:
    """Parameters of `Polish`. Evidence is in nats."""

    population: int = 16
    """Boards that are kept."""
    children: int = 48
    """Boards born in a generation."""
    generations: int = 30
    """Most generations."""
    patience: int = 5
    """Generations in a row that bring nothing before it ends."""
    likely: int = 160
    """Puzzlets per piece that are asked before the first generation, those of strongest links."""
    loss: float = 12.0
    """Swaps that lose more than this on pairs are not looked at."""
    noise: float = 1.0
    """Scale of the Gumbel noise when a part of a board is grown anew."""
    bonus: float = 2.0
    """What an adjacency gains when a parent contains it."""
    spread: float = 4.0
    """Links of the kept part of a board are stronger than a threshold drawn from 0 … spread."""
    globals: int = 24
    """Boards at most of which the global evidence is asked."""

    def __post_init__(self) -> None:
        least = min(self.population, self.children, self.generations, self.patience, self.globals)
        if least < 1 or self.likely < 0:
            raise SherdError(
                "polish: population, children, generations, patience and globals must be at "
                "least 1, likely at least 0"
            )
        if min(self.loss, self.noise, self.bonus, self.spread) < 0:
            raise SherdError("polish: loss, noise, bonus and spread may not be negative")


class Polish:
    """Breeds boards on the full objective. Deterministic for a generator, anytime."""

    def __init__(
        self,
        problem: Problem,
        evidence: Evidence,
        params: PolishParams | None = None,
        *,
        threads: int | None = None,
    ) -> None:
        self.problem, self.evidence = problem, evidence
        self.params = params or PolishParams()
        self.threads = threads or default_threads()
        self.table: PuzzletTable | None = None

    def run(
        self, starts: np.ndarray, rng: np.random.Generator, progress: Progress, *, round: int = 0
    ) -> tuple[np.ndarray, float]:
        """From the flat boards ``starts``, best first, to the best board and its F."""
        p, q = self.problem, self.params
        table = self.table = PuzzletTable(
            self.evidence.puzzlet or _silent, p.world, self.evidence.puzzlet_weight
        )
        boards = _distinct(starts, p.cells)[: q.population]
        table.learn(quads(self._grids(boards)))
        if min(p.world.rows, p.world.cols) > 1:
            table.learn(table.likely(q.likely * p.n))
        t = table.quads()
        scores = objectives(p.world, t, boards)
        boards, scores = _best(boards, scores, q.population)
        fresh = np.arange(len(boards))
        since = 0
        with ThreadPoolExecutor(self.threads) as pool:
            for number in range(q.generations):
                best = scores[0]
                seeds = rng.integers(2**63, size=len(fresh) + q.children).astype(np.uint64)
                born = self._children(pool, t, boards, fresh, seeds)
                table.learn(quads(self._grids(born)))
                t = table.quads()
                both = np.concatenate([boards, born])
                every = np.concatenate([scores, objectives(p.world, t, born)])
                old = len(boards)
                order = _order(both, every, p.cells)[: q.population]
                boards, scores = both[order], every[order]
                fresh = np.flatnonzero(order >= old)
                since = 0 if scores[0] > best + 1e-4 else since + 1
                if progress(p.to_board(boards[0]), float(scores[0]), round + number):
                    break
                if since >= q.patience:
                    break
        self.generations = number + 1
        return p.to_board(boards[0]), float(scores[0])

    def _grids(self, boards: np.ndarray) -> np.ndarray:
        w = self.problem.world
        return boards[:, : self.problem.cells].reshape(-1, w.rows, w.cols)

    def _children(
        self,
        pool: ThreadPoolExecutor,
        t: Quads,
        boards: np.ndarray,
        fresh: np.ndarray,
        seeds: np.ndarray,
    ) -> np.ndarray:
        p, q = self.problem, self.params
        climbs = np.full(len(seeds), -1, dtype=np.int64)
        climbs[: len(fresh)] = fresh
        out = np.empty((len(seeds), boards.shape[1]), dtype=np.int32)

        def work(k: int) -> None:
            part = slice(k, None, self.threads)
            mine = np.empty_like(out[part])
            offspring(
                p.world, t, q.noise, q.bonus, q.spread, q.loss, boards,
                climbs[part].copy(), seeds[part].copy(), mine,
            )  # fmt: skip
            out[part] = mine

        list(pool.map(work, range(self.threads)))
        return out


def _silent(quads: np.ndarray) -> np.ndarray:
    return np.zeros(len(quads), dtype=np.float32)


def _order(boards: np.ndarray, scores: np.ndarray, cells: int) -> np.ndarray:
    """Indices of distinct boards, best first; of equals the earlier."""
    order = np.argsort(-scores, kind="stable")
    first = np.unique(boards[order, :cells], axis=0, return_index=True)[1]
    return order[np.sort(first)]


def _distinct(boards: np.ndarray, cells: int) -> np.ndarray:
    first = np.unique(boards[:, :cells], axis=0, return_index=True)[1]
    return boards[np.sort(first)]


def _best(boards: np.ndarray, scores: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-scores, kind="stable")[:most]
    return boards[order], scores[order]
