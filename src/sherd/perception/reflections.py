"""Looking at fragments in mirrors: the network errs a little differently in each.

A puzzle's fragments, all reflected alike, are the fragments of the reflected picture: who was right
of whom may be left of it then, or below. What is said of the reflection is carried back, and the
mean over several is surer than any one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Reflection:
    """A mirror. Whatever it does it undoes when it is done again.

    In a diagonal one, ``upright`` and ``level`` go together: one alone would make a quarter turn.
    """

    upright: bool = False
    """Left is right."""
    level: bool = False
    """Top is bottom."""
    diagonal: bool = False
    """Rows are columns."""

    def fragments(self, pieces: np.ndarray) -> np.ndarray:
        """``(n, H, W, 3)`` in the mirror; ``(n, W, H, 3)`` if it is a diagonal one."""
        if self.upright:
            pieces = pieces[:, :, ::-1]
        if self.level:
            pieces = pieces[:, ::-1]
        if self.diagonal:
            pieces = pieces.transpose(0, 2, 1, 3)
        return np.ascontiguousarray(pieces)

    def pairs(self, logits: np.ndarray) -> np.ndarray:
        """``(2, n, n)``: that j is right of i, that j is below i."""
        right, below = logits[::-1] if self.diagonal else logits
        return np.stack([right.T if self.upright else right, below.T if self.level else below])

    def border(self, logits: np.ndarray) -> np.ndarray:
        """``(4, n)``: the top, right, bottom and left side of i."""
        if self.diagonal:
            logits = logits[[3, 2, 1, 0]]
        if self.upright:
            logits = logits[[0, 3, 2, 1]]
        if self.level:
            logits = logits[[2, 1, 0, 3]]
        return logits


LOOKS = (
    Reflection(),
    Reflection(upright=True),
    Reflection(diagonal=True),
    Reflection(upright=True, level=True, diagonal=True),
)
"""As they are, and in three mirrors: an upright one and the two diagonal ones. None shows a picture
upside down, which the network has seldom seen and judges worse."""
