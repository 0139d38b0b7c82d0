"""The paper's tables as Markdown, the paper's figures beside ours.

Figures are percentages, mean ± standard deviation over the seeds; the best of a column is bold.
Seconds are of one core, without cutting and scoring. A cell that a system cannot fill says n/a, and
a note under the table says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import SherdError
from . import paper
from .plan import TABLES, Place, Table
from .summary import Summary, summary_key

_SHORT = {
    "perfect": "Perf.",
    "perfect_star": "Perf.\\*",
    "absolute": "Abs.",
    "horizontal": "Hori.",
    "vertical": "Vert.",
    "neighbor": "Neig.",
}
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
PARTS = {
    "sd2rl": ("SDN", "DQN"),
    "mppn-dqn": ("MPPN", "DQN"),
    "sdn-evorl": ("SDN", "EvoRL"),
    "erl-mpp": ("MPPN", "EvoRL"),
}
"""Perception and agent of the ablation's systems."""


class Sheet:
    """The cells of one table.

    All of the table's cells must be there; ``partial`` takes the places and systems that are.
    """

    def __init__(
        self, table: Table, art: str, summaries: Sequence[Summary], *, partial: bool = False
    ) -> None:
        self.table, self.art = table, art
        self._cells = {summary_key(s): s for s in summaries}
        self.places, self.systems = table.places(art), table.systems
        if partial:
            held = {key[:-1] for key in self._cells}
            self.places = [p for p in self.places if self._key(p, "")[:-1] in held]
            self.systems = tuple(s for s in self.systems if s in {k[-1] for k in self._cells})
        self._check()

    @staticmethod
    def _key(place: Place, system: str) -> tuple[str, ...]:
        return summary_key({**place.asdict(), "system": system})

    def _check(self) -> None:
        """Every cell has a result, and those of a place were measured on the same puzzles."""
        for place in self.places:
            on: tuple[int, list[int]] | None = None
            for system in self.systems:
                s = self._cells.get(self._key(place, system))
                what = f"table {self.table.name}: {system} on {place.label()}"
                if s is None:
                    raise SherdError(
                        f"{what}: has no result; run: sherd bench paper --tables "
                        f"{self.table.name} --systems {system} --save DIR"
                    )
                if s["cannot"] is not None:
                    continue
                if on is not None and on != (s["n"], s["seeds"]):
                    raise SherdError(
                        f"{what}: {s['n']} puzzles with seeds {s['seeds']}, other systems "
                        f"{on[0]} with {on[1]}; run it on the same"
                    )
                on = (s["n"], s["seeds"])

    def cell(self, place: Place, system: str) -> Summary:
        """The summary of one system at one place."""
        return self._cells[self._key(place, system)]

    def all(self) -> list[Summary]:
        """The cells that hold figures."""
        found = (self.cell(p, s) for p in self.places for s in self.systems)
        return [s for s in found if s["cannot"] is None]


def theirs(place: Place, system: str) -> paper.Figures | None:
    """The paper's own figures for a cell."""
    grid = f"{place.grid[0]}x{place.grid[1]}"
    return paper.figures(place.protocol, place.kind, grid, place.gap, place.pieces, system)


Value = tuple[float, float | None] | str
"""A figure and its spread, or what stands in its stead."""


@dataclass
class _Column:
    title: str
    rows: list[list[Value]] = field(default_factory=list)
    """Of every row its figures, which are shown with a stroke between them."""
    bold: bool = True
    digits: int = 1


class _Notes:
    """The notes under a table, numbered."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        if text not in self.texts:
            self.texts.append(text)
        return str(self.texts.index(text) + 1).translate(_SUPERSCRIPT)

    def __str__(self) -> str:
        lines = (f"{str(k).translate(_SUPERSCRIPT)} {t}." for k, t in enumerate(self.texts, 1))
        return "  \n".join(lines)


def _ours(cell: Summary, metrics: Sequence[str], notes: _Notes) -> list[Value]:
    if cell["cannot"] is not None:
        return ["n/a" + notes.mark(f"`{cell['system']}`: {cell['cannot']}")]
    return [(cell[m]["mean"], cell[m]["std"]) for m in metrics]


def _paper(place: Place, system: str, metrics: Sequence[str]) -> list[Value]:
    found = theirs(place, system)
    values = [None if found is None else getattr(found, m) for m in metrics]
    return ["–"] if found is None else ["–" if v is None else (v, None) for v in values]


def figure_text(value: Value, best: float | None = None, digits: int = 1) -> str:
    """A figure with its spread, **bold** where it is the best."""
    if isinstance(value, str):
        return value
    figure = f"{value[0]:.{digits}f}"
    if best is not None and figure == f"{best:.{digits}f}":
        figure = f"**{figure}**"
    return figure if value[1] is None else f"{figure} ± {value[1]:.{digits}f}"


def _table(
    names: Sequence[str], head: str, columns: Sequence[_Column], groups: Sequence[int]
) -> str:
    """Markdown. ``groups`` says which rows are compared with each other for the best figure."""
    body = [[name] for name in names]
    for c in columns:
        depth = max(len(row) for row in c.rows)
        for k, row in enumerate(c.rows):
            peers = [r for r, g in zip(c.rows, groups, strict=True) if g == groups[k]]
            best = [
                max((v[0] for r in peers if len(r) > j and isinstance(v := r[j], tuple)), default=0)
                for j in range(depth)
            ]
            shown = (
                figure_text(v, best[j] if c.bold else None, c.digits) for j, v in enumerate(row)
            )
            body[k].append(" / ".join(shown))
    titles = [head, *(c.title for c in columns)]
    widths = [max(len(line[k]) for line in (titles, *body)) for k in range(len(titles))]
    lines = [titles, ["-" * w for w in widths], *body]
    return "\n".join(
        "| " + " | ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def _compare(
    sheet: Sheet, metrics: Sequence[str], names: Sequence[str], head: str, notes: _Notes
) -> str:
    """One place: a column per metric, and the paper's columns."""
    (place,) = sheet.places
    shown = [m for m in metrics if m != "perfect_star"]
    ours = [_Column(_SHORT[m]) for m in metrics]
    time = _Column("s/puzzle", bold=False, digits=2)
    papers = [_Column(f"paper {_SHORT[m]}") for m in shown]
    for system in sheet.systems:
        cell = sheet.cell(place, system)
        for c, m in zip(ours, metrics, strict=True):
            c.rows.append(_ours(cell, [m], notes))
        time.rows.append(_ours(cell, ["cpu_seconds"], notes))
        for c, m in zip(papers, shown, strict=True):
            c.rows.append(_paper(place, system, [m]))
    return _table(names, head, [*ours, time, *papers], [0] * len(names))


def jpleg5(sheet: Sheet) -> str:
    """All kinds together."""
    notes = _Notes()
    metrics = ("perfect", "perfect_star", "absolute", "horizontal", "vertical")
    names = [f"`{s}`" for s in sheet.systems]
    return _with(_compare(sheet, metrics, names, "system", notes), notes)


def ablation(sheet: Sheet) -> str:
    """Perception and agent exchanged."""
    notes = _Notes()
    names = [f"{' + '.join(PARTS[s])} (`{s}`)" for s in sheet.systems]
    metrics = ("perfect", "absolute", "horizontal", "vertical")
    return _with(_compare(sheet, metrics, names, "perception + agent", notes), notes)


def kinds(sheet: Sheet) -> str:
    """Perfect / Absolute by kind."""
    notes, metrics = _Notes(), ("perfect", "absolute")
    ours = [_Column(str(p.kind)) for p in sheet.places]
    papers = [_Column(f"paper {p.kind}") for p in sheet.places]
    for system in sheet.systems:
        for place, c, d in zip(sheet.places, ours, papers, strict=True):
            c.rows.append(_ours(sheet.cell(place, system), metrics, notes))
            d.rows.append(_paper(place, system, metrics))
    names = [f"`{s}`" for s in sheet.systems]
    return _with(_table(names, "Perf. / Abs.", [*ours, *papers], [0] * len(names)), notes)


def mit(sheet: Sheet) -> str:
    """Perfect / Absolute / Neighbor, one table per grid and gap, both readings of the gap."""
    metrics = ("perfect", "absolute", "neighbor")
    made = []
    for grid, gap in dict.fromkeys((p.grid, p.gap) for p in sheet.places):
        places = [p for p in sheet.places if (p.grid, p.gap) == (grid, gap)]
        notes, size = _Notes(), f"{grid[0]}x{grid[1]}"
        columns = [
            _Column({"between": "between", "side": "off each side"}[p.erode]) for p in places
        ]
        theirs_, time = _Column("paper"), _Column("s/puzzle", bold=False, digits=2)
        for system in sheet.systems:
            for place, c in zip(places, columns, strict=True):
                c.rows.append(_ours(sheet.cell(place, system), metrics, notes))
            theirs_.rows.append(_paper(places[0], system, metrics))
            time.rows.append(_ours(sheet.cell(places[0], system), ["cpu_seconds"], notes))
        names = [f"`{s}`" for s in sheet.systems]
        text = _table(names, "Perf. / Abs. / Neig.", [*columns, theirs_, time], [0] * len(names))
        made.append(f"**{size} pieces, {gap} px**\n\n{_with(text, notes)}")
    return "\n\n".join(made)


def large(sheet: Sheet) -> str:
    """Perfect / Absolute / Neighbor by pieces and gap, with published figures without a gap."""
    metrics, notes = ("perfect", "absolute", "neighbor"), _Notes()
    gaps = sorted({p.gap for p in sheet.places})
    columns = [_Column(f"{gap} px") for gap in gaps]
    time = _Column(f"s/puzzle, {gaps[-1]} px", bold=False, digits=1)
    names, groups = [], []
    for grid in dict.fromkeys(p.grid for p in sheet.places):
        places = [p for p in sheet.places if p.grid == grid]
        rows: list[str] = [*sheet.systems]
        if theirs(places[0], paper.PUBLISHED):
            rows.append(paper.PUBLISHED)
        for system in rows:
            ours = system != paper.PUBLISHED
            names.append(f"{places[0].n}, `{system}`" if ours else f"{places[0].n}, LP (published)")
            groups.append(places[0].n)
            for place, c in zip(places, columns, strict=True):
                cell = sheet.cell(place, system) if ours else None
                value = _paper(place, system, metrics) if cell is None else None
                c.rows.append(value or _ours(cell or {}, metrics, notes))
            last = sheet.cell(places[-1], system) if ours else None
            time.rows.append(["–"] if last is None else _ours(last, ["cpu_seconds"], notes))
    text = _table(names, "pieces, system", [*columns, time], groups)
    return _with(f"Perf. / Abs. / Neig.:\n\n{text}", notes)


def _with(text: str, notes: _Notes) -> str:
    return f"{text}\n\n{notes}" if notes.texts else text


RENDER = {"jpleg5": jpleg5, "kinds": kinds, "mit": mit, "ablation": ablation, "large": large}
assert RENDER.keys() == TABLES.keys()
