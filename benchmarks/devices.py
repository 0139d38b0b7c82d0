"""Do the CPU and a GPU see the same? Largest difference of log-probabilities over all pairs.

    python benchmarks/devices.py --data DIR

``DIR`` holds photos/val-0.tar. The network runs in float32 on both; bf16 is shown beside it.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor

from sherd.perception.mppn.network import MPPN
from sherd.perception.mppn.seams import seam_logits
from sherd.perception.mppn.weights import load_model
from sherd.train.evaluate import CELLS, cut_cells
from sherd.train.store import load_store


def log_probabilities(net: MPPN, pieces: Tensor, gap: int) -> Tensor:
    """``(2, n, n)``: for every side of every piece, over all others; the heads see all pairs."""
    n = len(pieces)
    x = net.encode(pieces, torch.full((n,), float(gap), device=pieces.device))
    tokens = net.tokens(x)
    seams = seam_logits(pieces[None], [gap])
    at = torch.arange(n, device=pieces.device)
    i, j = at.repeat_interleave(n), at.repeat(n)
    out = []
    for d in (0, 1):
        base = net.base(x, tokens, seams[d], d)
        _, residual = net.pair(x, i, j, d, base.rivalry(torch.zeros_like(i), i, j))
        out.append((base.score[0] + residual.view(n, n)).float().log_softmax(1))
    return torch.stack(out)


def main() -> None:
    """Print one line per kind of puzzle."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--puzzles", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    if torch.device(args.device).type == "cuda" and not torch.cuda.is_available():
        sys.exit(f"error: device: {args.device!r} is not here; a second device is what is compared")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    device, cpu = torch.device(args.device), torch.device("cpu")
    net = load_model().net
    other = load_model().net.to(device)
    store = load_store(args.data, "val", cpu, limit=args.puzzles)
    for puzzles in cut_cells(store, CELLS, args.puzzles, cpu):
        gap = puzzles.cell.geometry.missing
        worst: dict[str, float] = {}
        with torch.inference_mode():
            for one in puzzles.pieces:
                pieces = one.permute(0, 3, 1, 2).float() / 255.0
                want = log_probabilities(net, pieces, gap)
                seen = want > -12.0  # below, a pair is out of the question for either
                for name, cast in (
                    ("float32", nullcontext()),
                    ("bf16", torch.autocast(device.type, dtype=torch.bfloat16)),
                ):
                    with cast:
                        got = log_probabilities(other, pieces.to(device), gap).to(cpu)
                    off = (got - want)[seen].abs().max().item()
                    worst[name] = max(worst.get(name, 0.0), off)
        print(puzzles.cell.name, " ".join(f"{k} {v:.2g}" for k, v in worst.items()), flush=True)


if __name__ == "__main__":
    main()
