"""Draw the figures of docs/results.md into docs/img, from the JSON lines in ``results/paper``.

python docs/make_figures.py                # all; boards.png solves three photographs
python docs/make_figures.py --no-boards    # only what the JSON lines say
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sherd import Geometry, Puzzle, SherdError, cut, make_solver
from sherd.bench.plan import ART5, SYSTEMS, TABLES, Place
from sherd.bench.report import Sheet
from sherd.bench.summary import read_summaries
from sherd.pictures import render_board
from sherd.pictures.sheet import arrival_board
from sherd.pictures.style import INK, PAPER
from sherd.solvers import solver_class

ROOT = Path(__file__).resolve().parents[1]
# Okabe and Ito's colours; systems that share one differ in dash and mark.
LINES = {
    "greedy": ("#999999", ":", "o"),
    "tabu": ("#999999", "--", "s"),
    "ga": ("#999999", "-", "^"),
    "deepzzle": ("#cc79a7", ":", "o"),
    "inpaint-gan": ("#cc79a7", "--", "s"),
    "pdn-ga": ("#e69f00", ":", "^"),
    "sd2rl": ("#e69f00", "--", "D"),
    "erl-mpp": ("#d55e00", "-", "D"),
    "evolve": ("#56b4e9", "-", "s"),
    "sherd": ("#0072b2", "-", "o"),
}
PHOTOS = ("astronaut", "coffee", "rocket")
GEOMETRY = Geometry((7, 10), (64, 64), 4)


def missing(place: Place) -> int:
    """Pixels between two neighbours in total."""
    return place.gap * (2 if place.erode == "side" else 1)


def _axes(figure, count: int):  # type: ignore[no-untyped-def]
    made = figure.subplots(1, count, squeeze=False)[0]
    for axes in made:
        axes.grid(color="#e6e1d8", lw=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return made


def _figure(width: float, height: float):  # type: ignore[no-untyped-def]
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _legend(figure) -> None:  # type: ignore[no-untyped-def]
    """Beside the axes, where no line can run through it."""
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right center", frameon=False, fontsize=8)


def _draw(axes, sheet: Sheet, places: Sequence[Place], x, metric: str) -> None:  # type: ignore[no-untyped-def]
    """A line per system, with bars of its spread."""
    for system in sheet.systems:
        cells = [(x(p), sheet.cell(p, system)) for p in places]
        able = sorted((a, c[metric]["mean"], c[metric]["std"] or 0.0) for a, c in cells
                      if c["cannot"] is None)  # fmt: skip
        if not able:
            continue
        colour, dash, mark = LINES[system]
        a, mean, std = zip(*able, strict=True)
        axes.errorbar(a, mean, std, color=colour, ls=dash, marker=mark, ms=4, lw=1.5, capsize=2,
                      label=system)  # fmt: skip


def accuracy_gap(mit: Sheet, large: Sheet, path: Path) -> None:
    """Absolute against missing pixels: 70 and 150 pieces of 64 px, and 432 of 28 px.

    Of the two ways to miss 4 px (4 between, 2 off each side) the first is drawn.
    """
    figure = _figure(11, 3.8)
    wanted = [p for p in mit.places if p.erode == "between" or missing(p) > 4]
    grids = list(dict.fromkeys(p.grid for p in wanted))
    panels = [(mit, [p for p in wanted if p.grid == g]) for g in grids]
    small = large.places[0].grid
    panels.append((large, [p for p in large.places if p.grid == small]))
    for axes, (sheet, places) in zip(_axes(figure, len(panels)), panels, strict=True):
        _draw(axes, sheet, places, missing, "absolute")
        axes.set_title(f"{places[0].n} pieces of {places[0].pieces} px", fontsize=10)
        axes.set_xticks(sorted({missing(p) for p in places}))
        axes.set_ylim(0, 102)
        axes.set_xlabel("pixels missing between neighbours")
    figure.axes[0].set_ylabel("Absolute, %")
    _legend(figure)
    figure.savefig(path, dpi=110)


def accuracy_pieces(large: Sheet, path: Path) -> None:
    """Neighbor and seconds against pieces, at the largest gap."""
    figure = _figure(9, 3.8)
    gap = max(p.gap for p in large.places)
    places = [p for p in large.places if p.gap == gap]
    left, right = _axes(figure, 2)
    for axes, metric, name in (
        (left, "neighbor", "Neighbor, %"),
        (right, "cpu_seconds", "seconds of one core"),
    ):
        _draw(axes, large, places, lambda p: p.n, metric)
        axes.set_xscale("log")
        axes.set_xticks([p.n for p in places], [str(p.n) for p in places])
        axes.minorticks_off()
        axes.set_xlabel(f"pieces of {places[0].pieces} px, {gap} px missing")
        axes.set_ylabel(name)
    left.set_ylim(0, 102)
    right.set_yscale("log")
    _legend(figure)
    figure.savefig(path, dpi=110)


def limits(sheets: Sequence[Sheet], path: Path) -> None:
    """Right, perception-limited and search-limited boards of every system, a panel per place."""
    wanted = [(sheets[0], sheets[0].places[0])]
    wanted += [(sheets[1], p) for p in sheets[1].places if p.gap == 4]
    figure = _figure(11, 3.8)
    for axes, (sheet, place) in zip(_axes(figure, len(wanted)), wanted, strict=True):
        cells = [(s, sheet.cell(place, s)) for s in sheet.systems]
        names = [s for s, _ in cells][::-1]
        start = np.zeros(len(cells))
        for key, colour, label in (
            ("right", "#0072b2", "right"),
            ("perception_limited", "#e69f00", "perception-limited"),
            ("search_limited", "#d55e00", "search-limited"),
            ("rest", "#cccccc", "wrong, no evidence given"),
        ):
            shares = np.array([_share(c, key) for _, c in cells][::-1])
            axes.barh(names, shares, left=start, color=colour, label=label)
            start += shares
        how = ", off each side" if place.erode == "side" else ""
        axes.set_title(f"{place.grid[0]}x{place.grid[1]}, {place.gap} px{how}", fontsize=9)
        axes.set_xlim(0, 100)
        axes.tick_params(labelsize=7)
        if axes is not figure.axes[0]:
            axes.set_yticklabels([])
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  frameon=False, fontsize=8)  # fmt: skip
    figure.savefig(path, dpi=110)


def _share(cell: dict, key: str) -> float:
    if cell["cannot"] is not None:
        return 0.0  # the row stays, so that rows of all panels are the same systems
    known = cell["perception_limited"] is not None
    limited = cell["perception_limited"] + cell["search_limited"] if known else 0.0
    if key == "right":
        return 100.0 - limited if known else cell["perfect"]["mean"]
    if key == "rest":
        return 0.0 if known else 100.0 - cell["perfect"]["mean"]
    return cell[key] or 0.0


def boards(systems: Sequence[str], path: Path, photos: Sequence[str] = PHOTOS) -> None:
    """What every system makes of photographs, beside the fragments and the truth."""
    from skimage import data

    blocks = []
    able = [s for s in systems if solver_class(s).cannot(GEOMETRY.grid) is None]
    for name in photos:
        puzzle = cut(getattr(data, name)(), GEOMETRY, fit="crop").puzzle
        puzzle = puzzle.shuffled(np.random.default_rng(0))
        assert puzzle.truth is not None
        panels = [("fragments", render_board(puzzle, arrival_board(puzzle), gap=8))]
        for system in able:
            board = make_solver(system).solve(puzzle, seed=0).board
            right = int((board == puzzle.truth).sum())
            panels.append((f"{system}  {right}/{puzzle.n}", _board(puzzle, board)))
        panels.append(("truth", _board(puzzle, puzzle.truth)))
        blocks.append(panels)
    _contact(blocks, path)


def _board(puzzle: Puzzle, board: np.ndarray) -> np.ndarray:
    return render_board(puzzle, board, truth=puzzle.truth)


def _contact(blocks: list[list[tuple[str, np.ndarray]]], path: Path, width: int = 1320) -> None:
    """Panels in rows of at most six, a block per photograph."""
    columns = min(6, max(len(b) for b in blocks))
    margin, text = 8, 18
    cell = (width - margin * (columns + 1)) // columns
    high = round(cell * GEOMETRY.size[0] / GEOMETRY.size[1])
    step = high + text + margin
    rows = sum(-(-len(b) // columns) for b in blocks)
    canvas = Image.new("RGB", (width, margin * (len(blocks) + 1) + rows * step), PAPER)
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(13)
    y = margin
    for block in blocks:
        for k, (title, picture) in enumerate(block):
            x, row = margin + (k % columns) * (cell + margin), y + (k // columns) * step
            draw.text((x, row), title, INK, font)
            small = Image.fromarray(picture).resize((cell, high), Image.Resampling.LANCZOS)
            canvas.paste(small, (x, row + text))
        y += -(-len(block) // columns) * step + margin
    palette = canvas.quantize(256, dither=Image.Dither.FLOYDSTEINBERG)
    palette.save(path, optimize=True)


def main() -> int:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-boards", action="store_true")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="of the boards")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "paper")
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "img")
    parser.add_argument("--partial", action="store_true", help="draw what is there")
    a = parser.parse_args()
    try:
        lines = {name: read_summaries(a.results / f"{name}.jsonl") for name in TABLES}
        art = next((s["protocol"] for s in lines["jpleg5"]), "art5")
        jpleg5, mit, large = (
            Sheet(TABLES[name], art, lines[name], partial=a.partial)
            for name in ("jpleg5", "mit", "large")
        )
        assert jpleg5.places[0].grid == ART5.grid
        accuracy_gap(mit, large, a.into / "accuracy-gap.png")
        accuracy_pieces(large, a.into / "accuracy-pieces.png")
        limits([jpleg5, mit], a.into / "limits.png")
        if not a.no_boards:
            boards(a.systems.split(","), a.into / "boards.png")
    except SherdError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
