"""The table: the board that a person sees, and what they know of it. Edits are pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import SherdError

Cell = tuple[int, int]
Rows = tuple[tuple[int, ...], ...]
EMPTY = -1


@dataclass(frozen=True)
class Table:
    """A board and what is known. Immutable: an edit makes a new table, undo takes the old one."""

    board: Rows | None = None
    """Piece numbers by row, -1 = empty cell; None before anything was found."""
    confidence: tuple[tuple[float | None, ...], ...] | None = None
    """0..1 by cell; None where nobody knows: what a person moved, the solver has not judged."""
    pins: Mapping[int, Cell] = field(default_factory=dict)
    """Piece → the cell that it must lie in."""
    forbidden: frozenset[tuple[int, Cell]] = frozenset()
    """Pieces and cells that they must not lie in."""
    grid: Cell | None = None
    """Rows and columns, where the owner knows them; then the board has this shape."""

    @property
    def shape(self) -> Cell | None:
        """Rows and columns of the board."""
        return None if self.board is None else (len(self.board), len(self.board[0]))

    def place(self, piece: int) -> Cell | None:
        """Where ``piece`` lies."""
        for r, row in enumerate(self.board or ()):
            for c, p in enumerate(row):
                if p == piece:
                    return r, c
        return None

    def entries(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "board": self.board,
            "confidence": self.confidence,
            "pins": [[p, *cell] for p, cell in sorted(self.pins.items())],
            "forbidden": sorted([p, *cell] for p, cell in self.forbidden),
            "grid": self.grid,
        }

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> Table:
        """From what `entries` wrote."""
        board, sure, grid = entries["board"], entries["confidence"], entries["grid"]
        return cls(
            board=None if board is None else tuple(tuple(row) for row in board),
            confidence=None if sure is None else tuple(tuple(row) for row in sure),
            pins={p: (r, c) for p, r, c in entries["pins"]},
            forbidden=frozenset((p, (r, c)) for p, r, c in entries["forbidden"]),
            grid=None if grid is None else (grid[0], grid[1]),
        )


def moved(table: Table, piece: int, cell: Cell) -> Table:
    """``piece`` in ``cell``, pinned there; what lay there goes where the piece came from."""
    board = _board(table)
    _check_cell(table, cell)
    there, origin = board[cell[0]][cell[1]], table.place(piece)
    if there != piece and there in table.pins:
        raise SherdError("The fragment in that cell is pinned. Unpin it first.")
    board[cell[0]][cell[1]] = piece
    if origin is not None and origin != cell:
        board[origin[0]][origin[1]] = there
    return replace(
        _laid(table, board),
        pins={**table.pins, piece: cell},
        forbidden=table.forbidden - {(piece, cell)},
    )


def before_moves(table: Table, shown: Sequence[Sequence[int]] | None) -> Rows | None:
    """``shown``, if ``table`` is that board with its pinned pieces moved; else the table's own.

    Who moves a piece answers to the board that was shown: the solver sees better from there what
    is meant than from a board on which two pieces have changed places.
    """
    if shown is None or table.board is None:
        return table.board
    first = again = Table(board=tuple(tuple(row) for row in shown))
    if first.shape != table.shape:
        return table.board
    for piece, cell in table.pins.items():
        again = replace(moved(again, piece, cell), pins={})
    return first.board if again.board == table.board else table.board


def lifted(table: Table, piece: int) -> Table:
    """``piece`` taken off the board, its cell left empty."""
    board = _board(table)
    cell = table.place(piece)
    if cell is None:
        raise SherdError("This fragment lies beside the board already.")
    board[cell[0]][cell[1]] = EMPTY
    return unpinned(_laid(table, board), piece)


def pinned(table: Table, piece: int) -> Table:
    """``piece`` must stay where it lies."""
    cell = table.place(piece)
    if cell is None:
        raise SherdError("Only a fragment that lies on the board can be pinned.")
    return replace(
        table,
        pins={**table.pins, piece: cell},
        forbidden=table.forbidden - {(piece, cell)},
    )


def unpinned(table: Table, piece: int) -> Table:
    """``piece`` may lie anywhere again."""
    return replace(table, pins={p: c for p, c in table.pins.items() if p != piece})


def forbidden(table: Table, piece: int, cell: Cell) -> Table:
    """``piece`` must not lie in ``cell``."""
    _check_cell(table, cell)
    free = unpinned(table, piece) if table.pins.get(piece) == cell else table
    return replace(free, forbidden=table.forbidden | {(piece, cell)})


def allowed(table: Table, piece: int, cell: Cell) -> Table:
    """``piece`` may lie in ``cell`` again."""
    return replace(table, forbidden=table.forbidden - {(piece, cell)})


def chosen(table: Table, board: Rows) -> Table:
    """Another board in place of this one; pins that it does not honour are forgotten."""
    other = Table(board=board)
    if other.shape != table.shape:
        raise SherdError("This reading has other rows and columns than the board.")
    pins = {p: cell for p, cell in table.pins.items() if other.place(p) == cell}
    return replace(_laid(table, [list(row) for row in board]), pins=pins)


def cleared(table: Table) -> Table:
    """No pins, nothing forbidden."""
    return replace(table, pins={}, forbidden=frozenset())


def _board(table: Table) -> list[list[int]]:
    if table.board is None:
        raise SherdError("There is no board yet. Let it be put together first.")
    return [list(row) for row in table.board]


def _check_cell(table: Table, cell: Cell) -> None:
    rows, cols = table.shape or (0, 0)
    if not (0 <= cell[0] < rows and 0 <= cell[1] < cols):
        raise SherdError(f"Row {cell[0] + 1}, column {cell[1] + 1} is not on the board.")


def _laid(table: Table, board: list[list[int]]) -> Table:
    """The table with another board; where it differs, nobody has judged it."""
    rows = tuple(tuple(row) for row in board)
    sure = table.confidence
    if table.shape != (len(rows), len(rows[0])):
        sure = None
    elif sure is not None and table.board is not None:
        sure = tuple(
            tuple(s if new == old else None for s, new, old in zip(*three, strict=True))
            for three in zip(sure, rows, table.board, strict=True)
        )
    return replace(table, board=rows, confidence=sure)
