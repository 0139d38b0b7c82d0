"""``sherd train agent``: the EvoRL agent, or the DQN agent of the ablation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .train_options import AsJson, Config, Data, Device, Out, Resume, TensorBoard
from .train_show import check_tensorboard, figures_table, shown

AGENT_EXAMPLE = (
    "Example: sherd train agent --data pictures --out runs/agent --minutes 9\n\n"
    "Example: sherd train agent --dqn --evidence runs/agent/evidence.safetensors --out runs/dqn"
)


def agent(
    out: Out,
    data: Data = None,
    minutes: Annotated[float, typer.Option(help="Of this run, perception included.")] = 9.0,
    iterations: Annotated[
        int, typer.Option(help="Of the whole recipe, over all runs that go on in OUT.")
    ] = 1000,
    steps: Annotated[
        int, typer.Option(help="Iterations of this run, if fewer than fit. 0 = all.")
    ] = 0,
    resume: Resume = None,
    config: Config = None,
    device: Device = "auto",
    weights: Annotated[
        Path | None, typer.Option(help="Folder of the perception network. [default: sherd's]")
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option(help="Evidence that an earlier run kept, instead of pictures.")
    ] = None,
    dqn: Annotated[
        bool, typer.Option("--dqn", help="Train the DQN agent of the ablation instead.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Of weights and games, instead of the recipe's.")
    ] = None,
    tensorboard: TensorBoard = False,
    as_json: AsJson = False,
) -> None:
    """Train the agent of erl-mpp, or go on with it: the same command again does.

    Perception runs once over the pictures and is kept in OUT; then the agent plays.
    """
    from ..data.sets import data_root

    root = None if evidence is not None else data_root(data)
    if tensorboard:
        check_tensorboard()
    from ..train.agent import run_training

    with shown(out, as_json=as_json, tensorboard=tensorboard) as show:
        run = run_training(
            root, out, minutes=minutes, iterations=iterations, steps=steps, resume=resume,
            config=config, device=device, weights=weights, evidence=evidence, dqn=dqn,
            seed=seed, show=show,
        )  # fmt: skip
    if as_json:
        return
    from rich.console import Console

    Console().print(figures_table(run.figures))
    typer.echo(f"{out}: {run.stem}.safetensors, {run.stem}.json, metrics.jsonl")
