"""When a search ends."""

from __future__ import annotations

import pytest

from sherd.solvers import AnyOf, MaxRounds, MaxRuntime, NoImprovement


def asked(stop: object, scores: list[float]) -> list[bool]:
    return [stop(score) for score in scores]  # type: ignore[operator]


def test_time_is_counted_from_the_first_question(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 100.4, 100.5, 107.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    assert asked(MaxRuntime(0.5), [0.0] * 4) == [False, False, True, True]


def test_rounds_are_counted() -> None:
    assert asked(MaxRounds(3), [0.0] * 4) == [False, False, True, True]


def test_a_better_score_begins_the_count_anew() -> None:
    scores = [1.0, 1.0, 2.0, 1.5, 2.0, 2.0]
    assert asked(NoImprovement(2), scores) == [False, False, False, False, True, True]
    tiny = [-5e9, -5e9 + 1e-3, -5e9 + 2e-3]  # what rounding makes is no better score
    assert asked(NoImprovement(2), tiny) == [False, False, True]


def test_any_of_several_ends_it_and_all_are_asked() -> None:
    last = MaxRounds(3)
    stop = AnyOf(MaxRounds(2), last)
    assert asked(stop, [0.0, 0.0]) == [False, True]
    assert last(0.0)  # it has counted along
