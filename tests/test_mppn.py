"""The perception network and the evidence it gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sherd.errors import SherdError
from sherd.perception import classical
from sherd.perception.evidence import from_logits
from sherd.perception.mppn.config import Calibration, NetConfig
from sherd.perception.mppn.encoder import SwinLayer, _axis, _window_mask, pad_pieces
from sherd.perception.mppn.heads import _strip
from sherd.perception.mppn.network import MPPN
from sherd.perception.mppn.weights import Model, shipped_model
from sherd.perception.neural import PairScores, encode, perceive
from sherd.puzzle import EMPTY, Puzzle

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = NetConfig(
    stem=8, fine=12, width=32, head_dim=16, pairs_fine=1, pairs_deep=1, gap_dim=16, edge=24,
    embed=8, pair=24, pair_blocks=1, seam=16, corner=8, context=32, context_layers=1,
)  # fmt: skip


def tiny_net(seed: int = 0) -> MPPN:
    """A small network with random weights everywhere, also where training starts from zero."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = MPPN(TINY)
        with torch.no_grad():
            for p in net.parameters():
                if p.ndim > 1 and not p.any():
                    p.normal_(std=0.1)
            for layer in net.modules():
                if isinstance(layer, SwinLayer):
                    layer.bias.normal_()
    return net.eval().requires_grad_(False)


def model(**calibration: float) -> Model:
    return Model(tiny_net(), Calibration(**calibration), {}, "0" * 64)


def puzzle(n: int = 12, size: tuple[int, int] = (28, 28), **more: object) -> Puzzle:
    rng = np.random.default_rng(n)
    pieces = rng.integers(0, 256, (n, *size, 3), dtype=np.uint8)
    return Puzzle(pieces, gap=more.pop("gap", 2), **more)


@pytest.mark.parametrize("size", [(24, 24), (28, 60), (30, 50), (64, 64), (96, 96), (128, 33)])
def test_every_piece_size_and_gap(size):
    net = tiny_net()
    x = torch.rand(2, 3, *size)
    f = net.encode(x, torch.tensor([-1.0, 48.0]))
    assert f.embeddings[0].shape[1] == -(-size[1] // 4) * TINY.embed
    assert f.embeddings[1].shape[1] == -(-size[0] // 4) * TINY.embed
    tokens = net.tokens(f)
    assert torch.isfinite(net.base(f, tokens, torch.randn(1, 2, 2), 0).score).all()
    assert torch.isfinite(net.border_logits(f, tokens)).all()


def test_batch_does_not_change_a_piece():
    net, x = tiny_net(), torch.rand(5, 3, 28, 28)
    gap = torch.full((5,), 3.0)
    together, alone = net.encode(x, gap), net.encode(x[2:3], gap[:1])
    for side in range(4):
        torch.testing.assert_close(together.embeddings[side][2:3], alone.embeddings[side])


def test_gap_matters():
    net, x = tiny_net(), torch.rand(1, 3, 28, 28)
    a, b, c = (net.encode(x, torch.tensor([g])).embeddings[0] for g in (-1.0, 2.0, 12.0))
    assert not torch.allclose(a, b)
    assert not torch.allclose(b, c)


def test_edge_strips_are_the_outermost_cells():
    m = torch.arange(6 * 8.0).reshape(1, 6, 8, 1)
    top, right, bottom, left = (_strip(m, side, 2, 2) for side in range(4))
    assert top.shape == (1, 4, 4)
    assert set(top[0, 0].tolist()) == {0, 1, 8, 9}
    assert right.shape == (1, 3, 4)
    assert set(right[0, 0].tolist()) == {6, 7, 14, 15}
    assert set(bottom[0, -1].tolist()) == {38, 39, 46, 47}
    assert set(left[0, -1].tolist()) == {32, 33, 40, 41}


def test_edge_tokens_see_their_own_side_most():
    """A change at the right rim reaches the right tokens' raw pixels, also in padded pieces."""
    net = tiny_net()
    x = torch.rand(1, 3, 30, 30)
    y = x.clone()
    y[:, :, 12, -1] = 1.0 - y[:, :, 12, -1]
    gap = torch.tensor([0.0])
    change = [
        float((a - b).abs().mean())
        for a, b in zip(net.encode(x, gap).embeddings, net.encode(y, gap).embeddings, strict=True)
    ]
    assert int(np.argmax(change)) == 1


@pytest.mark.parametrize("size", [(7, 7), (15, 16), (12, 20), (24, 24)])
@pytest.mark.parametrize("shifted", [False, True])
def test_fused_and_plain_attention_agree(size, shifted):
    layer = SwinLayer(32, TINY, shifted)
    torch.nn.init.normal_(layer.bias)
    x = torch.randn(3, *size, 32)
    with torch.no_grad():
        fused = layer(x)
    torch.testing.assert_close(layer(x).detach(), fused, atol=2e-5, rtol=1e-4)


def test_window_masks():
    assert _window_mask(16, 16, 8, False, torch.device("cpu")) is None
    assert _axis(7, 8, True) == (7, 7, 0)  # one window: nothing to shift
    assert _axis(12, 8, True) == (12, 6, 3)
    assert _axis(15, 8, False) == (16, 8, 0)
    mask = _window_mask(15, 15, 8, False, torch.device("cpu"))
    assert (mask[0] == 0).all()  # the first window holds no padding
    assert (mask[1, 0, :, 7] < 0).all()  # nobody sees the padded column of the second
    shifted = _window_mask(16, 8, 8, True, torch.device("cpu"))
    assert shifted[0].eq(0).all()
    assert shifted[1, 0, 0, -1] < 0  # cells from opposite ends of the piece


def test_far_cells_do_not_leak_through_the_shift():
    layer = SwinLayer(32, TINY, True)
    x = torch.randn(1, 16, 8, 32)
    y = x.clone()
    y[:, 15] += 1.0
    with torch.no_grad():
        same = (layer(x) == layer(y)).all(-1)[0]
    assert same[:4].all()  # rolled into the same window as row 15, but masked
    assert not same[15].any()


def test_padding_repeats_the_rim():
    x = torch.rand(1, 3, 30, 28)
    p = pad_pieces(x)
    assert p.shape[-2:] == (32, 28)
    assert torch.equal(p[:, :, 0], x[:, :, 0])
    assert torch.equal(p[:, :, -1], x[:, :, -1])


def test_evidence_is_whole_and_repeatable():
    p = puzzle(12, grid=(3, 4))
    a, b = perceive(p, model(), threads=1), perceive(p, model(), threads=1)
    assert a.h.tobytes() == b.h.tobytes()
    assert a.border is not None
    assert b.border is not None
    assert a.border.tobytes() == b.border.tobytes()
    q = np.array([[0, 1, 2, 3], [4, 5, 6, 7]])
    assert a.puzzlet(q).tobytes() == b.puzzlet(q).tobytes()
    assert a.source.startswith("mppn-")


def test_cascade_with_all_candidates_is_the_full_head():
    p, m = puzzle(9), model()
    few = perceive(p, m, candidates=2, looks=1, threads=1)
    full = perceive(p, m, candidates=8, looks=1, threads=1)
    x = encode(p, m)
    net = m.net
    scores = []
    i, j = (t.flatten() for t in torch.meshgrid(torch.arange(9), torch.arange(9), indexing="ij"))
    seams = torch.from_numpy(classical.seam_logits(p))
    for d in (0, 1):
        base = net.base(x, net.tokens(x), seams[d, None], d)
        _, residual = net.pair(x, i, j, d, base.rivalry(torch.zeros_like(i), i, j))
        scores.append((base.score[0] + residual.view(9, 9)).numpy())
    want = from_logits(*scores)
    np.testing.assert_allclose(full.h, want.h, atol=1e-4)
    np.testing.assert_allclose(full.v, want.v, atol=1e-4)
    assert np.abs(few.h - want.h).max() > 1e-3  # the heads say something of their own


def test_a_pair_is_not_worse_for_not_being_asked_about():
    # 30 pieces of plain sky that nobody can tell apart; the heads see 8 candidates of a side
    rng = np.random.default_rng(3)
    sky = np.full((30, 28, 28, 3), (120, 150, 200), np.uint8)
    p = Puzzle(np.concatenate([sky, rng.integers(0, 256, (10, 28, 28, 3), dtype=np.uint8)]), gap=2)
    evidence = perceive(p, shipped_model(), candidates=8, threads=1)
    alike = evidence.h[:30, :30][~np.eye(30, dtype=bool)]
    assert np.ptp(alike) < 1.0


def test_evidence_follows_the_pieces():
    p, m = puzzle(10), model()
    order = np.random.default_rng(1).permutation(10)
    a, b = perceive(p, m, threads=1).reordered(order), perceive(p.reordered(order), m, threads=1)
    np.testing.assert_allclose(a.h, b.h, atol=1e-4)
    np.testing.assert_allclose(a.border, b.border, atol=1e-4)
    q = np.array([[0, 5, 2, 7], [1, EMPTY, 3, 4]])
    np.testing.assert_allclose(a.puzzlet(q), b.puzzlet(q), atol=1e-4)


def test_a_mirrored_puzzle_is_the_same_puzzle(monkeypatch):
    # the seam features slip along one of the two sides only, so that they are not quite symmetric
    nothing = np.zeros((2, 9, 9), dtype=np.float32)
    monkeypatch.setattr("sherd.perception.neural.seam_logits", lambda _: nothing)
    p, m = puzzle(9), model()
    other = Puzzle(np.ascontiguousarray(p.pieces[:, :, ::-1]), gap=p.gap)
    a, b = perceive(p, m, threads=1), perceive(other, m, threads=1)
    np.testing.assert_allclose(a.h, b.h.T, atol=1e-4)
    np.testing.assert_allclose(a.v, b.v, atol=1e-4)
    np.testing.assert_allclose(a.border, b.border[[0, 3, 2, 1]], atol=1e-4)
    once = perceive(p, m, looks=1, threads=1)
    assert np.abs(once.h - a.h).max() > 1e-3


def test_temperature_softens():
    p = puzzle(10)
    sharp, soft = perceive(p, model(), threads=1), perceive(p, model(pair=4.0), threads=1)
    assert soft.h.max() < sharp.h.max()
    sloped = model(pair=1.0, pair_slope=0.5)
    assert sloped.calibration.pair_temperature(4) == pytest.approx(1.0)
    assert sloped.calibration.pair_temperature(12) > 1.0 > sloped.calibration.pair_temperature(1)
    assert sloped.calibration.pair_temperature(None) == 1.0


def test_border_prior_comes_from_the_grid():
    m = model()
    wide = perceive(puzzle(12, grid=(2, 6)), m, threads=1).border
    tall = perceive(puzzle(12, grid=(6, 2)), m, threads=1).border
    line = perceive(puzzle(12, grid=(1, 12)), m, threads=1).border
    # half of the pieces lie at the top of two rows, a sixth at the top of six
    np.testing.assert_allclose(tall[0] - wide[0], np.log(5.0), atol=0.1)
    np.testing.assert_allclose(tall[1] - wide[1], -np.log(5.0), atol=0.1)
    assert (line[[0, 2]] == 0).all()


def test_puzzlets_of_any_pairs_and_empty_cells():
    m = model()
    evidence = perceive(puzzle(11), m, candidates=1, threads=1)
    rng = np.random.default_rng(0)
    q = np.stack([rng.permutation(11)[:4] for _ in range(40)])
    together = evidence.puzzlet(q)
    assert together.std() > 1e-4
    alone = np.array([evidence.puzzlet(row[None])[0] for row in q])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    q[3, 2] = EMPTY
    assert evidence.puzzlet(q)[3] == 0
    np.testing.assert_allclose(np.delete(evidence.puzzlet(q), 3), np.delete(together, 3), atol=1e-5)


def test_seam_cache_stays_bounded(monkeypatch):
    monkeypatch.setattr("sherd.perception.neural.CACHED_SEAMS", 5)
    m = model()
    with torch.inference_mode():
        x = encode(puzzle(10), m)
        base = m.net.base(x, m.net.tokens(x), torch.randn(1, 10, 10), 0)
        scores = PairScores(m, x, base, 0, 1)
        few = len(scores._keys)
        a, _ = scores.seams(np.array([0, 1, 2]), np.array([5, 6, 7]))
        for i in range(9):
            scores.seams(np.array([i, i + 1]), np.array([i + 1, i]))
        assert len(scores._keys) <= few + 5
        b, _ = scores.seams(np.array([0, 1, 2]), np.array([5, 6, 7]))
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("size", [(12, 12), (200, 160), (8, 140)])
def test_odd_sizes_are_rescaled(size):
    evidence = perceive(puzzle(4, size), model(), threads=1)
    assert np.isfinite(evidence.h).all()


def test_masked_pixels_are_not_seen():
    p = puzzle(5)
    mask = np.ones(p.pieces.shape[:3], dtype=bool)
    mask[:, :9, :9] = False
    other = p.pieces.copy()
    other[:, :9, :9] = 77
    a = perceive(Puzzle(p.pieces, gap=2, mask=mask), model(), threads=1)
    b = perceive(Puzzle(other, gap=2, mask=mask), model(), threads=1)
    assert np.array_equal(a.h, b.h)


def test_one_piece_and_bad_arguments():
    evidence = perceive(puzzle(1), model())
    assert evidence.h.shape == (1, 1)
    with pytest.raises(SherdError, match="candidates"):
        perceive(puzzle(3), model(), candidates=0)


def test_config_checks():
    with pytest.raises(SherdError, match="head_dim"):
        NetConfig(width=96, head_dim=40)
    with pytest.raises(SherdError, match="width"):
        NetConfig(width=0)
    with pytest.raises(SherdError, match="unknown key 'wdth'"):
        NetConfig.from_dict({"wdth": 3}, "x.json")
    with pytest.raises(SherdError, match="positive"):
        Calibration(border=0.0)


def test_shipped_size():
    net = MPPN()
    assert sum(p.numel() for p in net.parameters()) < 5.5e6
