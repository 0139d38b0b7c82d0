"""How good perception is on validation puzzles, and the temperatures that make it honest."""

from __future__ import annotations

import io
import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from ..data.cutting import Erode, Geometry, cut
from ..perception.mppn.config import PIVOT_GAP, Calibration
from ..perception.mppn.network import MPPN
from ..perception.mppn.seams import seam_logits
from .losses import Grid, Pairs, draw_puzzlets, score_pairs, score_puzzlets
from .store import Store

TEMPERATURES = torch.exp(torch.linspace(math.log(0.4), math.log(6.0), 55))
CANDIDATES = 16


@dataclass(frozen=True)
class Cell:
    """One row of the validation table."""

    name: str
    kind: str
    grid: tuple[int, int]
    piece: int
    gap: int
    erode: Erode = "between"
    jitter: int = 0
    jpeg: int = 0
    """Quality of the JPEG that every fragment was; 0 = none."""

    @property
    def geometry(self) -> Geometry:
        """How its pictures are cut."""
        side = (self.piece, self.piece)
        return Geometry(self.grid, side, self.gap, self.erode, self.jitter)


CELLS = (
    Cell("photo-gap2", "photos", (7, 10), 64, 2),
    Cell("photo-gap4", "photos", (7, 10), 64, 4),
    Cell("photo-side2", "photos", (7, 10), 64, 2, "side"),
    Cell("photo-side4", "photos", (7, 10), 64, 4, "side"),
    Cell("photo-28px", "photos", (14, 18), 28, 2),
    Cell("art-gap12", "art5", (5, 5), 96, 12, jitter=3),
    Cell("photo-gap4-jpeg", "photos", (7, 10), 64, 4, jpeg=85),
    Cell("art-gap12-jpeg", "art5", (5, 5), 96, 12, jitter=3, jpeg=85),
)


@dataclass(frozen=True)
class Puzzles:
    """The puzzles of one cell: pieces of all of them shuffled by one permutation."""

    cell: Cell
    pieces: Tensor
    """``(puzzles, n, h, w, 3) uint8``."""
    grid: Grid


def cut_cells(
    store: Store, cells: tuple[Cell, ...], limit: int, device: torch.device, workers: int = 16
) -> list[Puzzles]:
    """Cut pictures as test pictures are cut, at most ``limit`` per cell (0 = all)."""
    out = []
    with ThreadPoolExecutor(workers) as pool:
        for row, cell in enumerate(cells):
            images = store.images[cell.kind]
            if limit and len(images) > limit:
                images = [images[i] for i in np.linspace(0, len(images) - 1, limit).astype(int)]
            if not images:
                continue
            rng = np.random.default_rng([row, 1])
            order = rng.permutation(cell.grid[0] * cell.grid[1])
            jobs = list(zip(images, rng.spawn(len(images)), strict=True))

            def pieces(
                job: tuple[Tensor, np.random.Generator],
                cell: Cell = cell,
                order: np.ndarray = order,
            ) -> np.ndarray:
                picture = job[0].permute(1, 2, 0).cpu().numpy()
                cut_out = cut(picture, cell.geometry, rng=job[1]).puzzle.pieces[order]
                return from_files(cut_out, cell.jpeg) if cell.jpeg else cut_out

            stacked = torch.from_numpy(np.stack(list(pool.map(pieces, jobs)))).to(device)
            grid = Grid.of(cell.grid, device).reordered(torch.from_numpy(order).to(device))
            out.append(Puzzles(cell, stacked, grid))
    return out


def from_files(pieces: np.ndarray, quality: int) -> np.ndarray:
    """``(n, h, w, 3) uint8`` as they come back from JPEG files of this quality."""
    out = np.empty_like(pieces)
    for k, piece in enumerate(pieces):
        file = io.BytesIO()
        Image.fromarray(piece).save(file, "JPEG", quality=quality)
        out[k] = np.asarray(Image.open(file))
    return out


def neighbours(logits: Tensor, grid: Grid, direction: int) -> tuple[Tensor, Tensor]:
    """Rows and columns that have a neighbour, ``(k, n)``, and its index ``(k,)``."""
    b = len(logits)
    rows, targets = [], []
    for m, want in ((logits, grid.after), (logits.transpose(1, 2), grid.before)):
        target = want[direction]
        rows.append(m[:, target >= 0].flatten(0, 1))
        targets.append(target[target >= 0].repeat(b))
    return torch.cat(rows), torch.cat(targets)


def auc(scores: Tensor, labels: Tensor) -> float:
    """Area under the ROC curve; ties count half."""
    values, ranks = torch.unique(scores.double(), return_inverse=True)
    hits = torch.bincount(ranks[labels > 0.5], minlength=len(values)).double()
    misses = torch.bincount(ranks[labels <= 0.5], minlength=len(values)).double()
    below = misses.cumsum(0) - misses
    pairs = hits.sum() * misses.sum()
    return float(((hits * (below + 0.5 * misses)).sum() / pairs.clamp(min=1.0)).item())


def expected_calibration_error(logits: Tensor, target: Tensor, bins: int = 15) -> float:
    """Mean gap between confidence and accuracy of the top choice, over equal bins."""
    confidence, choice = logits.softmax(1).max(1)
    right = (choice == target).float()
    which = (confidence * bins).long().clamp(max=bins - 1)
    total = torch.zeros(bins, device=logits.device)
    gap = total.index_add(0, which, right - confidence)
    return float((gap.abs().sum() / len(right)).item())


@dataclass(frozen=True)
class CellReport:
    """Figures of one cell, and its loss at every temperature."""

    cell: Cell
    figures: dict[str, float]
    pair_nll: Tensor
    border_nll: Tensor
    puzzlet_nll: Tensor


def _curve(loss: list[Tensor]) -> Tensor:
    return torch.stack(loss).cpu()


def evaluate_cell(
    net: MPPN, puzzles: Puzzles, autocast: AbstractContextManager[None], most: int = 1500
) -> CellReport:
    """Perceive the puzzles of one cell; ``most`` pieces at a time."""
    cell, grid = puzzles.cell, puzzles.grid
    device = puzzles.pieces.device
    n = puzzles.pieces.shape[1]
    generator = torch.Generator(device).manual_seed(7)
    plain: list[Tensor] = []
    fused: list[Tensor] = []
    target: list[Tensor] = []
    border: list[Tensor] = []
    groups: list[Tensor] = []
    for chunk in puzzles.pieces.split(max(1, most // n)):
        b = len(chunk)
        pieces = chunk.flatten(0, 1).permute(0, 3, 1, 2).float() / 255.0
        gap = torch.full((len(pieces),), float(cell.geometry.missing), device=device)
        with autocast:
            x = net.encode(pieces, gap)
            tokens = net.tokens(x, b)
            pairs: list[Pairs] = []
            seams = seam_logits(pieces.unflatten(0, (b, n)), [cell.geometry.missing] * b)
            for direction in (0, 1):
                base = net.base(x, tokens, seams[direction], direction)
                pairs.append(score_pairs(net, x, base, direction, None, CANDIDATES))
                s, t = neighbours(base.score, grid, direction)
                plain.append(s)
                fused.append(neighbours(pairs[-1].fused, grid, direction)[0])
                target.append(t)
            border.append(net.border_logits(x, tokens).float())
            members = draw_puzzlets(pairs, grid, 8, generator)
            groups.append(score_puzzlets(net, x, members, pairs).flatten(0, 1))
    s, f, t = torch.cat(plain), torch.cat(fused), torch.cat(target)
    edge = torch.cat(border)
    rim = grid.rim.expand_as(edge)
    group = torch.cat(groups)
    figures = {
        "base": float((s.argmax(1) == t).float().mean().item()),
        "fused": float((f.argmax(1) == t).float().mean().item()),
        "nll": float(F.cross_entropy(f, t).item()),
        "ece": expected_calibration_error(f, t),
        "border_auc": auc(edge.flatten(), rim.flatten()),
        "puzzlet": float((group.argmax(1) == 0).float().mean().item()),
    }
    zero = torch.zeros(len(group), dtype=torch.long, device=device)
    return CellReport(
        cell,
        figures,
        _curve([F.cross_entropy(f / k, t) for k in TEMPERATURES.tolist()]),
        _curve([F.binary_cross_entropy_with_logits(edge / k, rim) for k in TEMPERATURES.tolist()]),
        _curve([F.cross_entropy(group / k, zero) for k in TEMPERATURES.tolist()]),
    )


def evaluate(
    net: MPPN, cells: list[Puzzles], autocast: AbstractContextManager[None]
) -> list[CellReport]:
    """Figures of every cell."""
    net.eval()
    with torch.no_grad():
        return [evaluate_cell(net, puzzles, autocast) for puzzles in cells]


def calibrate(reports: list[CellReport]) -> Calibration:
    """Temperatures that minimise the loss on validation puzzles.

    The pair heads' may depend on the gap: a line through the cells' best log-temperatures. JPEGs
    are looked at, but no figure follows them.
    """
    reports = [r for r in reports if not r.cell.jpeg]
    if not reports:
        return Calibration()

    def best(curves: list[Tensor]) -> float:
        return float(TEMPERATURES[int(torch.stack(curves).mean(0).argmin())])

    x = np.log1p([float(r.cell.geometry.missing) for r in reports])
    y = np.log([best([r.pair_nll]) for r in reports])
    slope = float(np.polyfit(x, y, 1)[0]) if len(set(x.tolist())) > 2 else 0.0
    level = float(y.mean() - slope * (x.mean() - math.log1p(PIVOT_GAP)))
    return Calibration(
        pair=math.exp(level),
        pair_slope=slope,
        border=best([r.border_nll for r in reports]),
        puzzlet=best([r.puzzlet_nll for r in reports]),
    )
