"""Deepzzle: its network, its graph of partial assemblies, its training."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from skimage import data as pictures

from rival_cases import check_result, numbered, odd_puzzles, write_data
from sherd import Geometry, Puzzle, SherdError, cut
from sherd.perception.rivals.deepzzle import (
    CLASSES,
    ELSEWHERE,
    Deepzzle,
    DeepzzleConfig,
    position_log_probabilities,
)
from sherd.perception.rivals.offsets import OFFSETS
from sherd.perception.rivals.weights import LIMIT, load_rival, save_rival
from sherd.puzzle import identity_board
from sherd.solvers import MaxRounds
from sherd.solvers.deepzzle import Assembler, DeepzzleParams, Rings
from sherd.solvers.deepzzle import Deepzzle as Solver
from sherd.solvers.deepzzle_graph import shortest_paths
from sherd.train.data import Augment, Entry
from sherd.train.deepzzle import CELLS, DeepzzleRecipe, TrainDeepzzle, positions
from sherd.train.loop import Clock
from sherd.train.recipe import read_recipe
from sherd.train.rivals import train

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
TINY = DeepzzleConfig(side=32, widths=(4, 4, 6, 6, 8), dense=16, factor=6)
RECIPE = DeepzzleRecipe(
    net=TINY, mix=(Entry(1.0, (3, 3), (3, 4), (24,), (2,), art=0.5),), budget=40.0, most=40,
    parts=2, val_images=1, log_every=1, workers=1, lr=3e-3, reserve_s=0.0,
    augment=Augment(full=1.0, turn=0.0, colour=0.0, noise=0.0, blur=0.0),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _two_cells(monkeypatch):
    cells = tuple(replace(c, grid=(3, 3), piece=24, gap=2, jitter=0) for c in CELLS[1:3])
    monkeypatch.setattr(TrainDeepzzle, "cells", cells)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


def tiny(seed: int = 0) -> Deepzzle:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Deepzzle(TINY).eval().requires_grad_(False)


class Knowing(Solver):
    """Has a network that knows where pieces of `numbered` belong, as surely as ``sure`` says."""

    def __init__(self, grid, sure=6.0, noise=0.0, params=None):
        super().__init__(None, params)
        self.grid, self.sure, self.noise = grid, sure, noise

    def perceive(self, puzzle, *, elsewhere):
        index = puzzle.pieces[:, 0, 0, 0].astype(int)
        target = positions(self.grid, CPU).numpy()[np.ix_(index, index)]
        logits = np.random.default_rng(0).normal(0.0, self.noise, (*target.shape, CLASSES))
        logits += self.sure * (np.arange(CLASSES) == target[..., None])
        if not elsewhere:
            logits = logits[..., :ELSEWHERE]
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        return logits[..., :ELSEWHERE]


# ---------------------------------------------------------------- network


def test_the_network_fits_its_limit_and_says_a_class_per_pair():
    net = Deepzzle(DeepzzleConfig())
    assert 2 * sum(t.numel() for t in net.state_dict().values()) <= LIMIT
    assert tiny()(torch.rand(12, 3, 20, 28), 2).shape == (2, 6, 6, CLASSES)


def test_the_bilinear_form_is_the_layer_on_the_kronecker_product():
    net = tiny()
    a, b = torch.randn(3, 6), torch.randn(5, 6)
    got = net.relate(a, b)
    for i, j in itertools.product(range(3), range(5)):
        want = F.linear(torch.kron(a[i], b[j]), net.out.weight, net.out.bias)
        torch.testing.assert_close(got[i, j], want)


def test_positions_are_counted_from_the_first_piece():
    table = positions((3, 4), CPU).numpy()
    at = np.arange(12).reshape(3, 4)
    for i, j in itertools.product(range(12), range(12)):
        step = tuple(np.argwhere(at == j)[0] - np.argwhere(at == i)[0])
        want = -1 if i == j else OFFSETS.index(step) if step in OFFSETS else ELSEWHERE
        assert table[i, j] == want


def test_probabilities_of_positions():
    puzzle = cut(np.asarray(pictures.coffee()), Geometry((2, 3), (40, 30), 2)).puzzle
    beside = np.exp(position_log_probabilities(tiny(), puzzle, elsewhere=False))
    np.testing.assert_allclose(beside.sum(-1), 1.0, rtol=1e-6)
    with_elsewhere = np.exp(position_log_probabilities(tiny(), puzzle))
    assert (with_elsewhere.sum(-1) < 1.0).all()
    ratio = with_elsewhere / beside
    np.testing.assert_allclose(ratio, ratio[..., :1].repeat(8, -1), rtol=1e-5)


# ---------------------------------------------------------------- shortest path


def random_probabilities(levels: int, fragments: int, seed: int) -> np.ndarray:
    """``(levels, fragments)``, as a network would say: over the positions of every fragment."""
    logits = np.random.default_rng(seed).normal(0.0, 1.5, (levels, fragments))
    p = np.exp(logits)
    return p / p.sum(0)


def brute_force(cost: np.ndarray) -> tuple[float, np.ndarray]:
    """Of all assemblies the cheapest."""
    levels, fragments = cost.shape
    every = np.array(list(itertools.permutations(range(fragments), levels)))
    total = cost[np.arange(levels), every].sum(1)
    return float(total.min()), every[int(total.argmin())]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("levels", "fragments"), [(3, 3), (8, 8), (4, 7)])
def test_without_branch_cut_the_path_is_the_shortest(levels, fragments, seed):
    cost = -np.log(random_probabilities(levels, fragments, seed))
    (path,) = shortest_paths(cost)
    best, chosen = brute_force(cost)
    assert path.cost == pytest.approx(best)
    assert np.array_equal(path.chosen, chosen)


@pytest.mark.parametrize("seed", range(8))
def test_branch_cut_keeps_the_optimum_if_the_threshold_does(seed):
    p = random_probabilities(8, 8, seed)
    best, chosen = brute_force(-np.log(p))
    weakest = p[np.arange(8), chosen].min()
    for cut_at in (0.1 * weakest, 0.999 * weakest, weakest):
        (path,) = shortest_paths(-np.log(p), cut=cut_at)
        assert path.cost == pytest.approx(best)
        assert np.array_equal(path.chosen, chosen)
    for path in shortest_paths(-np.log(p), cut=1.001 * weakest):  # now the optimum is cut off
        assert path.cost > best
        assert p[np.arange(8), path.chosen].min() >= weakest


def test_branch_cut_that_leaves_no_path_says_so():
    p = np.array([[0.9, 0.1], [0.9, 0.1]])
    assert shortest_paths(-np.log(p), cut=0.5) == []
    assert len(shortest_paths(-np.log(p), cut=0.1)) == 1


def test_a_narrow_search_keeps_the_cheapest_and_may_miss_the_best():
    # the cheapest beginning takes what the second level cannot do without
    p = np.array([[0.6, 0.4], [0.9, 1e-6]])
    assert shortest_paths(-np.log(p))[0].chosen.tolist() == [1, 0]
    assert shortest_paths(-np.log(p), width=1)[0].chosen.tolist() == [0, 1]
    cost = -np.log(random_probabilities(8, 8, 3))
    costs = [shortest_paths(cost, width=w)[0].cost for w in (1, 4, 70)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == pytest.approx(brute_force(cost)[0])


def test_several_paths_end_differently_and_the_best_is_first():
    cost = -np.log(random_probabilities(3, 6, 1))
    paths = shortest_paths(cost, keep=5)
    sets = [frozenset(p.chosen.tolist()) for p in paths]
    assert len(set(sets)) == 5
    assert [p.cost for p in paths] == sorted(p.cost for p in paths)
    for path in paths[:3]:  # each is the best of its set
        orders = itertools.permutations(path.chosen.tolist())
        best = min(float(cost[np.arange(3), list(o)].sum()) for o in orders)
        assert path.cost == pytest.approx(best)


def test_blanks_are_alike():
    cost = np.array([[1.0, 0.5, 0.5], [2.0, 0.5, 0.5]])
    (path,) = shortest_paths(cost, blanks=2, keep=5)[:1]
    assert path.chosen.tolist() == [1, 2]
    assert len(shortest_paths(cost, blanks=2, keep=5)) == 2  # {0, blank} and {blank, blank}


@pytest.mark.parametrize("grid", [(2, 2), (3, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_an_assembly_around_a_known_centre_is_the_best_there_is(grid, seed):
    n = grid[0] * grid[1]
    logits = np.random.default_rng(seed).normal(0.0, 2.0, (n, n, 8))
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    free = np.ones(grid, dtype=bool)
    pins = np.full(n, -1)
    root = grid[0] // 2 * grid[1] + grid[1] // 2
    pins[root] = 0
    rings = Rings.around(free, pins)
    assert rings.root == divmod(root, grid[1])
    assembler = Assembler(log_p, rings, free, pins, DeepzzleParams(cut=0.0))
    found = assembler.assemble(*assembler.centres())
    others = [k for k in range(n) if k != root]
    boards = np.zeros((len(list(itertools.permutations(range(1, n)))), n), dtype=int)
    boards[:, others] = list(itertools.permutations(range(1, n)))
    scores = assembler.scores(boards.reshape(-1, *grid))
    assert assembler.scores(found[None])[0] == pytest.approx(scores.max())
    # and the score is the sum of log p of every position, seen from the centre
    total = sum(
        log_p[0, found[c], OFFSETS.index((c[0] - rings.root[0], c[1] - rings.root[1]))]
        for c in np.ndindex(*grid)
        if c != rings.root
    )
    assert scores.max() == pytest.approx(total + (n - 1) * np.log(n - 1))


def test_cut_is_relaxed_until_a_path_is_left():
    puzzle = replace(numbered((3, 3)), pins={4: (1, 1)})
    found = Knowing((3, 3), sure=0.1, params=DeepzzleParams(cut=0.9)).solve(puzzle)
    assert np.array_equal(found.board, puzzle.truth)


# ---------------------------------------------------------------- solver


@pytest.mark.parametrize("grid", [(2, 2), (3, 3), (3, 5), (5, 5)])
@pytest.mark.parametrize("known", [True, False])
def test_with_a_good_network_puzzles_are_solved(grid, known):
    puzzle = numbered(grid)
    middle = (grid[0] // 2, grid[1] // 2)
    if known:
        puzzle = replace(puzzle, pins={int(puzzle.truth[middle]): middle})
    result = Knowing(grid, noise=0.5).solve(puzzle, seed=1)
    assert np.array_equal(result.board, puzzle.truth)
    assert result.confidence.min() > 0.5
    check_result(result, puzzle)


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("grid", [(3, 3), (3, 4), (5, 5)])
def test_odd_puzzles_get_valid_boards(grid, case):
    puzzle = odd_puzzles(grid)[case]
    params = DeepzzleParams(width=40, keep=4, centres=2)
    result = Solver(tiny(), params).solve(puzzle, seed=2)
    check_result(result, puzzle)
    again = Solver(tiny(), params).solve(puzzle, seed=2)
    assert np.array_equal(result.board, again.board)
    assert result.score == again.score
    check_result(Solver(tiny(), params).solve(puzzle, stop=MaxRounds(1)), puzzle)


@pytest.mark.parametrize("grid", [(1, 1), (1, 5), (5, 1), (1, 2)])
def test_thin_grids(grid):
    puzzle = numbered(grid)
    check_result(Solver(tiny()).solve(puzzle), puzzle)


def test_missing_pieces_leave_the_right_cells_empty():
    grid = (5, 5)
    whole = numbered(grid)
    some = np.array([k for k in range(25) if k not in (3, 20)])
    puzzle = Puzzle(whole.pieces[some], grid, pins={11: (2, 2)})  # piece 12 of the whole
    board = Knowing(grid).solve(puzzle).board
    want = np.full(25, -1)
    want[some] = np.arange(23)
    assert np.array_equal(board.ravel(), want)


def test_larger_grids_are_refused_before_and_while_solving():
    assert Solver.cannot((5, 5)) is None
    why = Solver.cannot((7, 10))
    assert why is not None
    assert "7x10" in why
    puzzle = Puzzle(np.zeros((70, 8, 8, 3), np.uint8), (7, 10))
    with pytest.raises(SherdError, match="deepzzle: the grid is 7x10"):
        Solver(tiny()).solve(puzzle)
    many = Puzzle(np.zeros((70, 8, 8, 3), np.uint8), (5, 5))
    with pytest.raises(SherdError, match="at most 62"):
        Solver(tiny()).solve(many)


@pytest.mark.parametrize(
    "values", [{"cut": 1.0}, {"cut": -0.1}, {"width": -1}, {"keep": 0}, {"centres": 0}]
)
def test_bad_parameters(values):
    with pytest.raises(SherdError):
        DeepzzleParams(**values)


# ---------------------------------------------------------------- training and weights


def run(data, out, steps=0, total=4, recipe=RECIPE):
    clock = Clock(1.0, 60.0, total_steps=total, run_steps=steps)
    return train(TrainDeepzzle, data, out, recipe, clock, device=CPU, show=lambda row: None)


def test_a_resumed_run_ends_as_one_that_was_not_interrupted(data, tmp_path):
    run(data, tmp_path / "one")
    run(data, tmp_path / "two", steps=2)
    run(data, tmp_path / "two")
    one, two = ((tmp_path / k / "deepzzle.safetensors").read_bytes() for k in ("one", "two"))
    assert one == two
    net = load_rival("deepzzle", DeepzzleConfig, Deepzzle, tmp_path / "one")
    assert net.card["step"] == 4
    rows = [json.loads(r) for r in (tmp_path / "one" / "metrics.jsonl").read_text().splitlines()]
    val = [r for r in rows if r["kind"] == "val-all"]
    assert len(val) == 2
    assert all(0 <= r["position"] <= 1 and 0 <= r["who"] <= 1 for r in val)
    solver = Solver(net.net, DeepzzleParams(centres=1))
    check_result(solver.solve(numbered((3, 3))), numbered((3, 3)))


def test_training_learns_positions(data, tmp_path):
    """Pictures that are always cut alike are learned by heart."""
    net = DeepzzleConfig(side=32, widths=(8, 12, 16, 24, 32), dense=48, factor=12, dropout=0.0)
    mix = (Entry(1.0, (3, 3), (3, 3), (24,), (2,), art=0.0),)
    recipe = replace(RECIPE, net=net, mix=mix, lr=1e-2, budget=60.0, most=60, log_every=10)
    run(data, tmp_path, total=80, recipe=recipe)
    rows = [json.loads(r) for r in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    shares = [r["position"] for r in rows if r["kind"] == "train"]
    assert shares[0] < 0.35
    assert shares[-1] > shares[0] + 0.15


def test_bad_recipes(tmp_path):
    path = tmp_path / "x.toml"
    for text, message in (
        ("[net]\nside = 50", "multiple of 32"),
        ("[net]\nwidths = 3", r"expected \[int, \.\.\.\]"),
        ("parts = 0", "parts must be"),
        ("partz = 1", "unknown key 'partz'"),
    ):
        path.write_text(text)
        with pytest.raises(SherdError, match=message):
            read_recipe(DeepzzleRecipe, path)


def test_bad_weights(tmp_path):
    with pytest.raises(SherdError, match=r"deepzzle\.json: is missing"):
        load_rival("deepzzle", DeepzzleConfig, Deepzzle, tmp_path)
    save_rival(tmp_path / "deepzzle", "deepzzle", tiny(), TINY, {})
    loaded = load_rival("deepzzle", DeepzzleConfig, Deepzzle, tmp_path).net
    assert torch.equal(loaded.out.weight, tiny().out.weight.half().float())
    blob = bytearray((tmp_path / "deepzzle.safetensors").read_bytes())
    blob[-3] ^= 1
    (tmp_path / "deepzzle.safetensors").write_bytes(blob)
    with pytest.raises(SherdError, match="is damaged"):
        load_rival("deepzzle", DeepzzleConfig, Deepzzle, tmp_path)
    save_rival(tmp_path / "deepzzle", "sdn", tiny(), TINY, {})
    with pytest.raises(SherdError, match="expected kind 'sherd-deepzzle'"):
        load_rival("deepzzle", DeepzzleConfig, Deepzzle, tmp_path)


def test_training_needs_only_what_a_training_machine_has():
    code = (
        "import sys\n"
        "for name in ('typer', 'click', 'rich', 'matplotlib', 'numba', 'gymnasium', 'skimage'):\n"
        "    sys.modules[name] = None\n"
        "from sherd.train.deepzzle import TrainDeepzzle, main\n"
        "sys.exit(main(TrainDeepzzle, ['--data', 'nowhere', '--out', 'no', '--device', 'cpu']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: nowhere: is no folder")


def test_the_shipped_network_knows_more_than_chance():
    net = load_rival("deepzzle", DeepzzleConfig, Deepzzle).net
    right = []
    for image in (pictures.astronaut(), pictures.coffee(), pictures.cat()):
        puzzle = cut(np.asarray(image), Geometry((3, 3), (64, 64), 2)).puzzle
        target = positions((3, 3), CPU).numpy()
        beside = (target >= 0) & (target < ELSEWHERE)
        found = position_log_probabilities(net, puzzle, elsewhere=False).argmax(-1)
        right.append(float((found == target)[beside].mean()))
    assert np.mean(right) > 2.5 / 8
    puzzle = cut(np.asarray(pictures.astronaut()), Geometry((3, 3), (64, 64), 2)).puzzle
    pinned = replace(puzzle, pins={4: (1, 1)})
    board = Solver(net).solve(pinned).board
    assert (board == identity_board((3, 3))).mean() > 2 / 9
