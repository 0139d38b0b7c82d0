"""A trained agent on disk: fp16 safetensors, and a JSON beside it with sizes, card and hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ..errors import SherdError
from ..perception.mppn.weights import fill, load_part, save_part
from .actor import Actor
from .config import AgentConfig
from .critic import Critic
from .dqn import QNetwork

KIND = "sherd-agent"
DQN_KIND = "sherd-dqn"
FOLDER = Path(__file__).resolve().parents[1] / "weights"
"""Where the shipped networks lie."""


class Networks(nn.Module):
    """What acts at test time: actor and evaluator."""

    def __init__(self, cfg: AgentConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.actor = Actor(cfg)
        self.evaluator = Critic(cfg)


@dataclass(frozen=True)
class TrainedAgent:
    """An agent that is ready to play."""

    networks: Networks
    card: Mapping[str, Any]
    """What it was trained on, and how well it does."""


@dataclass(frozen=True)
class TrainedDqn:
    """A Q network that is ready to play."""

    network: QNetwork
    card: Mapping[str, Any]


def _stem(path: Path | None, name: str, option: str) -> Path:
    stem = FOLDER / name if path is None else path
    if stem.is_dir():
        stem = stem / name
    if not stem.with_name(stem.name + ".json").is_file():
        raise SherdError(
            f"{stem}.json: is missing, the agent has not been trained; "
            f"train it with: sherd train agent{option} --out {stem.parent}"
        )
    return stem


def save_agent(stem: Path, networks: Networks, card: Mapping[str, Any]) -> None:
    """Write ``stem.safetensors`` (fp16) and ``stem.json``."""
    save_part(stem, networks, KIND, {"net": networks.cfg.asdict(), "card": dict(card)})


def load_agent(path: Path | None = None) -> TrainedAgent:
    """The agent at ``path`` (a folder or a stem), or the shipped one; on the CPU, float32."""
    stem = _stem(path, "agent", "")
    about, tensors = load_part(stem, KIND)
    networks = Networks(AgentConfig.from_dict(about.get("net", {}), f"{stem}.json: net"))
    fill(networks, tensors, stem)
    return TrainedAgent(networks, about.get("card", {}))


def save_dqn(stem: Path, network: QNetwork, card: Mapping[str, Any]) -> None:
    """Write ``stem.safetensors`` (fp16) and ``stem.json``."""
    save_part(stem, network, DQN_KIND, {"card": dict(card)})


def load_dqn(path: Path | None = None) -> TrainedDqn:
    """The Q network at ``path`` (a folder or a stem), or the shipped one; on the CPU, float32."""
    stem = _stem(path, "dqn", " --dqn")
    about, tensors = load_part(stem, DQN_KIND)
    network = QNetwork()
    fill(network, tensors, stem)
    return TrainedDqn(network, about.get("card", {}))
