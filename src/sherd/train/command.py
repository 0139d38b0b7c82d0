"""How the module commands (``python -m sherd.train.…``) run and fail; they need no typer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ..errors import SherdError


class Trained(Protocol):
    """What a training leaves behind."""

    figures: dict[str, dict[str, float]]


def run_command(
    parser: argparse.ArgumentParser, work: Callable[..., None], argv: Sequence[str] | None
) -> int:
    """Call ``work`` with what ``parser`` reads, by name. 0, or 2 and one line on stderr."""
    args = parser.parse_args(argv)
    try:
        work(**vars(args))
    except SherdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def check_out(out: Path) -> None:
    """Raise where ``out`` cannot be a training's folder."""
    if out.exists() and not out.is_dir():
        raise SherdError(f"{out}: is a file; --out must name a folder")


def training_parser(
    module: str, description: str | None, *, needs_data: bool = True
) -> argparse.ArgumentParser:
    """The options that every training has."""
    p = argparse.ArgumentParser(prog=f"python -m sherd.train.{module}", description=description)
    p.add_argument("--data", type=Path, required=needs_data, help="folder with photos/ and art5/")
    p.add_argument("--out", type=Path, required=True, help="checkpoints, networks and metrics")
    p.add_argument("--minutes", type=float, default=9.0, help="of this run, loading included")
    p.add_argument("--steps", type=int, default=0, help="of this run, if fewer than fit")
    p.add_argument("--resume", type=Path, help="folder of a checkpoint (default: --out's own)")
    p.add_argument("--config", type=Path, help="TOML that overrides the recipe")
    p.add_argument("--device", default="auto", help="auto, cpu or cuda")
    return p


def add_schedule(parser: argparse.ArgumentParser, total_minutes: float | None) -> None:
    """The length of the recipe, over all runs; None = as long as this run."""
    length = "this run's" if total_minutes is None else f"{total_minutes:g}"
    about = f"of training in all runs (default: {length})"
    parser.add_argument("--total-minutes", type=float, default=total_minutes, help=about)
    about = "schedule by steps, not minutes"
    parser.add_argument("--total-steps", type=int, default=0, help=about)


def run_training_command(
    parser: argparse.ArgumentParser, train: Callable[..., Trained], argv: Sequence[str] | None
) -> int:
    """Train as ``parser`` reads, then print the figures on validation pictures."""

    def work(**options: object) -> None:
        print_figures(train(**options).figures)

    return run_command(parser, work, argv)


def print_figures(figures: Mapping[str, Mapping[str, float]]) -> None:
    """A line per cell."""
    for cell, values in figures.items():
        print(cell, " ".join(f"{k}={v:.4f}" for k, v in values.items()))
