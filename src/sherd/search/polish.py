"""The search goes on, on the full objective: 2×2 and global evidence beside pairs and borders.

    F(board) = pairs + border + λ₂ · Σ 2×2 puzzlets + λ_g · E_g(board)      (eq. evidence)

The evolution knows pairs and borders only: they are a table. 2×2 evidence has n⁴ entries and E_g
one per board, so they come in here, where there are good boards already, and what is asked is what
these boards and their children contain. E_g is dear: it is asked of the last few boards only.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..errors import SherdError
from ..perception.evidence import Evidence, quads
from .evolution import Progress, default_threads
from .kernels.puzzlets import objectives, offspring
from .problem import Problem
from .puzzlets import PuzzletTable

SMALL = 100
"""Up to this many cells half of the births grow whole boards; beyond, fewer, and what is weak is
grown anew in its place."""
GAIN = 1e-4
"""A board must be better by this many nats to count: float32 sums differ by less."""


@dataclass(frozen=True)
class PolishParams:
    """Parameters of `Polish`. Evidence is in nats."""

    population: int = 16
    """Boards that are kept."""
    children: int = 24
    """Boards born in a generation."""
    generations: int = 60
    """Most generations."""
    patience: int = 10
    """Generations in a row that bring nothing before it ends."""
    loss: float = 12.0
    """Swaps that lose more than this on pairs are not looked at: puzzlets seldom pay for them."""
    noise: float = 1.0
    """Scale of the Gumbel noise when a part of a board is grown anew."""
    bonus: float = 2.0
    """What an adjacency gains when a parent contains it."""
    spread: float = 4.0
    """Links of the kept part of a board are stronger than a threshold drawn from 0 … spread."""
    judged: int = 16
    """Boards at the end of which the global evidence is asked; a third of them are translations
    of the best."""

    def __post_init__(self) -> None:
        least = min(self.population, self.children, self.generations, self.patience, self.judged)
        if least < 1:
            raise SherdError(
                "polish: population, children, generations, patience and judged must be at least 1"
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
        self.table = PuzzletTable(evidence, problem.world)
        self.archive = problem.start[None].copy()
        """``(k, C)`` distinct flat boards after `run`, best first by F without E_g."""
        self._board = problem.start
        self._score = float("-inf")  # F of _board
        self._local = float("-inf")  # the best F without E_g of which E_g was asked

    def run(
        self, starts: np.ndarray, rng: np.random.Generator, progress: Progress, *, first: int = 0
    ) -> tuple[np.ndarray, float]:
        """From the flat boards ``starts (k, C)``, best first, to the best board and its F.

        F never falls below that of ``starts[0]``. ``progress`` hears of every generation, the
        rounds being counted from ``first``.
        """
        p, q = self.problem, self.params
        if self.evidence.complete or p.world.fixed[: p.cells].all():
            self._judge(starts[:1], self._score_of(starts[:1]))
            self.archive = starts
            return self._found()
        everything = self._score_of(starts)
        order = _ranking(starts, everything, p.cells)[: q.population]
        boards, scores = starts[order], everything[order]
        self._judge(starts[:1], everything[:1])
        fresh = np.arange(len(boards))
        since, stopped = 0, False
        with ThreadPoolExecutor(self.threads) as pool:
            for number in range(first, first + q.generations):
                before = scores[0]
                seeds = rng.integers(2**63, size=len(fresh) + q.children).astype(np.uint64)
                born = self._children(pool, boards, fresh, seeds)
                both = np.concatenate([boards, born])
                everything = np.concatenate([scores, self._score_of(born)])
                order = _ranking(both, everything, p.cells)[: q.population]
                fresh = np.flatnonzero(order >= len(boards))  # of these, more may be known now
                boards, scores = both[order], everything[order]
                since = 0 if scores[0] > before + GAIN else since + 1
                if scores[0] > self._local + GAIN:
                    self._judge(boards[:1], scores[:1])
                stopped = progress(*self._found(), number)
                if stopped or since >= q.patience:
                    break
        self.archive = boards
        if self.evidence.has_board and not stopped:
            self._last_words(boards, scores)
            progress(*self._found(), number + 1)
        return self._found()

    def _found(self) -> tuple[np.ndarray, float]:
        return self.problem.to_board(self._board), self._score

    def _grids(self, boards: np.ndarray) -> np.ndarray:
        w = self.problem.world
        return boards[:, : self.problem.cells].reshape(-1, w.rows, w.cols)

    def _score_of(self, boards: np.ndarray) -> np.ndarray:
        """F without E_g; what is not known of the boards' puzzlets is asked."""
        self.table.learn(quads(self._grids(boards)))
        return np.asarray(objectives(self.problem.world, self.table.quads(), boards))

    def _judge(self, boards: np.ndarray, scores: np.ndarray) -> None:
        """Add E_g to the boards' ``scores`` and keep the best board of all that were judged."""
        self._local = max(self._local, float(scores.max()))
        if self.evidence.board is not None and self.evidence.has_board:
            e_g = np.asarray(self.evidence.board(self._grids(boards).astype(np.int64)), np.float64)
            scores = scores + self.evidence.board_weight * e_g
        k = int(scores.argmax())
        if scores[k] > self._score:
            self._board, self._score = boards[k].copy(), float(scores[k])

    def _last_words(self, boards: np.ndarray, scores: np.ndarray) -> None:
        """E_g of the best boards and of the best translations of the very best."""
        most = self.params.judged
        if not self.problem.world.anchored:
            moved = self._translations(boards[0])
            value = self._score_of(moved)
            keep = np.argsort(-value, kind="stable")[: most // 3]
            boards = np.concatenate([boards[: most - len(keep)], moved[keep]])
            scores = np.concatenate([scores[: most - len(keep)], value[keep]])
        self._judge(boards[:most], scores[:most])

    def _translations(self, board: np.ndarray) -> np.ndarray:
        w = self.problem.world
        grid = self._grids(board[None])[0]
        moved = [
            np.roll(grid, (r, c), axis=(0, 1)).ravel()
            for r in range(w.rows)
            for c in range(w.cols)
            if r or c
        ]
        out = np.repeat(board[None], len(moved), axis=0)
        out[:, : self.problem.cells] = np.reshape(moved, (len(moved), self.problem.cells))
        return out

    def _children(
        self, pool: ThreadPoolExecutor, boards: np.ndarray, fresh: np.ndarray, seeds: np.ndarray
    ) -> np.ndarray:
        """Settled children: ``boards[fresh]`` climbed on, and one birth per further seed."""
        p, q, t = self.problem, self.params, self.table.quads()
        whole = 0.5 * min(1.0, SMALL / p.cells)
        climbs = np.full(len(seeds), -1, dtype=np.int64)
        climbs[: len(fresh)] = fresh
        out = np.empty((len(seeds), boards.shape[1]), dtype=np.int32)

        def work(k: int) -> None:
            part = slice(k, None, self.threads)
            mine = np.empty_like(out[part])
            offspring(
                p.world, t, q.noise, q.bonus, q.spread, whole, q.loss, boards,
                climbs[part].copy(), seeds[part].copy(), mine,
            )  # fmt: skip
            out[part] = mine

        list(pool.map(work, range(self.threads)))
        return out


def _ranking(boards: np.ndarray, scores: np.ndarray, cells: int) -> np.ndarray:
    """Indices of distinct boards, best first, of equals the earlier; the pool does not count."""
    order = np.argsort(-scores, kind="stable")
    first = np.unique(boards[order, :cells], axis=0, return_index=True)[1]
    return order[np.sort(first)]
