"""Decoder, blend, and the restored picture."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data

from sherd.data.cutting import Geometry, cut, lose_pieces
from sherd.errors import SherdError
from sherd.perception import restore as module
from sherd.perception.mppn.blend import (
    MARGIN,
    PLANES,
    STRIDE,
    Blend,
    Layout,
    bridges,
    lay_out,
    linear_fill,
)  # fmt: skip
from sherd.perception.mppn.config import Calibration
from sherd.perception.mppn.decoder import (
    DecoderConfig,
    DecoderModel,
    Restorer,
    load_decoder,
    save_decoder,
)  # fmt: skip
from sherd.perception.mppn.weights import Model
from sherd.perception.restore import recover, restore
from sherd.puzzle import EMPTY, Puzzle
from test_mppn import TINY, tiny_net

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = DecoderConfig(quarter=12, half=8, full=8, blend=(8, 8, 12, 16))
SHA = "0" * 64


def tiny_restorer(seed: int = 0) -> Restorer:
    """Random weights everywhere, also where training starts from zero."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = Restorer(SMALL, TINY)
        with torch.no_grad():
            for p in net.parameters():
                if not p.any():
                    p.normal_(std=0.1)
    return net.eval().requires_grad_(False)


def models() -> tuple[Model, DecoderModel]:
    return (
        Model(tiny_net(), Calibration(), {}, SHA),
        DecoderModel(tiny_restorer(), {}, SHA, "1" * 64),
    )


def photo_cut(grid=(3, 4), piece=(40, 40), gap=4, **more):
    rng = np.random.default_rng(3)
    return cut(np.asarray(data.coffee()), Geometry(grid, piece, gap, **more), rng=rng)


def drawn(puzzle: Puzzle, board: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Canvas and known pixels, by plain loops."""
    (h, w), gap = puzzle.piece_size, puzzle.gap or 0
    m, n = board.shape
    canvas = np.zeros((m * h + (m - 1) * gap, n * w + (n - 1) * gap, 3), np.uint8)
    known = np.zeros(canvas.shape[:2], bool)
    for (r, c), piece in np.ndenumerate(board):
        if piece != EMPTY:
            part = np.s_[r * (h + gap) : r * (h + gap) + h, c * (w + gap) : c * (w + gap) + w]
            canvas[part] = puzzle.pieces[piece]
            known[part] = True if puzzle.mask is None else puzzle.mask[piece]
    return canvas, known


@pytest.mark.parametrize("size", [(24, 24), (28, 30), (33, 47), (64, 64), (96, 96), (128, 100)])
@pytest.mark.parametrize("gap", [0, 1, 4, 7, 12, 48])
def test_every_size_and_gap(size, gap):
    layout = Layout((2, 3), size, gap)
    pieces = torch.rand(6, 3, *size, generator=torch.Generator().manual_seed(0))
    net = tiny_restorer()
    with torch.inference_mode():
        parts = net.recover(tiny_net(), pieces, torch.full((6,), float(gap)), layout.half)
    assert parts.shape == (6, 3, size[0] + 2 * layout.half, size[1] + 2 * layout.half)
    assert parts.min() >= 0
    assert parts.max() <= 1
    assert layout.half == (gap + 1) // 2
    assert lay_out(parts, layout, layout.half).shape == (1, 3, *layout.size)
    with torch.inference_mode():
        again = net.recover(tiny_net(), pieces, torch.full((6,), float(gap)), layout.half)
    assert torch.equal(parts, again)


@pytest.mark.parametrize("size", [(24, 26), (33, 47)])
def test_the_fragment_lies_in_the_middle(size):
    """Before training, what is recovered is the fragment with its edge pixels repeated."""
    net = Restorer(SMALL, TINY)
    pieces = torch.rand(2, 3, *size)
    out = net.recover(tiny_net(), pieces, torch.full((2,), 10.0), 5)
    wanted = torch.nn.functional.pad(pieces, [5] * 4, mode="replicate")
    assert torch.equal(out, wanted)


@pytest.mark.parametrize("gap", [0, 3, 4])
def test_layout_is_the_board(gap):
    puzzle = replace(photo_cut(gap=gap).puzzle, gap=gap)
    layout = Layout((3, 4), puzzle.piece_size, gap)
    pieces = torch.from_numpy(puzzle.pieces).permute(0, 3, 1, 2)
    canvas, _ = drawn(puzzle, puzzle.truth)
    assert np.array_equal(lay_out(pieces, layout)[0].permute(1, 2, 0).numpy(), canvas)
    # recovered fragments that are cut from the whole picture give the whole picture
    image = torch.from_numpy(photo_cut(gap=gap).image).permute(2, 0, 1)
    wide = torch.nn.functional.pad(image.float(), [layout.half] * 4)
    parts = [
        wide[:, y : y + 40 + 2 * layout.half, x : x + 40 + 2 * layout.half]
        for y, x in Geometry((3, 4), (40, 40), gap).corners()
    ]
    whole = lay_out(torch.stack(parts), layout, layout.half)[0]
    assert torch.equal(whole, image.float())
    with pytest.raises(SherdError, match="half of the gap"):
        lay_out(pieces, layout, layout.half + 1)


def test_straight_lines_cross_a_gap():
    layout = Layout((2, 2), (8, 8), 4)
    y, x = np.mgrid[: layout.size[0], : layout.size[1]]
    plane = torch.from_numpy(0.02 * y + 0.03 * x + 0.01).float()[None, None].expand(1, 3, -1, -1)
    known = lay_out(torch.ones(4, 1, 8, 8), layout)
    line, reached = linear_fill(plane * known, known, layout)
    assert reached.all()
    assert torch.allclose(line, plane, atol=1e-6)
    # beside an empty cell the last pixel is repeated, and nothing is made of nothing
    there = torch.tensor([1.0, 0, 0, 0]).view(4, 1, 1, 1)
    known = lay_out(there.expand(4, 1, 8, 8), layout)
    line, reached = linear_fill(plane * known, known, layout)
    assert torch.allclose(line[0, 0, 3, 8:12], plane[0, 0, 3, 7].expand(4))
    assert reached[0, 0, :12, :12].all()
    assert not reached[0, 0, 12:].any()
    lo, hi, t, depth = bridges(2, 8, 4, torch.device("cpu"))
    assert lo[8:12].tolist() == [7] * 4
    assert hi[8:12].tolist() == [12] * 4
    assert t[[7, 12]].tolist() == [0, 0]
    assert depth[7:13].tolist() == [0, 1, 2, 2, 1, 0]


def test_blend_sees_no_farther_than_its_margin():
    """What makes tiles equal to the whole: a pixel MARGIN away changes nothing."""
    blend = tiny_restorer().blend
    full = Blend(DecoderConfig().blend)
    with torch.no_grad():
        for p in full.parameters():
            p.normal_(std=0.1)
    side = 2 * MARGIN + 8 * STRIDE
    x = torch.rand(1, PLANES, 8, side)
    for net in (blend, full):
        with torch.inference_mode():
            before = net.residual(x)
            y = x.clone()
            y[..., 0] += 1.0
            moved = (net.residual(y) - before).abs().amax((0, 1, 2)) > 0
        reach = int(moved.nonzero().max())
        assert 16 < reach <= MARGIN


@pytest.mark.parametrize("tile", [40, 64, 96])
def test_tiles_are_the_whole(tile):
    layout = Layout((4, 5), (48, 48), 6)
    pieces = torch.rand(20, 3, 48, 48)
    known = lay_out(torch.ones(20, 1, 48, 48), layout)
    laid = torch.rand(1, 3, *layout.size)
    args = (lay_out(pieces, layout), known, laid, torch.ones_like(known), layout)
    with torch.inference_mode():
        blend = tiny_restorer().blend
        whole, parts = blend(*args), blend(*args, tile=tile)
    # sums of a convolution may be taken in another order: not bit for bit
    assert (whole - parts).abs().max() < 1e-5
    assert (whole - linear_fill(args[0], known, layout)[0]).abs().max() > 0.01


@pytest.mark.parametrize(
    ("piece", "gap"),
    [((40, 40), 4), ((24, 30), 7), ((16, 16), 3), ((150, 140), 10), ((60, 60), 60)],
)
def test_known_pixels_stay(piece, gap):
    puzzle = photo_cut((2, 3), piece, gap).puzzle.shuffled(np.random.default_rng(0))
    picture = restore(puzzle, puzzle.truth, *models(), threads=1)
    canvas, known = drawn(puzzle, puzzle.truth)
    assert picture.shape == canvas.shape
    assert picture.dtype == np.uint8
    assert np.array_equal(picture[known], canvas[known])
    assert np.array_equal(picture, restore(puzzle, puzzle.truth, *models(), threads=1))
    assert picture[~known].std() > 0


def test_large_pictures_in_tiles(monkeypatch):
    puzzle = photo_cut((3, 4), (48, 48), 5).puzzle
    whole = restore(puzzle, puzzle.truth, *models(), threads=1)
    monkeypatch.setattr(module, "TILE", 80)
    tiled = restore(puzzle, puzzle.truth, *models(), threads=1)
    assert np.abs(whole.astype(int) - tiled).max() <= 1  # a rounding apart


def test_without_gap_nothing_is_filled():
    puzzle = photo_cut(gap=0).puzzle
    for gap in (0, None):
        assert np.array_equal(
            restore(replace(puzzle, gap=gap), puzzle.truth), photo_cut(gap=0).image
        )


def test_empty_cells():
    whole = photo_cut(gap=6).puzzle
    puzzle = lose_pieces(whole, 3, np.random.default_rng(1))
    canvas, known = drawn(puzzle, puzzle.truth)
    under = np.full(canvas.shape, 7, np.uint8)
    picture = restore(puzzle, puzzle.truth, *models(), under=under, threads=1)
    assert np.array_equal(picture[known], canvas[known])
    r, c = np.argwhere(puzzle.truth == EMPTY)[0]
    assert (picture[r * 46 : r * 46 + 40, c * 46 : c * 46 + 40] == 7).all()
    grey = restore(puzzle, puzzle.truth, *models(), threads=1)
    assert (grey[r * 46 : r * 46 + 40, c * 46 : c * 46 + 40] == module.NEUTRAL).all()
    nothing = restore(puzzle, np.full((2, 2), EMPTY), *models(), threads=1)
    assert (nothing == module.NEUTRAL).all()
    with pytest.raises(SherdError, match="under: is uint8"):
        restore(puzzle, puzzle.truth, *models(), under=under[1:], threads=1)


def test_holes_are_filled_too():
    puzzle = photo_cut(gap=4).puzzle
    mask = np.ones(puzzle.pieces.shape[:3], bool)
    mask[2, :20, :30] = False
    pieces = np.where(mask[..., None], puzzle.pieces, 0).astype(np.uint8)
    holed = replace(puzzle, pieces=pieces, mask=mask)
    under = np.full((128, 172, 3), 1, np.uint8)
    picture = restore(holed, puzzle.truth, *models(), under=under, threads=1)
    canvas, known = drawn(holed, puzzle.truth)
    assert np.array_equal(picture[known], canvas[known])
    hole = picture[:20, 88:118].astype(int)
    assert np.abs(hole - puzzle.pieces[2, :20, :30].mean((0, 1))).mean() < 80
    assert not (hole == 1).all()


def test_pieces_of_any_size_are_recovered():
    for piece in ((16, 16), (40, 40), (300, 200)):
        puzzle = photo_cut((1, 2), piece, 6).puzzle
        parts = recover(puzzle, *models())
        assert parts.shape == (2, 3, piece[0] + 6, piece[1] + 6)


def test_weights_round_trip(tmp_path):
    net = tiny_restorer()
    save_decoder(tmp_path / "decoder", net, SHA, TINY, {"step": 3})
    for path in (tmp_path, tmp_path / "decoder", tmp_path / "decoder.json"):
        found = load_decoder(path)
        assert (found.mppn, found.card["step"], found.net.cfg) == (SHA, 3, SMALL)
        for a, b in zip(found.net.parameters(), net.parameters(), strict=True):
            assert torch.equal(a, b.half().float())
    total = sum(p.numel() for p in Restorer().parameters())
    assert total <= 1.5e6


def test_weights_that_do_not_fit(tmp_path):
    puzzle = photo_cut().puzzle
    model, decoder = models()
    with pytest.raises(SherdError, match="trained on the features of MPPN"):
        restore(puzzle, puzzle.truth, model, replace(decoder, mppn="f" * 64))
    with pytest.raises(SherdError, match=r"decoder\.json: is missing"):
        load_decoder(tmp_path)
    save_decoder(tmp_path / "decoder", decoder.net, SHA, TINY, {})
    path = tmp_path / "decoder.safetensors"
    blob = bytearray(path.read_bytes())
    blob[-3] ^= 1
    path.write_bytes(blob)
    with pytest.raises(SherdError, match="is damaged"):
        load_decoder(tmp_path)
    about = json.loads((tmp_path / "decoder.json").read_text())
    (tmp_path / "decoder.json").write_text(json.dumps({**about, "kind": "sherd-mppn"}))
    with pytest.raises(SherdError, match="expected kind 'sherd-decoder'"):
        load_decoder(tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [({"blend": (1, 2)}, "four numbers"), ({"quarter": 0}, "quarter: 0"), ({"half": 1.5}, "half")],
)
def test_bad_sizes(values, message):
    with pytest.raises(SherdError, match=message):
        DecoderConfig(**values)
    with pytest.raises(SherdError, match="layout"):
        Layout((0, 2), (8, 8), 2)


def test_command_line(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from sherd.cli.main import app

    model, decoder = models()
    monkeypatch.setattr(module, "shipped_model", lambda: model)
    monkeypatch.setattr(module, "shipped_decoder", lambda: decoder)
    image = tmp_path / "coffee.png"
    Image.fromarray(np.asarray(data.coffee())).save(image)
    run = CliRunner().invoke
    made = run(app, ["create", str(image), str(tmp_path / "p"), "--grid", "2x3", "--gap", "4"])
    assert made.exit_code == 0, made.output
    args = ["solve", str(tmp_path / "p"), "--system", "greedy", "--restore"]
    solved = run(app, args)
    assert solved.exit_code == 0, solved.output
    out = tmp_path / "p-solved"
    made = ["assembled.png", "layout.csv", "restored.png", "result.json"]
    assert sorted(p.name for p in out.iterdir()) == made
    whole, open_ = (np.asarray(Image.open(out / f)) for f in ("restored.png", "assembled.png"))
    assert whole.shape == open_.shape
    changed = (whole != open_).any(-1)
    assert 0 < changed.mean() < 0.2  # the gaps and nothing else
    assert changed.any(0).sum() == changed.shape[1]

    def missing() -> None:
        raise SherdError("decoder.json: is missing")

    monkeypatch.setattr(module, "shipped_decoder", missing)
    failed = run(app, [*args, "--out", str(tmp_path / "other")])
    assert isinstance(failed.exception, SherdError) or failed.exit_code == 2
    assert not (tmp_path / "other").exists()
