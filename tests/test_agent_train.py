"""Training of the agent: it runs, repeats bit for bit, and goes on where it was."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sherd import SherdError
from sherd.agent.batch import Starts
from sherd.agent.config import AgentConfig
from sherd.agent.dqn import DqnParams, QNetwork, candidate_swaps, choose, q_values
from sherd.agent.evolution import EvolutionParams
from sherd.agent.rules import apply, legal, shuffle
from sherd.agent.solve import SolveParams, reassemble, reassemble_dqn
from sherd.agent.state import observe
from sherd.agent.weights import Networks, load_agent, load_dqn, save_agent
from sherd.perception.evidence import from_logits
from sherd.train.agent import main, play, train, validate
from sherd.train.agent_data import Group, border_evidence, both_ways, load_groups, save_groups
from sherd.train.agent_ppo import returns
from sherd.train.agent_recipe import AgentRecipe
from sherd.train.loop import Clock
from sherd.train.recipe import read_recipe
from test_agent_policy import synthetic
from test_agent_rules import random_boards, random_puzzles

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
RECIPE = AgentRecipe(
    net=AgentConfig(width=16, heads=2, critic=8),
    evolution=EvolutionParams(
        population=8, generations=2, length=2, parents=4, history=2, draws=8
    ),
    dqn=DqnParams(candidates=6, replay=6),
    puzzles=4, steps=3, batch=16, epochs=2, buffer=8, log_every=1, reserve_s=0.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def sets():
    return {
        "train": [Group("a", synthetic((3, 3), 0.9, 5)), Group("b", synthetic((3, 4), 0.8, 5))],
        "val": [Group("c", synthetic((3, 3), 0.95, 3))],
    }


def run(sets, out, steps=4, total=4, recipe=RECIPE, **more):
    clock = Clock(1e6, 60.0, total_steps=total, run_steps=steps)
    return train(sets, out, recipe, clock, device=CPU, **more)


def weights(folder: Path, stem: str) -> bytes:
    return (folder / f"{stem}.safetensors").read_bytes()


@pytest.mark.parametrize("dqn", [False, True])
def test_same_seed_same_bits_and_killed_runs_go_on_as_if_nothing_were(sets, tmp_path, dqn):
    stem = "dqn" if dqn else "agent"
    before = torch.get_rng_state()
    whole = run(sets, tmp_path / "a", dqn=dqn)
    assert torch.equal(before, torch.get_rng_state())  # nobody else's random state is touched
    run(sets, tmp_path / "b", dqn=dqn)
    assert weights(tmp_path / "a", stem) == weights(tmp_path / "b", stem)
    run(sets, tmp_path / "c", steps=1, dqn=dqn)
    run(sets, tmp_path / "c", steps=2, dqn=dqn)
    half = run(sets, tmp_path / "c", dqn=dqn)  # the same command again
    assert weights(tmp_path / "a", stem) == weights(tmp_path / "c", stem)
    for name, module in whole.learner.modules().items():
        other = half.learner.modules()[name]
        for p, q in zip(module.parameters(), other.parameters(), strict=True):
            assert torch.equal(p, q)
    rows = [json.loads(r) for r in (tmp_path / "c" / "metrics.jsonl").read_text().splitlines()]
    assert [r["step"] for r in rows if r["kind"] == "train"] == [1, 2, 3, 4]
    other = run(sets, tmp_path / "d", recipe=replace(RECIPE, seed=1), dqn=dqn)
    assert weights(tmp_path / "a", stem) != weights(tmp_path / "d", stem)
    assert other.figures["c"].keys() == {"perfect", "absolute", "neighbor", "evidence"}


def test_metrics_say_what_happened(sets, tmp_path):
    run(sets, tmp_path, steps=2, total=2)
    rows = [json.loads(r) for r in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [r["kind"] for r in rows] == ["start", "val", "train", "train", "val-all", "end"]
    assert rows[1]["step"] == 0  # where the curve begins
    row = rows[2]
    wanted = {"reward", "absolute", "neighbor", "perfect", "entropy", "kl", "clip_share",
              "value_error", "doubt", "swap-2", "swap-3", "swap-puzzlet"}  # fmt: skip
    assert wanted <= row.keys()
    assert row["swap-2"] + row["swap-3"] + row["swap-puzzlet"] == pytest.approx(1.0, abs=1e-3)
    assert row["kl"] >= 0


@pytest.mark.parametrize(("dqn", "rates"), [(False, [3e-3, 1.65e-3]), (True, [7e-3, 7e-3])])
def test_metrics_name_the_rate_that_was_used(sets, tmp_path, dqn, rates):
    """The actor's, which falls; the DQN has the critic's, which does not."""
    recipe = replace(RECIPE, lr=3e-3, critic_lr=7e-3, lr_floor=0.1)
    run(sets, tmp_path, steps=2, total=2, recipe=recipe, dqn=dqn)
    rows = [json.loads(r) for r in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [r["lr"] for r in rows if r["kind"] == "train"] == pytest.approx(rates)


def test_the_critic_learns_what_is_right(sets, tmp_path):
    """From nothing: its doubt falls, and it tells the truth from a shuffled board."""
    recipe = replace(RECIPE, epochs=60, critic_lr=0.01)
    learner = run(sets, tmp_path, steps=2, total=2, recipe=recipe).learner
    rows = [json.loads(r) for r in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    doubt = [r["doubt"] for r in rows if r["kind"] == "train"]
    assert doubt[-1] < doubt[0]
    puzzles = sets["val"][0].puzzles
    which = torch.arange(len(puzzles))
    mixed = shuffle(puzzles.truth, ~puzzles.fixed, torch.Generator().manual_seed(0))
    right = [
        learner.critic(observe(puzzles, b, which), puzzles.layout).right
        for b in (puzzles.truth, mixed)
    ]
    assert (right[0] > right[1]).all()


def test_the_actor_moves_no_farther_than_it_may(sets, tmp_path):
    """The first update starts where the episode was played; the others begin beyond the limit."""
    far = run(sets, tmp_path / "far", steps=1, recipe=replace(RECIPE, kl=100.0))
    near = run(sets, tmp_path / "near", steps=1, recipe=replace(RECIPE, kl=1e-12))
    once = run(sets, tmp_path / "once", steps=1, recipe=replace(RECIPE, epochs=1))
    parameters = [list(r.learner.actor.parameters()) for r in (far, near, once)]
    assert all(torch.equal(p, q) for p, q in zip(parameters[1], parameters[2], strict=True))
    assert not all(torch.equal(p, q) for p, q in zip(parameters[0], parameters[2], strict=True))


def test_groups_of_one_grid_are_validated_together(sets, tmp_path):
    some = {"train": sets["train"], "val": [*sets["val"], *sets["train"]]}
    whole = run(some, tmp_path, steps=1)
    assert set(whole.figures) == {"a", "b", "c"}
    assert [[g.name for g in groups] for groups, _ in whole._joined] == [["c", "a"], ["b"]]
    groups, puzzles = whole._joined[0]
    assert torch.equal(puzzles.truth[3:], sets["train"][0].puzzles.truth)
    few = validate(whole.learner, groups, puzzles, 2)
    best, _ = play(whole.learner, puzzles, torch.tensor([0, 1, 3, 4]))
    right = (best == puzzles.truth[[0, 1, 3, 4]]).float().mean(1)
    assert few["c"]["absolute"] == pytest.approx(float(right[:2].mean()))
    assert few["a"]["absolute"] == pytest.approx(float(right[2:].mean()))


def test_large_swaps_come_first(sets, tmp_path):
    shares = []
    for progress in (0.0, 1.0):
        recipe = replace(RECIPE, large_first=4.0, starts=Starts(0.0, 0.0))
        learner = run(sets, tmp_path / str(progress), steps=1, recipe=recipe).learner
        found = [learner.iterate(k, progress) for k in range(2, 8)]
        shares.append(np.mean([f["swap-2"] for f in found]))
    assert shares[0] < shares[1]


def test_updates_learn_what_is_remembered(tmp_path):
    """Updates on one memory: the critic fits the returns, the actor prefers what was better."""
    sets = {"train": [Group("a", synthetic((3, 3), 0.6, 8))], "val": []}
    recipe = replace(RECIPE, puzzles=16, batch=64, epochs=8, critic_lr=1e-2, bare=0.0)
    learner = run(sets, tmp_path, steps=1, total=40, recipe=recipe).learner
    code = int(learner.memory[0].group)
    found = [learner._update(code, 0.0, torch.Generator().manual_seed(k)) for k in range(60)]
    assert found[-1]["value_error"] < 0.6 * found[0]["value_error"]
    assert found[-1]["kl"] > found[0]["kl"]


def test_returns():
    rewards = torch.tensor([[1.0], [2.0], [3.0]])
    got = returns(rewards, torch.tensor([10.0]), 0.5).squeeze(1)
    assert got.tolist() == [1 + 0.5 * (2 + 0.5 * (3 + 5)), 2 + 0.5 * (3 + 5), 3 + 5]


def test_evidence_is_that_of_perception():
    rng = np.random.default_rng(0)
    right, below = rng.normal(size=(2, 9, 9)) * 4
    want = from_logits(right, below)
    got = both_ways(torch.from_numpy(right)[None])[0]
    own = np.eye(9, dtype=bool)
    np.testing.assert_allclose(got.numpy()[~own], want.h[~own], atol=1e-4)
    from sherd.perception.mppn.config import Calibration
    from sherd.perception.neural import _border

    logits = rng.normal(size=(4, 12)).astype(np.float32) * 3
    c = Calibration(border=1.5, border_weight=0.5)
    mine = border_evidence(torch.from_numpy(logits)[None], (3, 4), c)[0]
    np.testing.assert_allclose(mine, 0.5 * _border(logits / 1.5, (3, 4), 12), atol=1e-4)


def test_evidence_is_kept(sets, tmp_path):
    path = tmp_path / "evidence.safetensors"
    save_groups(path, sets)
    back = load_groups(path, CPU)
    assert {k: [(g.name, len(g)) for g in v] for k, v in back.items()} == {
        "train": [("a", 5), ("b", 5)],
        "val": [("c", 3)],
    }
    one, two = sets["train"][1].puzzles, back["train"][1].puzzles
    assert torch.equal(one.truth, two.truth)
    torch.testing.assert_close(one.at, two.at, atol=0.01, rtol=1e-2)
    (tmp_path / "bad").write_bytes(b"nothing")
    with pytest.raises(SherdError, match="cannot be read as evidence"):
        load_groups(tmp_path / "bad", CPU)
    save_groups(path, {"val": sets["val"]})
    with pytest.raises(SherdError, match="no puzzles to train on"):
        load_groups(path, CPU)


def tiny(tmp_path: Path) -> Path:
    config = tmp_path / "tiny.toml"
    config.write_text(
        "puzzles = 2\nsteps = 2\nbatch = 8\nepochs = 1\nlog_every = 1\nreserve_s = 0\n"
        "[net]\nwidth = 16\nheads = 2\ncritic = 8\n"
        "[evolution]\npopulation = 4\ngenerations = 1\nlength = 2\nparents = 2\nhistory = 1\n"
        "draws = 4\n"
    )
    return config


def test_command_line(sets, tmp_path, capsys):
    evidence = tmp_path / "evidence.safetensors"
    save_groups(evidence, sets)
    usual = ["--evidence", str(evidence), "--config", str(tiny(tmp_path)), "--device", "cpu",
             "--iterations", "2", "--out", str(tmp_path / "out")]  # fmt: skip
    assert main(usual) == 0
    assert "c perfect=" in capsys.readouterr().out
    assert main([*usual, "--dqn"]) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "metrics.jsonl", "agent.json", "agent.safetensors", "dqn.json", "dqn.safetensors",
        "resume-agent-0.safetensors", "resume-dqn-0.safetensors",
    }  # fmt: skip
    assert main([*usual, "--seed", "3"]) == 2  # its folder was begun with another
    assert "was trained with seed 0, not 3" in capsys.readouterr().err
    assert main([*usual[:-1], str(tmp_path / "more"), "--seed", "3"]) == 0
    assert load_agent(tmp_path / "more").card["seed"] == 3
    assert load_agent(tmp_path / "out").card["iterations"] == 2
    assert load_dqn(tmp_path / "out").card["puzzles"] == {"a": 5, "b": 5}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--iterations", "0"], "iterations: 0"),
        (["--seed", "-1"], "seed: -1"),
        (["--evidence", "nowhere"], "cannot be read as evidence"),
        ([], "neither pictures"),
        (["--config", "nowhere.toml"], "cannot be read as TOML"),
        (["--device", "abacus"], "cannot be used here"),
    ],
)
def test_bad_runs(tmp_path, capsys, arguments, message):
    out = tmp_path / "out"
    assert main([*arguments, "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gama = 0.9", "unknown key 'gama'"),
        ("gamma = 1.5", "gamma must lie"),
        ("[evolution]\nparents = 99", "at most the population"),
        ("[net]\nwidth = 10\nheads = 3", "must divide"),
        ("lr = 0.0", "more than 0"),
    ],
)
def test_bad_recipes(tmp_path, text, message):
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(SherdError, match=message):
        read_recipe(AgentRecipe, path)


def test_another_network_cannot_be_resumed(sets, tmp_path):
    run(sets, tmp_path, steps=1)
    wider = replace(RECIPE, net=replace(RECIPE.net, critic=16))
    with pytest.raises(SherdError, match="resume with the configuration"):
        run(sets, tmp_path, recipe=wider)


def test_the_module_needs_neither_typer_nor_numba_nor_gymnasium():
    code = (
        "import sys\n"
        "for name in ('typer', 'click', 'rich', 'matplotlib', 'numba', 'gymnasium', 'skimage'):\n"
        "    sys.modules[name] = None\n"
        "from sherd.train.agent import main\n"
        "sys.exit(main(['--data', 'nowhere', '--out', 'nowhere', '--device', 'cpu',\n"
        "               '--evidence', 'nowhere']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: nowhere: cannot be read as evidence")


def test_dqn_plays_small_swaps_of_high_gain():
    puzzles = random_puzzles(3, 4, count=2)
    puzzles.fixed[1, 3] = True
    boards, which = random_boards(puzzles, 4)
    which = torch.tensor([0, 1, 1, 0])
    actions = candidate_swaps(puzzles, boards, which, 10)
    flat, owner = actions.flatten(0, 1), which.repeat_interleave(10)
    assert legal(puzzles, owner, flat).all()
    assert (flat[:, 0] == 0).all()
    net = QNetwork()
    q = q_values(net, puzzles, boards, which, actions)
    after = apply(puzzles.layout, boards, actions[:, 4])
    torch.testing.assert_close(q[:, 4], net(puzzles, after, which).detach())
    g = torch.Generator().manual_seed(0)
    greedy, value = choose(net, puzzles, boards, which, DqnParams(candidates=10), 0.0, g)
    torch.testing.assert_close(value, q.amax(1))
    draws = {
        tuple(choose(net, puzzles, boards, which, DqnParams(candidates=10), 1.0, g)[0][0].tolist())
        for _ in range(30)
    }
    assert len(draws) > 5
    assert tuple(greedy[0].tolist()) in {tuple(a) for a in actions[0].tolist()}


def test_solving_returns_the_best_board_seen():
    puzzles = synthetic((4, 5), 0.97, 1)
    networks = Networks(RECIPE.net)
    params = SolveParams(evolution=EvolutionParams(population=32, generations=4, settle=2))
    heard: list[float] = []

    def progress(board, score, number):
        heard.append(score)
        return False

    start = torch.arange(20)
    g = torch.Generator().manual_seed(0)
    boards, scores = reassemble(networks, puzzles, start, params, g, progress)
    assert torch.equal(boards[0], puzzles.truth[0])
    assert heard == sorted(heard)
    assert heard[-1] == float(scores[0]) == float(scores.max())
    g = torch.Generator().manual_seed(0)
    again, _ = reassemble(networks, puzzles, start, params, g, progress)
    assert torch.equal(boards, again)
    stopped = reassemble(networks, puzzles, start, params, g, lambda *_: True)[0]
    assert sorted(stopped[0].tolist()) == list(range(20))
    bare = replace(params, place=False, patience=3, agreed=1)
    other, worse = reassemble(networks, puzzles, start, bare, g, progress)
    assert float(worse[0]) <= float(scores[0]) + 1e-3
    assert sorted(other[0].tolist()) == list(range(20))
    found, _ = reassemble_dqn(QNetwork(), puzzles, start, DqnParams(), g, progress, 5)
    assert sorted(found[0].tolist()) == list(range(20))
    with pytest.raises(SherdError, match="chains"):
        SolveParams(chains=0)


def test_a_missing_agent_says_how_to_train_one(tmp_path, monkeypatch):
    monkeypatch.setattr("sherd.agent.weights.FOLDER", tmp_path)
    with pytest.raises(SherdError, match="sherd train agent --out"):
        load_agent()
    with pytest.raises(SherdError, match="sherd train agent --dqn --out"):
        load_dqn()
    save_agent(tmp_path / "agent", Networks(RECIPE.net), {})
    assert load_agent().networks.cfg == RECIPE.net
    (tmp_path / "agent.json").write_text("{}")
    with pytest.raises(SherdError, match="sherd-agent"):
        load_agent()


def test_perception_of_training_pictures():
    """Training sees of a picture what a solver sees of its pieces, but for their mirror images."""
    from contextlib import nullcontext

    from sherd import Puzzle
    from sherd.perception.mppn.config import Calibration
    from sherd.perception.mppn.network import MPPN
    from sherd.perception.mppn.weights import Model
    from sherd.perception.neural import perceive
    from sherd.train.agent_data import perceive_cut
    from sherd.train.evaluate import Cell, cut_cells
    from sherd.train.store import Store
    from test_mppn import TINY
    from test_train_perception import picture

    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = MPPN(TINY).eval().requires_grad_(False)
    calibration = Calibration(pair=1.5, border_weight=0.5)
    store = Store({"photos": [torch.from_numpy(picture(0)).permute(2, 0, 1)], "art5": []})
    cell = Cell("x", "photos", (3, 4), 24, 2)
    cut_ = cut_cells(store, (cell,), 0, CPU, 1)[0]
    got = perceive_cut(net, calibration, cut_, nullcontext())
    puzzle = Puzzle(cut_.pieces[0].numpy(), (3, 4), gap=2)
    model = Model(net, calibration, {}, "0" * 64)
    want = perceive(puzzle, model, candidates=11, looks=1, threads=1)
    own = np.eye(12, dtype=bool)
    np.testing.assert_allclose(got.at[0, 1, :12, :12][~own], want.h[~own], atol=0.05)
    np.testing.assert_allclose(got.at[0, 2, :12, :12][~own], want.v[~own], atol=0.05)
    np.testing.assert_allclose(got.border[0, :, :12], want.border, atol=1e-3)
    assert torch.equal(got.truth[0], cut_.grid.board)
