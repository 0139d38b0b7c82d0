"""`sherd.solve`: it wires the parts together and computes nothing itself."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.folder import MAX_CELLS
from ..errors import SherdError
from ..puzzle import Cell, Knowledge, Puzzle, check_board
from ..solvers import DEFAULT, Callbacks, Stop, make_solver
from ..solvers.evolve import Evolve
from .possible import spare_pieces
from .result import Reassembly
from .work import Work

if TYPE_CHECKING:
    from PIL import Image

    Picture = str | os.PathLike[str] | np.ndarray | Image.Image
    Fragments = Puzzle | str | os.PathLike[str] | np.ndarray | Iterable[Picture]


def solve(
    fragments: Fragments,
    grid: tuple[int, int] | None = None,
    gap: int | None = None,
    *,
    pins: Mapping[int | str, Cell] | None = None,
    knowledge: Knowledge | None = None,
    start: np.ndarray | None = None,
    missing: int | None = None,
    system: str = DEFAULT,
    seed: int = 0,
    callbacks: Callbacks | None = None,
    stop: Stop | None = None,
) -> Reassembly:
    """Put fragments together.

    Parameters
    ----------
    fragments
        A folder or a zip file of images (with or without a puzzle.json), a list of images
        (arrays, PIL images or files), an ``(n, H, W, 3) uint8`` array, or a `Puzzle`. Sizes that
        differ by a few pixels are brought to one; `Reassembly.notes` says of which files.
    grid
        ``(rows, columns)``. None: what the puzzle says, else all that are possible are tried.
    gap
        Pixels missing between neighbours. None: what the puzzle says, else it is estimated.
    pins
        Piece (number or file name) → (row, column), from 0.
    knowledge
        What else is known for certain; it is honoured exactly, and an error says so where no
        board can. Added to what the puzzle says.
    start
        ``(M, N)`` board to go on from, such as the ``board`` of an earlier result; its shape is the
        grid where none is given. It need not honour what is known now.
    missing
        Most pieces that may be missing where the grid is unknown; by default a tenth of them.
    system
        See ``sherd systems``. Only `sherd` and `evolve` know what to do with an unknown grid,
        ``knowledge`` and ``start``.
    seed
        Same seed, same answer, unless ``stop`` looks at the clock.
    callbacks
        Hears of stages, boards, rounds and notes.
    stop
        Asked after every grid that is tried and every round of the search with the best score so
        far; True ends the search with the best board.

    Returns
    -------
    The board and all that belongs to it. A `SherdError` says in one line what is wrong.
    """
    heard = callbacks or Callbacks()
    grid, gap = _grid(grid), _whole("gap", gap)
    missing, seed = _whole("missing", missing), _whole("seed", seed) or 0
    if knowledge is not None and not isinstance(knowledge, Knowledge):
        raise SherdError(f"knowledge: is a {type(knowledge).__name__}; expected a sherd.Knowledge")
    puzzle, notes = _read(fragments, grid, gap)
    _check_gap(puzzle)
    puzzle = _with_knowledge(puzzle, pins, knowledge)
    if start is not None:
        puzzle, start = _with_start(puzzle, start)
    solver = make_solver(system)
    for note in notes:
        heard.on_note(note)
    if not isinstance(solver, Evolve) or not solver.knows:
        if start is not None:
            raise SherdError(f"start: {system} cannot go on from a board; use sherd or evolve")
        _check_fits(puzzle)
        found = solver.solve(puzzle, stop=stop, seed=seed, callbacks=heard)
        return Reassembly(**vars(found), puzzle=puzzle, notes=notes)
    if puzzle.grid is not None:
        _check_fits(puzzle)
    return Work(puzzle, solver, seed, stop, heard, list(notes)).run(start, missing)


def _grid(grid: Any) -> tuple[int, int] | None:
    """``grid`` as two whole numbers, whatever holds them."""
    if grid is None:
        return None
    try:
        rows, cols = (operator.index(n) for n in grid)
    except (TypeError, ValueError) as e:
        raise SherdError(
            f"grid: {grid!r}; expected (rows, columns), or None where it is unknown"
        ) from e
    return rows, cols


def _whole(name: str, value: Any) -> int | None:
    """A whole number from 0 on, or None."""
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise SherdError(f"{name}: {value!r}; expected a whole number from 0 on")
    return number


def _check_gap(puzzle: Puzzle) -> None:
    height, width = puzzle.piece_size
    if puzzle.gap is not None and puzzle.gap > max(height, width):
        raise SherdError(
            f"gap: {puzzle.gap} px between fragments of {width}x{height} px; "
            "it cannot be wider than they are"
        )


def _read(
    fragments: Fragments, grid: tuple[int, int] | None, gap: int | None
) -> tuple[Puzzle, tuple[str, ...]]:
    """The puzzle, with ``grid`` and ``gap`` before what it says itself, and notes on its files."""
    if isinstance(fragments, Puzzle):
        gap = fragments.gap if gap is None else gap
        return replace(fragments, grid=grid or fragments.grid, gap=gap), ()
    if isinstance(fragments, str | os.PathLike):
        from ..data.folder import read_fragments

        return read_fragments(fragments, grid, gap)
    from ..data.fragments import even, load_images

    if not isinstance(fragments, Iterable) or isinstance(fragments, Mapping):
        raise SherdError(
            f"fragments: are a {type(fragments).__name__}; expected a folder, a zip file, a list "
            "of images or a Puzzle"
        )
    loaded = load_images(list(fragments))
    pieces, mask, notes = even(loaded)
    return Puzzle(pieces, grid, gap, mask, names=loaded.names), notes


def _with_knowledge(
    puzzle: Puzzle, pins: Mapping[int | str, Cell] | None, knowledge: Knowledge | None
) -> Puzzle:
    names = puzzle.names or ()

    def number(piece: int | str) -> int:
        if isinstance(piece, str) and piece not in names:
            raise SherdError(f"pin: {piece!r} is none of the pieces")
        return names.index(piece) if isinstance(piece, str) else int(piece)

    more = Knowledge(pins={number(p): (c[0], c[1]) for p, c in (pins or {}).items()})
    known = puzzle.knowledge | more | (knowledge or Knowledge())
    return replace(puzzle, knowledge=known)


def _with_start(puzzle: Puzzle, start: np.ndarray) -> tuple[Puzzle, np.ndarray]:
    """The puzzle on the grid of ``start``, and that checked."""
    start = check_board(start, puzzle.n, what="start")
    shape = (start.shape[0], start.shape[1])
    if puzzle.grid is None:
        puzzle = replace(puzzle, grid=shape)
    if shape != puzzle.grid:
        rows, cols = puzzle.require_grid()
        raise SherdError(f"start: is {shape[0]}x{shape[1]}, the grid is {rows}x{cols}")
    return puzzle, start


def _check_fits(puzzle: Puzzle) -> None:
    """Too few pieces are a puzzle with losses, a few too many are strangers; more is a mistake."""
    rows, cols = puzzle.require_grid()
    if rows * cols > MAX_CELLS:
        raise SherdError(f"grid: {rows}x{cols} has {rows * cols} cells; at most {MAX_CELLS:,}")
    free = rows * cols - len(puzzle.blocked)
    if puzzle.n - free > spare_pieces(puzzle.n):
        raise SherdError(
            f"grid: {rows}x{cols} has {free} free cells for {puzzle.n} pieces; give a larger grid"
        )
