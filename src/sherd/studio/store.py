"""Jobs on disk: a folder per job, ``job.json`` in it, written whole or not at all.

``FOLDER/jobs/ID/job.json``, ``FOLDER/jobs/ID/fragments`` (what was uploaded), ``…/sheet.webp``
(what the page shows of it) and ``…/made`` (pictures of the present board). The studio reads and
writes nothing outside ``FOLDER``.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from ..errors import SherdError
from .job import BUSY, ID, Job, new_job
from .uploads import ROOM

DAY = 86400.0
DRAFT_SECONDS = 3600.0
"""How long files wait that nobody finished uploading."""
MAX_JOBS = 500
MAX_DRAFTS = 64


def _check_ours(folder: Path) -> None:
    """Old jobs are deleted from a studio's folder: nobody else's may be taken for one."""
    inside = os.listdir(folder) if folder.exists() else []
    if "lock" not in inside and any(n[0] != "." and n != "lost+found" for n in inside):
        raise SherdError(
            f"{folder}: is not empty and no studio's own; give another --folder, empty or new"
        )


def default_folder() -> Path:
    """Where the studio keeps its jobs if nobody says: with the user's other data."""
    base = os.environ.get("XDG_DATA_HOME", "")
    home = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share"
    return home / "sherd" / "studio"


class Store:
    """All jobs, in memory and on disk. One studio per folder."""

    def __init__(self, folder: Path, *, keep_days: float = 7.0) -> None:
        if not keep_days > 0:
            raise SherdError(f"keep: {keep_days} days; must be more than 0")
        self.folder = folder.resolve()
        self.keep = keep_days * DAY
        self._jobs_folder = self.folder / "jobs"
        self._trash = self.folder / "trash"
        try:
            _check_ours(self.folder)
            self._jobs_folder.mkdir(parents=True, exist_ok=True)
            self._trash.mkdir(exist_ok=True)
            self._lock = (self.folder / "lock").open("a")
        except OSError as e:
            raise SherdError(f"{folder}: cannot be written: {e.strerror or e}") from e
        try:
            _hold(self._lock)
        except OSError as e:
            self._lock.close()
            raise SherdError(
                f"{folder}: another studio is using this folder; end it, or give another --folder"
            ) from e
        self.jobs: dict[str, Job] = {}
        self._load()
        self.expire()

    def close(self) -> None:
        """Let another studio have the folder."""
        self._lock.close()

    # ----------------------------------------------------------------- jobs

    def new(self, title: str) -> Job:
        """A job without files yet."""
        drafts = sum(j.state == "uploading" for j in self.jobs.values())
        if len(self.jobs) >= MAX_JOBS or drafts >= MAX_DRAFTS:
            raise SherdError("There is too much work here already. Delete what is done first.")
        if shutil.disk_usage(self.folder).free < ROOM:
            raise SherdError("The disk is full. Delete what is done first.")
        job = new_job(title)
        self.fragments(job).mkdir(parents=True)
        self.jobs[job.id] = job
        self.save(job)
        return job

    def get(self, job_id: str) -> Job | None:
        """The job of that id."""
        return self.jobs.get(job_id)

    def save(self, job: Job, *, touch: bool = True) -> None:
        """Write ``job.json``; ``touch`` makes the job count as changed now."""
        if job.id not in self.jobs:
            return  # deleted meanwhile
        job.version += 1
        if touch:
            job.changed = time.time()
        write_json(self.path(job) / "job.json", job.entries())

    def delete(self, job: Job) -> None:
        """Forget a job and its files. What of it is half removed is never seen again."""
        self.jobs.pop(job.id, None)
        gone = self._trash / secrets.token_hex(8)
        with suppress(OSError):
            self.path(job).rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def expire(self, now: float | None = None) -> list[Job]:
        """Delete what nobody has changed for long; returns it."""
        now = time.time() if now is None else now
        old = [j for j in self.jobs.values() if j.state not in BUSY and now > self.until(j)]
        for job in old:
            self.delete(job)
        return old

    def until(self, job: Job) -> float:
        """When a job expires, in seconds since 1970."""
        return job.changed + (DRAFT_SECONDS if job.state == "uploading" else self.keep)

    # ---------------------------------------------------------------- paths

    def path(self, job: Job) -> Path:
        """The job's own folder."""
        if not ID.fullmatch(job.id):
            raise ValueError(job.id)
        return self._jobs_folder / job.id

    def fragments(self, job: Job) -> Path:
        """Where its uploaded files lie."""
        return self.path(job) / "fragments"

    def made(self, job: Job) -> Path:
        """Where pictures of its board lie."""
        return self.path(job) / "made"

    # -------------------------------------------------------------- loading

    def _load(self) -> None:
        """Read all jobs. What was running when the last studio ended is interrupted."""
        shutil.rmtree(self._trash, ignore_errors=True)
        self._trash.mkdir(exist_ok=True)
        for path in self._folders():
            if not (path / "job.json").exists():  # a crash in the moment of its making
                shutil.rmtree(path, ignore_errors=True)
                continue
            try:
                job = Job.of(json.loads((path / "job.json").read_text("utf-8")))
                good = job.id == path.name
            except (OSError, ValueError, KeyError, TypeError, SherdError):
                good = False
            if not good:  # another version's: left alone
                continue
            self.jobs[job.id] = job
            for part in (path / "fragments").glob(".*.part"):
                part.unlink(missing_ok=True)
            if job.state == "running":
                job.state = "interrupted"
                job.message = "The studio ended while this was being put together."
                job.keep_live()
                self.save(job, touch=False)

    def _folders(self) -> Iterator[Path]:
        with os.scandir(self._jobs_folder) as entries:
            for entry in entries:
                if ID.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    yield Path(entry.path)


def _hold(file: IO[str]) -> None:
    """Lock ``file`` for this process until it is closed or the process ends, or raise OSError."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write ``value`` so that a reader, also one after a crash, sees the old or the new file."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
