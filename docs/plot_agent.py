"""Learning curves of the agent, over several seeds.

    python docs/plot_agent.py runs/agent-*/metrics.jsonl [--out docs/img/agent-curves.png]

Reward, Absolute, Neighbor and Perfect against iterations: in training (running mean), and on
validation puzzles (mean over the kinds of puzzle; the same few throughout, so that the evaluation
of all of them at the end is left out). Lines are means over the runs, bands reach from
the least to the greatest. The same figures are printed as a table.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")

PANELS = ("reward", "absolute", "neighbor", "perfect")
POINTS = 9
"""Rows of the table."""


@dataclass(frozen=True)
class Curve:
    """One figure of one run."""

    step: np.ndarray
    value: np.ndarray


def smooth(values: np.ndarray, share: float) -> np.ndarray:
    """Running mean over a share of the curve: episodes of different kinds of puzzle alternate."""
    width = max(1, round(len(values) * share))
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(0, end - width)
    return (total[end] - total[start]) / (end - start)


def read(path: Path, share: float) -> dict[tuple[str, str], Curve]:
    """Curves by split and figure. Where a run was resumed, what it did again counts."""
    try:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as error:
        sys.exit(f"error: {path}: cannot be read as metrics ({error})")
    train: dict[int, dict[str, float]] = {}
    val: dict[int, dict[str, dict[str, float]]] = {}
    for row in rows:
        if row.get("kind") == "train":
            train[row["step"]] = row
        elif row.get("kind") == "val":
            val.setdefault(row["step"], {})[row["cell"]] = row
    if not train:
        sys.exit(f"error: {path}: holds no rows of training; expected an agent's metrics.jsonl")
    out = {}
    steps = np.array(sorted(train))
    for name in PANELS:
        values = np.array([train[s][name] for s in steps], dtype=float)
        out["training", name] = Curve(steps, smooth(values, share))
        if val and name != "reward":
            at = np.array(sorted(val))
            means = [np.mean([cell[name] for cell in val[s].values()]) for s in at]
            out["validation", name] = Curve(at, np.array(means, dtype=float))
    return out


def band(curves: list[Curve], at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, least and greatest at ``at``, between the points on straight lines; as far as all
    runs reach (nan beyond)."""
    rows = np.array([np.interp(at, c.step, c.value) for c in curves])
    first, last = max(c.step[0] for c in curves), min(c.step[-1] for c in curves)
    rows[:, (at < first) | (at > last)] = np.nan
    return rows.mean(0), rows.min(0), rows.max(0)


def main() -> None:
    """Draw and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metrics", type=Path, nargs="+", help="metrics.jsonl, one per seed")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "img/agent-curves.png")
    parser.add_argument("--smooth", type=float, default=0.1, help="share of a training curve")
    args = parser.parse_args()
    runs = [read(path, args.smooth) for path in args.metrics]

    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(PANELS), figsize=(3.1 * len(PANELS), 2.8))
    table: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    last = min(r["training", "reward"].step[-1] for r in runs)
    rows = np.unique(np.linspace(runs[0]["training", "reward"].step[0], last, POINTS).round())
    for axis, name in zip(axes, PANELS, strict=True):
        for split, colour in (("training", "tab:blue"), ("validation", "tab:orange")):
            curves = [r[split, name] for r in runs if (split, name) in r]
            if len(curves) < len(runs):
                continue
            at = np.unique(np.concatenate([c.step for c in curves])).astype(float)
            mean, low, high = band(curves, at)
            style = "o-" if split == "validation" else "-"
            axis.plot(at, mean, style, color=colour, label=split, lw=1.5, ms=3)
            axis.fill_between(at, low, high, color=colour, alpha=0.2, lw=0)
            table[f"{split} {name}"] = band(curves, rows)
        axis.set_title(name.capitalize(), fontsize=10)
        axis.set_xlabel("iterations")
        axis.grid(alpha=0.3)
        if name != "reward":
            axis.set_ylim(-0.02, 1.02)
    axes[1].legend(fontsize=8, loc="lower right")
    figure.suptitle(f"{len(runs)} runs: mean, least and greatest", fontsize=9)
    figure.tight_layout()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.out, dpi=130)
    print("| iterations | " + " | ".join(table) + " |")
    print("|---|" + "---|" * len(table))
    for k, step in enumerate(rows):
        cells = [
            "–" if np.isnan(m[k]) else f"{m[k]:.3g} ({lo[k]:.3g} … {hi[k]:.3g})"
            for m, lo, hi in table.values()
        ]
        print(f"| {step:.0f} | " + " | ".join(cells) + " |")
    print(args.out)


if __name__ == "__main__":
    main()
