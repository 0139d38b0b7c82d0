"""Boards near one that a person has seen and answered to: as much of it as can be is kept.

Who pins a piece says how the board is wrong, and leaves the rest: perhaps the piece has to move by
itself, perhaps with what hangs together with it, perhaps all of the board is off by a row. Each is
a *reading* of the answer: pieces that are held, and cells in which the others are sought.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from ..errors import SherdError
from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Cell, Knowledge, Puzzle
from .evolution import Evolution, EvolutionParams
from .polish import Polish, PolishParams
from .problem import Problem, make_problem

LINKS = (0.0, 2.0)
"""Nats above which a link holds two pieces together when one of them is moved, a reading each."""
FEW = EvolutionParams(islands=1, population=6, patience=60)
"""To fill the few cells that a reading leaves open."""
SHORT = PolishParams(population=6, children=8, generations=12, patience=3, judged=4)


def readings(evidence: Evidence, problem: Problem, board: np.ndarray) -> list[np.ndarray]:
    """Distinct ``(M, N)`` boards of the pieces that are held, EMPTY where they are to be sought.

    Pins are laid on all of them; that they honour what else is known is left to `settle`.
    """
    fixed = problem.world.fixed[: problem.cells].reshape(board.shape)
    wanted = np.where(fixed, problem.to_board(problem.start), EMPTY)
    found = [board]
    found += [_each(evidence, board, wanted, least) for least in (*LINKS, np.inf)]
    found += [_rolled(board, wanted)]
    found += [_slid(board, wanted, by_row) for by_row in (True, False)]
    laid = [_laid(b, fixed, wanted) for b in found]
    return list({b.tobytes(): b for b in laid}.values())


def settle(
    evidence: Evidence, puzzle: Puzzle, held: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
    """``held`` with the other pieces where the evidence likes them; None: this cannot be.

    Pieces that what is known has something against are not held, nor are those beside them.
    """
    loose = _spoken_of(puzzle.knowledge, held, puzzle.n)
    cells = np.isin(held, list(loose))
    near = np.pad(cells, 1)
    cells |= near[:-2, 1:-1] | near[2:, 1:-1] | near[1:-1, :-2] | near[1:-1, 2:]
    pins = dict(puzzle.pins)
    taken = set(pins.values()) | puzzle.blocked
    for r, c in np.argwhere((held != EMPTY) & (~cells if loose else True)).tolist():
        if (r, c) not in taken and int(held[r, c]) not in pins:
            pins[int(held[r, c])] = (r, c)
    tight = replace(puzzle, pins=pins)
    try:
        problem = make_problem(evidence, tight)
    except SherdError:  # no board honours what is known and this as well
        return None
    evolution = Evolution(problem, FEW, threads=1)
    board, _ = evolution.run(rng, lambda *_: False)
    if not evidence.complete:
        polish = Polish(problem, evidence, SHORT, threads=1)
        board, _ = polish.run(evolution.archive, rng, lambda *_: False)
    return None if puzzle.knowledge.broken(board, puzzle.n) else board


def _astray(board: np.ndarray, wanted: np.ndarray) -> Iterator[tuple[int, Cell, Cell | None]]:
    """Pinned pieces that lie elsewhere: piece, its cell, where it lies (None: beside the board)."""
    for r, c in np.argwhere((wanted != EMPTY) & (board != wanted)).tolist():
        at = np.argwhere(board == wanted[r, c]).tolist()
        yield int(wanted[r, c]), (r, c), (at[0][0], at[0][1]) if at else None


def _each(evidence: Evidence, board: np.ndarray, wanted: np.ndarray, least: float) -> np.ndarray:
    """Every pinned piece goes to its cell, with all that links above ``least`` tie to it."""
    out = board.copy()
    for _, to, at in list(_astray(board, wanted)):
        piece = wanted[to]
        here = np.argwhere(out == piece).tolist()  # an earlier one may have taken it along
        if at is None or not here or (here[0][0], here[0][1]) == to:
            continue
        start = (here[0][0], here[0][1])
        out = _moved(
            out, _segment(evidence, out, start, least), (to[0] - start[0], to[1] - start[1])
        )
    return out


def _segment(evidence: Evidence, board: np.ndarray, start: Cell, least: float) -> np.ndarray:
    """Mask of the cells that links above ``least`` tie to ``start``."""
    rows, cols = board.shape
    mask = np.zeros(board.shape, dtype=bool)
    mask[start] = True
    queue = [start]
    while queue:
        r, c = queue.pop()
        for y, x in ((r - 1, c), (r, c + 1), (r + 1, c), (r, c - 1)):
            if not (0 <= y < rows and 0 <= x < cols) or mask[y, x] or board[y, x] == EMPTY:
                continue
            first, second = ((r, c), (y, x)) if (y, x) > (r, c) else ((y, x), (r, c))
            table = evidence.h if r == y else evidence.v
            if table[board[first], board[second]] > least:
                mask[y, x] = True
                queue.append((y, x))
    return mask


def _moved(board: np.ndarray, mask: np.ndarray, by: Cell) -> np.ndarray:
    """``mask`` moved; what it comes to lie on and what leaves the board is left out."""
    out = np.where(mask, EMPTY, board)
    at = np.argwhere(mask)
    to = at + by
    inside = ((to >= 0) & (to < board.shape)).all(axis=1)
    out[tuple(to[inside].T)] = board[tuple(at[inside].T)]
    return out


def _rolled(board: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """All of the board moved as the first pinned piece is, what leaves it coming in again."""
    for _, to, at in _astray(board, wanted):
        if at is not None:
            return np.roll(board, (to[0] - at[0], to[1] - at[1]), axis=(0, 1))
    return board


def _slid(board: np.ndarray, wanted: np.ndarray, by_row: bool) -> np.ndarray:
    """Pinned pieces slide to their cells, by row and by column; what is in the way moves up one."""
    out = board.copy()
    for piece, to, at in list(_astray(board, wanted)):
        here = np.argwhere(out == piece).tolist()
        if at is None or not here:
            continue
        r, c = here[0]
        for along_row in (by_row, not by_row):
            end = to[1] if along_row else to[0]
            line, now = (out[r], c) if along_row else (out[:, c], r)
            a, b = min(now, end), max(now, end) + 1
            line[a:b] = np.roll(line[a:b], -1 if now < end else 1)
            r, c = (r, end) if along_row else (end, c)
    return out


def _laid(board: np.ndarray, fixed: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """``board`` with pins and blocked cells seen to; what lay there is left out."""
    out = np.where(np.isin(board, wanted[wanted != EMPTY]), EMPTY, board)
    return np.where(fixed, wanted, out)


def _spoken_of(knowledge: Knowledge, board: np.ndarray, n: int) -> frozenset[int]:
    """Pieces of those rules that ``board`` breaks."""
    found: frozenset[int] = frozenset()
    for field in fields(Knowledge):
        if field.name == "pins":
            continue
        for rule in getattr(knowledge, field.name):
            one: dict[str, Any] = {field.name: frozenset({rule})}
            alone = Knowledge(**one)
            if alone.broken(board, n):
                found |= alone.pieces
    return found
