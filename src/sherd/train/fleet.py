"""Several processes that train one network, a device each; one process alone is a fleet of one.

A launcher (``accelerate launch``, ``torchrun``) starts the processes and numbers them through the
environment. The main process, number 0, keeps the clock and writes the files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from types import TracebackType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..errors import SherdError


def _number(name: str, default: int | None = None) -> int:
    """A number that the launcher has left in the environment."""
    text = os.environ.get(name, "" if default is None else str(default))
    if not text.isdecimal():
        raise SherdError(
            f"{name}: {text!r} in the environment; expected a number, as accelerate launch sets it"
        )
    return int(text)


def is_main() -> bool:
    """Whether this process shows and writes what the fleet does."""
    return _number("WORLD_SIZE", 1) <= 1 or _number("RANK") == 0


@dataclass(frozen=True)
class Fleet:
    """This process among those that train together. Alone, nothing is sent and nothing changed."""

    rank: int = 0
    """Number of this process, 0 is the main one."""
    size: int = 1
    """Number of processes."""
    local: int = 0
    """Number of this process on its machine, and of its GPU."""
    host: Any = None
    """Group for messages between the processes' CPUs."""

    @classmethod
    def of_environment(cls, device: torch.device) -> Fleet:
        """The fleet that a launcher has started, to train on devices like ``device``."""
        size = _number("WORLD_SIZE", 1)
        if size <= 1:
            return cls()
        rank, local = _number("RANK"), _number("LOCAL_RANK")
        if find_spec("accelerate") is None:
            raise SherdError(
                f"WORLD_SIZE: {size} processes, but accelerate is not installed; "
                "pip install 'sherd[scale]' or start one process"
            )
        if device.type == "cuda" and local >= torch.cuda.device_count():
            raise SherdError(
                f"LOCAL_RANK: {local}, but this machine has {torch.cuda.device_count()} GPUs; "
                "start one process per GPU"
            )
        from accelerate import PartialState

        state = PartialState(cpu=device.type == "cpu")
        if (state.process_index, state.num_processes) != (rank, size):
            raise SherdError(
                f"RANK: {rank} of {size}, but accelerate sees {state.process_index} of "
                f"{state.num_processes}; start the processes with accelerate launch"
            )
        # the main process may evaluate for long while the others wait for its word
        return cls(rank, size, local, dist.new_group(backend="gloo", timeout=timedelta(days=1)))

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self.size == 1 or kind is not None:  # after an error the launcher ends the others
            return
        dist.barrier(group=self.host)  # nobody leaves before the main process has finished
        dist.destroy_process_group()

    @property
    def main(self) -> bool:
        """Whether this process evaluates, logs and writes files."""
        return self.rank == 0

    def own(self, device: torch.device) -> torch.device:
        """This process's device among those like ``device``."""
        if self.size == 1 or device.type != "cuda":
            return device
        return torch.device("cuda", self.local)

    def rng(self, seed: int, step: int) -> np.random.Generator:
        """Random state of a step: every process draws its own, the main one what one alone does."""
        return np.random.default_rng([seed, step, self.rank] if self.rank else [seed, step])

    def tell(self, *values: float) -> tuple[float, ...]:
        """The main process's ``values``, on every process.

        A message between CPUs: nobody waits for a GPU to finish.
        """
        if self.size == 1:
            return values
        message = torch.tensor(values, dtype=torch.float64)
        dist.broadcast(message, 0, group=self.host)
        return tuple(message.tolist())

    def average(self, params: Iterable[nn.Parameter], losses: Tensor) -> Tensor:
        """Average gradients over the processes, in place; returns the average of ``losses``.

        Sums are the same bits everywhere, and what is not finite on one process is not finite on
        any: all then do the same with it.
        """
        if self.size == 1:
            return losses
        from accelerate.utils import reduce

        for p in (params := list(params)):
            if p.grad is None:  # another process may have one
                p.grad = torch.zeros_like(p)
        parts = [losses.detach(), *(p.grad for p in params if p.grad is not None)]
        flat = reduce(torch.cat([t.flatten() for t in parts]), "mean")  # one message for all
        means = flat.split([t.numel() for t in parts])
        torch._foreach_copy_(
            parts[1:], [m.view_as(t) for m, t in zip(means, parts, strict=True)][1:]
        )
        return means[0]
