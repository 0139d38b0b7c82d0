"""The 2×2 evidence of one puzzle: asked in batches, kept in a table that the kernels read."""

from __future__ import annotations

import numpy as np

from ..perception.evidence import PuzzletFn
from .kernels.puzzlets import FREE, GUESSES, Quads, guess_bins, known, put
from .kernels.world import World

COMBINATIONS = 120_000
"""Puzzlets looked at by `PuzzletTable.likely`: the lists of candidates are cut to this."""


class PuzzletTable:
    """Answers of the 2×2 head. Each puzzlet is asked once."""

    def __init__(self, ask: PuzzletFn, world: World, weight: float) -> None:
        self._ask, self._world, self._weight = ask, world, weight
        self._n = int(world.at.shape[1])
        self._keys = np.full(1 << 12, FREE, dtype=np.int64)
        self._values = np.zeros(1 << 12, dtype=np.float32)
        self._sums = np.zeros((2, GUESSES))  # of evidence, and how many, per bin
        self.asked = 0
        """Puzzlets that were asked."""

    def quads(self) -> Quads:
        """The table as it stands, for the kernels; `learn` may outdate it."""
        count = self._sums[1]
        # A bin without an answer takes the next one's: links that weak are left to the pairs.
        filled = np.flatnonzero(count)
        guess = np.zeros(GUESSES)
        if len(filled):
            guess = np.interp(np.arange(GUESSES), filled, self._sums[0, filled] / count[filled])
        return Quads(self._keys, self._values, guess.astype(np.float32), self._weight)

    def learn(self, quads: np.ndarray) -> None:
        """Ask for the puzzlets ``quads (k, 4)`` that are not known yet; -1 = empty cell."""
        quads = quads[(quads >= 0).all(axis=1)].astype(np.int64)
        n = self._n
        keys = ((quads[:, 0] * n + quads[:, 1]) * n + quads[:, 2]) * n + quads[:, 3]
        keys, first = np.unique(keys, return_index=True)
        new = ~known(self._keys, keys)
        if not new.any():
            return
        keys, quads = keys[new], quads[first[new]]
        values = np.asarray(self._ask(quads), dtype=np.float32)
        self._room(len(keys))
        put(self._keys, self._values, keys, values)
        self.asked += len(keys)
        bins = guess_bins(self._world, quads)
        self._sums[0] += np.bincount(bins, values, GUESSES)
        self._sums[1] += np.bincount(bins, minlength=GUESSES)

    def _room(self, more: int) -> None:
        """Keep the table at most half full."""
        size = len(self._keys)
        while 2 * (self.asked + more) > size:
            size *= 2
        if size > len(self._keys):
            held = self._keys != FREE
            keys, values = self._keys[held], self._values[held]
            self._keys = np.full(size, FREE, dtype=np.int64)
            self._values = np.zeros(size, dtype=np.float32)
            put(self._keys, self._values, keys, values)

    def likely(self, most: int) -> np.ndarray:
        """``(≤ most, 4)``: the puzzlets whose four links have most evidence in sum."""
        w, n = self._world, self._n
        depth = min(w.cand.shape[2], max(2, int((COMBINATIONS / (2 * n)) ** (1 / 3))))
        right, below = w.cand[1, :, :depth], w.cand[2, :, :depth]
        a = np.arange(n)[:, None, None, None]
        b, c = right[:, :, None, None], below[:, None, :, None]
        under = np.broadcast_to(below[right][:, :, None, :], (n, depth, depth, depth))
        beside = np.broadcast_to(right[below][:, None, :, :], (n, depth, depth, depth))
        d = np.concatenate([under, beside], axis=3)
        q = np.stack([x.ravel() for x in np.broadcast_arrays(a, b, c, d)], axis=1)
        q = q[(q >= 0).all(axis=1)]
        ordered = np.sort(q, axis=1)
        q = q[(ordered[:, 1:] != ordered[:, :-1]).all(axis=1)].astype(np.int64)
        keys = ((q[:, 0] * n + q[:, 1]) * n + q[:, 2]) * n + q[:, 3]
        q = q[np.unique(keys, return_index=True)[1]]
        links = (
            w.at[1, q[:, 0], q[:, 1]]
            + w.at[1, q[:, 2], q[:, 3]]
            + w.at[2, q[:, 0], q[:, 2]]
            + w.at[2, q[:, 1], q[:, 3]]
        )
        if len(q) <= most:
            return q
        return q[np.argsort(-links, kind="stable")[:most]]
