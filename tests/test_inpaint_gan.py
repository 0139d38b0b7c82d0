"""Inpaint-GAN: its networks, its lessons, and the greedy placer on its scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skimage import data as pictures
from torch import Tensor, nn

from rival_cases import check_result, numbered, odd_puzzles, picture
from sherd import Geometry, SherdError, cut
from sherd.perception.rivals import inpaint_gan as nets
from sherd.perception.rivals.inpaint_gan import (
    InpaintConfig,
    InpaintGan,
    load_inpaint_gan,
    strip_width,
)
from sherd.perception.rivals.inpaint_pairs import all_pairs, pair_logits, score_pairs
from sherd.perception.rivals.pixels import to_squares
from sherd.perception.rivals.weights import LIMIT, save_rival
from sherd.solvers import MaxRounds
from sherd.solvers.inpaint_gan import InpaintGan as Solver
from sherd.train.gaps import cut_boards
from sherd.train.inpaint_gan import InpaintRecipe, Pairs, true_pairs, true_strips, wrong_seconds

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = InpaintConfig(generator=4, discriminator=4, hidden=8)


def tiny(seed: int = 0) -> InpaintGan:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return InpaintGan(TINY).eval()


def test_the_shipped_size_is_small_enough() -> None:
    net = InpaintGan(InpaintConfig())
    assert 2 * sum(t.numel() for t in net.state_dict().values()) < LIMIT


@pytest.mark.parametrize(
    ("missing", "side", "columns"),
    [(0, 64, 0), (2, 64, 2), (4, 64, 4), (8, 64, 8), (8, 56, 10), (12, 96, 8), (48, 96, 16),
     (None, 64, 4), (None, 96, 4), (3, 1, 16)],
)  # fmt: skip
def test_the_strip_is_scaled_with_the_piece(missing: int | None, side: int, columns: int) -> None:
    assert strip_width(missing, side) == columns


@pytest.mark.parametrize("strip", [0, 2, 8, 16])
@pytest.mark.parametrize("vertical", [False, True])
def test_a_pair_image_is_two_ends_and_what_is_between(strip: int, vertical: bool) -> None:
    net, squares = tiny(), torch.rand(3, 3, 64, 64)
    last, first = net.ends(squares, strip, vertical)
    c = (32 - strip) // 2
    if vertical:
        assert torch.equal(last, squares[:, :, 64 - c :].transpose(2, 3))
        assert torch.equal(first, squares[:, :, :c].transpose(2, 3))
    else:
        assert torch.equal(last, squares[..., 64 - c :])
        assert torch.equal(first, squares[..., :c])
    between = torch.rand(3, 3, 64, strip)
    pair = net.pair(last, between, first, vertical)
    assert pair.shape == (3, 5, 64, 32)
    assert torch.allclose(pair[:, :3] + 0.5, torch.cat([last, between, first], 3))
    assert pair[:, 3].sum() == 3 * 64 * strip
    assert (pair[:, 3, :, c : c + strip] == 1).all()
    assert (pair[:, 4] == float(vertical)).all()
    made = net.inpaint(last, first, vertical)
    assert made.shape == between.shape
    assert ((made >= 0) & (made <= 1)).all()


def test_the_generator_matters_where_there_is_a_gap_only() -> None:
    net, squares = tiny(), torch.rand(4, 3, 64, 64)
    with torch.no_grad():
        before = [all_pairs(net, squares, strip) for strip in (0, 4)]
        net.generator.out.bias += 1.0
        after = [all_pairs(net, squares, strip) for strip in (0, 4)]
    assert torch.equal(before[0], after[0])
    assert not torch.equal(before[1], after[1])


@pytest.mark.parametrize("chunk", [1, 5, 100])
def test_all_pairs_are_each_pair(chunk: int) -> None:
    net, squares = tiny(), torch.rand(4, 3, 64, 64)
    table = all_pairs(net, squares, 4, chunk)
    with torch.no_grad():
        for d in (0, 1):
            last, first = net.ends(squares, 4, bool(d))
            for i, j in ((0, 1), (3, 2)):
                one = net(last[[i]], first[[j]], bool(d))
                assert table[d, i, j] == pytest.approx(float(one), abs=1e-4)


@pytest.mark.parametrize("strip", range(0, 18, 2))
@pytest.mark.parametrize("vertical", [False, True])
def test_what_is_computed_once_per_piece_changes_nothing(strip: int, vertical: bool) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        net, squares = InpaintGan(TINY).eval(), torch.rand(5, 3, 64, 64)
        with torch.no_grad():
            for weight in net.parameters():
                weight *= 2.0 if weight.ndim == 4 else 1.0
            for norm in net.modules():
                if isinstance(norm, nn.BatchNorm2d):
                    norm.weight.uniform_(0.5, 2.0)
                    norm.bias.uniform_(-0.5, 0.5)
                    norm.running_mean.uniform_(-0.5, 0.5)  # type: ignore[union-attr]
                    norm.running_var.uniform_(0.5, 2.0)  # type: ignore[union-attr]
    i, j = torch.cartesian_prod(torch.arange(5), torch.arange(5)).T
    with torch.no_grad():
        last, first = net.ends(squares, strip, vertical)
        want = net(last[i], first[j], vertical)
        got = pair_logits(net, last, first, vertical)(i, j)
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
    assert want.std() > 1e-2  # pairs differ


def test_pieces_of_any_size_are_scored() -> None:
    for h, w in ((1, 1), (10, 14), (64, 64), (96, 80)):
        pieces = np.random.default_rng(0).integers(0, 256, (3, h, w, 3)).astype(np.uint8)
        assert score_pairs(tiny(), pieces, 2).shape == (2, 3, 3)
    x = torch.rand(2, 3, 64, 64)
    assert to_squares(x) is x


def test_weights_come_back(tmp_path) -> None:
    net = tiny(3)
    save_rival(tmp_path / "inpaint_gan", nets.SYSTEM, net, TINY, {"step": 7})
    found = load_inpaint_gan(tmp_path)
    assert found.card["step"] == 7
    for name, tensor in found.net.state_dict().items():
        if tensor.is_floating_point():
            assert torch.allclose(tensor, net.state_dict()[name], atol=1e-3), name


# what is taught


@pytest.mark.parametrize("vertical", [False, True])
@pytest.mark.parametrize("erode", ["between", "side"])
def test_strips_are_what_lay_between(vertical: bool, erode: str) -> None:
    gap = 4 if erode == "between" else 2
    piece = 64 if erode == "between" else 68
    geometry = Geometry((2, 3), (piece, piece), gap, erode)  # type: ignore[arg-type]
    image = torch.from_numpy(picture(0, geometry.size)).permute(2, 0, 1)[None].float() / 255.0
    boards = cut_boards(image, geometry, np.random.default_rng(0))
    generator = torch.Generator().manual_seed(0)
    pairs = true_pairs((2, 3), 1, vertical, 100, generator)
    assert len(pairs.first) == (3 if vertical else 4)
    strips = true_strips(boards, pairs, 4, vertical)
    inset = gap if erode == "side" else 0
    for k, (i, j) in enumerate(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)):
        assert j - i == (3 if vertical else 1)
        y, x = inset + i // 3 * 68, inset + i % 3 * 68
        if vertical:
            wanted = image[0, :, y + 64 : y + 68, x : x + 64].transpose(1, 2)
        else:
            wanted = image[0, :, y : y + 64, x + 64 : x + 68]
        assert torch.equal(strips[k], wanted)


def test_wrong_neighbours_are_wrong_and_mostly_near_in_colour() -> None:
    n, recipe = 12, InpaintRecipe(hard=3)
    rims = torch.arange(n).float()[None, :, None].expand(2, n, 192)  # piece k has colour k
    pairs = Pairs(torch.tensor([0, 1, 1]), torch.tensor([4, 0, 11]), torch.tensor([5, 1, 10]))
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        wrong = wrong_seconds(rims, rims, pairs, n, recipe, generator)
        assert wrong.shape == (3, 3)
        assert (wrong != pairs.second[:, None]).all()
        assert (wrong[:, :2] != pairs.first[:, None]).all()
        assert ((wrong[:, :2] - pairs.first[:, None]).abs() <= 4).all()
        assert (wrong[:, 0] != wrong[:, 1]).all()


# the system


def know_all(monkeypatch: pytest.MonkeyPatch, cols: int) -> None:
    """The neighbours of a numbered puzzle are known from their colours."""

    def all_pairs(net: InpaintGan, squares: Tensor, strip: int) -> Tensor:
        name = (squares[:, 0, 0, 0] * 255).round()
        step = name[None] - name[:, None]
        end = (name % cols == cols - 1)[:, None]
        return 8.0 * torch.stack([(step == 1) & ~end, step == cols]).float() - 4.0

    monkeypatch.setattr("sherd.perception.rivals.inpaint_pairs.all_pairs", all_pairs)


def test_good_scores_make_a_right_board(monkeypatch: pytest.MonkeyPatch) -> None:
    know_all(monkeypatch, 5)
    puzzle = numbered((4, 5))
    result = Solver(net=tiny()).solve(puzzle)
    assert np.array_equal(result.board, puzzle.truth)
    assert result.system == "inpaint-gan"
    assert result.confidence.min() == 1.0


def test_dissimilarity_is_minus_log_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    know_all(monkeypatch, 2)
    puzzle = numbered((2, 2))
    d = Solver(net=tiny()).dissimilarity(puzzle)
    near, far = np.log1p(np.exp(-4.0)), np.log1p(np.exp(4.0))
    assert d.shape == (4, 4, 4)
    assert d[1, 0, 1] == pytest.approx(near)
    assert d[3, 1, 0] == pytest.approx(near)
    assert d[2, 0, 2] == pytest.approx(near)
    assert d[0, 2, 0] == pytest.approx(near)
    assert d[1, 1, 0] == pytest.approx(far)


@pytest.mark.parametrize("puzzle", odd_puzzles((3, 4)))
def test_the_contract_with_any_network(puzzle) -> None:
    one, two = (Solver(net=tiny()).solve(puzzle, seed=4) for _ in range(2))
    check_result(one, puzzle)
    assert np.array_equal(one.board, two.board)
    check_result(Solver(net=tiny()).solve(puzzle, stop=MaxRounds(1)), puzzle)


def test_thin_boards_and_real_fragments() -> None:
    for grid in ((1, 1), (1, 5), (4, 1)):
        puzzle = cut(picture(1), Geometry(grid, (9, 12), 1)).puzzle
        check_result(Solver(net=tiny()).solve(puzzle), puzzle)


def test_without_weights_the_user_is_told(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sherd.perception.rivals.weights.FOLDER", tmp_path)
    with pytest.raises(SherdError, match=r"inpaint_gan\.json: is missing"):
        load_inpaint_gan()


def test_the_shipped_network_knows_neighbours() -> None:
    found = load_inpaint_gan()
    image = np.asarray(pictures.astronaut())
    puzzle = cut(image, Geometry((4, 4), (64, 64), 2)).puzzle
    logits = score_pairs(found.net, puzzle.pieces, 2)
    at = np.arange(16).reshape(4, 4)
    np.einsum("dii->di", logits)[:] = -np.inf
    right = logits[0].argmax(1)[at[:, :-1]] == at[:, 1:]
    below = logits[1].argmax(1)[at[:-1]] == at[1:]
    assert right.mean() + below.mean() > 1.0
    assert found.card["val"]["photo-gap2"]["top1"] > 0.3
