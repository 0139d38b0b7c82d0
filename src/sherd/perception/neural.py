"""A puzzle through the MPPN: fragments in, `Evidence` out, on the CPU.

A cascade keeps it fast: every piece is encoded once, a cheap score (products of embeddings, and
hand-made seam evidence) ranks all n² pairs, and the pair heads see those only that may be
neighbours: few where one candidate stands out, many where a plain side could go anywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import SherdError
from ..puzzle import EMPTY, Puzzle
from .classical import seam_logits
from .evidence import Evidence, from_logits
from .fringe import add_fringe, shipped_fringe, system_for
from .gradients import gradient_evidence
from .mppn.config import MAX_PIECE, MIN_PIECE, SMALL
from .mppn.network import PUZZLET_SEAMS, Base, Features
from .mppn.weights import Model
from .reflections import LOOKS
from .threads import torch_threads

ENCODE_PIXELS = 16 * 64 * 64
"""Pixels encoded at a time: small enough for the caches."""
CANDIDATES = 40
"""Candidates of a side that the pair heads see at most."""
LEAST = 5
"""Candidates of a side that the pair heads always see."""
MARGIN = 6.0
"""Nats behind the best of its row or column with which a pair is still a candidate."""
PAIR_TOKENS = 256 * 16
"""Edge positions of pairs that a head sees at a time."""
CACHED_SEAMS = 400_000
"""Seam vectors kept for 2×2 puzzlets, beside those of the candidates."""
FLOOR = 1e-3
"""Doubt mixed into border and 2×2 answers, so that none can outweigh a board."""
PUZZLET_PRIOR = 1.0 / 8.0
"""Share of true puzzlets among those that the 2×2 head was trained on."""


def filled(puzzle: Puzzle) -> Puzzle:
    """The puzzle without a mask: holes get their fragment's mean colour."""
    if puzzle.mask is None:
        return puzzle
    mask = puzzle.mask[..., None]
    count = np.maximum(mask.sum((1, 2), keepdims=True), 1)
    mean = (puzzle.pieces * mask).sum((1, 2), keepdims=True) / count
    pieces = np.where(mask, puzzle.pieces, np.rint(mean).astype(np.uint8))
    return replace(puzzle, pieces=pieces, mask=None)


def fragments_of(puzzle: Puzzle) -> tuple[Tensor, float | None]:
    """``(n, 3, H, W) uint8`` fragments of a size the network knows, and the gap on that scale."""
    x = torch.from_numpy(np.array(filled(puzzle).pieces)).permute(0, 3, 1, 2)
    h, w = puzzle.piece_size
    scale = 1.0
    if min(h, w) < MIN_PIECE:
        scale = MIN_PIECE / min(h, w)
    if max(h, w) * scale > MAX_PIECE:
        scale = MAX_PIECE / max(h, w)
    if scale != 1.0:
        size = (max(8, round(h * scale)), max(8, round(w * scale)))
        parts = [
            F.interpolate(part.float(), size, mode="bilinear", antialias=True)
            for part in x.split(256)
        ]
        x = torch.cat(parts).round().clamp(0, 255).to(torch.uint8)
    return x, None if puzzle.gap is None else puzzle.gap * scale


def encode(puzzle: Puzzle, model: Model) -> Features:
    """Features of every fragment of ``puzzle``."""
    x, gap = fragments_of(puzzle)
    step = max(1, ENCODE_PIXELS // (x.shape[2] * x.shape[3]))
    parts = []
    for part in x.split(step):
        g = torch.full((len(part),), -1.0 if gap is None else float(gap))
        parts.append(model.net.encode(part.float() / 255.0, g))
    return Features.join(parts)


def _candidates(score: Tensor, most: int) -> np.ndarray:
    """Sorted keys ``i·n + j`` of the pairs that the heads should see, by ``score (n, n)``."""
    n = len(score)
    k = min(most, n - 1)
    at = torch.arange(n)[:, None]
    keys = []
    for ranked, factor in ((score, (n, 1)), (score.T, (1, n))):
        best, other = ranked.topk(k, dim=1)
        close = best >= best[:, :1] - (MARGIN if k < n - 1 else math.inf)
        close[:, :LEAST] = True
        keys.append((at * factor[0] + other * factor[1])[close])
    return torch.unique(torch.cat(keys)).numpy()


class PairScores:
    """Fused logits and seam vectors of one direction; the head answers each pair once."""

    def __init__(
        self, model: Model, x: Features, base: Base, direction: int, candidates: int
    ) -> None:
        self._net, self._x, self._base, self._direction = model.net, x, base, direction
        self.n = len(x.pooled)
        self._cheap = base.score[0]
        self._keys = _candidates(self._cheap, candidates)
        self._seams, self._fused = self._ask(self._keys)
        i, j = (torch.from_numpy(k) for k in divmod(self._keys, self.n))
        self.logits = base.fused(torch.zeros_like(i), i, j, self._fused)[0]
        self._first = (self._keys, self._seams, self._fused)

    def _ask(self, keys: np.ndarray) -> tuple[Tensor, Tensor]:
        """Seam vectors and fused logits of the pairs ``i·n + j``."""
        length = self._x.first[self._direction].shape[1]
        seams = torch.empty(len(keys), self._net.cfg.seam)
        fused = torch.empty(len(keys))
        step = max(1, PAIR_TOKENS // length)
        for start in range(0, len(keys), step):
            part = torch.from_numpy(keys[start : start + step])
            i, j = part // self.n, part % self.n
            rivalry = self._base.rivalry(torch.zeros_like(i), i, j)
            found, residual = self._net.pair(self._x, i, j, self._direction, rivalry)
            seams[start : start + step] = found
            fused[start : start + step] = self._cheap[i, j] + residual
        return seams, fused

    def seams(self, first: np.ndarray, second: np.ndarray) -> tuple[Tensor, Tensor]:
        """Seam vectors ``(p, seam)`` and fused logits ``(p,)`` of any pairs."""
        keys = first * self.n + second
        wanted = np.unique(keys)
        missing = np.setdiff1d(wanted, self._keys, assume_unique=True)
        if len(missing):
            if len(self._keys) + len(missing) > len(self._first[0]) + CACHED_SEAMS:
                self._keys, self._seams, self._fused = self._first
                missing = np.setdiff1d(wanted, self._keys, assume_unique=True)
            seams, fused = self._ask(missing)
            order = np.argsort(np.concatenate([self._keys, missing]))
            take = torch.from_numpy(order)
            self._keys = np.concatenate([self._keys, missing])[order]
            self._seams = torch.cat([self._seams, seams])[take]
            self._fused = torch.cat([self._fused, fused])[take]
        at = torch.from_numpy(np.searchsorted(self._keys, keys))
        return self._seams[at], self._fused[at]


@dataclass(frozen=True)
class View:
    """What the network says of the fragments as they are, or of a mirror image."""

    x: Features
    pairs: list[PairScores]
    border: np.ndarray
    """``(4, n)`` logits."""


def _look(puzzle: Puzzle, model: Model, seams: np.ndarray, candidates: int) -> View:
    x = encode(puzzle, model)
    tokens = model.net.tokens(x)
    pairs = []
    for d in (0, 1):
        base = model.net.base(x, tokens, torch.from_numpy(seams[d])[None], d)
        pairs.append(PairScores(model, x, base, d, candidates))
    return View(x, pairs, model.net.border_logits(x, tokens)[0].numpy())


def look(
    puzzle: Puzzle, model: Model, candidates: int, looks: int = 2
) -> tuple[np.ndarray, np.ndarray, View]:
    """Pair logits ``(2, n, n)``, border logits ``(4, n)``, and the view as it is.

    The logits are means over the first ``looks`` of `LOOKS`: the fragments as they are, then in
    mirrors.
    """
    puzzle = filled(puzzle)
    seams = seam_logits(puzzle)
    pairs, border = np.zeros_like(seams), np.zeros((4, puzzle.n), dtype=np.float32)
    first = None
    for mirror in LOOKS[:looks]:
        seen = replace(puzzle, pieces=mirror.fragments(puzzle.pieces))
        view = _look(seen, model, mirror.pairs(seams), candidates)
        pairs += mirror.pairs(np.stack([p.logits.numpy() for p in view.pairs])) / looks
        border += mirror.border(view.border) / looks
        first = first or view
    assert first is not None
    return pairs, border, first


def piece_side(puzzle: Puzzle) -> float:
    """Side of a piece in pixels, of a square as large as it."""
    return math.sqrt(math.prod(puzzle.piece_size))


def looks_worth(puzzle: Puzzle) -> int:
    """How many of `LOOKS` are worth their time: all at `SMALL` pieces, two at others."""
    return len(LOOKS) if piece_side(puzzle) < SMALL else 2


def _ratio(logit: np.ndarray, prior: float) -> np.ndarray:
    """Log-likelihood ratio of an answer against ``prior``, bounded by `FLOOR`."""
    p = 1.0 / (1.0 + np.exp(-logit.astype(np.float64)))
    p = p * (1.0 - FLOOR) + FLOOR * prior
    q = np.log(p) - np.log1p(-p) - (math.log(prior) - math.log1p(-prior))
    return np.asarray(q, dtype=np.float32)


class Puzzlets:
    """Evidence of 2×2 puzzlets (eq. sum_local, i = j = 2), on demand."""

    def __init__(self, model: Model, x: Features, pairs: list[PairScores], threads: int) -> None:
        self._model, self._x, self._pairs, self._count = model, x, pairs, threads

    def __call__(self, members: np.ndarray) -> np.ndarray:
        """``(k, 4)`` pieces → ``(k,)``; 0 where a cell is empty."""
        members = np.asarray(members, dtype=np.int64)
        out = np.zeros(len(members), dtype=np.float32)
        whole = (members != EMPTY).all(axis=1)
        if whole.any():
            # one answer per puzzlet, whatever else is asked with it
            unique, back = np.unique(members[whole], axis=0, return_inverse=True)
            with torch_threads(self._count), torch.inference_mode():
                parts = [self._logits(q) for q in np.array_split(unique, -(-len(unique) // 1024))]
            logit = np.concatenate(parts) / self._model.calibration.puzzlet
            out[whole] = _ratio(logit, PUZZLET_PRIOR)[back.reshape(-1)]
        return out

    def _logits(self, q: np.ndarray) -> np.ndarray:
        found = [self._pairs[d].seams(q[:, a], q[:, b]) for d, a, b in PUZZLET_SEAMS]
        seams = torch.stack([s for s, _ in found], dim=1)
        logits = torch.stack([v for _, v in found], dim=1)
        answer = self._model.net.puzzlet(self._x, torch.from_numpy(q), seams, logits)
        return answer.numpy()


def _border(logits: np.ndarray, grid: tuple[int, int] | None, n: int) -> np.ndarray:
    """``(4, n)`` evidence against the share of pieces that lie at that rim of the grid."""
    rows, cols = grid or (math.sqrt(n), math.sqrt(n))
    out = np.zeros(logits.shape, dtype=np.float32)
    for side, lines in enumerate((rows, cols, rows, cols)):
        if lines > 1:  # in a single row every piece is at the rim, and nothing is said by it
            out[side] = _ratio(logits[side], 1.0 / lines)
    return out


@dataclass(frozen=True)
class Observation:
    """What the network says of fragments, whatever their grid may be: it is not told."""

    pairs: Evidence
    """Pair and 2×2 evidence."""
    border: np.ndarray
    """``(4, n)`` calibrated logits that a side has no neighbour."""
    border_weight: float

    def on(self, grid: tuple[int, int] | None) -> Evidence:
        """The evidence on ``grid``, with border evidence against the share of pieces at its rims.

        Scores of boards compare within one grid only. With None the share is that of a square of as
        many pieces: boards of different grids are then held against the same chance.
        """
        border = self.border_weight * _border(self.border, grid, self.pairs.n)
        return replace(self.pairs, border=border)


def perceive(
    puzzle: Puzzle,
    model: Model,
    *,
    candidates: int = CANDIDATES,
    looks: int = 2,
    threads: int = 2,
) -> Evidence:
    """What the network by itself says about ``puzzle``; the arguments are those of `observe`."""
    seen = observe(puzzle, model, candidates=candidates, looks=looks, threads=threads)
    return seen.on(puzzle.grid)


def observe(
    puzzle: Puzzle,
    model: Model,
    *,
    candidates: int = CANDIDATES,
    looks: int = 2,
    close: bool = False,
    threads: int = 2,
) -> Observation:
    """Let the network look at the fragments of ``puzzle``.

    Parameters
    ----------
    puzzle
        Fragments of any size; neither grid nor truth are looked at.
    model
        From `load_model`.
    candidates
        How many pieces per row and per column the pair heads compare at most; n − 1 = all.
    looks
        How many of `LOOKS` are taken: 1 as they are, 2 with a mirror image, 4 with all of them.
    close
        Whether gradients across the seams and a fringe network have a say in the pair evidence,
        where the gap is known to be small enough.
    threads
        CPU threads.
    """
    if candidates < 1 or threads < 1:
        raise SherdError(f"candidates: {candidates}, threads: {threads}; both must be at least 1")
    if not 1 <= looks <= len(LOOKS):
        raise SherdError(f"looks: {looks}; expected 1 to {len(LOOKS)}")
    source = f"mppn-{model.sha256[:8]}"
    c = model.calibration
    if puzzle.n == 1:
        nothing = np.zeros((1, 1), dtype=np.float32)
        pairs = Evidence(nothing, nothing, source=source)
        return Observation(pairs, np.zeros((4, 1), dtype=np.float32), 0.0)
    with torch_threads(threads), torch.inference_mode():
        logits, border, view = look(puzzle, model, candidates, looks)
    side = piece_side(puzzle)
    both = c.close_up(puzzle.gap, side) if close and puzzle.mask is None else None
    if both is None:
        logits /= c.pair_temperature(puzzle.gap, side)
    else:
        gradients = gradient_evidence(puzzle, along=both.along)
        steps = np.stack([gradients.h, gradients.v])
        logits = logits / both.temperature + both.weight * steps
        fringe = shipped_fringe(system_for(puzzle.gap or 0.0))
        if fringe is not None and fringe.net.cfg.mppn == model.sha256:
            with torch_threads(threads), torch.inference_mode():
                keys = [_candidates(torch.from_numpy(t), candidates) for t in logits]
                logits = add_fringe(fringe.net, puzzle, logits, steps, keys)
    pairs = replace(
        from_logits(logits[0], logits[1], source=source),
        puzzlet=Puzzlets(model, view.x, view.pairs, threads),
    )
    return Observation(pairs, border / c.border, c.border_weight)
