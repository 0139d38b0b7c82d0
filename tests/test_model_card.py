"""The model card says what the weights beside it say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import sherd

WEIGHTS = Path(sherd.__file__).parent / "weights"
CARD = (WEIGHTS / "README.md").read_text("utf-8")
ABOUT = json.loads((WEIGHTS / "mppn.json").read_text())["card"]
ROWS = {
    "photo-gap2": "7×10 of 64 px, 2 px missing",
    "photo-gap4": "7×10 of 64 px, 4 px missing",
    "photo-side2": "7×10 of 64 px, 2 px off each side",
    "photo-side4": "7×10 of 64 px, 4 px off each side",
    "photo-28px": "14×18 of 28 px, 2 px missing",
    "art-gap12": "art, 5×5 of 96 px, 12 px missing, displaced by 3 px",
}


def test_every_cell_has_its_row() -> None:
    assert set(ABOUT["val"]) == set(ROWS)


@pytest.mark.parametrize("cell", ROWS)
def test_figures_are_those_of_the_network(cell: str) -> None:
    (line,) = re.findall(rf"^\| {re.escape(ROWS[cell])} \|(.*)\|$", CARD, re.MULTILINE)
    assert [f.strip() for f in line.split("|")] == [f"{v:.3f}" for v in ABOUT["val"][cell].values()]


def test_training_is_that_of_the_network() -> None:
    pictures = ABOUT["pictures"]
    assert f"{sum(pictures.values())}: {pictures['photos']} public photographs" in CARD
    assert f"{pictures['art5']} pictures of art" in CARD
    assert f"{ABOUT['minutes']:.1f} minutes" in CARD
    assert f"{ABOUT['step']} steps" in CARD
    assert f"seed {ABOUT['seed']}" in CARD


def test_size_is_that_of_the_network() -> None:
    from safetensors import safe_open

    path = WEIGHTS / "mppn.safetensors"
    with safe_open(path, "np") as file:
        count = sum(file.get_tensor(name).size for name in file.keys())  # noqa: SIM118
    assert f"{count:,} parameters" in CARD
    assert f"{path.stat().st_size / 2**20:.1f} MiB" in CARD
