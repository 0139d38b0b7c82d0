"""The evaluator that remembers says what the evaluator says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sherd.agent.config import AgentConfig
from sherd.agent.critic import Critic, evaluate
from sherd.agent.place import PlaceParams, place_evidence
from sherd.agent.recall import Recall
from sherd.agent.rules import Puzzles, from_tensors
from sherd.agent.solve import SolveParams, reassemble
from sherd.agent.weights import Networks

pytestmark = pytest.mark.usefixtures("one_thread")


def wild_critic(width: int = 8) -> Critic:
    """A critic with an opinion on everything."""
    critic = Critic(AgentConfig(critic=width))
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in critic.parameters():
            p.copy_(torch.randn(p.shape, generator=g) * 0.5)
    return critic


def make(grid: tuple[int, int], pieces: int, pool: int, placed: bool) -> Puzzles:
    g = torch.Generator().manual_seed(2)
    h, v = torch.randn(2, 1, pieces, pieces, generator=g) * 5
    border = torch.randn(1, 4, pieces, generator=g) * 5
    puzzle = from_tensors(h, v, border, grid, pool=pool)
    puzzle.fixed[0, 0] = True
    return replace(puzzle, place=place_evidence(puzzle, PlaceParams())) if placed else puzzle


def some_boards(puzzle: Puzzles, count: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(3)
    cells = puzzle.layout.cells
    boards = torch.stack([torch.randperm(cells, generator=g) for _ in range(count)])
    boards[1::2] = boards[::2]  # half of them are much like others
    boards[1::2, [0, -1]] = boards[1::2, [-1, 0]]
    return boards


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize(
    ("grid", "pieces", "pool"),
    [((3, 4), 12, 0), ((1, 5), 5, 0), ((2, 2), 4, 0), ((4, 5), 17, 0), ((3, 3), 11, 2)],
)
def test_it_says_what_the_evaluator_says(grid, pieces, pool, placed):
    puzzle, critic = make(grid, pieces, pool, placed), wild_critic()
    boards = some_boards(puzzle, 20)
    which = torch.zeros(len(boards), dtype=torch.long)
    want = evaluate(critic, puzzle, boards, which, value=0.3, evidence=0.7)
    recall = Recall(critic, puzzle, value=0.3, evidence=0.7)
    torch.testing.assert_close(recall(boards), want, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(recall(boards.flip(0)), want.flip(0), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kept", [1, 12, 25, 100])
def test_little_room_changes_nothing(kept):
    """Whatever it had to forget between two boards."""
    puzzle, critic = make((3, 4), 12, 0, True), wild_critic()
    boards = some_boards(puzzle, 30)
    want = Recall(critic, puzzle, value=0.3, evidence=0.7)(boards)
    recall = Recall(critic, puzzle, value=0.3, evidence=0.7, kept=kept)
    for _ in range(2):
        torch.testing.assert_close(recall(boards), want, atol=1e-6, rtol=1e-6)


def test_only_what_is_new_goes_through_the_network():
    puzzle, critic = make((4, 5), 20, 0, False), wild_critic()
    rows: list[int] = []
    critic.cell.register_forward_hook(lambda _, args, __: rows.append(len(args[0])))
    recall = Recall(critic, puzzle, value=1.0, evidence=0.0)
    board = torch.arange(20)[None]
    recall(board)
    other = board.clone()
    other[0, [0, 1]] = other[0, [1, 0]]  # seen by 2 x 3 cells in the corner
    recall(torch.cat([board, other, other]))
    recall(other)
    assert rows == [20, 6, 0]


def test_agents_play_with_it(monkeypatch):
    """A chain's worth comes from it, of the puzzle with its places and then without."""
    asked: list[tuple[bool, int]] = []
    real = Recall.__call__

    def spy(self: Recall, boards: torch.Tensor) -> torch.Tensor:
        asked.append((bool(self._placed), len(boards)))
        return real(self, boards)

    monkeypatch.setattr(Recall, "__call__", spy)
    puzzle = make((2, 3), 6, 0, False)
    networks = Networks(AgentConfig(width=16, heads=2, critic=8))
    generator = torch.Generator().manual_seed(0)
    reassemble(
        networks, puzzle, torch.arange(6), SolveParams(chains=2), generator, lambda *_: False
    )
    assert (True, 64) in asked
    assert (False, 64) in asked
    assert {n for _, n in asked} == {1, 64}
