"""Which board to show to a person who has seen one and answered to it.

The board of highest evidence was the wrong one: that is why there was something to answer. The next
highest may be wrong as well, and who has pinned a piece sees at once what else has become worse. So
every board that was found is taken for a possible truth, and the one is shown that has most of
their links, and is least likely to be a step back from what was seen::

    U(B) = Σ_T p(T) · (share of T's links that B has)
           − caution · Σ_T p(T) · [B has fewer of T's links than the board that was seen]

    p(T) ∝ Σ_r p(r) · exp(e_r(T)) / Z_r / wrong(T)
    e_r(T) = (pairs(T) + r · borders(T) + puzzlets · puzzlets(T)) / temperature

``wrong(T)`` counts the cells in which the board that was seen would be wrong if T were true: who
answers with one of them, whichever it is, chose it with probability 1 / wrong(T).

Evidence of rims errs as a whole: where a plain part of the picture looks like its rim, all pieces
of a line say so, and the board lies a line off. So either rims tell the truth (r = 1) or they do
not (r = 0, with probability ``doubt``), and the answer says which: ``Z_r`` sums over the boards and
the one that was seen, which the answer has shown to be wrong. If rims spoke for that one above all
others, they have deceived.
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

    border: float = 0.3
    """Weight of border evidence in searches for boards to choose from (`softened`)."""
    doubt: float = 0.4
    """Probability that rims deceive, before anything was answered."""
    puzzlets: float = 0.5
    """Weight of 2×2 evidence: much of it the pairs have said already."""
    temperature: float = 2.5
    """Nats of evidence that make a board e times as likely."""
    caution: float = 1.0
    """What a step back costs, in shares of all links."""

    def __post_init__(self) -> None:
        if min(self.border, self.puzzlets, self.caution) < 0 or self.temperature <= 0:
            raise SherdError("stay: no weight may be negative, and temperature must be above 0")
        if not 0 < self.doubt < 1:
            raise SherdError(f"stay: doubt is {self.doubt}; expected more than 0 and less than 1")


def choose(
    evidence: Evidence,
    seen: np.ndarray,
    boards: list[np.ndarray],
    params: StayParams | None = None,
) -> int:
    """Which of ``boards`` to show to who has seen ``seen``: its index."""
    q = params or StayParams()
    links = [_links(b, evidence.n) for b in boards]
    before = _links(seen, evidence.n)
    shared = np.array([[len(a & b) for b in links] for a in links], dtype=float)  # [B, T]
    had = np.array([len(before & b) for b in links], dtype=float)
    value = likely(evidence, seen, boards, q)
    p = np.exp(value)
    share = shared / np.maximum(1.0, [len(b) for b in links])
    worth = share @ p - q.caution * ((shared < had) @ p)
    return int(np.lexsort((value, worth.round(9)))[-1])


def likely(
    evidence: Evidence, seen: np.ndarray, boards: list[np.ndarray], params: StayParams
) -> np.ndarray:
    """log p(T) of each of ``boards``, to who has seen ``seen`` and answered to it."""
    from scipy.special import logsumexp

    sums = []
    for rims, chance in ((1.0, 1.0 - params.doubt), (0.0, params.doubt)):
        judge = softened(evidence, replace(params, border=rims))
        nats = np.array([judge.full_score(b) for b in [*boards, seen]]) / params.temperature
        sums.append(np.log(chance) + nats[:-1] - logsumexp(nats))
    value = logsumexp(sums, axis=0)
    value -= np.log([max(1, int((b != seen).sum())) for b in boards])
    return np.asarray(value - logsumexp(value))


def softened(evidence: Evidence, params: StayParams | None = None) -> Evidence:
    """The evidence with less of rims and of puzzlets, and nothing of whole boards."""
    q = params or StayParams()
    return replace(
        evidence,
        border=None if evidence.border is None else q.border * evidence.border,
        puzzlet_weight=q.puzzlets * evidence.puzzlet_weight,
        board_weight=0.0,
    )


def fond_of(evidence: Evidence, board: np.ndarray, nats: float) -> Evidence:
    """The evidence with ``nats`` more for each link of ``board``."""
    right, below = pairs(board)
    h, v = evidence.h.copy(), evidence.v.copy()
    h[right[:, 0], right[:, 1]] += nats
    v[below[:, 0], below[:, 1]] += nats
    return replace(evidence, h=h, v=v)


def _links(board: np.ndarray, n: int) -> set[int]:
    """Links as numbers: right of each other from 0 on, below each other from -1 down."""
    right, below = (a[:, 0] * n + a[:, 1] for a in pairs(board))
    return set(right.tolist()) | set((-1 - below).tolist())
