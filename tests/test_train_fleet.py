"""Several processes train one network; one process trains what it always did."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sherd.errors import SherdError
from sherd.perception.mppn.weights import load_model
from sherd.train import perception
from sherd.train.fleet import Fleet, is_main
from test_train_perception import CPU, RECIPE, _two_cells, data, run  # noqa: F401

pytestmark = pytest.mark.usefixtures("one_thread")

WORKER = Path(__file__).with_name("fleet_worker.py")
NAMES = ("WORLD_SIZE", "RANK", "LOCAL_RANK")


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def launched(monkeypatch: pytest.MonkeyPatch, *values: object) -> None:
    for name, value in zip(NAMES, values, strict=False):
        monkeypatch.setenv(name, str(value))


class Two:
    """What two processes did: their notes, their stdout, and the folder they trained into."""

    def __init__(self, root: Path, data: Path) -> None:  # noqa: F811
        self.out = root / "out"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        fleet = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}  # fmt: skip
        started = []
        for rank in "01":
            env = {**os.environ, **fleet, "RANK": rank, "LOCAL_RANK": rank}
            started.append(
                subprocess.Popen(
                    [sys.executable, WORKER, data, self.out, root], env=env, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )
            )  # fmt: skip
        try:
            said = [process.communicate(timeout=240) for process in started]
        finally:
            for process in started:
                process.kill()
        assert [p.returncode for p in started] == [0, 0], said
        self.stdout = [out for out, _ in said]
        self.notes: list[dict[str, Any]] = [
            torch.load(root / f"{rank}.pt", weights_only=True) for rank in "01"
        ]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Two:  # noqa: F811
    return Two(tmp_path_factory.mktemp("two"), data)


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_both_processes_hold_the_same_weights(two: Two) -> None:
    a, b = two.notes
    for part in ("first", "second"):
        for what in ("net", "mean"):
            assert same(a[part][what], b[part][what])
    assert not same(a["first"]["net"], a["second"]["net"])


def test_gradients_are_averaged_before_they_are_clipped(two: Two) -> None:
    for note in two.notes:
        assert note["a"].tolist() == [1.5, 3.0]
        assert note["b"].tolist() == [2.0, 3.0]  # the other process had none
        assert note["losses"].tolist() == [1.5, 7.5]
        assert torch.isnan(note["norm"])  # of both, though one was finite
        assert note["c"].tolist() == [0.0, 0.0]


def test_the_main_clock_decides_and_the_main_process_writes(two: Two) -> None:
    assert [note["steps"] for note in two.notes] == [2, 2]
    found = rows(two.out)
    assert [r["step"] for r in found if r["kind"] == "train"] == [1, 2, 3, 4]
    starts = [r for r in found if r["kind"] == "start"]
    assert [(r["step"], r["processes"]) for r in starts] == [(0, 2), (2, 2)]
    assert [r["progress"] for r in found if r["kind"] == "end"] == [0.5, 1.0]
    assert sorted(p.name for p in two.out.iterdir()) == [
        "metrics.jsonl", "mppn.json", "mppn.safetensors", "resume-0.safetensors",
    ]  # fmt: skip
    assert [list(note["second"]["figures"]) for note in two.notes] == [["photo-gap2"], []]
    assert [note["code"] or 0 for note in two.notes] == [0, 0]
    assert "mppn.safetensors" in two.stdout[0]
    assert two.stdout[1] == ""


def test_two_processes_see_more_than_one(two: Two, data: Path, tmp_path: Path) -> None:  # noqa: F811
    alone = run(data, tmp_path, steps=2, total=4)
    first = two.notes[0]["first"]["net"]
    assert not same(list(alone.net.parameters()), first)
    # yet it began with the same weights: four small steps do not lead far
    far = [(p - q).abs().max() for p, q in zip(alone.net.parameters(), first, strict=True)]
    assert 0 < max(far) < 4 * RECIPE.lr


def test_one_process_goes_on_where_two_stopped(two: Two, data: Path, tmp_path: Path) -> None:  # noqa: F811
    run(data, tmp_path, steps=1, total=5, resume=two.out)
    start, *_, end = rows(tmp_path)
    assert (start["step"], start["processes"], end["step"]) == (4, 1, 5)
    assert load_model(tmp_path).card["step"] == 5


def test_one_process_is_what_it_was(
    data: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(data, tmp_path / "a")
    monkeypatch.setitem(sys.modules, "accelerate", None)  # importing it would fail
    monkeypatch.setattr(perception, "read_recipe", lambda cls, path: RECIPE)
    launched(monkeypatch, 1, 0, 0)
    perception.run_training(data, tmp_path / "b", total_steps=3, device="cpu")
    a, b = ((tmp_path / name / "mppn.safetensors").read_bytes() for name in "ab")
    assert a == b


def test_every_process_draws_its_own() -> None:
    first = np.random.default_rng([3, 7]).random(4)
    assert np.array_equal(Fleet().rng(3, 7).random(4), first)
    draws = [Fleet(rank, 3).rng(3, 7).random(4).tolist() for rank in range(3)]
    assert draws[0] == first.tolist()
    assert len({tuple(d) for d in draws}) == 3


def test_main_and_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_main()
    launched(monkeypatch, 2, 1)
    assert not is_main()
    launched(monkeypatch, 2, 0)
    assert is_main()
    gpu = torch.device("cuda", 0)
    assert Fleet(5, 8, 1).own(gpu) == torch.device("cuda", 1)
    assert Fleet(5, 8, 1).own(CPU) == CPU
    assert Fleet().own(gpu) == gpu


def test_accelerate_is_an_extra(
    data: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    launched(monkeypatch, 2, 0, 0)
    monkeypatch.setattr("sherd.train.fleet.find_spec", lambda name: None)
    out = tmp_path / "out"
    assert perception.main(["--data", str(data), "--out", str(out), "--device", "cpu"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: WORLD_SIZE: 2 processes, but accelerate is not installed; pip")
    assert err.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("values", "device", "message"),
    [
        (["many"], "cpu", "WORLD_SIZE: 'many' in the environment"),
        ([2], "cpu", "RANK: '' in the environment; expected a number"),
        ([2, 0], "cpu", "LOCAL_RANK: '' in the environment"),
        ([128, 99, 99], "cuda", "LOCAL_RANK: 99, but this machine has"),
    ],
)
def test_odd_environments(
    values: list[object], device: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched(monkeypatch, *values)
    with pytest.raises(SherdError, match=message):
        Fleet.of_environment(torch.device(device))
