"""The notebook runs from top to bottom."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

NOTEBOOK = Path(__file__).parent.parent / "docs" / "fragments.ipynb"


def run_cell(source: str, space: dict[str, Any]) -> Any:
    """Execute a cell; the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), space)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), space)


def test_the_notebook_says_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    book = json.loads(NOTEBOOK.read_text("utf-8"))
    assert book["nbformat"] == 4
    cells = [c for c in book["cells"] if c["cell_type"] == "code"]
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in cells)
    space: dict[str, Any] = {}
    values = [run_cell("".join(c["source"]), space) for c in cells]
    printed = capsys.readouterr().out
    assert values[0] == 28
    result = space["result"]
    assert result.board.shape == (5, 6)
    assert "grid: 5x6" in printed
    assert "scaled from" in printed
    order = np.random.default_rng(0).permutation(30)[:28]
    names = [f"scan{k}.png" for k in range(28)]
    found = {
        int(order[names.index(result.names[p])]): cell
        for cell, p in enumerate(result.board.ravel())
        if p >= 0
    }
    assert all(piece == cell for piece, cell in found.items())  # every piece is in its place
    height, width = result.image().shape[:2]
    assert values[3].size == (width, height)
    assert bool(values[4])  # true claims change nothing
    assert "no place is left for" in printed
    assert values[-1] == ["assembled.png", "layout.csv", "report.html", "result.json"]
