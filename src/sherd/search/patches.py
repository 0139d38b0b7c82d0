"""Weak patches of a large board, searched again by themselves.

On a board of hundreds of pieces most lie right after a while, in one solid part. What is wrong is
the rest: plain patches, and clusters that are right in themselves, in each other's places, held
there by a strong link or two. Births of whole boards are too dear for it, and swaps and blocks that
must gain do not get through. So all that is not of the solid part is opened, and becomes a small
puzzle, with the pieces around it pinned, which is melted and cooled (`kernels.anneal`). When that
brings nothing, small blocks that lie in each other's places are sought (`kernels.blocks`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import label

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
    """Cells opened at a time, at most: those nearest to a random one, if it were more."""
    solid: float = 4.5
    """Four links of a 2×2 block must each have more than 0 … this for it to be solid."""
    worth: float = 2e-4
    """Share of the score that counts as a gain: a plain patch can be rearranged for ever, for next
    to nothing."""
    patience: int = 4
    """Rounds in a row that bring nothing before it ends."""
    lanes: int = 2
    """Searches of a round, side by side, from the same board; the best is taken."""
    moves: int = 30_000
    """Moves of the annealing for every open cell."""
    mild: float = 7.0
    """It begins with a temperature between this one …"""
    hot: float = 12.0
    """… and this one, at which all links break …"""
    cold: float = 3.0
    """… and ends with this one, at which good ones hold."""

    def __post_init__(self) -> None:
        if min(self.cells, 2 * self.patience, 2 * self.lanes, 2 * self.moves) < 2:
            raise SherdError("patches: cells ≥ 2, patience ≥ 1, lanes ≥ 1 and moves ≥ 1 are needed")
        if not 0 < self.cold <= self.mild <= self.hot:
            raise SherdError("patches: 0 < cold ≤ mild ≤ hot is needed")
        if min(self.worth, self.solid) < 0:
            raise SherdError("patches: worth and solid may not be negative")


class Patches:
    """Mends a board patch by patch. Deterministic for a generator, anytime (a round of 1000 open
    cells takes about ten seconds); no board gets worse.

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
        with ThreadPoolExecutor(min(self.threads, q.lanes)) as pool:
            while not w.bound:
                gain = self._mend(board, rng, pool) if since < q.patience else 0.0
                if since >= q.patience and not (gain := self._carry(board, rng)):
                    break
                since = 0 if gain > q.worth * abs(score) else since + 1
                score += gain
                if progress(self.problem.to_board(board), score, number):
                    break
                number += 1
        return board, float(full_score(w, board))

    def _mend(self, board: np.ndarray, rng: np.random.Generator, pool: ThreadPoolExecutor) -> float:
        """Search what is not solid of ``board``, in place; the gain."""
        q = self.params
        opened = [cells for _ in range(q.lanes) if (cells := self._open(board, rng)).any()]
        if not opened:
            return 0.0
        parts = [cut_out(self.problem, board, cells) for cells in opened]
        seeds = rng.integers(2**63, size=len(parts), dtype=np.uint64)
        heats = rng.uniform(q.mild, q.hot, size=len(parts))
        found = list(pool.map(self._anneal, parts, heats, seeds))
        best = max(range(len(parts)), key=lambda k: found[k][1])
        lying, gain = found[best]
        if gain > 0:
            inside = parts[best].cells >= 0
            pieces = np.append(parts[best].pieces, EMPTY)
            board[parts[best].cells[inside]] = pieces[lying[inside]]
        return gain

    def _anneal(self, part: Part, hot: float, seed: np.uint64) -> tuple[np.ndarray, float]:
        """A better flat board of ``part``, if there is, and what it gains."""
        w, q = part.problem.world, self.params
        lying = part.home.copy()
        moves = q.moves * int((~w.fixed).sum())
        score = anneal(w, lying, moves, hot, q.cold, np.array([seed], dtype=np.uint64))
        return lying, float(score - full_score(w, part.home))

    def _open(self, board: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """``(C,)``: the cells that are not of the largest solid part."""
        w, q = self.problem.world, self.params
        opened = ~w.fixed
        opened[self.problem.cells :] = False
        opened[: self.problem.cells] &= ~solid_part(w, board, rng.uniform(0.0, q.solid))
        among = np.flatnonzero(opened)
        if len(among) > q.cells:
            c = rng.choice(among)
            far = np.abs(among // w.cols - c // w.cols) + np.abs(among % w.cols - c % w.cols)
            opened[among[np.argsort(far, kind="stable")[q.cells :]]] = False
        return opened

    def _carry(self, board: np.ndarray, rng: np.random.Generator) -> float:
        """Carry small blocks of ``board`` to where they belong, in place; the gain."""
        w = self.problem.world
        carried, before = board.copy(), float(full_score(w, board))
        gain = carry_blocks(w, carried, rng.integers(2**63, size=1, dtype=np.uint64)) - before
        if gain <= self.params.worth * abs(before):
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


def solid_part(w: World, board: np.ndarray, least: float) -> np.ndarray:
    """``(cells,)``: the largest part of the flat ``board`` made of solid 2×2 blocks, two of which
    belong together if they share two pieces. All four links of a solid block have more than
    ``least`` nats: a single link that is strong by chance holds nothing together.
    """
    lying = board[: w.rows * w.cols].reshape(w.rows, w.cols)
    right = _strong(w, 1, lying[:, :-1], lying[:, 1:], least)
    below = _strong(w, 2, lying[:-1], lying[1:], least)
    parts, count = label(right[:-1] & right[1:] & below[:, :-1] & below[:, 1:])
    solid = np.zeros(lying.shape, dtype=bool)
    if count:
        part = parts == 1 + np.bincount(parts[parts > 0] - 1).argmax()
        for corner in (solid[:-1, :-1], solid[:-1, 1:], solid[1:, :-1], solid[1:, 1:]):
            corner |= part
    return solid.ravel()


def _strong(w: World, d: int, p: np.ndarray, o: np.ndarray, least: float) -> np.ndarray:
    """Which of the links of pieces p with o at their side d are strong?"""
    return (p != EMPTY) & (o != EMPTY) & (w.at[d, p, o] > least)
