"""Starts the server: on this machine only, or with a token that everybody else must have."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from posemill.errors import ConfigError
from posemill.web.app import make_app
from posemill.web.guard import LOOPBACK, Guard

_HEAD_SECONDS = 10  # within which the header of the next request must have come whole
_MOST_CONNECTIONS = 500  # more are told to come again
_MOST_HEAD = 16 << 10  # bytes of a request's header


class _PromptProtocol(H11Protocol):
    """Leaves a client that does not end the header of a request: uvicorn waits for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(_HEAD_SECONDS, self._leave)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._deadline.cancel()
        self._deadline = self.loop.call_later(_HEAD_SECONDS, self._leave)

    def _leave(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def serve(
    folders: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    opens: bool = False,
    allow_actions: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Serve the runs below some folders until interrupted; `say` gets the address, once.

    Any host but this machine itself demands a token. Port 0 is any that is free. `opens` it in the
    browser of this machine.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError("{folder}: no such folder; name one with runs in it", folder=folder)
    (server, listening), address = make_server(
        folders, host=host, port=port, allow_actions=allow_actions
    )
    with suppress(KeyboardInterrupt):  # which uvicorn raises again when it has ended by it
        say(address)
        if opens:
            threading.Timer(0.5, webbrowser.open, [address]).start()
        server.run(sockets=[listening])


def make_server(
    folders: Sequence[Path], *, host: str, port: int, allow_actions: bool = False
) -> tuple[tuple[uvicorn.Server, socket.socket], str]:
    """Return a server with the socket it will listen on, and the address to open."""
    token = None if host in LOOPBACK else secrets.token_urlsafe(24)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_MOST_CONNECTIONS)
    except OSError as error:
        template = (
            "cannot listen on {host}, port {port}: {reason}; choose another by {--port}, or 0 for "
            "any that is free"
        )
        reason = error.strerror or error
        raise ConfigError(template, host=host, port=port, reason=reason) from error
    # Connections inherit it: those to machines that went to sleep end.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    guard = Guard(make_app(folders, allow_actions=allow_actions), host=host, token=token)
    config = uvicorn.Config(
        guard,
        http=_PromptProtocol,
        limit_concurrency=_MOST_CONNECTIONS,
        ws="none",
        log_level=logging.ERROR,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_HEAD_SECONDS,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=_MOST_HEAD,
    )
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else host
    shown = f"[{shown}]" if ":" in shown else shown
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    return (uvicorn.Server(config), listening), address + (f"?token={token}" if token else "")
