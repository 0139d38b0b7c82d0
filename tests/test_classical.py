"""Evidence without a net: seam features, their weights, synthetic evidence, confidence."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sherd import Evidence, Puzzle, SherdError
from sherd.perception.classical import (
    SOFTEN,
    WEIGHTS,
    classical_evidence,
    log_features,
    weights_at,
)
from sherd.perception.confidence import confidence
from sherd.perception.dissimilarity import lab
from sherd.perception.seams import FEATURES, edge_profiles, seam_features
from sherd.perception.synthetic import synthetic_evidence
from sherd.puzzle import EMPTY, identity_board, pairs
from sherd.train import seams

# --- seam features ------------------------------------------------------------------------------


def slow_features(a: np.ndarray, b: np.ndarray) -> list[float]:
    """Features of the right side of ``a`` against the left side of ``b``, (H, W, 3) L*a*b*."""
    height, width = a.shape[:2]
    inner = min(1, width - 1)
    step, predict, robust, shift, slope = 0.0, 0.0, 0.0, 0.0, 0.0
    for y in range(height):
        reach = [
            sum(abs(float(a[y, -1, c] - b[s, 0, c])) for c in range(3))
            for s in range(y - 2, y + 3)
            if 0 <= s < height
        ]
        shift += min(reach)
        for c in range(3):
            x, z = float(a[y, -1, c]), float(b[y, 0, c])
            out_a, out_b = x - float(a[y, -1 - inner, c]), z - float(b[y, inner, c])
            step += abs(x - z)
            predict += (abs(x + out_a - z) + abs(z + out_b - x)) / 2
            robust += (abs(x - z) + 1e-3) ** 0.25
            slope += abs(out_a + out_b)
    return [v / (3 * height) for v in (step, predict, robust, shift, slope)]


@settings(max_examples=20)
@given(st.integers(1, 7), st.integers(1, 5), st.integers(0, 1000))
def test_seam_features_equal_slow_loops(height: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pieces = rng.integers(0, 256, (4, height, width, 3), dtype=np.uint8)
    pieces[1] = pieces[0]
    got = np.exp(log_features(pieces).astype(np.float64)) - SOFTEN
    assert got.shape == (2, len(FEATURES), 4, 4)
    colours = lab(pieces)
    turned = colours.transpose(0, 2, 1, 3)  # its right side is the bottom
    for i, j in product(range(4), range(4)):
        assert got[0, :, i, j] == pytest.approx(
            slow_features(colours[i], colours[j]), rel=1e-3, abs=1e-3
        )
        assert got[1, :, i, j] == pytest.approx(
            slow_features(turned[i], turned[j]), rel=1e-3, abs=1e-3
        )


def test_each_feature_is_small_where_it_should_be() -> None:
    """A ramp continues: prediction, not the step, vanishes; a slipped edge costs no shift."""
    ramp = np.arange(12.0, dtype=np.float32)[None, :, None] * np.ones((6, 1, 3), np.float32)
    (_, right, _, left) = edge_profiles(np.stack([ramp[:, :6], ramp[:, 6:]]))
    out = np.empty((5, 2, 2), np.float32)
    seam_features(*right, *left, out)
    step, predict, _, _, slope = out[:, 0, 1]
    assert step == pytest.approx(1.0)
    assert predict == pytest.approx(0.0, abs=1e-6)
    assert slope == pytest.approx(0.0, abs=1e-6)
    edge = np.zeros((2, 10, 3, 3), np.float32)
    edge[0, 4:] = edge[1, 6:] = 50.0
    (_, right, _, left) = edge_profiles(edge)
    seam_features(*right, *left, out)
    assert out[0, 0, 1] == pytest.approx(10.0)  # two of ten pixels differ by 50
    assert out[3, 0, 1] == pytest.approx(0.0, abs=1e-6)


# --- weights and evidence -----------------------------------------------------------------------


def test_weights_at_the_knots_and_between() -> None:
    for gap, row in WEIGHTS.items():
        assert weights_at(gap) == pytest.approx(row)
    assert weights_at(None) == pytest.approx(WEIGHTS[2])
    assert weights_at(500) == pytest.approx(WEIGHTS[48])
    low, high = np.array(WEIGHTS[4]), np.array(WEIGHTS[8])
    t = np.log(7 / 5) / np.log(9 / 5)
    assert weights_at(6) == pytest.approx(low + t * (high - low))


def test_evidence_does_not_depend_on_the_order_of_the_pieces(small: Puzzle) -> None:
    order = np.random.default_rng(3).permutation(small.n)
    one, two = (
        classical_evidence(small).reordered(order),
        classical_evidence(small.reordered(order)),
    )
    assert one.h == pytest.approx(two.h, abs=1e-4)
    assert one.v == pytest.approx(two.v, abs=1e-4)


def test_evidence_depends_on_the_gap(small: Puzzle) -> None:
    wide = Puzzle(small.pieces, small.grid, 24)
    assert np.abs(classical_evidence(small).h - classical_evidence(wide).h).max() > 0.1


def test_seams_of_a_photograph_name_their_neighbours(small: Puzzle) -> None:
    evidence = classical_evidence(small)
    assert small.truth is not None
    hits = []
    for m, pair in zip((evidence.h, evidence.v), pairs(small.truth), strict=True):
        hits += (m[pair[:, 0]].argmax(axis=1) == pair[:, 1]).tolist()
    assert np.mean(hits) > 0.8  # chance is 1 in 11


def test_flat_pieces_give_no_evidence() -> None:
    puzzle = Puzzle(np.full((6, 5, 5, 3), 90, np.uint8), (2, 3), 0)
    evidence = classical_evidence(puzzle)
    off = ~np.eye(6, dtype=bool)
    assert np.abs(evidence.h[off]).max() < 1e-5
    assert np.abs(evidence.v[off]).max() < 1e-5


# --- synthetic evidence -------------------------------------------------------------------------


@pytest.mark.parametrize("top1", [0.3, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("grid", [(7, 10), (10, 12)])
def test_synthetic_evidence_is_as_good_as_asked(grid: tuple[int, int], top1: float) -> None:
    hits = []
    for seed in range(6):
        evidence = synthetic_evidence(grid, top1, np.random.default_rng(seed))
        for m, (i, j) in zip(
            (evidence.h, evidence.v), (p.T for p in pairs(identity_board(grid))), strict=True
        ):
            hits += (m[i].argmax(axis=1) == j).tolist() + (m[:, j].argmax(axis=0) == i).tolist()
    # Evidence averages the answers of both sides, which raises the share a little.
    assert top1 - 0.03 < np.mean(hits) < top1 + 0.08


def test_synthetic_evidence_of_a_plain_patch_says_nothing_within_it() -> None:
    grid, blank = (7, 10), 21
    off = ~np.eye(blank, dtype=bool)
    true, all_links = [], []
    for seed in range(6):
        evidence = synthetic_evidence(grid, 0.8, np.random.default_rng(seed), plain=0.3)
        for m, pair in zip((evidence.h, evidence.v), pairs(identity_board(grid)), strict=True):
            i, j = pair[(pair < blank).all(axis=1)].T
            true += m[i, j].tolist()
            all_links += m[:blank, :blank][off].tolist()
    assert np.mean(true) == pytest.approx(np.mean(all_links), abs=0.6)
    assert np.median(true) > 0  # plain among plain is likelier than chance …
    assert np.exp(max(all_links)) < 70 / 10  # … but none of the twenty stands out
    assert min(true) > -5  # and nothing speaks strongly against the true board


def test_synthetic_evidence_that_is_nearly_certain_or_nearly_chance() -> None:
    rng = np.random.default_rng(0)
    sure = synthetic_evidence((2, 1), 1 - 1e-9, rng)
    assert sure.v[0, 1] == pytest.approx(0.0, abs=1e-3)  # one candidate only: nothing to say
    sure = synthetic_evidence((4, 4), 1 - 1e-9, rng)
    i, j = pairs(identity_board((4, 4)))[0].T
    assert (sure.h[i].argmax(axis=1) == j).all()
    blind = synthetic_evidence((4, 4), 1e-3, rng)
    assert np.abs(blind.h[~np.eye(16, dtype=bool)]).max() < 1e-6


@pytest.mark.parametrize(("top1", "plain"), [(0.0, 0.0), (1.0, 0.0), (0.5, 1.0), (0.5, -0.1)])
def test_senseless_synthetic_evidence_is_refused(top1: float, plain: float) -> None:
    with pytest.raises(SherdError, match="top1"):
        synthetic_evidence((3, 3), top1, np.random.default_rng(0), plain=plain)


# --- confidence ---------------------------------------------------------------------------------


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 10_000),
    st.sampled_from([0.1, 1.0, 30.0]),
)
def test_confidence_is_a_probability(
    rows: int, cols: int, extra: int, seed: int, temperature: float
) -> None:
    rng = np.random.default_rng(seed)
    n = rows * cols + extra
    h, v = 5 * rng.normal(size=(2, n, n))
    evidence = Evidence(h, v, rng.normal(size=(4, n)) if seed % 2 else None)
    board = rng.permutation(n)[: rows * cols].reshape(rows, cols)
    board[rng.random(board.shape) < 0.2] = EMPTY
    got = confidence(evidence, board, temperature)
    assert got.shape == board.shape
    assert (got[board == EMPTY] == 0).all()
    assert (got >= 0).all()
    assert (got <= 1).all()
    # Over all pieces that might lie in a cell, the probabilities sum to 1.
    for cell in np.argwhere(board != EMPTY)[:2]:
        r, c = (int(x) for x in cell)
        near = [
            int(board[y, x])
            for y, x in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1))
            if 0 <= y < rows and 0 <= x < cols
        ]
        total = 0.0
        for piece in set(range(n)) - set(near):
            other = board.copy()
            other[r, c] = piece
            total += confidence(evidence, other, temperature)[r, c]
        assert total == pytest.approx(1.0)


def test_a_strong_board_is_trusted_and_a_wrong_piece_is_not() -> None:
    grid = (4, 5)
    truth = identity_board(grid)
    evidence = synthetic_evidence(grid, 0.999, np.random.default_rng(0))
    assert confidence(evidence, truth).min() > 0.9
    wrong = truth.copy()
    wrong[1, 1], wrong[2, 3] = truth[2, 3], truth[1, 1]
    got = confidence(evidence, wrong)
    assert max(got[1, 1], got[2, 3]) < 0.1
    assert got[0, 4] > 0.9  # far away nothing has changed


def test_flat_evidence_leaves_chance() -> None:
    n, grid = 12, (3, 4)
    evidence = Evidence(np.zeros((n, n)), np.zeros((n, n)), np.zeros((4, n)))
    got = confidence(evidence, identity_board(grid))
    neighbours = np.array([[2, 3, 3, 2], [3, 4, 4, 3], [2, 3, 3, 2]])
    assert got == pytest.approx(1 / (n - neighbours))  # a neighbour is no rival
    alone = np.full(grid, EMPTY)
    alone[1, 1] = 7
    assert confidence(evidence, alone)[1, 1] == pytest.approx(1 / n)


def test_the_rim_counts() -> None:
    border = np.zeros((4, 3))
    border[0, 1] = border[3, 1] = 3.0  # piece 1 belongs at the top left
    evidence = Evidence(np.zeros((3, 3)), np.zeros((3, 3)), border)
    board = np.array([[1, EMPTY], [EMPTY, 2]])
    got = confidence(evidence, board, temperature=1.0)
    assert got[0, 0] == pytest.approx(np.exp(6) / (np.exp(6) + 2))
    assert got[1, 1] == pytest.approx(1 / 3)


def test_temperature_takes_confidence_back() -> None:
    grid = (3, 3)
    evidence = synthetic_evidence(grid, 0.95, np.random.default_rng(1))
    means = [confidence(evidence, identity_board(grid), t).mean() for t in (0.5, 1, 4, 100)]
    assert means == sorted(means, reverse=True)
    assert means[-1] < 0.25


# --- fitting ------------------------------------------------------------------------------------

GRID = (3, 4)
TRUE = np.array([2.5, -1.0, 0.5, 1.5, 0.0])


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Features of the model that is fitted: a true pair's are tilted by exp(−w·x)."""
    monkeypatch.setattr(seams, "GRID", GRID)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2, 5, 12, 12))
    for d, pair in enumerate(pairs(identity_board(GRID))):
        x[:, d, :, pair[:, 0], pair[:, 1]] -= TRUE
    return x


def test_the_gradient_of_the_loss_is_the_difference_of_losses(planted: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    for _ in range(3):
        w = rng.normal(size=5)
        _, gradient, _ = seams.loss(w, planted[:3])
        for k, tiny in enumerate(1e-5 * np.eye(5)):
            up, down = seams.loss(w + tiny, planted[:3])[0], seams.loss(w - tiny, planted[:3])[0]
            assert gradient[k] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-7)


def test_the_loss_is_the_mean_surprise_at_the_true_neighbour(planted: np.ndarray) -> None:
    x, w = planted[:2], TRUE / 2
    surprise, hits = [], []
    for b, d in product(range(2), range(2)):
        logits = -np.tensordot(w, x[b, d], axes=1)
        for i, j in pairs(identity_board(GRID))[d]:
            for line, me, answer in ((logits[i], i, j), (logits[:, j], j, i)):
                others = np.delete(line, me)
                surprise.append(np.log(np.exp(others).sum()) - line[answer])
                hits.append(line[answer] == others.max())
    nats, _, top1 = seams.loss(w, x)
    assert nats == pytest.approx(np.mean(surprise))
    assert top1 == pytest.approx(np.mean(hits))


def test_weights_that_say_nothing_cost_chance(planted: np.ndarray) -> None:
    assert seams.loss(np.zeros(5), planted)[0] == pytest.approx(np.log(11))


def test_fit_finds_the_planted_weights(planted: np.ndarray) -> None:
    w = seams.fit(planted)
    assert np.array_equal(np.argsort(w), np.argsort(TRUE))
    assert w == pytest.approx(TRUE, abs=0.3)
    assert seams.loss(w, planted)[0] <= seams.loss(TRUE, planted)[0]
    assert seams.loss(w, planted)[1] == pytest.approx(np.zeros(5), abs=1e-3)


def test_features_of_photographs_are_those_of_their_pieces(
    photo: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seams, "GRID", GRID)
    monkeypatch.setattr(seams, "PIECE", 16)
    x = seams.features([photo, photo[:, ::-1]], 2)
    assert x.shape == (2, 2, 5, 12, 12)
    # Better than chance already with every feature weighed alike.
    assert seams.loss(np.ones(5), x)[2] > 0.5
