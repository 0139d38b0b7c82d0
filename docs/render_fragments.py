"""Write the tables of docs/fragments.md from results/fragments.txt and results/pins.txt.

    python docs/render_fragments.py

A line of such a file that begins with ``$`` is the command that printed what follows.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "fragments.md"


def fragments() -> str:
    """Grid, Neighbor, gap and strangers, a row per way of cutting."""
    out = [
        "| gap | missing | strangers | JPEG | seed | grid found | Neighbor | gap off by "
        "| strangers left out | others left out |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    text = (ROOT / "results" / "fragments.txt").read_text("utf-8")
    heads = re.findall(
        r"^gap (\d+) px.*?, (\d+) missing, (\d+) strangers.*, seed (\d+)"
        r"(?:, JPEGs of quality (\d+))?\n.*\n(?:.*\n)*?"
        r"^both +\d+ +(.*)$",
        text,
        re.MULTILINE,
    )
    for gap, missing, strangers, seed, jpeg, figures in heads:
        grid, neighbor, off, _, *left = figures.split()
        strange = f"{float(left[0]):.0f} %" if int(strangers) else ""
        out.append(
            f"| {gap} px | {missing} | {strangers} | {jpeg} | {seed} | {float(grid):g} % "
            f"| {neighbor} | {off} px | {strange} | {left[-1]} |"
        )
    return "\n".join(out)


def blocks(text: str) -> list[str]:
    """What each command printed."""
    return re.split(r"^\$ .*\n", text, flags=re.MULTILINE)[1:]


def first_pins() -> str:
    """What the first pin is worth, whichever it is; a row per kind of puzzles."""
    out = [
        "| pictures | wrong puzzles | Neighbor before | after | all right | made Neighbor fall |",
        "|---|---|---|---|---|---|",
    ]
    for block in blocks((ROOT / "results" / "pins.txt").read_text("utf-8")):
        found = re.search(
            r"^(.*), \d+ puzzles, (\d+) perception-limited.*\n"
            r"mean over puzzles: Neighbor ([\d.]+) before a pin, ([\d.]+) after it; "
            r"all right in ([\d.]+ %)\n"
            r"first pins that made Neighbor fall: (\d+ of \d+), ([\d.]+ %)",
            block,
        )
        if found:
            what, wrong, before, after, right, fell, share = found.groups()
            out.append(f"| {what} | {wrong} | {before} | {after} | {right} | {share} ({fell}) |")
    return "\n".join(out)


def pins() -> str:
    """What pins are worth, a row per run."""
    out = [
        "| seed | after a pin | wrong puzzles | Neighbor after 0, 1, 2, … pins "
        "| pins until perfect: median, mean, most | pins that made Neighbor fall |",
        "|---|---|---|---|---|---|",
    ]
    text = (ROOT / "results" / "pins.txt").read_text("utf-8")
    for block in blocks(text):
        if "first pins" in block:
            continue
        head = re.search(r"(\d+) perception-limited, seed (\d+): (.*)", block)
        most = re.search(r"median (\d+), mean ([\d.]+), most (\d+)", block)
        fell = re.search(r"fall: (\d+ of \d+)", block)
        assert head is not None
        assert most is not None
        assert fell is not None
        course = " ".join(re.findall(r"^ *\d+ +\d+ +([\d.]+) +\d+$", block, re.MULTILINE))
        out.append(
            f"| {head[2]} | {head[3]} | {head[1]} | {course} | {', '.join(most.groups())} "
            f"| {fell[1]} |"
        )
    return "\n".join(out)


def page(text: str) -> str:
    """``text`` of the page with its tables up to date."""
    tables = (("fragments", fragments()), ("pins", pins()), ("first pins", first_pins()))
    for name, table in tables:
        marks = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, rest = text.split(marks[0])
        _, after = rest.split(marks[1])
        text = f"{before}{marks[0]}\n{table}\n{marks[1]}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
