"""Networks of PDN-GA (Song et al. 2023): a pairwise net and a puzzlet (2×2) net.

A shared trunk turns each fragment, scaled to 64×64, into maps. What two fragments say of each
other is read off the facing columns (or rows) of their maps, row by row, by convolutions along the
seam: a `Link`. The pairwise net scores a link; it also says in which cell of a 5×5 grid a fragment
belongs. The puzzlet net, with a trunk and links of its own, joins the four links of a 2×2 and the
four fragments, and scores them together. All scores are logits; the system uses their sigmoid.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import SherdError
from .pixels import SIDE, to_squares
from .weights import Rival, load_rival

SYSTEM = "pdn-ga"
ROWS = 16
"""Positions along a side."""
GRID = (5, 5)
"""The grid whose cells the position scores are about."""
GUESS = 4.0 / 64.0
"""Missing pixels, as a share of a fragment's side, where the gap is unknown."""


@dataclass(frozen=True)
class PdnConfig:
    """Sizes of the networks."""

    pair: tuple[int, int, int] = (32, 64, 112)
    """Channels of the pairwise net's trunk at 32, 16 and 8 px."""
    puzzlet: tuple[int, int, int] = (24, 48, 96)
    """The same of the puzzlet net."""
    strip: int = 32
    """Channels of a side."""
    seam: int = 64
    """Channels along a seam."""
    link: int = 32
    """Length of what a link says."""
    hidden: int = 96
    """Units of the puzzlet head, and of the position head."""

    def __post_init__(self) -> None:
        for name in ("pair", "puzzlet"):
            widths = getattr(self, name)
            if len(widths) != 3 or min(widths) < 1:
                raise SherdError(f"{name}: {widths}; expected three widths of at least 1")
        for name in ("strip", "seam", "link", "hidden"):
            if getattr(self, name) < 1:
                raise SherdError(f"{name}: {getattr(self, name)}; expected at least 1")


def _conv(inside: int, outside: int, stride: int = 1) -> nn.Sequential:
    """Normalised over the fragments at hand, a puzzle's when it is solved: kinds of puzzle differ
    too much for statistics of all of them (half as many neighbours are found with these)."""
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
        nn.BatchNorm2d(outside, track_running_stats=False),
    )


class Block(nn.Module):
    """Halves a map, then a residual pair of convolutions."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.down = _conv(inside, outside, 2)
        self.one, self.two = _conv(outside, outside), _conv(outside, outside)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.down(x))
        return F.relu(x + self.two(F.relu(self.one(x))))


class Trunk(nn.Module):
    """Fragments → descriptions of their sides, and of themselves."""

    def __init__(self, widths: tuple[int, int, int], strip: int) -> None:
        super().__init__()
        a, b, c = widths
        self.first = _conv(4, a, 2)
        self.second, self.third = Block(a, b), Block(b, c)
        self.sides = nn.ModuleList(nn.Conv1d(2 * a + 2 * b + c, strip, 1) for _ in range(4))

    def forward(self, squares: Tensor, gap: Tensor) -> tuple[Tensor, Tensor]:
        """``(n, 3, 64, 64)`` and the missing share of a side ``(n,)`` → sides, map.

        Sides: ``(4, n, strip, 16)`` of top, right, bottom, left; map: ``(n, c, 8, 8)``.
        """
        about = (8.0 * gap).view(-1, 1, 1, 1).expand(-1, 1, SIDE, SIDE)
        fine = F.relu(self.first(torch.cat([squares - 0.5, about], 1)))  # (n, a, 32, 32)
        middle = self.second(fine)  # (n, b, 16, 16)
        coarse = self.third(middle)  # (n, c, 8, 8)
        sides = []
        for side, project in enumerate(self.sides):
            f, m, c = (_turned(x, side) for x in (fine, middle, coarse))
            parts = [
                f[..., 0].unflatten(2, (ROWS, 2)).transpose(2, 3).flatten(1, 2),  # (n, 2a, 16)
                m[..., :2].transpose(2, 3).flatten(1, 2),  # (n, 2b, 16)
                c[..., 0].repeat_interleave(2, 2),  # (n, c, 16)
            ]
            sides.append(project(torch.cat(parts, 1)))
        return torch.stack(sides), coarse


def _turned(x: Tensor, side: int) -> Tensor:
    """``x (n, c, s, s)`` such that its ``side`` is column 0, rows in reading order."""
    if side % 2 == 0:
        x = x.transpose(2, 3)
    return x.flip(3) if side in (1, 2) else x


class Link(nn.Module):
    """Two facing sides → what they say of each other, by convolutions along the seam."""

    def __init__(self, cfg: PdnConfig) -> None:
        super().__init__()
        # a convolution of both sides together is the sum of one of each: done once per fragment
        self.one = nn.Conv1d(cfg.strip, cfg.seam, 3, padding=1)
        self.other = nn.Conv1d(cfg.strip, cfg.seam, 3, padding=1, bias=False)
        self.second = nn.Conv1d(cfg.seam, cfg.seam, 3, 2, 1)
        self.third = nn.Conv1d(cfg.seam, cfg.seam, 3, 2, 1)
        self.out = nn.Linear(cfg.seam * ROWS // 4, cfg.link)

    def forward(self, both: Tensor) -> Tensor:
        """Sums ``(k, seam, 16)`` of what `one` and `other` made of the sides → ``(k, link)``."""
        x = F.relu(self.third(F.relu(self.second(F.relu(both)))))
        return F.relu(self.out(x.flatten(1)))


@dataclass(frozen=True)
class Seen:
    """What a net keeps of ``n`` fragments."""

    first: tuple[Tensor, Tensor]
    """``(n, seam, 16)`` right and bottom sides, as the first of a link."""
    second: tuple[Tensor, Tensor]
    """``(n, seam, 16)`` left and top sides, as the second of a link."""
    map: Tensor
    """``(n, c, 8, 8)``."""


class _Net(nn.Module):
    """Trunk and links, which both nets have."""

    def __init__(self, cfg: PdnConfig, widths: tuple[int, int, int]) -> None:
        super().__init__()
        self.trunk = Trunk(widths, cfg.strip)
        self.links = nn.ModuleList(Link(cfg) for _ in range(2))

    def see(self, squares: Tensor, gap: Tensor) -> Seen:
        """Look at fragments ``(n, 3, 64, 64)``; ``gap (n,)``: missing share of a side."""
        sides, coarse = self.trunk(squares, gap)
        across, down = self.links
        return Seen(
            (across.one(sides[1]), down.one(sides[2])),  # type: ignore[operator]
            (across.other(sides[3]), down.other(sides[0])),  # type: ignore[operator]
            coarse,
        )

    def link(self, seen: Seen, i: Tensor, j: Tensor, direction: int) -> Tensor:
        """``(k, link)``: j right of (direction 0) or below (1) i."""
        out: Tensor = self.links[direction](seen.first[direction][i] + seen.second[direction][j])
        return out

    def all_links(self, seen: Seen, direction: int, puzzles: int = 1) -> Tensor:
        """``(puzzles·n·n, link)``: every ordered pair of fragments of a puzzle."""
        first, second = (
            side[direction].unflatten(0, (puzzles, -1)) for side in (seen.first, seen.second)
        )
        both = first[:, :, None] + second[:, None]  # (puzzles, n, n, seam, 16)
        out: Tensor = self.links[direction](both.flatten(0, 2))
        return out


class PairNet(_Net):
    """Scores of pairs, and of places in a 5×5 grid."""

    def __init__(self, cfg: PdnConfig) -> None:
        super().__init__(cfg, cfg.pair)
        self.scores = nn.ModuleList(nn.Linear(cfg.link, 1) for _ in range(2))
        self.place = nn.Sequential(  # dropout: pictures are few, and places are learned by heart
            nn.Dropout(0.2), nn.Linear(5 * cfg.pair[2], cfg.hidden), nn.ReLU(),
            nn.Dropout(0.2), nn.Linear(cfg.hidden, 25),
        )  # fmt: skip

    def pairs(self, seen: Seen, direction: int, puzzles: int = 1) -> Tensor:
        """Logits ``(puzzles, n, n)``: j right of (direction 0) or below (1) i."""
        logits: Tensor = self.scores[direction](self.all_links(seen, direction, puzzles))
        n = len(seen.map) // puzzles
        return logits.view(puzzles, n, n)

    def places(self, seen: Seen, puzzles: int) -> Tensor:
        """Logits ``(puzzles, n, 25)`` of the cells, from the fragment and all of its puzzle."""
        own = F.adaptive_avg_pool2d(seen.map, 2).flatten(1).unflatten(0, (puzzles, -1))
        whole = seen.map.mean((2, 3)).unflatten(0, (puzzles, -1)).mean(1, keepdim=True)
        out: Tensor = self.place(torch.cat([own, whole.expand(-1, own.shape[1], -1)], 2))
        return out


class PuzzletNet(_Net):
    """Scores of 2×2 puzzlets."""

    def __init__(self, cfg: PdnConfig) -> None:
        super().__init__(cfg, cfg.puzzlet)
        self.roles = nn.ModuleList(nn.Linear(4 * cfg.puzzlet[2], cfg.link) for _ in range(4))
        self.head = nn.Sequential(
            nn.Linear(8 * cfg.link, cfg.hidden), nn.ReLU(),
            nn.Linear(cfg.hidden, cfg.link), nn.ReLU(), nn.Linear(cfg.link, 1),
        )  # fmt: skip

    def parts(self, seen: Seen) -> Tensor:
        """``(4, n, link)``: what a fragment says as top left, top right, bottom left, right."""
        own = F.adaptive_avg_pool2d(seen.map, 2).flatten(1)
        return torch.stack([F.relu(role(own)) for role in self.roles])

    def join(self, links: Tensor, parts: Tensor) -> Tensor:
        """Logits ``(k,)`` of links (top, bottom, left, right) and parts, ``(k, 4, link)`` each."""
        out: Tensor = self.head(torch.cat([links, parts], 1).flatten(1))
        return out[:, 0]

    def puzzlets(self, seen: Seen, quads: Tensor) -> Tensor:
        """Logits ``(k,)`` of ``quads (k, 4)``: top left, top right, bottom left, bottom right."""
        a, b, c, d = quads.unbind(1)
        links = [
            *self.link(seen, torch.cat([a, c]), torch.cat([b, d]), 0).chunk(2),
            *self.link(seen, torch.cat([a, b]), torch.cat([c, d]), 1).chunk(2),
        ]
        parts = self.parts(seen)
        roles = torch.stack([parts[k, quads[:, k]] for k in range(4)], 1)
        return self.join(torch.stack(links, 1), roles)


class Pdn(nn.Module):
    """Both nets."""

    def __init__(self, cfg: PdnConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.pair = PairNet(cfg)
        self.puzzlet = PuzzletNet(cfg)


def _rows(net: _Net, seen: Seen, direction: int) -> Tensor:
    """``(n·n, link)``: every ordered pair, some rows at a time to spare memory."""
    first, second = seen.first[direction], seen.second[direction]
    link = net.links[direction]
    chunk = max(1, 2048 // len(second))
    parts = [link((f[:, None] + second).flatten(0, 1)) for f in first.split(chunk)]
    return torch.cat(parts)


class Scores:
    """Everything the networks say of one puzzle, probabilities in 0..1."""

    def __init__(self, net: Pdn, pieces: np.ndarray, missing: int | None) -> None:
        """``pieces (n, h, w, 3) uint8`` with ``missing`` px between them, None = unknown."""
        net = net.eval()
        x = torch.from_numpy(np.ascontiguousarray(pieces)).permute(0, 3, 1, 2).float() / 255.0
        share = GUESS if missing is None else missing / pieces.shape[2]
        squares, gap = to_squares(x), torch.full((len(x),), share)
        self.n = len(x)
        with torch.inference_mode():
            seen = net.pair.see(squares, gap)
            tables = []
            for d in (0, 1):
                logits = net.pair.scores[d](_rows(net.pair, seen, d))[:, 0]
                tables.append(logits.sigmoid().view(self.n, self.n).numpy())
            self.right, self.below = tables
            """``(n, n) float32`` each: j right of i, j below i."""
            self.place = net.pair.places(seen, 1)[0].softmax(1).numpy()
            """``(n, 25) float32``: fragment i in a cell of a 5×5 grid."""
            seen = net.puzzlet.see(squares, gap)
            self._links = [_rows(net.puzzlet, seen, d) for d in (0, 1)]
            self._parts = net.puzzlet.parts(seen)
        self._net = net.puzzlet

    @torch.inference_mode()
    def puzzlets(self, quads: np.ndarray, chunk: int = 8192) -> np.ndarray:
        """``(k,) float32`` of ``quads (k, 4)``: top left, top right, bottom left, bottom right."""
        across, down = self._links
        n, out = self.n, []
        for q in torch.from_numpy(np.ascontiguousarray(quads, dtype=np.int64)).split(chunk):
            a, b, c, d = q.unbind(1)
            links = (across[a * n + b], across[c * n + d], down[a * n + c], down[b * n + d])
            parts = [self._parts[k, q[:, k]] for k in range(4)]
            out.append(self._net.join(torch.stack(links, 1), torch.stack(parts, 1)).sigmoid())
        return torch.cat(out).numpy() if out else np.zeros(0, dtype=np.float32)


def load_pdn(path: str | Path | None = None) -> Rival[Pdn]:
    """The networks at ``path``, or those that come with sherd."""
    return load_rival(SYSTEM, PdnConfig, Pdn, path)
