"""Deepzzle (Paumard, Picard & Tabia 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..errors import SherdError
from ..perception.evidence import Evidence
from ..perception.rivals.offsets import OFFSETS
from ..puzzle import EMPTY, Puzzle
from .base import Found, Recorder, Solver
from .classical import constraints
from .deepzzle_graph import MOST, shortest_paths
from .stop import Stop

if TYPE_CHECKING:
    from ..perception.rivals.deepzzle import Deepzzle as Network

LARGEST = 5
"""Most rows and columns."""


@dataclass(frozen=True)
class DeepzzleParams:
    """Branch-cut, and how many alternatives are followed beyond 3×3."""

    cut: float = 0.01
    """Edges of a lower probability are dropped, as long as a path is left."""
    width: int = 150
    """Most partial assemblies of a level, 0 = all; 3×3 puzzles have at most 70."""
    keep: int = 60
    """Assemblies of a ring from which the next ring is tried."""
    centres: int = 16
    """Fragments that are tried in the centre when it is not known which one lies there."""

    def __post_init__(self) -> None:
        if not 0 <= self.cut < 1:
            raise SherdError(f"cut: {self.cut}; must be at least 0 and less than 1")
        if self.width < 0 or self.keep < 1 or self.centres < 1:
            raise SherdError("width must be at least 0, keep and centres at least 1")


@cache
def _shipped() -> Network:
    from ..perception.rivals.deepzzle import Deepzzle as Network
    from ..perception.rivals.deepzzle import DeepzzleConfig
    from ..perception.rivals.weights import load_rival

    return load_rival("deepzzle", DeepzzleConfig, Network).net


class Deepzzle(Solver):
    """Relative positions by a Siamese network, then the shortest path to a whole assembly.

    From the paper: the network says with which probability a fragment lies at each of the 8
    positions around the central one; a graph of partial assemblies begins with the central fragment
    alone, an edge lays one more fragment and costs −log p, the shortest path is the answer;
    branch-cut drops edges of low probability. 3×3, the centre known: exactly this.

    Beyond 3×3, ring by ring around the centre: a cell of a ring costs −log p summed over the cells
    of the ring inside that touch it, corners included. A ring is one shortest path; the best few of
    a ring are followed into the next. Where the network's class "elsewhere" cannot be excluded (all
    but 3×3 with a known centre) it takes its share of the probability.

    Chosen where the paper is silent: when no centre is given, the fragments whose first ring costs
    least are tried there, and the cheapest assembly wins; a pinned fragment that does not lie in
    the centre takes the centre's part. Where branch-cut leaves no path, it is relaxed tenfold.
    Empty cells cost what chance does. Grids with a side of more than 5 are refused: with every ring
    positions are further from anything that is known, and partial assemblies multiply.
    """

    name: ClassVar[str] = "deepzzle"
    summary: ClassVar[str] = "Siamese network for relative positions, then a shortest path; to 5x5."
    reference: ClassVar[str] = (
        "Paumard, Picard & Tabia: Deepzzle: solving visual jigsaw puzzles with deep learning and "
        "shortest path optimization. IEEE TIP 2020"
    )
    weights: ClassVar[tuple[str, ...]] = ("deepzzle",)

    def __init__(self, net: Network | None = None, params: DeepzzleParams | None = None) -> None:
        self.net = net
        self.params = params or DeepzzleParams()

    @classmethod
    def cannot(cls, grid: tuple[int, int]) -> str | None:
        if max(grid) > LARGEST:
            return (
                f"the grid is {grid[0]}x{grid[1]}, and the graph of partial assemblies around one "
                f"fragment does not scale beyond {LARGEST}x{LARGEST}"
            )
        return None

    def _solve(
        self, puzzle: Puzzle, stop: Stop | None, rng: np.random.Generator, record: Recorder
    ) -> Found:
        free, pins = constraints(puzzle)
        if max(puzzle.n, int(free.sum())) > MOST:
            raise SherdError(f"{self.name}: {puzzle.n} pieces; at most {MOST} can be handled")
        record.stage("perception")
        rings = Rings.around(free, pins)
        known = pins[rings.root[0] * free.shape[1] + rings.root[1]] != EMPTY
        alone = known and len(rings.cells) <= 1 and puzzle.n <= int(free.sum())
        log_p = self.perceive(puzzle, elsewhere=not alone)

        record.stage("search")
        assembler = Assembler(log_p, rings, free, pins, self.params)
        evidence = Evidence(
            np.zeros((puzzle.n, puzzle.n)),
            np.zeros((puzzle.n, puzzle.n)),
            board=assembler.scores,
            board_weight=1.0,
            source="deepzzle: log p of the positions along the path, against chance",
        )
        board, score = np.empty(0), -np.inf
        for number, centre in enumerate(assembler.centres()):
            found = assembler.assemble(centre)
            value = evidence.full_score(found)
            if value > score:
                board, score = found, value
            record.board(board, score, number)
            record.round(number, score)
            if stop is not None and stop(score):
                break
        return Found(board, score, assembler.confidence(board), evidence)

    def perceive(self, puzzle: Puzzle, *, elsewhere: bool) -> np.ndarray:
        """``(n, n, 8)``: log p(j lies at a position around i)."""
        from ..perception.rivals.deepzzle import position_log_probabilities
        from ..perception.threads import torch_threads
        from ..search.evolution import default_threads

        with torch_threads(default_threads()):
            return position_log_probabilities(self.net or _shipped(), puzzle, elsewhere=elsewhere)


@dataclass(frozen=True)
class Rings:
    """Cells by their distance from the one where the assembly begins."""

    root: tuple[int, int]
    cells: list[list[tuple[int, int]]]
    """Free cells of every ring, the nearest first; rings without any are left out."""

    @staticmethod
    def around(free: np.ndarray, pins: np.ndarray) -> Rings:
        """Around the pinned cell that is nearest to the centre, else the free one that is."""
        rows, cols = free.shape
        centre = np.array([rows // 2, cols // 2])
        pinned = pins.reshape(free.shape) != EMPTY
        cells = np.argwhere(pinned if pinned.any() else free)
        far = np.abs(cells - centre).max(axis=1)
        root = cells[int(far.argmin())] if len(cells) else centre
        others = np.argwhere(free)
        ring = np.abs(others - root).max(axis=1)
        return Rings(
            (int(root[0]), int(root[1])),
            [
                [(int(r), int(c)) for r, c in others[ring == k]]
                for k in range(1, int(ring.max(initial=0)) + 1)
                if (ring == k).any()
            ],
        )

    def inside(self, cell: tuple[int, int], shape: tuple[int, int]) -> list[tuple[int, int, int]]:
        """Cells of rings further inside that touch ``cell``: row, column, position seen from it."""
        ring = self._ring(cell)
        return [
            (r, c, k) for r, c, k in touching(cell, shape) if self._ring((r, c)) < ring
        ]  # fmt: skip

    def _ring(self, cell: tuple[int, int]) -> int:
        return max(abs(cell[0] - self.root[0]), abs(cell[1] - self.root[1]))


def touching(cell: tuple[int, int], shape: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Cells around ``cell``: row, column, and the position of ``cell`` as seen from there."""
    around = []
    for k, (dr, dc) in enumerate(OFFSETS):
        r, c = cell[0] - dr, cell[1] - dc
        if 0 <= r < shape[0] and 0 <= c < shape[1]:
            around.append((r, c, k))
    return around


@dataclass(frozen=True)
class Partial:
    """A partial assembly: whole rings."""

    cost: float
    board: np.ndarray
    blanks: int
    """Cells further out that will stay empty."""


class Assembler:
    """Shortest paths from a centre outwards, ring by ring."""

    def __init__(
        self,
        log_p: np.ndarray,
        rings: Rings,
        free: np.ndarray,
        pins: np.ndarray,
        params: DeepzzleParams,
    ) -> None:
        self.log_p, self.rings, self.free, self.params = log_p, rings, free, params
        self.n = len(log_p)
        self.pins = pins.reshape(free.shape)
        self.blanks = max(0, int(free.sum()) - self.n)
        self.chance = -np.log(max(1, free.size - 1))
        """log p of a position that is known of nothing."""

    def centres(self) -> list[int]:
        """Fragments to begin with: the pinned one, or those whose first ring costs least."""
        known = int(self.pins[self.rings.root])
        if known != EMPTY:
            return [known]
        if not self.rings.cells:
            return list(range(min(self.n, self.params.centres)))
        costs = [self._lay(self._begin(f), 0, width=64)[0].cost for f in range(self.n)]
        return [int(f) for f in np.argsort(costs, kind="stable")[: self.params.centres]]

    def assemble(self, centre: int) -> np.ndarray:
        """The board of the shortest path that begins with ``centre``."""
        kept = [self._begin(centre)]
        for ring in range(len(self.rings.cells)):
            longer = [p for part in kept for p in self._lay(part, ring, width=self.params.width)]
            kept = sorted(longer, key=lambda part: part.cost)[: self.params.keep]
        return kept[0].board

    def _begin(self, centre: int) -> Partial:
        board = np.full(self.free.shape, EMPTY)
        board[self.rings.root] = centre
        return Partial(0.0, board, self.blanks)

    def _lay(self, part: Partial, ring: int, *, width: int) -> list[Partial]:
        """The best ways to lay a ring around ``part``."""
        cells = self.rings.cells[ring]
        cost, edge = self._costs(part, cells)
        # what is clear comes first: the best partial assemblies are then those of the best path
        best = np.sort(np.where(np.isfinite(cost), cost, 1e9), axis=1)
        clear = best[:, min(1, best.shape[1] - 1)] - best[:, 0]
        order = np.argsort(-clear, kind="stable")
        cut = self.params.cut
        while True:
            paths = shortest_paths(
                cost[order], edge[order], cut=cut, width=width, blanks=part.blanks,
                keep=self.params.keep,
            )  # fmt: skip
            if paths:
                break
            cut = cut / 10.0 if cut > 1e-9 else 0.0
        out = []
        for path in paths:
            board = part.board.copy()
            for k, fragment in zip(order, path.chosen, strict=True):
                board[cells[k]] = fragment if fragment < self.n else EMPTY
            blank = int((path.chosen >= self.n).sum())
            out.append(Partial(part.cost + path.cost, board, part.blanks - blank))
        return out

    def _costs(self, part: Partial, cells: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """``(cells, n + blanks)``: −log p against chance, and −log p per neighbour for the cut."""
        board = part.board
        cost = np.zeros((len(cells), self.n + part.blanks))
        edge = np.zeros_like(cost)
        free = np.ones(self.n + part.blanks, dtype=bool)
        free[board[board != EMPTY]] = False
        free[self.pins[self.pins != EMPTY]] = False
        for k, cell in enumerate(cells):
            near = [
                (board[r, c], p)
                for r, c, p in self.rings.inside(cell, board.shape)
                if board[r, c] != EMPTY
            ]
            for other, position in near:
                cost[k, : self.n] -= self.log_p[other, :, position] - self.chance
                edge[k, : self.n] -= self.log_p[other, :, position] / len(near)
            pinned = int(self.pins[cell])
            if pinned != EMPTY:  # no choice, so nothing to cut
                edge[k, pinned] = 0.0
            cost[k, ~free if pinned == EMPTY else np.arange(len(free)) != pinned] = np.inf
        return cost, edge

    def scores(self, boards: np.ndarray) -> np.ndarray:
        """``(b,)``: log p against chance of ``boards (b, M, N)``, the path's cost turned round."""
        out = np.zeros(len(boards))
        for cells in self.rings.cells:
            for cell in cells:
                here = boards[:, cell[0], cell[1]]
                for r, c, position in self.rings.inside(cell, self.free.shape):
                    there = boards[:, r, c]
                    both = (here != EMPTY) & (there != EMPTY)
                    out[both] += self.log_p[there[both], here[both], position] - self.chance
        return out

    def confidence(self, board: np.ndarray) -> np.ndarray:
        """``(M, N)``: how likely a fragment is against all others, its neighbours given.

        A softmax over the fragments of the mean log p from the up to 8 fragments around the cell.
        """
        out = np.zeros(board.shape)
        for r, c in np.argwhere(board != EMPTY):
            near = [(board[y, x], p) for y, x, p in touching((r, c), board.shape)
                    if board[y, x] != EMPTY]  # fmt: skip
            if not near:
                out[r, c] = 1.0 / self.n
                continue
            total = np.mean([self.log_p[other, :, p] for other, p in near], axis=0)
            total[[other for other, _ in near]] = -np.inf
            z = np.exp(total - total.max())
            out[r, c] = z[board[r, c]] / z.sum()
        return out
