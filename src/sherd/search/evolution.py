"""The evolutionary search: islands of boards, bred by the kernels, driven from here."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..errors import SherdError
from .kernels.island import KINDS, breed, settle_new
from .kernels.moves import full_score
from .kernels.rolls import roll_boards
from .problem import Problem

ROUND_WORK = 6000
"""Cells grown in one round of an island: small puzzles get many children a round, large ones few,
so that a round stays short and a search can be stopped at any moment."""
LARGE, HUGE = 300, 1000
"""Cells: up to the first a few boards suffice; above the second growing one takes long, and what is
left is mended patch by patch (`sherd.search.patches`)."""
EASY = 0.15
"""Share of the patience that is left when all founders agree."""


@dataclass(frozen=True)
class EvolutionParams:
    """Parameters of `Evolution`. Evidence is in nats."""

    islands: int = 2
    """Populations that breed apart."""
    population: int = 10
    """Boards on an island."""
    patience: int = 600
    """Children in a row, over all islands, that bring nothing before the search stops."""
    mixes: int = 0
    """How often islands pass on their best while they wait for something better; 0: every fourth
    round, whether they wait or not."""
    noise: float = 0.5
    """Scale of the Gumbel noise on a slot's candidates: variety."""
    bonus: float = 2.0
    """What an adjacency gains when a parent contains it."""
    spread: float = 4.0
    """Links of the kept part of a board are stronger than a threshold drawn from 0 … spread."""
    worth: float = 1e-4
    """Share of the best score that counts as an improvement: a plain patch can be rearranged for
    ever, for next to nothing."""

    def __post_init__(self) -> None:
        if self.islands < 1 or self.population < 2 or self.patience < 1 or self.mixes < 0:
            raise SherdError(
                "evolution: islands ≥ 1, population ≥ 2, patience ≥ 1 and mixes ≥ 0 are needed"
            )
        if min(self.noise, self.bonus, self.spread, self.worth) < 0:
            raise SherdError("evolution: noise, bonus, spread and worth may not be negative")


def default_params(cells: int) -> EvolutionParams:
    """Large boards have more local optima: more boards and more patience above `LARGE` cells, and
    islands that are left alone as long as something comes of it: what they have found is then
    worth exchanging. There, lines are also rolled against each other before the search gives up.
    Above `HUGE` cells there are fewer boards again."""
    if cells <= LARGE:
        return EvolutionParams()
    population = 40 if cells <= HUGE else 16
    return EvolutionParams(islands=4, population=population, patience=1200, mixes=3)


Progress = Callable[[np.ndarray, float, int], bool]
"""``(board (M, N), score, round) -> stop?``, called after every round with the best so far."""


class Evolution:
    """Search for the board of highest evidence. Deterministic for a generator, anytime."""

    def __init__(
        self, problem: Problem, params: EvolutionParams | None = None, *, threads: int | None = None
    ) -> None:
        self.problem = problem
        self.params = params or default_params(problem.cells)
        self.threads = threads or default_threads()
        self.archive = problem.start[None].copy()
        """``(k, C)`` distinct flat boards of all islands after `run`, best first."""

    def run(
        self, rng: np.random.Generator, progress: Progress, *, start: np.ndarray | None = None
    ) -> tuple[np.ndarray, float]:
        """Breed until nothing improves or ``progress`` says stop; the best board and its score.

        ``start`` is a flat board to go on from (see `Problem.from_board`). A board that honours
        what is known is always among the first: from then on the best one does.
        """
        p, q = self.problem, self.params
        starts = [b for b in (start, p.home) if b is not None]
        if p.world.fixed[: p.cells].all():
            return self._nothing_to_search(progress)
        islands = [_Island(p, q, int(rng.integers(2**63)), starts) for _ in range(q.islands)]
        children = max(2, min(40, ROUND_WORK // p.cells))
        best, board, since, number = float("-inf"), p.start, 0, 0
        patience, founded, mixed = q.patience, False, 0
        with ThreadPoolExecutor(min(self.threads, q.islands)) as pool:
            # The first boards come one per island and round: a search that is stopped at once
            # has something to show.
            while since < patience:
                list(pool.map(lambda island: island.advance(children), islands))
                leader = max(islands, key=lambda island: float(island.scores[0]))
                since += children * len(islands)
                if leader.scores[0] > best + q.worth * abs(best) or number == 0:
                    since = 0
                if leader.scores[0] > best:
                    best, board = float(leader.scores[0]), leader.boards[0].copy()
                if not founded:
                    since = 0
                    founded = all(island.full for island in islands)
                    if founded:
                        patience = _patience(islands, q)
                elif q.mixes:
                    due = since * (q.mixes + 1) // patience
                    if mixed < due <= q.mixes:
                        _migrate(islands)
                    mixed = due
                elif number % 4 == 3:
                    _migrate(islands)
                if progress(p.to_board(board), best, number):
                    break
                number += 1
                if since >= patience and p.cells > LARGE:
                    gain = _roll(islands, pool) - best
                    if gain > 0:  # the next round takes it, and it is the last unless it is much
                        since = 0 if gain > q.worth * abs(best) else patience - 1
        self.archive = _archive(islands)
        return p.to_board(board), best

    def _nothing_to_search(self, progress: Progress) -> tuple[np.ndarray, float]:
        """Every cell is pinned or blocked."""
        p = self.problem
        score = float(full_score(p.world, p.start))
        progress(p.to_board(p.start), score, 0)
        return p.to_board(p.start), score


class _Island:
    """A population, best first, with its own random stream."""

    def __init__(
        self, problem: Problem, params: EvolutionParams, seed: int, starts: list[np.ndarray] | None
    ) -> None:
        self.problem, self.params = problem, params
        self.state = np.array([seed], dtype=np.uint64)
        self.boards = np.empty((params.population, len(problem.start)), dtype=np.int32)
        self.scores = np.full(params.population, -np.inf)
        self.size = 0
        self.tally = np.zeros((KINDS, 2), dtype=np.int64)
        """Births and new bests by kind of birth."""
        for k, start in enumerate(starts or ()):
            self.boards[k] = start
            self.scores[k] = full_score(problem.world, start)
            self.size = k + 1

    @property
    def full(self) -> bool:
        """The population has been founded."""
        return self.size == len(self.boards)

    def advance(self, children: int) -> None:
        """One round: found further boards until the population is full, then breed."""
        p, q = self.problem, self.params
        if not self.full:
            last = min(len(self.boards), self.size + max(1, children // 4))
            settle_new(
                p.world, p.start, q.noise, self.state, self.boards, self.scores, self.size, last
            )
            self.size = last
            order = np.argsort(-self.scores[: self.size], kind="stable")
            self.boards[: self.size] = self.boards[: self.size][order]
            self.scores[: self.size] = self.scores[: self.size][order]
            return
        breed(
            p.world,
            q.noise,
            q.bonus,
            q.spread,
            children,
            self.state,
            self.boards,
            self.scores,
            self.tally,
        )


def _archive(islands: list[_Island]) -> np.ndarray:
    """The distinct boards of all islands, best first."""
    boards = np.concatenate([i.boards[: i.size] for i in islands])
    order = np.argsort(-np.concatenate([i.scores[: i.size] for i in islands]), kind="stable")
    cells = islands[0].problem.cells  # the order of the pool makes no other board
    first = np.unique(boards[order, :cells], axis=0, return_index=True)[1]
    return np.ascontiguousarray(boards[order][np.sort(first)])


def _patience(islands: list[_Island], params: EvolutionParams) -> int:
    """How many fruitless children to wait for: few when boards grown apart agree already.

    Boards that started from different pieces, with different noise, and ended equally good are
    hardly all wrong in the same way.
    """
    scores = np.concatenate([i.scores for i in islands])
    agreed = float((scores >= scores.max() - params.worth * abs(scores.max())).mean())
    return max(1, round(params.patience * max(EASY, 1.0 - agreed)))


def _roll(islands: list[_Island], pool: ThreadPoolExecutor) -> float:
    """Roll lines of all boards against each other; the best score after that."""
    list(pool.map(lambda i: roll_boards(i.problem.world, i.state, i.boards, i.scores), islands))
    return max(float(i.scores[0]) for i in islands)


def _migrate(islands: list[_Island]) -> None:
    """Every island's best replaces the weakest of the next, unless that island has it."""
    best = [(i.boards[0].copy(), float(i.scores[0])) for i in islands]
    for k, island in enumerate(islands):
        board, score = best[k - 1]
        cells = island.problem.cells  # the order of the pool makes no other board
        if (
            score <= island.scores[-1]
            or (island.boards[:, :cells] == board[:cells]).all(axis=1).any()
        ):
            continue
        at = int(np.searchsorted(-island.scores, -score))
        island.boards[at + 1 :] = island.boards[at:-1].copy()
        island.scores[at + 1 :] = island.scores[at:-1].copy()
        island.boards[at], island.scores[at] = board, score


def default_threads() -> int:
    """Cores to use: ``SHERD_THREADS``, else all there are."""
    value = os.environ.get("SHERD_THREADS", "")
    if value and (not value.isdigit() or int(value) < 1):
        raise SherdError(f"SHERD_THREADS: {value!r}; expected a whole number of at least 1")
    return int(value) if value else os.cpu_count() or 1
