"""What a training run of decoder, blend and discriminator depends on beside its pictures."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import SherdError
from ..perception.mppn.decoder import DecoderConfig
from ..perception.mppn.discriminator import DiscriminatorConfig
from .data import Augment, Entry

MIX = (
    # JPLEG-5: the discriminator is for these above all
    Entry(0.50, (5, 5), (5, 5), (96,), (12,), jitter=(3, 3, 3, 0), art=0.85),
    # photographs as the MIT table cuts them
    Entry(0.22, (4, 7), (5, 10), (64,), (2, 2, 3, 4, 4, 4, 6, 8), art=0.2),
    Entry(0.06, (4, 7), (5, 10), (64,), (2, 4), "side", art=0.2),
    # many small pieces
    Entry(0.07, (8, 12), (8, 14), (28,), (1, 2, 2, 3, 4), art=0.15),
    # JPLEG-3
    Entry(0.03, (3, 3), (3, 3), (96,), (48,), jitter=(7,), art=0.8),
    # anything else a user may have
    Entry(
        0.12, (2, 7), (2, 8), (24, 32, 40, 50, 64, 64, 72, 80, 96, 100, 112, 128),
        (1, 2, 3, 4, 5, 6, 8, 10, 12, 12, 16, 20, 24, 32), jitter=(0, 0, 0, 1, 2), art=0.4,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """Everything that a run depends on beside its pictures and the MPPN."""

    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    discriminator: DiscriminatorConfig = field(default_factory=DiscriminatorConfig)
    augment: Augment = field(
        default_factory=lambda: Augment(full=0.85, upscale=1.4, noise=0.05, blur=0.05)
    )
    """Mostly whole pictures: the discriminator judges these, and knows a picture by its rim."""
    mix: tuple[Entry, ...] = MIX
    seed: int = 0
    lr: float = 1e-3
    """Peak learning rate of decoder and blend (AdamW)."""
    judge_lr: float = 6e-4
    """Peak learning rate of the discriminator."""
    warm_up: float = 0.02
    """Share of the recipe."""
    lr_floor: float = 0.01
    """Last learning rate, as a share of the peak."""
    weight_decay: float = 0.01
    judge_decay: float = 0.05
    """Weight decay of the discriminator."""
    clip: float = 1.0
    """Largest norm of a gradient."""
    decay: float = 0.999
    """Of the averaged weights, which are evaluated and shipped."""
    budget: float = 1000.0
    """Pieces of 64 px in a step; larger ones count more."""
    most: int = 2600
    """Most pieces in a step."""
    judged: int = 650
    """Most cells in a step whose boards the discriminator sees."""
    blend_weight: float = 1.0
    gap_weight: float = 1.0
    """Of the decoder's error in the gap."""
    inside_weight: float = 0.1
    """Of the decoder's error inside the fragment."""
    adversarial_weight: float = 0.0005
    adversarial_from: float = 0.2
    """Share of the recipe before the decoder listens to the discriminator."""
    damage: float = 0.1
    """Share of puzzles with missing pieces, and share with ragged ones."""
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
    reserve_s: float = 40.0
    """Seconds at the end of a run for the last evaluation."""
    workers: int = 16

    def __post_init__(self) -> None:
        for name in ("lr", "judge_lr", "clip", "budget", "most", "judged", "log_every", "workers"):
            if getattr(self, name) <= 0:
                raise SherdError(f"{name}: {getattr(self, name)}; expected more than 0")
        for name in ("warm_up", "lr_floor", "decay", "damage", "adversarial_from"):
            if not 0 <= getattr(self, name) < 1:
                raise SherdError(f"{name}: {getattr(self, name)}; expected at least 0, below 1")
        if not self.mix or sum(e.weight for e in self.mix) <= 0:
            raise SherdError("mix: is empty; give at least one entry with a weight")
