"""Boards with what their gaps held: targets, losses and figures of decoder and blend."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..data.cutting import Geometry, fit_image
from ..perception.mppn.blend import Layout, bridges, lay_out, linear_fill
from ..perception.mppn.decoder import Restorer
from ..perception.mppn.network import MPPN
from .data import cut_at, draw_corners, upload
from .evaluate import Cell
from .store import Store

SMOOTH = 1e-3
"""Error, of 1, below which the loss is a parabola."""
CELLS = (
    Cell("photo-gap4", "photos", (5, 7), 64, 4),
    Cell("photo-gap12", "photos", (5, 7), 64, 12),
    Cell("art-gap12", "art5", (5, 5), 96, 12),
    Cell("art-gap12-jitter3", "art5", (5, 5), 96, 12, jitter=3),
)
"""What is watched while training; the discriminator on the last one."""


@dataclass(frozen=True)
class Boards:
    """Puzzles of one geometry, pieces in true order, and what should be recovered."""

    pieces: Tensor
    """``(b·n, 3, h, w)`` in 0..1."""
    layout: Layout
    around: Tensor
    """``(b·n, 3, h + 2·half, w + 2·half)``: the fragments and half of the gaps around them."""
    valid: Tensor
    """``(b·n, 1, ...)``: 1 where ``around`` lies inside the picture, else 0."""
    target: Tensor
    """``(b, 3, H, W)``: the board without gaps."""

    @property
    def puzzles(self) -> int:
        """How many there are."""
        return len(self.target)


def follow(pictures: Tensor, corners: Tensor, layout: Layout) -> Tensor:
    """Pictures as seen between displaced fragments: ``(b, 3, H, W)`` → ``(b, 3, *layout.size)``.

    Fragments of a board lie at their nominal places, although they were cut at ``corners
    (b, n, 2)``. What belongs between two of them is the picture shifted as the one is, at its
    edge, passing over to the shift of the other: linear across a gap.
    """
    b = len(pictures)
    pitch = [s + layout.gap for s in layout.fragment]
    cell = corners.float().view(b, *layout.grid, 2)
    for axis, (vertical, dim) in enumerate(((True, 1), (False, 2))):
        lo, hi, t, _ = bridges(*layout.axis(vertical), pictures.device)
        # the place of a pixel in the picture, by the fragment before it and by the one after it
        shape = [1, 1, 1, 1]
        shape[dim] = -1
        size = len(lo)
        t = t.view(shape)
        near, far = (cell.index_select(dim, at // pitch[axis]) for at in (lo, hi))
        at = torch.arange(size, device=t.device)
        step = [(at - k // pitch[axis] * pitch[axis]).view(shape[:3]).float() for k in (lo, hi)]
        cell = near.lerp(far, t.expand_as(near))
        moved = step[0].lerp(step[1], t[..., 0])
        cell = torch.stack([cell[..., k] + (moved if k == axis else 0.0) for k in (0, 1)], dim=-1)
    h, w = pictures.shape[2:]
    scale = torch.tensor([2.0 / (h - 1), 2.0 / (w - 1)], device=cell.device)
    where = (cell * scale - 1.0).flip(-1)  # grid_sample wants x before y
    out = F.grid_sample(pictures, where, mode="bicubic", padding_mode="border", align_corners=True)
    return out.clamp(0.0, 1.0)


def cut_boards(pictures: Tensor, geometry: Geometry, rng: np.random.Generator) -> Boards:
    """Cut ``pictures (b, 3, H, W)`` in 0..1, of the size that ``geometry`` asks for."""
    b = len(pictures)
    layout = Layout(geometry.grid, geometry.fragment, geometry.missing)
    corners = upload(draw_corners(b, geometry, rng), pictures.device)
    pieces = cut_at(pictures, corners, layout.fragment)
    half = layout.half
    h, w = layout.fragment
    wide = F.pad(pictures, [half] * 4, mode="replicate") if half else pictures
    inside = F.pad(torch.ones_like(pictures[:, :1]), [half] * 4)
    # a corner less half the gap is the corner itself in the wider picture
    around = cut_at(torch.cat([wide, inside], dim=1), corners, (h + 2 * half, w + 2 * half))
    if geometry.jitter:
        target = follow(pictures, corners, layout)
    else:
        top, left = (int(k) for k in geometry.corners()[0])
        height, width = layout.size
        target = pictures[..., top : top + height, left : left + width]
    return Boards(pieces, layout, around[:, :3], around[:, 3:], target)


@dataclass(frozen=True)
class Recovered:
    """What decoder and blend made of boards."""

    parts: Tensor
    """``(b·n, 3, h + 2·half, w + 2·half)``."""
    line: Tensor
    """``(b, 3, H, W)``: gaps filled by straight lines, to compare with."""
    laid: Tensor
    """``(b, 3, H, W)``: ``parts`` laid out."""
    picture: Tensor
    """``(b, 3, H, W)``: the blend's."""
    wanted: Tensor
    """``(b, 1, H, W)``: 1 where a pixel had to be filled, else 0."""


def run_boards(
    net: MPPN, restorer: Restorer, boards: Boards, known: Tensor | None = None,
    present: Tensor | None = None,
) -> Recovered:  # fmt: skip
    """Recover all fragments, lay them out and fill the gaps.

    ``known (b·n, 1, h, w)`` is 0 in holes of fragments, ``present (b·n,)`` 0 for missing ones.
    """
    layout, pieces = boards.layout, boards.pieces
    if known is None:
        known = torch.ones_like(pieces[:, :1])
    else:  # as perception does: holes get the mean colour
        mean = (pieces * known).sum((2, 3), keepdim=True)
        mean = mean / known.sum((2, 3), keepdim=True).clamp(min=1.0)
        pieces = torch.where(known > 0, pieces, mean)
    gap = torch.full((len(pieces),), float(layout.gap), device=pieces.device)
    parts = restorer.recover(net, pieces, gap, layout.half).float()
    there = torch.ones_like(parts[:, :1])
    if present is not None:
        known, there = known * present.view(-1, 1, 1, 1), there * present.view(-1, 1, 1, 1)
    canvas, mask = lay_out(pieces, layout), lay_out(known, layout)
    covered = lay_out(there, layout, layout.half)
    # the decoder is to recover pictures, not to pass notes to the blend: no gradient
    laid = lay_out(parts.detach(), layout, layout.half)
    picture = restorer.blend(canvas, mask, laid, covered, layout)
    line, reached = linear_fill(canvas, mask, layout)
    line = torch.where(reached > 0, line, laid)
    return Recovered(parts, line, laid, picture, (1.0 - mask) * covered)


def _mean(error: Tensor, weight: Tensor) -> Tensor:
    """Mean of ``error (b, 3, ...)`` over pixels of ``weight (b, 1, ...)``."""
    return (error * weight).sum() / (3.0 * weight.sum()).clamp(min=1.0)


def _distance(a: Tensor, b: Tensor) -> Tensor:
    """Charbonnier: the absolute difference, smooth at 0."""
    return ((a - b).square() + SMOOTH**2).sqrt() - SMOOTH


def board_losses(boards: Boards, found: Recovered) -> tuple[Tensor, Tensor, Tensor]:
    """Of the blend in the gaps, of the decoder in the gaps, of the decoder in the fragments."""
    h, w = boards.layout.fragment
    inside = F.pad(boards.valid.new_ones(1, 1, h, w), [boards.layout.half] * 4)
    error = _distance(found.parts, boards.around)
    return (
        _mean(_distance(found.picture, boards.target), found.wanted),
        _mean(error, boards.valid * (1.0 - inside)),
        _mean(error, inside.expand_as(boards.valid)),
    )


def draw_damage(
    boards: Boards, share: float, generator: torch.Generator
) -> tuple[Tensor | None, Tensor | None]:
    """``known`` and ``present`` of `run_boards`: in a share of the puzzles pieces are missing,
    in as many their edges are ragged."""
    b, n = boards.puzzles, len(boards.pieces) // boards.puzzles
    device = boards.pieces.device

    def draw(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=device)

    gone = (draw(b, n) < 0.2 * draw(b, 1)) & (draw(b, 1) < share)
    ragged = (draw(b, 1, 1, 1, 1) < share).expand(b, n, 1, 1, 1).flatten(0, 1)
    h, w = boards.layout.fragment
    noise = F.interpolate(draw(b * n, 1, 6, 6), (h, w), mode="bicubic", align_corners=False)
    y, x = (torch.linspace(-1.0, 1.0, s, device=device).abs() for s in (h, w))
    rim = torch.maximum(y[:, None], x[None])  # 1 at the edge
    known = ((noise + 0.6 * rim < 1.2) | ~ragged).float()
    return known, 1.0 - gone.float().flatten()


def val_boards(
    store: Store, cells: tuple[Cell, ...], limit: int, device: torch.device
) -> list[tuple[Cell, list[Boards]]]:
    """Boards of every cell, cut as test pictures are, at most ``limit`` pictures (0 = all)."""
    out = []
    for row, cell in enumerate(cells):
        images = store.images[cell.kind]
        if limit and len(images) > limit:
            images = [images[i] for i in np.linspace(0, len(images) - 1, limit).astype(int)]
        rng = np.random.default_rng([row, 2])
        boards = []
        for image in images:
            rgb = image.permute(1, 2, 0).cpu().numpy()
            picture = torch.from_numpy(np.array(fit_image(rgb, cell.geometry.size, "crop")))
            picture = picture.permute(2, 0, 1)[None].to(device).float() / 255.0
            boards.append(cut_boards(picture, cell.geometry, rng))
        if boards:
            out.append((cell, boards))
    return out


def evaluate_gaps(
    net: MPPN,
    restorer: Restorer,
    cells: list[tuple[Cell, list[Boards]]],
    autocast: AbstractContextManager[None],
) -> dict[str, dict[str, float]]:
    """Mean absolute error inside the gaps, in grey levels of 255: ``line``, ``decoder``, ``blend``.

    Fragments lie at their nominal places; see `follow` for what is right between displaced ones.
    """
    out: dict[str, dict[str, float]] = {}
    with torch.no_grad():
        for cell, boards in cells:
            rows = []
            for board in boards:
                with autocast:
                    found = run_boards(net, restorer, board)
                rows.append(
                    torch.stack([
                        _mean((picture - board.target).abs(), found.wanted)
                        for picture in (found.line, found.laid, found.picture)
                    ])
                )  # fmt: skip
            means = (255.0 * torch.stack(rows).mean(0)).tolist()
            out[cell.name] = dict(zip(("line", "decoder", "blend"), means, strict=True))
    return out
