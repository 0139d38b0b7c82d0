"""The table of a benchmark, the paper's figures under ours."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.table import Table

from . import paper
from .cells import Cell

_COLUMNS = (
    "Perf.", "Perf.*", "Abs.", "Hori.", "Vert.", "Neig.", "perc.", "search", "s/puzzle"
)  # fmt: skip
_NOTES = {
    "mit": "Paper: its MIT table, 60 puzzles; it leaves open how its gap is meant.",
    "art5": "Paper: its JPLEG-5 tables; same geometry and kinds, other pictures.",
    "jpleg5": "Paper: its JPLEG-5 tables.",
}
_LEGEND = (
    "Perf.*: perfect up to pieces nobody can tell apart. perc., search: share of puzzles whose "
    "board is not the true one and scores at least as high (perception's fault, or a tie), or "
    "lower (search's fault)."
)


def tables(cells: Sequence[Cell]) -> list[Table]:
    """One table per grid and gap, or per kind; in percent and seconds."""
    groups = [
        list(g) for _, g in groupby(cells, lambda c: (c.grid, c.gap, c.erode, c.pieces, c.kind))
    ]
    made = [_table(g) for g in groups]
    if made:
        note = _NOTES.get(cells[0].protocol)
        made[-1].caption = _LEGEND if note is None else f"{_LEGEND} {note}"
        made[-1].caption_justify = "left"
    return made


def _table(group: list[Cell]) -> Table:
    c = group[0]
    sets = "+".join(c.sets) if c.protocol != "folder" else c.sets[0]
    missing = f"{c.gap} px off each side" if c.erode == "side" else f"{c.gap} px gap"
    kind = f", {c.kind}" if c.kind else ""
    table = Table(
        title=f"{c.protocol} ({sets}){kind}: {c.grid}, {c.pieces}-px pieces, {missing}",
        title_justify="left",
    )
    table.add_column("system", no_wrap=True)
    table.add_column("n", justify="right")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for cell in group:
        table.add_row(
            cell.system,
            str(cell.n),
            *(_percent(v) for v in (cell.perfect, cell.perfect_star, cell.absolute)),
            *(_percent(v) for v in (cell.horizontal, cell.vertical, cell.neighbor)),
            *(_percent(v) for v in (cell.perception_limited, cell.search_limited)),
            f"{cell.seconds_per_puzzle:.2f}",
        )
        _paper_row(table, cell, cell.system, "  paper")
    if all(cell.system != paper.BEST for cell in group):
        _paper_row(table, c, paper.BEST, "erl-mpp, paper")
    return table


def _paper_row(table: Table, cell: Cell, system: str, label: str) -> None:
    f = paper.figures(cell.protocol, cell.kind, cell.grid, cell.gap, cell.pieces, system)
    if f is None:
        return
    shown = (f.perfect, None, f.absolute, f.horizontal, f.vertical, f.neighbor)
    row = ["" if v is None else _percent(v) for v in shown]
    table.add_row(label, "", *row, "", "", "", style="dim")


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
