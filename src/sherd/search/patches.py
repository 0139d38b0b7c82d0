"""Weak patches of a large board, searched again by themselves.

On a board of a thousand pieces most lie right after a while, and what is still wrong are patches
of a hundred, plain ones mostly. Births of whole boards are too dear for them, and to regrow a patch
once is too little: a patch wants a search of its own. So a few weak patches are opened, everything
else stays, and the pieces in them are a small puzzle, with the pieces around them pinned. Boards of
it are bred as any others are; a small population of small boards costs a tenth of a second. When
that brings nothing, small blocks that lie in each other's places are sought (`kernels.blocks`).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from ..errors import SherdError
from ..puzzle import EMPTY
from .evolution import Evolution, EvolutionParams, Progress
from .kernels.blocks import carry_blocks
from .kernels.moves import full_score
from .kernels.world import World
from .problem import LISTS, Problem, candidates, cell_table

BRIEF = EvolutionParams(islands=2, population=8, patience=250)
"""How patches are searched."""


@dataclass(frozen=True)
class PatchParams:
    """Parameters of `Patches`. Evidence is in nats."""

    cells: int = 200
    """Cells opened at a time, at most."""
    patches: int = 3
    """Patches they are shared out among, at most: pieces may have been exchanged between two."""
    weak: float = 3.0
    """Mean evidence of a cell's links below which a patch may begin there."""
    worth: float = 1.0
    """Least gain: a plain patch can be rearranged for ever, for next to nothing."""
    patience: int = 30
    """Searches in a row that bring nothing before it ends, if few cells are weak."""
    rounds: int = 8
    """How often all weak cells are gone through, about, before it ends, if many are."""

    def __post_init__(self) -> None:
        if min(self.cells, 2 * self.patches, 2 * self.patience, 2 * self.rounds) < 2:
            raise SherdError(
                "patches: cells ≥ 2, patches ≥ 1, patience ≥ 1 and rounds ≥ 1 are needed"
            )
        if self.worth < 0:
            raise SherdError("patches: worth may not be negative")


class Patches:
    """Mends a board patch by patch. Deterministic for a generator, anytime; no board gets worse.

    Where pieces must lie side by side or may not lie somewhere (`World.bound`) nothing is done:
    such rules reach across the rim of a patch.
    """

    def __init__(
        self, problem: Problem, params: PatchParams | None = None, *, threads: int | None = None
    ) -> None:
        self.problem = problem
        self.params = params or PatchParams()
        self.threads = threads

    def run(
        self, board: np.ndarray, rng: np.random.Generator, progress: Progress, *, first: int = 0
    ) -> tuple[np.ndarray, float]:
        """From the flat ``board (C,)`` to a better one, if there is, and its score.

        ``progress`` hears of every patch, the rounds being counted from ``first``.
        """
        w, q = self.problem.world, self.params
        board, score = board.copy(), float(full_score(w, board))
        number, since = first, 0
        while not w.bound:
            support = _support(w, board)
            weak = int((support < q.weak).sum())
            if weak and since < max(q.patience, q.rounds * weak // (q.cells // 2)):
                gain = self._mend(board, self._open(support, rng), rng)
            elif not (gain := self._carry(board, rng)):
                break
            score, since = score + gain, 0 if gain else since + 1
            if progress(self.problem.to_board(board), score, number):
                break
            number += 1
        return board, float(full_score(w, board))

    def _open(self, support: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """``(C,)``: cells of one to `patches` weak patches."""
        w, q = self.problem.world, self.params
        begin = np.flatnonzero(support < q.weak)
        opened = np.zeros(len(support), dtype=bool)
        patches = 1 + int(rng.integers(q.patches))
        size = max(2, int(rng.integers(q.cells // 4, q.cells + 1)) // patches)
        for c in rng.choice(begin, patches):
            seen, count = {int(c)}, 0
            edge = [(0.0, int(c))]
            while edge and count < size:
                _, c = heapq.heappop(edge)
                count += not opened[c]
                opened[c] = True
                for x in w.near[c].tolist():
                    if x >= 0 and x not in seen and not w.fixed[x]:
                        seen.add(x)
                        heapq.heappush(edge, (support[x] + rng.gumbel(), x))
        return opened

    def _carry(self, board: np.ndarray, rng: np.random.Generator) -> float:
        """Carry small blocks of ``board`` to where they belong, in place; the gain."""
        w = self.problem.world
        carried, before = board.copy(), float(full_score(w, board))
        gain = carry_blocks(w, carried, rng.integers(2**63, size=1, dtype=np.uint64)) - before
        if gain < self.params.worth:
            return 0.0
        board[:] = carried
        return float(gain)

    def _mend(self, board: np.ndarray, opened: np.ndarray, rng: np.random.Generator) -> float:
        """Search the ``opened`` cells of ``board``, in place; the gain."""
        part = cut_out(self.problem, board, opened)
        before = float(full_score(part.problem.world, part.home))
        search = Evolution(part.problem, BRIEF, threads=self.threads)
        found, score = search.run(rng, lambda *_: False, start=part.home)
        if score < before + self.params.worth:
            return 0.0
        inside = part.cells >= 0
        board[part.cells[inside]] = np.append(part.pieces, EMPTY)[found.ravel()[inside]]
        return score - before


@dataclass(frozen=True)
class Part:
    """Some cells of a board as a problem of their own."""

    problem: Problem
    home: np.ndarray
    """Its flat board as the whole board has it."""
    pieces: np.ndarray
    """Its pieces, as the whole problem numbers them."""
    cells: np.ndarray
    """Its cells, as the whole problem numbers them; -1 where it has a hole."""


def cut_out(problem: Problem, board: np.ndarray, opened: np.ndarray) -> Part:
    """The ``opened`` cells of the flat ``board``; the pieces beside them come along, pinned, and
    all else in their bounding box is a hole. Its boards' scores differ as whole boards' do.
    """
    w = problem.world
    grid = np.arange(problem.cells).reshape(w.rows, w.cols)
    inner = opened[: problem.cells].reshape(grid.shape)
    wide = np.pad(inner, 1)
    used = inner | wide[:-2, 1:-1] | wide[2:, 1:-1] | wide[1:-1, :-2] | wide[1:-1, 2:]
    rows, cols = (np.flatnonzero(used.any(axis=axis)) for axis in (1, 0))
    box = (slice(rows[0], rows[-1] + 1), slice(cols[0], cols[-1] + 1))
    height, width = used[box].shape
    cells = np.where(used, grid, -1)[box].ravel()
    lying = np.where(cells >= 0, board[cells], EMPTY)
    pieces = np.unique(lying[lying != EMPTY])
    home = np.where(lying != EMPTY, np.searchsorted(pieces, lying), EMPTY).astype(np.int32)
    fixed = ~inner[box].ravel() | w.fixed[cells]
    at = np.ascontiguousarray(w.at[:, pieces[:, None], pieces])
    near, rim = cell_table(height, width, 0)
    world = World(
        at=at,
        border=np.ascontiguousarray(w.border[:, pieces]),
        cand=candidates(at, LISTS),
        near=near,
        rim=rim,
        fixed=fixed,
        barred=np.zeros((1, 1), dtype=np.bool_),
        glue=np.full((4, len(pieces)), -1, dtype=np.int32),
        tied=np.empty(0, dtype=np.int32),
        big=w.big,
        rows=height,
        cols=width,
        anchored=True,
        bound=False,
    )
    return Part(Problem(world, np.where(fixed, home, EMPTY).astype(np.int32)), home, pieces, cells)


def _support(w: World, board: np.ndarray) -> np.ndarray:
    """``(C,)`` mean evidence of every cell's links; what is fixed, or in the pool, has no end of
    it."""
    there = np.where(w.near >= 0, board[w.near], EMPTY)  # (C, 4)
    links = (there != EMPTY) & (board != EMPTY)[:, None]
    evidence = np.where(links, w.at[np.arange(4), board[:, None], there], 0.0)
    mean = evidence.sum(axis=1) / np.maximum(1, links.sum(axis=1))
    mean[w.fixed] = np.inf
    mean[w.rows * w.cols :] = np.inf
    return mean
