"""The server: the page, the API, and how they are started."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from ..data.zips import Limits
from ..errors import SherdError
from .guard import Guard
from .jobs import Jobs
from .routes import error, router
from .store import Store
from .uploads import Refused

STATIC = Path(__file__).parent / "static"
MAX_CONNECTIONS = 500


def create_app(make_jobs: Callable[[], Jobs]) -> FastAPI:
    """The application; ``make_jobs`` is called on the server's own loop."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.jobs = jobs = make_jobs()
        await jobs.start()
        try:
            yield
        finally:
            await jobs.close()

    # no generated docs: their pages load scripts from elsewhere
    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.get("/")
    @app.get("/job/{job_id}")
    async def page() -> Response:
        return FileResponse(STATIC / "index.html")

    @app.exception_handler(SherdError)
    async def refused(request: Request, e: SherdError) -> Response:
        return error(e.status if isinstance(e, Refused) else 422, str(e))

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, e: RequestValidationError) -> Response:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        return error(422, f"{where or 'request'}: {first['msg']}.")

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, e: HTTPException) -> Response:
        return error(e.status_code, str(e.detail))

    @app.exception_handler(Exception)
    async def broken(request: Request, e: Exception) -> Response:
        return error(500, "Something went wrong inside the studio; its log says what.")

    return app


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, or one line that says why not."""
    if not 0 <= port <= 65535:
        raise SherdError(f"port: {port}; expected 0 to 65535")
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
    except (OSError, UnicodeError) as e:
        raise SherdError(f"host: {host!r} is no address of this computer") from e
    family, kind, _, _, address = found[0]
    sock = socket.socket(family, kind)
    try:
        if sys.platform != "win32":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(128)
    except OSError as e:
        sock.close()
        raise SherdError(f"{host}:{port}: cannot listen there: {e.strerror or e}") from e
    return sock


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    keep_days: float = 7.0,
    workers: int = 1,
    system: str = "sherd",
    limits: Limits | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until interrupted. ``on_ready`` is told the page's address once it can be opened."""
    from ..solvers import make_solver

    if workers < 1:
        raise SherdError(f"workers: {workers}; must be at least 1")
    make_solver(system)  # an unknown one is told now
    sock = listen(host, port)
    try:
        store = Store(folder, keep_days=keep_days)
    except SherdError:
        sock.close()
        raise
    loopback = is_loopback(host)
    names = () if loopback else (host, socket.gethostname(), socket.getfqdn())
    app: ASGIApp = Guard(
        create_app(lambda: Jobs(store, system=system, workers=workers, limits=limits)),
        loopback=loopback,
        names=names,
    )
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        ws_max_size=2**16,
        timeout_graceful_shutdown=2,
    )
    logging.getLogger("sherd.studio").setLevel(logging.INFO)
    server = uvicorn.Server(config)
    shown = f"[{host}]" if ":" in host else {"0.0.0.0": "127.0.0.1"}.get(host, host)
    address = f"http://{shown}:{sock.getsockname()[1]}/"

    async def run() -> None:
        task = asyncio.create_task(server.serve(sockets=[sock]))
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        if server.started and on_ready is not None:
            on_ready(address)
        await task

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        pass  # this is how it ends
    finally:
        store.close()
        sock.close()
