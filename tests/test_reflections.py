"""Mirrors: what is said of a reflection, carried back, is said of the fragments."""

import numpy as np
import pytest

from sherd.data.cutting import Geometry, cut
from sherd.perception.classical import seam_logits
from sherd.perception.mppn.config import SMALL
from sherd.perception.neural import observe
from sherd.perception.reflections import LOOKS, Reflection
from sherd.puzzle import Puzzle, pairs
from sherd.solvers.sherd import Sherd

RNG = np.random.default_rng(3)
EVERY = [Reflection(u, lv, d) for u in (False, True) for lv in (False, True) for d in (False, True)]
UNDONE = [m for m in EVERY if not (m.diagonal and m.upright != m.level)]  # the rest are turns


def picture_puzzle():
    image = RNG.integers(0, 256, (30, 44, 3), dtype=np.uint8)
    return cut(image, Geometry((2, 3), (15, 14), 1)).puzzle


@pytest.mark.parametrize("mirror", UNDONE)
def test_a_mirror_undoes_itself(mirror):
    fragments = RNG.integers(0, 256, (5, 6, 4, 3), dtype=np.uint8)
    logits, border = RNG.normal(size=(2, 5, 5)), RNG.normal(size=(4, 5))
    np.testing.assert_array_equal(mirror.fragments(mirror.fragments(fragments)), fragments)
    np.testing.assert_array_equal(mirror.pairs(mirror.pairs(logits)), logits)
    np.testing.assert_array_equal(mirror.border(mirror.border(border)), border)


def test_the_looks_are_mirrors():
    assert LOOKS[0] == Reflection()
    assert len(set(LOOKS)) == len(LOOKS)
    assert set(LOOKS) <= set(UNDONE)


@pytest.mark.parametrize("mirror", LOOKS)
def test_neighbours_in_the_mirror_are_those_of_the_reflected_picture(mirror):
    """A reflected board, cut by hand, has just the links that the mirror says."""
    truth = np.arange(6).reshape(2, 3)
    board = truth[:, ::-1] if mirror.upright else truth
    board = board[::-1] if mirror.level else board
    board = board.T if mirror.diagonal else board
    want = np.zeros((2, 6, 6))
    links = np.zeros((2, 6, 6))
    for table, of in ((want, board), (links, truth)):
        for d, found in enumerate(pairs(of)):
            table[d, found[:, 0], found[:, 1]] = 1.0
    np.testing.assert_array_equal(mirror.pairs(links), want)
    rims, at = np.zeros((4, 6)), np.zeros((4, 6))
    for table, of in ((rims, board), (at, truth)):
        for side, line in enumerate((of[0], of[:, -1], of[-1], of[:, 0])):
            table[side, line] = 1.0
    np.testing.assert_array_equal(mirror.border(at), rims)


def test_fragments_are_turned_as_the_links_are():
    """Seam features know nothing of mirrors: pixel by pixel, the same seams are compared."""
    p = picture_puzzle()
    mirror = Reflection(diagonal=True)
    seen = Puzzle(mirror.fragments(p.pieces), gap=p.gap)
    np.testing.assert_allclose(mirror.pairs(seam_logits(p)), seam_logits(seen), rtol=1e-4)


def test_small_pieces_are_looked_at_in_every_mirror(monkeypatch):
    looked = []

    def spy(puzzle, model, **how):
        looked.append(how["looks"])
        return observe(puzzle, model, **how)

    monkeypatch.setattr("sherd.perception.neural.observe", spy)
    for side, want in ((SMALL - 8, len(LOOKS)), (SMALL, 2)):
        pieces = RNG.integers(0, 256, (2, int(side), int(side), 3), dtype=np.uint8)
        Sherd().look(Puzzle(pieces, (1, 2), gap=1))
        assert looked.pop() == want
