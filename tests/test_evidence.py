"""Evidence: one currency, whatever made it."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd import Evidence, SherdError
from sherd.perception.evidence import from_logits, limited
from sherd.puzzle import identity_board


def random_evidence(n: int, seed: int, border: bool = True) -> Evidence:
    rng = np.random.default_rng(seed)
    return Evidence(
        rng.normal(size=(n, n)),
        rng.normal(size=(n, n)),
        rng.normal(size=(4, n)) if border else None,
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Evidence, np.ndarray]:
    """Evidence and a board with holes; some pieces may not be placed."""
    rows, cols = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    cells, seed = rows * cols, draw(st.integers(0, 10_000))
    n = cells + draw(st.integers(0, 3))
    rng = np.random.default_rng(seed)
    board = rng.permutation(n)[:cells]
    board[rng.random(cells) < draw(st.sampled_from([0.0, 0.3]))] = -1
    return random_evidence(n, seed, draw(st.booleans())), board.reshape(rows, cols)


def slow_score(evidence: Evidence, board: list[list[int]]) -> float:
    rows, cols, total = len(board), len(board[0]), 0.0
    for r, c in product(range(rows), range(cols)):
        i = board[r][c]
        if i == -1:
            continue
        if c + 1 < cols and board[r][c + 1] != -1:
            total += float(evidence.h[i, board[r][c + 1]])
        if r + 1 < rows and board[r + 1][c] != -1:
            total += float(evidence.v[i, board[r + 1][c]])
        if evidence.border is not None:
            outside = (r == 0, c == cols - 1, r == rows - 1, c == 0)
            total += sum(float(evidence.border[s, i]) for s in range(4) if outside[s])
    return total


@given(cases())
def test_score_equals_the_slow_reference(case: tuple[Evidence, np.ndarray]) -> None:
    evidence, board = case
    wanted = slow_score(evidence, board.tolist())
    assert evidence.score(board) == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@given(cases(), st.integers(0, 10_000))
def test_score_does_not_depend_on_the_order_of_the_pieces(
    case: tuple[Evidence, np.ndarray], seed: int
) -> None:
    evidence, board = case
    order = np.random.default_rng(seed).permutation(evidence.n)
    new = np.append(np.argsort(order), -1)  # old piece -> new piece; an empty cell stays empty
    again = evidence.reordered(order)
    assert again.score(new[board]) == pytest.approx(evidence.score(board), rel=1e-9, abs=1e-9)


def test_reordering_takes_puzzlets_and_whole_boards_along() -> None:
    weights = np.arange(9.0) ** 2
    known = np.append(weights, -100.0)  # known[-1]: an empty cell
    evidence = Evidence(
        np.zeros((9, 9)),
        np.zeros((9, 9)),
        puzzlet=lambda q: known[q] @ np.array([1.0, 2.0, 3.0, 4.0]),
        board=lambda b: known[b].sum(axis=(1, 2)) + known[b[:, 0, 0]],
    )
    order = np.random.default_rng(1).permutation(9)
    new = np.append(np.argsort(order), -1)
    again = evidence.reordered(order)
    quads = np.array([[0, 1, 3, 4], [8, 7, -1, 2]])
    boards = np.stack([identity_board((3, 3)), identity_board((3, 3)).T])
    boards[1, 2, 2] = -1
    assert evidence.puzzlet is not None
    assert again.puzzlet is not None
    assert evidence.board is not None
    assert again.board is not None
    assert np.array_equal(again.puzzlet(new[quads]), evidence.puzzlet(quads))
    assert np.array_equal(again.board(new[boards]), evidence.board(boards))


@given(st.integers(2, 8), st.integers(0, 10_000), st.sampled_from([1e-6, 1e-4, 0.1]))
def test_logits_become_mean_log_ratios_of_both_answers(n: int, seed: int, floor: float) -> None:
    rng = np.random.default_rng(seed)
    right, below = 3 * rng.normal(size=(2, n, n))
    evidence = from_logits(right, below, floor=floor)
    for logits, got in ((right, evidence.h), (below, evidence.v)):
        for i, j in product(range(n), range(n)):
            if i == j:
                continue
            row = sum(math.exp(logits[i, k]) for k in range(n) if k != i)
            column = sum(math.exp(logits[k, j]) for k in range(n) if k != j)
            answers = [math.exp(logits[i, j]) / row, math.exp(logits[i, j]) / column]
            doubted = [(1 - floor) * p * (n - 1) + floor for p in answers]
            wanted = (math.log(doubted[0]) + math.log(doubted[1])) / 2
            assert got[i, j] == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_rows_and_columns_are_normalised() -> None:
    # Logits that depend on i − j only, in a ring: both answers to a pair are the same, so each
    # can be read off the evidence, and must be a distribution over the candidates.
    n, floor = 7, 1e-6
    ring = np.random.default_rng(0).normal(size=n)
    logits = ring[(np.arange(n)[:, None] - np.arange(n)) % n]
    h = from_logits(logits, logits, floor=floor).h.astype(np.float64)
    p = (np.exp(h) - floor) / (n - 1) / (1 - floor)
    np.fill_diagonal(p, 0)
    assert p.sum(axis=0) == pytest.approx(np.ones(n), rel=1e-4)
    assert p.sum(axis=1) == pytest.approx(np.ones(n), rel=1e-4)


def test_logits_that_say_nothing_are_no_evidence() -> None:
    evidence = from_logits(np.full((6, 6), -200.0), np.zeros((6, 6)))
    off = ~np.eye(6, dtype=bool)
    assert np.abs(evidence.h[off]).max() < 1e-6
    assert np.abs(evidence.v[off]).max() < 1e-6
    assert evidence.h[~off].max() < -5  # no piece is its own neighbour


@given(st.integers(1, 8), st.integers(0, 1000), st.floats(-1e4, 1e4))
def test_an_offset_of_all_logits_changes_nothing(n: int, seed: int, offset: float) -> None:
    right, below = np.random.default_rng(seed).normal(size=(2, n, n))
    one, two = from_logits(right, below), from_logits(right + offset, below - offset)
    assert one.h == pytest.approx(two.h, abs=1e-5)
    assert one.v == pytest.approx(two.v, abs=1e-5)


@given(
    st.integers(1, 6),
    st.lists(st.sampled_from([0.0, -np.inf, 1e4, -1e4, 1e30, -1e30, 700.0]), min_size=36),
)
def test_extreme_logits_give_finite_bounded_evidence(n: int, values: list[float]) -> None:
    logits = np.array(values[: n * n]).reshape(n, n)
    logits[:, 0] = np.maximum(logits[:, 0], -1e30)  # one candidate per side must be possible
    logits[0] = np.maximum(logits[0], -1e30)
    logits[-1, -2:] = np.maximum(logits[-1, -2:], -1e30)
    logits[-2:, -1] = np.maximum(logits[-2:, -1], -1e30)
    floor = 1e-4
    evidence = from_logits(logits, logits.T, floor=floor)
    for m in (evidence.h, evidence.v):
        assert np.isfinite(m).all()
        assert m.max() <= math.log(max(1, n - 1)) + 1e-5
        assert m.min() >= math.log(floor) - 1e-5
    assert evidence.h == pytest.approx(evidence.v.T)


def test_logits_are_not_changed_in_place() -> None:
    logits = np.ones((4, 4))
    from_logits(logits, logits)
    assert (logits == 1).all()


@pytest.mark.parametrize(
    "arguments",
    [
        {"h": np.zeros((3, 3)), "v": np.zeros((2, 2))},
        {"h": np.zeros((3, 2)), "v": np.zeros((3, 2))},
        {"h": np.full((3, 3), np.nan), "v": np.zeros((3, 3))},
        {"h": np.zeros((3, 3)), "v": np.full((3, 3), -np.inf)},
        {"h": np.zeros((3, 3)), "v": np.zeros((3, 3)), "border": np.zeros((3, 4))},
        {"h": np.zeros((3, 3)), "v": np.zeros((3, 3)), "border": np.full((4, 3), np.inf)},
    ],
)
def test_evidence_of_the_wrong_form_is_refused(arguments: dict[str, np.ndarray]) -> None:
    with pytest.raises(SherdError, match="evidence"):
        Evidence(**arguments)


def test_whose_fault_a_wrong_board_is() -> None:
    truth = identity_board((2, 3))
    h = np.zeros((6, 6))
    h[0, 1] = h[1, 2] = h[3, 4] = h[4, 5] = 1.0
    evidence = Evidence(h, np.zeros((6, 6)))
    worse = truth[:, ::-1]
    assert limited(evidence, truth, truth) is None
    assert limited(evidence, worse, truth) == "search"
    assert limited(Evidence(-h, -h), worse, truth) == "perception"
    tied = truth[::-1]  # the rows exchanged: the same pairs from left to right
    assert evidence.score(tied) == evidence.score(truth)
    assert limited(evidence, tied, truth) == "perception"
