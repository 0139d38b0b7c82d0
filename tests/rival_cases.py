"""What the tests of the compared systems share: pictures, tiny recipes, puzzles with odd parts."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from sherd import Puzzle, Result
from sherd.puzzle import EMPTY, check_board


def picture(seed: int, size: tuple[int, int] = (120, 150)) -> np.ndarray:
    """Smooth random colours: neighbours go on where a piece ends."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (10, 13, 3), dtype=np.uint8)
    return np.array(Image.fromarray(small).resize((size[1], size[0]), Image.Resampling.BICUBIC))


def write_data(root: Path, count: int = 2) -> Path:
    """Folders as training expects them."""
    first = 0
    for kind in ("photos", "art5"):
        (root / kind).mkdir(parents=True)
        for split in ("train", "val"):
            with tarfile.open(root / kind / f"{split}-0.tar", "w") as pack:
                for k in range(count):
                    out = io.BytesIO()
                    Image.fromarray(picture(first + k)).save(out, "PNG")
                    info = tarfile.TarInfo(f"some/{k}.png")
                    info.size = len(out.getvalue())
                    pack.addfile(info, io.BytesIO(out.getvalue()))
            first += count
    return root


def numbered(grid: tuple[int, int]) -> Puzzle:
    """Piece k shows the colour k and lies in cell k: a fake network can know where it belongs."""
    n = grid[0] * grid[1]
    pieces = np.zeros((n, 8, 8, 3), dtype=np.uint8)
    pieces[...] = np.arange(n, dtype=np.uint8)[:, None, None, None]
    return Puzzle(pieces, grid, truth=np.arange(n).reshape(grid))


def odd_puzzles(grid: tuple[int, int]) -> list[Puzzle]:
    """A whole puzzle, and some with pins, blocked cells, missing and spare pieces."""
    whole = numbered(grid)
    n = whole.n
    few = replace(whole, pieces=whole.pieces[: n - 2], truth=None)
    spare = np.concatenate([whole.pieces, np.full((2, 8, 8, 3), 200, np.uint8)])
    corner = (grid[0] - 1, grid[1] - 1)
    return [
        whole,
        replace(whole, pins={n - 1: (0, 0), 0: corner}),
        replace(few, pins={1: (0, 1)}, blocked=frozenset({(1, 1)})),
        few,
        replace(whole, pieces=spare, truth=None),
        replace(whole, pins={int(k): divmod(n - 1 - k, grid[1]) for k in range(n)}),
    ]


def check_result(result: Result, puzzle: Puzzle) -> None:
    """A valid board that keeps to what is known."""
    rows, cols = puzzle.require_grid()
    board = check_board(result.board, puzzle.n)
    assert board.shape == (rows, cols)
    assert all(board[cell] == EMPTY for cell in puzzle.blocked)
    assert all(board[cell] == piece for piece, cell in puzzle.pins.items())
    free = rows * cols - len(puzzle.blocked)
    assert (board != EMPTY).sum() == min(puzzle.n, free)
    assert len(result.unplaced) == puzzle.n - min(puzzle.n, free)
    assert result.confidence.shape == board.shape
    assert 0.0 <= result.confidence.min() <= result.confidence.max() <= 1.0
    assert result.evidence is not None
    assert abs(result.evidence.full_score(board) - result.score) < 1e-3 * (1 + abs(result.score))
