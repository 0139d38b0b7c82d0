"""The results in README.md and docs are those of the files behind them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parents[1]


def test_pages_show_what_the_result_files_say() -> None:
    render = runpy.run_path(str(ROOT / "docs" / "render_results.py"))
    for path, text in render["pages"](ROOT / "results" / "paper").items():
        assert path.read_text("utf-8") == text, f"run docs/render_results.py: {path.name}"


def test_the_page_on_fragments_shows_what_its_result_files_say() -> None:
    parts = runpy.run_path(str(ROOT / "docs" / "render_fragments.py"))
    text = (ROOT / "docs" / "fragments.md").read_text("utf-8")
    assert parts["page"](text) == text, "run python docs/render_fragments.py"
    assert parts["fragments"]().count("\n") > 2
    assert parts["pins"]().count("\n") > 2


def test_what_the_docs_say_of_the_agent_was_measured() -> None:
    """Every figure of its tables is that of a result file."""
    text = (ROOT / "docs" / "agent.md").read_text()
    runs = [
        [json.loads(line) for line in (ROOT / f"results/agent/seed{s}.jsonl").open()]
        for s in range(3)
    ]
    steps = [sorted({r["step"] for r in rows if r["kind"] == "val"}) for rows in runs]
    for k in range(3):
        for name in ("perfect", "absolute", "neighbor"):
            means = [
                100 * mean(r[name] for r in rows if r["kind"] == "val" and r["step"] == at[k])
                for rows, at in zip(runs, steps, strict=True)
            ]
            shown = [f"{m:.1f}" for m in means]
            assert (shown[0] if k == 0 else ", ".join(shown)) in text
    lines = (ROOT / "results" / "sherd-evorl.jsonl").read_text().splitlines()
    cells = [c for c in map(json.loads, lines) if c["kind"] is None]
    assert len(cells) == 10
    for cell in cells:
        shown = " / ".join(f"{cell[n]:.1f}" for n in ("perfect", "absolute", "neighbor"))
        assert f"| {shown} |" in text, cell
