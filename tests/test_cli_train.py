"""``sherd train``: what it shows, what it writes, how it fails."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sherd.cli import train as cli
from sherd.cli import train_show
from sherd.cli.main import run
from sherd.perception.mppn.weights import load_model
from sherd.train.evaluate import CELLS
from sherd.train.perception import main
from test_mppn import TINY
from test_train_perception import data  # noqa: F401  (fixture)

pytestmark = pytest.mark.usefixtures("one_thread")

Train = Callable[..., tuple[int, str, str]]

CONFIG = """
budget = 24.0
most = 24
groups = 8
hard = 3
val_images = 1
limit = 3
log_every = 1
workers = 1
reserve_s = 0.0
[[mix]]
weight = 1.0
rows = [3, 3]
cols = [4, 4]
piece = [24]
gap = [0]
[net]
""" + "".join(f"{k} = {v}\n" for k, v in TINY.asdict().items())


@pytest.fixture(autouse=True)
def _one_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = (replace(CELLS[0], grid=(3, 4), piece=24),)
    monkeypatch.setattr("sherd.train.perception.CELLS", cells)


@pytest.fixture
def train(
    data: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Train:
    """Two steps in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHERD_DATA", str(data))
    (tmp_path / "tiny.toml").write_text(CONFIG)

    def call(*arguments: object) -> tuple[int, str, str]:
        usual = ["--device", "cpu", "--config", "tiny.toml", "--total-steps", "2"]
        with pytest.raises(SystemExit) as end:
            run(["train", "perception", *usual, *map(str, arguments)])
        printed = capsys.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    return call


def kinds(text: str) -> list[str]:
    return [json.loads(line)["kind"] for line in text.splitlines()]


def test_trains_and_says_what_it_made(train: Train, tmp_path: Path) -> None:
    code, out, err = train("--out", "a")
    assert code == 0
    assert load_model(tmp_path / "a").card["step"] == 2
    assert "photo-gap2" in out
    assert "a: mppn.safetensors" in out
    lines = err.splitlines()  # stderr is no terminal: plain lines, one per row
    assert len(lines) == len((tmp_path / "a" / "metrics.jsonl").read_text().splitlines())
    assert lines[0].startswith("kind=start step=0 ")
    assert any(line.startswith("kind=train step=2 ") for line in lines)


def test_json_is_the_metrics_and_nothing_else(train: Train, tmp_path: Path) -> None:
    code, out, err = train("--out", "a", "--steps", 1, "--json")
    assert (code, err) == (0, "")
    assert out == (tmp_path / "a" / "metrics.jsonl").read_text()
    assert kinds(out) == ["start", "train", "val-all", "calibration", "end"]
    _, out, _ = train("--out", "a", "--json")  # the same command again goes on
    assert json.loads(out.splitlines()[0])["step"] == 1
    assert json.loads(out.splitlines()[-1])["progress"] == 1.0
    _, out, _ = train("--out", "b", "--resume", "a", "--total-steps", 3, "--json")
    assert json.loads(out.splitlines()[0])["step"] == 2


def test_start_begins_with_a_trained_network(train: Train, tmp_path: Path) -> None:
    train("--out", "a")
    code, out, _ = train("--out", "b", "--start", "a", "--total-steps", 1, "--json")
    assert code == 0
    assert json.loads(out.splitlines()[0])["step"] == 0  # its weights, not its run
    train("--out", "c", "--total-steps", 1)
    a, b, c = ((tmp_path / name / "mppn.safetensors").read_bytes() for name in "abc")
    assert len({a, b, c}) == 3
    code, _, err = train("--out", "d", "--start", "nowhere")
    assert code == 2
    assert "nowhere" in err


def test_it_is_the_recipe_of_the_module(train: Train, tmp_path: Path, data: Path) -> None:  # noqa: F811
    train("--out", "a")
    usual = ["--device", "cpu", "--config", "tiny.toml", "--total-steps", "2"]
    assert main(["--data", str(data), "--out", "b", *usual]) == 0
    a, b = ((tmp_path / name / "mppn.safetensors").read_bytes() for name in ("a", "b"))
    assert a == b


def test_the_module_needs_neither_typer_nor_rich() -> None:
    code = (
        "import sys\n"
        "for name in ('typer', 'click', 'rich', 'matplotlib', 'numba'): sys.modules[name] = None\n"
        "from sherd.train.perception import main\n"
        "sys.exit(main(['--data', 'nowhere', '--out', 'nowhere', '--device', 'cpu']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: nowhere: is no folder")


def test_live_display(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr("sherd.cli.show.stderr", lambda: console)
    code, out, err = train("--out", "a")
    assert (code, err) == (0, "")
    shown = screen.getvalue()
    assert "reading pictures" in shown
    assert "step 2" in shown
    assert "steps/s" in shown
    assert "100%" in shown
    assert "photo-gap2" in out  # stdout is left alone
    assert "steps/s" not in out


def test_display_keeps_the_latest() -> None:
    display = train_show.TrainDisplay()
    val = {"kind": "val", "cell": "photo-gap2", "base": 0.5}
    display.see({**val, "step": 10, "fused": 0.25})
    display.see({**val, "step": 20, "fused": 0.75})
    display.see(
        {"kind": "train", "step": 30, "progress": 0.4, "loss": 1.5, "lr": 1e-3, "steps_per_s": 6.0}
    )
    console = Console(file=io.StringIO(), width=100)
    console.print(display.render())
    text = console.file.getvalue()
    assert "step 30" in text
    assert "40%" in text
    assert "loss 1.500  lr 1.0e-03  6.0 steps/s" in text
    assert "0.750" in text
    assert "0.250" not in text


def test_tensorboard_gets_every_figure(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[str, float, int]] = []
    closed: list[str] = []

    class Writer:
        def __init__(self, folder: str) -> None:
            self.folder = folder

        def add_scalar(self, tag: str, value: float, step: int) -> None:
            written.append((tag, value, step))

        def close(self) -> None:
            closed.append(self.folder)

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr(cli, "check_tensorboard", lambda: None)
    assert train("--out", "a", "--tensorboard")[0] == 0
    rows = [json.loads(r) for r in (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()]
    last = next(r for r in reversed(rows) if r["kind"] == "train")
    assert ("losses/fused", last["fused"], 2) in written
    assert ("charts/lr", last["lr"], 2) in written
    val = next(r for r in rows if r["kind"] == "val-all")
    for figure in ("base", "fused", "nll", "ece", "border_auc", "puzzlet"):
        assert (f"val-all/photo-gap2/{figure}", val[figure], 2) in written
    assert closed == [str(Path("a", "tensorboard"))]


def test_scalars_of_validation_while_it_trains() -> None:
    row = {"kind": "val", "step": 5, "cell": "photo-gap4", "fused": 0.5, "nll": 1.25, "ece": 0.03}
    assert train_show.scalars(row) == [
        ("val/photo-gap4/fused", 0.5),
        ("val/photo-gap4/nll", 1.25),
        ("val/photo-gap4/ece", 0.03),
    ]


def test_tensorboard_is_an_extra(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, out, err = train("--out", "a", "--tensorboard")
    assert (code, out) == (2, "")
    assert err == "error: --tensorboard: is not installed; pip install 'sherd[tensorboard]'\n"
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere"], "nowhere: no such folder"),
        (["--data", "."], "holds no train pictures"),
        (["--minutes", "0"], "minutes: 0.0; expected more than 0"),
        (["--total-minutes", "nan"], "total-minutes: nan; expected more than 0"),
        (["--steps", "-1"], "steps: -1; expected at least 0"),
        (["--total-steps", "-1"], "total-steps: -1; expected at least 0"),
        (["--device", "abacus"], "device: 'abacus' cannot be used here"),
        (["--config", "nowhere.toml"], "nowhere.toml: cannot be read as TOML"),
        (["--out", "tiny.toml"], "tiny.toml: is a file"),
    ],
)
def test_bad_input(train: Train, tmp_path: Path, arguments: list[str], message: str) -> None:
    code, out, err = train("--out", "a", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tiny.toml"]


def test_bad_checkpoint(train: Train) -> None:
    code, _, err = train("--out", "a", "--resume", "nowhere")
    assert code == 2
    assert "nowhere" in err.splitlines()[-1]


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["train"], ["train", "--help"], ["train", "perception", "--help"]):
        with pytest.raises(SystemExit) as end:
            run(words)
        assert not end.value.code
        assert "Example: sherd train perception" in capsys.readouterr().out
