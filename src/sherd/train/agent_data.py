"""Evidence to train the agent on: perception runs once, the agent learns on what it said."""

from __future__ import annotations

import json
import math
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..agent.place import with_place
from ..agent.rules import Puzzles, from_tensors
from ..errors import SherdError
from ..perception.mppn.config import Calibration
from ..perception.mppn.network import MPPN
from ..perception.mppn.seams import seam_logits
from .evaluate import CANDIDATES, Cell, cut_cells
from .evaluate import Puzzles as CutPuzzles
from .losses import score_pairs
from .store import Store

KIND = "sherd-agent-evidence"
FLOOR = 1e-4
"""Doubt in an answer, as in `perception.evidence.from_logits`."""
BORDER_FLOOR = 1e-3
"""Doubt in a border answer, as in `perception.neural`."""

CELLS = (
    Cell("photo-7x10-2", "photos", (7, 10), 64, 2),
    Cell("photo-7x10-4", "photos", (7, 10), 64, 4),
    Cell("photo-7x10-side4", "photos", (7, 10), 64, 4, "side"),
    Cell("photo-10x15-2", "photos", (10, 15), 64, 2),
    Cell("photo-10x15-4", "photos", (10, 15), 64, 4),
    Cell("photo-5x5-12", "photos", (5, 5), 96, 12, jitter=3),
    Cell("art-5x5-12", "art5", (5, 5), 96, 12, jitter=3),
    Cell("art-4x6-8", "art5", (4, 6), 64, 8),
    Cell("art-3x3-48", "art5", (3, 3), 96, 48, jitter=7),
)
"""What training puzzles look like."""


@dataclass(frozen=True)
class Group:
    """Puzzles of one cell of the table."""

    name: str
    puzzles: Puzzles

    def __len__(self) -> int:
        return len(self.puzzles)


def both_ways(logits: Tensor, floor: float = FLOOR) -> Tensor:
    """``(P, n, n)`` logits → evidence, as `perception.evidence.from_logits` does."""
    n = logits.shape[-1]
    own = torch.eye(n, dtype=torch.bool, device=logits.device)
    a = logits.double().masked_fill(own, float("-inf"))
    parts = [(a.softmax(axis) * ((1.0 - floor) * (n - 1)) + floor).log() for axis in (1, 2)]
    return (0.5 * (parts[0] + parts[1])).float()


def border_evidence(logits: Tensor, grid: tuple[int, int], calibration: Calibration) -> Tensor:
    """``(P, 4, n)`` logits → evidence against the share of pieces at that rim."""
    out = torch.zeros_like(logits, dtype=torch.float32)
    for side, lines in enumerate((grid[0], grid[1], grid[0], grid[1])):
        if lines > 1:
            prior = 1.0 / lines
            p = (logits[:, side].double() / calibration.border).sigmoid()
            p = p * (1.0 - BORDER_FLOOR) + BORDER_FLOOR * prior
            out[:, side] = (torch.logit(p) - math.log(prior / (1.0 - prior))).float()
    return calibration.border_weight * out


@torch.no_grad()
def perceive_cut(
    net: MPPN,
    calibration: Calibration,
    cut: CutPuzzles,
    autocast: AbstractContextManager[None],
    most: int = 0,
) -> Puzzles:
    """Evidence of all puzzles of one cell, ``most`` pieces at a time, on their device.

    0 = as many as suit it.
    """
    most = most or (1500 if cut.pieces.device.type == "cpu" else 6000)
    geometry, n = cut.cell.geometry, cut.pieces.shape[1]
    side = math.sqrt(math.prod(geometry.fragment))
    temperature = calibration.pair_temperature(geometry.missing, side)
    found: list[list[Tensor]] = [[], [], []]
    for chunk in cut.pieces.split(max(1, most // n)):
        b = len(chunk)
        pieces = chunk.flatten(0, 1).permute(0, 3, 1, 2).float() / 255.0
        gap = torch.full((len(pieces),), float(geometry.missing), device=pieces.device)
        with autocast:
            x = net.encode(pieces, gap)
            tokens = net.tokens(x, b)
            seams = seam_logits(pieces.unflatten(0, (b, n)), [geometry.missing] * b)
            for direction in (0, 1):
                base = net.base(x, tokens, seams[direction], direction)
                fused = score_pairs(net, x, base, direction, None, CANDIDATES).fused
                found[direction].append(both_ways(fused.float() / temperature))
            border = net.border_logits(x, tokens).float()
        found[2].append(border_evidence(border, geometry.grid, calibration))
    h, v, border = (torch.cat(parts) for parts in found)
    truth = cut.grid.board.expand(len(h), -1)
    return from_tensors(h, v, border, geometry.grid, truth=truth)


def perceive_store(
    net: MPPN,
    calibration: Calibration,
    store: Store,
    cells: tuple[Cell, ...],
    limit: int,
    device: torch.device,
    autocast: AbstractContextManager[None],
    workers: int = 16,
) -> list[Group]:
    """One group per cell, at most ``limit`` pictures each (0 = all).

    The pictures of the next cell are cut while the network looks at those of this one.
    """
    groups = []
    with ThreadPoolExecutor(1) as ahead:
        jobs = deque(cells)

        def cut_next() -> Future[list[CutPuzzles]] | None:
            if not jobs:
                return None
            return ahead.submit(cut_cells, store, (jobs.popleft(),), limit, device, workers)

        coming = cut_next()
        while coming is not None:
            found, coming = coming.result(), cut_next()
            for cut in found:
                groups.append(Group(cut.cell.name, perceive_cut(net, calibration, cut, autocast)))
    return groups


def add_places(groups: list[Group], chunk: int = 64) -> list[Group]:
    """The groups with place evidence."""
    out = []
    for group in groups:
        parts = []
        every = torch.arange(len(group), device=group.puzzles.device)
        for index in every.split(chunk):
            place = with_place(group.puzzles.pick(index)).place
            assert place is not None
            parts.append(place)
        out.append(Group(group.name, replace(group.puzzles, place=torch.cat(parts))))
    return out


def join(groups: list[Group]) -> Puzzles:
    """The puzzles of groups of one grid, one after the other."""
    parts = [g.puzzles for g in groups]

    def cat(tensors: list[Tensor | None]) -> Tensor | None:
        known = [t for t in tensors if t is not None]
        return torch.cat(known) if len(known) == len(tensors) else None

    return replace(
        parts[0],
        at=torch.cat([p.at for p in parts]), border=torch.cat([p.border for p in parts]),
        fixed=torch.cat([p.fixed for p in parts]), blank=torch.cat([p.blank for p in parts]),
        truth=cat([p.truth for p in parts]), place=cat([p.place for p in parts]), pooled=None,
    )  # fmt: skip


def save_groups(path: Path, sets: dict[str, list[Group]]) -> None:
    """Write evidence to one safetensors file, in 16 bits; places are left out."""
    tensors, table = {}, []
    for split, groups in sets.items():
        for k, group in enumerate(groups):
            p, n = group.puzzles, group.puzzles.layout.cells
            assert p.truth is not None
            stem = f"{split}.{k}"
            tensors[f"{stem}.h"] = p.at[:, 1, :n, :n].half().cpu().contiguous()
            tensors[f"{stem}.v"] = p.at[:, 2, :n, :n].half().cpu().contiguous()
            tensors[f"{stem}.border"] = p.border[:, :, :n].half().cpu().contiguous()
            tensors[f"{stem}.truth"] = p.truth.to(torch.int16).cpu().contiguous()
            row = {"split": split, "stem": stem, "name": group.name, "grid": p.layout.grid}
            table.append(row)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    save_file(tensors, part, metadata={"kind": KIND, "table": json.dumps(table)})
    part.replace(path)


def load_groups(path: Path, device: torch.device) -> dict[str, list[Group]]:
    """Read what `save_groups` wrote."""
    sets: dict[str, list[Group]] = {}
    try:
        with safe_open(path, "pt") as file:
            about = file.metadata() or {}
            if about.get("kind") != KIND:
                raise SherdError(f"{path}: holds no evidence; expected kind {KIND!r}")
            for row in json.loads(about["table"]):
                h, v, border, truth = (
                    file.get_tensor(f"{row['stem']}.{k}").to(device)
                    for k in ("h", "v", "border", "truth")
                )
                grid = (int(row["grid"][0]), int(row["grid"][1]))
                puzzles = from_tensors(
                    h.float(), v.float(), border.float(), grid, truth=truth.long()
                )
                sets.setdefault(row["split"], []).append(Group(row["name"], puzzles))
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise SherdError(f"{path}: cannot be read as evidence ({error})") from None
    if not sets.get("train"):
        raise SherdError(f"{path}: holds no puzzles to train on")
    return sets


def describe(groups: list[Group]) -> dict[str, int]:
    """Puzzles per group."""
    return {g.name: len(g) for g in groups}
