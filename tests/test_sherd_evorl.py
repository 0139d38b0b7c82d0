"""The default system with the agent: what it finds is never worse by its own evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from skimage import data as pictures

from sherd import Geometry, SherdError, cut, make_solver
from sherd.agent import touch
from sherd.agent.actor import Actor
from sherd.agent.config import AgentConfig
from sherd.agent.touch import TouchParams, flat_board, touch_up
from sherd.agent.weights import Networks, TrainedAgent
from sherd.perception.synthetic import synthetic_evidence
from sherd.puzzle import EMPTY, Knowledge, Puzzle, identity_board
from sherd.solvers.erl_mpp import ErlMpp, MppnDqn
from sherd.solvers.sherd_evorl import MORE, SherdEvoRl

GRID = (4, 5)
TRUTH = identity_board(GRID)


def untrained() -> Actor:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Actor(AgentConfig(width=16, heads=2, critic=8))


def puzzle(**more) -> Puzzle:
    pieces = np.zeros((20, 8, 8, 3), dtype=np.uint8)
    return Puzzle(pieces, GRID, gap=2, **more)


def evidence(true: float = 5.0):
    """Pairs as they may be, and a judge of whole boards that knows the truth."""
    found = synthetic_evidence(GRID, 0.9, np.random.default_rng(0))

    def board(boards: np.ndarray) -> np.ndarray:
        return true * (boards == TRUTH).mean((1, 2))

    return replace(found, board=board, board_weight=20.0)


def swapped(*pairs: tuple[int, int]) -> np.ndarray:
    board = TRUTH.copy()
    for a, b in pairs:
        board.flat[[a, b]] = board.flat[[b, a]]
    return board


def touched(board: np.ndarray, seen, of: Puzzle, **more) -> tuple[np.ndarray, float]:
    generator = torch.Generator().manual_seed(1)
    return touch_up(untrained(), seen, of, [board], TouchParams(**more), generator)


def test_what_all_evidence_prefers_is_found() -> None:
    seen = evidence()
    for board in (swapped((0, 1)), swapped((6, 7), (12, 17))):
        best, value = touched(board, seen, puzzle(), rounds=6)
        assert value > seen.full_score(board)
        assert np.array_equal(best, TRUTH)
        assert value == pytest.approx(seen.full_score(TRUTH), rel=1e-5)


def test_nothing_better_leaves_all_as_it_is() -> None:
    seen = evidence()
    best, value = touched(TRUTH, seen, puzzle())
    assert np.array_equal(best, TRUTH)
    assert value == seen.full_score(TRUTH)


def test_what_is_known_holds() -> None:
    seen, board = evidence(), swapped((0, 1))
    pinned, _ = touched(board, seen, puzzle(pins={1: (0, 0)}), rounds=6)
    assert pinned[0, 0] == 1
    rule = Knowledge(not_right=frozenset({(0, 1)}))
    ruled, _ = touched(board, seen, puzzle(knowledge=rule), rounds=6)
    assert not rule.broken(ruled, 20)


def test_boards_with_holes_and_spare_pieces_are_laid_out() -> None:
    board = TRUTH.copy()
    board[1, 2] = EMPTY  # piece 7 is not placed
    flat = flat_board(board, torch.arange(21), 20).numpy()
    assert sorted(flat) == list(range(21))
    assert flat[7] == 7 or flat[20] == 7
    few = flat_board(np.where(TRUTH < 18, TRUTH, EMPTY), torch.arange(20), 18).numpy()
    assert sorted(few) == list(range(20))
    assert list(few[:18]) == list(range(18))


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(SherdError, match="touch"):
        TouchParams(rounds=0)


def test_it_is_the_default_system_and_more() -> None:
    image = pictures.astronaut()[:256, :256]
    some = cut(image, Geometry(grid=(3, 3), piece=(64, 64), gap=6)).puzzle
    plain, more = make_solver("sherd").solve(some, seed=0), SherdEvoRl().solve(some, seed=0)
    assert more.score >= plain.score - 1e-6
    assert np.array_equal(more.board, SherdEvoRl().solve(some, seed=0).board)
    assert "agent" in more.timings


def test_the_evaluator_tells_better_boards_from_worse_ones() -> None:
    solver, seen, worse = SherdEvoRl(), evidence(), swapped((0, 19), (4, 12))
    assert solver.opinion(seen, puzzle(), worse, TRUTH) > MORE
    assert solver.opinion(seen, puzzle(), TRUTH, worse) < -MORE
    assert solver.opinion(seen, puzzle(), TRUTH, TRUTH) == 0.0


@pytest.mark.parametrize("agrees", [True, False])
def test_higher_evidence_counts_only_if_the_evaluator_is_clear(
    agrees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pictures.astronaut()[:256, :256]
    some = cut(image, Geometry(grid=(3, 3), piece=(64, 64), gap=6)).puzzle
    plain = make_solver("sherd").solve(some, seed=0)

    def upside_down(actor, evidence, puzzle, boards, *rest) -> tuple[np.ndarray, float]:
        return boards[0][::-1].copy(), plain.score + 1.0

    monkeypatch.setattr(touch, "touch_up", upside_down)
    solver = SherdEvoRl()
    monkeypatch.setattr(solver, "opinion", lambda *_: 1.01 * MORE if agrees else 0.99 * MORE)
    found = solver.solve(some, seed=0)
    assert np.array_equal(found.board, plain.board[::-1] if agrees else plain.board)


def test_erl_mpp_touches_its_last_boards_up_and_the_dqn_does_not() -> None:
    seen, board = evidence(), swapped((0, 1))
    networks = Networks(AgentConfig(width=16, heads=2, critic=8)).requires_grad_(False)
    networks.actor = untrained()
    agent = TrainedAgent(networks, {})
    generator = torch.Generator().manual_seed(1)
    best, value = ErlMpp(agent=agent).choose(seen, puzzle(), [board], generator)
    assert np.array_equal(best, TRUTH)
    assert value == pytest.approx(seen.full_score(TRUTH), rel=1e-5)
    left, value = MppnDqn().choose(seen, puzzle(), [TRUTH[::-1], board], generator)
    assert np.array_equal(left, board)
    assert value == seen.full_score(board)
