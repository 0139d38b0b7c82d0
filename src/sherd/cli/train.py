"""``sherd train``: recipes that train in minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .train_agent import AGENT_EXAMPLE, agent
from .train_options import (
    AsJson,
    Config,
    Data,
    Device,
    Minutes,
    Out,
    Resume,
    Steps,
    TensorBoard,
    TotalSteps,
)
from .train_rivals import RIVALS, command, example
from .train_show import check_tensorboard, figures_table, shown

EXAMPLE = "Example: sherd train perception --data pictures --out runs/first"
PERCEPTION_EXAMPLE = (
    "Example: sherd train perception --data pictures --out runs/first --minutes 9\n\n"
    "Example: sherd train perception --out runs/tiny --total-steps 200 --json"
)

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
    out: Out,
    data: Data = None,
    minutes: Minutes = 9.0,
    total_minutes: Annotated[
        float, typer.Option(help="Of the whole recipe, over all runs that go on in OUT.")
    ] = 27.0,
    steps: Steps = 0,
    total_steps: TotalSteps = 0,
    resume: Resume = None,
    start: Annotated[
        Path | None, typer.Option(help="Folder of a trained network to begin with.")
    ] = None,
    config: Config = None,
    device: Device = "auto",
    tensorboard: TensorBoard = False,
    as_json: AsJson = False,
) -> None:
    """Train the perception network, or go on with it: the same command again does.

    A run that is cut off loses at most the last minute or two.

    On several GPUs of a machine, with sherd[scale] installed, put "accelerate launch
    --num_processes 4 --no_python" before the command. Every GPU draws puzzles of its own, so a step
    sees four times as many; a run may go on with another number of GPUs.
    """
    from ..data.sets import data_root

    root = data_root(data)
    if tensorboard:
        check_tensorboard()
    from ..train.fleet import is_main
    from ..train.perception import run_training

    main = is_main()
    with shown(out, as_json=as_json, tensorboard=tensorboard, quiet=not main) as show:
        figures = run_training(
            root, out, minutes=minutes, total_minutes=total_minutes, steps=steps,
            total_steps=total_steps, resume=resume, start=start, config=config,
            device=device, show=show,
        ).figures  # fmt: skip
    if as_json or not main:
        return
    from rich.console import Console

    Console().print(figures_table(figures))
    typer.echo(f"{out}: mppn.safetensors, mppn.json, metrics.jsonl")
