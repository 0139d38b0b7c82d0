"""``sherd studio``: the web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import SherdError

EXAMPLE = "Example: sherd studio --port 8000 --no-browser"


def studio(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 = any that is free.")] = 8765,
    host: Annotated[
        str,
        typer.Option(help="Address to listen on. Others than this computer's own let anyone in."),
    ] = "127.0.0.1",
    folder: Annotated[
        Path | None,
        typer.Option(help="Where uploads and results lie. [default: with the user's data]"),
    ] = None,
    keep: Annotated[float, typer.Option(help="Days after which unused work is deleted.")] = 7.0,
    workers: Annotated[int, typer.Option(help="Puzzles that are solved at a time.")] = 1,
    system: Annotated[
        str | None, typer.Option(help="See: sherd systems. [default: the best one]")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the page.")] = False,
) -> None:
    """Open a web page on which fragments are put together by eye and by machine."""
    from ..solvers import DEFAULT

    try:
        from ..studio.server import is_loopback, serve
        from ..studio.store import default_folder
    except ImportError as e:
        raise SherdError(
            f"studio: needs {e.name or 'more packages'}; install them: pip install 'sherd[studio]'"
        ) from e

    def ready(address: str) -> None:
        typer.echo(f"The studio is at {address} (Ctrl-C ends it).")
        if not is_loopback(host):
            typer.echo("note: whoever can reach this address can see all work in it", err=True)
        if not no_browser:
            _open(address)

    serve(
        default_folder() if folder is None else folder,
        host=host,
        port=port,
        keep_days=keep,
        workers=workers,
        system=DEFAULT if system is None else system,
        on_ready=ready,
    )


def _open(address: str) -> None:
    """Show the page. In a thread of its own: some browsers come back only when they are closed."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
