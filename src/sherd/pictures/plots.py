"""Plots of a search."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SherdError
from .save import whole_file

if TYPE_CHECKING:
    from ..solvers.base import Snapshot

# Okabe and Ito's colours, strongest first, and dashes, so that lines differ in grey print too.
_LINES = (
    ("#0072b2", "-"),
    ("#d55e00", "--"),
    ("#009e73", "-."),
    ("#cc79a7", ":"),
    ("#56b4e9", "-"),
    ("#e69f00", "--"),
)


def convergence(
    history: Sequence[Snapshot] | Mapping[str, Sequence[Snapshot]],
    path: str | os.PathLike[str],
) -> None:
    """Plot the best score against seconds and write it as PNG, SVG or PDF.

    ``history`` is one run's (``Result.history``), or several runs' by name. A step stands where
    a better board was found; all lines go on to the end of the longest run.
    """
    runs = history if isinstance(history, Mapping) else {"": history}
    runs = {name: run for name, run in runs.items() if len(run)}
    if not runs:
        raise SherdError("history: is empty; there is nothing to plot")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    end = max(run[-1].seconds for run in runs.values()) * 1.15 or 1.0
    for k, (name, run) in enumerate(runs.items()):
        colour, dash = _LINES[k % len(_LINES)]
        x = [s.seconds for s in run]
        y = [s.score for s in run]
        axes.step([*x, end], [*y, y[-1]], dash, where="post", color=colour, lw=1.8, label=name)
        axes.plot(x, y, "o", color=colour, ms=3.5)
        axes.annotate(
            f"{y[-1]:.4g}", (x[-1], y[-1]), (0, 5), textcoords="offset points", color=colour
        )
    axes.set_xlim(0, end)
    axes.set_xlabel("seconds")
    axes.set_ylabel("best score")
    axes.grid(color="#e6e1d8", lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if any(runs):
        axes.legend(frameon=False, loc="lower right")
    kinds = (".png", ".svg", ".pdf")
    with whole_file(path, kinds) as file:
        figure.savefig(file, format=Path(path).suffix.lower()[1:], dpi=150)
