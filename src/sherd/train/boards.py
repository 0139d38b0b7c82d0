"""The discriminator's lessons: right boards against the same puzzles wrongly assembled.

A board is a ``(..., n)`` tensor of whole numbers, the piece of every cell, row by row; the right
board holds piece k in cell k. All corruptions are batched index arithmetic on the device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import SherdError
from ..perception.mppn.discriminator import NEUTRAL, Discriminator, compose
from ..perception.mppn.network import MPPN
from ..perception.mppn.seams import seam_logits

Grid = tuple[int, int]

OFFSET_WEIGHT = 0.1
"""Weight of the binary cross-entropy, which pins the logits' offset."""
HOLES = 0.15
"""Share of puzzles from which pieces are missing, so that boards with holes are no surprise."""
MOST_HOLES = 0.2
"""Largest share of missing pieces."""
TRIES = 64
"""Random swaps among which the hard ones are chosen."""


def right_boards(count: int, grid: Grid, device: torch.device) -> Tensor:
    """``(count, n)``."""
    return torch.arange(grid[0] * grid[1], device=device).expand(count, -1)


def _below(high: Tensor | int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Random whole numbers in ``0..high-1``."""
    x = torch.rand(shape, generator=generator, device=generator.device) * high
    top = high - 1 if isinstance(high, int) else (high - 1).expand(shape)
    return x.long().clamp(max=top)


def _two_cells(shape: tuple[int, ...], n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two different cells each."""
    i = _below(n, shape, generator)
    return i, (i + 1 + _below(n - 1, shape, generator)) % n


def swap_cells(boards: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """``boards (..., n)`` with the pieces of cells ``i, j (...)`` exchanged."""
    at = torch.stack([i, j], dim=-1)
    return boards.scatter(-1, at, boards.gather(-1, at.flip(-1)))


def swap(boards: Tensor, grid: Grid, generator: torch.Generator) -> Tensor:
    """One swap of two pieces in each of ``boards (k, n)``."""
    i, j = _two_cells((len(boards),), boards.shape[1], generator)
    return swap_cells(boards, i, j)


def several_swaps(boards: Tensor, grid: Grid, generator: torch.Generator, most: int = 5) -> Tensor:
    """Two to ``most - 1`` swaps in a row: three to ``most`` pieces go round in a circle."""
    k, n = boards.shape
    most = min(most, n)
    if most < 3:
        return swap(boards, grid, generator)
    cells = torch.rand(k, n, generator=generator, device=boards.device).argsort(1)[:, :most]
    length = 3 + _below(most - 2, (k, 1), generator)
    at = torch.arange(most, device=boards.device).expand(k, -1)
    after = torch.where(at < length, (at + 1) % length, at)
    return boards.scatter(1, cells, boards.gather(1, cells.gather(1, after)))


def _take(boards: Tensor, row: Tensor, col: Tensor, grid: Grid) -> Tensor:
    """Cell (r, c) gets what lay in ``row, col (k, M, N)``, taken round the board's ends."""
    rows, cols = grid
    return boards.gather(1, ((row % rows) * cols + col % cols).flatten(1))


def _cells(count: int, grid: Grid, device: torch.device) -> tuple[Tensor, Tensor]:
    """Row and column of every cell, ``(count, M, N)`` each."""
    row = torch.arange(grid[0], device=device)[:, None].expand(*grid)
    col = torch.arange(grid[1], device=device)[None].expand(*grid)
    return row.expand(count, *grid), col.expand(count, *grid)


def _axes(count: int, grid: Grid, generator: torch.Generator) -> Tensor:
    """``(count, 1, 1)``: along which axis something moves (False = rows move down)."""
    if min(grid) == 1:
        across = torch.full((count,), grid[0] == 1, device=generator.device)
    else:
        across = torch.rand(count, generator=generator, device=generator.device) < 0.5
    return across[:, None, None]


def _steps(length: Tensor, generator: torch.Generator) -> Tensor:
    """One or two cells forth or back, never all the way round."""
    shape = tuple(length.shape)
    step = 1 + _below((length - 1).clamp(max=2), shape, generator)
    forth = torch.rand(shape, generator=generator, device=length.device) < 0.5
    return torch.where(forth, step, -step)


def shift(boards: Tensor, grid: Grid, generator: torch.Generator) -> Tensor:
    """All rows or all columns move by one or two; what leaves comes in at the other end."""
    across = _axes(len(boards), grid, generator)
    step = _steps(torch.where(across, grid[1], grid[0]), generator)
    row, col = _cells(len(boards), grid, boards.device)
    return _take(boards, row + step * ~across, col + step * across, grid)


def shift_line(boards: Tensor, grid: Grid, generator: torch.Generator) -> Tensor:
    """One row or column moves along itself by one or two."""
    across = _axes(len(boards), grid, generator)
    step = _steps(torch.where(across, grid[1], grid[0]), generator)
    line = _below(torch.where(across, grid[0], grid[1]), tuple(across.shape), generator)
    row, col = _cells(len(boards), grid, boards.device)
    step = step * (torch.where(across, row, col) == line)
    return _take(boards, row + step * ~across, col + step * across, grid)


def exchange_blocks(boards: Tensor, grid: Grid, generator: torch.Generator) -> Tensor:
    """Two blocks of one size, at least two pieces where the grid allows, change places."""
    k, device = len(boards), boards.device
    across = _axes(k, grid, generator)  # the axis along which the blocks lie apart
    shape = tuple(across.shape)
    along = torch.where(across, grid[1], grid[0])
    other = torch.where(across, grid[0], grid[1])
    # at most half of the one axis; the other one whole only if it must be
    length = 1 + _below((along // 2).clamp(max=4), shape, generator)
    length = torch.where((other == 1) & (along >= 4), length.clamp(min=2), length)
    least = torch.where((length == 1) & (other > 1), 2, 1)
    width = least + _below(((other - 1).clamp(max=4) - least + 1).clamp(min=1), shape, generator)
    first = _below(along - 2 * length + 1, shape, generator)
    room = along - length - (first + length) + 1
    second = first + length + _below(room, shape, generator)
    a, b = (_below(other - width + 1, shape, generator) for _ in range(2))
    row, col = _cells(k, grid, device)
    x, y = torch.where(across, col, row), torch.where(across, row, col)
    in_a = (x >= first) & (x < first + length) & (y >= a) & (y < a + width)
    in_b = (x >= second) & (x < second + length) & (y >= b) & (y < b + width)
    there = in_a.long() - in_b.long()
    x, y = x + there * (second - first), y + there * (b - a)
    return _take(boards, torch.where(across, y, x), torch.where(across, x, y), grid)


def cheap_pairs(net: MPPN, pieces: Tensor, gap: int) -> tuple[Tensor, Tensor]:
    """``(b, n, n)`` scores per direction, without the pair heads, of ``pieces (b, n, 3, h, w)``."""
    b = len(pieces)
    flat = pieces.flatten(0, 1)
    with torch.no_grad():
        x = net.encode(flat, torch.full((len(flat),), float(gap), device=flat.device))
        tokens = net.tokens(x, b)
        seams = seam_logits(pieces, [gap] * b)
        h, v = (net.base(x, tokens, seams[d], d).score.float() for d in (0, 1))
    return h, v


def pair_evidence(logits: Tensor) -> Tensor:
    """``(b, n, n)`` pair logits of any offset → mean log-probability, asked from both sides."""
    n = logits.shape[-1]
    own = torch.eye(n, dtype=torch.bool, device=logits.device)
    x = logits.detach().float().masked_fill(own, -1e4)
    return (0.5 * (x.log_softmax(1) + x.log_softmax(2))).clamp(min=-12.0)


def board_evidence(h: Tensor, v: Tensor, boards: Tensor, grid: Grid) -> Tensor:
    """Sum of the pair evidence ``h, v (b, n, n)`` of ``boards (b, k, n)`` → ``(b, k)``."""
    b, k, n = boards.shape
    cells = boards.reshape(b, k, *grid)
    total = torch.zeros(b, k, device=boards.device)
    for m, first, second in (
        (h, cells[..., :-1], cells[..., 1:]),
        (v, cells[..., :-1, :], cells[..., 1:, :]),
    ):
        at = (first * n + second).flatten(1)
        total += m.flatten(1).gather(1, at).reshape(b, k, -1).sum(-1)
    return total


def hard_swaps(
    boards: Tensor, h: Tensor, v: Tensor, grid: Grid, count: int, generator: torch.Generator
) -> Tensor:
    """``boards (b, n)`` → ``(b, count, n)``: of `TRIES` random swaps those that lose least.

    ``h, v (b, n, n)`` is pair evidence; a swap may even gain, where perception errs.
    """
    b, n = boards.shape
    tries = max(TRIES, count)
    i, j = _two_cells((b, tries), n, generator)
    swapped = swap_cells(boards[:, None].expand(-1, tries, -1), i, j)
    # the same swap drawn twice would be chosen twice
    low, high = torch.minimum(i, j), torch.maximum(i, j)
    key = low * n + high
    earlier = torch.ones(tries, tries, dtype=torch.bool, device=key.device).tril(-1)
    again = ((key[:, :, None] == key[:, None, :]) & earlier).any(2)
    score = board_evidence(h, v, swapped, grid).masked_fill(again, -torch.inf)
    best = score.topk(count, dim=1).indices
    return swapped.gather(1, best[..., None].expand(-1, -1, n))


Corruption = Callable[[Tensor, Grid, torch.Generator], Tensor]
CORRUPTIONS: dict[str, Corruption] = {
    "swap": swap,
    "swaps": several_swaps,
    "shift": shift,
    "line": shift_line,
    "blocks": exchange_blocks,
}
"""Wrong boards that need no evidence."""
MIX = ("swap", "swap", "swaps", "shift", "line", "blocks", "hard", "hard")
"""The wrong boards beside every right one; "hard" is a plain swap when there is no evidence."""


def wrong_boards(
    puzzles: int, grid: Grid, pairs_h: Tensor | None, pairs_v: Tensor | None,
    generator: torch.Generator,
) -> Tensor:  # fmt: skip
    """``(puzzles, K, n)``: one board of every kind in `MIX`."""
    if grid[0] * grid[1] < 2:
        raise SherdError(f"grid: {grid}; one piece cannot be put wrongly")
    right = right_boards(puzzles, grid, generator.device)
    hard = MIX.count("hard") if pairs_h is not None and pairs_v is not None else 0
    names = [name for name in MIX if name != "hard"] + ["swap"] * (MIX.count("hard") - hard)
    wrong = [CORRUPTIONS[name](right, grid, generator)[:, None] for name in names]
    if hard and pairs_h is not None and pairs_v is not None:
        h, v = pair_evidence(pairs_h), pair_evidence(pairs_v)
        # half of them make a second hard swap: a board that search could end with
        once = hard_swaps(right, h, v, grid, hard, generator)
        twice = hard_swaps(once[:, -1], h, v, grid, 1, generator)
        deep = torch.rand(puzzles, 1, 1, generator=generator, device=right.device) < 0.5
        wrong += [once[:, :-1], torch.where(deep, twice, once[:, -1:])]
    return torch.cat(wrong, dim=1)


def _with_holes(tiles: Tensor, generator: torch.Generator) -> Tensor:
    """``tiles (b, n, 3, S, S)``, in some puzzles a few of them neutral."""
    b, n = tiles.shape[:2]
    shape = (b, 1)
    share = torch.rand(shape, generator=generator, device=tiles.device) * MOST_HOLES
    on = torch.rand(shape, generator=generator, device=tiles.device) < HOLES
    gone = torch.rand(b, n, generator=generator, device=tiles.device) < share * on
    return torch.where(gone[..., None, None, None], NEUTRAL, tiles)


def discriminator_loss(
    disc: Discriminator,
    tiles: Tensor,
    pairs_h: Tensor | None,
    pairs_v: Tensor | None,
    grid: Grid,
    generator: torch.Generator,
) -> tuple[Tensor, dict[str, Tensor]]:
    """What the discriminator minimises: cross-entropy of the right board among the wrong ones.

    Parameters
    ----------
    tiles
        ``(b, n, 3, S, S)`` in 0..1, piece k being that of cell k; no gradient goes back to them.
    pairs_h, pairs_v
        ``(b, n, n)`` pair logits or evidence, from which hard swaps are chosen; None = no such.
    grid
        ``(M, N)`` of all b puzzles.

    Returns
    -------
    The loss, and figures: ``choice`` (cross-entropy), ``offset`` (binary cross-entropy), ``top``
    (share of puzzles whose right board wins), ``swap`` (share in which it beats a plain swap),
    ``logit`` (mean of the right boards). Nothing waits for the device.
    """
    b = len(tiles)
    right = right_boards(b, grid, tiles.device)[:, None]
    boards = torch.cat([right, wrong_boards(b, grid, pairs_h, pairs_v, generator)], dim=1)
    pictures = compose(_with_holes(tiles.detach(), generator), boards, grid)
    logits = disc(pictures).float().view(b, -1)  # (b, 1 + K), the right one first
    choice = F.cross_entropy(logits, torch.zeros(b, dtype=torch.long, device=logits.device))
    offset = 0.5 * (F.softplus(-logits[:, 0]).mean() + F.softplus(logits[:, 1:]).mean())
    with torch.no_grad():
        figures = {
            "choice": choice.detach(),
            "offset": offset.detach(),
            "top": (logits[:, 0] > logits[:, 1:].amax(1)).float().mean(),
            "swap": (logits[:, 0] > logits[:, 1]).float().mean(),
            "logit": logits[:, 0].mean(),
        }
    return choice + OFFSET_WEIGHT * offset, figures


def adversarial_loss(disc: Discriminator, tiles: Tensor, grid: Grid) -> Tensor:
    """What the decoder minimises: right boards of its tiles must pass as right.

    ``tiles (b, n, 3, S, S)`` with the gradient; freeze ``disc`` or drop its gradients.
    """
    right = right_boards(len(tiles), grid, tiles.device)[:, None]
    return F.softplus(-disc(compose(tiles, right, grid)).float()).mean()
