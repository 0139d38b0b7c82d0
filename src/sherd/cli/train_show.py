"""What a training run shows: lines or a live display, JSON, TensorBoard, a table at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SherdError

if TYPE_CHECKING:
    from rich.console import Group

    from ..train.loop import Row, Show

BOARD = "tensorboard"
"""Folder below --out, name of the extra and of the module."""


@contextmanager
def shown(out: Path, *, as_json: bool, tensorboard: bool, quiet: bool = False) -> Iterator[Show]:
    """What sees every row of a run in ``out``: JSON lines or a display, and TensorBoard's files.

    ``quiet``: nothing does; of several processes only one speaks.
    """
    from .show import print_json

    with ExitStack() as stack:
        shows: list[Show] = []
        if not quiet:
            shows.append((lambda row: print_json(dict(row))) if as_json else _display(stack))
            if tensorboard:
                shows.append(_event_writer(out / BOARD, stack))

        def show(row: Row) -> None:
            for one in shows:
                one(row)

        yield show


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


def check_tensorboard() -> None:
    """An error where TensorBoard is not installed."""
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
