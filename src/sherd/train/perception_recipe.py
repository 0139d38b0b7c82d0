"""What a training run of the perception network depends on beside its pictures."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import SherdError
from ..perception.mppn.config import NetConfig
from .data import Augment, Entry

MIX = (
    # photographs as the MIT table cuts them, by missing pixels
    Entry(0.32, (6, 10), (8, 15), (64,), (0, 1, 2, 2, 2, 3, 4, 4, 4, 4, 6, 8), art=0.15),
    # the harsher reading: pixels off each side
    Entry(0.14, (6, 10), (8, 15), (64,), (2, 2, 4, 4), "side", art=0.15),
    # many small pieces
    Entry(0.22, (12, 19), (16, 32), (28,), (0, 0, 1, 1, 2, 2, 2, 3), art=0.2),
    # JPLEG-5 and JPLEG-3
    Entry(0.23, (5, 5), (5, 5), (96,), (12,), jitter=(3,), art=0.8),
    Entry(0.02, (3, 3), (3, 3), (96,), (48,), jitter=(7,), art=0.8),
    # anything else a user may have
    Entry(
        0.07, (3, 9), (3, 12),
        (24, 30, 32, 36, 40, 48, 50, 56, 64, 72, 80, 90, 100, 112, 128),
        (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24), jitter=(0, 0, 0, 1, 2, 3), art=0.4,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """Everything that a run depends on beside its pictures."""

    net: NetConfig = field(default_factory=NetConfig)
    augment: Augment = field(default_factory=lambda: Augment(jpeg=0.3))
    mix: tuple[Entry, ...] = MIX
    seed: int = 0
    lr: float = 7e-4
    """Peak learning rate of AdamW."""
    warm_up: float = 0.02
    """Share of the recipe."""
    lr_floor: float = 0.01
    """Last learning rate, as a share of the peak."""
    weight_decay: float = 0.05
    clip: float = 1.0
    """Largest norm of the gradient."""
    decay: float = 0.999
    """Of the averaged weights, which are evaluated and shipped."""
    budget: float = 1800.0
    """Pieces of 64 px in a step; larger ones count more."""
    most: int = 2600
    """Most pieces in a step."""
    hard: int = 7
    """Hardest candidates per row and column that the pair heads see."""
    spread: int = 3
    """Further candidates, of random rank among the next `reach`."""
    reach: int = 30
    groups: int = 320
    """Groups of 2×2 puzzlets in a step."""
    unknown_gap: float = 0.1
    """Share of puzzles whose gap is hidden."""
    base_weight: float = 1.0
    fused_weight: float = 1.0
    puzzlet_weight: float = 0.5
    border_weight: float = 0.5
    limit: int = 0
    """Most pictures of each kind (0 = all)."""
    val_images: int = 16
    """Pictures per cell while training; the last evaluation uses all."""
    log_every: int = 50
    """Steps."""
    save_s: float = 90.0
    """Seconds between checkpoints."""
    eval_s: float = 120.0
    """Seconds between evaluations."""
    reserve_s: float = 25.0
    """Seconds at the end of a run for the last evaluation."""
    workers: int = 16

    def __post_init__(self) -> None:
        for name in ("lr", "clip", "budget", "most", "hard", "groups", "log_every", "workers"):
            if getattr(self, name) <= 0:
                raise SherdError(f"{name}: {getattr(self, name)}; expected more than 0")
        for name in ("warm_up", "lr_floor", "decay", "unknown_gap"):
            if not 0 <= getattr(self, name) < 1:
                raise SherdError(f"{name}: {getattr(self, name)}; expected at least 0, below 1")
        if not self.mix or sum(e.weight for e in self.mix) <= 0:
            raise SherdError("mix: is empty; give at least one entry with a weight")
