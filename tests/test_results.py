"""The results in README.md are those of the files behind them."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_readme_shows_what_the_result_files_say() -> None:
    parts = runpy.run_path(str(ROOT / "docs" / "render_results.py"))
    text = (ROOT / "README.md").read_text("utf-8")
    for table in ("classical", "networked", "search"):
        assert parts[table]() in text, f"run python docs/render_results.py: {table} is out of date"
