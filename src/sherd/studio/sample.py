"""A puzzle to try things on: a photograph that comes with scikit-image, cut and shuffled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import SherdError


@dataclass(frozen=True)
class Sample:
    """How a sample is cut."""

    title: str
    grid: tuple[int, int]
    piece: int
    """Side of a fragment in pixels."""
    gap: int


SAMPLES = {
    "coffee": Sample("A cup of coffee", (5, 7), 76, 4),
    "astronaut": Sample("An astronaut", (6, 6), 80, 4),
}


def write_sample(name: str, folder: Path, seed: int = 0) -> None:
    """Write the fragments of a sample into ``folder``, which exists; nothing tells their order."""
    import numpy as np
    from skimage import data

    from ..data.cutting import Geometry, cut
    from ..data.images import write_png

    if name not in SAMPLES:
        raise SherdError(f"sample: {name!r} is unknown; there are {', '.join(SAMPLES)}")
    sample = SAMPLES[name]
    geometry = Geometry(sample.grid, (sample.piece, sample.piece), sample.gap)
    picture = np.asarray(getattr(data, name)())
    puzzle = cut(picture, geometry, fit="crop").puzzle.shuffled(np.random.default_rng(seed))
    for k, piece in enumerate(puzzle.pieces):
        write_png(folder / f"fragment-{k + 1:02d}.png", piece)
