"""`sherd.solve`: it wires the parts together and computes nothing itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import SherdError
from ..puzzle import Cell, Knowledge, Puzzle
from ..solvers import DEFAULT, Callbacks, Stop, make_solver
from .result import Reassembly

if TYPE_CHECKING:
    from PIL import Image

    Picture = str | os.PathLike[str] | np.ndarray | Image.Image
    Fragments = Puzzle | str | os.PathLike[str] | np.ndarray | Sequence[Picture]


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
    puzzle = replace(_read(fragments, grid, gap), knowledge=knowledge or Knowledge())
    known = {_number(p, puzzle): cell for p, cell in (pins or {}).items()}
    puzzle = replace(puzzle, pins={**puzzle.pins, **known})
    found = make_solver(system).solve(puzzle, stop=stop, seed=seed, callbacks=callbacks)
    return Reassembly(**vars(found), puzzle=puzzle)


def _read(fragments: Fragments, grid: tuple[int, int] | None, gap: int | None) -> Puzzle:
    """The puzzle, with ``grid`` and ``gap`` before what it says itself."""
    if isinstance(fragments, Puzzle):
        gap = fragments.gap if gap is None else gap
        return replace(fragments, grid=grid or fragments.grid, gap=gap)
    if isinstance(fragments, str | os.PathLike):
        from ..data.folder import read_puzzle

        return read_puzzle(fragments, grid, gap)
    return Puzzle(np.stack([np.asarray(f) for f in fragments]), grid, gap)


def _number(piece: int | str, puzzle: Puzzle) -> int:
    if isinstance(piece, str):
        if piece not in (puzzle.names or ()):
            raise SherdError(f"pin: {piece!r} is none of the pieces")
        return (puzzle.names or ()).index(piece)
    return int(piece)
