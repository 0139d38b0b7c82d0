"""The training recipe, on pictures that fit into a test."""

from __future__ import annotations

import io
import json
import tarfile
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from sherd.data.cutting import Geometry, cut
from sherd.errors import SherdError
from sherd.perception.mppn.network import MPPN
from sherd.perception.mppn.weights import load_model
from sherd.train.data import Augment, Entry, cut_pieces, draw_batch
from sherd.train.evaluate import CELLS, auc, calibrate, cut_cells, evaluate
from sherd.train.fleet import Fleet
from sherd.train.loop import Clock, learning_rate, load_shards, save_shards
from sherd.train.losses import Grid, _draw_halves, draw_puzzlets, neighbour_loss, score_pairs
from sherd.train.perception import Trainer, main, train
from sherd.train.perception_recipe import MIX, Recipe
from sherd.train.store import load_store
from test_mppn import TINY, tiny_net

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
SMALL = Entry(1.0, (3, 3), (4, 4), (24,), (0,), art=0.5)
RECIPE = Recipe(
    net=TINY, mix=(SMALL,), budget=24.0, most=24, groups=8, hard=3, val_images=1, limit=3,
    log_every=1, workers=1, lr=3e-3, reserve_s=0.0,
    augment=Augment(full=1.0, turn=0.0, colour=0.0, noise=0.0, blur=0.0),
)  # fmt: skip


def picture(seed: int, size: tuple[int, int] = (120, 150)) -> np.ndarray:
    """Smooth random colours: neighbours go on where a piece ends."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (10, 13, 3), dtype=np.uint8)
    return np.array(Image.fromarray(small).resize((size[1], size[0]), Image.Resampling.BICUBIC))


def encoded(image: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for kind, split, first in (("photos", "train", 0), ("art5", "train", 4), ("photos", "val", 8)):
        (root / kind).mkdir(exist_ok=True)
        with tarfile.open(root / kind / f"{split}-0.tar", "w") as pack:
            for k in range(3):
                blob = encoded(picture(first + k))
                info = tarfile.TarInfo(f"some/{k}.png")
                info.size = len(blob)
                pack.addfile(info, io.BytesIO(blob))
    for part in ("val", "test"):
        folder = root / "art5" / part / "paintings"
        folder.mkdir(parents=True)
        (folder / "1.png").write_bytes(encoded(picture(20, (200, 200))))
    return root


def run(data, out, steps=3, total=3, recipe=RECIPE, resume=None):
    clock = Clock(1.0, 60.0, total_steps=total, run_steps=steps)
    return train(data, out, recipe, clock, device=CPU, resume=resume)


@pytest.fixture(autouse=True)
def _two_cells(monkeypatch):
    """Two small validation cells instead of the six real ones."""
    cells = (
        replace(CELLS[0], grid=(3, 4), piece=24),
        replace(CELLS[-1], grid=(3, 3), piece=24, gap=4, jitter=1),
    )
    monkeypatch.setattr("sherd.train.perception.CELLS", cells)


def test_data_is_found_and_test_is_not(data):
    assert {k: len(v) for k, v in load_store(data, "train", CPU).images.items()} == {
        "photos": 3,
        "art5": 3,
    }
    val = load_store(data, "val", CPU)
    assert {k: len(v) for k, v in val.images.items()} == {"photos": 3, "art5": 1}
    only = load_store(data / "photos", "train", CPU, limit=2)
    assert {k: len(v) for k, v in only.images.items()} == {"photos": 2, "art5": 0}
    assert only.images["photos"][0].dtype == torch.uint8


@pytest.mark.parametrize("jitter", [0, 2])
@pytest.mark.parametrize("erode", ["between", "side"])
def test_device_cutter_is_the_cutter(jitter, erode):
    geometry = Geometry((3, 4), (24, 20), 3, erode, jitter)
    image = picture(1, geometry.size)
    want = cut(image, geometry, rng=np.random.default_rng(5)).puzzle.pieces
    x = torch.from_numpy(image).permute(2, 0, 1)[None].float()
    got = cut_pieces(x, geometry, np.random.default_rng(5))
    assert np.array_equal(got.permute(0, 2, 3, 1).numpy(), want.astype(np.float32))


def test_batches_of_the_whole_mix(data):
    store = load_store(data, "train", CPU)
    for k, entry in enumerate(MIX):
        rng = np.random.default_rng(k)
        noise = torch.Generator().manual_seed(0)
        batch = draw_batch(store, [entry], Augment(turn=0.5), 30.0, 200, rng, noise)
        n = batch.geometry.grid[0] * batch.geometry.grid[1]
        assert batch.pieces.shape == (batch.puzzles * n, 3, *batch.geometry.fragment)
        assert float(batch.pieces.min()) >= 0
        assert float(batch.pieces.max()) <= 1
        assert batch.pieces.std() > 0.02
        assert batch.full.shape == (batch.puzzles,)


def test_grid_targets():
    grid = Grid.of((2, 3), CPU)
    assert grid.after.tolist() == [[1, 2, -1, 4, 5, -1], [3, 4, 5, -1, -1, -1]]
    assert grid.before.tolist() == [[-1, 0, 1, -1, 3, 4], [-1, -1, -1, 0, 1, 2]]
    assert grid.rim.tolist()[0] == [1, 1, 1, 0, 0, 0]
    assert grid.rim.tolist()[3] == [1, 0, 0, 1, 0, 0]
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    other = grid.reordered(order)
    for direction in (0, 1):
        for new, old in enumerate(order.tolist()):
            want = grid.after[direction][old].item()
            got = other.after[direction][new].item()
            assert (got == -1) == (want == -1)
            assert got == -1 or order[got].item() == want
    assert order[other.board].tolist() == list(range(6))


def bases(net, x, puzzles=2):
    n = len(x.pooled) // puzzles
    tokens = net.tokens(x, puzzles)
    return [net.base(x, tokens, torch.randn(puzzles, n, n), d) for d in (0, 1)]


def two_puzzles():
    """A network whose 1×2 head says something, and two puzzles of 3×4 pieces that it sees."""
    net = MPPN(TINY)
    torch.nn.init.normal_(net.pair_1x2.fc3.weight)
    x = net.encode(torch.rand(24, 3, 24, 24), torch.zeros(24))
    return net, x, Grid.of((3, 4), CPU), bases(net, x)[0]


def test_true_pairs_are_always_asked_and_each_counts_once():
    net, x, grid, base = two_puzzles()
    pairs = score_pairs(net, x, base, 0, grid, 3)
    i, j = torch.arange(12).repeat_interleave(12), torch.arange(12).repeat(12)
    rivalry = base.rivalry(torch.zeros_like(i), i, j)
    _, residual = net.pair(x, i, j, 0, rivalry)
    delta = pairs.fused[0] - pairs.base.score[0].detach()
    own = torch.arange(12)[:, None].expand_as(pairs.rows[0])
    asked = torch.zeros(12, 12, dtype=torch.bool)
    asked[own, pairs.rows[0]] = asked[pairs.cols[0], own] = True
    torch.testing.assert_close(delta[asked], residual.view(12, 12)[asked], atol=1e-4, rtol=1e-3)
    for piece, right in enumerate(grid.after[0].tolist()):
        assert right == -1 or asked[piece, right]
    assert asked.sum() < 12 * 12
    more = score_pairs(net, x, base, 0, grid, 3, ranks=(1, 6, 90))
    assert more.rows.shape[2] == pairs.rows.shape[2] + 2  # a rank beyond the puzzle is left out
    torch.testing.assert_close(more.rows[:, :, :4], pairs.rows)
    before = net.siamese.embed[1].weight.grad
    neighbour_loss(pairs.fused, grid, 0).backward()
    assert before is None
    assert net.siamese.embed[1].weight.grad is None  # the residual learns around the siamese score
    assert net.pair_1x2.fc3.weight.grad.abs().sum() > 0


def test_a_constant_that_the_head_adds_to_all_it_is_asked_about_changes_nothing():
    net, x, grid, base = two_puzzles()
    loss = neighbour_loss(score_pairs(net, x, base, 0, grid, 3).fused, grid, 0)
    with torch.no_grad():
        net.pair_1x2.fc3.bias += 5.0
    after = neighbour_loss(score_pairs(net, x, base, 0, grid, 3).fused, grid, 0)
    torch.testing.assert_close(after, loss, atol=1e-4, rtol=1e-4)


def test_near_right_puzzlets():
    net = MPPN(TINY)
    x = net.encode(torch.rand(24, 3, 24, 24), torch.zeros(24))
    grid = Grid.of((3, 4), CPU).reordered(torch.randperm(12))
    pairs = [score_pairs(net, x, base, d, grid, 3) for d, base in enumerate(bases(net, x))]
    q = draw_puzzlets(pairs, grid, 20, torch.Generator().manual_seed(0))
    assert q.shape == (2, 20, 8, 4)
    true = q[:, :, 0].reshape(-1, 4)
    assert torch.equal(grid.after[0][true[:, 0]], true[:, 1])
    assert torch.equal(grid.after[1][true[:, 0]], true[:, 2])
    assert torch.equal(grid.after[1][true[:, 1]], true[:, 3])
    wrong = q[:, :, 1:]
    assert (wrong != q[:, :, :1]).any(-1).all()  # none equals the true one
    assert all(len(set(row)) == 4 for row in q.reshape(-1, 4).tolist())
    assert ((wrong != q[:, :, :1]).sum(-1)[:, :, -2:] == 2).all()  # two pieces exchanged


@pytest.mark.parametrize("shape", [(2, 2), (2, 5), (3, 4)])
def test_puzzlets_of_true_halves(shape):
    grid = Grid.of(shape, CPU).reordered(torch.randperm(shape[0] * shape[1]))
    generator = torch.Generator().manual_seed(0)
    q = _draw_halves(grid, 3, 50, generator).reshape(-1, 4)
    assert all(len(set(row)) == 4 for row in q.tolist())
    a, b, c, d = q.unbind(1)
    beside = (grid.after[1][a] == c) & (grid.after[1][b] == d)
    above = (grid.after[0][a] == b) & (grid.after[0][c] == d)
    assert (beside ^ above).all()  # two true halves, never a true whole
    assert beside.any()
    assert above.any()
    right, left = grid.rim[1].bool(), grid.rim[3].bool()
    assert (beside & right[a] & left[b]).any()  # the picture's rims meet


def test_auc():
    labels = torch.tensor([0.0, 0.0, 1.0, 1.0])
    assert auc(torch.tensor([0.1, 0.4, 0.35, 0.8]), labels) == pytest.approx(0.75)
    assert auc(torch.zeros(4), labels) == pytest.approx(0.5)


def test_schedule_and_clock():
    rates = [learning_rate(p, 1.0, 0.1, 0.01) for p in (0.0, 0.05, 0.1, 0.5, 1.0)]
    assert rates[1] == pytest.approx(0.5)
    assert rates[2] == pytest.approx(1.0)
    assert rates[3] > rates[4] == pytest.approx(0.01)
    clock = Clock(10.0, 5.0, used_s=300.0, started=1.0)
    clock.begin()
    assert clock.progress == pytest.approx(0.5, abs=0.01)  # earlier runs count
    clock.started = clock.trained_from - 301.0
    assert clock.over
    clock.trained_from -= 60.0
    clock.stop()
    assert clock.seconds == clock.seconds == pytest.approx(360.0, abs=1.0)


def test_shards_are_whole(tmp_path):
    tensors = {f"t{k}": torch.full((2**21,), float(k)) for k in range(5)}  # 8 MiB each
    save_shards(tmp_path, "resume", tensors, {"step": 1})
    files = sorted(tmp_path.iterdir())
    assert len(files) == 5
    assert all(f.stat().st_size <= 16 * 2**20 for f in files)
    found, meta = load_shards(tmp_path, "resume")
    assert meta["step"] == 1
    assert all(torch.equal(found[k], v) for k, v in tensors.items())
    other = tmp_path / "other"
    other.mkdir()
    save_shards(other, "resume", tensors, {"step": 2})
    (other / "resume-3.safetensors").replace(tmp_path / "resume-3.safetensors")
    with pytest.raises(SherdError, match="another checkpoint"):
        load_shards(tmp_path, "resume")
    (tmp_path / "resume-3.safetensors").unlink()
    with pytest.raises(SherdError, match=r"resume-3\.safetensors: is missing"):
        load_shards(tmp_path, "resume")


def test_same_seed_same_bits(data, tmp_path):
    before = torch.get_rng_state()
    for name in ("a", "b"):
        run(data, tmp_path / name)
    assert torch.equal(before, torch.get_rng_state())  # nobody else's random state is touched
    a, b = ((tmp_path / n / "mppn.safetensors").read_bytes() for n in ("a", "b"))
    assert a == b
    run(data, tmp_path / "c", recipe=replace(RECIPE, seed=1))
    assert (tmp_path / "c" / "mppn.safetensors").read_bytes() != a


def test_resume_goes_on(data, tmp_path):
    whole = run(data, tmp_path / "whole", steps=6, total=6)
    run(data, tmp_path / "half", steps=3, total=6)
    half = run(data, tmp_path / "half", steps=3, total=6)  # the same command again
    rows = [json.loads(r) for r in (tmp_path / "half" / "metrics.jsonl").read_text().splitlines()]
    steps = [r["step"] for r in rows if r["kind"] == "train"]
    assert steps == [1, 2, 3, 4, 5, 6]
    assert rows[-1]["progress"] == 1.0
    for a, b in zip(whole.net.parameters(), half.net.parameters(), strict=True):
        # the checkpoint holds 16 bits and no first moments: near, not equal
        assert (a - b).abs().max() < 0.03
    assert load_model(tmp_path / "half").card["step"] == 6


def test_resume_with_another_network(data, tmp_path):
    run(data, tmp_path / "a", steps=1)
    with pytest.raises(SherdError, match="resume with the configuration"):
        run(data, tmp_path / "b", recipe=replace(RECIPE, net=replace(TINY, edge=32)),
            resume=tmp_path / "a")  # fmt: skip
    with pytest.raises(SherdError, match="is missing"):
        run(data, tmp_path / "b", resume=tmp_path / "nowhere")


def test_it_learns(data, tmp_path):
    """Sixty steps on three pictures: far better than before, on the same pictures."""
    recipe = replace(RECIPE, mix=(replace(SMALL, art=0.0),), decay=0.9)
    store = load_store(data, "train", CPU)
    cells = cut_cells(store, (replace(CELLS[0], grid=(3, 4), piece=24, gap=0),), 0, CPU, 1)
    first = evaluate(run(data, tmp_path / "a", 1, 60, recipe).shadow, cells, nullcontext())[0]
    last = evaluate(run(data, tmp_path / "b", 60, 60, recipe).shadow, cells, nullcontext())[0]
    assert last.figures["puzzlet"] > first.figures["puzzlet"] + 0.3
    assert last.figures["nll"] < 0.3 * first.figures["nll"]
    assert calibrate([last]).pair < 1.0  # always right: it may be surer than it is


def test_command_line(data, tmp_path, capsys):
    config = tmp_path / "tiny.toml"
    config.write_text(
        "budget = 24\nmost = 24\ngroups = 8\nlimit = 2\nval_images = 1\nworkers = 1\n"
        "[net]\n" + "".join(f"{k} = {v}\n" for k, v in TINY.asdict().items())
        + "[[mix]]\nweight = 1\nrows = [3, 3]\ncols = [3, 4]\npiece = [24]\ngap = [0, 2]\n"
    )  # fmt: skip
    args = ["--data", str(data), "--config", str(config), "--device", "cpu"]
    assert main([*args, "--out", str(tmp_path / "out"), "--steps", "2", "--minutes", "9"]) == 0
    assert "photo-gap2 base=" in capsys.readouterr().out
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "metrics.jsonl",
        "mppn.json",
        "mppn.safetensors",
        "resume-0.safetensors",
    }


def test_bad_runs(tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["--data", str(tmp_path / "no"), "--out", str(out), "--device", "cpu"]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert main(["--data", str(tmp_path), "--out", str(out), "--device", "cpu"]) == 2
    err = capsys.readouterr().err
    assert "holds no train pictures" in err
    assert err.count("\n") == 1
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "train-0.tar").write_bytes(b"no tar")
    assert main(["--data", str(tmp_path), "--out", str(out), "--device", "cpu"]) == 2
    assert "no readable tar" in capsys.readouterr().err
    assert main(["--data", str(tmp_path), "--out", str(out), "--device", "tpu"]) == 2
    assert not out.exists()


def test_a_deeper_head_begins_as_the_one_it_goes_on_from(data, tmp_path):
    store = load_store(data, "train", CPU, limit=1, workers=1)

    def begun(blocks, net):
        recipe = replace(RECIPE, net=replace(TINY, pair_blocks=blocks))
        trainer = Trainer(recipe, store, CPU, tmp_path, lambda _: None, Fleet())
        trainer.begin_with(net)
        return trainer.net.eval()

    old = tiny_net().eval()
    pieces = torch.rand(6, 3, 24, 24)
    at = torch.arange(5)
    with torch.no_grad():
        answers = []
        for net in (old, begun(3, old)):
            x = net.encode(pieces, torch.zeros(6))
            base = net.base(x, net.tokens(x), torch.zeros(1, 6, 6), 0)
            rivalry = base.rivalry(torch.zeros_like(at), at, at + 1)
            answers.append(net.pair(x, at, at + 1, 0, rivalry)[1])
    assert answers[0].abs().max() > 0
    torch.testing.assert_close(answers[1], answers[0])
    for blocks, size in ((1, replace(TINY, pair_blocks=2)), (1, replace(TINY, seam=32))):
        with pytest.raises(SherdError, match="other sizes"):
            begun(blocks, MPPN(size))
