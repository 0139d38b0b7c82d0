"""``sherd systems``: what can be run."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLE = "Example: sherd systems --json"


def systems(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one line per system.")
    ] = False,
) -> None:
    """List the systems that can solve puzzles."""
    from ..bench.version import missing_weights
    from ..solvers import DEFAULT, SYSTEMS, solver_class
    from .show import print_json

    known = [
        {
            "system": name,
            "default": name == DEFAULT,
            "summary": solver_class(name).summary,
            "reference": solver_class(name).reference,
            "trained": not missing_weights(name),
        }
        for name in SYSTEMS
    ]
    if as_json:
        for entry in known:
            print_json(entry)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None)
    for column in ("system", "what it is", "paper"):
        table.add_column(column)
    for entry in known:
        star = " (default)" if entry["default"] else ""
        to_do = "" if entry["trained"] else f" Not trained yet: sherd train {entry['system']}."
        table.add_row(
            f"{entry['system']}{star}", f"{entry['summary']}{to_do}", str(entry["reference"])
        )
    Console().print(table)
