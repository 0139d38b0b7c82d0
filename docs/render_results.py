"""Write docs/results.md, and the results of README.md, from the JSON lines in ``results/paper``.

python docs/render_results.py            # fails, naming the cell, if a table lacks one
python docs/render_results.py --check    # also fails if a page is not up to date; writes nothing
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from math import prod
from pathlib import Path
from statistics import mean

from sherd.bench.paper import PUBLISHED
from sherd.bench.plan import KINDS, SYSTEMS, TABLES, Place
from sherd.bench.report import RENDER, Sheet, figure_text, theirs
from sherd.bench.summary import Summary, read_summaries
from sherd.errors import SherdError

ROOT = Path(__file__).resolve().parents[1]
BEST, OURS = "erl-mpp", "sherd"
WHAT = {
    "jpleg5": "art", "kinds": "art", "mit": "photos in {} pieces", "ablation": "the ablation",
    "large": "{} pieces",
}  # fmt: skip
"""What a table is called in a list."""
FAR = 10
"""Points of Neighbor below a published figure that call for an explanation."""
COMPARED = {
    "jpleg5": ("perfect", "absolute", "horizontal", "vertical"),
    "kinds": ("perfect", "absolute"),
    "mit": ("perfect", "absolute", "neighbor"),
    "large": ("perfect", "absolute", "neighbor"),
}
"""The figures by which tables compare systems (the ablation has parts of one)."""
COUNT = {1: "one", 2: "two", 3: "three"}
MARKS = ("<!-- results -->", "<!-- /results -->")


class Book:
    """All tables, and what is said about them."""

    def __init__(self, folder: Path) -> None:
        lines = {name: read_summaries(folder / f"{name}.jsonl") for name in TABLES}
        real = any(s["protocol"] == "jpleg5" for s in lines["jpleg5"])
        self.art = "jpleg5" if real else "art5"
        self.sheets = {name: Sheet(TABLES[name], self.art, lines[name]) for name in TABLES}

    def cell(self, table: str, place: Place, system: str) -> Summary:
        """A cell that holds figures, or the reason why it does not."""
        return self.sheets[table].cell(place, system)

    def table(self, name: str) -> str:
        """One table as Markdown."""
        return RENDER[name](self.sheets[name])

    # Where figures come from

    def summaries(self) -> list[Summary]:
        """Every cell that holds figures."""
        return [s for sheet in self.sheets.values() for s in sheet.all()]

    def origin(self) -> str:
        """Commits, seeds and machines of all cells."""
        cells = self.summaries()
        commits = _words(f"`{_commit(c)}`" for s in cells for c in s["commits"])
        seeds = _words(str(x) for s in cells for x in s["seeds"])
        machines = "; ".join(sorted({m for s in cells for m in s["machines"]}))
        return f"commits {commits}; seeds {seeds}; {machines}"

    def shuffles(self) -> str:
        """How often the pieces of a puzzle were shuffled anew, table by table."""
        found: dict[int, dict[str, None]] = {}
        for table, sheet in self.sheets.items():
            for s in sheet.all():
                what = WHAT[table].format(prod(map(int, s["grid"].split("x"))))
                found.setdefault(len(s["seeds"]), {})[what] = None
        return "; ".join(
            f"{COUNT.get(k, k)} shuffle{'s'[: k > 1]}: {', '.join(found[k])}"
            for k in sorted(found, reverse=True)
        )

    def pictures(self) -> str:
        """What JPLEG-5's tables were measured on."""
        n = self.cell("jpleg5", self.sheets["jpleg5"].places[0], OURS)["n"]
        if self.art == "jpleg5":
            return f"JPLEG-5: the {n} puzzles of its test split, as in the paper."
        return (
            f"**art5 is not JPLEG-5**, whose files were not at hand: {n} other pictures of its "
            f"three kinds, in its geometry (5x5 pieces of 96 px, 12 px apart, displaced by up to "
            f"3 px). The paper's figures stand beside ours for orientation; a difference between "
            f"the two says as much of the pictures as of the systems. `sherd bench paper` uses "
            f"JPLEG-5 itself where its files are ([data.md](data.md))."
        )

    # What the figures say

    def best(self, table: str, metric: str = "perfect", *, but: tuple[str, ...] = ()) -> str:
        """The system with the highest mean of ``metric`` over a table."""
        sheet = self.sheets[table]
        runs = [s for s in sheet.systems if s not in but]
        able = [s for s in runs if all(sheet.cell(p, s)["cannot"] is None for p in sheet.places)]
        return max(able, key=lambda s: mean(sheet.cell(p, s)[metric]["mean"] for p in sheet.places))

    def art_says(self) -> str:
        """The first table in a sentence or two."""
        (place,) = self.sheets["jpleg5"].places
        rival = self.best("jpleg5", but=(OURS, BEST))
        ours, agent, other = (self.cell("jpleg5", place, s) for s in (OURS, BEST, rival))
        figures = theirs(place, BEST)
        assert figures is not None
        return (
            f"`{OURS}` puts {_one(ours)} % of the puzzles together without a fault, `{BEST}` "
            f"{_one(agent)} % (the paper's own: {figures.perfect} % on JPLEG-5), the best of the "
            f"others, `{rival}`, {_one(other)} %."
        )

    def kinds_say(self) -> str:
        """Which kind is hardest, here and in the paper."""
        places = self.sheets["kinds"].places
        ours = {p.kind: self.cell("kinds", p, OURS)["perfect"]["mean"] for p in places}
        paper = {p.kind: f.perfect for p in places if (f := theirs(p, BEST)) is not None}
        here, there = min(ours, key=ours.__getitem__), min(paper, key=paper.__getitem__)  # type: ignore[arg-type]
        same = "as in the paper" if here == there else f"in the paper {there} are"
        return f"Of the three kinds, {here} are hardest for `{OURS}`; {same}."

    def ablation_says(self) -> str:
        """What perception and agent add, in points of Perfect."""
        sheet = self.sheets["ablation"]
        (place,) = sheet.places
        p = {s: sheet.cell(place, s)["perfect"]["mean"] for s in sheet.systems}
        q = {s: f.perfect for s in sheet.systems if (f := theirs(place, s)) is not None}
        lines = []
        for what, high, low in (
            ("MPPN instead of SDN, with EvoRL", "erl-mpp", "sdn-evorl"),
            ("MPPN instead of SDN, with the DQN", "mppn-dqn", "sd2rl"),
            ("EvoRL instead of the DQN, on the MPPN", "erl-mpp", "mppn-dqn"),
            ("EvoRL instead of the DQN, on the SDN", "sdn-evorl", "sd2rl"),
        ):
            theirs_ = (q[high] or 0.0) - (q[low] or 0.0)
            lines.append(
                f"- {what}: {p[high] - p[low]:+.1f} points of Perfect; paper {theirs_:+.1f}."
            )
        return "\n".join(lines)

    def limits_say(self) -> str:
        """Whose fault wrong boards are."""
        cells = [s for s in self.summaries() if s["system"] == OURS]
        search, sight = (
            max(cells, key=lambda s: s[f"{whose}_limited"]) for whose in ("search", "perception")
        )
        return (
            f"Of `{OURS}`'s boards at most {search['search_limited']:.1f} % in any cell are the "
            f"search's fault ({_cell(search)}), at most {sight['perception_limited']:.1f} % "
            f"perception's ({_cell(sight)})."
        )

    def difference(self) -> str:
        """Ours less the paper's own figures for the same system, averaged over cells."""
        rows = [
            "| system | art: Perf. / Abs. | photos, between: Perf. / Abs. / Neig. "
            "| photos, off each side: Perf. / Abs. / Neig. |",
            "|---|---|---|---|",
        ]
        groups: tuple[tuple[str, str | None], ...] = (
            ("kinds", None), ("mit", "between"), ("mit", "side"),
        )  # fmt: skip
        for system in SYSTEMS:
            shown = []
            for table, erode in groups:
                places = [p for p in self.sheets[table].places if erode in (None, p.erode)]
                shown.append(self._less(table, places, system))
            if any(x != "–" for x in shown):
                rows.append(f"| `{system}` | {' | '.join(shown)} |")
        return "\n".join(rows)

    def _less(self, table: str, places: list[Place], system: str) -> str:
        parts = []
        for metric in COMPARED[table]:
            gains = [self._gain(table, place, system, metric) for place in places]
            known = [g for g in gains if g is not None]
            if not known:
                return "–"
            parts.append(f"{mean(known):+.1f}")
        return " / ".join(parts)

    def _gain(self, table: str, place: Place, system: str, metric: str) -> float | None:
        """Ours less the paper's figure, None if one of them is missing."""
        cell, paper = self.cell(table, place, system), theirs(place, system)
        figure = None if paper is None else getattr(paper, metric)
        return None if cell["cannot"] or figure is None else cell[metric]["mean"] - figure

    def first_says(self) -> str:
        """In how many figures the default system is first, and where it is not."""
        total, behind = 0, []
        for name, metrics in COMPARED.items():
            sheet = self.sheets[name]
            for place in sheet.places:
                cells = [c for s in sheet.systems if (c := sheet.cell(place, s))["cannot"] is None]
                published = theirs(place, PUBLISHED) if name == "large" else None
                for metric in metrics:
                    figures = {c["system"]: (c[metric]["mean"], c[metric]["std"]) for c in cells}
                    if published is not None:
                        figures["lp (published)"] = (getattr(published, metric), None)
                    shown = {name: round(figure[0], 1) for name, figure in figures.items()}
                    total += 1
                    best = max(shown, key=shown.__getitem__)
                    if shown[best] > shown[OURS]:
                        what = f"{metric.capitalize()} at {place.n} pieces, {place.gap} px"
                        ours, theirs_ = figure_text(figures[OURS]), figure_text(figures[best])
                        behind.append(f"{what} ({ours}; `{best}` {theirs_})")
        but = f"; not in {', '.join(behind)}" if behind else ""
        return (
            f"`{OURS}` is first, or level with the first, in {total - len(behind)} of the {total} "
            f"figures that the tables compare systems by{but}."
        )

    def shortfall(self) -> str:
        """Systems whose Neighbor on photos is far below the paper's, the gap between neighbours."""
        places = [p for p in self.sheets["mit"].places if p.erode == "between"]
        found = []
        for system in SYSTEMS:
            gains = ((p, self._gain("mit", p, system, "neighbor")) for p in places)
            less = [
                f"{gain:+.1f} ({p.grid[0]}x{p.grid[1]}, {p.gap} px)"
                for p, gain in gains
                if gain is not None and gain < -FAR
            ]
            if less:
                found.append(f"`{system}` {', '.join(less)}")
        if not found:
            return f"No system is more than {FAR} points of Neighbor below its published figure."
        return (
            f"More than {FAR} points of Neighbor below the published figure, photos, gap between "
            f"neighbours: {'; '.join(found)}."
        )

    def headline(self) -> str:
        """The table of the README."""
        rows = [
            f"| puzzles | `{OURS}`: Perf. / Abs. / Neig. | Perf.\\* | `{BEST}` here "
            "| best of the others here | paper's ERL-MPP |",
            "|---|---|---|---|---|---|",
        ]
        whole = [("mit", p) for p in self.sheets["mit"].places]
        whole += [("jpleg5", p) for p in self.sheets["jpleg5"].places]
        whole += [("kinds", p) for p in self.sheets["kinds"].places]
        for table, place in whole:
            ours, agent = (self.cell(table, place, s) for s in (OURS, BEST))
            rivals = [s for s in SYSTEMS if s not in (OURS, BEST)]
            able = [c for s in rivals if (c := self.cell(table, place, s))["cannot"] is None]
            rival = max(able, key=lambda c: c["absolute"]["mean"])
            paper = theirs(place, BEST)
            assert paper is not None
            own = [getattr(paper, m) for m in ("perfect", "absolute", "neighbor")]
            rows.append(
                f"| {_puzzles(place, ours['n'], self.art)} | {_three(ours)} "
                f"| {ours['perfect_star']['mean']:.1f} | {_three(agent)} "
                f"| {_three(rival)} (`{rival['system']}`) "
                f"| {' / '.join('–' if v is None else f'{v:.1f}' for v in own)} |"
            )
        return "\n".join(rows)

    def large_headline(self) -> str:
        """Large puzzles in a line each."""
        sheet = self.sheets["large"]
        rows = [
            "| pieces of 28 px | 0 px: Perf. / Abs. / Neig. | 1 px | 2 px | s/puzzle |",
            "|---|---|---|---|---|",
        ]
        for grid in dict.fromkeys(p.grid for p in sheet.places):
            cells = [sheet.cell(p, OURS) for p in sheet.places if p.grid == grid]
            seconds = mean(c["cpu_seconds"]["mean"] for c in cells)
            rows.append(
                f"| {grid[0] * grid[1]} ({_puzzle_count(cells[0]['n'])}) | "
                f"{' | '.join(_three(c) for c in cells)} | {seconds:.0f} |"
            )
        return "\n".join(rows)


def search() -> str:
    """The closing lines of the search benchmark."""
    return "\n".join((ROOT / "results" / "search.txt").read_text().splitlines()[-3:])


def _cell(s: Summary) -> str:
    side = " off each side" if s["erode"] == "side" else ""
    puzzles = _puzzle_count(s["n"])
    return f"{puzzles} of {s['grid']} pieces of {s['pieces']} px, {s['gap']} px{side}"


def _puzzle_count(n: int) -> str:
    return "1 puzzle" if n == 1 else f"{n} puzzles"


def _commit(name: str) -> str:
    """Seven digits, and ``+`` if the tree had changes."""
    return name[:7] + ("+" if name.endswith("+") else "")


def _words(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))


def _one(cell: Summary) -> str:
    return f"{cell['perfect']['mean']:.1f}"


def _three(cell: Summary) -> str:
    if cell["cannot"] is not None:
        return "n/a"
    return " / ".join(f"{cell[m]['mean']:.1f}" for m in ("perfect", "absolute", "neighbor"))


def _puzzles(place: Place, n: int, art: str) -> str:
    size = f"{place.grid[0]}x{place.grid[1]}, {place.gap} px"
    if place.protocol == "mit":
        return f"{n} photos, {size}" + (" off each side" if place.erode == "side" else "")
    mark = "" if art == "jpleg5" else " †"
    return f"{n} {place.kind or 'art pictures'}{mark}, {size}"


def pages(folder: Path, root: Path = ROOT) -> dict[Path, str]:
    """The text of both pages; raises SherdError if a cell is missing."""
    book = Book(folder)
    assert set(KINDS) == {p.kind for p in book.sheets["kinds"].places}
    parts: dict[str, Callable[[], str]] = {
        **{name: (lambda name=name: book.table(name)) for name in TABLES},
        "origin": book.origin, "shuffles": book.shuffles, "pictures": book.pictures,
        "art_says": book.art_says,
        "kinds_say": book.kinds_say, "ablation_says": book.ablation_says,
        "limits_say": book.limits_say, "difference": book.difference,
        "shortfall": book.shortfall, "first_says": book.first_says,
        "headline": book.headline, "large_headline": book.large_headline, "search": search,
        "measured_on": lambda: "" if book.art == "jpleg5" else "Measured on art5, see above. ",
        "dagger": lambda: "" if book.art == "jpleg5" else (
            "† art5, not JPLEG-5: its geometry and its three kinds, other pictures."),
    }  # fmt: skip

    def fill(name: str) -> str:
        text = (ROOT / "docs" / name).read_text("utf-8")
        for part, make in parts.items():
            if "{" + part + "}" in text:
                text = text.replace("{" + part + "}", make())
        return text

    readme = (root / "README.md").read_text("utf-8")
    before, rest = readme.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    return {
        root / "docs" / "results.md": fill("results-page.template"),
        root
        / "README.md": f"{before}{MARKS[0]}\n{fill('results-readme.template')}{MARKS[1]}{after}",
    }


def main() -> int:
    """Render, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "paper")
    parser.add_argument("--into", type=Path, default=ROOT, help="a folder with README.md and docs/")
    a = parser.parse_args()
    try:
        made = pages(a.results, a.into)
    except SherdError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    for path, text in made.items():
        if not a.check:
            path.write_text(text, "utf-8")
        elif not path.is_file() or path.read_text("utf-8") != text:
            print(f"error: {path}: is out of date; run docs/render_results.py", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
