"""Which grids may n pieces have come from?"""

from __future__ import annotations

MISSING, MISSING_MOST = 0.1, 12
"""Share of the pieces, and number, that may be missing unless the caller says. Of few pieces up to
three may, if that is no more than a fifth."""
SPARE, SPARE_MOST = 0.1, 4
"""Share of the pieces, and number, that may belong elsewhere."""


def possible_grids(n: int, missing: int | None = None) -> list[tuple[int, int]]:
    """All grids for n pieces of which up to ``missing`` are lost and few belong elsewhere."""
    if missing is None:
        missing = max(min(3, n // 5), min(MISSING_MOST, int(MISSING * n)))
    return [
        (rows, cells // rows)
        for cells in range(n - spare_pieces(n), n + missing + 1)
        for rows in range(1, cells + 1)
        if cells % rows == 0
    ]


def spare_pieces(n: int) -> int:
    """How many of n pieces may belong elsewhere."""
    return min(SPARE_MOST, int(SPARE * n))
