"""PDN-GA (Song et al. 2023): a genetic algorithm on pair scores, then on 2×2 scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from ..errors import SherdError
from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle
from .base import Found, Recorder, Solver
from .classical import confidence, constraints
from .growing import grow
from .pdn_ga_kernels import breed, find, pair_scores, rehash, total
from .stop import Stop

if TYPE_CHECKING:
    from ..perception.rivals.pdn import Pdn

PLACED = (5, 5)
"""The grid on which place scores count."""
ALL = 25
"""Most pieces for which all 2×2 scores are computed beforehand (303 600 of 25)."""

Fitness = Callable[[np.ndarray], np.ndarray]
"""Genomes ``(b, L)`` → ``(b,)``."""


class PuzzleScores(Protocol):
    """What the networks say of a puzzle's ``n`` pieces, all in 0..1 (see `rivals.pdn.Scores`)."""

    right: np.ndarray
    below: np.ndarray
    place: np.ndarray

    def puzzlets(self, quads: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class PdnGaParams:
    """The paper's values where it names them."""

    population: int = 256
    offspring: int = 4096
    """λ: children of a generation; the paper's number is not known."""
    pair_generations: int = 20
    """Of the first stage."""
    puzzlet_generations: int = 40
    """Of the second stage."""
    inherited: float = 0.9
    """Share of the second stage's first population that are the best of the first stage."""
    crossover: float = 0.8
    """Share of children by crossover; the others are mutants."""
    swaps: float = 0.2
    """Share of mutations that swap two pieces; the others rotate three."""
    decay: float = 0.9
    """What a score is multiplied by each time it occurs again in a population."""
    shift: float = 0.5
    """Share of crossovers whose rectangle lands elsewhere; not the paper's."""
    noise: float = 0.05
    """What chance adds to a pair score, at most, when the first boards grow; not the paper's."""

    def __post_init__(self) -> None:
        for name in ("population", "offspring"):
            if getattr(self, name) < 2:
                raise SherdError(f"{name}: {getattr(self, name)}; must be at least 2")
        for name in ("pair_generations", "puzzlet_generations"):
            if getattr(self, name) < 0:
                raise SherdError(f"{name}: {getattr(self, name)}; must be at least 0")
        for name in ("inherited", "crossover", "swaps", "decay", "shift", "noise"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SherdError(f"{name}: {getattr(self, name)}; must be from 0 to 1")


@cache
def _shipped() -> Pdn:
    from ..perception.rivals.pdn import load_pdn

    return load_pdn().net


class PdnGa(Solver):
    """Boards evolve on pair scores, and the best of them on scores of 2×2 puzzlets.

    From the paper: a pairwise net (horizontal, vertical) and a puzzlet net (2×2); a population of
    256; 20 generations on the sum of pair scores (at 5×5 times place scores), then 40 on the sum of
    2×2 scores, 90 % of whose first population are the best of the first stage; a child comes by
    crossover (0.8, PMX) or by mutation (0.2: of these 20 % swap two pieces, 80 % rotate three);
    the best of parents and children together survive; a score that repeats decays by 0.9.

    Chosen here: the first boards are grown, each from one piece anywhere by the best pair scores
    and some chance, since the paper does not say how its first boards are made and 20 generations
    bring random boards of 70 pieces nowhere near; 4096 children in a generation; parents are drawn
    evenly; PMX exchanges a rectangle of cells, in half of the cases to another place of the board;
    the k-th board with one and the same score counts 0.9^k of it when survivors are chosen, which
    keeps copies from taking over; a pair counts times the mean place score of its two pieces. The
    other 10 % of the second population are random. All 2×2 scores are computed beforehand up to 25
    pieces, beyond that when a board has them, each once. Where no 2×2 can lie (one row, too few
    pieces), there is only the first stage. Progress is told in 2×2 scores in both stages. Fragments
    of other sizes are scaled to 64 px; an unknown gap counts as 4 px in 64.
    """

    name: ClassVar[str] = "pdn-ga"
    summary: ClassVar[str] = "Puzzlet networks; a genetic algorithm on pair, then on 2×2 scores."
    reference: ClassVar[str] = (
        "Song et al.: Solving jigsaw puzzle of large eroded gaps using puzzlet discriminant "
        "network. ICASSP 2023"
    )
    weights: ClassVar[tuple[str, ...]] = ("pdn_ga",)

    def __init__(self, net: Pdn | None = None, params: PdnGaParams | None = None) -> None:
        self.net = net
        self.params = params or PdnGaParams()

    def perceive(self, puzzle: Puzzle) -> PuzzleScores:
        """All pair scores, and 2×2 scores on demand."""
        from ..perception.rivals.pdn import Scores

        return Scores(self.net or _shipped(), puzzle.pieces, puzzle.gap)

    def _solve(
        self, puzzle: Puzzle, stop: Stop | None, rng: np.random.Generator, record: Recorder
    ) -> Found:
        from ..perception.threads import torch_threads
        from ..search.evolution import default_threads

        with torch_threads(default_threads()):
            record.stage("perception")
            scores = self.perceive(puzzle)
            return evolve(scores, puzzle, self.params, stop, rng, record)


class Space:
    """Boards of one puzzle as genomes (see `pdn_ga_kernels`)."""

    def __init__(self, puzzle: Puzzle) -> None:
        free, pins = constraints(puzzle)
        self.grid, self.n = free.shape, puzzle.n
        self.cells = np.flatnonzero(free).astype(np.int32)
        size = max(len(self.cells), self.n)
        self.position = np.full(free.size, -1, dtype=np.int32)
        self.position[self.cells] = np.arange(len(self.cells), dtype=np.int32)
        self.start = np.full(size, EMPTY, dtype=np.int32)
        self.start[: len(self.cells)] = pins[self.cells]
        self.fixed = self.start != EMPTY
        self.loose = np.flatnonzero(~self.fixed).astype(np.int32)
        self.spare = np.setdiff1d(np.arange(size, dtype=np.int32), self.start)
        at = self.position.reshape(self.grid)
        corners = (at[:-1, :-1], at[:-1, 1:], at[1:, :-1], at[1:, 1:])
        blocks = np.stack([c.ravel() for c in corners], axis=1)
        self.blocks = np.ascontiguousarray(blocks[(blocks >= 0).all(axis=1)])
        """``(q, 4)`` positions of the 2×2 blocks of free cells."""

    def random(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """``(count, L)`` random genomes."""
        out = np.tile(self.start, (count, 1))
        out[:, self.loose] = rng.permuted(np.tile(self.spare, (count, 1)), axis=1)
        return out

    def board(self, genome: np.ndarray) -> np.ndarray:
        """``(M, N)``."""
        board = np.full(self.grid[0] * self.grid[1], EMPTY, dtype=np.int64)
        items = genome[: len(self.cells)]
        board[self.cells] = np.where(items < self.n, items, EMPTY)
        return board.reshape(self.grid)


class Puzzlets:
    """The second stage's fitness: 2×2 scores, each computed once."""

    def __init__(self, scores: PuzzleScores, space: Space) -> None:
        self._scores, self._space = scores, space
        self._keys = np.full(1, -1, dtype=np.int64)
        self._index = np.zeros(1, dtype=np.int32)
        self._values = np.zeros(0, dtype=np.float32)
        if space.n <= ALL:
            every = np.array(list(permutations(range(space.n), 4)), dtype=np.int32)
            self._look_up(every.reshape(-1, 4), np.arange(4, dtype=np.int32)[None])

    def __len__(self) -> int:
        """How many scores are known."""
        return len(self._values)

    def __call__(self, genomes: np.ndarray) -> np.ndarray:
        entries = self._look_up(genomes, self._space.blocks)
        out = np.empty(len(genomes))
        total(entries, self._values, out)
        return out

    def _look_up(self, genomes: np.ndarray, blocks: np.ndarray) -> np.ndarray:
        """``(b, q)`` indices into the known scores, after those that are new were computed."""
        count, most = len(self._values), len(genomes) * len(blocks)
        if 2 * (count + most) > len(self._keys):
            size = 1 << int(2 * (count + most)).bit_length()
            keys = np.full(size, -1, dtype=np.int64)
            index = np.zeros(size, dtype=np.int32)
            rehash(self._keys, self._index, keys, index)
            self._keys, self._index = keys, index
        out = np.empty((len(genomes), len(blocks)), dtype=np.int32)
        fresh = np.empty((most, 4), dtype=np.int32)
        found = find(
            self._keys, self._index, count, genomes, blocks, self._space.n, out, fresh
        )  # fmt: skip
        new = self._scores.puzzlets(fresh[: found - count])
        self._values = np.concatenate([self._values, new.astype(np.float32)])
        return out


def survivors(scores: np.ndarray, count: int, decay: float) -> np.ndarray:
    """Indices of the best ``count``, best first; the k-th repetition of a score counts decay^k."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    first = np.concatenate([[True], ranked[1:] != ranked[:-1]])
    at = np.arange(len(ranked))
    repeats = at - np.maximum.accumulate(np.where(first, at, 0))
    return order[np.argsort(-ranked * decay**repeats, kind="stable")[:count]]


class _Leader:
    """The best board so far by the evidence that is told, and whether to go on."""

    def __init__(
        self, evidence: Evidence, space: Space, stop: Stop | None, record: Recorder
    ) -> None:
        self._evidence, self._space, self._stop, self._record = evidence, space, stop, record
        self.genome = np.empty(0)
        self.score = float("-inf")
        self.round = 0
        self.stopped = False

    def see(self, genome: np.ndarray) -> bool:
        """The best genome of a generation; True = go on."""
        self.round += 1
        board = self._space.board(genome)
        score = self._evidence.full_score(board)
        if score >= self.score:  # of equals the later one, which its stage prefers
            self.genome, self.score = genome.copy(), score
            self._record.board(board, score, self.round)
        self._record.round(self.round, self.score)
        self.stopped = self._stop is not None and self._stop(self.score)
        return not self.stopped


def evolve(
    scores: PuzzleScores, puzzle: Puzzle, params: PdnGaParams, stop: Stop | None,
    rng: np.random.Generator, record: Recorder,
) -> Found:  # fmt: skip
    """Both stages."""
    space = Space(puzzle)
    rows, cols = space.grid
    whole = len(space.blocks) > 0 and space.n >= 4
    pairs = Evidence(scores.right, scores.below, source="pdn-ga: pair scores")
    evidence = pairs
    if whole:
        nothing = np.zeros_like(pairs.h)
        evidence = Evidence(
            nothing, nothing, puzzlet=scores.puzzlets, puzzlet_weight=1.0,
            source="pdn-ga: 2×2 scores; pair scores were the first stage's",
        )  # fmt: skip
    leader = _Leader(evidence, space, stop, record)
    place = np.ones((space.n, rows * cols), dtype=np.float32)
    if space.grid == PLACED:
        place = np.ascontiguousarray(scores.place, dtype=np.float32)

    def by_pairs(genomes: np.ndarray) -> np.ndarray:
        out = np.empty(len(genomes))
        pair_scores(genomes, space.cells, rows, cols, pairs.h, pairs.v, place, out)
        return out

    record.stage("pairs")
    state = rng.integers(0, 2**64, size=1, dtype=np.uint64)
    boards = space.random(params.population, rng)
    if params.pair_generations:  # without the first stage, random boards
        grow(
            boards, space.fixed, space.cells, space.position, rows, cols, pairs.h, pairs.v,
            params.noise, state,
        )  # fmt: skip
    boards = _generations(boards, by_pairs, params.pair_generations, space, params, leader, state)
    if whole and not leader.stopped:
        record.stage("puzzlets")
        boards = heirs(boards, params, space, rng)
        if leader.round:  # an earlier leader may be better by 2×2 scores
            boards[-1] = leader.genome
        fitness = Puzzlets(scores, space)
        _generations(boards, fitness, params.puzzlet_generations, space, params, leader, state)
    if not leader.round:  # no generation was asked for
        leader.see(boards[0])
    board = space.board(leader.genome)
    return Found(board, leader.score, confidence(pairs, board), evidence)


def heirs(
    boards: np.ndarray, params: PdnGaParams, space: Space, rng: np.random.Generator
) -> np.ndarray:
    """The second stage's first population: most are the first stage's best, the rest random."""
    count = round(params.inherited * params.population)
    return np.concatenate([boards[:count], space.random(params.population - count, rng)])


def _generations(
    boards: np.ndarray, fitness: Fitness, count: int, space: Space, params: PdnGaParams,
    leader: _Leader, state: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """(μ+λ) evolution; returns the last population, best first."""
    rates = np.array([params.crossover, params.swaps, params.shift])
    children = np.empty((params.offspring, boards.shape[1]), dtype=np.int32)
    scores = fitness(boards)
    fixed, loose, position = space.fixed, space.loose, space.position
    rows, cols = space.grid
    for _ in range(count):
        breed(boards, children, fixed, loose, position, rows, cols, rates, state)
        every = np.concatenate([boards, children])
        values = np.concatenate([scores, fitness(children)])
        kept = survivors(values, params.population, params.decay)
        boards, scores = every[kept], values[kept]
        if not leader.see(boards[0]):
            break
    return boards
