"""How the weights of 2×2 and global evidence are chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from search_cases import blank_puzzle
from sherd import Evidence, SherdError
from sherd.perception.evidence import quads
from sherd.perception.mppn.config import Calibration
from sherd.train.weigh import choose, smooth, worth


def figures(values: list[float]) -> np.ndarray:
    """``(1, choices, 3)`` with the given worth."""
    return np.repeat(np.array(values)[None, :, None], 3, axis=2)


def test_a_choice_is_judged_with_its_neighbours() -> None:
    value = np.array([0.5, 0.5, 0.9, 0.5, 0.8, 0.8, 0.8])
    assert smooth(value) == pytest.approx([0.5, 0.6, 0.7, 0.675, 0.725, 0.8, 0.8])
    assert choose("w", (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6), [figures(list(value))]) == 0.5


def test_evidence_that_is_worth_nothing_is_left_out() -> None:
    choices = (0.0, 0.5, 1.0)
    assert choose("w", choices, [figures([0.5, 0.501, 0.501])]) == 0.0
    assert choose("w", choices, [figures([0.5, 0.51, 0.51])]) > 0.0
    assert choose("w", choices, [figures([0.5, 0.4, 0.3])]) == 0.0


def test_sets_count_the_same() -> None:
    many = np.concatenate([figures([0.5, 0.6, 0.6])] * 9)
    assert choose("w", (0.0, 0.5, 1.0), [many, figures([0.9, 0.1, 0.1])]) == 0.0


def test_a_weight_is_worth_what_it_solves() -> None:
    rng = np.random.default_rng(0)
    truth = rng.permutation(16).reshape(4, 4)
    wrong = truth.copy()
    wrong[0, :2], wrong[3, 2:] = truth[3, 2:], truth[0, :2]
    h, v = rng.normal(-2.0, 0.3, (2, 16, 16))
    for board, strength in ((truth, 2.0), (wrong, 2.5)):
        h[board[:, :-1], board[:, 1:]] = strength
        v[board[:-1], board[1:]] = strength
    right = set(map(tuple, quads(truth).tolist()))
    evidence = Evidence(
        h, v, puzzlet=lambda q: np.array([3.0 if tuple(x) in right else -3.0 for x in q.tolist()])
    )
    puzzle = replace(blank_puzzle(16, (4, 4)), truth=truth)
    found = worth(puzzle, [evidence, replace(evidence, puzzlet_weight=1.0)])
    assert found[0, 0] == 0.0
    assert found[1].tolist() == [1.0, 1.0, 1.0]


def test_old_calibrations_leave_both_out() -> None:
    old = {"pair": 1.2, "border": 1.0, "puzzlet": 0.9}
    calibration = Calibration.from_dict(old, "mppn.json")
    assert (calibration.puzzlet_weight, calibration.board_weight) == (0.0, 0.0)
    for name in ("puzzlet_weight", "board_weight"):
        assert getattr(Calibration.from_dict({**old, name: 0.5}, "mppn.json"), name) == 0.5
        with pytest.raises(SherdError, match=name):
            Calibration.from_dict({**old, name: -0.5}, "mppn.json")
