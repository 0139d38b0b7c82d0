"""What a result of a benchmark depends on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from skimage import data

from sherd.bench import version


def test_a_version_is_of_one_system_alone(tmp_path: Path) -> None:
    greedy = version.modules(("sherd.solvers.greedy", *version.ALWAYS))
    assert {"sherd.solvers.greedy_kernels", "sherd.solvers.base", "sherd.data.cutting"} <= set(
        greedy
    )
    assert not {m for m in greedy if "mppn" in m or m.endswith((".ga", ".registry"))}
    networked = version.modules(("sherd.solvers.sherd",))
    assert {"sherd.perception.mppn.heads", "sherd.search.kernels.growth"} <= set(networked)
    assert not {m for m in networked if m.startswith(("sherd.train", "sherd.studio"))}
    file = tmp_path / "a.py"
    texts = ['"""A."""\nx = "#1"  # one\n', '"""Bb\nb."""\n\nx = "#1"\n', 'x = "#2"\n']
    codes = []
    for text in texts:
        file.write_text(text)
        codes.append(version._code(file))
    assert codes[0] == codes[1] != codes[2]


def test_the_card_of_weights_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    seen = []
    for about in ({"card": 1, "net": 1}, {"net": 1, "card": 2}, {"net": 2}):
        file.write_text(json.dumps(about))
        seen.append(version._weights(file))
    assert seen[0] == seen[1] != seen[2]
    assert version._weights(tmp_path / "none.json") == b"missing"


def test_systems_read_no_weights_but_those_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from sherd import Geometry, cut, make_solver
    from sherd.perception.fringe import shipped_fringe
    from sherd.perception.full import shipped_judges
    from sherd.perception.mppn.decoder import shipped_decoder
    from sherd.perception.mppn.weights import shipped_model
    from sherd.solvers import MaxRounds
    from sherd.solvers.erl_mpp import shipped_agent
    from sherd.solvers.registry import solver_class

    caches = (shipped_model, shipped_decoder, shipped_judges, shipped_agent, shipped_fringe)
    for cached in caches:
        cached.cache_clear()
    read: list[str] = []
    original = Path.read_bytes

    def watched(path: Path) -> bytes:
        if path.suffix == ".safetensors":
            read.append(path.stem)
        return original(path)

    monkeypatch.setattr(Path, "read_bytes", watched)
    puzzle = cut(data.coffee(), Geometry((3, 3), (24, 24), 2)).puzzle
    make_solver("erl-mpp").solve(puzzle, stop=MaxRounds(1))
    assert {"mppn", "agent"} <= set(read) <= set(solver_class("erl-mpp").weights)
    read.clear()
    for cached in caches:
        cached.cache_clear()
    make_solver("sherd").solve(puzzle, stop=MaxRounds(1))
    assert {"mppn", "fringe"} <= set(read) <= set(solver_class("sherd").weights)
