"""The model card says what the weights beside it say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import sherd

WEIGHTS = Path(sherd.__file__).parent / "weights"
CARD = (WEIGHTS / "README.md").read_text("utf-8")
NETS = ("mppn", "decoder", "discriminator")
OTHERS = ("deepzzle", "inpaint_gan", "pdn_ga", "sdn", "sd2rl", "dqn", "agent")
FRINGES = ("fringe", "fringe_wide")
ABOUT: dict[str, Any] = {
    net: json.loads((WEIGHTS / f"{net}.json").read_text()) for net in (*NETS, *FRINGES, *OTHERS)
}
CLOSE_CELLS = {
    ("fringe", "photo-28px-gap0"): "28 px, nothing missing",
    ("fringe", "photo-28px-gap1"): "28 px, 1 px missing",
    ("fringe", "photo-28px-gap2"): "28 px, 2 px missing",
    ("fringe", "photo-gap2"): "64 px, 2 px missing",
    ("fringe_wide", "photo-gap4"): "64 px, 4 px missing",
    ("fringe_wide", "photo-gap4-jpeg"): "64 px, 4 px missing, JPEGs",
    ("fringe_wide", "photo-gap4-jitter"): "64 px, 4 px missing, displaced by 2 px",
    ("fringe_wide", "photo-side4"): "64 px, 4 px off each side",
}
CELLS = {
    "photo-gap2": "7×10 of 64 px, 2 px missing",
    "photo-gap4": "7×10 of 64 px, 4 px missing",
    "photo-side2": "7×10 of 64 px, 2 px off each side",
    "photo-side4": "7×10 of 64 px, 4 px off each side",
    "photo-28px": "14×18 of 28 px, 2 px missing",
    "art-gap12": "art, 5×5 of 96 px, 12 px missing, displaced by 3 px",
}
BOARDS = {
    "photo-gap4": "5×7 of 64 px, 4 px missing",
    "photo-gap12": "5×7 of 64 px, 12 px missing",
    "art-gap12": "art, 5×5 of 96 px, 12 px missing",
    "art-gap12-jitter3": "art, the same, displaced by 3 px",
}
KINDS = ("swap", "swaps", "shift", "line", "blocks", "hard")


def row(name: str) -> list[str]:
    """The cells of the only table row that begins with ``name``."""
    (line,) = re.findall(rf"^\| {re.escape(name)} \|(.*)\|$", CARD, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


def test_every_cell_has_its_row() -> None:
    assert set(ABOUT["mppn"]["card"]["val"]) == set(CELLS)
    assert set(ABOUT["decoder"]["card"]["val"]) == set(BOARDS)
    assert len(ABOUT["discriminator"]["card"]["boards"]) == 2 * len(KINDS)


@pytest.mark.parametrize("cell", CELLS)
def test_figures_of_perception(cell: str) -> None:
    assert row(CELLS[cell]) == [f"{v:.3f}" for v in ABOUT["mppn"]["card"]["val"][cell].values()]


@pytest.mark.parametrize(("net", "cell"), CLOSE_CELLS)
def test_figures_of_the_fringe(net: str, cell: str) -> None:
    figures = ABOUT[net]["card"]["val"][cell]
    assert row(CLOSE_CELLS[net, cell]) == [
        f"{figures[k]:.3f}" for k in ("before_nats", "nats", "before_top1", "top1")
    ]


@pytest.mark.parametrize("net", FRINGES)
def test_training_of_the_fringe(net: str) -> None:
    card = ABOUT[net]["card"]
    pictures = card["pictures"]
    assert f"{pictures['photos']} photographs and {pictures['art5']} of the pictures" in CARD
    for one in card["mean_of"]:
        assert f"{one['minutes']:.1f} minutes" in CARD
        assert str(one["step"]) in CARD
    assert ABOUT[net]["net"]["mppn"] == ABOUT["mppn"]["sha256"]


@pytest.mark.parametrize("cell", BOARDS)
def test_figures_of_restoration(cell: str) -> None:
    figures = ABOUT["decoder"]["card"]["val"][cell]
    assert row(BOARDS[cell]) == [f"{figures[k]:.2f}" for k in ("line", "decoder", "blend")]


@pytest.mark.parametrize("kind", KINDS)
def test_figures_of_the_discriminator(kind: str) -> None:
    from sherd.train.judge import NAMES

    figures = ABOUT["discriminator"]["card"]["boards"]
    assert row(NAMES[kind]) == [f"{figures[f'{k}_{kind}']:.3f}" for k in ("auc", "beats")]


@pytest.mark.parametrize("net", NETS)
def test_training(net: str) -> None:
    card = ABOUT[net]["card"]
    pictures, column = card["pictures"], 0 if net == "mppn" else 1
    assert f"{sum(pictures.values())}: {pictures['photos']} public photographs" in CARD
    assert f"{pictures['art5']} pictures of art" in CARD
    assert row("length")[column].startswith(f"{card['minutes']:.1f} minutes")
    assert f"{card['step']} steps" in row("length")[column]
    assert f"seed {card['seed']};" in row("recipe")[column]


def test_every_file_has_its_row() -> None:
    assert {p.stem for p in WEIGHTS.glob("*.safetensors")} == set(ABOUT)


@pytest.mark.parametrize("net", OTHERS)
def test_length_of_the_others(net: str) -> None:
    card = ABOUT[net]["card"]
    steps = f"{card['step']} steps" if "step" in card else f"{card['iterations']} iterations"
    assert row(f"`{net}`")[3] == f"{steps}, {card['minutes']:.1f} minutes"


@pytest.mark.parametrize("net", [*NETS, *FRINGES, *OTHERS])
def test_size_and_hash(net: str) -> None:
    from safetensors import safe_open

    path = WEIGHTS / f"{net}.safetensors"
    with safe_open(path, "np") as file:
        count = sum(file.get_tensor(name).size for name in file.keys())  # noqa: SIM118
    _, size, sha256 = row(f"`{net}`")[:3]
    assert size == f"{count:,} parameters, {path.stat().st_size / 2**20:.1f} MiB"
    assert sha256 == f"`{ABOUT[net]['sha256'][:12]}…`"


def test_the_three_belong_together() -> None:
    assert ABOUT["decoder"]["mppn"] == ABOUT["mppn"]["sha256"]
    assert ABOUT["discriminator"]["decoder"] == ABOUT["decoder"]["sha256"]
