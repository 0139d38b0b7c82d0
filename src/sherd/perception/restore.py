"""The recovered picture: a solved board with its gaps filled.

Every fragment is recovered together with half of the gap around it, and the blend makes one picture
of them. Known pixels stay what they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import SherdError
from ..puzzle import EMPTY, Puzzle, check_board
from .mppn.blend import Layout, lay_out
from .mppn.decoder import DecoderModel, shipped_decoder
from .mppn.weights import Model, shipped_model
from .neural import fragments_of
from .threads import torch_threads

MAX_GAP = 48
"""Widest gap in pixels that the decoder is trained on; wider ones are filled at a lower scale."""
NEUTRAL = 128
"""Grey level of what is not recovered, unless the caller has something to lie under it."""
DECODE_PIXELS = 16 * 64 * 64
"""Pixels of fragments recovered at a time."""
TILE = 512
"""Side of the parts in which the blend works on a picture."""


def ready() -> None:
    """Read the shipped weights now, or raise: before a long search, not after it."""
    shipped_decoder().check(shipped_model().sha256)


def recover(
    puzzle: Puzzle, model: Model, decoder: DecoderModel, around: int | None = None
) -> Tensor:
    """Every fragment with ``around`` pixels more on every side, by default half of the gap.

    Returns ``(n, 3, h + 2·around, w + 2·around)`` in 0..1, in the order of the pieces. Fragments
    of sizes that the network does not know are scaled for it, and what it answers is scaled back.
    """
    decoder.check(model.sha256)
    if around is None:
        around = -(-(puzzle.gap or 0) // 2)
    x, gap = fragments_of(puzzle)
    h, w = puzzle.piece_size
    scale = x.shape[2] / h
    reach = int(np.ceil(around * scale))
    step = max(1, DECODE_PIXELS // ((x.shape[2] + 2 * reach) * (x.shape[3] + 2 * reach)))
    parts = []
    with torch.inference_mode():
        for part in x.split(step):
            g = torch.full((len(part),), float(gap or 0.0))
            found = decoder.net.recover(model.net, part.float() / 255.0, g, reach)
            if (x.shape[2], x.shape[3]) != (h, w):
                found = _scaled_back(found, (h, w), (x.shape[2], x.shape[3]), around)
            parts.append(found)
    return torch.cat(parts)


def _scaled_back(
    found: Tensor, size: tuple[int, int], scaled: tuple[int, int], around: int
) -> Tensor:
    """``found`` at the fragments' own resolution, cut to ``around`` pixels on every side."""
    whole = [
        max(s + 2 * around, round(f * s / k))
        for f, s, k in zip(found.shape[2:], size, scaled, strict=True)
    ]
    found = F.interpolate(found, whole, mode="bilinear", antialias=True).clamp(0.0, 1.0)
    top, left = ((k - s - 2 * around) // 2 for k, s in zip(whole, size, strict=True))
    return found[..., top : top + size[0] + 2 * around, left : left + size[1] + 2 * around]


def restore(
    puzzle: Puzzle,
    board: np.ndarray,
    model: Model | None = None,
    decoder: DecoderModel | None = None,
    *,
    under: np.ndarray | None = None,
    threads: int = 2,
) -> np.ndarray:
    """The picture that ``board`` shows, with its gaps filled.

    Parameters
    ----------
    puzzle
        Fragments. An unknown gap counts as 0: they are put side by side as they are.
    board
        ``(M, N)`` piece indices, -1 = empty cell.
    model, decoder
        From `load_model` and `load_decoder`; by default the shipped ones. A decoder works with the
        MPPN that it was trained with only.
    under
        ``(H, W, 3) uint8`` picture that shows in empty cells and in the half of a gap on their
        side, such as the drawn board; by default a neutral grey.
    threads
        CPU threads.

    Returns
    -------
    ``(M·h + (M−1)·gap, N·w + (N−1)·gap, 3) uint8``. Pixels of fragments are those of the
    fragments; holes in them (their mask) are filled as gaps are.
    """
    board = check_board(board, puzzle.n)
    layout = Layout((board.shape[0], board.shape[1]), puzzle.piece_size, puzzle.gap or 0)
    if under is None:
        under = np.full((*layout.size, 3), NEUTRAL, dtype=np.uint8)
    elif under.shape != (*layout.size, 3) or under.dtype != np.uint8:
        raise SherdError(
            f"under: is {under.dtype} {under.shape}; expected uint8 {(*layout.size, 3)}"
        )
    placed = board.ravel() != EMPTY
    whole_pieces = puzzle.mask is None or bool(puzzle.mask[board.ravel()[placed]].all())
    canvas, known = _drawn(puzzle, board, layout)
    if not placed.any() or (layout.gap == 0 and whole_pieces):
        return np.where(known, canvas, under)  # there is nothing to fill
    model, decoder = model or shipped_model(), decoder or shipped_decoder()
    decoder.check(model.sha256)
    with torch_threads(threads), torch.inference_mode():
        if layout.gap > MAX_GAP:
            filled, covered = _at_lower_scale(puzzle, board, model, decoder, layout)
        else:
            filled, covered = _filled(puzzle, board, model, decoder, layout)
    out = np.where(covered, filled, under)
    return np.where(known, canvas, out)


def _drawn(puzzle: Puzzle, board: np.ndarray, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """``(H, W, 3) uint8`` fragments laid out, ``(H, W, 1) bool`` where they have pixels."""
    cells = board.ravel()
    mask = np.ones(puzzle.pieces.shape[:3], dtype=bool) if puzzle.mask is None else puzzle.mask
    pieces = np.concatenate([puzzle.pieces, mask[..., None].astype(np.uint8)], axis=-1)
    pieces = pieces[cells]
    pieces[cells == EMPTY] = 0
    laid = lay_out(torch.from_numpy(pieces).permute(0, 3, 1, 2), layout)[0]
    whole = laid.permute(1, 2, 0).numpy()
    return whole[..., :3], whole[..., 3:] > 0


def _filled(
    puzzle: Puzzle, board: np.ndarray, model: Model, decoder: DecoderModel, layout: Layout
) -> tuple[np.ndarray, np.ndarray]:
    """``(H, W, 3) uint8`` picture, and ``(H, W, 1) bool`` where it says something."""
    cells = torch.from_numpy(board.ravel())
    there = (cells != EMPTY).float().view(-1, 1, 1, 1)
    canvas, known = _drawn(puzzle, board, layout)
    parts = recover(puzzle, model, decoder, layout.half)[cells] * there
    covered = lay_out(there.expand_as(parts[:, :1]), layout, layout.half)
    picture = decoder.net.blend(
        torch.from_numpy(np.ascontiguousarray(canvas)).permute(2, 0, 1)[None].float() / 255.0,
        torch.from_numpy(known).permute(2, 0, 1)[None].float(),
        lay_out(parts, layout, layout.half),
        covered,
        layout,
        tile=TILE if max(layout.size) > TILE else 0,
    )
    grey = (255.0 * picture[0]).round().to(torch.uint8).permute(1, 2, 0)
    return grey.numpy(), covered[0].permute(1, 2, 0).numpy() > 0


def _at_lower_scale(
    puzzle: Puzzle, board: np.ndarray, model: Model, decoder: DecoderModel, layout: Layout
) -> tuple[np.ndarray, np.ndarray]:
    """`_filled`, where the gap is too wide: on a smaller puzzle, enlarged again."""
    scale = MAX_GAP / layout.gap
    size = [max(8, round(s * scale)) for s in layout.fragment]
    x = torch.from_numpy(np.array(puzzle.pieces)).permute(0, 3, 1, 2).float()
    x = F.interpolate(x, size, mode="bilinear", antialias=True).round().clamp(0, 255)
    mask = None
    if puzzle.mask is not None:
        whole = torch.from_numpy(np.array(puzzle.mask)).float()[:, None]
        whole = F.interpolate(whole, size, mode="bilinear", antialias=True)
        mask = whole[:, 0].numpy() > 0.999
    pieces = x.to(torch.uint8).permute(0, 2, 3, 1).numpy()
    small = replace(puzzle, pieces=pieces, mask=mask, gap=MAX_GAP)
    filled, covered = _filled(
        small, board, model, decoder, Layout(layout.grid, (size[0], size[1]), MAX_GAP)
    )
    both = torch.from_numpy(np.concatenate([filled, 255 * covered.astype(np.uint8)], axis=-1))
    both = F.interpolate(
        both.permute(2, 0, 1)[None].float(), layout.size, mode="bilinear", align_corners=False
    )[0].permute(1, 2, 0)
    grey = both[..., :3].round().clamp(0, 255).to(torch.uint8)
    return grey.numpy(), both[..., 3:].numpy() > 127.0
