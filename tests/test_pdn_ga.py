"""PDN-GA: its networks, its lessons, and the two stages of its genetic algorithm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from skimage import data as pictures

from rival_cases import check_result, numbered, odd_puzzles, picture
from sherd import Geometry, Puzzle, SherdError, cut
from sherd.perception.evidence import quads
from sherd.perception.rivals.pdn import SYSTEM, Pdn, PdnConfig, Scores, _turned, load_pdn
from sherd.perception.rivals.pixels import to_squares
from sherd.perception.rivals.weights import LIMIT, save_rival
from sherd.solvers import MaxRounds
from sherd.solvers.pdn_ga import PdnGa, PdnGaParams, Puzzlets, Space, heirs, survivors
from sherd.solvers.pdn_ga_kernels import breed, cross, mutate
from sherd.train.losses import Grid
from sherd.train.pdn_ga import pair_loss, right_quads, wrong_quads

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = PdnConfig((4, 4, 4), (4, 4, 4), strip=4, seam=4, link=4, hidden=8)
FAST = PdnGaParams(population=16, offspring=32, pair_generations=3, puzzlet_generations=3)
CPU = torch.device("cpu")


def tiny(seed: int = 0) -> Pdn:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Pdn(TINY).eval()


# networks


def test_the_shipped_size_is_small_enough() -> None:
    net = Pdn(PdnConfig())
    assert 2 * sum(t.numel() for t in net.state_dict().values()) < LIMIT


def test_sides_are_read_in_order() -> None:
    x = torch.rand(2, 3, 8, 8)
    for side, rim in enumerate((x[..., 0, :], x[..., -1], x[..., -1, :], x[..., 0])):
        assert torch.equal(_turned(x, side)[..., 0], rim)


def test_shapes() -> None:
    net, squares, gap = tiny(), torch.rand(6, 3, 64, 64), torch.full((6,), 0.1)
    seen = net.pair.see(squares, gap)
    assert net.pair.pairs(seen, 0).shape == (1, 6, 6)
    assert net.pair.pairs(seen, 1, puzzles=2).shape == (2, 3, 3)
    assert net.pair.places(seen, 2).shape == (2, 3, 25)
    some = torch.tensor([[0, 1, 2, 3], [5, 4, 3, 2]])
    assert net.puzzlet.puzzlets(net.puzzlet.see(squares, gap), some).shape == (2,)


def test_fragments_are_normalised_over_their_puzzle() -> None:
    """Nothing is remembered of other puzzles, and the order of the fragments is no matter."""
    net, squares, gap = tiny(), torch.rand(6, 3, 64, 64), torch.full((6,), 0.1)
    assert not list(net.buffers())
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    with torch.no_grad():
        table = net.pair.pairs(net.pair.see(squares, gap), 0)[0]
        other = net.pair.pairs(net.pair.see(squares[order], gap), 0)[0]
    assert torch.allclose(other, table[order][:, order], atol=1e-4)


def test_scores_are_the_networks_own() -> None:
    pieces = np.random.default_rng(0).integers(0, 256, (5, 20, 24, 3)).astype(np.uint8)
    net = tiny()
    scores = Scores(net, pieces, 3)
    x = to_squares(torch.from_numpy(pieces).permute(0, 3, 1, 2).float() / 255.0)
    gap = torch.full((5,), 3 / 24)
    with torch.no_grad():
        seen = net.pair.see(x, gap)
        for table, d in ((scores.right, 0), (scores.below, 1)):
            assert np.allclose(table, net.pair.pairs(seen, d)[0].sigmoid(), atol=1e-5)
        assert np.allclose(scores.place.sum(1), 1.0, atol=1e-5)
        some = np.array([[0, 1, 2, 3], [4, 3, 2, 0], [1, 0, 4, 2]])
        wanted = net.puzzlet.puzzlets(net.puzzlet.see(x, gap), torch.from_numpy(some)).sigmoid()
    assert np.allclose(scores.puzzlets(some, chunk=2), wanted, atol=1e-5)
    assert scores.puzzlets(some[:0]).shape == (0,)


def test_weights_come_back(tmp_path) -> None:
    net = tiny(3)
    save_rival(tmp_path / "pdn_ga", SYSTEM, net, TINY, {"step": 7})
    found = load_pdn(tmp_path / "pdn_ga.json")
    assert found.net.cfg == TINY
    for name, tensor in found.net.named_parameters():
        assert torch.allclose(tensor, net.get_parameter(name), atol=1e-3)


# what is taught


def test_the_pair_loss_is_small_only_for_neighbours() -> None:
    grid = Grid.of((3, 4), CPU)
    true = (grid.after[:, :, None] == torch.arange(12)).float()[:, None].expand(-1, 2, -1, -1)
    assert float(pair_loss(20 * true - 10, grid, 3)) < 1e-3
    assert float(pair_loss(torch.zeros_like(true), grid, 3)) == pytest.approx(np.log(2))
    one = 20 * true - 10
    one[0, 0, 3, 7] = 10.0  # one wrong pair: the hardest carry half of the wrong ones' weight
    assert float(pair_loss(one, grid, 3)) > 10 / 264 * 0.5


@pytest.mark.parametrize("grid", [(2, 2), (2, 3), (4, 5)])
def test_wrong_puzzlets_are_wrong(grid: tuple[int, int]) -> None:
    n = grid[0] * grid[1]
    generator = torch.Generator().manual_seed(1)
    puzzle, right = right_quads(grid, 3, 1000, generator)
    assert len(right) == 3 * (grid[0] - 1) * (grid[1] - 1)
    true = {tuple(q) for q in right.tolist()}
    assert true == {tuple(q) for q in quads(np.arange(n).reshape(grid)).tolist()}
    wrong = wrong_quads(torch.randn(2, 3, n, n), puzzle, right, generator)
    assert wrong.shape == (len(right), 4, 4)
    chance = 0
    for k in range(len(right)):
        assert not {tuple(q) for q in wrong[k, :3].tolist()} & true
        chance += tuple(wrong[k, 3].tolist()) in true
        assert all(0 <= p < n for q in wrong[k].tolist() for p in q)
        if n > 4:
            assert [int((wrong[k, m] != right[k]).sum()) for m in (0, 1)] == [1, 1]
    assert chance <= len(right) // 3


# the genetic algorithm


class Fake:
    """Scores of a numbered puzzle by rules on names; ``names[i]`` is the true cell of piece i."""

    def __init__(self, puzzle: Puzzle, grid: tuple[int, int]) -> None:
        self.names = puzzle.pieces[:, 0, 0, 0].astype(int)
        n, cols = len(self.names), grid[1]
        a, b = self.names[:, None], self.names[None]
        self.right = np.where((b == a + 1) & (a % cols < cols - 1), 0.9, 0.02)
        self.below = np.where(b == a + cols, 0.9, 0.02)
        self.place = np.full((n, 25), 0.04)
        self.cols = cols
        self.asked: list[np.ndarray] = []

    def puzzlets(self, some: np.ndarray) -> np.ndarray:
        """1 if all four are right, else 0: no help to a board that is far from right."""
        self.asked.append(some)
        a, b, c, d = self.names[some].T if len(some) else np.zeros((4, 0), int)
        right = (b == a + 1) & (c == a + self.cols) & (d == c + 1) & (a % self.cols < self.cols - 1)
        return right.astype(np.float32)


class Trap(Fake):
    """Pair scores prefer opposite corners exchanged; 2×2 scores know better."""

    def __init__(self, puzzle: Puzzle, grid: tuple[int, int]) -> None:
        super().__init__(puzzle, grid)
        last = grid[0] * grid[1] - 1
        corners = (0, grid[1] - 1, last - grid[1] + 1, last)
        other = np.arange(last + 1)
        other[list(corners)] = [last - c for c in corners]
        for table in (self.right, self.below):
            truth = table > 0.5
            i, j = np.nonzero(truth)
            where = np.argsort(self.names)
            swapped = where[other[self.names[i]]], where[other[self.names[j]]]
            changed = (swapped[0] != i) | (swapped[1] != j)
            table[swapped[0][changed], swapped[1][changed]] = 0.97

    def puzzlets(self, some: np.ndarray) -> np.ndarray:
        """Wrong puzzlets score at random, up to nearly as much as right ones: a rugged land."""
        a, b, c, d = self.names[some].astype(np.int64).T if len(some) else np.zeros((4, 0), int)
        key = ((a * 31 + b) * 31 + c) * 31 + d
        noise = (key * 2654435761 % 2**32) / 2**32
        return np.maximum(super().puzzlets(some), 0.95 * noise).astype(np.float32)


class WithScores(PdnGa):
    def __init__(self, kind: type[Fake], params: PdnGaParams | None = None) -> None:
        super().__init__(params=params)
        self.kind = kind

    def perceive(self, puzzle: Puzzle) -> Fake:
        self.scores = self.kind(puzzle, puzzle.require_grid())
        return self.scores


@pytest.mark.parametrize("seed", [0, 1])
def test_both_stages_are_needed(seed: int) -> None:
    """Pairs alone are led astray, 2×2 scores alone find no way up."""
    puzzle = numbered((4, 4))
    both = WithScores(Trap).solve(puzzle, seed=seed)
    assert np.array_equal(both.board, puzzle.truth)
    assert both.score == pytest.approx(9.0)
    assert list(both.timings) == ["perception", "pairs", "puzzlets", "total"]
    for left_out in ("pair_generations", "puzzlet_generations"):
        params = replace(PdnGaParams(), **{left_out: 0})  # type: ignore[arg-type]
        alone = WithScores(Trap, params).solve(puzzle, seed=seed)
        assert not np.array_equal(alone.board, puzzle.truth), left_out


class Silent(Fake):
    """2×2 scores say nothing."""

    def puzzlets(self, some: np.ndarray) -> np.ndarray:
        return np.zeros(len(some), dtype=np.float32)


def test_the_first_stage_goes_by_pairs() -> None:
    puzzle = numbered((4, 4))
    assert np.array_equal(WithScores(Silent).solve(puzzle).board, puzzle.truth)


def test_the_second_population_is_mostly_the_first_ones_best() -> None:
    space, boards = genomes(numbered((4, 5)), 256)
    second = heirs(boards, PdnGaParams(), space, np.random.default_rng(1))
    assert np.array_equal(second[:230], boards[:230])
    assert second.shape == boards.shape
    assert not (second[230:, None] == boards[None]).all(2).any()


def test_generations_are_counted_over_both_stages() -> None:
    asked = MaxRounds(10**6)
    WithScores(Fake).solve(numbered((3, 3)), stop=asked)
    assert asked._seen == 20 + 40
    stop = MaxRounds(22)
    result = WithScores(Fake).solve(numbered((3, 3)), stop=stop)
    assert stop._seen == 22
    assert "puzzlets" in result.timings


class Placed(Fake):
    """Pairs say nothing, places all."""

    def __init__(self, puzzle: Puzzle, grid: tuple[int, int]) -> None:
        super().__init__(puzzle, grid)
        self.right[:] = self.below[:] = 0.5
        n = len(self.names)
        self.place = np.full((n, 25), 0.01)
        self.place[np.arange(n), self.names % 25] = 0.76


def test_places_count_on_5_by_5_alone() -> None:
    params = replace(PdnGaParams(), puzzlet_generations=0, pair_generations=40)
    board = WithScores(Placed, params).solve(numbered((5, 5))).board
    assert (board == np.arange(25).reshape(5, 5)).mean() > 0.7
    board = WithScores(Placed, params).solve(numbered((5, 6))).board
    assert (board == np.arange(30).reshape(5, 6)).mean() < 0.4


def test_repeated_scores_decay() -> None:
    scores = np.array([5.0, 9.0, 9.0, 9.0, 8.0, 1.0])
    # 9, 8, 9·0.9 = 8.1, 9·0.81 = 7.29
    assert survivors(scores, 4, 0.9).tolist() == [1, 2, 4, 3]
    assert survivors(scores, 4, 0.5).tolist() == [1, 4, 0, 2]
    assert survivors(scores, 3, 1.0).tolist() == [1, 2, 3]
    assert survivors(np.zeros(5), 3, 0.9).tolist() == [0, 1, 2]


def genomes(puzzle: Puzzle, count: int) -> tuple[Space, np.ndarray]:
    space = Space(puzzle)
    return space, space.random(count, np.random.default_rng(0))


@pytest.mark.parametrize("puzzle", odd_puzzles((3, 4)))
def test_children_are_boards(puzzle: Puzzle) -> None:
    space, parents = genomes(puzzle, 10)
    children = np.empty((300, parents.shape[1]), dtype=np.int32)
    rates = np.array([0.8, 0.2, 0.5])
    state = np.array([3], dtype=np.uint64)
    breed(parents, children, space.fixed, space.loose, space.position, 3, 4, rates, state)
    assert (np.sort(children, axis=1) == np.arange(parents.shape[1])).all()
    assert (children[:, space.fixed] == space.start[space.fixed]).all()
    if len(space.loose) > 2:
        assert len({c.tobytes() for c in children} - {p.tobytes() for p in parents}) > 100


def test_crossover_is_pmx_on_a_rectangle() -> None:
    """Unshifted: the child has the one parent's pieces in a rectangle, and is a permutation."""
    space, (one, two) = genomes(numbered((4, 5)), 2)
    state = np.array([1], dtype=np.uint64)
    for _ in range(50):
        child = two.copy()
        where = np.argsort(child).astype(np.int32)
        cross(one, child, where, space.fixed, space.position, 4, 5, 0.0, state)
        assert np.array_equal(where, np.argsort(child))
        same = (child == one).reshape(4, 5)
        other = (child == two).reshape(4, 5)
        inside = np.argwhere(same & ~other)
        if len(inside):
            (top, left), (bottom, right) = inside.min(0), inside.max(0)
            assert same[top : bottom + 1, left : right + 1].all()
        # mapped back: what the rectangle drove out went to where its own pieces had been
        moved = np.flatnonzero(child != two)
        assert set(child[moved]) == set(two[moved])


def test_mutations_move_two_or_three() -> None:
    space, (parent,) = genomes(numbered((4, 5)), 1)
    state = np.array([1], dtype=np.uint64)
    counts = []
    for _ in range(2000):
        child = parent.copy()
        mutate(child, np.argsort(child).astype(np.int32), space.loose, 0.2, state)
        counts.append(int((child != parent).sum()))
    assert set(counts) == {2, 3}
    assert 0.15 < np.mean(np.array(counts) == 2) < 0.25


@pytest.mark.parametrize("grid", [(3, 4), (5, 6)])
def test_puzzlet_scores_are_computed_once(grid: tuple[int, int]) -> None:
    puzzle = numbered(grid)
    fake = Fake(puzzle, grid)
    space, boards = genomes(puzzle, 40)
    fitness = Puzzlets(fake, space)
    n = puzzle.n
    assert len(fitness) == (n * (n - 1) * (n - 2) * (n - 3) if n <= 25 else 0)
    truth = np.arange(n, dtype=np.int32)[None]
    for some in (boards, truth, np.concatenate([truth, boards[:3]])):
        wanted = [fake.puzzlets(quads(space.board(g))).sum() for g in some]
        fake.asked.clear()
        assert np.allclose(fitness(some), wanted)
    assert sum(map(len, fake.asked)) == 0  # all of the last were known
    every = fitness._keys[fitness._keys >= 0]
    assert len(every) == len(set(every.tolist())) == len(fitness)


@pytest.mark.parametrize("puzzle", [*odd_puzzles((3, 4)), *odd_puzzles((5, 6))[:3]])
def test_the_contract_with_any_network(puzzle: Puzzle) -> None:
    one, two = (PdnGa(tiny(), FAST).solve(puzzle, seed=4) for _ in range(2))
    check_result(one, puzzle)
    assert np.array_equal(one.board, two.board)
    assert one.score == two.score
    assert all(s.score <= one.score for s in one.history)
    check_result(PdnGa(tiny(), FAST).solve(puzzle, stop=MaxRounds(1)), puzzle)


def test_thin_boards_have_the_first_stage_only() -> None:
    for grid in ((1, 1), (1, 5), (4, 1)):
        puzzle = cut(picture(1), Geometry(grid, (9, 12), 1)).puzzle
        result = PdnGa(tiny(), FAST).solve(puzzle)
        check_result(result, puzzle)
        assert "puzzlets" not in result.timings


@pytest.mark.parametrize(
    "change", [{"population": 1}, {"decay": 1.5}, {"pair_generations": -1}, {"crossover": -0.1}]
)
def test_bad_parameters_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(SherdError, match=next(iter(change))):
        replace(PdnGaParams(), **change)  # type: ignore[arg-type]


def test_without_weights_the_user_is_told(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sherd.perception.rivals.weights.FOLDER", tmp_path)
    with pytest.raises(SherdError, match=r"pdn_ga\.json: is missing"):
        load_pdn()


def test_the_shipped_networks_know_neighbours() -> None:
    found = load_pdn()
    puzzle = cut(np.asarray(pictures.astronaut()), Geometry((4, 4), (64, 64), 2)).puzzle
    scores = Scores(found.net, puzzle.pieces, 2)
    at = np.arange(16).reshape(4, 4)
    hits = []
    for table, first, second in (
        (scores.right, at[:, :-1], at[:, 1:]),
        (scores.below, at[:-1], at[1:]),
    ):
        m = table.copy()
        np.fill_diagonal(m, -1.0)
        hits.append((m.argmax(1)[first] == second).mean())
    assert sum(hits) > 1.0
    rng = np.random.default_rng(0)
    right = scores.puzzlets(quads(at)).mean()
    wrong = scores.puzzlets(quads(rng.permutation(16).reshape(4, 4))).mean()
    assert right > wrong + 0.2
    assert found.card["val"]["photo-gap2"]["top1"] > 0.3
