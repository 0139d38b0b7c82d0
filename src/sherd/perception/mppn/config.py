"""Sizes of the network and the figures that turn its logits into evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Self

from ...errors import SherdError

MIN_PIECE, MAX_PIECE = 24, 128
"""Sides in pixels of the fragments that the network is trained on; others are rescaled."""
PIVOT_GAP, PIVOT_SIDE = 4.0, 64.0
"""Gap and side in pixels at which a calibration's figures hold as they stand."""
CLOSE, NEAR = 2, 8
"""Missing pixels up to which single pixels are compared beside the pair heads, by gradients and by
a fringe network: of `SMALL` pieces, and of larger ones. A fringe network of its own looks at what
lies between the two."""
SMALL = 48.0
"""Side in pixels below which a piece is small: its seams say little, and looking is cheap. Small
pieces are looked at in more mirrors, and changes along their seams are compared as well."""


class FromDict:
    """Dataclasses that are read back from JSON, unknown keys being an error."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], what: str) -> Self:
        known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
        unknown = sorted(set(values) - known)
        if unknown:
            raise SherdError(f"{what}: unknown key {unknown[0]!r}; known are {sorted(known)}")
        try:
            return cls(**values)
        except TypeError as error:
            raise SherdError(f"{what}: {error}") from None

    def asdict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)  # type: ignore[call-overload]


@dataclass(frozen=True)
class NetConfig(FromDict):
    """Sizes of the MPPN. The defaults are the shipped network's."""

    stem: int = 24
    """Channels at full resolution."""
    fine: int = 48
    """Channels of the stride-2 map, which keeps the detail at the edge."""
    width: int = 96
    """Channels of the stride-4 map F; the stride-8 map has twice as many."""
    head_dim: int = 32
    """Channels per attention head."""
    window: int = 8
    """Largest side of an attention window, in cells."""
    pairs_fine: int = 2
    """Swin pairs (W-MSA, SW-MSA) on the stride-4 map."""
    pairs_deep: int = 3
    """Swin pairs on the stride-8 map."""
    mlp: int = 2
    """Hidden width of a Swin layer's MLP, in multiples of its channels."""
    gap_dim: int = 64
    """Size of the gap embedding."""
    edge: int = 128
    """Channels of an edge token."""
    embed: int = 40
    """Channels of a siamese embedding, per position along the edge."""
    pair: int = 160
    """Width of the 1×2 and 2×1 heads."""
    pair_blocks: int = 4
    """Residual blocks of the 1×2 and 2×1 heads."""
    seam: int = 128
    """Size of a seam vector, what a pair head hands to the 2×2 head."""
    corner: int = 64
    """Size of a corner feature of the 2×2 head."""
    context: int = 128
    """Channels of a piece token in the border head."""
    context_layers: int = 2
    """Transformer layers over the piece tokens of a puzzle."""
    relate: int = 48
    """Channels with which piece tokens of a puzzle are compared."""
    dropout: float = 0.1
    """Dropout where the whole puzzle is seen: there are few pictures."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "dropout":
                if not 0 <= value < 1:
                    raise SherdError(f"dropout: {value}; expected at least 0 and below 1")
            elif not isinstance(value, int) or value < 1:
                raise SherdError(f"{f.name}: {value!r}; expected a whole number of at least 1")
        if self.width % self.head_dim or self.context % self.head_dim:
            raise SherdError(
                f"head_dim: {self.head_dim} must divide width {self.width} "
                f"and context {self.context}"
            )
        if self.gap_dim % 2:
            raise SherdError(f"gap_dim: {self.gap_dim} must be even")


@dataclass(frozen=True)
class Calibration(FromDict):
    """What turns logits into evidence, fitted on validation puzzles (``sherd.train.calibrate``).

    Temperatures divide a logit, weights multiply it. Those of pairs and gradients follow the gap g
    and the side s of a piece in pixels: ``x · exp(x_slope · log((1+g)/(1+4)) + x_side ·
    log(s/64))``.
    """

    pair: float = 1.0
    """Temperature of the pair heads."""
    pair_slope: float = 0.0
    pair_side: float = 0.0
    close: float = 1.0
    """Temperature of the pair heads where gradients are compared as well; `sherd.train.close`."""
    close_slope: float = 0.0
    close_side: float = 0.0
    gradient: float = 0.0
    """Weight of the gradients, up to `NEAR` missing pixels; 0 = left out."""
    gradient_slope: float = 0.0
    gradient_side: float = 0.0
    fine: float = 1.0
    """Instead of ``close``, for `SMALL` pieces."""
    fine_slope: float = 0.0
    fine_gradient: float = 0.0
    """Instead of ``gradient``, for `SMALL` pieces, with changes along the seam; 0 = as others."""
    fine_gradient_slope: float = 0.0
    border: float = 1.0
    """Temperature of the border head."""
    border_weight: float = 1.0
    """λ of the border evidence."""
    puzzlet: float = 1.0
    """Temperature of the 2×2 head."""
    puzzlet_weight: float = 0.0
    """λ of the 2×2 evidence in the search (``sherd.train.weigh``); 0 = left out."""
    board_weight: float = 0.0
    """λ_g of the global evidence in the search (``sherd.train.weigh``); 0 = left out."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise SherdError(f"calibration.{f.name}: {value!r}; expected a number")
        for name in ("pair", "close", "fine", "border", "puzzlet"):
            if getattr(self, name) <= 0:
                raise SherdError(
                    f"calibration.{name}: {getattr(self, name)!r}; expected a positive number"
                )
        weights = ("gradient", "fine_gradient", "border_weight", "puzzlet_weight", "board_weight")
        for name in weights:
            if getattr(self, name) < 0:
                raise SherdError(
                    f"calibration.{name}: {getattr(self, name)!r}; expected at least 0"
                )

    def pair_temperature(self, gap: float | None, side: float = PIVOT_SIDE) -> float:
        """Temperature of the pair heads for ``gap`` missing pixels (None = unknown)."""
        return self.pair * _tilt(self.pair_slope, self.pair_side, gap, side)

    def close_up(self, gap: float | None, side: float) -> CloseUp | None:
        """How pair heads and gradients share what they say; None: no gradients here."""
        if gap is None or gap > (CLOSE if side < SMALL else NEAR):
            return None
        if self.fine_gradient and side < SMALL:
            return CloseUp(
                self.fine * _tilt(self.fine_slope, 0.0, gap, side),
                self.fine_gradient * _tilt(self.fine_gradient_slope, 0.0, gap, side),
                along=True,
            )
        if not self.gradient:
            return None
        return CloseUp(
            self.close * _tilt(self.close_slope, self.close_side, gap, side),
            self.gradient * _tilt(self.gradient_slope, self.gradient_side, gap, side),
            along=False,
        )


class CloseUp(NamedTuple):
    """What a calibration says where little is missing."""

    temperature: float
    """Of the pair heads."""
    weight: float
    """Of the gradients."""
    along: bool
    """Whether changes along the seam are compared as well."""


def _tilt(slope: float, per_side: float, gap: float | None, side: float) -> float:
    gap = PIVOT_GAP if gap is None else gap
    return math.exp(
        slope * (math.log1p(gap) - math.log1p(PIVOT_GAP)) + per_side * math.log(side / PIVOT_SIDE)
    )
