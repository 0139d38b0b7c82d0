"""``report.html``: a result to keep, send and print; one file, nothing is fetched from anywhere."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from ..pictures import render_board
from ..pictures.style import confidence_colours
from ..puzzle import EMPTY

if TYPE_CHECKING:
    from .result import Alternative, Reassembly

LONG_SIDE = 1400
"""Longest side of the large pictures in pixels; assembled.png has all of them."""
SMALL_SIDE = 700
GRIDS = 8
"""Grids that are listed."""

STYLE = """
:root { --ink: #34302c; --faint: #6f675d; --paper: #f7f4ee; --line: #dad3c6; --card: #fffdf9; }
@media (prefers-color-scheme: dark) { :root { --ink: #ece7df; --faint: #a79f93; --paper: #211f1c;
  --line: #47423b; --card: #2a2723; } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 76rem; padding: 2rem 1.25rem 4rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.7rem; margin: 0 0 .25rem } h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem }
p, li, figcaption, .faint { color: var(--faint) } b, td, th { color: var(--ink) }
img { display: block; width: 100%; height: auto; border: 1px solid var(--line) }
figure { margin: 0 } figcaption { margin-top: .4rem; font-size: .9rem }
.cards { display: grid; gap: 1.25rem; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)) }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: .8rem }
.plain td, .plain th { padding: .2rem .9rem .2rem 0; text-align: left;
  font-variant-numeric: tabular-nums }
.layout td { border: 1px solid var(--line); background: var(--card); padding: .35rem .45rem;
  min-width: 5rem; max-width: 9rem; overflow-wrap: anywhere; vertical-align: top }
.layout td.unsure { outline: 3px solid #d55e00; outline-offset: -3px }
.layout td.empty { background: repeating-linear-gradient(45deg, var(--paper) 0 6px,
  var(--line) 6px 7px) }
.bar { display: block; height: .3rem; margin-top: .3rem; border-radius: 2px }
.key { display: inline-block; width: 6rem; height: .6rem; vertical-align: baseline;
  background: linear-gradient(90deg, #d55e00, #f0d242, #009e73) }
@media print { body { max-width: none } h2 { break-after: avoid } figure { break-inside: avoid } }
"""
UNSURE = 0.5
"""Confidence below which a cell is marked in the layout."""


def report_html(result: Reassembly, title: str = "Reassembled") -> str:
    """The report as one HTML page."""
    parts = [
        _head(result, title),
        _pictures(result),
        _alternatives(result),
        _layout(result),
        _grids(result),
        _about(result),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "img-src data:; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _head(result: Reassembly, title: str) -> str:
    rows, cols = result.board.shape
    placed = int((result.board != EMPTY).sum())
    sure = result.confidence[result.board != EMPTY]
    mean = f", mean confidence {100 * float(sure.mean()):.0f} %" if len(sure) else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
    return (
        f"<h1>{escape(title)}</h1><p>{placed} of {result.puzzle.n} pieces placed on {rows} rows "
        f"and {cols} columns{mean}.</p>" + (f"<ul>{notes}</ul>" if notes else "")
    )


def _pictures(result: Reassembly) -> str:
    plain = _img(result.image(), LONG_SIDE, "The reassembled picture")
    framed = _img(result.image(confidence=True), LONG_SIDE, "The same, framed by confidence")
    return (
        f"<h2>Picture</h2><figure>{plain}</figure>"
        f"<h2>Confidence</h2><figure>{framed}<figcaption>unsure <span class=key></span> sure: how "
        "likely each piece is in its place, its neighbours given</figcaption></figure>"
    )


def _alternatives(result: Reassembly) -> str:
    if not result.alternatives:
        return "<h2>Alternatives</h2><p>No other board comes near this one.</p>"
    cards = "".join(_card(result, k, a) for k, a in enumerate(result.alternatives, 1))
    return (
        "<h2>Alternatives</h2><p>Boards that are nearly as likely. Pieces that lie elsewhere than "
        f"in the picture above are faded.</p><div class=cards>{cards}</div>"
    )


def _card(result: Reassembly, number: int, other: Alternative) -> str:
    drawn = render_board(result.puzzle, other.board, truth=result.board)
    count = int(other.differs.sum())
    where = ", ".join(f"({r}, {c})" for r, c in np.argwhere(other.differs)[:6])
    more = f" and {count - 6} more" if count > 6 else ""
    return (
        f"<figure>{_img(drawn, SMALL_SIDE, f'Alternative {number}')}<figcaption><b>"
        f"{100 * other.odds:.0f} to 100</b> against the best; score {other.score:.1f}, best "
        f"{result.score:.1f}; differs in {where}{more}</figcaption></figure>"
    )


def _layout(result: Reassembly) -> str:
    rows = "".join(f"<tr>{''.join(_cells(result, r))}</tr>" for r in range(len(result.board)))
    out = [escape(result.names[k]) for k in result.unplaced]
    rest = f"<p>Not placed: {', '.join(out)}</p>" if out else ""
    return (
        f"<h2>Layout</h2><div class=scroll><table class=layout>{rows}</table></div>{rest}"
        "<p>The same as a table: layout.csv.</p>"
    )


def _cells(result: Reassembly, row: int) -> Iterator[str]:
    for piece, sure in zip(result.board[row], result.confidence[row], strict=True):
        if piece == EMPTY:
            yield "<td class=empty></td>"
            continue
        r, g, b = confidence_colours(np.array(sure))
        width = max(4, round(100 * float(sure)))
        mark = " class=unsure" if sure < UNSURE else ""
        yield (
            f"<td{mark}>{escape(result.names[piece])}<br><span class=faint>"
            f"{100 * float(sure):.0f} %</span><span class=bar style='width:{width}%;"
            f"background:rgb({r},{g},{b})'></span></td>"
        )


def _grids(result: Reassembly) -> str:
    if not result.grids:
        return ""
    best = result.grids[0].score
    lines = "".join(
        f"<tr><td>{t.grid[0]}x{t.grid[1]}</td><td>{best - t.score:.1f}</td><td>{t.missing}</td>"
        f"<td>{t.spare}</td></tr>"
        for t in result.grids[:GRIDS]
    )
    return (
        f"<h2>Grids</h2><p>The grid was not given; {len(result.grids)} were tried.</p>"
        "<table class=plain><tr><th>rows x columns</th><th>nats behind the best</th>"
        f"<th>cells without a piece</th><th>pieces without a cell</th></tr>{lines}</table>"
    )


def _about(result: Reassembly) -> str:
    from .. import __version__

    gap = "unknown" if result.puzzle.gap is None else f"{result.puzzle.gap} px"
    return (
        f"<h2>How it was made</h2><p>sherd {__version__}, system {escape(result.system)}, seed "
        f"{result.seed}, gap {gap}, {result.timings.get('total', 0.0):.1f} s, score "
        f"{result.score:.1f} nats against chance.</p>"
    )


def _img(picture: np.ndarray, longest: int, alt: str) -> str:
    """The picture inside the page, no larger than ``longest`` pixels."""
    image = Image.fromarray(picture)
    image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    image.save(data, "JPEG", quality=88, optimize=True)
    text = base64.b64encode(data.getvalue()).decode("ascii")
    size = f'width="{image.width}" height="{image.height}"'
    return f'<img {size} alt="{escape(alt)}" src="data:image/jpeg;base64,{text}">'
