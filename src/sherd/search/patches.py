"""Weak patches of a large board, searched again by themselves.

On a board of hundreds of pieces most lie right after a while, and what is still wrong are patches,
plain ones mostly. Births of whole boards are too dear for them, and to regrow a patch once is too
little: a patch wants a search of its own. So a few weak patches are opened, everything else stays,
and the pieces in them are a small puzzle, with the pieces around them pinned. It is annealed
(`kernels.anneal`). When that brings nothing, small blocks that lie in each other's places are
sought (`kernels.blocks`).
"""

from __future__ import annotations

import heapq
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..errors import SherdError
from ..puzzle import EMPTY
from .evolution import Progress, default_threads
from .kernels.anneal import anneal
from .kernels.blocks import carry_blocks
from .kernels.moves import full_score
from .kernels.world import World
from .problem import LISTS, Problem, candidates, cell_table


@dataclass(frozen=True)
class PatchParams:
    """Parameters of `Patches`. Evidence is in nats."""

    cells: int = 1000
    """Cells opened at a time, at most."""
    share: float = 6.0
    """Cells opened for every weak cell of the board, at most …"""
    least: int = 48
    """… unless that were fewer than this."""
    patches: int = 3
    """Patches they are shared out among, at most: pieces may have been exchanged between two."""
    weak: float = 3.0
    """Mean evidence of a cell's links below which a patch may begin there."""
    worth: float = 1.0
    """Least gain: a plain patch can be rearranged for ever, for next to nothing."""
    patience: int = 10
    """Pairs of searches in a row that bring nothing before it ends."""
    moves: int = 30_000
    """Moves of the annealing for every open cell."""
    hot: float = 6.0
    """Temperature it begins with: that of good links, or what is wrong stays as it is …"""
    cold: float = 1.0
    """… and ends with."""

    def __post_init__(self) -> None:
        if min(self.cells, self.least, 2 * self.patches, 2 * self.patience, 2 * self.moves) < 2:
            raise SherdError(
                "patches: cells ≥ 2, least ≥ 2, patches ≥ 1, patience ≥ 1 and moves ≥ 1 are needed"
            )
        if not 0 < self.cold <= self.hot:
            raise SherdError("patches: 0 < cold ≤ hot is needed")
        if min(self.worth, self.share) < 0:
            raise SherdError("patches: worth and share may not be negative")


LANES = 2
"""Searches that run side by side, from the same board."""


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
        self.threads = threads or default_threads()

    def run(
        self, board: np.ndarray, rng: np.random.Generator, progress: Progress, *, first: int = 0
    ) -> tuple[np.ndarray, float]:
        """From the flat ``board (C,)`` to a better one, if there is, and its score.

        ``progress`` hears of every round, the rounds being counted from ``first``.
        """
        w, q = self.problem.world, self.params
        board, score = board.copy(), float(full_score(w, board))
        number, since = first, 0
        with ThreadPoolExecutor(min(self.threads, LANES)) as pool:
            while not w.bound:
                support = _support(w, board)
                if since < q.patience and (support < q.weak).any():
                    gain = self._mend(board, support, rng, pool)
                elif not (gain := self._carry(board, rng)):
                    break
                score, since = score + gain, 0 if gain else since + 1
                if progress(self.problem.to_board(board), score, number):
                    break
                number += 1
        return board, float(full_score(w, board))

    def _mend(
        self,
        board: np.ndarray,
        support: np.ndarray,
        rng: np.random.Generator,
        pool: ThreadPoolExecutor,
    ) -> float:
        """Search weak patches of ``board``, in place; the gain."""
        parts = [cut_out(self.problem, board, self._open(support, rng)) for _ in range(LANES)]
        seeds = rng.integers(2**63, size=LANES, dtype=np.uint64)
        found = list(pool.map(self._anneal, parts, seeds))
        total = 0.0
        for k in sorted(range(LANES), key=lambda k: -found[k][1]):
            lying, gain = found[k]
            inside = parts[k].cells >= 0
            cells, pieces = parts[k].cells[inside], np.append(parts[k].pieces, EMPTY)
            untouched = np.array_equal(board[cells], pieces[parts[k].home[inside]])
            if gain >= self.params.worth and untouched:
                board[cells] = pieces[lying[inside]]
                total += gain
        return total

    def _anneal(self, part: Part, seed: np.uint64) -> tuple[np.ndarray, float]:
        """A better flat board of ``part``, if there is, and what it gains."""
        w, q = part.problem.world, self.params
        lying = part.home.copy()
        moves = q.moves * int((~w.fixed).sum())
        score = anneal(w, lying, moves, q.hot, q.cold, np.array([seed], dtype=np.uint64))
        return lying, float(score - full_score(w, part.home))

    def _open(self, support: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """``(C,)``: cells of one to `patches` weak patches."""
        w, q = self.problem.world, self.params
        begin = np.flatnonzero(support < q.weak)
        opened = np.zeros(len(support), dtype=bool)
        patches = 1 + int(rng.integers(q.patches))
        most = min(q.cells, max(q.least, int(q.share * len(begin))))
        size = max(2, int(rng.integers(most // 4, most + 1)) // patches)
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
