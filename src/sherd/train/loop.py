"""The skeleton of a training run: clock, learning rate, averaged weights, checkpoints, metrics."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ..errors import SherdError

SHARD_BYTES = 15 * 2**20
"""Largest file of a checkpoint."""


@dataclass
class Clock:
    """How far a run is: in minutes of the whole recipe, or in steps when these are given."""

    total_minutes: float
    run_minutes: float
    total_steps: int = 0
    run_steps: int = 0
    reserve_s: float = 0.0
    """Seconds at the end of a run that are kept for the last evaluation."""
    used_s: float = 0.0
    """Training time of earlier runs."""
    step: int = 0
    started: float = 0.0
    """When this process began (``time.monotonic``)."""
    first_step: int = 0
    trained_from: float = 0.0
    """When training began, 0 while it does not run."""

    def __post_init__(self) -> None:
        for name, minutes in (("total-minutes", self.total_minutes), ("minutes", self.run_minutes)):
            if not 0 < minutes < math.inf:
                raise SherdError(f"{name}: {minutes}; expected more than 0")
        for name, steps in (("total-steps", self.total_steps), ("steps", self.run_steps)):
            if steps < 0:
                raise SherdError(f"{name}: {steps}; expected at least 0 (0 = as many as fit)")

    def begin(self) -> None:
        """Training begins now (pictures are loaded); the run's limit counts from ``started``."""
        self.trained_from = time.monotonic()
        self.first_step = self.step

    def stop(self) -> None:
        """Training of this run is over: what follows (evaluation) is not counted."""
        self.used_s, self.trained_from = self.seconds, 0.0

    @property
    def seconds(self) -> float:
        """Training time so far, earlier runs included."""
        if not self.trained_from:
            return self.used_s
        return self.used_s + time.monotonic() - self.trained_from

    @property
    def progress(self) -> float:
        """0 at the start of the recipe, 1 at its end."""
        if self.total_steps:
            return min(1.0, self.step / self.total_steps)
        return min(1.0, self.seconds / (60.0 * self.total_minutes))

    @property
    def over(self) -> bool:
        """Whether this run has to stop."""
        if self.progress >= 1.0:
            return True
        if self.run_steps and self.step - self.first_step >= self.run_steps:
            return True
        elapsed = time.monotonic() - self.started
        return elapsed + self.reserve_s >= 60.0 * self.run_minutes


def pick_device(name: str) -> torch.device:
    """``cpu``, ``cuda``, or what there is (``auto``)."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda") or (name == "cuda" and not torch.cuda.is_available()):
        there = ", cpu or cuda" if torch.cuda.is_available() else " or cpu"
        raise SherdError(f"device: {name!r} cannot be used here; use auto{there}")
    return torch.device("cuda", 0) if name == "cuda" else torch.device("cpu")


def autocast(device: torch.device) -> AbstractContextManager[None]:
    """bf16 on a GPU, nothing on a CPU."""
    if device.type == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()


def adamw(
    nets: Iterable[nn.Module], lr: float, weight_decay: float,
    betas: tuple[float, float] = (0.9, 0.98),
) -> torch.optim.AdamW:  # fmt: skip
    """AdamW over ``nets``; biases and norms do not decay."""
    params = [p for net in nets for p in net.parameters()]
    return torch.optim.AdamW(
        [{"params": [p for p in params if p.ndim > 1], "weight_decay": weight_decay},
         {"params": [p for p in params if p.ndim <= 1], "weight_decay": 0.0}],
        lr=lr, betas=betas, fused=params[0].device.type == "cuda",
    )  # fmt: skip


def learning_rate(progress: float, peak: float, warm_up: float, floor: float) -> float:
    """Linear warm-up over a share of the recipe, then a half cosine to ``floor · peak``."""
    if progress < warm_up:
        return peak * max(0.01, progress / warm_up)
    along = (progress - warm_up) / (1.0 - warm_up)
    return peak * (floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * along)))


class Average:
    """Exponential moving average of a network's weights; early steps are averaged faster."""

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.decay = decay
        self.live: list[Tensor] = list(net.parameters())
        self.mean = [p.detach().clone() for p in self.live]

    def update(self, step: int) -> None:
        """Blend the live weights in after optimiser step ``step`` (from 1)."""
        decay = min(self.decay, (1.0 + step) / (10.0 + step))
        with torch.no_grad():
            torch._foreach_lerp_(self.mean, self.live, 1.0 - decay)

    def copy_from(self, net: nn.Module) -> None:
        """Go on from the weights of ``net``."""
        with torch.no_grad():
            for p, mean in zip(net.parameters(), self.mean, strict=True):
                mean.copy_(p)

    def copy_to(self, net: nn.Module) -> None:
        """Give ``net`` the averaged weights."""
        with torch.no_grad():
            for p, mean in zip(net.parameters(), self.mean, strict=True):
                p.copy_(mean)


def clip_gradients(params: Iterable[nn.Parameter], largest: float) -> Tensor:
    """Scale gradients to a norm of at most ``largest``; a step that is not finite becomes zero.

    Nothing waits for the device. Returns the norm before.
    """
    grads = [p.grad for p in params if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    scale = torch.where(torch.isfinite(norm), (largest / (norm + 1e-6)).clamp(max=1.0), 0.0)
    for g in grads:
        torch.nan_to_num_(g, nan=0.0, posinf=0.0, neginf=0.0)
    torch._foreach_mul_(grads, scale)
    return norm


def write_text(path: Path, text: str) -> None:
    """Write a small file so that it is either old or new, never half."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    os.replace(part, path)


def save_shards(
    folder: Path, stem: str, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]
) -> None:
    """Write tensors to ``stem-K.safetensors`` of at most ``SHARD_BYTES``, all of them or none."""
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        bytes_ = tensor.numel() * tensor.element_size()
        if shards[-1] and size + bytes_ > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += bytes_
    info = {"meta": json.dumps({**meta, "shards": len(shards)})}
    parts = []
    for k, shard in enumerate(shards):
        part = folder / f"{stem}-{k}.safetensors.part"
        save_file(shard, part, metadata=info)
        parts.append(part)
    for part in parts:  # the slow part is done: renaming takes no time
        os.replace(part, part.with_suffix(""))


def load_shards(folder: Path, stem: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_shards` wrote."""
    tensors: dict[str, Tensor] = {}
    meta: dict[str, Any] = {}
    k, count = 0, 1
    while k < count:
        path = folder / f"{stem}-{k}.safetensors"
        if not path.is_file():
            raise SherdError(f"{path}: is missing; a checkpoint needs all of its files")
        try:
            with safe_open(path, "pt") as file:
                found = json.loads((file.metadata() or {}).get("meta", "null"))
                tensors.update({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as error:
            raise SherdError(f"{path}: is no readable checkpoint ({error})") from None
        if not isinstance(found, dict) or (meta and found != meta):
            raise SherdError(f"{path}: belongs to another checkpoint; copy the folder again")
        meta, count, k = found, found["shards"], k + 1
    return tensors, meta


def pack_state(net: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What a run needs to go on, in 16 bits to stay small.

    Rounding moves a weight by less than a step does. The first moments are left out: they are
    ten steps long. The averaged weights are the network that is saved beside the checkpoint.
    """
    out: dict[str, Tensor] = {}
    for name, p in net.named_parameters():
        out[f"net.{name}"] = p.detach().to(torch.float16)
        state = optimiser.state.get(p, {})
        if "exp_avg_sq" in state:
            out[f"square.{name}"] = state["exp_avg_sq"].to(torch.bfloat16)
    return out


def unpack_state(
    tensors: Mapping[str, Tensor],
    step: int,
    net: nn.Module,
    optimiser: torch.optim.Optimizer,
    *,
    fused: bool,
    what: Path,
) -> None:
    """Put what `pack_state` took back into place."""
    with torch.no_grad():
        for name, p in net.named_parameters():
            stored = tensors.get(f"net.{name}")
            if stored is None or stored.shape != p.shape:
                got = "nothing" if stored is None else tuple(stored.shape)
                raise SherdError(
                    f"{what}: holds {got} for {name}, this network has {tuple(p.shape)}; "
                    "resume with the configuration it was trained with"
                )
            p.copy_(stored)
            if f"square.{name}" in tensors:
                optimiser.state[p] = {
                    "step": torch.tensor(float(step), device=p.device if fused else "cpu"),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": tensors[f"square.{name}"].to(p.device, p.dtype),
                }


Row = Mapping[str, Any]
"""One line of metrics: its ``kind``, the ``step``, and figures."""
Show = Callable[[Row], None]
"""What sees every row when it has been written: a line on stdout, a display, a file for plots."""


def print_row(row: Row, file: TextIO | None = None) -> None:
    """``key=value`` on one line of ``file`` (stdout)."""
    print(" ".join(f"{k}={v}" for k, v in row.items()), file=file, flush=True)


class Metrics:
    """Appends one JSON object per line to a file, and shows it."""

    def __init__(self, path: Path, show: Show = print_row) -> None:
        self.path, self.show = path, show

    def write(self, **values: Any) -> None:
        """Record rounded figures."""
        row = {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in values.items()}
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        self.show(row)
