"""What commands print: results on stdout, progress on stderr."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from ..puzzle import Scores
    from ..solvers import Callbacks


def print_json(value: dict[str, Any]) -> None:
    """One JSON object, one line."""
    typer.echo(json.dumps(value))


def stderr() -> Console:
    """Where progress goes."""
    from rich.console import Console

    return Console(stderr=True)


def scores_line(scores: Scores) -> str:
    """The scores in percent."""
    return "  ".join(f"{k} {100 * v:.1f}" for k, v in scores.asdict().items())


def watch() -> tuple[Callbacks, AbstractContextManager[Any]]:
    """Callbacks that show a solver's progress, and the display to hold open meanwhile.

    Nothing is shown where stderr is no terminal.
    """
    from ..solvers import Callbacks

    console = stderr()
    if not console.is_terminal:
        return Callbacks(), nullcontext()
    status = console.status("reading")

    class Watch(Callbacks):
        """The stage and the best score so far."""

        stage = ""

        def on_stage(self, stage: str) -> None:
            self.stage = stage
            status.update(stage)

        def on_round(self, round: int, best: float) -> None:
            status.update(f"{self.stage}: round {round}, score {best:.1f}")

    return Watch(), status
