"""``sherd create``: a puzzle from a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import SherdError

EXAMPLE = "Example: sherd create photo.jpg puzzle --grid 7x10 --gap 4 --seed 1"


def create(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="The picture to cut.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    grid: Annotated[str, typer.Option(help="Rows x columns.")] = "7x10",
    gap: Annotated[int, typer.Option(help="Pixels to erode (see --erode).")] = 0,
    piece: Annotated[
        int | None,
        typer.Option(help="Side of a piece in pixels. [default: as large as fits]"),
    ] = None,
    erode: Annotated[
        str,
        typer.Option(help="The gap is 'between' two neighbours, or off each 'side' of a piece."),
    ] = "between",
    jitter: Annotated[int, typer.Option(help="Displace each piece by up to so many pixels.")] = 0,
    fit: Annotated[
        str, typer.Option(help="'crop' the picture to the grid's shape, or 'resize' (stretch) it.")
    ] = "crop",
    missing: Annotated[int, typer.Option(help="Pieces to leave out.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the shuffle, the jitter and the loss.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a puzzle in OUT.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Cut a picture into a folder of shuffled fragments, with puzzle.json beside them."""
    import numpy as np

    from ..data.cutting import Geometry, cut, largest_piece, lose_pieces
    from ..data.folder import write_puzzle
    from ..data.images import read_image
    from .parse import check_gap, parse_erode, parse_fit, parse_grid, parse_seed
    from .show import print_json

    shape, rng = parse_grid(grid), np.random.default_rng(parse_seed(seed))
    mode, fitting = parse_erode(erode), parse_fit(fit)
    check_gap(gap)
    if jitter < 0:
        raise SherdError(f"jitter: {jitter}; must not be negative")
    if out.resolve() in image.resolve().parents:
        raise SherdError(f"{out}: holds {image.name} itself; choose another folder")
    picture = read_image(image)
    if piece is None:
        room = (picture.shape[0] - 2 * jitter, picture.shape[1] - 2 * jitter)
        if min(room) < 1:
            raise SherdError(
                f"jitter: {jitter}; leaves nothing of {picture.shape[1]}x{picture.shape[0]} px"
            )
        side = largest_piece(room, shape, gap, mode)
    else:
        side = (piece, piece)
    geometry = Geometry(shape, side, gap, mode, jitter)
    _check_size(geometry.size)
    puzzle = lose_pieces(cut(picture, geometry, rng=rng, fit=fitting).puzzle, missing, rng)
    write_puzzle(out, puzzle.shuffled(rng), force=force)
    about = {
        "folder": str(out),
        "pieces": puzzle.n,
        "grid": f"{shape[0]}x{shape[1]}",
        "piece_size": list(geometry.fragment),
        "gap": geometry.missing,
        "missing": missing,
        "seed": seed,
    }
    if as_json:
        print_json(about)
    else:
        h, w = geometry.fragment
        typer.echo(
            f"{out}: {puzzle.n} pieces of {w}x{h} px, grid {about['grid']}, "
            f"{geometry.missing} px between neighbours"
        )


def _check_size(size: tuple[int, int]) -> None:
    from ..data.images import MAX_PIXELS

    if size[0] * size[1] > MAX_PIXELS:
        raise SherdError(
            f"grid and piece: make a picture of {size[1]}x{size[0]} px; "
            f"at most {MAX_PIXELS:,} pixels are cut"
        )
