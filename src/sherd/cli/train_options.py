"""Options that the commands of ``sherd train`` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path, typer.Option(help="Folder for networks, checkpoint and metrics.jsonl.")]
Data = Annotated[
    Path | None, typer.Option(help="Folder that holds photos/ and art5/. [default: $SHERD_DATA]")
]
Minutes = Annotated[float, typer.Option(help="Of this run, reading the pictures included.")]
Steps = Annotated[int, typer.Option(help="Of this run, if fewer than fit. 0 = all.")]
TotalSteps = Annotated[int, typer.Option(help="Length of the recipe in steps instead of minutes.")]
Resume = Annotated[
    Path | None, typer.Option(help="Folder of a checkpoint. [default: OUT's, if there is one]")
]
Config = Annotated[Path | None, typer.Option(help="TOML that changes the recipe.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Also write OUT/tensorboard.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print every line of metrics.jsonl, and nothing else.")
]
