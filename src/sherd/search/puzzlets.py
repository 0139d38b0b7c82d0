"""The 2×2 evidence of one puzzle: asked in batches, kept in a table that the kernels read."""

from __future__ import annotations

import numpy as np

from ..perception.evidence import Evidence
from .kernels.puzzlets import FREE, GUESSES, Quads, guess_bins, known, put
from .kernels.world import World


class PuzzletTable:
    """Answers of the 2×2 head. Each puzzlet is asked once."""

    def __init__(self, evidence: Evidence, world: World) -> None:
        self._ask = evidence.puzzlet if evidence.has_puzzlets else None
        self._weight = evidence.puzzlet_weight if evidence.has_puzzlets else 0.0
        self._world = world
        self._n = int(world.at.shape[1])
        self._keys = np.full(1 << 12, FREE, dtype=np.int64)
        self._values = np.zeros(1 << 12, dtype=np.float32)
        self._sums = np.zeros((2, GUESSES))  # of evidence, and how many, per bin
        self.asked = 0
        """Puzzlets that were asked."""

    def quads(self) -> Quads:
        """The table as it stands, for the kernels; `learn` may outdate it.

        A puzzlet that was not asked counts as those known do on average that have links as strong.
        """
        count = self._sums[1]
        filled = np.flatnonzero(count)
        guess = np.zeros(GUESSES)
        if len(filled):
            guess = np.interp(np.arange(GUESSES), filled, self._sums[0, filled] / count[filled])
        return Quads(self._keys, self._values, guess.astype(np.float32), self._weight)

    def learn(self, quads: np.ndarray) -> None:
        """Ask for the puzzlets ``quads (k, 4)`` that are not known yet; -1 = empty cell."""
        if self._ask is None:
            return
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
