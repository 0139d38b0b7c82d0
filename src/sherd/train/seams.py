"""Fit the weights of `perception.classical` on training photographs; report on held-out ones.

    python -m sherd.train.seams --data DIR

prints the table ``WEIGHTS`` and, per gap, how often the true neighbour of a side ranks first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..data.cutting import Geometry, cut
from ..data.images import list_pictures
from ..perception.classical import log_features
from ..puzzle import identity_board, pairs
from .command import run_command

GRID = (7, 10)
PIECE = 64
GAPS = (0, 1, 2, 4, 8, 12, 24, 48)


def features(images: Sequence[np.ndarray], gap: int) -> np.ndarray:
    """``(B, 2, 5, n, n)`` log-features of landscape photographs cut with ``gap``."""
    geometry = Geometry(GRID, (PIECE, PIECE), gap)
    return np.stack([log_features(cut(i, geometry, fit="crop").puzzle.pieces) for i in images])


def loss(w: np.ndarray, x: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Mean cross-entropy of the true neighbour, its gradient in ``w``, and top-1 accuracy."""
    truth = pairs(identity_board(GRID))
    n = x.shape[-1]
    total, grad, hits, count = 0.0, np.zeros(len(w)), 0, 0
    diagonal = np.where(np.eye(n, dtype=bool), -np.inf, 0.0)
    for direction in (0, 1):
        logits = -np.einsum("k,bkij->bij", w, x[:, direction]) + diagonal
        for axis, (ask, answer) in ((2, truth[direction].T), (1, truth[direction].T[::-1])):
            f = x[:, direction] if axis == 2 else x[:, direction].transpose(0, 1, 3, 2)
            z = logits if axis == 2 else logits.transpose(0, 2, 1)
            z, f = z[:, ask], f[:, :, ask]  # (B, m, n), (B, k, m, n)
            z = z - z.max(axis=2, keepdims=True)
            p = np.exp(z)
            p /= p.sum(axis=2, keepdims=True)
            rows = np.arange(len(ask))
            total -= np.log(np.maximum(p[:, rows, answer], 1e-300)).sum()
            hits += int((p.argmax(axis=2) == answer).sum())
            grad += f[:, :, rows, answer].sum(axis=(0, 2)) - np.einsum("bkmn,bmn->k", f, p)
            count += len(x) * len(ask)
    return total / count, grad / count, hits / count


def fit(x: np.ndarray) -> np.ndarray:
    """The weights that make the true neighbours of ``x`` most probable."""
    from scipy.optimize import minimize

    start = np.ones(x.shape[2])
    return np.asarray(minimize(lambda w: loss(w, x)[:2], start, jac=True, method="L-BFGS-B").x)


def run(data: Path, images: int) -> None:
    """Fit on so many training photographs, and print."""
    train = _landscapes(data / "photos" / "train-0.tar", images)
    held_out = _landscapes(data / "photos" / "val-0.tar", 40)
    for gap in GAPS:
        w = fit(features(train, gap))
        nats, _, top = loss(w, features(held_out, gap))
        row = ", ".join(f"{v:.2f}" for v in w)
        print(f"    {gap}: ({row}),  # held out: {nats:.3f} nats, top-1 {100 * top:.1f} %")


def _landscapes(tar: Path, count: int) -> list[np.ndarray]:
    images = (picture.read() for picture in list_pictures(tar))
    wide = (image for image in images if image.shape[1] >= image.shape[0])
    return [image for image, _ in zip(wide, range(count), strict=False)]


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m sherd.train.seams", description=__doc__)
    p.add_argument("--data", type=Path, required=True, help="folder with photos/")
    p.add_argument("--images", type=int, default=90, help="training photographs")
    return run_command(p, run, argv)


if __name__ == "__main__":
    sys.exit(main())
