"""``sherd``: the commands, and how they fail."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from .. import __version__
from ..errors import SherdError
from . import bench, bench_paper, create, demo, evaluate, solve, studio, systems, train


class Commands(TyperGroup):
    """``sherd bench paper`` is a command of its own beside ``sherd bench PROTOCOL``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args[:2] == bench_paper.NAME.split():
            args = [bench_paper.NAME, *args[2:]]
        return super().parse_args(ctx, args)


# Plain help: laying it out with rich would double what --help costs.
app = typer.Typer(
    name="sherd",
    cls=Commands,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.command("create", epilog=create.EXAMPLE)(create.create)
app.command("solve", epilog=solve.EXAMPLE)(solve.solve)
app.command("studio", epilog=studio.EXAMPLE)(studio.studio)
app.command("eval", epilog=evaluate.EXAMPLE)(evaluate.evaluate)
app.command("bench", epilog=bench.EXAMPLE)(bench.bench)
app.command(bench_paper.NAME, epilog=bench_paper.EXAMPLE)(bench_paper.bench_paper)
app.command("systems", epilog=systems.EXAMPLE)(systems.systems)
app.add_typer(train.app, name="train")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sherd {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog="Example: sherd demo --out demo")
def main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Put pictures back together from fragments whose edges are gone."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0, 2 for bad input (one line on stderr), 130 for Ctrl-C."""
    try:
        code = app(args=argv, prog_name="sherd", standalone_mode=False)
    except SherdError as e:
        _fail(str(e))
    except (KeyboardInterrupt, typer.Abort):  # older typers turn the one into the other
        code = 130
    except OSError as e:  # a full disk, a folder that vanished: nothing a traceback would explain
        _fail(f"{e.filename or 'files'}: {e.strerror or e}")
    except Exception as e:
        if not hasattr(e, "format_message"):  # how typer says that the arguments are wrong
            raise
        _fail(e.format_message())
    if code == 130:
        print("interrupted", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> NoReturn:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)
