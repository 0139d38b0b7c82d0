"""How well gaps are filled: the shipped decoder and blend against interpolation and inpainting.

    python benchmarks/restoration.py [--data DIR] [--weights FOLDER] [--limit 20]

Validation pictures (photographs and art below DATA, by default the environment's SHERD_DATA) are
cut, put back on the true board, and the gaps are filled by

- *sherd*: `sherd.perception.restore.restore`,
- *linear*: straight lines across a gap, along x, then along y,
- *bicubic*: piecewise cubic curves across a gap, along x, then along y. Of the cubic interpolations
  of scipy this is the one that does best here: monotone pieces (PCHIP), which do not overshoot;
  natural splines, Akima's and Clough-Tocher's all err more,
- *biharmonic*: `skimage.restoration.inpaint_biharmonic`.

Figures are mean absolute errors in grey levels of 255, over the pixels of the gaps, averaged over
pictures; all methods fill the same pixels. Where fragments were displaced (jitter), they lie at
their nominal places, as nobody knows by how much; what is right between two of them is then either
the picture drawn along with them (*follows*), or the picture as it was (*stays*).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sherd.data.cutting import Cut, Geometry, cut
from sherd.errors import SherdError
from sherd.puzzle import identity_board

CELLS = (
    ("photos", 64, 4, 0),
    ("photos", 64, 12, 0),
    ("art5", 96, 4, 0),
    ("art5", 96, 12, 0),
    ("art5", 96, 12, 3),
)
"""Kind, side of a piece, gap, jitter; 5x5 pieces each."""
GRID = (5, 5)
Fill = Callable[[np.ndarray, np.ndarray], np.ndarray]


def separable(make: Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray], np.ndarray]]) -> Fill:
    """A filler that goes along x and then along y; ``make(x, y)`` interpolates down axis 0."""

    def fill(canvas: np.ndarray, known: np.ndarray) -> np.ndarray:
        rows, cols = np.flatnonzero(known.any(1)), np.flatnonzero(known.any(0))
        inside = canvas[rows][:, cols].astype(np.float64)
        across = make(cols, inside.transpose(1, 0, 2))(np.arange(canvas.shape[1]))
        return make(rows, across.transpose(1, 0, 2))(np.arange(canvas.shape[0]))

    return fill


def fillers() -> dict[str, Fill]:
    """The methods that need no network."""
    from scipy.interpolate import PchipInterpolator, interp1d
    from skimage.restoration import inpaint_biharmonic

    def biharmonic(canvas: np.ndarray, known: np.ndarray) -> np.ndarray:
        filled = inpaint_biharmonic(canvas / 255.0, ~known, channel_axis=-1)
        return np.asarray(255.0 * filled)

    return {
        "linear": separable(lambda x, y: interp1d(x, y, axis=0)),
        "bicubic": separable(lambda x, y: PchipInterpolator(x, y, axis=0)),
        "biharmonic": biharmonic,
    }


def laid_out(made: Cut) -> tuple[np.ndarray, np.ndarray]:
    """Fragments at their nominal places, ``(H, W, 3)``, and ``(H, W)`` where they lie."""
    import torch

    from sherd.perception.mppn.blend import Layout, lay_out

    g = made.geometry
    pieces = torch.from_numpy(made.puzzle.pieces).permute(0, 3, 1, 2)
    layout = Layout(g.grid, g.fragment, g.missing)
    known = lay_out(torch.ones_like(pieces[:, :1]), layout)[0, 0].numpy() > 0
    return lay_out(pieces, layout)[0].permute(1, 2, 0).numpy(), known


def targets(made: Cut) -> dict[str, np.ndarray]:
    """What is right, ``(H, W, 3)`` in 0..255, by name."""
    import torch

    from sherd.perception.mppn.blend import Layout
    from sherd.train.gaps import follow

    g = made.geometry
    layout = Layout(g.grid, g.fragment, g.missing)
    top, left = g.corners()[0]
    plain = made.image[top : top + layout.size[0], left : left + layout.size[1]]
    if not g.jitter:
        return {"": plain}
    image = torch.from_numpy(made.image).permute(2, 0, 1)[None].float() / 255.0
    moved = follow(image, torch.from_numpy(made.corners)[None], layout)
    return {", follows": 255.0 * moved[0].permute(1, 2, 0).numpy(), ", stays": plain}


def measure(
    cuts: list[Cut], methods: dict[str, Callable[[Cut, np.ndarray, np.ndarray], np.ndarray]]
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Mean errors by target and method, and seconds a picture by method."""
    errors: dict[str, dict[str, list[float]]] = {}
    seconds: dict[str, list[float]] = {}
    for made in cuts:
        canvas, known = laid_out(made)
        wanted = targets(made)
        for name, method in methods.items():
            began = time.perf_counter()
            filled = np.clip(np.rint(method(made, canvas, known)), 0, 255)
            seconds.setdefault(name, []).append(time.perf_counter() - began)
            for target, right in wanted.items():
                error = float(np.abs(filled[~known] - right[~known]).mean())
                errors.setdefault(target, {}).setdefault(name, []).append(error)
    means = {t: {n: float(np.mean(v)) for n, v in row.items()} for t, row in errors.items()}
    return means, {n: float(np.mean(v)) for n, v in seconds.items()}


def pictures(data: Path, limit: int) -> dict[str, list[np.ndarray]]:
    """Validation pictures, ``(H, W, 3) uint8``, at most ``limit`` of a kind."""
    import torch

    from sherd.train.store import load_store

    store = load_store(data, "val", torch.device("cpu"), limit=limit, workers=2)
    return {k: [p.permute(1, 2, 0).numpy() for p in v] for k, v in store.images.items()}


def run(data: Path, weights: Path | None, limit: int) -> None:
    """Measure every cell and print the table."""
    from sherd.perception.mppn.decoder import load_decoder
    from sherd.perception.mppn.weights import load_model
    from sherd.perception.restore import restore

    model, decoder = load_model(weights), load_decoder(weights)
    decoder.check(model.sha256)

    def ours(made: Cut, canvas: np.ndarray, known: np.ndarray) -> np.ndarray:
        board = identity_board(made.geometry.grid)
        return restore(made.puzzle.without_truth(), board, model, decoder)

    def plain(fill: Fill) -> Callable[[Cut, np.ndarray, np.ndarray], np.ndarray]:
        return lambda made, canvas, known: fill(canvas, known)

    methods = {"sherd": ours, **{name: plain(fill) for name, fill in fillers().items()}}
    images = pictures(data, limit)
    print(
        f"mppn {model.sha256[:12]}, decoder {decoder.sha256[:12]}, step {decoder.card.get('step')}"
    )
    print("| gaps | pictures | " + " | ".join(methods) + " | seconds: " + ", ".join(methods) + " |")
    print("|---" * (len(methods) + 3) + "|")
    for row, (kind, side, gap, jitter) in enumerate(CELLS):
        rngs = np.random.default_rng([row, 5]).spawn(len(images[kind]))
        geometry = Geometry(GRID, (side, side), gap, jitter=jitter)
        cuts = [
            cut(i, geometry, rng=r, fit="crop") for i, r in zip(images[kind], rngs, strict=True)
        ]
        means, seconds = measure(cuts, methods)
        times = ", ".join(f"{seconds[name]:.2f}" for name in methods)
        for target, errors in means.items():
            what = f"{kind}, 5x5 of {side} px, {gap} px" + (f", jitter {jitter}" if jitter else "")
            figures = " | ".join(f"{errors[name]:.2f}" for name in methods)
            print(f"| {what}{target} | {len(cuts)} | {figures} | {times} |", flush=True)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--data", type=Path, default=os.environ.get("SHERD_DATA"))
    p.add_argument("--weights", type=Path, help="folder of both networks (default: the shipped)")
    p.add_argument("--limit", type=int, default=20, help="most pictures of each kind (0 = all)")
    args = p.parse_args()
    try:
        if args.data is None:
            raise SherdError("data: is not given; use --data or set SHERD_DATA")
        run(Path(args.data), args.weights, args.limit)
    except SherdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
