"""What a training run of the agent depends on beside its puzzles."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..agent.batch import Starts
from ..agent.config import AgentConfig
from ..agent.dqn import DqnParams
from ..agent.evolution import EvolutionParams
from ..errors import SherdError


@dataclass(frozen=True)
class AgentRecipe:
    """Figures of the paper where it names them, else decided here."""

    net: AgentConfig = field(default_factory=AgentConfig)
    evolution: EvolutionParams = field(default_factory=EvolutionParams)
    starts: Starts = field(default_factory=Starts)
    dqn: DqnParams = field(default_factory=DqnParams)
    seed: int = 0
    gamma: float = 0.998
    """γ (paper)."""
    buffer: int = 100
    """Size of the memory 𝔹 (paper), in steps of all puzzles together."""
    puzzles: int = 128
    """Puzzles that are played side by side in an iteration; the paper plays one."""
    steps: int = 24
    """T: steps of an episode; the paper's most is 10000."""
    clip: float = 0.2
    """ε of PPO's clipping."""
    kl: float = 0.05
    """How far the actor may move in an iteration (Kullback-Leibler, nats): no update goes beyond.
    Actions are evolved, not drawn, so clipping alone does not hold it."""
    epochs: int = 4
    """Updates per iteration."""
    batch: int = 1024
    """Transitions per update."""
    lr: float = 3e-4
    """Learning rate of the actor (Adam)."""
    critic_lr: float = 1e-3
    """Learning rate of the critic."""
    lr_floor: float = 0.1
    """Last learning rates, as a share of the first."""
    beta: float = 0.05
    """β: share of the critic that enters the evaluator in an iteration."""
    entropy: float = 1e-3
    """Weight of the entropy bonus."""
    norm: float = 1.0
    """Largest norm of a gradient."""
    large_first: float = 2.0
    """Log-odds that puzzlets have over 3-swaps, and these over 2-swaps, at the beginning; they
    fall to 0 over training."""
    evidence: float = 0.0
    """Weight of the evidence when sequences are judged, beside how right the evaluator thinks a
    board is: 0 = what evidence means is learned."""
    value: float = 0.1
    """The same for the evaluator's value."""
    head_start: bool = False
    """Whether value begins as a line in the evidence, or as nothing."""
    bare: float = 0.25
    """Share of iterations without place evidence."""
    limit: int = 300
    """Most pictures per kind of puzzle (0 = all)."""
    val_limit: int = 16
    """The same for validation."""
    glance: int = 8
    """The same for evaluations while training; the last one plays all."""
    log_every: int = 10
    """Iterations."""
    save_s: float = 90.0
    """Seconds between checkpoints."""
    eval_s: float = 240.0
    """Seconds between evaluations."""
    reserve_s: float = 45.0
    """Seconds at the end of a run for the last evaluation."""
    workers: int = 16
    graphs: bool = True
    """Record the agent's step as CUDA graphs; means nothing on a CPU."""

    def __post_init__(self) -> None:
        for name in ("buffer", "puzzles", "steps", "epochs", "batch", "log_every", "workers",
                     "glance"):  # fmt: skip
            if getattr(self, name) < 1:
                raise SherdError(f"{name}: {getattr(self, name)}; expected at least 1")
        for name in ("lr", "critic_lr", "norm", "clip", "kl"):
            if not getattr(self, name) > 0:
                raise SherdError(f"{name}: {getattr(self, name)}; expected more than 0")
        if self.seed < 0:
            raise SherdError(f"seed: {self.seed}; expected at least 0")
        if not 0 < self.gamma < 1 or not 0 < self.beta <= 1 or not 0 <= self.bare <= 1:
            raise SherdError("gamma must lie between 0 and 1, beta and bare in 0..1")
