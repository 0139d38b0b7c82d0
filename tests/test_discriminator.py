"""The discriminator, and what it learns from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sherd.errors import SherdError
from sherd.perception.evidence import Evidence
from sherd.perception.mppn.discriminator import (
    NEUTRAL,
    Discriminator,
    DiscriminatorConfig,
    MBConv,
    compose,
    to_tiles,
)
from sherd.train import boards as b
from sherd.train.judge import Verdicts, judge, table

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = DiscriminatorConfig(
    pitch=32, stem=8, widths=(8,) * 7, head=16, hidden=(16, 8), drop_path=0.0, dropout=0.0
)
GRIDS = st.tuples(st.integers(1, 6), st.integers(1, 6)).filter(lambda g: g[0] * g[1] > 1)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def fresh(cfg: DiscriminatorConfig = SMALL, seed: int = 0) -> Discriminator:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Discriminator(cfg)


def moved(boards: torch.Tensor) -> torch.Tensor:
    """Where boards (k, n) differ from the right one."""
    return boards != torch.arange(boards.shape[1])


# ---- the network -------------------------------------------------------------------------------


def test_layout_is_that_of_efficientnet_b3():
    net = Discriminator()
    blocks = [m for m in net.modules() if isinstance(m, MBConv)]
    assert len(blocks) == 26
    assert [name for name, _ in net.named_children() if name.startswith("fc")] == [
        "fc1", "fc2", "fc3",
    ]  # fmt: skip
    kernels = [m.depthwise.kernel_size[0] for m in blocks]
    assert kernels == [3] * 5 + [5] * 3 + [3] * 5 + [5] * 11 + [3] * 2
    assert sum(m.depthwise.stride[0] == 2 for m in blocks) == 4
    assert sum(p.numel() for p in net.parameters()) <= 2_000_000


@pytest.mark.parametrize("size", [(64, 64), (65, 97), (96, 240), (144, 64)])
def test_pictures_of_any_size(size):
    net = fresh().eval()
    x = torch.rand(2, 3, *size, generator=seeded(1))
    both = net(x)
    assert both.shape == (2,)
    # a board's logit does not depend on its company
    assert torch.allclose(both[1:], net(x[1:]), atol=1e-5)


def test_boards_of_a_batch_share_what_is_left_out():
    net = fresh(replace(SMALL, drop_path=0.5, dropout=0.5)).train()
    x = torch.rand(1, 3, 64, 64, generator=seeded(1)).expand(3, -1, -1, -1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        runs = torch.stack([net(x).detach() for _ in range(4)])
    assert torch.allclose(runs, runs[:, :1], atol=1e-6)
    assert len(torch.unique(runs[:, 0])) > 1


def test_small_pictures_are_refused():
    with pytest.raises(SherdError, match="at least 64 px"):
        fresh()(torch.rand(1, 3, 63, 64))


@pytest.mark.parametrize(
    "change",
    [{"widths": (8, 8)}, {"group": 5}, {"dropout": 1.0}, {"pitch": 0}, {"hidden": (8, 8, 8)}],
)
def test_bad_sizes_are_refused(change):
    with pytest.raises(SherdError):
        replace(SMALL, **change)


def test_compose_lays_tiles_out_by_the_board():
    tiles = torch.rand(2, 6, 3, 8, 8, generator=seeded(0))
    boards = torch.tensor([[[0, 1, 2, 3, 4, 5], [5, 1, 2, -1, 4, 0]]]).expand(2, -1, -1)
    pictures = compose(tiles, boards, (2, 3))
    assert pictures.shape == (4, 3, 16, 24)
    assert torch.equal(pictures[3][:, :8, :8], tiles[1, 5])
    assert torch.equal(pictures[0][:, 8:, 16:], tiles[0, 5])
    assert bool((pictures[1][:, 8:, :8] == NEUTRAL).all())


def test_tiles_have_one_pitch_and_stay_in_range():
    x = torch.rand(3, 3, 20, 28, generator=seeded(0)).round()
    tiles = to_tiles(x, 16)
    assert tiles.shape == (3, 3, 16, 16)
    assert float(tiles.min()) >= -1e-5
    assert float(tiles.max()) <= 1 + 1e-5
    assert to_tiles(tiles, 16) is tiles


# ---- wrong boards ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", b.CORRUPTIONS)
@given(grid=GRIDS, seed=st.integers(0, 2**31))
def test_wrong_boards_are_other_permutations(name, grid, seed):
    n = grid[0] * grid[1]
    right = b.right_boards(16, grid, torch.device("cpu"))
    wrong = b.CORRUPTIONS[name](right, grid, seeded(seed))
    assert torch.equal(wrong.sort(1).values, right)
    assert bool(moved(wrong).any(1).all())
    assert torch.equal(wrong, b.CORRUPTIONS[name](right, grid, seeded(seed)))
    count = moved(wrong).sum(1)
    if name == "swap":
        assert bool((count == 2).all())
    elif name == "swaps" and n > 2:
        assert bool(((count >= 3) & (count <= 5)).all())


@given(grid=GRIDS, seed=st.integers(0, 2**31))
def test_a_shift_moves_every_piece_alike(grid, seed):
    wrong = b.shift(b.right_boards(16, grid, torch.device("cpu")), grid, seeded(seed))
    for board in wrong.reshape(-1, *grid).numpy():
        right = np.arange(board.size).reshape(grid)
        rolls = [np.roll(right, k, axis) for axis in (0, 1) for k in (-2, -1, 1, 2)]
        assert any(np.array_equal(board, r) for r in rolls)


@given(grid=GRIDS, seed=st.integers(0, 2**31))
def test_a_line_shift_moves_one_line(grid, seed):
    wrong = b.shift_line(b.right_boards(16, grid, torch.device("cpu")), grid, seeded(seed))
    for board in wrong.reshape(-1, *grid).numpy():
        right = np.arange(board.size).reshape(grid)
        where = board != right
        rows, cols = np.flatnonzero(where.any(1)), np.flatnonzero(where.any(0))
        assert len(rows) == 1 or len(cols) == 1
        line = board[rows[0]] if len(rows) == 1 else board[:, cols[0]]
        true = right[rows[0]] if len(rows) == 1 else right[:, cols[0]]
        assert any(np.array_equal(line, np.roll(true, k)) for k in (-2, -1, 1, 2))


@given(grid=GRIDS, seed=st.integers(0, 2**31))
def test_blocks_change_places_whole(grid, seed):
    wrong = b.exchange_blocks(b.right_boards(16, grid, torch.device("cpu")), grid, seeded(seed))
    cells = np.arange(grid[0] * grid[1])
    for board in wrong.numpy():
        # doing it twice undoes it, and every piece moves by one vector or back by the same
        assert np.array_equal(board[board], cells)
        at = cells[board != cells]
        assert len(at) >= (4 if min(grid) > 1 or max(grid) >= 4 else 2)
        step = np.stack([board[at] // grid[1] - at // grid[1], board[at] % grid[1] - at % grid[1]])
        one = step[:, :1]
        assert bool(((step == one).all(0) | (step == -one).all(0)).all())


def pair_scores(grid, seed: int = 0, puzzles: int = 3):
    """Random evidence that favours the true neighbours."""
    n = grid[0] * grid[1]
    x = torch.randn(2, puzzles, n, n, generator=seeded(seed))
    right = torch.arange(n).reshape(grid)
    x[0, :, right[:, :-1].flatten(), right[:, 1:].flatten()] += 6.0
    x[1, :, right[:-1].flatten(), right[1:].flatten()] += 6.0
    return x[0], x[1]


def test_evidence_of_boards_is_that_of_the_search():
    grid = (3, 4)
    h, v = (b.pair_evidence(p) for p in pair_scores(grid))
    right = b.right_boards(3, grid, torch.device("cpu"))
    boards = torch.stack([right, b.swap(right, grid, seeded(0))], dim=1)
    found = b.board_evidence(h, v, boards, grid)
    for k in range(3):
        evidence = Evidence(h[k].numpy(), v[k].numpy())
        for j in range(2):
            want = evidence.score(boards[k, j].reshape(grid).numpy())
            assert float(found[k, j]) == pytest.approx(want, rel=1e-4)


def test_offsets_of_logits_do_not_matter():
    h, _ = pair_scores((3, 4))
    assert torch.allclose(b.pair_evidence(h), b.pair_evidence(h - 200.0), atol=1e-3)


def test_hard_swaps_score_higher_than_others():
    grid = (5, 5)
    h, v = (b.pair_evidence(p) for p in pair_scores(grid))
    right = b.right_boards(3, grid, torch.device("cpu"))
    hard = b.hard_swaps(right, h, v, grid, 4, seeded(1))
    assert bool((moved(hard.flatten(0, 1)).sum(1) == 2).all())
    for boards in hard:  # four different ones
        assert len(torch.unique(boards, dim=0)) == 4
    plain = torch.stack([b.swap(right, grid, seeded(k)) for k in range(40)], dim=1)
    ours, theirs = (b.board_evidence(h, v, x, grid) for x in (hard, plain))
    assert bool((ours.min(1).values > theirs.mean(1)).all())
    assert bool((ours.max(1).values > theirs.quantile(0.9, dim=1)).all())


@pytest.mark.parametrize("grid", [(1, 2), (2, 1), (2, 2), (5, 5), (3, 7)])
@pytest.mark.parametrize("known", [False, True])
def test_every_puzzle_gets_wrong_boards_of_all_kinds(grid, known):
    pairs = pair_scores(grid, puzzles=2) if known else (None, None)
    wrong = b.wrong_boards(2, grid, *pairs, seeded(3))
    assert wrong.shape == (2, len(b.MIX), grid[0] * grid[1])
    n = grid[0] * grid[1]
    assert torch.equal(wrong.sort(2).values, torch.arange(n).expand_as(wrong))
    if n > 4:
        assert bool(moved(wrong.flatten(0, 1)).any(1).all())


def test_one_piece_cannot_be_wrong():
    with pytest.raises(SherdError, match="one piece"):
        b.wrong_boards(1, (1, 1), None, None, seeded(0))


# ---- losses ------------------------------------------------------------------------------------


def gradients(count: int, grid=(3, 3), pitch: int = 32) -> torch.Tensor:
    """Tiles (count, n, 3, S, S) of pictures whose colours run evenly: any swap shows."""
    h, w = grid[0] * pitch, grid[1] * pitch
    y, x = torch.meshgrid(torch.linspace(0, 1, h), torch.linspace(0, 1, w), indexing="ij")
    mix = torch.rand(count, 3, 2, 1, 1, generator=seeded(5))
    pictures = mix[:, :, 0] * y + mix[:, :, 1] * x  # (count, 3, h, w)
    tiles = pictures.reshape(count, 3, grid[0], pitch, grid[1], pitch).permute(0, 2, 4, 1, 3, 5)
    return tiles.reshape(count, -1, 3, pitch, pitch) / 2.0


def train(steps: int) -> tuple[list[float], Discriminator]:
    net = fresh(seed=2)
    solver = torch.optim.AdamW(net.parameters(), lr=3e-3)
    tiles = gradients(4)
    losses = []
    for k in range(steps):
        loss, _ = b.discriminator_loss(net.train(), tiles, None, None, (3, 3), seeded(k))
        solver.zero_grad()
        loss.backward()
        solver.step()
        losses.append(float(loss.detach()))
    return losses, net


def test_training_lowers_the_loss_and_repeats_bit_for_bit():
    losses, net = train(40)
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:3])
    verdicts = judge(net, gradients(4), None, (3, 3), seeded(9))
    assert verdicts.figures()["beats_swap"] > 0.8
    assert losses[:6] == train(6)[0]


def test_loss_starts_at_chance_and_reports_figures():
    tiles = torch.rand(3, 9, 3, 32, 32, generator=seeded(0), requires_grad=True)
    net = fresh()
    loss, figures = b.discriminator_loss(net, tiles, *pair_scores((3, 3)), (3, 3), seeded(1))
    assert float(figures["choice"]) == pytest.approx(np.log(1 + len(b.MIX)), abs=0.05)
    assert float(loss.detach()) == pytest.approx(
        float(figures["choice"] + b.OFFSET_WEIGHT * figures["offset"])
    )
    assert set(figures) == {"choice", "offset", "top", "swap", "logit"}
    loss.backward()
    assert tiles.grad is None  # the decoder learns nothing from it
    assert net.stem.weight.grad is not None


def test_adversarial_loss_reaches_the_tiles():
    tiles = torch.rand(2, 9, 3, 32, 32, generator=seeded(0), requires_grad=True)
    b.adversarial_loss(fresh().eval(), tiles, (3, 3)).backward()
    assert tiles.grad is not None
    assert float(tiles.grad.abs().sum()) > 0


# ---- evaluation --------------------------------------------------------------------------------


def test_figures_of_verdicts():
    right = torch.tensor([1.0, 3.0])
    wrong = torch.tensor([[0.0, 2.0], [2.5, 3.0]])
    verdicts = Verdicts.join([
        Verdicts(right[:1], {"swap": wrong[:1]}), Verdicts(right[1:], {"swap": wrong[1:]}),
    ])  # fmt: skip
    figures = verdicts.figures()
    # 1 beats one of four; 3 beats three and ties once
    assert figures["auc_swap"] == pytest.approx((1 + 3.5) / 8)
    assert figures["beats_swap"] == pytest.approx((1 + 0 + 1 + 0.5) / 4)
    assert "one swap" in table(verdicts)


def test_temperature_undoes_a_scale():
    gen = seeded(0)
    logits = torch.randn(4000, 5, generator=gen)
    answer = torch.multinomial(logits.softmax(1), 1, generator=gen)
    right = logits.gather(1, answer)
    wrong = logits[torch.arange(5) != answer].reshape(4000, 4)
    for scale in (0.5, 3.0):
        found = Verdicts(scale * right[:, 0], {"swap": scale * wrong}).temperature()
        assert found == pytest.approx(scale, rel=0.12)
