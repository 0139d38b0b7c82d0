"""The results in README.md and docs are those of the files behind them."""

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


def test_the_page_on_fragments_shows_what_its_result_files_say() -> None:
    parts = runpy.run_path(str(ROOT / "docs" / "render_fragments.py"))
    text = (ROOT / "docs" / "fragments.md").read_text("utf-8")
    assert parts["page"](text) == text, "run python docs/render_fragments.py"
    assert parts["fragments"]().count("\n") > 2
    assert parts["pins"]().count("\n") > 2
