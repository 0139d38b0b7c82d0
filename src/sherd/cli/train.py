"""``sherd train``: recipes that train in minutes."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SherdError
from .train_agent import AGENT_EXAMPLE, agent
from .train_rivals import RIVALS, command, example

if TYPE_CHECKING:
    from rich.console import Group

    from ..train.loop import Row, Show

EXAMPLE = "Example: sherd train perception --data pictures --out runs/first"
PERCEPTION_EXAMPLE = (
    "Example: sherd train perception --data pictures --out runs/first --minutes 9\n\n"
    "Example: sherd train perception --out runs/tiny --total-steps 200 --json"
)
BOARD = "tensorboard"
"""Folder below --out, name of the extra and of the module."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True, epilog=EXAMPLE)
def train(context: typer.Context) -> None:
    """Train a network on your own pictures."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("agent", epilog=AGENT_EXAMPLE)(agent)
for _system in RIVALS:
    app.command(_system, epilog=example(_system))(command(_system))


@app.command("perception", epilog=PERCEPTION_EXAMPLE)
def perception(
    out: Annotated[
        Path, typer.Option(help="Folder for the network, its checkpoint and metrics.jsonl.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder that holds photos/ and art5/. [default: $SHERD_DATA]"),
    ] = None,
    minutes: Annotated[
        float, typer.Option(help="Of this run, reading the pictures included.")
    ] = 9.0,
    total_minutes: Annotated[
        float, typer.Option(help="Of the whole recipe, over all runs that go on in OUT.")
    ] = 27.0,
    steps: Annotated[int, typer.Option(help="Of this run, if fewer than fit. 0 = all.")] = 0,
    total_steps: Annotated[
        int, typer.Option(help="Length of the recipe in steps instead of minutes.")
    ] = 0,
    resume: Annotated[
        Path | None, typer.Option(help="Folder of a checkpoint. [default: OUT's, if there is one]")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML that changes the recipe.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write OUT/tensorboard.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every line of metrics.jsonl, and nothing else.")
    ] = False,
) -> None:
    """Train the perception network, or go on with it: the same command again does.

    A run that is cut off loses at most the last minute or two.

    On several GPUs of a machine, with sherd[scale] installed, put "accelerate launch
    --num_processes 4 --no_python" before the command. Every GPU draws puzzles of its own, so a step
    sees four times as many; a run may go on with another number of GPUs.
    """
    from ..data.sets import data_root
    from .show import print_json

    root = data_root(data)
    if tensorboard:
        _check_tensorboard()
    from ..train.fleet import is_main
    from ..train.perception import run_training

    main = is_main()
    with ExitStack() as stack:
        shows: list[Show] = []
        if main:
            shows.append((lambda row: print_json(dict(row))) if as_json else _display(stack))
            if tensorboard:
                shows.append(_event_writer(out / BOARD, stack))
        figures = run_training(
            root, out, minutes=minutes, total_minutes=total_minutes, steps=steps,
            total_steps=total_steps, resume=resume, config=config, device=device,
            show=_all(shows),
        ).figures  # fmt: skip
    if as_json or not main:
        return
    from rich.console import Console

    Console().print(figures_table(figures))
    typer.echo(f"{out}: mppn.safetensors, mppn.json, metrics.jsonl")


def _all(shows: list[Show]) -> Show:
    def show(row: Row) -> None:
        for one in shows:
            one(row)

    return show


def _display(stack: ExitStack) -> Show:
    """A live display on stderr, or plain lines where stderr is no terminal."""
    from .show import stderr

    console = stderr()
    if not console.is_terminal:
        from ..train.loop import print_row

        return lambda row: print_row(row, sys.stderr)
    from rich.live import Live

    display = TrainDisplay()
    # stdout stays what it is: it may lead to a file
    live = stack.enter_context(
        Live(get_renderable=display.render, console=console, transient=True, redirect_stdout=False)
    )
    live.refresh()

    def show(row: Row) -> None:
        display.see(row)
        live.refresh()

    return show


class TrainDisplay:
    """How far training is, its latest losses, and its latest figures on validation puzzles."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn

        self._bar = Progress(
            "{task.description}", BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
        )
        self._task = self._bar.add_task("reading pictures", total=None)
        self._line = ""
        self.figures: dict[str, dict[str, float]] = {}

    def see(self, row: Row) -> None:
        """Take in one row of metrics."""
        kind, step = row["kind"], row["step"]
        if kind == "start":
            count = row["parameters"] / 1e6
            self._line = f"{row['train']} pictures, {count:.1f} M parameters, on {row['device']}"
        elif kind == "train":
            losses = "  ".join(f"{k} {row[k]:.3f}" for k in row if k in ("loss", "base", "fused"))
            self._line = f"{losses}  lr {row['lr']:.1e}  {row['steps_per_s']:.1f} steps/s"
        elif kind in ("val", "val-all"):
            skip = ("kind", "step", "cell")
            self.figures[row["cell"]] = {k: v for k, v in row.items() if k not in skip}
        if "progress" in row:
            self._bar.update(self._task, total=1.0, completed=row["progress"])
        self._bar.update(self._task, description=f"step {step}")

    def render(self) -> Group:
        """What is on the screen now."""
        from rich.console import Group

        parts: list[Any] = [self._bar, self._line]
        if self.figures:
            parts.append(figures_table(self.figures))
        return Group(*parts)


def figures_table(figures: dict[str, dict[str, float]]) -> Any:
    """A table of validation figures, a row per cell."""
    from rich import box
    from rich.table import Table

    names = list(dict.fromkeys(k for values in figures.values() for k in values))
    table = Table("validation", box=box.SIMPLE_HEAD)
    for name in names:
        table.add_column(name, justify="right")
    for cell, values in figures.items():
        table.add_row(cell, *(f"{values[k]:.3f}" if k in values else "" for k in names))
    return table


def _check_tensorboard() -> None:
    from importlib.util import find_spec

    if find_spec(BOARD) is None:
        raise SherdError("--tensorboard: is not installed; pip install 'sherd[tensorboard]'")


def _event_writer(folder: Path, stack: ExitStack) -> Show:
    """Losses, rates and validation figures as TensorBoard scalars.

    The folder is made with the first row, when training is known to run.
    """
    writer: Any = None

    def show(row: Row) -> None:
        nonlocal writer
        if writer is None:
            from torch.utils.tensorboard import SummaryWriter

            writer = SummaryWriter(str(folder))
            stack.callback(writer.close)
        for tag, value in scalars(row):
            writer.add_scalar(tag, value, row["step"])

    return show


def scalars(row: Row) -> list[tuple[str, float]]:
    """The figures of a row under TensorBoard's names: ``losses/…``, ``charts/…``, ``val/…``."""
    kind = row["kind"]
    charts = ("lr", "progress", "steps_per_s", "grad_norm", "gpu_gib")
    out = []
    for key, value in row.items():
        if not isinstance(value, float):
            continue
        if kind == "train":
            out.append((f"{'charts' if key in charts else 'losses'}/{key}", value))
        elif "cell" in row:
            out.append((f"{kind}/{row['cell']}/{key}", value))
        elif kind == "calibration" and key != "seconds":
            out.append((f"calibration/{key}", value))
    return out
