"""Sizes of the agent's networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from ..errors import SherdError


@dataclass(frozen=True)
class AgentConfig:
    """Sizes. The defaults are the shipped agent's."""

    width: int = 64
    """Channels of the actor's tokens."""
    layers: int = 2
    """Transformer layers of the actor."""
    heads: int = 4
    """Attention heads of a layer."""
    critic: int = 48
    """Channels of critic and evaluator."""
    pooled: int = 0
    """Size of the pooled fragment features that the actor reads; 0 = none."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            least = 0 if f.name == "pooled" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise SherdError(f"{f.name}: {value!r}; expected a whole number of {least} or more")
        if self.width % self.heads:
            raise SherdError(f"heads: {self.heads} must divide width {self.width}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], what: str) -> Self:
        """Read back what `asdict` gave; unknown keys are an error."""
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise SherdError(f"{what}: unknown key {unknown[0]!r}; known are {sorted(known)}")
        return cls(**values)

    def asdict(self) -> dict[str, Any]:
        """The sizes by name."""
        return asdict(self)
