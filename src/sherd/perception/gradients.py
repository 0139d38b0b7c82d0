"""Evidence of gradients: is the step across a seam like the steps inside the pieces?

Gallagher (2012): the steps between a side's last two lines of pixels have a mean μ and a covariance
S, three channels together. Across a true seam steps are drawn from the same distribution, so that
their Mahalanobis distance ``(g − μ)ᵀ S⁻¹ (g − μ)`` is small. Where pixels are missing the step
across is that much longer, and so are the steps inside that it is held against.

On plain sides steps may be of the right length by chance. There the same may be asked of how pixels
change *along* the seam: what goes up on one side goes up on the other. By itself that says little,
but it is something else than what the steps across have said.

It knows nothing of pictures, and errs elsewhere than the network does: where little or nothing is
missing, each has something to say that the other has not seen.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..errors import SherdError
from ..puzzle import Puzzle
from .evidence import Evidence, from_logits

RIDGE = 1.0
"""Added to the covariance, in squared grey levels: rounding makes steps of that size."""
SOFTEN = 0.02
"""Added to a mean distance: identical sides are no infinite evidence."""
SHARPNESS = 5.0
"""Logits per e-fold of distance; what fits held-out photographs by itself (4.5 to 7)."""
ALONG = 3
"""Pixels along the seam over which changes are compared."""
ACROSS = 0.4
"""Share of the steps across in the logits, if changes along the seam have the rest."""


def gradient_evidence(puzzle: Puzzle, *, along: bool = False) -> Evidence:
    """Evidence of ``puzzle``, whose gap must be known, from gradients alone; with ``along`` those
    along the seam have a say, too."""
    if puzzle.gap is None:
        raise SherdError("gradients: the gap of the puzzle is not known; give one")
    x = torch.from_numpy(puzzle.pieces.astype(np.float64))
    right, below = gradient_logits(x, puzzle.gap, along).numpy()
    return from_logits(right, below, source="gradients")


def gradient_logits(x: Tensor, gap: int, along: bool) -> Tensor:
    """``(…, n, H, W, 3)`` grey levels → ``(2, …, n, n)``: that j is right of i, below i."""
    # in float64, and around 0: sums of squares are subtracted below
    x = x.double() - x.double().mean(dim=(-4, -3, -2, -1), keepdim=True)
    return torch.stack([_logits(y, gap, along) for y in (x, x.transpose(-3, -2))])


def _logits(x: Tensor, gap: int, along: bool) -> Tensor:
    """``(…, n, n)`` that j is right of i."""
    steps = torch.log(gradient_distances(x, gap) + SOFTEN)
    over = min(ALONG, x.shape[-3] - 1)
    if not along or not over:
        return -SHARPNESS * steps
    changes = x[..., over:, :, :] - x[..., :-over, :, :]
    both = ACROSS * steps + (1.0 - ACROSS) * torch.log(gradient_distances(changes, gap) + SOFTEN)
    return -SHARPNESS * both


def gradient_distances(x: Tensor, gap: int) -> Tensor:
    """``(…, n, n)``: how far the step from piece i of ``x (…, n, H, W, 3)`` to j at its right is
    from i's own steps, and that from j to i from j's; mean per pixel and channel, both together."""
    return _one_way(x, gap) + _one_way(x.flip(-2), gap).mT


def _one_way(x: Tensor, gap: int) -> Tensor:
    """``(…, n, n)``: steps from the last column of i to the first of j, by i's own steps."""
    height, width = x.shape[-3:-1]
    last, first = x[..., -1, :], x[..., 0, :]  # (…, n, H, 3)
    own = last - x[..., -1 - min(gap + 1, width - 1), :]
    mean = own.mean(dim=-2, keepdim=True)
    spread = own - mean
    covariance = spread.mT @ spread / height + RIDGE * torch.eye(3, dtype=x.dtype, device=x.device)
    precision = torch.linalg.inv(covariance)  # (…, n, 3, 3)
    # Σ_k (b − a)ᵀ P (b − a), with a the expected and b the true pixel, as products of matrices
    a = last + mean
    weighed = a @ precision  # (…, n, H, 3)
    squares = first.mT @ first  # (…, n, 3, 3)
    total = precision.flatten(-2) @ squares.flatten(-2).mT
    total = total - 2.0 * weighed.flatten(-2) @ first.flatten(-2).mT
    total = total + (weighed * a).sum(dim=(-2, -1))[..., None]
    return total.clamp(min=0.0) / (3 * height)
