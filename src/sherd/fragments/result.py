"""What `sherd.solve` returns: a result that can be looked at, saved and animated."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..puzzle import Puzzle
from ..solvers import Result


@dataclass(frozen=True)
class Alternative:
    """Another board that is nearly as good as the best."""

    board: np.ndarray
    """``(M, N)`` piece indices, -1 = empty."""
    score: float
    """By the same objective as the best board's."""
    differs: np.ndarray
    """``(M, N)`` bool: cells that hold another piece than on the best board."""
    odds: float
    """How likely it is against the best board, 0..1; 1 = as likely."""


@dataclass(frozen=True)
class GridTrial:
    """A grid that was tried because none was given."""

    grid: tuple[int, int]
    score: float
    """Evidence of the best board found on it, less what its empty cells cost; comparable between
    grids, in nats."""
    missing: int
    """Cells for which there is no piece."""
    spare: int
    """Pieces for which there is no cell."""


@dataclass(frozen=True)
class Reassembly(Result):
    """A `Result` that has its puzzle with it. Piece numbers are those of ``puzzle``."""

    puzzle: Puzzle = field(kw_only=True)
    """The fragments as they were solved: of one size, with the grid and gap that were found."""
    alternatives: tuple[Alternative, ...] = field(default=(), kw_only=True)
    """Next-best boards where the best is uncertain, best first; none where nothing comes near."""
    grids: tuple[GridTrial, ...] = field(default=(), kw_only=True)
    """Grids that were tried, best first; empty where the grid was given."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    """What the user should know, a line each: files that were changed, what was estimated."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fragments' file names, or their numbers where they have none."""
        return self.puzzle.names or tuple(str(k) for k in range(self.puzzle.n))

    @property
    def unplaced(self) -> list[int]:
        """Pieces that found no cell, those among them that seem to belong elsewhere."""
        return sorted(set(range(self.puzzle.n)) - set(self.board.ravel().tolist()))

    def image(self, *, confidence: bool = False) -> np.ndarray:
        """``(height, width, 3) uint8``: the board at full resolution, gaps left open.

        ``confidence`` frames every piece, from red (unsure) to green.
        """
        from ..pictures import render_board

        sure = self.confidence if confidence else None
        return render_board(self.puzzle, self.board, confidence=sure)

    def restored(self) -> np.ndarray:
        """``(height, width, 3) uint8``: the same with its gaps filled; empty cells are hatched."""
        from ..perception.restore import restore
        from ..search.evolution import default_threads

        return restore(self.puzzle, self.board, under=self.image(), threads=default_threads())

    def show(self, *, confidence: bool = True) -> Image.Image:
        """The board as a PIL image, which a notebook displays."""
        return Image.fromarray(self.image(confidence=confidence))

    def _repr_png_(self) -> bytes:
        """How a notebook shows the result."""
        shown = self.show()._repr_png_()
        assert isinstance(shown, bytes)
        return shown

    def animate(self, path: str | os.PathLike[str]) -> None:
        """Write the reassembly as an animated GIF."""
        from ..pictures import animate
        from ..solvers import Snapshot

        end = Snapshot(self.timings["total"], 0, self.score, self.board)
        animate(self.puzzle, [*self.history, end], path)

    def report(self, title: str = "Reassembled") -> str:
        """An HTML page, complete in itself: pictures, alternatives, layout."""
        from .report import report_html

        return report_html(self, title)

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        restore: bool = False,
        animate: bool = False,
        report: bool = False,
        force: bool = False,
    ) -> dict[str, Any]:
        """Write ``folder``: assembled.png, result.json, layout.csv and what else is asked for.

        Parameters
        ----------
        folder
            Appears whole or not at all; one with something in it is refused.
        restore
            Also restored.png, with the gaps filled.
        animate
            Also reassembly.gif.
        report
            Also report.html, one file with pictures, layout and alternatives.
        force
            Replace an earlier result.

        Returns
        -------
        What result.json holds.
        """
        from ..data.atomic import new_folder
        from .save import RESULT_FOLDER, write_result

        with new_folder(Path(folder), RESULT_FOLDER, force=force) as part:
            return write_result(part, self, animate=animate, restore=restore, report=report)
