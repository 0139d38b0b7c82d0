"""The puzzle: fragments, and what is known about where they go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import SherdError
from .board import EMPTY, check_board
from .knowledge import Cell, Knowledge


@dataclass(frozen=True)
class Puzzle:
    """Fragments and what is known about them. Immutable; solvers never see ``truth``."""

    pieces: np.ndarray
    """``(n, H, W, 3) uint8`` fragments, all of one size."""
    grid: tuple[int, int] | None = None
    """``(M, N)`` rows and columns, or None when unknown."""
    gap: int | None = None
    """Pixels missing between two neighbours, or None when unknown."""
    mask: np.ndarray | None = None
    """``(n, H, W) bool``, True where a fragment has a pixel; None = everywhere."""
    pins: Mapping[int, Cell] = field(default_factory=dict)
    """Piece → cell, known before solving."""
    blocked: frozenset[Cell] = frozenset()
    """Cells that must stay empty."""
    truth: np.ndarray | None = None
    """``(M, N)`` board of the right answer, -1 where the piece is missing."""
    names: tuple[str, ...] | None = None
    """One name per fragment, as the user knows it (a file name)."""
    knowledge: Knowledge = field(default_factory=Knowledge)
    """What else is known for certain. Where there is a grid, its pins move into ``pins``."""

    def __post_init__(self) -> None:
        p = self.pieces
        if p.ndim != 4 or p.shape[-1] != 3 or p.dtype != np.uint8 or len(p) == 0:
            raise SherdError(
                f"pieces: expected an (n, H, W, 3) uint8 array with n > 0, got {p.dtype} {p.shape}"
            )
        if self.mask is not None and self.mask.shape != p.shape[:3]:
            raise SherdError(f"mask: expected shape {p.shape[:3]}, got {self.mask.shape}")
        if self.gap is not None and self.gap < 0:
            raise SherdError(f"gap: {self.gap} is negative; pixels missing between neighbours")
        if self.names is not None and len(self.names) != self.n:
            raise SherdError(f"names: {len(self.names)} names for {self.n} pieces")
        self.knowledge.check(self.n, self.grid)
        if self.grid is None:
            if self.pins or self.blocked:
                raise SherdError("pins and blocked cells need a grid; give the grid as well")
        else:
            if self.knowledge.pins:
                both = Knowledge(pins=self.pins) | self.knowledge
                object.__setattr__(self, "pins", both.pins)
                object.__setattr__(self, "knowledge", self.knowledge.without_pins())
            self._check_grid(self.grid)
        if self.truth is not None:
            truth = check_board(self.truth, self.n, what="truth")
            if self.grid is not None and truth.shape != tuple(self.grid):
                raise SherdError(
                    f"truth: is {truth.shape[0]}x{truth.shape[1]}, "
                    f"the grid is {self.grid[0]}x{self.grid[1]}"
                )
            object.__setattr__(self, "truth", truth)

    def _check_grid(self, grid: tuple[int, int]) -> None:
        rows, cols = grid
        if rows < 1 or cols < 1:
            raise SherdError(f"grid: {rows}x{cols}; both must be at least 1")
        for piece, cell in self.pins.items():
            if not 0 <= piece < self.n:
                raise SherdError(f"pin: piece {piece} does not exist; pieces are 0 to {self.n - 1}")
            if not (0 <= cell[0] < rows and 0 <= cell[1] < cols):
                raise SherdError(f"pin: cell {cell} is outside the {rows}x{cols} grid")
            if cell in self.blocked:
                raise SherdError(f"pin: cell {cell} is blocked, piece {piece} cannot lie there")
        if len(set(self.pins.values())) < len(self.pins):
            raise SherdError("pin: two pieces are pinned to one cell")
        for cell in self.blocked:
            if not (0 <= cell[0] < rows and 0 <= cell[1] < cols):
                raise SherdError(f"blocked: cell {cell} is outside the {rows}x{cols} grid")

    @property
    def n(self) -> int:
        """Number of fragments."""
        return len(self.pieces)

    @property
    def piece_size(self) -> tuple[int, int]:
        """``(H, W)`` of a fragment in pixels."""
        return int(self.pieces.shape[1]), int(self.pieces.shape[2])

    def require_grid(self) -> tuple[int, int]:
        """The grid, or an error that says how to give one."""
        if self.grid is None:
            raise SherdError(
                f"the grid of these {self.n} pieces is unknown; give it, for example --grid 7x10"
            )
        return self.grid

    def without_truth(self) -> Puzzle:
        """The same puzzle as a solver may see it."""
        return replace(self, truth=None)

    def reordered(self, order: np.ndarray) -> Puzzle:
        """The same puzzle with its pieces in another order: new piece k is old ``order[k]``."""
        order = np.asarray(order)
        if not np.array_equal(np.sort(order), np.arange(self.n)):
            raise SherdError("order: is no permutation of the pieces")
        new = np.empty(self.n, dtype=np.int64)
        new[order] = np.arange(self.n)
        return replace(
            self,
            pieces=self.pieces[order],
            mask=None if self.mask is None else self.mask[order],
            pins={int(new[p]): c for p, c in self.pins.items()},
            knowledge=self.knowledge.reordered(new),
            truth=None
            if self.truth is None
            else np.where(self.truth == EMPTY, EMPTY, new[self.truth]),
            names=None if self.names is None else tuple(self.names[int(i)] for i in order),
        )

    def shuffled(self, rng: np.random.Generator) -> Puzzle:
        """The same puzzle with its pieces in a random order."""
        return self.reordered(rng.permutation(self.n))
