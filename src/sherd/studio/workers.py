"""The server's side of a worker process: start it, ask it, kill it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from ..errors import SherdError

LINE = 64 * 2**20
"""Longest answer in bytes."""

OnEvent = Callable[[dict[str, Any]], None]


class Ended(Exception):
    """The process ended before it answered: it was killed, or it crashed."""


class Worker:
    """One process, one request at a time. It starts with the first request, or with `start`."""

    def __init__(self, role: Literal["desk", "bench"]) -> None:
        self._role = role
        self._process: Process | None = None
        self._lock = asyncio.Lock()
        self.killed = False
        """Whether the last end was asked for."""
        self.used = time.monotonic()
        """When the last request ended."""

    @property
    def pid(self) -> int | None:
        """Of the process, where there is one."""
        return None if self._process is None else self._process.pid

    async def start(self) -> Process:
        """The process, alive."""
        if self._process is not None and self.killed:
            await self._process.wait()
        if self._process is None or self._process.returncode is not None:
            self.killed = False
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # the working folder is nobody's code
                "-m",
                "sherd.studio.worker",
                self._role,
                stdin=PIPE,
                stdout=PIPE,
                limit=LINE,
                env=os.environ.copy(),
                start_new_session=True,  # Ctrl-C is for the server alone
            )
            if self.killed:  # while it started
                self._process.kill()
        return self._process

    async def ask(
        self, request: dict[str, Any], on_event: OnEvent | None = None, seconds: float | None = None
    ) -> Any:
        """The answer to ``request``; a `SherdError` if the worker refuses, `Ended` if it dies.

        A request that takes longer than ``seconds`` costs the process its life.
        """
        async with self._lock:
            try:
                async with asyncio.timeout(seconds):
                    return await self._ask(request, on_event)
            except TimeoutError as e:
                self.kill()
                raise SherdError("This took too long.") from e
            except (SherdError, Ended):
                raise
            except BaseException:  # cancelled, or `on_event` failed
                self.kill()  # its answer would be taken for that to the next request
                raise
            finally:
                self.used = time.monotonic()

    async def _ask(self, request: dict[str, Any], on_event: OnEvent | None) -> Any:
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            await process.stdin.drain()
            while line := await process.stdout.readline():
                answer = json.loads(line)
                if "done" in answer:
                    return answer["done"]
                if "error" in answer:
                    raise SherdError(answer["error"])
                if on_event is not None:
                    on_event(answer)
        except (ConnectionError, ValueError):
            self.kill()  # a broken pipe, or half a line
        await process.wait()
        raise Ended

    def rest(self, seconds: float) -> None:
        """End the process if it has had nothing to do for so long; the next request starts it."""
        if not self._lock.locked() and time.monotonic() - self.used > seconds:
            self.kill()

    def kill(self) -> None:
        """End the process at once, whatever it does."""
        self.killed = True
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
