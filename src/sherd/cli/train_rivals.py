"""``sherd train SYSTEM``: the compared systems that have networks of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer

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
from .train_show import check_tensorboard, figures_table, shown

RIVALS: dict[str, str] = {
    "deepzzle": "sherd.train.deepzzle:TrainDeepzzle",
    "inpaint-gan": "sherd.train.inpaint_gan:InpaintTrainee",
    "pdn-ga": "sherd.train.pdn_ga:PdnTrainee",
    "sd2rl": "sherd.train.sd2rl:run_training",
}
"""Module and `Trainee` of every system, or what runs its training if that has several parts."""


def example(system: str) -> str:
    """The last line of a command's help."""
    return f"Example: sherd train {system} --data pictures --out runs/{system} --minutes 9"


def trainer(system: str) -> Callable[..., Any]:
    """What runs the training of ``system``, given the data, the folder and the options below."""
    from ..train.rivals import run_training

    module, name = RIVALS[system].split(":")
    found = getattr(import_module(module), name)
    return partial(run_training, found) if isinstance(found, type) else found


def command(system: str) -> Callable[..., None]:
    """The command that trains ``system``."""

    def train(
        out: Out,
        data: Data = None,
        minutes: Minutes = 9.0,
        total_minutes: Annotated[
            float | None,
            typer.Option(help="Of the whole recipe, over all runs in OUT. [default: this run]"),
        ] = None,
        steps: Steps = 0,
        total_steps: TotalSteps = 0,
        resume: Resume = None,
        config: Config = None,
        device: Device = "auto",
        tensorboard: TensorBoard = False,
        as_json: AsJson = False,
    ) -> None:
        from ..data.sets import data_root

        root = data_root(data)
        if tensorboard:
            check_tensorboard()
        with shown(out, as_json=as_json, tensorboard=tensorboard) as show:
            run = trainer(system)(
                root, out, minutes=minutes, total_minutes=total_minutes,
                steps=steps, total_steps=total_steps, resume=resume, config=config, device=device,
                show=show,
            )  # fmt: skip
        if as_json:
            return
        from rich.console import Console

        Console().print(figures_table(run.figures))
        typer.echo(f"{out}: {run.stem}.safetensors, {run.stem}.json, metrics.jsonl")

    train.__doc__ = f"Train the networks of {system}, or go on with them: the same command does."
    return train
