"""Weights of the compared systems on disk: ``NAME.safetensors`` (fp16) and ``NAME.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import nn

from ...errors import SherdError
from ..mppn.weights import fill, load_part, save_part

FORMAT = 1
LIMIT = 3 * 2**20
"""Most bytes of a system's weights file."""
FOLDER = Path(__file__).resolve().parents[2] / "weights"
"""Where shipped weights lie."""

Net = TypeVar("Net", bound=nn.Module)
Config = TypeVar("Config")


@dataclass(frozen=True)
class Rival(Generic[Net]):
    """A trained network of a compared system, ready for use."""

    net: Net
    card: Mapping[str, Any]
    """What it was trained on, and how well it does."""
    sha256: str
    """Of the weights file."""


def file_stem(system: str) -> str:
    """Name of a system's weights, without suffix: ``pdn-ga`` → ``pdn_ga``."""
    return system.replace("-", "_")


def config_from(cls: type[Config], values: Mapping[str, Any], what: str) -> Config:
    """The dataclass ``cls`` from what JSON made of it; unknown keys are an error."""
    known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
    odd = sorted(set(values) - known)
    if odd:
        raise SherdError(f"{what}: unknown key {odd[0]!r}; known are {', '.join(sorted(known))}")
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


def save_rival(
    stem: Path, system: str, net: nn.Module, config: Any, card: Mapping[str, Any]
) -> None:
    """Write ``stem.safetensors`` and ``stem.json``; ``config`` is the network's dataclass."""
    size = 2 * sum(t.numel() for t in net.state_dict().values())
    if size > LIMIT:
        raise SherdError(f"{system}: {size} bytes of weights in fp16; at most {LIMIT} are allowed")
    about = {"net": asdict(config), "card": dict(card)}
    save_part(stem, net, f"sherd-{system}", about, version=FORMAT)


def load_rival(
    system: str,
    config: type[Config],
    build: Callable[[Config], Net],
    path: str | Path | None = None,
) -> Rival[Net]:
    """Weights at ``path`` (a folder, a stem or either file), or the shipped ones.

    Evaluation mode, float32, on the CPU.
    """
    stem = FOLDER if path is None else Path(path)
    if stem.is_dir():
        stem = stem / file_stem(system)
    elif stem.suffix in (".safetensors", ".json"):
        stem = stem.with_suffix("")
    about, tensors = load_part(stem, f"sherd-{system}", version=FORMAT)
    net = build(config_from(config, about.get("net", {}), f"{stem}.json: net"))
    fill(net, tensors, stem)
    return Rival(net, about.get("card", {}), about["sha256"])
