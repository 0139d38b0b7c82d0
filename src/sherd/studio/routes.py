"""The API of the page: thin, it checks what comes in and calls `Jobs`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import FileResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import ClientDisconnect, HTTPConnection

from .. import __version__
from ..data.folder import MAX_CELLS, MAX_GAP
from . import table as edits
from .job import Job
from .jobs import Jobs
from .press import MADE
from .sample import SAMPLES
from .table import Table
from .uploads import Refused, receive

router = APIRouter(prefix="/api")


class Body(BaseModel):
    """A request's JSON; what is not known is an error."""

    model_config = ConfigDict(extra="forbid", strict=False)


class NewJob(Body):
    """A job before its files."""

    title: str = Field("Fragments", max_length=200)


class Complete(Body):
    """All files are sent."""

    files: int = Field(ge=1)


class Go(Body):
    """Start, from the board as it is or from nothing."""

    go_on: bool = False


Row = Annotated[int, Field(ge=1, le=1000)]


class Changes(Body):
    """What the owner knows."""

    title: str | None = Field(None, min_length=1, max_length=200)
    grid: tuple[Row, Row] | None = None
    gap: int | None = Field(None, ge=0, le=MAX_GAP)


Index = Annotated[int, Field(ge=0, le=100_000)]


class Edit(Body):
    """One change by hand."""

    op: Literal["move", "lift", "pin", "unpin", "forbid", "allow", "clear", "choose"]
    piece: Index | None = None
    cell: tuple[Index, Index] | None = None
    alternative: Index | None = None


class SampleName(Body):
    """Which sample."""

    name: str = Field("coffee", max_length=40)


def jobs_of(connection: HTTPConnection) -> Jobs:
    """The server's jobs."""
    jobs = connection.app.state.jobs
    assert isinstance(jobs, Jobs)
    return jobs


AllJobs = Annotated[Jobs, Depends(jobs_of)]


def job_of(job_id: str, jobs: AllJobs) -> Job:
    """The job that a path names."""
    job = jobs.store.get(job_id)
    if job is None:
        raise Refused("There is no such work here; perhaps it has expired.", 404)
    return job


OneJob = Annotated[Job, Depends(job_of)]


def clean(title: str) -> str:
    """A title without control characters."""
    text = "".join(c if c.isprintable() else " " for c in title)
    return " ".join(text.split())[:120] or "Fragments"


@router.get("/about")
async def about(jobs: AllJobs) -> dict[str, Any]:
    """What the page should know of this studio."""
    return {
        "version": __version__,
        "limits": asdict(jobs.limits),
        "keep_days": jobs.store.keep / 86400,
        "samples": {name: s.title for name, s in SAMPLES.items()},
    }


@router.get("/jobs")
async def list_jobs(jobs: AllJobs) -> list[dict[str, Any]]:
    """All jobs, the latest first."""
    known = [j for j in jobs.store.jobs.values() if j.state != "uploading"]
    known.sort(key=lambda j: -j.changed)
    return [
        {**j.summary(), "sheet": j.sheet, "size": j.size, "until": jobs.store.until(j)}
        for j in known
    ]


@router.post("/jobs", status_code=201)
async def new_job(body: NewJob, jobs: AllJobs) -> dict[str, Any]:
    """A job that waits for its files."""
    return {"id": jobs.store.new(clean(body.title)).id}


@router.put("/jobs/{job_id}/files", status_code=201)
async def put_file(
    request: Request, job: OneJob, jobs: AllJobs, name: Annotated[str, Query(max_length=1000)]
) -> dict[str, Any]:
    """One file: its bytes are the body."""
    jobs.check_open(job)
    length = request.headers.get("content-length", "")
    declared = int(length) if length.isdecimal() else None
    folder = jobs.store.fragments(job)
    stream = request.stream()
    try:
        kept = await receive(
            stream, folder, name, declared, jobs.limits, lambda: jobs.check_open(job)
        )
    except ClientDisconnect as e:
        raise Refused("The upload was cut off; send it again.", 400) from e
    return {"name": kept}


@router.post("/jobs/{job_id}/complete")
async def complete(body: Complete, job: OneJob, jobs: AllJobs) -> dict[str, Any]:
    """All files are there: look at them."""
    jobs.check_open(job)
    there = sum(not p.name.startswith(".") for p in jobs.store.fragments(job).iterdir())
    if there != body.files:
        raise Refused(f"{there} of {body.files} files arrived; send the rest.", 409)
    await jobs.take_in(job)
    return jobs.view(job)


@router.post("/sample", status_code=201)
async def sample(body: SampleName, jobs: AllJobs) -> dict[str, Any]:
    """A job on a sample."""
    return jobs.view(await jobs.sample(body.name))


@router.get("/jobs/{job_id}")
async def get_job(job: OneJob, jobs: AllJobs) -> dict[str, Any]:
    """One job."""
    return jobs.view(job)


@router.patch("/jobs/{job_id}")
async def change(body: Changes, job: OneJob, jobs: AllJobs) -> dict[str, Any]:
    """Another title, grid or gap; null = unknown."""
    changes = {k: getattr(body, k) for k in body.model_fields_set}
    if "title" in changes:
        changes["title"] = clean(changes["title"] or "")
    if changes.get("grid", job.grid) != job.grid:
        _check_grid(job, changes["grid"])
    jobs.know(job, changes)
    return jobs.view(job)


def _check_grid(job: Job, grid: tuple[int, int] | None) -> None:
    """Raise unless the fragments fit into the grid, and the cells that stay empty lie in it."""
    if grid is None:
        if job.blocked:
            raise Refused("Some cells must stay empty; that needs known rows and columns.")
        return
    rows, cols = grid
    if rows * cols > MAX_CELLS:
        raise Refused(f"{rows} x {cols} is too large a grid.")
    for r, c in job.blocked:
        if r >= rows or c >= cols:
            raise Refused(
                f"Row {r + 1}, column {c + 1} must stay empty, "
                f"but {rows} x {cols} has no such cell."
            )
    room = rows * cols - len(job.blocked)
    if room < len(job.names):
        raise Refused(
            f"{rows} x {cols} has room for {room} fragments, but there are {len(job.names)}."
        )


@router.delete("/jobs/{job_id}")
async def delete(job: OneJob, jobs: AllJobs) -> dict[str, Any]:
    """Forget a job and its files."""
    jobs.delete(job)
    return {}


@router.post("/jobs/{job_id}/solve")
async def solve(body: Go, job: OneJob, jobs: AllJobs) -> dict[str, Any]:
    """Put it into the queue."""
    await jobs.submit(job, go_on=body.go_on)
    return jobs.view(job)


@router.post("/jobs/{job_id}/stop")
async def stop(job: OneJob, jobs: AllJobs) -> dict[str, Any]:
    """End its waiting or running at once."""
    jobs.stop(job)
    return jobs.view(job)


@router.post("/jobs/{job_id}/edit")
async def edit(body: Edit, job: OneJob, jobs: AllJobs) -> dict[str, Any]:
    """One change by hand."""
    jobs.check_free(job)
    jobs.lay(job, _edited(job, body))
    return jobs.view(job)


def _edited(job: Job, body: Edit) -> Table:
    """The table after one change."""
    table, piece, cell = job.table, body.piece, body.cell
    if body.op == "clear":
        return edits.cleared(table)
    if body.op == "choose":
        if body.alternative is None or body.alternative >= len(job.alternatives):
            raise Refused("There is no such alternative.")
        return edits.chosen(table, job.alternatives[body.alternative].board)
    if piece is None or piece >= len(job.names):
        raise Refused("There is no such fragment.")
    if body.op in ("lift", "pin", "unpin"):
        return {"lift": edits.lifted, "pin": edits.pinned, "unpin": edits.unpinned}[body.op](
            table, piece
        )
    if cell is None:
        raise Refused("This needs a cell.")
    if cell in job.blocked:
        raise Refused("This cell must stay empty.")
    return {"move": edits.moved, "forbid": edits.forbidden, "allow": edits.allowed}[body.op](
        table, piece, cell
    )


@router.post("/jobs/{job_id}/undo")
async def undo(job: OneJob, jobs: AllJobs) -> dict[str, Any]:
    """Take the last change back."""
    jobs.step(job, back=True)
    return jobs.view(job)


@router.post("/jobs/{job_id}/redo")
async def redo(job: OneJob, jobs: AllJobs) -> dict[str, Any]:
    """Make it again."""
    jobs.step(job, back=False)
    return jobs.view(job)


@router.get("/jobs/{job_id}/sheet.webp")
async def sheet(job: OneJob, jobs: AllJobs) -> Response:
    """All fragments on one picture."""
    path = jobs.store.path(job) / "sheet.webp"
    if not path.is_file():
        raise Refused("There is no sheet yet.", 404)
    return FileResponse(path, headers={"cache-control": "private, max-age=604800, immutable"})


@router.get("/jobs/{job_id}/film")
async def film(job: OneJob, jobs: AllJobs) -> dict[str, Any]:
    """The boards of the last run, in their order."""
    return {"film": jobs.film(job)}


@router.get("/jobs/{job_id}/made/{what}")
async def made(what: str, job: OneJob, jobs: AllJobs) -> Response:
    """The board as a picture, a layout or a report, to keep."""
    if what not in MADE:
        raise Refused("There is no such file.", 404)
    path = await jobs.press.make(job, what)
    stem = "".join(c if c.isalnum() or c in "-_ " else "-" for c in job.title).strip() or "sherd"
    name = quote(f"{stem} - {what}")
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; "
        "img-src data:",
    }
    return FileResponse(path, media_type=MADE[what], headers=headers)


@router.websocket("/jobs/{job_id}/live")
async def live(socket: WebSocket, job_id: str) -> None:
    """The job as it is, then everything that happens to it."""
    jobs = jobs_of(socket)
    await socket.accept()
    box = jobs.hub.watch(job_id)

    async def talk() -> None:
        job = jobs.store.get(job_id)
        gone = {"type": "gone"}
        message = gone if job is None else {"type": "job", "job": jobs.view(job)}
        while True:
            await socket.send_json(message)
            message = await box.get()

    talking = asyncio.create_task(talk())
    try:
        while True:  # nothing is expected; this is how its end is noticed
            await socket.receive_text()
    except (WebSocketDisconnect, KeyError):  # gone, or bytes where text was due
        pass
    finally:
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)
        jobs.hub.leave(job_id, box)


def error(status: int, message: str) -> JSONResponse:
    """How every refusal looks."""
    return JSONResponse({"error": message}, status)
