"""Real fragments: is the grid found, and is the picture right, when little is known?

    python benchmarks/fragments.py [--data DIR] [--gap 4] [--missing 0,1,3] [--noise 2] [--limit 20]

20 pictures each of art5 val and of the validation photos, cut into 20 to 70 pieces of 64 px on a
grid of their own, ``gap`` pixels apart. Every piece is up to ``noise`` pixels larger or smaller in
both directions, at either side, as if cropped by hand, and ``missing`` of them are lost.
sherd.solve is given the images, in random order, and nothing else (with --know-gap also the gap).
Neighbor is the share of true neighbour pairs that are neighbours in the answer, with a wrong grid
too. Seconds are of the processor, one thread or not. With ``--jpeg 85`` every piece was a JPEG file
of that quality, as scans often are: its blocks begin anew in each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import sherd
from sherd.data.cutting import Geometry, fit_image
from sherd.data.images import Picture
from sherd.data.sets import data_root, training_pictures
from sherd.errors import SherdError
from sherd.puzzle import EMPTY, pairs
from sherd.train.evaluate import from_files

PIECE = 64
GRIDS = (
    (4, 5), (4, 6), (5, 5), (5, 6), (4, 8), (5, 7), (6, 6), (5, 8), (6, 7), (6, 8), (7, 7), (5, 10),
    (6, 9), (7, 8), (6, 10), (7, 9), (8, 8), (7, 10),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Fragments of one picture, and where they belong."""

    fragments: list[np.ndarray]
    truth: np.ndarray
    strangers: int = 0
    """The last so many fragments are of another picture."""


def chosen(data: str | None, limit: int) -> list[tuple[str, Picture]]:
    """Pictures of both kinds: the first photos, and art evenly over its kinds."""
    root = data_root(data)
    art = training_pictures("art5-val", root)
    art = art[:: max(1, len(art) // limit)][:limit]
    photos = training_pictures("photos-val", root)[:limit]
    return [*(("art", p) for p in art), *(("photos", p) for p in photos)]


def fragments(
    picture: Picture, rng: np.random.Generator, gap: int, noise: int
) -> tuple[list[np.ndarray], tuple[int, int]]:
    """The picture in pieces, row by row, with sizes that are off, and its grid."""
    image = picture.read()
    grid = GRIDS[rng.integers(len(GRIDS))]
    if image.shape[0] > image.shape[1] or (image.shape[0] == image.shape[1] and rng.random() < 0.5):
        grid = grid[::-1]
    geometry = Geometry(grid, (PIECE, PIECE), gap)
    around = noise
    size = (geometry.size[0] + 2 * around, geometry.size[1] + 2 * around)
    image = fit_image(image, size, "crop")
    out = []
    for corner in geometry.corners() + around:
        more = rng.integers(-noise, noise + 1, 2)
        before = [int(np.sign(m)) * int(rng.integers(abs(m) + 1)) for m in more]
        (y, x), (h, w) = corner - before, PIECE + more
        out.append(image[y : y + h, x : x + w])
    return out, grid


def make_case(
    pictures: list[tuple[str, Picture]], k: int, args: argparse.Namespace, missing: int
) -> Case:
    """The k-th picture in pieces, shuffled, some lost, and some of another picture among them."""
    rng = np.random.default_rng([args.seed, k, missing])
    whole, grid = fragments(pictures[k][1], rng, args.gap, args.noise)
    order = rng.permutation(len(whole))[missing:]
    truth = np.full(len(whole), EMPTY)
    truth[order] = np.arange(len(order))
    found = [whole[p] for p in order]
    if args.strangers:
        other, _ = fragments(pictures[(k + 1) % len(pictures)][1], rng, args.gap, args.noise)
        found += [other[p] for p in rng.permutation(len(other))[: args.strangers]]
    if args.jpeg is not None:
        found = [from_files(piece[None], args.jpeg)[0] for piece in found]
    return Case(found, truth.reshape(grid), args.strangers)


def neighbor(board: np.ndarray, truth: np.ndarray) -> float:
    """Share of the true neighbour pairs that are neighbours on ``board``, whatever its grid."""
    right = total = 0
    for true, got in zip(pairs(truth), pairs(board), strict=True):
        right += len({tuple(p) for p in true.tolist()} & {tuple(p) for p in got.tolist()})
        total += len(true)
    return right / max(1, total)


@dataclass
class Row:
    """Figures of one kind of puzzle."""

    name: str
    grids: list[bool]
    neighbors: list[float]
    gaps: list[int]
    seconds: list[float]
    out: list[tuple[int, int]]
    """Strangers among the pieces that were left out, and others."""

    def line(self, strangers: int) -> str:
        text = (
            f"{self.name:8s}  {len(self.grids):3d}  {100 * np.mean(self.grids):10.1f}  "
            f"{100 * np.mean(self.neighbors):8.1f}  {np.mean(self.gaps):7.1f}  "
            f"{np.mean(self.seconds):8.2f}"
        )
        found, wrong = np.sum(self.out, axis=0)
        if strangers:
            text += f"  {100 * found / (strangers * len(self.grids)):9.1f}"
        return text + f"  {wrong:9d}"


def rows(args: argparse.Namespace, missing: int) -> Iterator[Row]:
    """A row per kind, and one for all."""
    pictures = chosen(args.data, args.limit)
    by_kind: dict[str, Row] = {}
    for k, (kind, picture) in enumerate(pictures):
        case = make_case(pictures, k, args, missing)
        start = time.process_time()
        result = sherd.solve(
            case.fragments, gap=args.gap if args.know_gap else None, seed=args.seed
        )
        took = time.process_time() - start
        assert result.puzzle.gap is not None
        for name in (kind, "both"):
            row = by_kind.setdefault(name, Row(name, [], [], [], [], []))
            row.grids.append(result.board.shape == case.truth.shape)
            row.neighbors.append(neighbor(result.board, case.truth))
            row.gaps.append(abs(result.puzzle.gap - args.gap))
            row.seconds.append(took)
            strange = sum(p >= len(case.fragments) - case.strangers for p in result.unplaced)
            row.out.append((strange, len(result.unplaced) - strange))
        if args.verbose:
            rows_, cols = case.truth.shape
            print(
                f"{kind}/{picture.name}: {rows_}x{cols}, got "
                f"{result.board.shape[0]}x{result.board.shape[1]}, "
                f"Neighbor {100 * neighbor(result.board, case.truth):.1f}, {took:.1f} s",
                file=sys.stderr,
            )
    yield from sorted(by_kind.values(), key=lambda row: (row.name == "both", row.name))


def counts(text: str) -> list[int]:
    """``0,1,3``."""
    if not all(part.strip().isdecimal() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}; expected numbers such as 0,1,3")
    return [int(part) for part in text.split(",")]


def quality(text: str) -> int:
    """``85``."""
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a whole number of 1 to 100")
    return int(text)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder that holds art5/ and photos/ [default: $SHERD_DATA]")
    parser.add_argument("--gap", type=int, default=4)
    parser.add_argument("--missing", type=counts, default="0,1,3", help="pieces lost, a table each")
    parser.add_argument("--noise", type=int, default=2, help="pixels that sizes are off at most")
    parser.add_argument("--strangers", type=int, default=0, help="pieces of another picture")
    parser.add_argument("--jpeg", type=quality, help="pieces were JPEGs of this quality")
    parser.add_argument("--know-gap", action="store_true", help="say how wide the gap is")
    parser.add_argument("--limit", type=int, default=20, help="pictures of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    strange = "  strangers" if args.strangers else ""
    known = "gap given" if args.know_gap else "gap unknown"
    lossy = "" if args.jpeg is None else f", JPEGs of quality {args.jpeg}"
    try:
        for missing in args.missing:
            print(
                f"gap {args.gap} px, sizes ±{args.noise} px, {missing} missing, "
                f"{args.strangers} strangers, grid unknown, {known}, seed {args.seed}{lossy}"
            )
            print(f"kind        n  grid found  Neighbor  gap off     CPU s{strange}  left out")
            for row in rows(args, missing):
                print(row.line(args.strangers), flush=True)
    except SherdError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
