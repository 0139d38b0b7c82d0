"""Which board to show to a person who has seen one and answered to it.

The board of highest evidence may be the wrong one: that is why there was something to answer. It
would be shown all the same if it were only about what is most likely. But who has pinned a piece
sees at once what else has become worse. So every board that was found is taken for a possible
truth, as likely as the evidence says, and the one is shown that is closest to all of them and
least likely to be a step back from what was seen::

    U(B) = Σ_T p(T) · (links of B that T has / links of T)  −  caution · Σ_T p(T) · [B has fewer
           links of T than the board that was seen]

    p(T) ∝ exp(J(T) / temperature)
    J(T) = pairs + border · … + puzzlets + whole · E_g + keep · (links of the seen board that T has)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..errors import SherdError
from ..perception.evidence import Evidence
from ..puzzle import pairs


@dataclass(frozen=True)
class StayParams:
    """Parameters of `choose`, chosen on held-out pictures (see docs/fragments.md)."""

    border: float = 0.2
    """Weight of border evidence: what says where all of the board lies has just been wrong."""
    whole: float = 0.6
    """Weight of the global evidence, which says the same."""
    keep: float = 0.5
    """Nats for each link of the board that was seen: it was left as it is."""
    temperature: float = 4.0
    """Of the posterior over boards."""
    caution: float = 0.5
    """What a step back costs, in shares of all links."""

    def __post_init__(self) -> None:
        if min(self.border, self.whole, self.keep, self.caution) < 0 or self.temperature <= 0:
            raise SherdError("stay: no weight may be negative, and temperature must be above 0")


def answered(evidence: Evidence, seen: np.ndarray, params: StayParams | None = None) -> Evidence:
    """The evidence whose ``full_score`` is J."""
    q = params or StayParams()
    border = None if evidence.border is None else q.border * evidence.border
    mild = replace(evidence, border=border, board_weight=q.whole * evidence.board_weight)
    return fond_of(mild, seen, q.keep)


def fond_of(evidence: Evidence, board: np.ndarray, nats: float) -> Evidence:
    """The evidence with ``nats`` more for each link of ``board``."""
    right, below = pairs(board)
    h, v = evidence.h.copy(), evidence.v.copy()
    h[right[:, 0], right[:, 1]] += nats
    v[below[:, 0], below[:, 1]] += nats
    return replace(evidence, h=h, v=v)


def choose(
    evidence: Evidence,
    seen: np.ndarray,
    boards: list[np.ndarray],
    params: StayParams | None = None,
) -> int:
    """Which of ``boards`` to show to who has seen ``seen``."""
    q = params or StayParams()
    judge = answered(evidence, seen, q)
    links = [_links(b, evidence.n) for b in boards]
    before = _links(seen, evidence.n)
    shared = np.array([[len(a & b) for b in links] for a in links], dtype=float)  # [B, T]
    had = np.array([len(before & b) for b in links], dtype=float)
    value = np.array([judge.full_score(b) for b in boards])
    p = np.exp((value - value.max()) / q.temperature)
    p /= p.sum()
    most = max(1, *(len(b) for b in links))
    worth = shared @ p / most - q.caution * ((shared < had) @ p)
    return int(np.lexsort((value, worth.round(9)))[-1])


def _links(board: np.ndarray, n: int) -> set[int]:
    """Links as numbers: right of each other from 0 on, below each other from -1 down."""
    right, below = (a[:, 0] * n + a[:, 1] for a in pairs(board))
    return set(right.tolist()) | set((-1 - below).tolist())
