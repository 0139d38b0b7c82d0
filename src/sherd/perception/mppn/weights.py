"""A trained MPPN on disk: fp16 safetensors, and a JSON beside it with sizes, temperatures, hash."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from ...errors import SherdError
from .config import Calibration, NetConfig
from .network import MPPN

FORMAT = 2
KIND = "sherd-mppn"
DEFAULT = Path(__file__).resolve().parents[2] / "weights" / "mppn"
"""Where the shipped network lies: ``mppn.safetensors`` and ``mppn.json``."""


@dataclass(frozen=True)
class Model:
    """A network that is ready to perceive."""

    net: MPPN
    calibration: Calibration
    card: Mapping[str, Any]
    """What it was trained on, and how well it does."""
    sha256: str
    """Of the weights file."""


def _stem(path: str | Path | None) -> Path:
    path = DEFAULT if path is None else Path(path)
    if path.is_dir():
        return path / "mppn"
    return path.with_suffix("") if path.suffix in (".safetensors", ".json") else path


def save_part(
    stem: Path, net: nn.Module, kind: str, about: Mapping[str, Any], *, version: int = FORMAT
) -> None:
    """Write a network to ``stem.safetensors`` (fp16) and ``stem.json``: ``about``, kind, hash."""
    tensors = {
        name: t.detach().to("cpu", torch.float16 if t.is_floating_point() else t.dtype).contiguous()
        for name, t in net.state_dict().items()
    }
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise SherdError(f"{name}: holds values that fp16 cannot; train with a lower rate")
    # one key only: safetensors writes several in random order, and the hash would change
    blob = save_tensors(tensors, metadata={"kind": kind})
    head = {"kind": kind, "format": version, "sha256": hashlib.sha256(blob).hexdigest()}
    stem.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**head, **about}, indent=1) + "\n"
    for suffix, content in ((".safetensors", blob), (".json", text.encode())):
        part = stem.with_name(stem.name + suffix + ".part")
        part.write_bytes(content)
    for suffix in (".safetensors", ".json"):
        os.replace(stem.with_name(stem.name + suffix + ".part"), stem.with_name(stem.name + suffix))


def load_part(
    stem: Path, kind: str, *, version: int = FORMAT
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What `save_part` wrote: the description and the tensors (float32), checked."""
    about_path, weights_path = (stem.with_name(stem.name + s) for s in (".json", ".safetensors"))
    for file in (about_path, weights_path):
        if not file.is_file():
            raise SherdError(
                f"{file}: is missing; a network is {stem.name}.safetensors and {stem.name}.json"
            )
    try:
        about = json.loads(about_path.read_text())
    except (UnicodeDecodeError, ValueError):
        raise SherdError(f"{about_path}: is no JSON; copy it again") from None
    if not isinstance(about, dict) or about.get("kind") != kind:
        raise SherdError(f"{about_path}: describes no sherd network; expected kind {kind!r}")
    if about.get("format") != version:
        raise SherdError(
            f"{about_path}: format {about.get('format')}, this version reads {version}; "
            "update sherd or train again"
        )
    blob = weights_path.read_bytes()
    digest = hashlib.sha256(blob).hexdigest()
    if digest != about.get("sha256"):
        raise SherdError(
            f"{weights_path}: is damaged, its sha256 is {digest[:12]}… and not "
            f"{str(about.get('sha256'))[:12]}…; copy it again"
        )
    try:
        tensors = load_tensors(blob)
    except SafetensorError as error:
        raise SherdError(f"{weights_path}: is no safetensors file ({error})") from None
    return about, {n: t.float() if t.is_floating_point() else t for n, t in tensors.items()}


def fill(net: nn.Module, tensors: Mapping[str, Tensor], stem: Path) -> None:
    """Give ``net`` the tensors that were read from ``stem``, for inference."""
    wanted = {name: tuple(t.shape) for name, t in net.state_dict().items()}
    found = {name: tuple(t.shape) for name, t in tensors.items()}
    if wanted != found:
        odd = sorted(n for n in wanted.keys() | found.keys() if wanted.get(n) != found.get(n))[0]
        raise SherdError(
            f"{stem}.safetensors: {odd} is {found.get(odd, 'missing')}, "
            f"the network has {wanted.get(odd, 'no such tensor')}; the two files do not belong "
            "together"
        )
    net.load_state_dict(dict(tensors))
    net.eval().requires_grad_(False)


def save_model(
    path: str | Path, net: MPPN, calibration: Calibration, card: Mapping[str, Any]
) -> None:
    """Write ``path.safetensors`` (fp16) and ``path.json``."""
    about = {
        "net": net.cfg.asdict(),
        "calibration": calibration.asdict(),
        "card": dict(card),
    }
    save_part(_stem(path), net, KIND, about)


@cache
def shipped_model() -> Model:
    """The network that comes with sherd, read once."""
    return load_model()


def load_model(path: str | Path | None = None) -> Model:
    """The network at ``path`` (a folder, a stem or either file), or the shipped one.

    Evaluation mode, float32, on the CPU.
    """
    stem = _stem(path)
    about, tensors = load_part(stem, KIND)
    what = f"{stem}.json"
    net = MPPN(NetConfig.from_dict(about.get("net", {}), f"{what}: net"))
    calibration = Calibration.from_dict(about.get("calibration", {}), f"{what}: calibration")
    fill(net, tensors, stem)
    return Model(net, calibration, about.get("card", {}), about["sha256"])
