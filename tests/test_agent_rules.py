"""The rules of the game: actions, masks, rewards, and the gains in evidence."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from sherd import Evidence, Geometry, Puzzle, SherdError, cut
from sherd.agent import gains
from sherd.agent.batch import BatchEnv, Starts, start_boards
from sherd.agent.rules import (
    NONE,
    SWAP_2,
    SWAP_3,
    SWAP_PUZZLET,
    Puzzles,
    apply,
    count_right,
    from_evidence,
    from_tensors,
    legal,
    masks,
    second_mask,
    shuffle,
    third_mask,
    to_board,
)
from sherd.puzzle import score_board

GRIDS = [(3, 3, 0), (4, 5, 2), (2, 6, 0), (1, 5, 0), (5, 1, 1)]


def all_actions(puzzles: Puzzles, puzzle: int = 0) -> Tensor:
    """``(A, 4)``: every legal action of one puzzle. For small grids: there are O(C³)."""
    c = torch.arange(puzzles.layout.cells)
    none = torch.tensor([NONE])
    kinds = [torch.tensor([k]) for k in range(3)]
    every = torch.cat(
        [
            torch.cartesian_prod(kinds[SWAP_2], c, c, none),
            torch.cartesian_prod(kinds[SWAP_3], c, c, c),
            torch.cartesian_prod(kinds[SWAP_PUZZLET], c, c, none),
        ]
    )
    which = torch.full((len(every),), puzzle)
    return every[legal(puzzles, which, every)]


def random_puzzles(rows: int, cols: int, pool: int = 0, count: int = 3, seed: int = 0) -> Puzzles:
    g = torch.Generator().manual_seed(seed)
    cells = rows * cols + pool
    h, v = torch.randn(2, count, cells, cells, generator=g) * 2
    border = torch.randn(count, 4, cells, generator=g)
    truth = torch.stack([torch.randperm(cells, generator=g) for _ in range(count)])
    return from_tensors(h, v, border, (rows, cols), pool=pool, truth=truth)


def random_boards(puzzles: Puzzles, count: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    cells = puzzles.layout.cells
    boards = torch.stack([torch.randperm(cells, generator=g) for _ in range(count)])
    return boards, torch.randint(len(puzzles), (count,), generator=g)


@pytest.mark.parametrize(("rows", "cols", "pool"), GRIDS)
def test_score_is_that_of_evidence(rows: int, cols: int, pool: int) -> None:
    puzzles = random_puzzles(rows, cols, pool)
    boards, which = random_boards(puzzles, 5)
    got = gains.score(puzzles, boards, which)
    n = puzzles.layout.cells
    for board, p, value in zip(boards, which, got, strict=True):
        at = puzzles.at[p, :, :n, :n].numpy()
        evidence = Evidence(at[1], at[2], puzzles.border[p, :, :n].numpy())
        placed = to_board(board, puzzles.layout, n)
        assert evidence.score(placed) == pytest.approx(float(value), abs=1e-4)


@pytest.mark.parametrize(("rows", "cols", "pool"), GRIDS)
def test_gains_are_exact(rows: int, cols: int, pool: int) -> None:
    puzzles = random_puzzles(rows, cols, pool)
    boards, which = random_boards(puzzles, 4)
    before = gains.score(puzzles, boards, which)
    fit = gains.fits(puzzles, boards, which)
    swap = gains.swap_gain(puzzles, boards, which, fit)
    block = gains.block_gain(puzzles, boards, which, fit)
    for action in all_actions(puzzles):
        kind, a, b, c = action.tolist()
        after = apply(puzzles.layout, boards, action.expand(4, 4))
        real = gains.score(puzzles, after, which) - before
        cell = torch.full((4,), a)
        if kind == SWAP_2:
            torch.testing.assert_close(swap[:, a, b], real, atol=1e-4, rtol=0)
            row = gains.exchange_gain(puzzles, boards, which, cell)[0]
            torch.testing.assert_close(row[:, b], real, atol=1e-4, rtol=0)
        elif kind == SWAP_PUZZLET:
            torch.testing.assert_close(block[:, a, b], real, atol=1e-4, rtol=0)
        elif a < b:  # two exchanges make a cycle
            between = apply(puzzles.layout, boards, torch.tensor([[SWAP_2, a, b, -1]] * 4))
            row = gains.exchange_gain(puzzles, between, which, cell)[0]
            torch.testing.assert_close(swap[:, a, b] + row[:, c], real, atol=1e-4, rtol=0)


def test_actions_do_what_they_say() -> None:
    puzzles = random_puzzles(4, 4)
    board = torch.arange(16)[None]

    def after(*action: int) -> list[int]:
        return apply(puzzles.layout, board, torch.tensor([action]))[0].tolist()

    assert after(SWAP_2, 3, 7, -1) == [0, 1, 2, 7, 4, 5, 6, 3, *range(8, 16)]
    cycle = after(SWAP_3, 0, 5, 9)  # piece of 0 to 5, of 5 to 9, of 9 to 0
    assert (cycle[5], cycle[9], cycle[0]) == (0, 5, 9)
    blocks = after(SWAP_PUZZLET, 0, 10, -1)
    assert blocks == [10, 11, 2, 3, 14, 15, 6, 7, 8, 9, 0, 1, 12, 13, 4, 5]
    assert after(-1, 3, 7, -1) == list(range(16))


def test_illegal_actions() -> None:
    puzzles = random_puzzles(3, 4, count=1)
    puzzles.fixed[0, 5] = True
    bad = [
        (SWAP_2, 1, 1, -1), (SWAP_2, 1, 5, -1), (SWAP_2, 1, 12, -1), (SWAP_2, -1, 3, -1),
        (SWAP_2, 1, 2, 3), (SWAP_3, 1, 2, 1), (SWAP_3, 1, 2, 5), (SWAP_3, 1, 2, -1),
        (SWAP_PUZZLET, 2, 3, -1), (SWAP_PUZZLET, 0, 2, -1), (SWAP_PUZZLET, 2, 6, -1),
        (3, 1, 2, -1), (-1, 1, 2, -1),
    ]  # fmt: skip
    fine = [(SWAP_2, 1, 2, -1), (SWAP_3, 1, 2, 3), (SWAP_3, 2, 1, 3)]
    which = torch.zeros(len(bad + fine), dtype=torch.long)
    assert legal(puzzles, which, torch.tensor(bad + fine)).tolist() == [False] * 13 + [True] * 3
    open_ = random_puzzles(3, 4, count=1)
    two = torch.tensor([[SWAP_PUZZLET, 0, 2, -1], [SWAP_PUZZLET, 0, 1, -1]])
    assert legal(open_, which[:2], two).tolist() == [True, False]


@pytest.mark.parametrize(("rows", "cols", "pool"), GRIDS)
@pytest.mark.parametrize("fixed", [0, 2, 100])
def test_masks_are_exactly_the_legal_actions(rows: int, cols: int, pool: int, fixed: int) -> None:
    puzzles = random_puzzles(rows, cols, pool, count=1)
    puzzles.fixed[0, 1 : 1 + fixed] = True
    want = {tuple(a) for a in all_actions(puzzles).tolist()}
    m = masks(puzzles)
    zero = torch.zeros(1, dtype=torch.long)
    got = set()
    for kind in m.types[0].nonzero().flatten().tolist():
        for a in m.first[0, kind].nonzero().flatten().tolist():
            first = torch.tensor([a])
            seconds = second_mask(puzzles, zero, torch.tensor([kind]), first)[0]
            assert seconds.any()  # no first cell leads nowhere
            for b in seconds.nonzero().flatten().tolist():
                if kind != SWAP_3:
                    got.add((kind, a, b, -1))
                    continue
                thirds = third_mask(puzzles, zero, first, torch.tensor([b]))[0]
                assert thirds.any()
                got |= {(kind, a, b, c) for c in thirds.nonzero().flatten().tolist()}
    assert got == want


def test_reward_counts_what_the_metrics_count() -> None:
    puzzles = random_puzzles(4, 5)
    assert puzzles.truth is not None
    boards, which = random_boards(puzzles, 6)
    boards = torch.cat([boards, puzzles.truth[:1]])
    near = puzzles.truth[1:2].clone()
    near[0, [0, 1]] = near[0, [1, 0]]
    boards, which = torch.cat([boards, near]), torch.cat([which, torch.tensor([0, 1])])
    counts = count_right(puzzles, boards, which)
    rewards = counts.reward()
    for k, (board, p) in enumerate(zip(boards, which, strict=True)):
        truth = puzzles.truth[p].reshape(4, 5).numpy()
        scores = score_board(board.reshape(4, 5).numpy(), truth)
        want = 0.8 * scores.absolute * 20 + 0.2 * scores.neighbor * 31 + 1000 * scores.perfect - 1
        assert float(rewards[k]) == pytest.approx(want, abs=1e-4)
    assert counts.perfect.tolist() == [False] * 6 + [True, False]


def test_pins_holes_and_spare_pieces() -> None:
    whole = cut(np.zeros((30, 40, 3), np.uint8), Geometry((3, 4), (10, 10))).puzzle
    rng = np.random.default_rng(0)

    def evidence(n: int) -> Evidence:
        return Evidence(rng.normal(size=(n, n)), rng.normal(size=(n, n)), rng.normal(size=(4, n)))

    blocked = Puzzle(whole.pieces[:7], (3, 4), pins={2: (1, 1)}, blocked=frozenset({(0, 0)}))
    puzzles, board = from_evidence(evidence(7), blocked)
    assert puzzles.layout.pool == 0
    assert board[5] == 2
    assert puzzles.fixed[0].nonzero().flatten().tolist() == [0, 5]
    laid = to_board(board, puzzles.layout, 7)
    assert laid[0, 0] == -1
    assert sorted(laid[laid >= 0].tolist()) == list(range(7))
    mixed = shuffle(board[None], ~puzzles.fixed, torch.Generator().manual_seed(0))[0]
    assert mixed[5] == 2
    assert mixed[0] == board[0]
    assert not torch.equal(mixed, board)
    assert sorted(mixed.tolist()) == list(range(12))

    many = Puzzle(whole.pieces, (2, 4), blocked=frozenset({(0, 0)}))
    puzzles, board = from_evidence(evidence(12), many)
    assert puzzles.layout.pool == 5
    assert sorted(board.tolist()) == list(range(13))
    assert gains.score(puzzles, board[None], torch.zeros(1, dtype=torch.long)).isfinite().all()
    with pytest.raises(SherdError, match="12 for 8 cells"):
        from_tensors(torch.zeros(1, 12, 12), torch.zeros(1, 12, 12), None, (2, 4))


def test_batched_environment() -> None:
    puzzles = random_puzzles(3, 3)
    assert puzzles.truth is not None
    which = torch.tensor([0, 1, 2, 2])
    env = BatchEnv(puzzles, which)
    boards = puzzles.truth[which].clone()
    boards[:, [0, 1]] = boards[:, [1, 0]]
    env.reset(boards)
    assert not env.done.any()
    undo, bad, other = [SWAP_2, 0, 1, -1], [SWAP_2, 4, 4, -1], [SWAP_2, 2, 3, -1]
    out = env.step(torch.tensor([undo, bad, other, undo]))
    assert out.done.tolist() == [True, False, False, True]
    assert out.legal.tolist() == [True, False, True, True]
    assert float(out.reward[0]) == pytest.approx(0.8 * 9 + 0.2 * 12 + 1000 - 1)
    assert torch.equal(env.boards[1], boards[1])
    env.step(torch.tensor([other] * 4))
    assert torch.equal(env.boards[0], puzzles.truth[0])  # its episode is over
    with pytest.raises(SherdError, match="no truth"):
        BatchEnv(replace(puzzles, truth=None), which)


def test_starting_boards() -> None:
    puzzles = random_puzzles(4, 5)
    assert puzzles.truth is not None
    puzzles.fixed[0, 3] = True
    which = torch.arange(3).repeat(100)
    truth = puzzles.truth[which]
    g = torch.Generator().manual_seed(0)
    random = start_boards(puzzles, which, Starts(0.0, 0.0), g)
    assert torch.equal(random.sort(1).values, torch.arange(20).expand(300, 20))
    assert (random == truth).float().mean() < 0.15
    assert (random[which == 0, 3] == truth[which == 0, 3]).all()
    partial = start_boards(puzzles, which, Starts(1.0, 0.0), g)
    right = (partial == truth).float().mean(1)
    assert 0.35 < right.mean() < 0.7
    assert right.std() > 0.2
    shifted = start_boards(puzzles, which, Starts(0.0, 1.0), g)
    pairs = count_right(puzzles, shifted, which).pairs.float() / puzzles.layout.links
    assert pairs[which > 0].mean() > 0.5
    with pytest.raises(SherdError, match="shares"):
        Starts(0.8, 0.8)


def test_gymnasium_agrees_with_the_batch() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    import sherd.agent.env  # noqa: F401  (registers the environment)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make("sherd/Swap-v0").unwrapped)
    env = gymnasium.make("sherd/Swap-v0", grid=(3, 4), max_steps=5, render_mode="ansi").unwrapped
    seen, info = env.reset(seed=3)
    again, _ = env.reset(seed=3)
    assert np.array_equal(seen["board"], again["board"])
    batch = BatchEnv(env._puzzles, torch.zeros(1, dtype=torch.long))
    batch.reset(torch.from_numpy(seen["board"].reshape(1, -1).copy()))
    for k, action in enumerate(([0, 1, 5, 9], [1, 1, 5, 9], [2, 0, 2, 7], [0, 4, 4, 0])):
        mine = torch.tensor([action])
        if action[0] != SWAP_3:
            mine[0, 3] = -1
        want = batch.step(mine)
        seen, reward, done, cut_off, info = env.step(np.array(action))
        assert np.array_equal(seen["board"].ravel(), batch.boards[0].numpy())
        assert reward == pytest.approx(float(want.reward))
        assert info["legal"] == bool(want.legal) == (k < 3)
        assert not done
        assert not cut_off
    assert env.step(np.array([0, 0, 1, 0]))[3]
    assert len(env.render().splitlines()) == 3
    truth = np.arange(12).reshape(3, 4)
    start = truth.copy()
    start[0, :2] = 1, 0
    env.reset(options={"board": start})
    _, reward, done, cut_off, _ = env.step(np.array([0, 0, 1, 0]))
    assert done
    assert not cut_off
    assert reward > 1000
    with pytest.raises(SherdError, match="full board"):
        env.reset(options={"board": truth[:2]})


def test_sherd_alone_imports_no_gymnasium() -> None:
    code = "import sys, sherd, sherd.solvers; print({'gymnasium', 'torch'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
