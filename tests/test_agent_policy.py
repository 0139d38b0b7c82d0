"""Actor, critic, place evidence and evolution."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from sherd import SherdError
from sherd.agent import gains
from sherd.agent.actor import Actor
from sherd.agent.breeding import breed, pack, throw
from sherd.agent.config import AgentConfig
from sherd.agent.critic import Critic, evaluate, soft_update, value_scale
from sherd.agent.evolution import (
    Evolution,
    EvolutionParams,
    final_boards,
    type_prior,
)
from sherd.agent.place import PlaceParams, place_evidence, with_place
from sherd.agent.play import Agent
from sherd.agent.rules import (
    SWAP_2,
    SWAP_3,
    SWAP_PUZZLET,
    Puzzles,
    apply,
    best_reward,
    count_right,
    from_tensors,
    legal,
    shuffle,
    which_right,
)
from sherd.agent.solve import SolveParams, reassemble
from sherd.agent.state import CELL, GLOBAL, observe
from sherd.agent.weights import Networks
from sherd.perception.synthetic import synthetic_evidence
from test_agent_rules import all_actions, random_boards, random_puzzles

pytestmark = pytest.mark.usefixtures("one_thread")

CONFIG = AgentConfig(width=16, heads=2, critic=8)
SMALL = EvolutionParams(population=24, generations=4, length=3, parents=8, history=4, draws=24)


def wild(seed: int = 0, **sizes: int) -> Actor:
    """An actor with an opinion on everything."""
    actor = Actor(replace(CONFIG, **sizes))
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in actor.parameters():
            p.copy_(torch.randn(p.shape, generator=g) * 0.3)
    return actor


def synthetic(grid: tuple[int, int], top1: float, count: int = 4) -> Puzzles:
    rng = np.random.default_rng(0)
    found = [synthetic_evidence(grid, top1, rng) for _ in range(count)]
    h, v = (torch.from_numpy(np.stack([getattr(e, k) for e in found])) for k in "hv")
    cells = grid[0] * grid[1]
    g = torch.Generator().manual_seed(1)
    orders = torch.stack([torch.randperm(cells, generator=g) for _ in range(count)])
    mixed = [m[torch.arange(count)[:, None, None], orders[:, :, None], orders[:, None]]
             for m in (h, v)]  # fmt: skip
    return from_tensors(mixed[0], mixed[1], None, grid, truth=orders.argsort(1))


@pytest.mark.parametrize(("grid", "fixed"), [((3, 3), 0), ((3, 3), 2), ((2, 5), 1), ((4, 4), 1)])
@pytest.mark.parametrize("placed", [False, True])
def test_probabilities_of_all_actions_sum_to_one(grid, fixed, placed):
    puzzles = random_puzzles(*grid, count=2)
    puzzles.fixed[1, 1 : 1 + fixed] = True
    if placed:
        puzzles = with_place(puzzles)
    actor = wild()
    boards, _ = random_boards(puzzles, 1)
    actions = all_actions(puzzles, 1)
    which = torch.ones(len(actions), dtype=torch.long)
    with torch.no_grad():
        plan = actor(puzzles, boards.expand(len(actions), -1), which)
        log_p, entropy = actor.log_prob(plan, actions)
        assert float(log_p.double().exp().sum()) == pytest.approx(1.0, abs=1e-4)
        assert (entropy >= 0).all()
        one = actor(puzzles, boards, torch.tensor([1]))
        drawn = actor.sample(one, 4000, torch.Generator().manual_seed(0))
    assert legal(puzzles, torch.ones(4000, dtype=torch.long), drawn[0]).all()
    known = {tuple(a): float(p) for a, p in zip(actions.tolist(), log_p, strict=True)}
    share: dict[tuple[int, ...], float] = {}
    for action in drawn[0].tolist():
        share[tuple(action)] = share.get(tuple(action), 0.0) + 1 / 4000
    for action, p in known.items():  # drawn as often as they say, within five standard errors
        p = np.exp(p)
        assert abs(share.get(action, 0.0) - p) < 5 * np.sqrt(p * (1 - p) / 4000) + 1e-3


def test_an_actor_without_opinion_follows_the_gain():
    puzzles = random_puzzles(3, 4, count=1)
    boards, which = random_boards(puzzles, 1)
    actor = Actor(CONFIG)
    with torch.no_grad():
        plan = actor(puzzles, boards, which)
        swaps = [a for a in all_actions(puzzles).tolist() if a[0] == SWAP_2]
        many = torch.tensor(swaps)
        wide = actor(puzzles, boards.expand(len(many), -1), which.expand(len(many)))
        log_p, _ = actor.log_prob(wide, many)
        gain = gains.swap_gain(puzzles, boards, which, gains.fits(puzzles, boards, which))[0]
        gain = gain[many[:, 1], many[:, 2]]
        want = (gain * actor.scale[0, 0].exp()).log_softmax(0) + plan.types[0, SWAP_2]
    torch.testing.assert_close(log_p, want, atol=1e-4, rtol=1e-4)


def test_prior_moves_the_types():
    puzzles = random_puzzles(4, 4, count=1)
    boards, which = random_boards(puzzles, 1)
    actor = Actor(CONFIG)
    with torch.no_grad():
        early = actor(puzzles, boards, which, torch.tensor(type_prior(0.0, 2.0))).types.exp()[0]
        late = actor(puzzles, boards, which, torch.tensor(type_prior(1.0, 2.0))).types.exp()[0]
    assert early[SWAP_PUZZLET] > early[SWAP_3] > early[SWAP_2]
    torch.testing.assert_close(late, torch.full((3,), 1 / 3))


def test_where_nothing_can_be_done_nothing_is():
    puzzles = random_puzzles(2, 2, count=1)
    puzzles.fixed[:] = True
    boards, which = random_boards(puzzles, 1)
    agent = Agent(wild(), Critic(CONFIG), SMALL)
    step = agent.step(puzzles, boards, which, None, torch.Generator().manual_seed(0))
    assert torch.equal(step.boards, boards)
    assert (step.action[:, 0] == -1).all()


def test_pooled_features_are_read():
    puzzles = random_puzzles(3, 3, count=1)
    boards, which = random_boards(puzzles, 1)
    pooled = torch.randn(1, 10, 5)
    actor = wild(pooled=5)
    with torch.no_grad():
        plain = actor(puzzles, boards, which).types
        seeing = actor(replace(puzzles, pooled=pooled), boards, which).types
    assert not torch.allclose(plain, seeing)


def test_state_says_what_it_should():
    puzzles = with_place(random_puzzles(3, 4, count=2))
    assert puzzles.place is not None
    boards, which = random_boards(puzzles, 3)
    state = observe(puzzles, boards, which)
    assert state.cells.shape == (3, 12, CELL)
    assert state.glob.shape == (3, GLOBAL)
    cell, p = 5, int(which[0])
    x, right, below = (int(boards[0, k]) for k in (cell, cell + 1, cell + 4))
    at = puzzles.at[p]
    assert float(state.cells[0, cell, 1]) == pytest.approx(float(at[1, x, right]) / 4, abs=1e-5)
    assert float(state.cells[0, cell, 2]) == pytest.approx(float(at[2, x, below]) / 4, abs=1e-5)
    y = int(boards[0, cell + 5])
    block = at[1, x, right] + at[1, below, y] + at[2, x, below] + at[2, right, y]
    assert float(state.cells[0, cell, 8]) == pytest.approx(float(block) / 16, abs=1e-5)
    assert float(state.cells[0, cell + 5, 11]) == pytest.approx(float(block) / 16, abs=1e-5)
    assert state.cells[0, 11, 8:11].tolist()[0] == 0.0  # the last cell is no block's top left
    corner = int(boards[0, 0])
    rim = float(puzzles.border[p, 0, corner])
    assert float(state.cells[0, 0, 4]) == pytest.approx(rim / 4, abs=1e-5)
    assert float(state.cells[0, cell, 4]) == 0.0
    place = float(puzzles.place[p, x, cell])
    assert float(state.cells[0, cell, 16]) == pytest.approx(place / 4, abs=1e-5)
    bare = observe(replace(puzzles, place=None), boards, which)
    assert (bare.cells[..., 16:18] == 0).all()
    more = observe(puzzles, boards, which, puzzlet=torch.ones(3, 12), whole=torch.ones(3))
    assert (more.cells[..., 12:16] != state.cells[..., 12:16]).any()
    assert more.glob[0, 4:6].tolist() == [0.25, 1.0]


def test_place_evidence_finds_the_truth():
    for grid, top1 in (((4, 5), 0.95), ((7, 10), 0.9)):
        puzzles = synthetic(grid, top1)
        assert puzzles.truth is not None
        place = place_evidence(puzzles)
        cells = puzzles.layout.cells
        assert place.shape == (4, cells + 1, cells + 1)
        best = place[:, :-1, :-1].argmax(2)  # (P, piece)
        want = puzzles.truth.argsort(1)
        assert (best == want).float().mean() > 0.95
        assert place.amax() <= np.log(cells) + 1e-4
    with pytest.raises(SherdError, match="rounds"):
        PlaceParams(rounds=1)


def test_place_evidence_of_nothing_says_nothing():
    zero = torch.zeros(1, 12, 12)
    place = place_evidence(from_tensors(zero, zero, None, (3, 4)))
    assert place.abs().max() < 0.3


def test_untrained_critic_prefers_evidence_and_soft_update_moves_it():
    puzzles = synthetic((5, 5), 0.95)
    assert puzzles.truth is not None
    which = torch.arange(4)
    critic = Critic(CONFIG)
    mixed = shuffle(puzzles.truth, ~puzzles.fixed, torch.Generator().manual_seed(0))
    right = evaluate(critic, puzzles, puzzles.truth, which)
    assert (right > evaluate(critic, puzzles, mixed, which) + 0.1).all()
    torch.testing.assert_close(right, evaluate(critic, puzzles, puzzles.truth, which, chunk=3))
    evaluator = copy.deepcopy(critic)
    with torch.no_grad():
        critic.line.bias += 1.0
    soft_update(evaluator, critic, 0.25)
    assert evaluator.line.bias.item() == pytest.approx(critic.line.bias.item() - 0.75)
    assert not torch.equal(right, evaluate(critic, puzzles, puzzles.truth, which, value=0.0))
    assert value_scale(puzzles.layout, 0.998) == pytest.approx((20 + 8 - 1) / 0.002)


def test_how_right_a_board_is_adds_up_as_the_reward_does():
    """With certain answers the critic's expectation is the reward itself, without the bonus."""
    puzzles = synthetic((3, 4), 0.9)
    assert puzzles.truth is not None
    boards, which = random_boards(puzzles, 6)
    boards = torch.cat([boards, puzzles.truth[which][:2]])
    which = torch.cat([which, which[:2]])
    sure = which_right(puzzles, boards, which).float()
    counts = count_right(puzzles, boards, which)
    assert torch.equal(sure[..., 0].sum(1), counts.in_place.float())
    assert torch.equal(sure[..., 1:].sum((1, 2)), counts.pairs.float())
    critic = Critic(CONFIG)
    critic.right = _Says(40.0 * sure - 20.0)  # type: ignore[assignment]
    answer = critic(observe(puzzles, boards, which), puzzles.layout)
    plain = counts.reward() - 1000.0 * counts.perfect
    torch.testing.assert_close(answer.right, plain / best_reward(puzzles.layout))
    assert answer.right[-1] == pytest.approx(1.0)


class _Says(torch.nn.Module):
    """Answers what it was told to."""

    def __init__(self, answer: torch.Tensor) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.answer


def test_evolution_beats_its_founders():
    puzzles = with_place(synthetic((5, 5), 0.9))
    boards, which = random_boards(puzzles, 6)
    g = torch.Generator().manual_seed(0)
    actor, critic = Actor(CONFIG), Critic(CONFIG)
    with torch.no_grad():
        proposed = actor.sample(actor(puzzles, boards, which), 24, g)

    def judge(states, owner):
        return evaluate(critic, puzzles, states, owner)

    single = torch.stack([judge(apply(puzzles.layout, boards, a), which)
                          for a in proposed.unbind(1)], 1).amax(1)  # fmt: skip
    found = Evolution(SMALL).run(puzzles, boards, which, proposed, None, judge, g)
    assert (found.value >= single - SMALL.shorter - 1e-5).all()
    assert (found.value > single + 1e-3).any()
    assert legal(puzzles, which, found.action).all()
    assert found.history.shape == (6, 4, 3, 4)
    after = apply(puzzles.layout, boards, found.action)
    # the best sequence's rest is in the history: it still leads to the value that was promised
    end = final_boards(puzzles, after, found.history)
    value = judge(end, which.repeat_interleave(4)).reshape(6, 4)[:, 0]
    torch.testing.assert_close(value, found.value, atol=1e-3, rtol=0)


def packed(genomes: torch.Tensor) -> torch.Tensor:
    return pack(genomes, genomes[..., 0] >= 0)[0]


def test_offspring_are_legal_and_of_many_kinds():
    puzzles = random_puzzles(4, 5, count=2)
    puzzles.fixed[1, 7] = True
    boards, which = random_boards(puzzles, 2)
    which = torch.tensor([0, 1])
    g = torch.Generator().manual_seed(0)
    actor = Actor(CONFIG)
    evolution = Evolution(replace(SMALL, population=400))
    with torch.no_grad():
        proposed = actor.sample(actor(puzzles, boards, which), 24, g)
    parents, _ = evolution._founders(proposed, None, g)
    dice = throw(2, 400, 400, 3, 0.6, puzzles.layout, proposed, g)
    children, length = breed(puzzles, which, parents, dice.generation(1), 24)
    flat, owner = children.reshape(-1, 4), which.repeat_interleave(400 * 3)
    used = flat[:, 0] >= 0
    assert legal(puzzles, owner[used], flat[used]).all()
    assert set(flat[used][:, 0].tolist()) == {0, 1, 2}
    assert torch.equal(packed(children), children)
    lengths = (children[..., 0] >= 0).sum(2)
    assert torch.equal(lengths, length)
    assert set(lengths.flatten().tolist()) >= {1, 2, 3}
    new = {tuple(a) for a in flat[used].tolist()} - {
        tuple(a) for a in proposed.reshape(-1, 4).tolist()
    }
    assert len(new) > 100  # mutation goes beyond what the actor proposed


def test_packing_and_history_of_empty_sequences():
    genome = torch.tensor([[[-1, 0, 0, 0], [0, 1, 2, -1], [-1, 3, 3, 3], [1, 1, 2, 3]]])
    assert packed(genome)[0, :2].tolist() == [[0, 1, 2, -1], [1, 1, 2, 3]]
    for bad in ({"parents": 99}, {"length": 0}, {"crossover": 2.0}, {"history": -1}):
        with pytest.raises(SherdError):
            EvolutionParams(**bad)


@pytest.mark.parametrize("placed", [False, True])
def test_the_agent_gets_far_from_random_boards(placed):
    puzzles = synthetic((3, 4), 0.97)
    assert puzzles.truth is not None
    if placed:
        puzzles = with_place(puzzles)
    boards, which = random_boards(puzzles, 4)
    which = torch.arange(4)
    first = gains.score(puzzles, boards, which)
    g = torch.Generator().manual_seed(0)
    agent = Agent(Actor(CONFIG), Critic(CONFIG), SMALL)
    solved = torch.zeros(4, dtype=torch.bool)
    history = None
    for _ in range(20):
        step = agent.step(puzzles, boards, which, history, g)
        boards, history = step.boards, step.history
        solved |= count_right(puzzles, boards, which).perfect
    if placed:
        assert solved.sum() >= 3
    true = gains.score(puzzles, puzzles.truth, which)
    way = (gains.score(puzzles, boards, which) - first) / (true - first)
    assert way.mean() > 0.5  # without places, boards end up shifted


def test_chains_end_when_enough_of_them_agree(monkeypatch):
    """All find the truth of clear evidence: as many are played as must agree."""
    networks, puzzle = Networks(CONFIG), synthetic((2, 2), 0.999, count=1)

    def played(**params: object) -> int:
        how = SolveParams(place=False, evolution=replace(SMALL, generations=8), **params)
        generator = torch.Generator().manual_seed(0)
        return len(
            reassemble(networks, puzzle, torch.arange(4), how, generator, lambda *_: False)[0]
        )

    assert played() == 4
    assert played(alike=(1, 1)) == 1
    assert played(alike=(9, 9)) == SolveParams().chains
    monkeypatch.setattr("sherd.agent.solve.SMALL", 3)  # four cells are a large board now
    assert played() == 2
    with pytest.raises(SherdError, match="alike"):
        SolveParams(alike=(4, 0))


def test_bad_sizes():
    for bad in ({"width": 0}, {"width": 10, "heads": 3}, {"pooled": -1}, {"layers": True}):
        with pytest.raises(SherdError):
            AgentConfig(**bad)
    with pytest.raises(SherdError, match="unknown key 'wdth'"):
        AgentConfig.from_dict({"wdth": 3}, "agent.json")
