"""Who may ask, and how: the host's name, the token, where a page may load from, how long it takes.

An ASGI layer around the whole app. Other sites must not read a run through the user's browser: a
foreign `Host` is a name that was made to point here (DNS rebinding), a foreign `Origin` a form of
another page; there is no CORS header anywhere.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import socket
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posemill.web.answers import refusal

COOKIE = "posemill_token"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SEND_SECONDS = 30.0  # a client that takes nothing for so long is left
_HOST = re.compile(r"(?:\[([\da-fA-F:.]+)\]|([\w.-]+))(?::\d{1,5})?")
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
            answer = self._refusal(HTTPConnection(scope)) or self._app
            await answer(scope, receive, _guarded(send))

    def _refusal(self, asked: HTTPConnection) -> ASGIApp | None:
        method, path = asked.scope["method"], asked.scope["path"]
        hosts, origins = asked.headers.getlist("host"), asked.headers.getlist("origin")
        if len(hosts) != 1 or not is_own_host(hosts[0], self._host):
            return refusal(asked, "this server does not answer to that name", 421)
        is_foreign = any(urlsplit(origin).netloc != hosts[0] for origin in origins)
        sites = asked.headers.getlist("sec-fetch-site")
        if is_foreign or not {"cross-site", "same-site"}.isdisjoint(sites):
            is_link = method == "GET" and not origins and path == "/"
            if not is_link:  # somebody may come by a link on another page
                return refusal(asked, "another site may not ask", 403)
        if method not in ("GET", "HEAD", "POST"):
            return refusal(asked, "only GET, HEAD and POST", 405)
        if self._token is None or _is_same(asked.cookies.get(COOKIE, ""), self._token):
            return None
        query = asked.query_params.multi_items()
        if not any(name == "token" and _is_same(value, self._token) for name, value in query):
            reason = "a token is needed: open the address that posemill serve printed"
            return refusal(asked, reason, 401)
        # It must not stay in a history or a log: the address without it, and the token as a cookie.
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        is_here = path.startswith("/") and not path.startswith("//")
        where = f"{path}?{rest}".rstrip("?") if is_here else "/"
        cookie = f"{COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
        return RedirectResponse(where, 303, {"set-cookie": cookie})


def is_own_host(text: str, host: str) -> bool:
    """Return whether a `Host` header names this server, by what the server listens on."""
    parts = _HOST.fullmatch(text)
    if parts is None:
        return False
    name = (parts[1] or parts[2]).lower().rstrip(".")
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


def _guarded(send: Send) -> Send:
    """Return `send` with the headers of every answer; a slow client is not waited for for ever."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(_HEADERS)
            headers.setdefault("cache-control", "no-store")
        await asyncio.wait_for(send(message), _SEND_SECONDS)

    return guarded
