"""The greedy placer of Paikin & Tal (2015)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from ..errors import SherdError
from ..perception.dissimilarity import lab, paikin_tal
from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle
from .base import Found, Recorder, Solver
from .classical import confidence, constraints, fill
from .greedy_kernels import best_fit, mutual, rank
from .stop import Stop

STEP = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
"""(row, column) step over each side."""


@dataclass(frozen=True)
class GreedyParams:
    """What can be chosen; everything else is the paper's."""

    snapshots: int = 100
    """Boards kept in the history, at most about so many."""

    def __post_init__(self) -> None:
        if self.snapshots < 1:
            raise SherdError(f"snapshots: {self.snapshots}; must be at least 1")


class Greedy(Solver):
    """Places the surest piece next, and never takes one back.

    From the paper: the dissimilarity of a side and a piece beyond it is the L1 norm, in L*a*b*, of
    what the side's last two pixels predict; compatibility C = 1 − D / (second best D of that side);
    mutual compatibility = the mean of both directions; best buddies = pieces that are most
    compatible to each other. First comes the piece that has best buddies on all sides, which have
    buddies on all sides too, by the largest mutual compatibility. Then best buddies of placed
    pieces wait in a pool and the one of the largest mutual compatibility is placed. When the pool
    is empty, compatibilities are computed anew among what is left.

    Chosen where the paper is silent or does not apply: when no piece has all its buddies, the one
    with most; when there are no buddies left, the slot and piece of the largest mutual
    compatibility, averaged over the slot's neighbours; C is cut off at −1. The frame of M×N floats
    around what is placed. Pinned pieces are placed first. Orientation is known and there is one
    puzzle, so the paper's steps for other cases are left out. There is no objective over whole
    boards; the score is the mutual compatibility (among all pieces) summed over the board, which
    is what the placer collects step by step.
    """

    name = "greedy"
    summary = "Greedy placer: best buddies first, the surest next."
    reference = (
        "Paikin & Tal: Solving multiple square jigsaw puzzles with missing pieces. CVPR 2015"
    )

    def __init__(self, params: GreedyParams | None = None) -> None:
        self.params = params or GreedyParams()

    def dissimilarity(self, puzzle: Puzzle) -> np.ndarray:
        """``(4, n, n) float32``: dissimilarity of j at side s of i, as i sees it; 0 = a match."""
        return paikin_tal(lab(puzzle.pieces))

    def _solve(
        self, puzzle: Puzzle, stop: Stop | None, rng: np.random.Generator, record: Recorder
    ) -> Found:
        record.stage("perception")
        d = self.dissimilarity(puzzle)
        free, pins = constraints(puzzle)
        placer = Placer(d, free, pins)
        evidence = compatibility(d, placer.second, self.name)

        record.stage("search")
        every = -(-puzzle.n // self.params.snapshots)
        done = 0
        while placer.place_next():
            done += 1
            score = evidence.score(placer.board())
            if done % every == 0:
                record.board(placer.board(), score, done)
            record.round(done, score)
            if stop is not None and stop(score):
                break
        board = fill(placer.board(), free, evidence)  # changes nothing unless it was stopped
        score = evidence.score(board)
        record.board(board, score, done)
        return Found(board, score, confidence(evidence, board), evidence)


def compatibility(d: np.ndarray, second: np.ndarray, system: str = "greedy") -> Evidence:
    """Mutual compatibility of all pairs, in −1..1, given `rank`'s ``second`` among all pieces."""
    scale = np.maximum(np.where(np.isfinite(second), second, 1.0), 1e-6)
    c = 1.0 - np.minimum(d / scale[:, :, None], 2.0)
    return Evidence(
        0.5 * (c[1] + c[3].T),
        0.5 * (c[2] + c[0].T),
        source=f"{system}: mutual compatibility 1 − D / second best D, both directions averaged",
    )


class Placer:
    """The board that grows, the pool, and what is known of the sides that are open.

    Pieces lie on a canvas of (2M+1)×(2N+1) slots. ``origins`` are the places that the M×N frame
    can still take on it: a slot is open if it is a free cell in at least one of them.
    """

    def __init__(self, d: np.ndarray, free: np.ndarray, pins: np.ndarray) -> None:
        self.d, self.free = d, free
        rows, cols = free.shape
        n = d.shape[1]
        self.canvas = np.full((2 * rows + 1, 2 * cols + 1), EMPTY, dtype=np.int64)
        self.reach = np.zeros(self.canvas.shape, dtype=np.bool_)  # free in some possible frame
        self.laid = np.zeros(n, dtype=np.bool_)
        self.slot = np.zeros((n, 2), dtype=np.int64)  # of the pieces that lie
        self.best = np.empty((4, n), dtype=np.int32)
        self.second = np.empty((4, n), dtype=np.float32)
        self.room = int(free.sum())
        self.pool: list[tuple[float, int, int, int]] = []
        pinned = np.flatnonzero(pins != EMPTY)
        if len(pinned):
            self.origins = np.array([[1, 1]])
        else:
            self.origins = np.argwhere(np.ones_like(free)) + 1
        self._keep(np.ones(len(self.origins), dtype=np.bool_))
        self._rank()
        for c in pinned:
            self.place(int(pins[c]), 1 + int(c) // cols, 1 + int(c) % cols)

    def place_next(self) -> bool:
        """Place one piece; False when no piece or no room is left."""
        if self.room == 0 or self.laid.all():
            return False
        self.place(*self._next())
        return True

    def place(self, piece: int, y: int, x: int) -> None:
        """Lay ``piece`` into slot (y, x)."""
        self.canvas[y, x] = piece
        self.laid[piece] = True
        self.slot[piece] = y, x
        self.room -= 1
        self._keep(self._inside(y, x))
        for s in range(4):
            self._offer(piece, s)

    def board(self) -> np.ndarray:
        """``(M, N)``: what lies in the first frame that is possible."""
        (y, x), (rows, cols) = self.origins[0], self.free.shape
        return self.canvas[y : y + rows, x : x + cols].copy()

    def _next(self) -> tuple[int, int, int]:
        """The piece to be placed and its slot (y, x)."""
        if not self.laid.any():
            return self._first(), *self.free.shape
        for fresh in (False, True):
            if fresh:
                for s, piece in np.argwhere(self._rank() & self.laid):
                    self._offer(int(piece), int(s))
            while self.pool:
                _, piece, y, x = heapq.heappop(self.pool)
                if not self.laid[piece] and self._open(y, x):
                    return piece, y, x
        return self._without_buddies()

    def _without_buddies(self) -> tuple[int, int, int]:
        beside = (self.slot[self.laid] + STEP[:, None]).reshape(-1, 2)
        at = np.unique(beside[self._open(beside[:, 0], beside[:, 1])], axis=0)
        if not len(at):  # blocked cells cut the rest off: begin anew there
            self._keep(np.arange(len(self.origins)) == 0)
            y, x = np.argwhere(self.free & (self.board() == EMPTY))[0] + self.origins[0]
            return self._first(), int(y), int(x)
        around = np.stack([self.canvas[at[:, 0] + dy, at[:, 1] + dx] for dy, dx in STEP], axis=1)
        k, piece = best_fit(self.d, self.second, around, np.flatnonzero(~self.laid))
        return int(piece), int(at[k, 0]), int(at[k, 1])

    def _rank(self) -> np.ndarray:
        """Compatibilities among the sides that can still get a neighbour, ``(4, n)`` bool."""
        open_ = np.ones(self.best.shape, dtype=np.bool_)
        for s, step in enumerate(STEP):
            beside = self.slot[self.laid] + step
            open_[s, self.laid] = self._open(beside[:, 0], beside[:, 1])
        rank(self.d, open_, self.laid, self.best, self.second)
        return open_

    def _buddy(self, piece: int, s: int) -> int:
        """The best buddy at side s, or -1."""
        j = int(self.best[s, piece])
        return j if j >= 0 and self.best[s ^ 2, j] == piece else -1

    def _offer(self, piece: int, s: int) -> None:
        """Put the best buddy at side s of a placed piece into the pool."""
        j = self._buddy(piece, s)
        y, x = self.slot[piece] + STEP[s]
        if j >= 0 and not self.laid[j] and self._open(y, x):
            value = mutual(self.d, self.second, s, piece, j)
            heapq.heappush(self.pool, (-value, j, int(y), int(x)))

    def _first(self) -> int:
        """The most distinctive piece that is left: most buddies, whose buddies have most."""
        rows, cols = self.free.shape
        sides = [s for s in range(4) if (rows > 1 if s % 2 == 0 else cols > 1)]
        spare = np.flatnonzero(~self.laid)
        buddies = {int(i): [(s, self._buddy(int(i), s)) for s in sides] for i in spare}
        count = {i: sum(j >= 0 for _, j in b) for i, b in buddies.items()}

        def key(i: int) -> tuple[int, int, float]:
            met = [(s, j) for s, j in buddies[i] if j >= 0]
            value = sum(mutual(self.d, self.second, s, i, j) for s, j in met)
            return len(met), sum(count.get(j, 0) for _, j in met), value

        return max(buddies, key=key)

    def _inside(self, y: int, x: int) -> np.ndarray:
        """Which origins have a free cell at slot (y, x)."""
        rows, cols = self.free.shape
        r, c = y - self.origins[:, 0], x - self.origins[:, 1]
        inside = (r >= 0) & (r < rows) & (c >= 0) & (c < cols)
        inside[inside] = self.free[r[inside], c[inside]]
        return inside

    def _keep(self, origins: np.ndarray) -> None:
        """Leave only these places of the frame."""
        if origins.all() and self.reach.any():
            return
        self.origins = self.origins[origins]
        rows, cols = self.free.shape
        self.reach[:] = False
        for y, x in self.origins:
            self.reach[y : y + rows, x : x + cols] |= self.free

    def _open(self, y: np.ndarray | int, x: np.ndarray | int) -> np.ndarray:
        """Whether slots are empty and lie in a frame that is still possible."""
        return (self.canvas[y, x] == EMPTY) & self.reach[y, x]
