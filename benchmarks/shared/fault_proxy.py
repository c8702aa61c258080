"""A proxy on loopback between us and an object store: 503, slow answers, torn connections.

    with FaultProxy(("127.0.0.1", 5000), rate=0.1, seed=1) as proxy:
        os.environ["AWS_ENDPOINT_URL"] = proxy.url

One request per connection, so that every request meets its own fate.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import Counter
from contextlib import suppress

# What happens to a request. `lost`: it is done, but nobody hears of it.
FAULTS = ("503", "slow", "torn", "lost")


class FaultProxy:
    """Forwards requests; some meet a fault.

    Args:
        target: Host and port of the server.
        rate: The share of requests that meet a fault.
        seed: Of the dice.
        answer: A whole HTTP answer that every request gets instead; None for the server's.
    """

    def __init__(
        self, target: tuple[str, int], *, rate: float = 0.0, seed: int = 0,
        answer: bytes | None = None,
    ) -> None:  # fmt: skip
        self.rate, self.answer, self.slow_seconds = rate, answer, 0.3
        self.met: Counter[str] = Counter()
        self._target, self._random = target, random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # wakes `accept`
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(30)
            request = _read_request(client)
            if not request:
                return
            fault = self._random.choice(FAULTS) if self._random.random() < self.rate else ""
            self.met[fault or "none"] += 1
            if self.answer is not None:
                client.sendall(self.answer)
                return
            if fault == "503":
                client.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n"
                               b"Connection: close\r\n\r\n")  # fmt: skip
                return
            if fault == "slow":
                time.sleep(self._random.uniform(0.0, self.slow_seconds))
            reply = self._forward(request)
            if fault == "torn":
                reply = reply[: self._random.randrange(len(reply))]
            if fault != "lost":
                client.sendall(reply)

    def _forward(self, request: bytes) -> bytes:
        with socket.create_connection(self._target, timeout=30) as server:
            server.sendall(request)
            parts = []
            while part := server.recv(1 << 16):
                parts.append(part)
        return b"".join(parts)


def _read_request(client: socket.socket) -> bytes:
    """Return a whole request, told to close its connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = client.recv(1 << 16)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    sizes = [line.split(b":")[1] for line in lines if line.lower().startswith(b"content-length:")]
    while sizes and len(body) < int(sizes[0]):
        part = client.recv(1 << 16)
        if not part:
            return b""
        body += part
    return b"\r\n".join([*lines, b"Connection: close", b"", body])
