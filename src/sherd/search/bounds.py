"""Knowledge worked out: which piece may lie where, and a board that honours all of it.

Pieces that are known to lie side by side move as one *group*. A group has few places, all others
are barred to its pieces; a group with one place is pinned. What is left (pieces apart, groups that
compete for a place) is decided by trying: a board that honours everything, or the proof that there
is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import SherdError
from ..puzzle import EMPTY, SIDES, Cell, Knowledge, Puzzle

TRIES = 20_000
"""Places tried before the question whether a board exists is left open."""
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Row and column step to each of `SIDES`."""
Namer = Callable[[int], str]
"""What the user calls a piece."""


@dataclass(frozen=True)
class Bounds:
    """What knowledge means for the cells of one puzzle."""

    pins: dict[int, Cell]
    """Piece → cell, with the pins that follow from what else is known."""
    barred: np.ndarray
    """``(M·N, n)`` bool: this piece may not lie in this cell."""
    glue: np.ndarray
    """``(4, n)`` int32: the piece that must lie at this side of a piece, -1 = any or none."""
    apart: tuple[tuple[int, int, int], ...]
    """(side, a, b): b may not lie at this side of a."""
    tied: frozenset[int]
    """Pieces that must be placed."""
    board: np.ndarray | None
    """``(M, N)`` board that honours it all, the other pieces in no order; None: none was found
    within `TRIES`."""


@dataclass
class _Group:
    """Pieces that move as one."""

    members: dict[int, Cell]
    """Piece → row and column from the group's top left corner."""
    places: list[Cell]
    """Cells where that corner may lie."""
    optional: bool = False
    """May be left out, where not all pieces fit."""

    def cells(self, place: Cell) -> list[tuple[int, Cell]]:
        """Piece and cell of each member."""
        return [(p, (place[0] + r, place[1] + c)) for p, (r, c) in self.members.items()]


def bind(puzzle: Puzzle) -> Bounds:
    """Work out the knowledge of ``puzzle``, or raise: nothing can honour all of it."""
    rows, cols = grid = puzzle.require_grid()
    known, n = puzzle.knowledge, puzzle.n
    name = _namer(puzzle.names)
    groups = _groups(known, puzzle.pins, name)
    taken = {cell: p for p, cell in puzzle.pins.items()}
    for group in groups:
        group.places = [
            (r, c)
            for r in range(rows)
            for c in range(cols)
            if all(_fits(p, cell, known, puzzle, grid, taken) for p, cell in group.cells((r, c)))
        ]
        if not group.places and not (group.optional and _spare(puzzle) > 0):
            raise SherdError(_no_place(group, grid, name))
    _propagate(groups, _spare(puzzle), name)
    barred = np.zeros((rows * cols, n), dtype=bool)
    tied: set[int] = set()
    for group in groups:
        for p, (r, c) in group.members.items():
            barred[:, p] = True
            barred[[(y + r) * cols + x + c for y, x in group.places], p] = False
        if not group.optional:
            tied |= set(group.members)
    glue = np.full((4, n), -1, dtype=np.int32)
    for side, pairs in ((1, known.right), (2, known.below)):
        for a, b in pairs:
            glue[side, a], glue[side ^ 2, b] = b, a
    apart = [
        (side, a, b)
        for side, pairs in ((1, known.not_right), (2, known.not_below))
        for a, b in pairs
    ]
    pins = dict(puzzle.pins)
    for group in groups:
        if len(group.places) == 1 and not group.optional:
            pins.update(group.cells(group.places[0]))
    return Bounds(pins, barred, glue, tuple(apart), frozenset(tied), _board(puzzle, groups, apart))


def _spare(puzzle: Puzzle) -> int:
    """Pieces for which there is no cell."""
    rows, cols = puzzle.require_grid()
    return puzzle.n - (rows * cols - len(puzzle.blocked))


def _namer(names: Sequence[str] | None) -> Namer:
    return lambda p: f"piece {p}" if names is None else names[p]


def _groups(known: Knowledge, pins: Mapping[int, Cell], name: Namer) -> list[_Group]:
    """Groups of all pieces of which anything is known."""
    beside: dict[int, list[tuple[int, Cell]]] = {p: [] for p in known.pieces | set(pins)}
    for pairs, (dr, dc) in ((known.right, STEPS[1]), (known.below, STEPS[2])):
        for a, b in pairs:
            beside[a].append((b, (dr, dc)))
            beside[b].append((a, (-dr, -dc)))
    placed = {p for p, _ in known.rims} | known.corners | set(pins)
    groups: list[_Group] = []
    seen: set[int] = set()
    for first in sorted(beside):
        if first in seen:
            continue
        at: dict[int, Cell] = {first: (0, 0)}
        queue = [first]
        while queue:
            p = queue.pop()
            for q, (dr, dc) in beside[p]:
                cell = (at[p][0] + dr, at[p][1] + dc)
                if q not in at:
                    at[q] = cell
                    queue.append(q)
                elif at[q] != cell:
                    raise SherdError(
                        f"knowledge: {name(p)} and {name(q)} cannot lie as is said of them"
                    )
        seen |= set(at)
        where: dict[Cell, int] = {}
        for p, cell in at.items():
            if cell in where:
                raise SherdError(
                    f"knowledge: {name(where[cell])} and {name(p)} would lie in the same cell"
                )
            where[cell] = p
        top, left = min(r for r, _ in at.values()), min(c for _, c in at.values())
        members = {p: (r - top, c - left) for p, (r, c) in at.items()}
        optional = len(members) == 1 and not placed & set(members)
        groups.append(_Group(members, [], optional))
    return groups


def _fits(
    p: int,
    cell: Cell,
    known: Knowledge,
    puzzle: Puzzle,
    grid: tuple[int, int],
    taken: dict[Cell, int],
) -> bool:
    """Whether piece p may lie in ``cell``, as far as that depends on nothing else."""
    r, c = cell
    if not (0 <= r < grid[0] and 0 <= c < grid[1]) or cell in puzzle.blocked:
        return False
    if taken.get(cell, p) != p or puzzle.pins.get(p, cell) != cell or (p, cell) in known.not_in:
        return False
    at = (r == 0, c == grid[1] - 1, r == grid[0] - 1, c == 0)
    if p in known.corners and not ((at[0] or at[2]) and (at[1] or at[3])):
        return False
    return all(at[k] for k, side in enumerate(SIDES) if (p, side) in known.rims)


def _no_place(group: _Group, grid: tuple[int, int], name: Namer) -> str:
    some = ", ".join(name(p) for p in sorted(group.members)[:3])
    more = " …" if len(group.members) > 3 else ""
    return f"knowledge: on {grid[0]}x{grid[1]} no place is left for {some}{more}"


def _propagate(groups: list[_Group], spare: int, name: Namer) -> None:
    """Cells that are certainly taken are no places for others; until nothing changes."""
    done: set[int] = set()
    while True:
        sure = [
            k
            for k, g in enumerate(groups)
            if len(g.places) == 1 and not g.optional and k not in done
        ]
        if not sure:
            return
        for k in sure:
            done.add(k)
            cells = {cell for _, cell in groups[k].cells(groups[k].places[0])}
            for j, other in enumerate(groups):
                if j == k:
                    continue
                other.places = [
                    p for p in other.places if not any(c in cells for _, c in other.cells(p))
                ]
                if not other.places and not (other.optional and spare > 0):
                    a, b = min(groups[k].members), min(other.members)
                    raise SherdError(f"knowledge: {name(a)} and {name(b)} want the same cells")


def _board(
    puzzle: Puzzle, groups: list[_Group], apart: list[tuple[int, int, int]]
) -> np.ndarray | None:
    """A board that honours everything, None if none was found in time."""
    rows, cols = puzzle.require_grid()
    board = np.full((rows, cols), EMPTY, dtype=np.int64)
    spare = _spare(puzzle)
    enemies: dict[int, list[tuple[int, int]]] = {}
    for side, a, b in apart:
        enemies.setdefault(a, []).append((side, b))
        enemies.setdefault(b, []).append((side ^ 2, a))
    order = sorted(groups, key=lambda g: (len(g.places), -len(g.members)))
    tries = 0

    def free(group: _Group, place: Cell) -> bool:
        for p, (r, c) in group.cells(place):
            if board[r, c] != EMPTY:
                return False
            for side, q in enemies.get(p, ()):
                y, x = r + STEPS[side][0], c + STEPS[side][1]
                if 0 <= y < rows and 0 <= x < cols and board[y, x] == q:
                    return False
        # inside a group nobody may be apart
        at = group.members
        return not any(
            q in at and at[q] == (at[p][0] + STEPS[s][0], at[p][1] + STEPS[s][1])
            for p in at
            for s, q in enemies.get(p, ())
        )

    # by hand, not by recursion: there may be thousands of groups
    chosen: list[int] = []  # index of the place of each group so far; len(places) = left out
    out, k = 0, 0
    while len(chosen) < len(order):
        group = order[len(chosen)]
        while k < len(group.places) and not free(group, group.places[k]):
            k += 1
            tries += 1
        tries += 1
        if tries > TRIES + 50 * len(order):
            return None
        if k < len(group.places):
            for p, cell in group.cells(group.places[k]):
                board[cell] = p
            chosen.append(k)
            k = 0
        elif k == len(group.places) and group.optional and out < spare:
            out += 1
            chosen.append(k)
            k = 0
        else:  # back to the last group that has another place
            if not chosen:
                raise SherdError("knowledge: no board can honour all of it; take something back")
            k = chosen.pop()
            group = order[len(chosen)]
            if k < len(group.places):
                for _, cell in group.cells(group.places[k]):
                    board[cell] = EMPTY
            else:
                out -= 1
            k += 1
    known = {p for group in groups for p in group.members}
    others = iter([p for p in range(puzzle.n) if p not in known])
    for r, c in zip(*np.nonzero(board == EMPTY), strict=True):
        if (r, c) not in puzzle.blocked:
            board[r, c] = next(others, EMPTY)
    return board
