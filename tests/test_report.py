"""The report: one page that fetches nothing and believes no file name."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage import data

import sherd
from sherd import Geometry, cut
from sherd.fragments import Alternative, GridTrial, Reassembly
from sherd.puzzle import EMPTY

NASTY = '<img src=x onerror="alert(1)">.png'


class Page(HTMLParser):
    """Collects tags, their attributes and the text of a page, and checks that tags are closed."""

    VOID = ("meta", "img", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def result() -> Reassembly:
    """A solved puzzle with a hole, a stranger, an alternative and a file of an evil name."""
    whole = cut(data.coffee(), Geometry((3, 4), (40, 48), 2), fit="crop").puzzle
    names = (NASTY, *(f"scan {k}.png" for k in range(1, 12)))
    found = sherd.solve(replace(whole, names=names), system="evolve", seed=1)
    board = whole.truth
    assert board is not None
    board = board.copy()
    board[2, 3] = EMPTY
    other = board.copy()
    other[0, 1], other[1, 2] = board[1, 2], board[0, 1]
    confidence = np.where(board == EMPTY, 0.0, np.linspace(0.1, 1, 12).reshape(3, 4))
    return replace(
        found,
        board=board,
        confidence=confidence,
        notes=("grid: 3x4 & more",),
        grids=(GridTrial((3, 4), 90.0, 0, 0), GridTrial((2, 6), 41.5, 0, 0)),
        alternatives=(Alternative(other, found.score - 1, other != board, 0.6),),
    )


def test_the_page_is_whole_and_fetches_nothing(result: Reassembly) -> None:
    text = result.report("My <print>")
    page = Page(text)
    assert page.open == []
    assert text.startswith("<!doctype html>")
    assert page.all("script") == page.all("link") == page.all("iframe") == []
    assert all((i["src"] or "").startswith("data:image/jpeg;base64,") for i in page.all("img"))
    assert all("onerror" not in i and i["alt"] for i in page.all("img"))
    assert "http://" not in text
    assert "https://" not in text
    policy = [m for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in (policy[0]["content"] or "")
    assert NASTY in page.text  # as text
    assert "My <print>" in page.text


def test_it_says_what_there_is_to_say(result: Reassembly) -> None:
    page = Page(result.report())
    assert "11 of 12 pieces placed on 3 rows and 4 columns" in page.text
    assert "grid: 3x4 & more" in page.text
    assert "60 to 100" in page.text
    assert "differs in (0, 1), (1, 2)" in page.text
    assert "48.5" in page.text  # nats that the second grid is behind
    assert "Not placed: scan 11.png" in page.text
    cells = [c.get("class") for c in page.all("td") if "class" in c]
    assert cells.count("empty") == 1
    assert cells.count("unsure") == int(((result.confidence < 0.5) & (result.board >= 0)).sum())
    pictures = [i["src"] or "" for i in page.all("img")]
    assert len(pictures) == 3
    sizes = [Image.open(io.BytesIO(base64.b64decode(src.split(",")[1]))).size for src in pictures]
    assert sizes[0] == sizes[1] == (result.image().shape[1], result.image().shape[0])
    plain = Page(replace(result, alternatives=(), grids=(), notes=()).report())
    assert "No other board comes near" in plain.text
    assert "Grids" not in plain.text


def test_large_pictures_are_made_smaller(result: Reassembly) -> None:
    large = np.repeat(np.repeat(result.puzzle.pieces, 10, axis=1), 10, axis=2)
    page = Page(replace(result, puzzle=replace(result.puzzle, pieces=large)).report())
    assert max(int(i["width"] or 0) for i in page.all("img")) <= 1400


def test_it_is_written_with_the_result(result: Reassembly, tmp_path: Path) -> None:
    result.save(tmp_path / "out", report=True)
    assert (tmp_path / "out" / "report.html").read_text("utf-8") == result.report()
