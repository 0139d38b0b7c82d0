"""SD²RL (Song et al. 2023), and the ablation of it with the EvoRL agent."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..errors import SherdError
from ..perception.evidence import Evidence
from ..puzzle import Puzzle
from .erl_mpp import ErlMpp, Player

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ..agent.dqn import DqnParams, QNetwork
    from ..agent.rules import Puzzles
    from ..agent.solve import Progress, SolveParams
    from ..agent.weights import TrainedAgent
    from ..perception.rivals.sdn import SDN


GROWN = 25
"""Boards of more cells than this are grown before the DQN plays them (docs/lab-notes.md, 6)."""
BOARDS = 4096
"""So many are grown; those of highest evidence are played."""
LONG = 150
"""Of more cells than this fewer boards are grown, in the same time."""
NOISE = 0.05
"""What chance adds to a pair score, at most, when a board grows: not all shall be one board."""


@cache
def _network() -> QNetwork:
    from ..agent.dqn import QNetwork
    from ..perception.mppn.weights import fill, load_part
    from ..perception.rivals.weights import FOLDER, FORMAT

    stem = FOLDER / "sd2rl"
    network = QNetwork()
    fill(network, load_part(stem, "sherd-sd2rl", version=FORMAT)[1], stem)
    return network


def _perceive(puzzle: Puzzle, net: SDN | None) -> Evidence:
    from ..perception.rivals.sdn import perceive_sdn
    from ..perception.threads import torch_threads
    from ..search.evolution import default_threads

    with torch_threads(default_threads()):
        return perceive_sdn(puzzle, net)


class Sd2rl(Player):
    """Siamese discriminant networks say which pairs are neighbours, a DQN swaps pieces.

    From the paper: one Siamese network (EfficientNet-B0) for horizontal and one for vertical pairs;
    the state is the pair scores of the board, the DQN's layers 128 and 64, its answer the value of
    the board that follows; an action swaps two pieces, and only the swaps of highest gain in pair
    scores are looked at; γ 0.995, soft target 5e-4, ε from 0.9 to 0.1. From a random board the swap
    of highest value is done as long as it raises the value.

    Chosen here: pair scores enter as evidence (log-likelihood ratios); every seam goes through the
    DQN's first layer and the mean goes on, so that any grid will do (the paper has one input per
    pair of 5×5); 32 swaps are looked at; 5 boards are played, as many as `erl-mpp` has chains, and
    of all boards along the way the one of highest evidence is returned. Beyond the paper's 25
    pieces the boards are not random: swaps of two pieces do not bring order into 70 (`GROWN`).
    Boards are grown, each from one piece anywhere by the best pair scores, and the best played.
    """

    name: ClassVar[str] = "sd2rl"
    summary: ClassVar[str] = "Siamese discriminant networks; a DQN swaps pieces while it helps."
    reference: ClassVar[str] = (
        "Song et al.: Siamese-discriminant deep reinforcement learning for solving jigsaw puzzles "
        "with large eroded gaps. AAAI 2023"
    )
    weights: ClassVar[tuple[str, ...]] = ("sdn", "sd2rl")

    def __init__(
        self,
        net: SDN | None = None,
        network: QNetwork | None = None,
        params: DqnParams | None = None,
        starts: int = 5,
    ) -> None:
        super().__init__()
        if starts < 1:
            raise SherdError(f"starts: {starts}; must be at least 1")
        self.net, self.network, self.params, self.starts = net, network, params, starts

    def check(self) -> None:
        self.network or _network()

    def perceive(self, puzzle: Puzzle) -> Evidence:
        return _perceive(puzzle, self.net)

    def play(
        self, puzzles: Puzzles, start: Tensor, generator: torch.Generator, progress: Progress
    ) -> Tensor:
        import torch

        from ..agent.dqn import DqnParams
        from ..agent.rules import shuffle
        from ..agent.solve import reassemble_dqn

        network, params = self.network or _network(), self.params or DqnParams()
        rounds, stopped = 0, False

        def count(board: Tensor, score: float, number: int) -> bool:
            nonlocal rounds, stopped
            stopped = progress(board, score, rounds)
            rounds += 1
            return stopped

        cells, many = puzzles.layout.rows * puzzles.layout.cols, self.starts
        if cells > GROWN:
            many = max(many, BOARDS * LONG**2 // max(LONG, cells) ** 2)
        boards = start.expand(many, -1)
        boards = shuffle(boards, ~puzzles.fixed.expand_as(boards), generator)
        if cells > GROWN:
            boards = _grown(puzzles, boards, generator)[: self.starts]
        ends: list[Tensor] = []
        for board in boards:
            ends.append(reassemble_dqn(network, puzzles, board, params, generator, count)[0])
            if stopped:
                break
        return torch.cat(ends)


def _grown(puzzles: Puzzles, boards: Tensor, generator: torch.Generator) -> Tensor:
    """Boards ``(B, C)`` grown by pair scores from random ones, those of highest evidence first."""
    import torch

    from ..agent.gains import score
    from .growing import grow

    layout = puzzles.layout
    cells = np.arange(layout.rows * layout.cols, dtype=np.int32)
    genomes = boards.numpy().astype(np.int32)
    n = int((puzzles.blank[0] == 0).sum())
    right, below = puzzles.at[0, 1:3, :n, :n].double().sigmoid().numpy()
    state = torch.randint(2**62, (1,), generator=generator).numpy().astype(np.uint64)
    grow(
        genomes, puzzles.fixed[0].numpy(), cells, cells, layout.rows, layout.cols, right, below,
        NOISE, state,
    )  # fmt: skip
    grown = torch.from_numpy(genomes).to(boards.dtype)
    seen = score(puzzles, grown, torch.zeros(len(grown), dtype=torch.long))
    return grown[seen.argsort(descending=True, stable=True)]


class SdnEvoRl(ErlMpp):
    """The EvoRL agent of `erl-mpp` on what the Siamese networks of `sd2rl` say."""

    name: ClassVar[str] = "sdn-evorl"
    summary: ClassVar[str] = "Ablation of erl-mpp: its agent on SD²RL's Siamese networks."
    reference: ClassVar[str] = "Song et al.: ERL-MPP, AAAI 2025, ablation"
    weights: ClassVar[tuple[str, ...]] = ("sdn", "agent")

    def __init__(
        self,
        net: SDN | None = None,
        agent: TrainedAgent | None = None,
        params: SolveParams | None = None,
    ) -> None:
        super().__init__(None, agent, params)
        self.net = net

    def perceive(self, puzzle: Puzzle) -> Evidence:
        return _perceive(puzzle, self.net)
