"""What stands before the server: whose requests are answered, and with which headers.

A page of another site must not use the studio through the visitor's browser. Its requests carry
its own ``Origin``; and a name of its own that it lets point here (DNS rebinding) stands in
``Host``.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 2**20
"""Bytes of a request that is no uploaded file."""
DRAIN = 16 * 2**20
DRAIN_SECONDS = 5.0
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Refuses what is not for the studio, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, *, loopback: bool, names: Iterable[str] = ()) -> None:
        self.app = app
        self.loopback = loopback
        self.names = {"localhost", *(n.lower() for n in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        why = self.refusal(scope)
        if scope["type"] == "websocket":
            if why is None:
                await self.app(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.close", "code": 1008})
            return

        body = _Body(receive)
        begun = False

        async def answer(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                if message["status"] >= 400:
                    await body.drain()
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                kept = "no-store" if scope["path"].startswith("/api/") else "no-cache"
                headers.setdefault("cache-control", kept)
            await send(message)

        headers = Headers(scope=scope)
        upload = scope["method"] == "PUT" and scope["path"].endswith("/files")
        if why is not None:
            await _refuse(answer, 403, why)
        elif not upload and "transfer-encoding" in headers:
            await _refuse(answer, 411, "This request must say how long it is.")
        elif not upload and int(headers.get("content-length", "0") or 0) > MAX_BODY:
            await _refuse(answer, 413, "This request is too large.")
        else:
            try:
                await self.app(scope, body.receive, answer)
            except asyncio.CancelledError:  # the server has ended, and waited for long enough
                if not begun:
                    await _refuse(send, 503, "The studio has ended.")

    def refusal(self, scope: Scope) -> str | None:
        """Why a request is refused, None if it is not."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.ours(hosts[0]):
            return "The studio does not answer to this name."
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{hosts[0]}", f"https://{hosts[0]}"):
            return "The studio answers its own page only."
        site = headers.get("sec-fetch-site", "none")
        link = headers.get("sec-fetch-mode") == "navigate" and scope.get("method") == "GET"
        if site not in ("none", "same-origin") and not (
            link and not scope["path"].startswith("/api/")
        ):
            return "The studio answers its own page only."
        return None

    def ours(self, host: str) -> bool:
        """Whether ``host``, with or without a port, is a name of this studio.

        Addresses cannot be rebound, so any will do where the studio listens to the network.
        """
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        if name in self.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self.loopback


class _Body:
    """A request's body, and what of it nobody has read yet."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._over = False

    async def receive(self) -> Message:
        """The next part."""
        message = await self._receive()
        self._over = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Read the rest of a refused body, within reason: who is still sending hears no answer."""
        left = DRAIN
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self._over and left > 0:
                    left -= len((await self.receive()).get("body", b""))


async def _refuse(send: Send, status: int, why: str) -> None:
    body = json.dumps({"error": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
