"""What the network is told beside its features: levels along an edge, seams, rivals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skimage.color import rgb2lab

from sherd.perception import classical
from sherd.perception.mppn.levels import LEVELS, edge_levels
from sherd.perception.mppn.network import NEVER
from sherd.perception.mppn.seams import WORST, against_rivals, rgb_to_lab, seam_logits
from sherd.perception.neural import _candidates
from sherd.puzzle import Puzzle
from test_mppn import tiny_net


def test_lab_is_scikit_images():
    rgb = np.random.default_rng(0).random((50, 40, 3)).astype(np.float32)
    rgb[0] = 0.0
    rgb[1] = 1.0
    got = rgb_to_lab(torch.from_numpy(rgb)).numpy()
    np.testing.assert_allclose(got, rgb2lab(rgb), atol=2e-3)


@pytest.mark.parametrize("gap", [0, 3, 12, None])
def test_seams_on_any_device_are_the_seams_of_the_classical_systems(gap):
    rng = np.random.default_rng(1)
    pieces = rng.integers(0, 256, (2, 6, 24, 30, 3), dtype=np.uint8)
    pieces[1, :3] = 200  # plain pieces, alike to the last bit
    tensor = torch.from_numpy(pieces).permute(0, 1, 4, 2, 3) / 255.0
    got = seam_logits(tensor, [gap, gap])
    for b in (0, 1):
        want = classical.seam_logits(Puzzle(pieces[b], gap=gap))
        for d in (0, 1):
            np.testing.assert_allclose(got[d][b].numpy(), want[d], rtol=1e-3, atol=0.05)


def test_seams_against_rivals():
    logits = torch.tensor([[9.0, -3.0, -5.0], [-4.0, 9.0, -90.0], [-6.0, -2.0, 9.0]])
    r = against_rivals(logits)
    assert r.diagonal().tolist() == [0.0, 0.0, 0.0]  # a piece beside itself is no rival
    assert r[1, 0] == 0.0  # best of its row and of its column
    assert r[0, 1] == pytest.approx(-0.5)  # best of its row, 1 behind in its column
    assert r[1, 2] == WORST


def test_a_tenth_of_a_grey_level_is_seen_in_bf16():
    """Two plain sides that bf16 intensities cannot tell apart."""
    a = torch.full((1, 8, 16, 3), 200.0 / 255.0)
    b = a + 0.1 / 255.0
    gap = torch.tensor([4.0])
    assert torch.equal(a.bfloat16(), b.bfloat16())
    x, y = (edge_levels(t, gap).bfloat16() for t in (a, b))
    assert x.shape == (1, 2, LEVELS)
    assert (x.float() - y.float()).abs().max() > 0.1


def test_levels_continue_a_slope_into_the_gap():
    """A ramp meets a ramp: continued to the middle of the gap, both sides say the same."""
    ramp = torch.arange(0.0, 40.0)[None, None, :, None].expand(1, 8, 40, 3) / 255.0
    left, right = ramp[:, :, :16].flip(2), ramp[:, :, 24:]  # 8 px are missing between them
    gap = torch.tensor([8.0])
    x, y = edge_levels(left, gap), edge_levels(right, gap)
    waves = (LEVELS - 4) // 9
    ahead = [k * 9 + c for k in range(waves) for c in (6, 7, 8)]
    near = [k * 9 + c for k in range(waves) for c in (0, 1, 2)]
    torch.testing.assert_close(x[..., ahead], y[..., ahead], atol=2e-3, rtol=0)
    assert (x[..., near] - y[..., near]).abs().max() > 0.5
    assert (x[..., -4] + y[..., -4]).abs().max() < 1e-4  # slopes are outward


def test_a_plain_side_gets_more_candidates():
    score = torch.full((30, 30), -50.0)
    score[0] = 0.0  # anything may be beside piece 0
    score[5, 6] = 100.0
    score.fill_diagonal_(NEVER)
    keys = _candidates(score, 12)
    rows = np.bincount(keys // 30, minlength=30)
    assert rows[0] == 29  # each column's best is piece 0
    few = _candidates(score[1:, 1:], 12)
    assert np.bincount(few // 29, minlength=29)[4] >= 5
    assert len(_candidates(score, 29)) == 30 * 29


def test_rivalry():
    net = tiny_net()
    x = net.encode(torch.rand(4, 3, 24, 24), torch.full((4,), 2.0))
    base = net.base(x, net.tokens(x), torch.randn(1, 4, 4), 0)
    i, j = torch.tensor([0, 1, 2]), torch.tensor([1, 3, 0])
    r = base.rivalry(torch.zeros_like(i), i, j)
    s = base.score[0]
    torch.testing.assert_close(r[:, 1], s[i, j] - s[i].amax(1))
    torch.testing.assert_close(r[:, 2], s[i, j] - s[:, j].amax(0))
    assert (r <= 0).all()
