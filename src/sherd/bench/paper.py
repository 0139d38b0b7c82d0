"""The paper's own figures (ERL-MPP, AAAI 2025), in percent, transcribed from its tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figures:
    """One row of a table; None where the paper gives no figure."""

    perfect: float | None = None
    absolute: float | None = None
    horizontal: float | None = None
    vertical: float | None = None
    neighbor: float | None = None


BEST = "erl-mpp"
"""The system that the paper proposes."""

# Table JPLEG-5: Perfect, Absolute, Horizontal, Vertical
_JPLEG5: dict[str, tuple[float, float, float, float]] = {
    "deepzzle": (0.0, 21.9, 10.9, 10.7),
    "greedy": (0.1, 24.1, 12.6, 12.3),
    "tabu": (0.0, 24.6, 12.8, 12.8),
    "ga": (0.0, 25.1, 12.4, 12.3),
    "sd2rl": (5.1, 40.3, 26.5, 26.2),
    "pdn-ga": (6.1, 44.3, 30.8, 30.6),
    "erl-mpp": (18.6, 52.7, 56.5, 57.3),
    # Table Ablation, where it adds to the above
    "mppn-dqn": (9.8, 46.7, 37.8, 37.7),
    "sdn-evorl": (13.5, 50.2, 43.8, 43.8),
}

# Table 3: Perfect / Absolute of paintings, engravings, artifacts
_KINDS: dict[str, dict[str, tuple[float, float]]] = {
    "deepzzle": {"paintings": (0.0, 15.5), "engravings": (0.0, 23.9), "artifacts": (0.0, 26.3)},
    "greedy": {"paintings": (0.0, 16.2), "engravings": (0.0, 27.3), "artifacts": (0.3, 28.7)},
    "tabu": {"paintings": (0.0, 16.4), "engravings": (0.0, 28.4), "artifacts": (0.0, 29.0)},
    "ga": {"paintings": (0.0, 17.0), "engravings": (0.0, 28.9), "artifacts": (0.0, 29.4)},
    "sd2rl": {"paintings": (0.5, 23.8), "engravings": (7.6, 48.5), "artifacts": (7.2, 48.6)},
    "pdn-ga": {"paintings": (0.6, 24.5), "engravings": (8.6, 54.5), "artifacts": (9.1, 54.0)},
    "erl-mpp": {"paintings": (3.3, 28.5), "engravings": (24.4, 62.8), "artifacts": (28.1, 66.8)},
}

# Table MIT: Perfect, Absolute, Neighbor by grid and gap; 64-px pieces, 60 puzzles
_MIT: dict[tuple[str, int], dict[str, tuple[float, float, float]]] = {
    ("7x10", 2): {
        "greedy": (1.7, 42.9, 68.4),
        "tabu": (3.3, 49.6, 72.3),
        "ga": (3.3, 50.1, 72.7),
        "inpaint-gan": (6.7, 86.0, 84.6),
        "pdn-ga": (8.3, 86.5, 85.3),
        "sd2rl": (11.7, 86.7, 85.4),
        "erl-mpp": (50.0, 90.8, 89.2),
    },
    ("7x10", 4): {
        "greedy": (0.0, 12.1, 41.4),
        "tabu": (0.0, 20.2, 45.8),
        "ga": (0.0, 20.1, 46.2),
        "inpaint-gan": (1.7, 50.5, 57.1),
        "pdn-ga": (3.3, 52.6, 58.8),
        "sd2rl": (5.0, 53.4, 59.2),
        "erl-mpp": (13.3, 59.4, 67.3),
    },
    ("10x15", 2): {
        "greedy": (0.0, 42.2, 65.9),
        "tabu": (0.0, 48.7, 67.3),
        "ga": (0.0, 49.3, 69.4),
        "inpaint-gan": (1.7, 66.7, 76.3),
        "pdn-ga": (1.7, 67.8, 77.8),
        "sd2rl": (3.3, 68.1, 78.0),
        "erl-mpp": (8.3, 70.9, 80.4),
    },
    ("10x15", 4): {
        "greedy": (0.0, 11.1, 39.7),
        "tabu": (0.0, 12.4, 40.3),
        "ga": (0.0, 12.5, 40.5),
        "inpaint-gan": (0.0, 35.4, 51.3),
        "pdn-ga": (0.0, 37.6, 54.8),
        "sd2rl": (0.0, 38.3, 55.3),
        "erl-mpp": (0.0, 40.9, 59.7),
    },
}

PUBLISHED = "lp"
"""A solver of others that is not run here: linear programming (Yu et al. 2016), of which there are
published figures of 28-px pieces without a gap."""

# Perfect (14, 12 and 11 of 20 puzzles), direct comparison (= Absolute), Neighbor
_LARGE: dict[str, tuple[float, float, float]] = {
    "18x24": (70.0, 95.8, 95.6),
    "20x27": (60.0, 91.9, 96.6),
    "23x35": (55.0, 94.6, 96.0),
}


def figures(
    protocol: str, kind: str | None, grid: str, gap: int, pieces: int, system: str
) -> Figures | None:
    """What the paper reports for one cell of a table, or None if it reports nothing.

    ``art5`` has JPLEG-5's geometry and kinds but other pictures; the paper's JPLEG-5 figures are
    given for it as well. The paper does not say whether its gap lies between two pieces or on each
    side of one: the same figures stand beside both readings. Large puzzles are not the paper's:
    they have the figures of `PUBLISHED`.
    """
    if protocol == "mit" and pieces == 28:
        large = _LARGE.get(grid) if (gap, system) == (0, PUBLISHED) else None
        return None if large is None else Figures(large[0], large[1], neighbor=large[2])
    if protocol == "mit" and pieces == 64:
        row = _MIT.get((grid, gap), {}).get(system)
        return None if row is None else Figures(row[0], row[1], neighbor=row[2])
    if protocol in ("jpleg5", "art5"):
        if kind is None:
            return Figures(*_JPLEG5[system]) if system in _JPLEG5 else None
        return Figures(*_KINDS[system][kind]) if system in _KINDS else None
    return None
