"""The fringe network, and how it joins the evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from skimage import data

from sherd.data.cutting import Geometry, cut
from sherd.errors import SherdError
from sherd.perception import neural
from sherd.perception.evidence import Evidence
from sherd.perception.fringe import (
    SYSTEM,
    WIDE,
    Fringe,
    FringeConfig,
    add_fringe,
    load_fringe,
    shipped_fringe,
    standing,
)
from sherd.perception.mppn.config import CLOSE, NEAR
from sherd.perception.mppn.weights import shipped_model
from sherd.perception.rivals.weights import file_stem, save_rival
from sherd.puzzle import Puzzle, pairs
from sherd.solvers.erl_mpp import ErlMpp
from sherd.solvers.sherd import Sherd

pytestmark = pytest.mark.usefixtures("one_thread")


def photograph(gap: int, grid: tuple[int, int] = (8, 12), piece: int = 28) -> Puzzle:
    geometry = Geometry(grid, (piece, piece), gap)
    return cut(data.coffee(), geometry, fit="crop").puzzle.shuffled(np.random.default_rng(1))


def nats(evidence: Evidence, puzzle: Puzzle) -> float:
    """Mean cross-entropy of the true neighbours, asked from both sides."""
    assert puzzle.truth is not None
    found = []
    for table, link in zip((evidence.h, evidence.v), pairs(puzzle.truth), strict=True):
        for t, asked, answer in ((table, *link.T), (table.T, *link.T[::-1])):
            z = torch.from_numpy(np.array(t)).double()
            z.fill_diagonal_(-1e9)
            found.append(-z.log_softmax(1)[asked, answer].mean())
    return float(torch.stack(found).mean())


@pytest.fixture
def trained() -> Fringe:
    found = shipped_fringe()
    assert found is not None
    return found.net


@pytest.fixture
def everything() -> tuple[np.ndarray, np.ndarray]:
    keys = np.flatnonzero(~np.eye(6, dtype=bool))
    return keys, keys


def tables(n: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    known, steps = (rng.normal(0, 3, (2, n, n)).astype(np.float32) for _ in "ab")
    return known, steps


@pytest.mark.parametrize(
    ("gap", "grid", "piece"), [*((g, (8, 12), 28) for g in (0, 1, 2)), (4, (6, 9), 56)]
)
def test_evidence_of_a_photograph_is_better_with_it(
    gap: int, grid: tuple[int, int], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    puzzle = photograph(gap, grid, piece)
    model = shipped_model()
    with_it = neural.observe(puzzle, model, close=True, threads=1).pairs
    monkeypatch.setattr(neural, "shipped_fringe", lambda _: None)
    without = neural.observe(puzzle, model, close=True, threads=1).pairs
    assert nats(with_it, puzzle) < 0.97 * nats(without, puzzle)


@pytest.mark.parametrize(
    ("gap", "piece", "system"),
    [(0, 28, SYSTEM), (CLOSE, 56, SYSTEM), (3, 56, WIDE), (NEAR, 56, WIDE)],
)
def test_which_network_looks(
    gap: int, piece: int, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def spy(net: Fringe, *args: object) -> np.ndarray:
        asked.append(net)
        return add_fringe(net, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(neural, "add_fringe", spy)
    neural.observe(photograph(gap, (2, 3), piece), shipped_model(), close=True, threads=1)
    found = shipped_fringe(system)
    assert found is not None
    assert len(asked) == 1
    assert asked[0] is found.net


@pytest.mark.parametrize("other", ["small and gap", "gap", "unknown gap", "holes", "network"])
def test_where_it_has_no_say(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    puzzle, model = photograph(CLOSE, (2, 3)), shipped_model()
    if other == "small and gap":
        puzzle = photograph(CLOSE + 1, (2, 3))
    elif other == "gap":
        puzzle = photograph(NEAR + 1, (2, 3), 56)
    elif other == "unknown gap":
        puzzle = replace(puzzle, gap=None)
    elif other == "holes":
        puzzle = replace(puzzle, mask=np.ones(puzzle.pieces.shape[:3], dtype=bool))
    else:
        model = replace(model, sha256="another")

    def never(*_: object) -> np.ndarray:
        raise AssertionError("was asked")

    monkeypatch.setattr(neural, "add_fringe", never)
    neural.observe(puzzle, model, close=True, threads=1)
    if other == "network":  # and with its own it is asked
        with pytest.raises(AssertionError, match="was asked"):
            neural.observe(puzzle, shipped_model(), close=True, threads=1)


def test_the_papers_agent_sees_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def spy(*args: object) -> np.ndarray:
        asked.append(args)
        return add_fringe(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(neural, "add_fringe", spy)
    ErlMpp().look(photograph(1, (2, 3)))
    assert not asked
    Sherd().look(photograph(1, (2, 3)))
    assert len(asked) == 1


@pytest.mark.parametrize("system", [SYSTEM, WIDE])
def test_it_counts_as_what_sherd_reads(system: str) -> None:
    assert file_stem(system) in Sherd.weights
    assert file_stem(system) not in ErlMpp.weights
    found = shipped_fringe(system)
    assert found is not None
    assert found.net.cfg.mppn == shipped_model().sha256


def test_pixels_are_compared_both_ways(
    trained: Fringe, everything: tuple[np.ndarray, np.ndarray]
) -> None:
    """In a mirror a seam looks the same, if no more is told of it."""
    puzzle = photograph(1, (2, 3))
    nothing = np.zeros((2, 6, 6), dtype=np.float32)
    mirrored = replace(puzzle, pieces=np.ascontiguousarray(puzzle.pieces[:, :, ::-1]))
    with torch.inference_mode():
        here, there = (
            add_fringe(trained, p, nothing, nothing, everything)[0] for p in (puzzle, mirrored)
        )
    np.testing.assert_allclose(there.T, here, atol=1e-3)
    assert not np.allclose(there, here, atol=1e-3)


def test_rows_and_columns_are_seen_alike(
    trained: Fringe, everything: tuple[np.ndarray, np.ndarray]
) -> None:
    puzzle = photograph(2, (2, 3))
    known, steps = tables()
    turned = replace(puzzle, pieces=np.ascontiguousarray(puzzle.pieces.transpose(0, 2, 1, 3)))
    with torch.inference_mode():
        here = add_fringe(trained, puzzle, known, steps, everything)
        there = add_fringe(trained, turned, known[::-1].copy(), steps[::-1].copy(), everything)
    np.testing.assert_allclose(there[::-1], here, atol=1e-3)


def test_only_differences_count(trained: Fringe, everything: tuple[np.ndarray, np.ndarray]) -> None:
    puzzle = photograph(0, (2, 3))
    dark = (puzzle.pieces // 2).astype(np.uint8)
    known, steps = tables()
    with torch.inference_mode():
        found = [
            add_fringe(trained, replace(puzzle, pieces=p), known, steps, everything)
            for p in (dark, dark + 100)
        ]
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)


def test_an_untrained_network_adds_nothing(everything: tuple[np.ndarray, np.ndarray]) -> None:
    known, steps = tables()
    with torch.inference_mode():
        found = add_fringe(Fringe(), photograph(1, (2, 3)), known, steps, everything)
    np.testing.assert_array_equal(found, known)


def test_others_get_the_mean_of_their_row_and_column(trained: Fringe) -> None:
    puzzle = photograph(1, (2, 3))
    known, steps = tables()
    every = np.arange(6)
    keys = np.concatenate([every * 6 + (every + 1) % 6, every * 6 + (every + 2) % 6])
    with torch.inference_mode():
        added = add_fringe(trained, puzzle, known, steps, (keys, keys))[0] - known[0]
    row, column = (added[0, 1] + added[0, 2]) / 2, (added[3, 4] + added[2, 4]) / 2
    assert added[0, 4] == pytest.approx(0.5 * (row + column), abs=1e-5)
    assert abs(added[0, 4]) > 1e-3


def test_how_a_pair_stands() -> None:
    known = torch.tensor([[[0.0, 5.0, 2.0], [1.0, 0.0, 7.0], [4.0, 3.0, 0.0]]])
    gradients = torch.zeros(1, 3, 3)
    gradients[0, 0, 1] = -100.0
    i, j = torch.tensor([0, 1, 0]), torch.tensor([1, 2, 2])
    told = standing(known, gradients, torch.zeros(3, dtype=torch.long), i, j)
    assert told[:, 0].tolist() == [3.0, 6.0, -3.0]  # before the best other of the row
    assert told[:, 1].tolist() == [2.0, 5.0, -5.0]  # of the column
    assert told[:, 2].tolist() == [-60.0, 0.0, 0.0]  # and not further than 60


@pytest.mark.parametrize("side", [3, 5])
def test_pieces_thinner_than_it_looks_deep(trained: Fringe, side: int) -> None:
    puzzle = photograph(1, (2, 3), 28)
    thin = replace(puzzle, pieces=np.ascontiguousarray(puzzle.pieces[:, :side, :side]))
    keys = np.flatnonzero(~np.eye(6, dtype=bool))
    with torch.inference_mode():
        found = add_fringe(trained, thin, *tables(), (keys, keys))
    assert np.isfinite(found).all()


def test_a_network_is_read_back(tmp_path: Path) -> None:
    net = Fringe(FringeConfig(depth=3, reach=1, filters=4, width=8, blocks=1, mppn="abc"))
    save_rival(tmp_path / SYSTEM, SYSTEM, net, net.cfg, {})
    found = load_fringe(tmp_path)
    assert found.net.cfg.mppn == "abc"
    assert found.net.cfg == net.cfg


@pytest.mark.parametrize(("field", "value"), [("depth", 1), ("reach", -1), ("blocks", 0.5)])
def test_wrong_sizes_are_refused(field: str, value: float) -> None:
    with pytest.raises(SherdError, match=f"{field}: {value}"):
        FringeConfig(**{field: value})  # type: ignore[arg-type]
