"""The genetic algorithm of Sholomon, David & Netanyahu (2013)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import SherdError
from ..perception.dissimilarity import lab, ssd
from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle
from .base import Found, Recorder, Solver
from .classical import by_side, confidence, constraints
from .ga_kernels import breed, evaluate
from .stop import Stop


@dataclass(frozen=True)
class GAParams:
    """The paper's values are the defaults."""

    population: int = 1000
    """Boards in a generation."""
    generations: int = 100
    """Generations after the random first one."""
    elite: int = 4
    """Best boards that pass into the next generation unchanged."""
    mutation: float = 0.05
    """Probability of a mutation per placement in phases 1 and 3 of the crossover."""

    def __post_init__(self) -> None:
        if self.population < 2:
            raise SherdError(f"population: {self.population}; must be at least 2")
        if self.generations < 1:
            raise SherdError(f"generations: {self.generations}; must be at least 1")
        if not 0 <= self.elite < self.population:
            raise SherdError(
                f"elite: {self.elite}; must be from 0 to {self.population - 1}, "
                "less than the population"
            )
        if not 0.0 <= self.mutation <= 1.0:
            raise SherdError(f"mutation: {self.mutation}; must be from 0 to 1")


class GA(Solver):
    """A population of boards, crossed by growing a kernel of pieces.

    From the paper: dissimilarity of two sides = L2 norm of the facing pixels' difference in
    L*a*b*; fitness = 1 / (sum of it over the board); a random first generation of 1000, 100
    generations, roulette selection, elitism 4. A child grows from a random piece, its place in the
    M×N frame open until the kernel fills it. Next is placed (1) a piece on which both parents
    agree, else (2) one that a parent holds and that is the best buddy of the piece beside it, else
    (3) the most compatible piece left, at a random edge of the kernel; 5 % mutation in (1) and (3).
    No early stop, no local search.

    Chosen where the paper is silent: of several candidates in a phase a random one is taken; a
    mutation in (1) passes over one agreement, in (3) it places a random piece; both parents may be
    the same board. Pinned pieces are the kernel's start. Two adjacent cells of which one is empty
    cost the mean dissimilarity of all pairs, so that a board gains nothing by scattering its
    pieces; on full boards this is the paper's fitness.
    """

    name = "ga"
    summary = "Genetic algorithm that grows children from what their parents agree on."
    reference = (
        "Sholomon, David & Netanyahu: A genetic algorithm-based solver for very large jigsaw "
        "puzzles. CVPR 2013"
    )

    def __init__(self, params: GAParams | None = None) -> None:
        self.params = params or GAParams()

    def _solve(
        self, puzzle: Puzzle, stop: Stop | None, rng: np.random.Generator, record: Recorder
    ) -> Found:
        p = self.params
        rows, cols = puzzle.require_grid()
        record.stage("perception")
        right, down = ssd(lab(puzzle.pieces))
        chance = mean_pair(right, down)
        evidence = Evidence(
            1.0 - right / chance,
            1.0 - down / chance,
            source="ga: 1 − (L2 norm of the facing pixels, L*a*b*) / (its mean over all pairs)",
        )

        record.stage("search")
        free, pins = constraints(puzzle)
        ranked, buddy = rankings(right, down)
        state = rng.integers(0, 2**64, size=1, dtype=np.uint64)
        boards = random_boards(free, pins, puzzle.n, p.population, rng)
        around = np.empty((p.population, 4, puzzle.n), dtype=np.int32)
        costs = np.empty(p.population)
        evaluate(boards, free, right, down, chance, around, costs)
        next_boards, next_around = np.empty_like(boards), np.empty_like(around)
        next_costs = np.empty_like(costs)
        for generation in range(1, p.generations + 1):
            best = np.argsort(costs, kind="stable")[: p.elite]
            next_boards[: p.elite] = boards[best]
            next_around[: p.elite] = around[best]
            next_costs[: p.elite] = costs[best]
            breed(
                boards,
                around,
                np.cumsum(1.0 / (costs + 1e-9 * chance)),
                p.elite,
                buddy,
                ranked,
                free,
                pins,
                right,
                down,
                chance,
                p.mutation,
                state,
                next_boards,
                next_around,
                next_costs,
            )
            boards, next_boards = next_boards, boards
            around, next_around = next_around, around
            costs, next_costs = next_costs, costs
            board = boards[int(costs.argmin())].reshape(rows, cols).astype(np.int64)
            score = evidence.score(board)
            record.board(board, score, generation)
            record.round(generation, score)
            if stop is not None and stop(score):
                break
        return Found(board, score, confidence(evidence, board), evidence)


def mean_pair(right: np.ndarray, down: np.ndarray) -> float:
    """Mean dissimilarity of two different pieces, 1 where there is none to speak of."""
    n = len(right)
    if n < 2:
        return 1.0
    total = sum(
        float(m.sum(dtype=np.float64)) - float(np.trace(m, dtype=np.float64)) for m in (right, down)
    )
    return total / (2 * n * (n - 1)) or 1.0


def rankings(right: np.ndarray, down: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``ranked (4, n, n-1)``: the others by compatibility per side; ``buddy (4, n)`` or -1."""
    n = len(right)
    ranked = np.empty((4, n, max(n - 1, 1)), dtype=np.int32)
    buddy = np.full((4, n), -1, dtype=np.int32)
    if n < 2:
        return ranked, buddy
    for side, d in enumerate(by_side(right, down)):
        np.fill_diagonal(d, np.inf)
        ranked[side] = np.argsort(d, axis=1, kind="stable")[:, :-1]
    every = np.arange(n)
    for side in range(4):
        best = ranked[side, :, 0]
        mutual = ranked[(side + 2) % 4, best, 0] == every
        buddy[side, mutual] = best[mutual]
    return ranked, buddy


def random_boards(
    free: np.ndarray, pins: np.ndarray, n: int, count: int, rng: np.random.Generator
) -> np.ndarray:
    """``(count, M·N)`` int32 random boards that honour pins and blocked cells."""
    boards = np.tile(pins, (count, 1))
    cells = np.flatnonzero(free.ravel() & (pins == EMPTY))
    pieces = np.setdiff1d(np.arange(n), pins).astype(np.int32)
    holes = np.full(max(0, len(cells) - len(pieces)), EMPTY, dtype=np.int32)
    mixed = rng.permuted(np.tile(np.concatenate([pieces, holes]), (count, 1)), axis=1)
    boards[:, cells] = mixed[:, : len(cells)]
    return boards
