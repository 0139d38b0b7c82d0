"""The results in README.md and docs/results.md are those of the files behind them."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_pages_show_what_the_result_files_say() -> None:
    if (ROOT / "results" / "paper").is_dir():
        render = runpy.run_path(str(ROOT / "docs" / "render_results.py"))
        for path, text in render["pages"](ROOT / "results" / "paper").items():
            assert path.read_text("utf-8") == text, f"run docs/render_results.py: {path.name}"
        return
    parts = runpy.run_path(str(ROOT / "docs" / "render_earlier.py"))
    text = (ROOT / "README.md").read_text("utf-8")
    for table in ("classical", "networked", "search"):
        assert parts[table]() in text, f"run python docs/render_earlier.py: {table} is out of date"
