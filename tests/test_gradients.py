"""Evidence of gradients, and how it joins the network's."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from skimage import data

from sherd.data.cutting import Geometry, cut
from sherd.errors import SherdError
from sherd.perception import gradients, neural
from sherd.perception.evidence import from_logits
from sherd.perception.gradients import RIDGE, gradient_distances, gradient_evidence
from sherd.perception.mppn.config import CLOSE, NEAR, SMALL, Calibration
from sherd.perception.mppn.weights import DEFAULT, Model, shipped_model
from sherd.puzzle import Puzzle, pairs
from sherd.solvers.erl_mpp import ErlMpp
from sherd.solvers.sherd import Sherd
from sherd.train import close


def photograph(gap: int, grid: tuple[int, int] = (6, 8), piece: int = 28) -> Puzzle:
    geometry = Geometry(grid, (piece, piece), gap)
    return cut(data.coffee(), geometry, fit="crop").puzzle.shuffled(np.random.default_rng(1))


def top_1(table: np.ndarray, links: np.ndarray) -> float:
    table = table.copy()
    np.fill_diagonal(table, -np.inf)
    return float((table[links[:, 0]].argmax(axis=1) == links[:, 1]).mean())


@pytest.mark.parametrize("gap", [0, 2, 9])
def test_distances_equal_the_formula(gap: int) -> None:
    x = np.random.default_rng(0).integers(0, 256, (5, 7, 6, 3)).astype(float)
    got = gradient_distances(torch.from_numpy(x), gap).numpy()
    back = min(gap + 1, 5)
    for i in range(5):
        for j in range(5):
            want = 0.0
            for a, b in ((x[i], x[j]), (x[j, :, ::-1], x[i, :, ::-1])):
                own = a[:, -1] - a[:, -1 - back]
                precision = np.linalg.inv(np.cov(own.T, bias=True) + RIDGE * np.eye(3))
                for k in range(7):
                    step = b[k, 0] - a[k, -1] - own.mean(axis=0)
                    want += step @ precision @ step
            assert got[i, j] == pytest.approx(want / 21, rel=1e-9)


@pytest.mark.parametrize("gap", [0, 2])
def test_true_neighbours_rank_first(gap: int) -> None:
    puzzle = photograph(gap)
    assert puzzle.truth is not None
    found = gradient_evidence(puzzle)
    right, below = pairs(puzzle.truth)
    least = 0.85 if gap == 0 else 0.5
    assert top_1(found.h, right) > least
    assert top_1(found.v, below) > least


def test_steps_are_held_against_steps_of_the_same_length() -> None:
    """With two pixels missing, steps of three pixels fit better than steps of one."""
    puzzle = photograph(2)
    assert puzzle.truth is not None
    x = torch.from_numpy(puzzle.pieces.astype(float))
    right, _ = pairs(puzzle.truth)
    near, far = (gradient_distances(x, gap)[right[:, 0], right[:, 1]] for gap in (0, 2))
    assert np.median(far) < np.median(near)


def test_brightness_of_all_pieces_changes_nothing() -> None:
    puzzle = photograph(0)
    pieces = (puzzle.pieces // 2).astype(np.uint8)
    dark, bright = (gradient_evidence(replace(puzzle, pieces=pieces + k)) for k in (0, 100))
    np.testing.assert_allclose(dark.h, bright.h, atol=1e-4)


def test_identical_pieces_are_no_infinite_evidence() -> None:
    found = gradient_evidence(Puzzle(np.full((4, 8, 8, 3), 200, dtype=np.uint8), (2, 2), gap=0))
    np.testing.assert_allclose(found.h[~np.eye(4, dtype=bool)], 0.0, atol=1e-6)


def test_pieces_one_pixel_wide() -> None:
    pieces = np.random.default_rng(0).integers(0, 256, (4, 1, 1, 3), dtype=np.uint8)
    assert np.isfinite(gradient_evidence(Puzzle(pieces, (2, 2), gap=3)).h).all()


def test_an_unknown_gap_is_an_error() -> None:
    with pytest.raises(SherdError, match="gap of the puzzle is not known"):
        gradient_evidence(replace(photograph(0), gap=None))


def test_gradients_join_where_the_gap_is_known_and_small() -> None:
    c = Calibration(pair=1.1, close=0.9, gradient=0.5)
    assert c.close_up(NEAR, 64) == pytest.approx((0.9, 0.5, False))
    assert c.close_up(NEAR + 1, 64) is None
    assert c.close_up(None, 64) is None
    assert Calibration().close_up(0, 64) is None
    tilted = replace(c, gradient_slope=-1.0, close_side=1.0)
    assert tilted.close_up(0, 32) == pytest.approx((0.45, 2.5, False))


def test_small_pieces_have_figures_of_their_own() -> None:
    c = Calibration(close=0.9, gradient=0.5, fine=0.7, fine_gradient=0.3, fine_slope=1.0)
    assert c.close_up(0, SMALL) == pytest.approx((0.9, 0.5, False))
    assert c.close_up(0, SMALL - 1) == pytest.approx((0.14, 0.3, True))
    assert c.close_up(CLOSE + 1, SMALL - 1) is None
    others = replace(c, fine_gradient=0.0)
    assert others.close_up(0, SMALL - 1) == c.close_up(0, SMALL)


def test_changes_along_the_seam_have_their_share() -> None:
    """0.4 of the logarithms are of steps across it, 0.6 of changes along it, over 3 px."""
    puzzle = photograph(1)
    assert puzzle.truth is not None
    x = torch.from_numpy(puzzle.pieces.astype(float))
    x -= x.mean()
    steps = gradient_distances(x, 1).numpy()
    changes = gradient_distances(x[:, 3:] - x[:, :-3], 1).numpy()
    logits = -5.0 * (0.4 * np.log(steps + 0.02) + 0.6 * np.log(changes + 0.02))
    want = from_logits(logits, logits).h
    np.testing.assert_allclose(gradient_evidence(puzzle, along=True).h, want, atol=1e-4)
    thin = replace(puzzle, pieces=np.ascontiguousarray(puzzle.pieces[:, :1]))
    got, plain = (gradient_evidence(thin, along=a).h for a in (True, False))
    np.testing.assert_array_equal(got, plain)  # nothing changes along one pixel


@pytest.mark.parametrize(("field", "value"), [("close", 0.0), ("gradient", -0.1)])
def test_wrong_figures_are_refused(field: str, value: float) -> None:
    with pytest.raises(SherdError, match=f"calibration.{field}"):
        Calibration(**{field: value})


@pytest.fixture
def model() -> Model:
    found = shipped_model()
    figures = {"close": 0.8, "gradient": 0.4, "fine": 0.7, "fine_gradient": 0.3}
    return replace(found, calibration=replace(found.calibration, **figures))


@pytest.mark.parametrize("piece", [28, 56])
def test_the_network_and_gradients_together(
    model: Model, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neural, "shipped_fringe", lambda _: None)
    puzzle = photograph(2, (2, 3), piece)
    with torch.inference_mode():
        logits, _, _ = neural.look(puzzle, model, neural.CANDIDATES)
    both = model.calibration.close_up(2, piece)
    assert both is not None
    assert both.along == (piece < SMALL)
    steps = gradient_evidence(puzzle, along=both.along)
    logits = logits / both.temperature + both.weight * np.stack([steps.h, steps.v])
    want = from_logits(logits[0], logits[1])
    got = neural.observe(puzzle, model, close=True, threads=1).pairs
    np.testing.assert_allclose(got.h, want.h, atol=1e-4)
    np.testing.assert_allclose(got.v, want.v, atol=1e-4)


def test_pieces_with_holes_and_unknown_gaps_are_left_to_the_network(model: Model) -> None:
    puzzle = photograph(2, (2, 3))
    holes = replace(puzzle, mask=np.ones(puzzle.pieces.shape[:3], dtype=bool))
    for other in (holes, replace(puzzle, gap=None)):
        with_them, without = (
            neural.observe(other, model, close=g, threads=1).pairs.h for g in (True, False)
        )
        np.testing.assert_array_equal(with_them, without)


def test_the_papers_agent_sees_by_the_network_alone(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def spy(puzzle: Puzzle, *, along: bool) -> object:
        asked.append(puzzle)
        return gradients.gradient_evidence(puzzle, along=along)

    monkeypatch.setattr(neural, "gradient_evidence", spy)
    puzzle = photograph(2, (2, 3))
    ErlMpp(model).look(puzzle)
    assert not asked
    Sherd(model).look(puzzle)
    assert len(asked) == 1


def test_the_fit_asks_both_sides_as_the_search_does() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (2, 7, 7))
    want = from_logits(logits[0], logits[1])
    got = close.both_ways(torch.from_numpy(logits)).numpy() + np.log(6)
    off = ~np.eye(7, dtype=bool)
    np.testing.assert_allclose(got[0][off], want.h[off], atol=1e-5)
    np.testing.assert_allclose(got[1][off], want.v[off], atol=1e-5)


def test_the_fit_trusts_who_is_right() -> None:
    truth = torch.tensor([[0, 1], [1, 2], [2, 3]])
    right = torch.zeros(2, 5, 5)
    right[:, truth[:, 0], truth[:, 1]] = 3.0
    noise = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(0))
    at = torch.tensor([1.0, 0.0, 0.0])
    by_gradients = close.fit([[close.Sample(at, noise, right, (truth, truth))]])
    by_network = close.fit([[close.Sample(at, right, noise, (truth, truth))]])
    assert by_gradients[1, 0] > by_gradients[0, 0]
    assert by_network[0, 0] > by_network[1, 0]


CLOSE_FIGURES = {f"{a}{b}" for a in ("close", "gradient") for b in ("", "_slope", "_side")}
FINE_FIGURES = {f"fine{a}{b}" for a in ("", "_gradient") for b in ("", "_slope")}


@pytest.mark.parametrize(("small", "names"), [(False, CLOSE_FIGURES), (True, FINE_FIGURES)])
def test_the_command_rewrites_its_own_figures_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool, names: set[str]
) -> None:
    for suffix in (".json", ".safetensors"):
        shutil.copy(DEFAULT.with_suffix(suffix), tmp_path)
    before = json.loads((tmp_path / "mppn.json").read_text())
    monkeypatch.setattr(close, "some_photos", lambda *_: [])
    monkeypatch.setattr(close, "puzzles", lambda cutting, gap, _: [photograph(gap, (2, 3))])
    close.run(tmp_path, tmp_path, photos=1, small=small)
    after = json.loads((tmp_path / "mppn.json").read_text())
    changed = {k for k, v in after["calibration"].items() if before["calibration"].get(k) != v}
    assert changed <= names
    assert changed
    assert {k: v for k, v in after.items() if k != "calibration"} == {
        k: v for k, v in before.items() if k != "calibration"
    }
