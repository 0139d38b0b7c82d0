"""Colours and strokes that all pictures share."""

from __future__ import annotations

import numpy as np

RGB = tuple[int, int, int]

PAPER: RGB = (247, 244, 238)
"""What lies under the fragments."""
HATCH: RGB = (218, 211, 198)
"""The strokes of an empty cell."""
INK: RGB = (52, 48, 44)
"""Titles."""
FAINT: RGB = (130, 122, 112)
"""What stands beside a title."""
WRONG: RGB = (204, 51, 17)
"""A piece that lies in the wrong cell."""

# Vermilion, yellow and bluish green of Okabe and Ito's palette: told apart by readers with any of
# the common kinds of colour blindness, and ordered in lightness around the middle.
_RAMP = np.array([(213, 94, 0), (240, 210, 66), (0, 158, 115)], dtype=np.float64)


def confidence_colours(confidence: np.ndarray) -> np.ndarray:
    """``(..., 3) uint8`` colours of confidences in 0..1: red over yellow to green."""
    x = np.clip(np.nan_to_num(np.asarray(confidence, dtype=np.float64)), 0.0, 1.0)
    stops = np.linspace(0.0, 1.0, len(_RAMP))
    channels = [np.interp(x, stops, _RAMP[:, c]) for c in range(3)]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)


def hatched(size: tuple[int, int], background: RGB) -> np.ndarray:
    """``(height, width, 3) uint8`` of diagonal strokes, for cells without a piece."""
    height, width = size
    pitch = max(6, min(size) // 7)
    stroke = max(1, pitch // 9)
    y, x = np.ogrid[:height, :width]
    on = ((x + y) % pitch) < stroke
    frame = max(1, min(size) // 48)
    on |= (y < frame) | (y >= height - frame) | (x < frame) | (x >= width - frame)
    return np.where(on[..., None], np.array(HATCH, np.uint8), np.array(background, np.uint8))
