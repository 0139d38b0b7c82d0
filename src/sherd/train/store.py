"""The pictures of a data folder, decoded once and kept in device memory."""

from __future__ import annotations

import io
import tarfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..data.images import SUFFIXES, decode, rgb_of
from ..errors import SherdError

KINDS = ("photos", "art5")
SPLITS = ("train", "val")


class Store:
    """Pictures as uint8 tensors ``(3, H, W)`` on one device, by kind."""

    def __init__(self, images: dict[str, list[Tensor]]) -> None:
        self.images = images

    def __len__(self) -> int:
        return sum(map(len, self.images.values()))

    def pick(self, kind: str, rng: np.random.Generator) -> Tensor:
        """A random picture of ``kind``, or of the other kind when there is none."""
        pool = self.images[kind] or self.images[KINDS[1 - KINDS.index(kind)]]
        return pool[int(rng.integers(len(pool)))]


def _is_pack(path: Path) -> bool:
    return path.suffix.lower() == ".tar"


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def _split(path: Path) -> str | None:
    """What ``path`` is for: its outermost folder with such a name says so, or the pack's name.

    What a picture is called says nothing. Whatever has a folder of tests above it is for neither.
    """
    names = [*path.parts[:-1], *([path.stem] if _is_pack(path) else [])]
    if any(name.startswith("test") for name in names):
        return None
    return next((s for name in names for s in SPLITS if name.startswith(s)), None)


def _sources(data: Path, split: str) -> Iterator[tuple[str, Path]]:
    """Kind and path of every pack and picture of ``split`` below ``data``."""
    for path in sorted(data.rglob("*")):
        below = path.relative_to(data)
        kinds = [p for p in (data.resolve().name, *below.parts) if p in KINDS]
        if not kinds or _split(below) != split or not path.is_file():
            continue
        if _is_picture(path) or _is_pack(path):
            yield kinds[-1], path


def _blobs(path: Path) -> Iterator[tuple[str, bytes]]:
    if not _is_pack(path):
        yield str(path), path.read_bytes()
        return
    try:
        with tarfile.open(path) as pack:
            for member in sorted(pack.getmembers(), key=lambda m: m.name):
                handle = pack.extractfile(member) if member.isfile() else None
                if handle and _is_picture(Path(member.name)):
                    yield f"{path}:{member.name}", handle.read()
    except tarfile.TarError as error:
        raise SherdError(f"{path}: is no readable tar ({error}); copy it again") from None


def _decode(item: tuple[str, bytes]) -> Tensor:
    rgb = rgb_of(decode(io.BytesIO(item[1]), item[0]), item[0])
    return torch.from_numpy(rgb).permute(2, 0, 1).contiguous()


def load_store(
    data: Path, split: str, device: torch.device, *, limit: int = 0, workers: int = 16
) -> Store:
    """Decode the pictures of ``split`` ("train" or "val"), at most ``limit`` of each kind."""
    if not data.is_dir():
        raise SherdError(f"{data}: is no folder; give the one that holds photos/ and art5/")
    blobs: dict[str, list[tuple[str, bytes]]] = {k: [] for k in KINDS}
    for kind, path in _sources(data, split):
        blobs[kind].extend(_blobs(path))
    if not any(blobs.values()):
        raise SherdError(
            f"{data}: holds no {split} pictures; expected photos/{split}-0.tar, art5/{split}-0.tar"
        )
    images: dict[str, list[Tensor]] = {}
    # decoding silences warnings: threads that do so at once would leave them silenced
    with warnings.catch_warnings(), ThreadPoolExecutor(workers) as pool:
        for kind, items in blobs.items():
            if limit and len(items) > limit:  # spread, since a pack is sorted by source
                items = [items[i] for i in np.linspace(0, len(items) - 1, limit).astype(int)]
            images[kind] = [t.to(device) for t in pool.map(_decode, items)]
    return Store(images)
