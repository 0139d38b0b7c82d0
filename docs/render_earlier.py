"""Write the results table of README.md from earlier runs, until ``results/paper`` is complete.

    python docs/render_earlier.py

Fails if a cell has no line behind it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean

from sherd.bench.paper import BEST, figures

ROOT = Path(__file__).resolve().parents[1]
SEEDS = (0, 1, 2)
DEFAULT_SYSTEM = ("mit60-sherd", "mit60-sherd-side", "art5-test-sherd", "mit28-sherd")


def lines(name: str) -> list[dict]:
    """The cells of one result file."""
    text = (ROOT / "results" / f"{name}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def classical() -> str:
    """The systems without a net on mit20, mean over the shuffles."""
    cells = defaultdict(list)
    for seed in SEEDS:
        for x in lines(f"mit20-classical-seed{seed}"):
            cells[x["system"], x["gap"]].append(x)
    rows = ["| system | 0 px | 2 px | 4 px | s/puzzle |", "|---|---|---|---|---|"]
    for system in ("greedy", "tabu", "ga", "evolve"):
        row = [f"`{system}`"]
        for gap in (0, 2, 4):
            found = cells[system, gap]
            assert len(found) == len(SEEDS), f"{system} at {gap} px: {len(found)} results"
            row.append(" / ".join(f"{mean(x[k] for x in found):.1f}" for k in KEYS))
        seconds = [x["seconds_per_puzzle"] for g in (0, 2, 4) for x in cells[system, g]]
        rows.append("| " + " | ".join([*row, f"{mean(seconds):.2f}"]) + " |")
    return "\n".join(rows)


KEYS = ("perfect", "perfect_star", "neighbor")


def networked() -> str:
    """The default system on the paper's protocols, with the paper's own figures."""
    rows = [
        "| puzzles | `sherd`: Perfect / Absolute / Neighbor | Perfect\\* | paper's ERL-MPP |",
        "|---|---|---|---|",
    ]
    for x in _default_system():
        what = "photos" if x["protocol"] == "mit" else x["kind"] or "art pictures †"
        theirs = figures(x["protocol"], x["kind"], x["grid"], x["gap"], x["pieces"], BEST)
        small = x["pieces"] == 28  # not in the paper
        assert small == (theirs is None)
        gap = f"{x['gap']} px" + (" off each side" if x["erode"] == "side" else "")
        rows.append(
            f"| {x['n']} {what}, {x['grid']}{' of 28 px ‡' if small else ''}, {gap} | {_three(x)} "
            f"| {x['perfect_star']:.1f} | {_three(vars(theirs)) if theirs else '–'} |"
        )
    return "\n".join(rows)


def _default_system() -> list[dict]:
    return [x for name in DEFAULT_SYSTEM for x in lines(name)]


def _three(x: dict) -> str:
    values = [x[k] for k in ("perfect", "absolute", "neighbor")]
    return " / ".join("–" if v is None else f"{v:.1f}" for v in values)


def blame() -> str:
    """How often a wrong board is the search's fault, at most over the cells."""
    worst = max(x["search_limited"] for x in _default_system())
    return f"{worst:.0f}"


def search() -> str:
    """The closing lines of the search benchmark."""
    return "\n".join((ROOT / "results" / "search.txt").read_text().splitlines()[-3:])


def main() -> None:
    """Put both tables between the markers."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, rest = text.split("<!-- results -->")
    _, after = rest.split("<!-- /results -->")
    template = (ROOT / "docs" / "results.template").read_text()
    parts = {"classical": classical, "networked": networked, "blame": blame, "search": search}
    body = template
    for name, render in parts.items():
        body = body.replace("{" + name + "}", render())
    readme.write_text(f"{before}<!-- results -->\n{body}<!-- /results -->{after}")


if __name__ == "__main__":
    main()
