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
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posemill.web.answers import JsonAnswer, refusal

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
    """Lets through what may ask; a token is demanded of everyone once."""

    def __init__(self, app: ASGIApp, *, host: str, token: str | None = None) -> None:
        self._app, self._host, self._token = app, host, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":  # no web sockets
            answer = self._refusal(scope) or self._app
            await answer(scope, _bounded(receive), _guarded(send))

    def _refusal(self, scope: Scope) -> JsonAnswer | None:
        headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not is_own_host(hosts[0], self._host):
            return refusal("this server does not answer to that name", 421)
        origins = [value for name, value in headers if name == b"origin"]
        sites = [value for name, value in headers if name == b"sec-fetch-site"]
        is_foreign = any(urlsplit(origin).netloc != hosts[0] for origin in origins)
        if is_foreign or any(site in ("cross-site", "same-site") for site in sites):
            is_link = scope["method"] == "GET" and not origins and scope["path"] == "/"
            if not is_link:  # somebody may come by a link on another page
                return refusal("another site may not ask", 403)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return refusal("only GET, HEAD and POST", 405)
        if self._token is None:
            return None
        if any(
            name == b"cookie" and _is_same(_cookie(text), self._token) for name, text in headers
        ):
            return None
        return _check_token(scope, self._token)


def _check_token(scope: Scope, token: str) -> JsonAnswer:
    """Return the address without the token where it has it, and the token as a cookie."""
    asked = parse_qsl(scope["query_string"].decode("latin-1"))
    if not any(name == "token" and _is_same(value, token) for name, value in asked):
        return refusal("a token is needed: open the address that posemill serve printed", 401)
    rest = urlencode([(name, value) for name, value in asked if name != "token"])
    # It must not stay in a history or a log.
    where = scope["path"] + (f"?{rest}" if rest else "")
    if not where.startswith("/") or where.startswith("//"):
        where = "/"
    cookie = f"{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"
    return JsonAnswer(None, 303, {"location": where, "set-cookie": cookie})


def is_own_host(text: str, host: str) -> bool:
    """Return whether a `Host` header names this server, by what the server listens on."""
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
        cookie = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


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
    """Return `receive` that takes a small body, and says of a larger one that the client left."""
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
