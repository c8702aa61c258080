"""Who may ask, and how: the host's name, the token, where a page may load from, how long it takes.

An ASGI layer around the whole app. Other sites must not read a run through the user's browser: a
foreign `Host` is a name that was made to point here (DNS rebinding), a foreign `Origin` a form of
another page; there is no CORS header anywhere.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from posemill.web.answers import JsonAnswer

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "posemill_token"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SEND_SECONDS = 30.0  # a client that takes nothing for so long is left
_MOST_BODY = 4096
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """Lets through what may ask.

    Args:
        app: What answers.
        host: What the server listens on.
        token: Demanded of everyone, once; None where only this machine can ask.
        most: Requests at a time; more wait for their turn.
        most_waiting: As many wait; more are told to come again.
        wait_seconds: Who has not had a turn by then is told so too.
    """

    def __init__(
        self,
        app: App,
        *,
        host: str,
        token: str | None = None,
        most: int = 32,
        most_waiting: int = 1024,
        wait_seconds: float = 10.0,
    ) -> None:
        self._app, self._host, self._token = app, host, token
        self._turns, self._num_waiting = asyncio.Semaphore(most), 0
        self._most_waiting, self._wait_seconds = most_waiting, wait_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # no web sockets
        answer = self._refusal(scope)
        if answer is not None:
            await answer(scope, receive, _guarded(send))
            return
        if not await self._has_turn():
            busy = JsonAnswer({"reason": "too many requests at once"}, 503, {"retry-after": "1"})
            await busy(scope, receive, _guarded(send))
            return
        try:
            await self._app(scope, _bounded(receive), _guarded(send))
        finally:
            self._turns.release()

    async def _has_turn(self) -> bool:
        """Wait for a turn, in the order of asking; return whether it came in time."""
        if not self._turns.locked():
            return await self._turns.acquire()
        if self._num_waiting >= self._most_waiting:
            return False
        self._num_waiting += 1
        try:
            await asyncio.wait_for(self._turns.acquire(), self._wait_seconds)
        except asyncio.TimeoutError:
            return False
        finally:
            self._num_waiting -= 1
        return True

    def _refusal(self, scope: Scope) -> JsonAnswer | None:
        headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not is_own_host(hosts[0], self._host):
            return JsonAnswer({"reason": "this server does not answer to that name"}, 421)
        origins = [value for name, value in headers if name == b"origin"]
        sites = [value for name, value in headers if name == b"sec-fetch-site"]
        is_foreign = any(urlsplit(each).netloc != hosts[0] for each in origins)
        if is_foreign or any(each in ("cross-site", "same-site") for each in sites):
            is_link = scope["method"] == "GET" and not origins and scope["path"] == "/"
            if not is_link:  # somebody may come by a link on another page
                return JsonAnswer({"reason": "another site may not ask"}, 403)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return JsonAnswer({"reason": "only GET, HEAD and POST"}, 405)
        return self._check_token(scope, headers) if self._token is not None else None

    def _check_token(self, scope: Scope, headers: Sequence[tuple[bytes, str]]) -> JsonAnswer | None:
        assert self._token is not None
        for name, value in headers:
            if name == b"cookie" and _is_same(_cookie(value), self._token):
                return None
        asked = parse_qsl(scope["query_string"].decode("latin-1"))
        if any(name == "token" and _is_same(value, self._token) for name, value in asked):
            rest = urlencode([(name, value) for name, value in asked if name != "token"])
            # The address without the token: it must not stay in a history or a log.
            where = scope["path"] + (f"?{rest}" if rest else "")
            if not where.startswith("/") or where.startswith("//"):
                where = "/"
            cookie = f"{COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            return JsonAnswer(None, 303, {"location": where, "set-cookie": cookie})
        reason = "a token is needed: open the address that posemill serve printed"
        return JsonAnswer({"reason": reason}, 401)


def is_own_host(text: str, host: str) -> bool:
    """Return whether a `Host` header names this server.

    Args:
        text: The header.
        host: What the server listens on: a name, an address, or 0.0.0.0 and :: for all.
    """
    try:
        parts = urlsplit(f"//{text}")
        name, _ = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return False
    if parts.path or parts.query or parts.fragment or "@" in text:
        return False
    if host in LOOPBACK:
        return name in LOOPBACK
    if name in (host.lower(), *LOOPBACK):
        return True
    if host not in ("0.0.0.0", "::"):
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in (socket.gethostname().lower(), socket.getfqdn().lower())
    return True  # an address cannot be made to point elsewhere


def _is_same(value: str, token: str) -> bool:
    return hmac.compare_digest(value.encode("utf-8", "replace"), token.encode())


def _cookie(text: str) -> str:
    try:
        found = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _guarded(send: Send) -> Send:
    """Return `send` with the headers of every answer; a slow client is not waited for for ever."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            more = [(key.encode(), value.encode()) for key, value in _HEADERS.items()]
            if b"cache-control" not in names:
                more.append((b"cache-control", b"no-store"))
            message["headers"] = [*message["headers"], *more]
        await asyncio.wait_for(send(message), _SEND_SECONDS)

    return guarded


def _bounded(receive: Receive) -> Receive:
    """Return `receive` that takes a small body within a moment, or says that the client left."""
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > _MOST_BODY:
                return {"type": "http.disconnect"}
        return message

    return bounded
