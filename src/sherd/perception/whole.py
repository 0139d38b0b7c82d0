"""The global evidence E_g: whole boards before the discriminator, on the CPU.

Every fragment is recovered once. A board is then a picture put together from ready tiles, and the
discriminator's answer to it is kept.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import SherdError
from ..puzzle import Puzzle
from .mppn.decoder import DecoderModel, Restorer
from .mppn.discriminator import (
    MIN_PICTURE,
    NEUTRAL,
    DiscriminatorModel,
    compose,
    to_tiles,
)
from .mppn.network import MPPN
from .mppn.weights import Model
from .neural import ENCODE_PIXELS, fragments_of
from .threads import torch_threads

MAX_PIXELS = 3_000_000
"""Largest picture that is judged; boards of more cells than fit get smaller tiles."""
CACHED_BOARDS = 200_000
"""Answers that are kept."""


def recover_tiles(
    net: MPPN, restorer: Restorer, pieces: Tensor, gap: float | None, pitch: int
) -> Tensor:
    """Tiles ``(n, 3, S, S)`` in 0..1 of ``pieces (n, 3, h, w)`` in 0..1.

    ``gap`` is what is missing between two neighbours, in pixels; None = unknown, and then nothing
    around a fragment is recovered.
    """
    around = 0 if gap is None else math.ceil(gap / 2)
    value = torch.full((len(pieces),), -1.0 if gap is None else gap, device=pieces.device)
    return to_tiles(restorer.recover(net, pieces, value, around).float(), pitch)


class Whole:
    """E_g of boards of one puzzle, on demand (`Evidence.board`).

    The same board gets the same answer, whatever is asked with it: each is judged by itself, on
    one thread. That also bounds the memory, and threads that work on boards of their own need not
    wait for each other where the cores are busy.

    Parameters
    ----------
    puzzle
        Fragments of any size; the truth is not looked at.
    model, decoder, discriminator
        The three that belong together: from `load_model`, `load_decoder`, `load_discriminator`.
    threads
        CPU threads.
    """

    def __init__(
        self,
        puzzle: Puzzle,
        model: Model,
        decoder: DecoderModel,
        discriminator: DiscriminatorModel,
        *,
        threads: int = 2,
    ) -> None:
        if threads < 1:
            raise SherdError(f"threads: {threads}; expected at least 1")
        decoder.check(model.sha256)
        discriminator.check(decoder.sha256)
        self._net, self._threads = discriminator.net, threads
        self._net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._temperature = discriminator.calibration.temperature
        self._answers: dict[tuple[int, bytes], float] = {}
        x, gap = fragments_of(puzzle)
        step = max(1, ENCODE_PIXELS // (x.shape[2] * x.shape[3]))
        pitch = min(self._net.cfg.pitch, math.isqrt(MAX_PIXELS // puzzle.n))

        @torch.inference_mode()
        def recover(part: Tensor) -> Tensor:
            return recover_tiles(model.net, decoder.net, part.float() / 255.0, gap, pitch)

        with torch_threads(1), ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(recover, x.split(step)))
        self.tiles = torch.cat(parts)
        """``(n, 3, S, S)`` in 0..1: the recovered fragments."""

    def __call__(self, boards: np.ndarray) -> np.ndarray:
        """``(b, M, N)`` boards, -1 = empty → ``(b,)`` E_g in nats."""
        boards = np.ascontiguousarray(boards, dtype=np.int32)
        if boards.ndim != 3:
            raise SherdError(f"boards: shape {boards.shape}; expected (b, M, N)")
        keys = [(boards.shape[2], board.tobytes()) for board in boards]
        missing = {k: i for i, k in enumerate(keys) if k not in self._answers}
        if len(self._answers) + len(missing) > CACHED_BOARDS:
            self._answers.clear()
            missing = {k: i for i, k in enumerate(keys)}
        todo = [boards[i] for i in missing.values()]
        with torch_threads(1), ThreadPoolExecutor(self._threads) as pool:
            for key, logit in zip(missing, pool.map(self._logit, todo), strict=True):
                self._answers[key] = logit / self._temperature
        return np.array([self._answers[k] for k in keys], dtype=np.float32)

    def picture(self, board: np.ndarray) -> Tensor:
        """``(3, H, W)`` in 0..1: what the discriminator sees of an ``(M, N)`` board."""
        flat = torch.from_numpy(board.astype(np.int64)).reshape(1, 1, -1)
        return compose(self.tiles[None], flat, (board.shape[0], board.shape[1]))[0]

    @torch.inference_mode()
    def _logit(self, board: np.ndarray) -> float:
        x = self.picture(board)[None]
        h, w = x.shape[2:]
        if min(h, w) < MIN_PICTURE:  # a single row of pieces: neutral around it
            dh, dw = (max(0, MIN_PICTURE - s) for s in (h, w))
            x = F.pad(x, (dw // 2, dw - dw // 2, dh // 2, dh - dh // 2), value=NEUTRAL)
        return float(self._net(x.contiguous(memory_format=torch.channels_last))[0])
