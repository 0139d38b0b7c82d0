"""The mean of trained perception networks, which errs less than each of them.

    python -m sherd.train.mean --data DIR --out DIR runs/a runs/b=2 …

Weights are averaged, each network by its share (1 unless ``=SHARE`` follows the folder). That works
for networks that were trained further from the same one (`sherd train perception --start`), each
with a seed of its own; networks that began elsewhere have no useful mean.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from ..errors import SherdError
from ..perception.mppn.network import MPPN
from ..perception.mppn.weights import load_model, save_model
from .command import check_out, print_figures, run_command
from .data import load_store
from .evaluate import CELLS, calibrate, cut_cells, evaluate
from .loop import autocast, pick_device

KEPT = ("step", "minutes", "seed")
"""What the card tells of each network."""


def mean_network(networks: Sequence[MPPN], shares: Sequence[float]) -> MPPN:
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


def run(data: Path, out: Path, networks: list[str], device: str) -> None:
    """Average, evaluate on validation pictures, and write the network to ``out``."""
    check_out(out)
    folders, shares = zip(*map(parse_network, networks), strict=True)
    models = [load_model(folder) for folder in folders]
    place = pick_device(device)
    net = mean_network([m.net for m in models], shares).to(place)
    val = load_store(data, "val", place)
    reports = evaluate(net, cut_cells(val, CELLS, 0, place), autocast(place))
    figures = {r.cell.name: r.figures for r in reports}
    card = {
        "mean_of": [
            {"sha256": m.sha256, "share": s, **{k: m.card[k] for k in KEPT if k in m.card}}
            for m, s in zip(models, shares, strict=True)
        ],
        "pictures": models[-1].card.get("pictures", {}),
        "val": figures,
    }
    out.mkdir(parents=True, exist_ok=True)
    save_model(out / "mppn", net.cpu(), calibrate(reports), card)
    print_figures(figures)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m sherd.train.mean", description=__doc__)
    p.add_argument("networks", nargs="+", metavar="DIR[=SHARE]", help="folder of a network")
    p.add_argument("--data", type=Path, required=True, help="folder with photos/ and art5/")
    p.add_argument("--out", type=Path, required=True, help="folder for the network")
    p.add_argument("--device", default="auto", help="auto, cpu or cuda")
    return run_command(p, run, argv)


if __name__ == "__main__":
    sys.exit(main())
