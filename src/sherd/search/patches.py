"""Weak patches of a large board, searched again by themselves.

On a board of hundreds of pieces most lie right after a while, in one solid part. What is wrong is
the rest: plain patches, and clusters that are right in themselves, in each other's places, held
there by a strong link or two. Births of whole boards are too dear for it, and swaps and blocks that
must gain do not get through. So all that is not of the solid part is opened, and becomes a small
puzzle, with the pieces around it pinned, which is melted and cooled (`kernels.anneal`). When that
brings nothing, small blocks that lie in each other's places are sought (`kernels.blocks`). When
that brings nothing either, the solid part itself may be a line or two out of place, with plain
pieces at the rims to make up for it: then all of the board is shifted, and melted anew.
"""

from __future__ import annotations

from collections.abc import Callable
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

Heard = Callable[[np.ndarray, float], bool]
"""A flat board and its score → stop?"""
FEW = 4
"""Shifts that are looked at twice."""
LOOSE = 0.5
"""Share of the cells that a shift carries over a rim that may be solid."""


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
    reach: int = 2
    """Lines by which all of the board is shifted at most, in the end."""
    probe: int = 10_000
    """Moves for every open cell by which shifts are compared first; the best few by more."""

    def __post_init__(self) -> None:
        least = min(self.patience, self.lanes, self.moves, self.probe)
        if self.cells < 2 or least < 1 or self.reach < 0:
            raise SherdError(
                "patches: cells ≥ 2, patience, lanes, moves and probe ≥ 1 and reach ≥ 0 are needed"
            )
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
        best, top = board.copy(), float(full_score(w, board))
        number, stopped = first, False

        def heard(board: np.ndarray, score: float) -> bool:
            nonlocal best, top, number, stopped
            if score > top:
                best, top = board.copy(), score
            stopped = progress(self.problem.to_board(best), top, number)
            number += 1
            return stopped

        if w.bound:
            return best, top
        with ThreadPoolExecutor(min(self.threads, 2 * q.lanes)) as pool:
            self._melt(board.copy(), rng, pool, heard)
            while not stopped and (tried := self._shifted(best, rng, pool)) is not None:
                before = top
                self._melt(tried, rng, pool, heard)
                if top <= before + q.worth * abs(before):
                    break
        return best, float(full_score(w, best))

    def _melt(
        self, board: np.ndarray, rng: np.random.Generator, pool: ThreadPoolExecutor, heard: Heard
    ) -> None:
        """Mend ``board``, in place, until nothing comes of it."""
        q = self.params
        score, since = float(full_score(self.problem.world, board)), 0
        while True:
            gain = self._mend(board, rng, pool) if since < q.patience else 0.0
            if since >= q.patience and not (gain := self._carry(board, rng)):
                return
            since = 0 if gain > q.worth * abs(score) else since + 1
            score += gain
            if heard(board, score):
                return

    def _mend(self, board: np.ndarray, rng: np.random.Generator, pool: ThreadPoolExecutor) -> float:
        """Search what is not solid of ``board``, in place; the gain."""
        q = self.params
        found = self._annealed([board] * q.lanes, q.moves, rng, pool)
        best = max(range(q.lanes), key=lambda k: found[k][1])
        board[:] = found[best][0]
        return found[best][1]

    def _annealed(
        self,
        boards: list[np.ndarray],
        moves: int,
        rng: np.random.Generator,
        pool: ThreadPoolExecutor,
    ) -> list[tuple[np.ndarray, float]]:
        """What is not solid of each flat board annealed, with so many ``moves`` for every open
        cell: a new board, and what it gains."""
        q = self.params
        opened = [self._open(board, rng) for board in boards]
        heats = rng.uniform(q.mild, q.hot, size=len(boards))
        seeds = rng.integers(2**63, size=len(boards), dtype=np.uint64)

        def one(
            board: np.ndarray, cells: np.ndarray, hot: float, seed: np.uint64
        ) -> tuple[np.ndarray, float]:
            if not cells.any():
                return board, 0.0
            part = cut_out(self.problem, board, cells)
            w, lying = part.problem.world, part.home.copy()
            state = np.array([seed], dtype=np.uint64)
            score = anneal(w, lying, moves * int((~w.fixed).sum()), hot, q.cold, state)
            inside = part.cells >= 0
            out = board.copy()
            out[part.cells[inside]] = np.append(part.pieces, EMPTY)[lying[inside]]
            return out, float(score - full_score(w, part.home))

        return list(pool.map(one, boards, opened, heats, seeds))

    def _shifted(
        self, board: np.ndarray, rng: np.random.Generator, pool: ThreadPoolExecutor
    ) -> np.ndarray | None:
        """``board`` shifted by a few lines, and annealed once or twice: the best of those that
        carry little of its solid part over a rim; None if there are none."""
        w, q = self.problem.world, self.params
        if w.anchored:
            return None
        grid = board[: self.problem.cells].reshape(w.rows, w.cols)
        solid = solid_part(w, board, q.solid).reshape(grid.shape)
        rolled = []
        for axis, size in enumerate(grid.shape):
            for by in range(1, min(q.reach, size - 1) + 1):
                for step, edge in ((by, -by), (-by, by)):
                    over = np.split(solid, [edge], axis)[1 if step > 0 else 0]
                    if over.mean() <= LOOSE:
                        out = board.copy()
                        out[: self.problem.cells] = np.roll(grid, step, axis).ravel()
                        rolled.append(out)
        if not rolled:
            return None
        for moves, most in ((q.probe, FEW), (q.moves, 1)):
            rolled = [b for b, _ in self._annealed(rolled, moves, rng, pool)]
            rolled = sorted(rolled, key=lambda b: -float(full_score(w, b)))[:most]
        return rolled[0]

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
