"""Where all evidence together puts each piece: absolute places from relative ones.

The reward counts pieces in their absolute place, but pair evidence speaks of neighbours only, and
a board that is right up to a shift cannot be mended by single swaps. This is how the agent knows
where a piece belongs: coordinates x of all pieces that minimise Σ w_ij |x_j − x_i − step|² over all
pairs (step = one cell to the right, or down), w from the pair evidence. Pairs that the others
contradict lose their weight (iteratively reweighted least squares), then the whole is shifted onto
the grid. It depends on the puzzle alone, not on the board, and costs some milliseconds. It is
sherd's own; the paper leaves open how its agent knows of absolute places.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import SherdError
from .rules import Puzzles

STEPS = ((1, 0.0, 1.0), (2, 1.0, 0.0))
"""Side, rows and columns from a piece to its right and to its lower neighbour."""


@dataclass(frozen=True)
class PlaceParams:
    """Chosen on validation puzzles."""

    rounds: int = 24
    """Reweightings."""
    power: float = 2.0
    """Weights are probabilities to this power: the higher, the more they trust sure pairs."""
    wide: float = 8.0
    """Deviation in cells at which a pair loses its say, in the first round."""
    narrow: float = 0.3
    """The same in the last round."""
    ridge: float = 1e-3
    """Pull towards the middle, which keeps loose pieces from infinity."""
    sigma: float = 0.45
    """Spread of a piece around its coordinates, in cells."""
    rim: float = 0.25
    """Weight of the border evidence when the pieces are laid onto the grid."""
    doubt: float = 0.02
    """Smallest share of doubt in a piece's place."""

    def __post_init__(self) -> None:
        if self.rounds < 2 or min(self.power, self.wide, self.narrow, self.sigma) <= 0:
            raise SherdError("place: rounds must be at least 2, power and widths more than 0")


def coordinates(puzzles: Puzzles, params: PlaceParams) -> tuple[Tensor, Tensor]:
    """``(P, C, 2)`` row and column of every piece up to a shift, and ``(P, C)`` trust in 0..1."""
    cells = puzzles.layout.cells
    prior = math.log(max(cells - 1, 1))
    weights = []
    for side, _, _ in STEPS:
        # evidence is log p − log 1/(n−1): back to probabilities
        w = (params.power * (puzzles.at[:, side, :cells, :cells] - prior)).exp().clamp(max=1.0)
        w.diagonal(dim1=1, dim2=2).zero_()
        weights.append(w)
    live = list(weights)
    eye = params.ridge * torch.eye(cells, device=puzzles.device)
    x = puzzles.at.new_zeros(len(puzzles), cells, 2)
    for t in range(params.rounds):
        both = sum(w + w.transpose(1, 2) for w in live)
        assert isinstance(both, Tensor)
        system = torch.diag_embed(both.sum(2)) - both + eye
        pull = torch.zeros_like(x)
        for w, (_, dr, dc) in zip(live, STEPS, strict=True):
            pull = pull + (w.sum(1) - w.sum(2))[..., None] * x.new_tensor([dr, dc])
        x = torch.linalg.solve(system, pull)
        scale = params.wide * (params.narrow / params.wide) ** (t / (params.rounds - 1))
        apart = x[:, None] - x[:, :, None]  # (P, i, j, 2): x_j − x_i
        live = [
            w / (1.0 + ((apart - x.new_tensor([dr, dc])) / scale).square().sum(-1)).square()
            for w, (_, dr, dc) in zip(weights, STEPS, strict=True)
        ]
    trust = sum(w.sum(1) + w.sum(2) for w in live)
    assert isinstance(trust, Tensor)
    return x, (trust / 2.0).clamp(max=1.0)


def lay(puzzles: Puzzles, x: Tensor, trust: Tensor, params: PlaceParams) -> Tensor:
    """``x`` shifted onto the grid: where most trusted pieces lie inside, none upon another, and the
    border evidence agrees with the rim."""
    rows, cols = puzzles.layout.grid
    size = x.new_tensor([rows, cols])
    # the fraction of a cell by which whole coordinates are off: a circular mean
    angle = x * (2.0 * math.pi)
    off = torch.atan2(
        (trust[..., None] * angle.sin()).sum(1), (trust[..., None] * angle.cos()).sum(1)
    )
    x = x - off[:, None] / (2.0 * math.pi)
    middle = (trust[..., None] * x).sum(1) / trust.sum(1, keepdim=True).clamp(min=1e-6)
    # a canvas of three grids a side; the middle of the pieces in its middle
    x = x - (middle - (1.5 * size - 0.5)).round()[:, None]
    at = x.round().long()
    high, wide = 3 * rows, 3 * cols
    inside = ((at >= 0) & (at < at.new_tensor([high, wide]))).all(-1)
    cell = torch.where(inside, at[..., 0] * wide + at[..., 1], 0)
    mass = trust * inside
    border = puzzles.border[:, :, : puzzles.layout.cells]
    maps = torch.cat([mass[:, None], border * mass[:, None]], dim=1)  # (P, 5, C)
    canvas = maps.new_zeros(len(x), 5, high * wide)
    canvas.scatter_add_(2, cell[:, None].expand(-1, 5, -1), maps)
    canvas = canvas.reshape(len(x), 5, high, wide)
    full = F.avg_pool2d(canvas[:, :1].clamp(max=1.0), (rows, cols), 1) * (rows * cols)
    across = F.avg_pool2d(canvas[:, 1:], (1, cols), 1) * cols  # sums along rows
    down = F.avg_pool2d(canvas[:, 1:], (rows, 1), 1) * rows
    tall, broad = full.shape[-2:]
    rim = (
        across[:, 0:1, :tall]
        + across[:, 2:3, rows - 1 :]
        + down[:, 1:2, :, cols - 1 :]
        + down[:, 3:4, :, :broad]
    )
    ways = (full + params.rim * rim).flatten(1)
    best = ways.argmax(1)
    corner = torch.stack([best // broad, best % broad], dim=1)
    return x - corner[:, None]


def place_evidence(puzzles: Puzzles, params: PlaceParams | None = None) -> Tensor:
    """``(P, C+1, C+1)``: evidence of a piece in a cell, nats against chance."""
    params = params or PlaceParams()
    layout = puzzles.layout
    out = puzzles.at.new_zeros(len(puzzles), layout.cells + 1, layout.cells + 1)
    count = layout.rows * layout.cols
    if count < 2:
        return out
    x, trust = coordinates(puzzles, params)
    x = lay(puzzles, x, trust, params)
    cell = torch.arange(count, device=x.device)
    where = torch.stack([cell // layout.cols, cell % layout.cols], dim=1).to(x.dtype)
    far = (x[:, :, None] - where).square().sum(-1)  # (P, C, count)
    p = (-far / (2.0 * params.sigma**2)).exp()
    p = p / p.sum(2, keepdim=True).clamp(min=1.0)  # a piece outside the grid says little
    known = (1.0 - params.doubt) * trust[..., None]
    out[:, :-1, :count] = (known * p * count + (1.0 - known)).log()
    return out


def with_place(puzzles: Puzzles, params: PlaceParams | None = None) -> Puzzles:
    """``puzzles`` with their place evidence."""
    return replace(puzzles, place=place_evidence(puzzles, params))
