"""How well the discriminator tells right boards from wrong ones, and its temperature.

    python -m sherd.train.judge --data DIR [--weights FOLDER] [--write]

prints a table for validation art: per kind of wrong board the area under the ROC curve over all
puzzles, and how often the right board of a puzzle beats a wrong one of the same puzzle. ``--write``
puts the fitted temperature and the figures into ``discriminator.json``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import SherdError
from ..perception.mppn.decoder import load_decoder
from ..perception.mppn.discriminator import (
    DEFAULT,
    BoardCalibration,
    Discriminator,
    compose,
    load_discriminator,
)
from ..perception.mppn.weights import load_model
from ..perception.whole import recover_tiles
from .boards import CORRUPTIONS, Grid, cheap_pairs, hard_swaps, pair_evidence, right_boards
from .evaluate import auc
from .gaps import CELLS, val_boards
from .loop import pick_device, write_text
from .store import Store, load_store

TEMPERATURES = torch.exp(torch.linspace(math.log(0.1), math.log(20.0), 107))
REPEATS = 4
"""Wrong boards of every kind per puzzle."""
CELL = CELLS[-1]
"""JPLEG-5's geometry: 5×5 art, 12 px missing, displaced by up to 3 px."""


@dataclass(frozen=True)
class Verdicts:
    """Logits of b puzzles."""

    right: Tensor
    """``(b,)`` of the right boards."""
    wrong: Mapping[str, Tensor]
    """``(b, REPEATS)`` of wrong boards, by kind."""

    @staticmethod
    def join(parts: Sequence[Verdicts]) -> Verdicts:
        """Verdicts of several batches of puzzles as one."""
        wrong = {k: torch.cat([p.wrong[k] for p in parts]) for k in parts[0].wrong}
        return Verdicts(torch.cat([p.right for p in parts]), wrong)

    def figures(self) -> dict[str, float]:
        """``auc_KIND`` over all puzzles, ``beats_KIND`` within each (ties count half)."""
        out: dict[str, float] = {}
        for kind, wrong in self.wrong.items():
            scores = torch.cat([self.right, wrong.flatten()])
            labels = torch.cat([torch.ones_like(self.right), torch.zeros(wrong.numel()).to(wrong)])
            out[f"auc_{kind}"] = auc(scores, labels)
            lead = self.right[:, None] - wrong
            out[f"beats_{kind}"] = float(((lead.sign() + 1.0) / 2.0).mean())
        return out

    def temperature(self) -> float:
        """The one that makes the right board among all wrong ones most probable."""
        logits = torch.cat([self.right[:, None], *self.wrong.values()], dim=1).double()
        zero = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        losses = [float(F.cross_entropy(logits / k, zero)) for k in TEMPERATURES.tolist()]
        return float(TEMPERATURES[int(np.argmin(losses))])


def judge(
    disc: Discriminator,
    tiles: Tensor,
    pairs: tuple[Tensor, Tensor] | None,
    grid: Grid,
    generator: torch.Generator,
) -> Verdicts:
    """Logits of the right boards of ``tiles (b, n, 3, S, S)`` and of wrong ones of every kind.

    ``pairs`` are pair logits ``(b, n, n)`` per direction; with them there are hard swaps, too.
    """
    b = len(tiles)
    right = right_boards(b, grid, tiles.device)
    wrong = {
        kind: torch.stack([spoil(right, grid, generator) for _ in range(REPEATS)], dim=1)
        for kind, spoil in CORRUPTIONS.items()
    }
    if pairs is not None:
        h, v = (pair_evidence(p) for p in pairs)
        wrong["hard"] = hard_swaps(right, h, v, grid, REPEATS, generator)
    was = disc.training
    disc.eval()
    with torch.no_grad():
        first = disc(compose(tiles, right[:, None], grid)).float()
        others = {
            kind: disc(compose(tiles, boards, grid)).float().view(b, -1)
            for kind, boards in wrong.items()
        }
    disc.train(was)
    return Verdicts(first, others)


def judge_folder(weights: Path | None, store: Store, device: torch.device) -> Verdicts:
    """Verdicts of the networks in a folder on all validation art of ``store``."""
    model, decoder = load_model(weights), load_decoder(weights)
    decoder.check(model.sha256)
    net, restorer = model.net.to(device), decoder.net.to(device)
    found = load_discriminator(weights)
    if found.decoder:
        found.check(decoder.sha256)
    disc = found.net.to(device)
    generator = torch.Generator(device).manual_seed(11)
    parts = []
    cells = val_boards(store, (CELL,), 0, device)
    if not cells:
        raise SherdError("data: holds no validation art; expected pictures in art5/val")
    for _, boards in cells:
        for board in boards:
            with torch.no_grad():
                gap = float(board.layout.gap)
                tiles = recover_tiles(net, restorer, board.pieces, gap, disc.cfg.pitch)
                pairs = cheap_pairs(net, board.pieces[None], board.layout.gap)
            parts.append(judge(disc, tiles[None], pairs, board.layout.grid, generator))
    return Verdicts.join(parts)


NAMES = {
    "swap": "one swap of two pieces",
    "swaps": "two to four swaps in a row",
    "shift": "all rows or columns shifted by 1 or 2",
    "line": "one row or column shifted by 1 or 2",
    "blocks": "two blocks exchanged",
    "hard": "the swap that costs least pair evidence",
}


def table(verdicts: Verdicts) -> str:
    """One line per kind of wrong board."""
    figures = verdicts.figures()
    lines = [f"{'wrong board':<40}  AUC  right beats wrong"]
    for kind in verdicts.wrong:
        row = f"{NAMES[kind]:<40} {figures[f'auc_{kind}']:.3f}"
        lines.append(f"{row}  {100 * figures[f'beats_{kind}']:.1f} %")
    return "\n".join(lines)


def write_verdicts(path: Path, decoder: str, verdicts: Verdicts) -> None:
    """Put the fitted temperature, the figures and the decoder's hash into a description."""
    about = json.loads(path.read_text())
    old = BoardCalibration.from_dict(about.get("calibration", {}), f"{path}: calibration")
    new = replace(old, temperature=round(verdicts.temperature(), 4))
    about["decoder"], about["calibration"] = decoder, new.asdict()
    figures = {k: round(v, 4) for k, v in verdicts.figures().items()}
    about["card"] = {**about.get("card", {}), "boards": figures}
    write_text(path, json.dumps(about, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m sherd.train.judge", description=__doc__)
    p.add_argument("--data", type=Path, required=True, help="folder with art5/")
    p.add_argument("--weights", type=Path, default=DEFAULT.parent, help="folder of the networks")
    p.add_argument("--write", action="store_true", help="keep temperature and figures")
    p.add_argument("--limit", type=int, default=0, help="most pictures (0 = all)")
    p.add_argument("--device", default="auto", help="auto, cpu or cuda")
    args = p.parse_args(argv)
    try:
        device = pick_device(args.device)
        store = load_store(args.data, "val", device, limit=args.limit)
        verdicts = judge_folder(args.weights, store, device)
        print(table(verdicts))
        print(f"{len(verdicts.right)} puzzles, temperature {verdicts.temperature():.3f}")
        if args.write:
            decoder = load_decoder(args.weights).sha256
            write_verdicts(args.weights / "discriminator.json", decoder, verdicts)
    except SherdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
