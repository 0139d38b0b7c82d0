"""``sherd bench paper``: the tables of the paper, its figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..bench.paper_run import Progress as State

NAME = "bench paper"
EXAMPLE = (
    "Example: sherd bench paper --quick\n\n"
    "Example: sherd bench paper --tables mit,large --systems greedy,evolve,sherd\n\n"
    "Example: sherd bench paper --dry-run   (what is left, and how long it takes)\n\n"
    "Example: sherd bench paper --save results/paper"
)


def bench_paper(
    quick: Annotated[
        bool,
        typer.Option("--quick", help="5 puzzles of a cell, one seed, without the table large."),
    ] = False,
    tables: Annotated[
        str | None,
        typer.Option(help="Of jpleg5, kinds, mit, ablation, large, by commas. [default: all]"),
    ] = None,
    systems: Annotated[
        str | None, typer.Option(help="Names, by commas. [default: all of a table]")
    ] = None,
    seeds: Annotated[
        str,
        typer.Option(
            help="Shuffles, by commas; the first alone for 10 puzzles and more of over 150 pieces."
        ),
    ] = "0,1,2",
    limit: Annotated[
        int | None, typer.Option(help="First so many puzzles of a cell (of each kind).")
    ] = None,
    art: Annotated[
        str | None,
        typer.Option(help="jpleg5 or art5. [default: jpleg5 where its files are, else art5]"),
    ] = None,
    cells: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Cells named like this, such as '*7x10, 2 px' or '*40x59*'. [default: all]",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Where the data lies. [default: $SHERD_DATA]")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Puzzles at a time, a process each. [default: cores]")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Log to go on with. [default: out/bench/paper.jsonl]")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a summary per cell to DIR/TABLE.jsonl."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Reuse lines of other versions of a system, too.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do not reuse what the log holds.")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(help="Stop after so long; the log keeps what was solved.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is left and how long it takes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line per cell.")] = False,
) -> None:
    """Reproduce the paper's tables, its figures beside ours.

    Every solved puzzle is a line of the log; an interrupted run goes on where it was when the same
    command is given again. Lines of one log can be appended to another, so that several machines
    share the work.
    """
    from ..bench import paper_run
    from ..bench.plan import plan
    from ..bench.records import Log
    from ..bench.run import cores
    from .show import print_json

    jobs = cores() if jobs is None else jobs
    paper_run.check(jobs, minutes, save)
    request = paper_run.request_from(tables, systems, seeds, quick, limit, art, cells or ())
    held = Log(paper_run.LOG if log is None else log)
    work = paper_run.prepare(plan(request, data), held, fresh=fresh, keep=keep)
    if dry_run:
        typer.echo(paper_run.what_is_left(work, jobs))
        return
    try:
        with _display() as show:
            made = paper_run.run(work, jobs=jobs, keep=keep, minutes=minutes, show=show)
    except paper_run.TimeIsUp as e:
        typer.echo(str(e), err=True)
        raise typer.Exit(paper_run.NOT_FINISHED) from None
    written = paper_run.save(made, save) if save is not None else []
    if as_json:
        for line in (s for lines in made.values() for s in lines):
            print_json(line)
        return
    typer.echo(paper_run.tables_text(made))
    typer.echo(f"\nresults in {', '.join(map(str, written)) or held.path}")


@contextmanager
def _display() -> Iterator[Callable[[State], None]]:
    """A bar on stderr that fills with time, not with the number of puzzles."""
    from rich.progress import BarColumn, Progress, TextColumn

    from .show import stderr

    console = stderr()
    with Progress(
        BarColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        line = bar.add_task("puzzles", total=None)

        def show(progress: State) -> None:
            left = progress.remaining
            total = None if left.unknown else progress.spent + left.seconds
            bar.update(line, completed=progress.spent, total=total, description=str(progress))

        yield show
