"""The mean of trained perception networks, which errs less than each of them.

    python -m sherd.train.mean --data DIR --out DIR runs/a runs/b=2 … [--fringe]

Weights are averaged, each network by its share (1 unless ``=SHARE`` follows the folder). That works
for networks that were trained further from the same one (`sherd train perception --start`), each
with a seed of its own; networks that began elsewhere have no useful mean. With ``--fringe`` it is
fringe networks that are averaged, all of `sherd.train.fringe` or all of `sherd.train.fringe_wide`.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import nn

from ..errors import SherdError
from ..perception.fringe import load_fringe
from ..perception.mppn.weights import load_model, save_model
from ..perception.rivals.weights import file_stem, save_rival
from .command import check_out, print_figures, run_command
from .evaluate import CELLS, calibrate, cut_cells, evaluate
from .fringe import FringeRecipe, FringeTrainee
from .fringe_wide import WideTrainee
from .loop import autocast, pick_device
from .store import load_store

KEPT = ("step", "minutes", "seed")
"""What the card tells of each network."""


Net = TypeVar("Net", bound=nn.Module)


class Trained(Protocol):
    """What was read from a folder."""

    @property
    def card(self) -> Mapping[str, Any]: ...
    @property
    def sha256(self) -> str: ...


def mean_network(networks: Sequence[Net], shares: Sequence[float]) -> Net:
    """Weights averaged by ``shares``, which count in proportion."""
    if any(net.cfg != networks[0].cfg for net in networks):
        raise SherdError("networks: of different sizes; only those of one size have a mean")
    total = math.fsum(shares)
    out = copy.deepcopy(networks[0])
    states = [net.state_dict() for net in networks]
    with torch.no_grad():
        for name, value in out.state_dict().items():
            parts = zip(shares, states, strict=True)
            value.copy_(sum(share / total * state[name].double() for share, state in parts))
    return out


def parse_network(text: str) -> tuple[Path, float]:
    """``DIR`` or ``DIR=SHARE``."""
    folder, sign, number = text.rpartition("=")
    if not sign:
        return Path(text), 1.0
    try:
        share = float(number)
    except ValueError:
        share = math.nan
    if not (folder and 0 < share < math.inf):
        raise SherdError(f"network: {text!r}; expected DIR or DIR=SHARE, the share above 0")
    return Path(folder), share


def card_of(
    models: Sequence[Trained], shares: Sequence[float], figures: Mapping[str, Any]
) -> dict[str, Any]:
    """What the mean's card says."""
    return {
        "mean_of": [
            {"sha256": m.sha256, "share": s, **{k: m.card[k] for k in KEPT if k in m.card}}
            for m, s in zip(models, shares, strict=True)
        ],
        "pictures": models[-1].card.get("pictures", {}),
        "val": figures,
    }


def run(
    data: Path,
    out: Path,
    networks: list[str],
    device: str,
    fringe: bool = False,
    pictures: int = 0,
) -> None:
    """Average, evaluate on validation pictures, and write the network to ``out``."""
    check_out(out)
    folders, shares = zip(*map(parse_network, networks), strict=True)
    place = pick_device(device)
    if fringe:
        print_figures(_mean_fringe(data, out, folders, shares, place, pictures))
        return
    models = [load_model(folder) for folder in folders]
    net = mean_network([m.net for m in models], shares).to(place)
    val = load_store(data, "val", place)
    reports = evaluate(net, cut_cells(val, CELLS, pictures, place), autocast(place))
    figures = {r.cell.name: r.figures for r in reports}
    card = card_of(models, shares, figures)
    save_model(out / "mppn", net.cpu(), calibrate(reports), card)
    print_figures(figures)


def _mean_fringe(
    data: Path,
    out: Path,
    folders: Sequence[Path],
    shares: Sequence[float],
    place: torch.device,
    pictures: int,
) -> dict[str, dict[str, float]]:
    wide = (folders[0] / f"{file_stem(WideTrainee.system)}.json").is_file()
    kind = WideTrainee if wide else FringeTrainee
    models = [load_fringe(folder, kind.system) for folder in folders]
    net = mean_network([m.net for m in models], shares).to(place)
    trainee = kind(FringeRecipe(net=net.cfg), place)
    val = load_store(data, "val", place)
    with torch.no_grad():
        figures = trainee.evaluate({"net": net}, cut_cells(val, trainee.cells, pictures, place))
    stem = out / file_stem(kind.system)
    save_rival(stem, kind.system, net.cpu(), net.cfg, card_of(models, shares, figures))
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m sherd.train.mean", description=__doc__)
    p.add_argument("networks", nargs="+", metavar="DIR[=SHARE]", help="folder of a network")
    p.add_argument("--data", type=Path, required=True, help="folder with photos/ and art5/")
    p.add_argument("--out", type=Path, required=True, help="folder for the network")
    p.add_argument("--device", default="auto", help="auto, cpu or cuda")
    p.add_argument("--pictures", type=int, default=0, help="to evaluate on, of a cell (0 = all)")
    p.add_argument("--fringe", action="store_true", help="fringe networks instead of MPPNs")
    return run_command(p, run, argv)


if __name__ == "__main__":
    sys.exit(main())
