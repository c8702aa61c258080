"""Starts the server: on this machine only, or with a token that everybody else must have."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from posemill.errors import ConfigError
from posemill.web.app import make_app
from posemill.web.guard import LOOPBACK, Guard

_HEAD_SECONDS = 10.0  # within which a request must have come whole
_KEEP_SECONDS = 15
_MOST_CONNECTIONS = 1200  # more than may wait for a turn, see `Guard`
_MOST_HEAD = 16 << 10
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 1\r\n"
    b"connection: close\r\n\r\n"
)


class BoundedProtocol(H11Protocol):
    """A connection that must say what it wants within a few seconds."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request; one connection too many is told so and closed."""
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.write(_BUSY)
            transport.close()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes; what does not become a request in time is cut off."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._deadline is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(_HEAD_SECONDS, self._leave)

    def _leave(self) -> None:
        self._deadline = None
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
    """Serve the runs below some folders until interrupted.

    Args:
        folders: Where to look for runs.
        host: What to listen on; anything but this machine itself demands a token.
        port: 0 for any that is free.
        opens: Whether to open the page in the browser of this machine.
        allow_actions: Whether the page may stop and continue runs.
        say: Gets the address, once.

    Raises:
        ConfigError: A folder is not there, or the port is taken.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError("{folder}: no such folder; name one with runs in it", folder=folder)
    _allow_files()
    server, address = make_server(folders, host=host, port=port, allow_actions=allow_actions)
    say(address)
    if opens:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    server[0].run(sockets=[server[1]])


def make_server(
    folders: Sequence[Path], *, host: str, port: int, allow_actions: bool = False
) -> tuple[tuple[uvicorn.Server, socket.socket], str]:
    """Return a server with the socket it will listen on, and the address to open."""
    token = None if host in LOOPBACK else secrets.token_urlsafe(24)
    listening = _listen(host, port)
    guard = Guard(make_app(folders, allow_actions=allow_actions), host=host, token=token)
    config = uvicorn.Config(
        guard,
        http=BoundedProtocol,
        ws="none",
        log_level=logging.ERROR,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_SECONDS,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=_MOST_HEAD,
    )
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    shown = f"[{shown}]" if ":" in shown else shown
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    return (uvicorn.Server(config), listening), address + (f"?token={token}" if token else "")


def _allow_files() -> None:
    """Let this process open as many files as there may be connections, where the system does."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_CONNECTIONS + 400
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _listen(host: str, port: int) -> socket.socket:
    listening = None
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(_MOST_CONNECTIONS)
    except OSError as error:
        if listening is not None:
            listening.close()
        raise ConfigError(
            "cannot listen on {host}, port {port}: {reason}; choose another by {--port}, or 0 for "
            "any that is free",
            host=host,
            port=port,
            reason=error.strerror or error,
        ) from error
    return listening
