"""SD²RL: its Siamese networks, its DQN at work, its training; and the ablation with EvoRL."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from skimage import data as pictures

import sherd.agent.solve as playing
from rival_cases import check_result, numbered, odd_puzzles, write_data
from sherd import Geometry, SherdError, cut, make_solver
from sherd.agent.config import AgentConfig
from sherd.agent.dqn import DqnParams, QNetwork
from sherd.agent.evolution import EvolutionParams
from sherd.agent.rules import from_evidence, shuffle
from sherd.agent.solve import SolveParams, reassemble_dqn
from sherd.agent.weights import Networks, TrainedAgent
from sherd.perception.mppn.weights import load_part
from sherd.perception.rivals.sdn import SDN, SdnConfig, pair_logits, perceive_sdn
from sherd.perception.rivals.weights import FORMAT, LIMIT, load_rival, save_rival
from sherd.perception.synthetic import synthetic_evidence
from sherd.solvers import Callbacks, MaxRounds, sd2rl
from sherd.solvers.sd2rl import Sd2rl, SdnEvoRl
from sherd.train.agent_recipe import AgentRecipe
from sherd.train.data import Augment, Entry
from sherd.train.losses import Grid
from sherd.train.sd2rl import Sd2rlRecipe, TrainSdn, main, pair_loss, run_training
from sherd.train.trainee import CELLS

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
TINY = SdnConfig(
    side=32, stem=4, widths=(4, 4, 4, 6, 6, 8, 8), expand=2, head=16, embed=8, hidden=8
)
TOML = """
budget = 30.0
most = 30
parts = 2
val_images = 1
log_every = 1
workers = 1
lr = 0.003
reserve_s = 0.0
[net]
side = 32
stem = 4
expand = 2
head = 16
embed = 8
hidden = 8
[augment]
full = 1.0
turn = 0.0
colour = 0.0
[[mix]]
weight = 1.0
rows = [3, 3]
cols = [3, 4]
piece = [24]
gap = [2]
[agent]
limit = 1
val_limit = 1
puzzles = 2
steps = 2
batch = 8
log_every = 1
reserve_s = 0.0
workers = 1
"""


@pytest.fixture(autouse=True)
def _two_cells(monkeypatch):
    cells = tuple(replace(c, grid=(3, 3), piece=24, gap=2, jitter=0) for c in CELLS[-2:])
    monkeypatch.setattr(TrainSdn, "cells", cells)
    monkeypatch.setattr("sherd.train.sd2rl.AGENT_CELLS", cells)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(TOML)
    return path


def tiny(seed: int = 0, **changes) -> SDN:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = SDN(replace(TINY, **changes)).requires_grad_(False)
        norms = [m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
        for norm in norms:
            norm.momentum = 1.0
        net(torch.rand(24, 3, 4, 4), 1)  # batch norm has seen pictures: pieces do not look alike
        return net.eval()


def q_network(kind: str = "evidence") -> QNetwork:
    """A network whose value is the mean pair evidence, or always 0."""
    net = QNetwork().requires_grad_(False)
    for p in net.parameters():
        p.zero_()
    if kind == "evidence":
        net.seam.weight[0, 0], net.seam.bias[0] = 1.0, 3.0
        net.hidden.weight[0, 0] = net.value.weight[0, 0] = 1.0
    return net


class Knowing(Sd2rl):
    """Has Siamese networks that know the neighbours of pieces of `numbered`."""

    def __init__(self, grid, top1=0.9, **rest):
        super().__init__(**rest)
        self.evidence = synthetic_evidence(grid, top1, np.random.default_rng(0))

    def perceive(self, puzzle):
        return self.evidence.reordered(puzzle.pieces[:, 0, 0, 0].astype(int))


# ---------------------------------------------------------------- networks


def test_both_networks_fit_their_limit_together():
    net = SDN(SdnConfig())
    assert 2 * sum(t.numel() for t in net.state_dict().values()) <= LIMIT
    right, below = tiny()(torch.rand(12, 3, 20, 28), 2)
    assert right.shape == below.shape == (2, 6, 6)
    assert not torch.allclose(right, below)


def test_the_first_layer_sees_both_embeddings_side_by_side():
    net = tiny().across
    a, b = torch.randn(5, 8), torch.randn(5, 8)
    joint = torch.cat([net.first.weight, net.second.weight], dim=1)
    x = F.relu(F.linear(torch.cat([a, b], dim=1), joint, net.first.bias))
    want = net.out(F.relu(net.hidden(x))).squeeze(1)
    torch.testing.assert_close(net.compare(a, b), want)
    every = net.all_pairs(torch.stack([a, b]))
    torch.testing.assert_close(every[1, 2, 3], net.compare(b[2], b[3]))


def test_evidence_does_not_depend_on_chunks_and_order(monkeypatch):
    puzzle = cut(np.asarray(pictures.coffee()), Geometry((3, 4), (30, 30), 2)).puzzle
    right, below = pair_logits(tiny(), puzzle)
    x = torch.from_numpy(puzzle.pieces).permute(0, 3, 1, 2).float() / 255.0
    with torch.no_grad():
        want = tiny()(x, 1)
    np.testing.assert_allclose(right, want[0][0], atol=1e-5)
    np.testing.assert_allclose(below, want[1][0], atol=1e-5)
    monkeypatch.setattr("sherd.perception.rivals.sdn.PAIRS", 25)
    np.testing.assert_allclose(pair_logits(tiny(), puzzle)[0], right, atol=1e-5)
    evidence = perceive_sdn(puzzle, tiny())
    order = np.random.default_rng(0).permutation(12)
    turned = perceive_sdn(puzzle.reordered(order), tiny())
    np.testing.assert_allclose(turned.h, evidence.h[np.ix_(order, order)], atol=1e-4)
    p = np.exp(evidence.h - np.log(11.0))
    assert 0.5 < p[~np.eye(12, dtype=bool)].reshape(12, 11).sum(1).mean() < 2.0


def test_a_higher_temperature_says_less():
    puzzle = cut(np.asarray(pictures.coffee()), Geometry((2, 3), (30, 30))).puzzle
    cold, warm = (perceive_sdn(puzzle, tiny(temperature=t)).h for t in (0.1, 1.0))
    other = ~np.eye(6, dtype=bool)
    assert 1e-3 < warm[other].max() < cold[other].max()


def test_loss_weighs_neighbours_as_much_as_all_others():
    grid = Grid.of((2, 3), CPU)
    logits = torch.full((1, 6, 6), -50.0)
    for i, j in ((0, 1), (1, 2), (3, 4), (4, 5)):
        logits[0, i, j] = 50.0
    assert pair_loss(logits, grid, 0)[0] < 1e-6
    assert float(pair_loss(logits, grid, 0)[1]) == pytest.approx(1.0)
    assert float(pair_loss(torch.full_like(logits, -50.0), grid, 0)[1]) == pytest.approx(0.5)
    assert float(pair_loss(logits, grid, 1)[1]) < 0.5
    wrong = logits.clone()
    wrong[0, 0, 1] = -50.0  # one of four neighbours
    # one of four pairs is missed by 50; one of eight sides (the fourth from either end) does not
    # know its neighbour among five others any more
    missed = 0.5 * 50.0 / 4 + 2 * np.log(5.0) / 8
    assert float(pair_loss(wrong, grid, 0)[0]) == pytest.approx(0.5 * missed, rel=1e-4)


# ---------------------------------------------------------------- the agent at work


class Rounds(Callbacks):
    """Counts rounds."""

    def __init__(self) -> None:
        self.count = 0

    def on_round(self, round: int, best: float) -> None:
        self.count += 1


def test_a_swap_that_does_not_raise_the_value_is_not_done():
    """With a network to which all boards are worth the same nothing is ever swapped."""
    rounds = Rounds()
    solver = Knowing((4, 4), network=q_network("flat"), starts=3)
    result = solver.solve(numbered((4, 4)), stop=MaxRounds(50), callbacks=rounds)
    assert rounds.count == 3  # the random boards themselves
    check_result(result, numbered((4, 4)))


def test_every_swap_raises_the_value_until_none_does(monkeypatch):
    grid = (4, 5)
    evidence = synthetic_evidence(grid, 0.8, np.random.default_rng(3))
    puzzles, start = from_evidence(evidence, numbered(grid))
    net = q_network()
    seen: list[torch.Tensor] = []
    real = playing.apply

    def watched(layout, boards, actions):
        after = real(layout, boards, actions)
        seen.append(after)
        return after

    monkeypatch.setattr(playing, "apply", watched)
    generator = torch.Generator().manual_seed(0)
    board = shuffle(start[None], ~puzzles.fixed, generator)[0]
    reassemble_dqn(
        net, puzzles, board, DqnParams(), generator, lambda *_: False, steps=400
    )  # fmt: skip
    which = torch.zeros(1, dtype=torch.long)
    values = [float(net(puzzles, board, which)) for board in seen]
    assert 5 < len(values) < 400
    assert all(b > a for a, b in pairwise(values))


def test_several_starts_are_played_and_the_best_counts():
    grid = (4, 5)
    scores = [
        Knowing(grid, 0.9, network=q_network(), starts=k).solve(numbered(grid), seed=4).score
        for k in (1, 6)
    ]
    assert scores[1] >= scores[0]
    with pytest.raises(SherdError, match="starts"):
        Sd2rl(starts=0)


@pytest.mark.parametrize(("grid", "grows"), [((5, 5), False), ((5, 6), True)])
def test_boards_of_more_pieces_than_the_papers_are_grown(grid, grows):
    """Nothing is swapped here: what comes out is what the DQN was given."""
    solver = Knowing(grid, 0.99, network=q_network("flat"), starts=1)
    puzzle = numbered(grid)
    found = solver.solve(puzzle.shuffled(np.random.default_rng(1)), seed=4)
    truth = solver.evidence.score(np.arange(puzzle.n).reshape(grid))
    assert (found.score > 0.4 * truth) == grows


def test_the_best_of_many_grown_boards_is_played(monkeypatch):
    puzzle, found = numbered((5, 6)), []
    for boards in (1, 64):
        monkeypatch.setattr(sd2rl, "BOARDS", boards)
        solver = Knowing((5, 6), 0.6, network=q_network("flat"), starts=1)
        found.append([solver.solve(puzzle, seed=k).score for k in range(4)])
    assert np.mean(found[1]) > np.mean(found[0])


def test_stopped_at_once_it_plays_no_further_start():
    rounds = Rounds()
    solver = Knowing((4, 4), network=q_network())
    check_result(
        solver.solve(numbered((4, 4)), stop=MaxRounds(1), callbacks=rounds), numbered((4, 4))
    )
    assert rounds.count == 1


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("grid", [(3, 3), (7, 10)])
def test_odd_puzzles_get_valid_boards(grid, case):
    puzzle = odd_puzzles(grid)[case]
    solver = Sd2rl(tiny(), q_network(), starts=1)
    result = solver.solve(puzzle, seed=2)
    check_result(result, puzzle)
    again = solver.solve(puzzle, seed=2)
    assert np.array_equal(result.board, again.board)
    assert result.score == again.score


def test_the_ablation_plays_evorl_on_siamese_evidence():
    cfg = AgentConfig()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        agent = TrainedAgent(Networks(cfg).eval().requires_grad_(False), {})
    params = SolveParams(
        evolution=EvolutionParams(population=8, parents=4, generations=2, settle=1), chains=1
    )
    puzzle = numbered((3, 3))
    result = SdnEvoRl(tiny(), agent, params).solve(puzzle, stop=MaxRounds(5))
    check_result(result, puzzle)
    assert result.evidence is not None
    assert "SDN" in result.evidence.source


# ---------------------------------------------------------------- training and weights


def files(folder, *names):
    return [(folder / f"{name}.safetensors").read_bytes() for name in names]


def test_a_resumed_run_ends_as_one_that_was_not_interrupted(data, tmp_path, config):
    options = {"minutes": 60.0, "total_steps": 4, "config": config, "device": "cpu"}
    quiet = {"show": lambda row: None}
    one, two = tmp_path / "one", tmp_path / "two"
    last = run_training(data, one, **options, **quiet)
    assert set(last.figures) == {c.name for c in TrainSdn.cells}
    run_training(data, two, steps=2, **options, **quiet)
    assert not (two / "sd2rl.json").exists()
    run_training(data, two, steps=2, **options, **quiet)  # Siamese networks done, DQN begins
    run_training(data, two, steps=2, **options, **quiet)
    assert files(one, "sdn", "sd2rl") == files(two, "sdn", "sd2rl")
    sdn = load_rival("sdn", SdnConfig, SDN, one)
    about, tensors = load_part(one / "sd2rl", "sherd-sd2rl", version=FORMAT)
    assert about["sdn"] == sdn.sha256
    assert sdn.net.cfg.temperature > 0
    network = QNetwork()
    network.load_state_dict(tensors)
    puzzle = numbered((3, 3))
    check_result(Sd2rl(sdn.net, network, starts=1).solve(puzzle), puzzle)


def test_training_learns_neighbours(data, tmp_path):
    """Pictures that are always cut alike are learned by heart."""
    net = replace(TINY, widths=(8, 8, 8, 12, 12, 16, 16), head=32, embed=24, hidden=24, dropout=0.0)
    recipe = Sd2rlRecipe(
        net=net,
        mix=(Entry(1.0, (3, 3), (3, 3), (24,), (2,), art=0.0),), budget=60.0, most=60, parts=1,
        augment=Augment(full=1.0, turn=0.0, colour=0.0, noise=0.0, blur=0.0), lr=1e-2,
        val_images=1, workers=1, log_every=10, reserve_s=0.0,
    )  # fmt: skip
    from sherd.train.loop import Clock
    from sherd.train.rivals import train

    clock = Clock(1.0, 60.0, total_steps=40)
    train(TrainSdn, data, tmp_path, recipe, clock, device=CPU, show=lambda row: None)
    rows = [json.loads(r) for r in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    shares = [r["accuracy"] for r in rows if r["kind"] == "train"]
    assert shares[0] < 0.65
    assert shares[-1] > shares[0] + 0.1


def test_the_second_part_needs_the_first(data, tmp_path, config, capsys):
    words = ["--data", str(data), "--out", str(tmp_path / "x"), "--config", str(config)]
    assert main([*words, "--device", "cpu", "--part", "dqn"]) == 2
    assert "sdn.json: is missing" in capsys.readouterr().err
    assert main([*words, "--part", "nothing"]) == 2
    assert "expected one of both, sdn, dqn" in capsys.readouterr().err


def test_bad_recipes():
    with pytest.raises(SherdError, match="share between 0 and 1"):
        Sd2rlRecipe(share=1.0)
    with pytest.raises(SherdError, match="expected 7 numbers"):
        SdnConfig(widths=(1, 2))
    with pytest.raises(SherdError, match="temperature"):
        SdnConfig(temperature=0.0)
    assert isinstance(Sd2rlRecipe().agent, AgentRecipe)


def test_bad_weights(tmp_path, monkeypatch):
    with pytest.raises(SherdError, match=r"sdn\.json: is missing"):
        load_rival("sdn", SdnConfig, SDN, tmp_path)
    save_rival(tmp_path / "sdn", "sdn", tiny(), TINY, {})
    about = json.loads((tmp_path / "sdn.json").read_text())
    about["net"]["head"] = 17
    (tmp_path / "sdn.json").write_text(json.dumps(about))
    with pytest.raises(SherdError, match="do not belong together"):
        load_rival("sdn", SdnConfig, SDN, tmp_path)
    with pytest.raises(SherdError, match="at most 3145728"):
        save_rival(tmp_path / "big", "sdn", SDN(SdnConfig(head=2000)), SdnConfig(head=2000), {})
    monkeypatch.setattr("sherd.perception.rivals.weights.FOLDER", tmp_path)
    from sherd.solvers.sd2rl import _network

    _network.cache_clear()
    with pytest.raises(SherdError, match=r"sd2rl\.json: is missing"):
        Sd2rl(tiny()).solve(numbered((2, 2)))


def test_training_needs_only_what_a_training_machine_has():
    code = (
        "import sys\n"
        "for name in ('typer', 'click', 'rich', 'matplotlib', 'numba', 'gymnasium', 'skimage'):\n"
        "    sys.modules[name] = None\n"
        "from sherd.train.sd2rl import main\n"
        "sys.exit(main(['--data', 'nowhere', '--out', 'no', '--device', 'cpu']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: nowhere: is no folder")


def test_the_shipped_networks_know_more_than_chance():
    puzzle = cut(np.asarray(pictures.astronaut()), Geometry((5, 5), (64, 64), 2)).puzzle
    evidence = perceive_sdn(puzzle)
    truth = [evidence.h[k, k + 1] for k in range(25) if k % 5 < 4]
    assert np.mean(truth) > 0.3
    result = make_solver("sd2rl").solve(puzzle.shuffled(np.random.default_rng(0)))
    check_result(result, puzzle)
