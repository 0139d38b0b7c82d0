"""Dissimilarities against slow loops that follow the papers' formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from skimage.color import rgb2lab

from sherd.data.cutting import Geometry, cut
from sherd.errors import SherdError
from sherd.perception import dissimilarity as dis


@pytest.fixture
def pieces() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)


def rotated(x: np.ndarray, side: int) -> np.ndarray:
    """The piece turned so that ``side`` (top, right, bottom, left) is its right side."""
    return {
        0: x.transpose(1, 0, 2)[:, ::-1],
        1: x,
        2: x.transpose(1, 0, 2),
        3: x[:, ::-1],
    }[side]


def test_lab_is_skimage_lab_across_chunks(monkeypatch, pieces):
    monkeypatch.setattr(dis, "_ROWS", 2)
    got = dis.lab(pieces)
    assert got.dtype == np.float32
    assert got.shape == pieces.shape
    np.testing.assert_allclose(got, rgb2lab(pieces), rtol=1e-5, atol=1e-4)


def test_lab_refuses_floats(pieces):
    with pytest.raises(SherdError, match="uint8"):
        dis.lab(pieces / 255.0)


def test_directed_prediction_equals_the_formula(monkeypatch, pieces):
    monkeypatch.setattr(dis, "_ROWS", 3)
    lab = dis.lab(pieces)
    got = dis.paikin_tal(lab)
    for side in range(4):
        for i in range(5):
            for j in range(5):
                a, b = rotated(lab[i], side), rotated(lab[j], side)
                want = sum(
                    abs(2.0 * a[k, -1, c] - a[k, -2, c] - b[k, 0, c])
                    for k in range(len(a))
                    for c in range(3)
                )
                assert got[side, i, j] == pytest.approx(want, rel=1e-5)


def test_ssd_equals_the_formula(pieces):
    lab = dis.lab(pieces)
    right, below = dis.ssd(lab)
    for i in range(5):
        for j in range(5):
            r = sum((lab[i, k, -1, c] - lab[j, k, 0, c]) ** 2 for k in range(4) for c in range(3))
            b = sum((lab[i, -1, k, c] - lab[j, 0, k, c]) ** 2 for k in range(6) for c in range(3))
            assert right[i, j] == pytest.approx(math.sqrt(r), rel=1e-5)
            assert below[i, j] == pytest.approx(math.sqrt(b), rel=1e-5)


@pytest.mark.parametrize("shape", [(3, 1, 4, 3), (3, 4, 1, 3), (1, 1, 1, 3)])
def test_pieces_of_one_pixel_have_no_slope(shape):
    lab = dis.lab(np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8))
    d = dis.paikin_tal(lab)
    assert d.shape == (4, shape[0], shape[0])
    axis = 1 if shape[1] == 1 else 2
    flat = lab.squeeze(axis)
    side = 2 if axis == 1 else 1
    want = np.abs(flat[:, None] - flat[None]).sum(axis=(2, 3))
    np.testing.assert_allclose(d[side], want, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("gap", [0, 2])
def test_true_neighbours_are_mostly_the_least_dissimilar(gap):
    from skimage.data import astronaut

    puzzle = cut(astronaut(), Geometry((4, 5), (64, 64), gap)).puzzle
    lab = dis.lab(puzzle.pieces)
    grid = puzzle.truth
    for right, below in (dis.paikin_tal(lab)[1:3], dis.ssd(lab)):
        np.fill_diagonal(right, np.inf)
        np.fill_diagonal(below, np.inf)
        hits = np.concatenate(
            [
                right.argmin(1)[grid[:, :-1].ravel()] == grid[:, 1:].ravel(),
                below.argmin(1)[grid[:-1].ravel()] == grid[1:].ravel(),
            ]
        )
        assert hits.mean() > 0.85
