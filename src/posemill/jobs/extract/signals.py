"""SIGINT, SIGTERM and SIGHUP as a request to stop cleanly; a later one as an order."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
# `timeout` signals its child and then the child's group: what comes within this is one request.
_SAME_REQUEST_SECONDS = 1.0


class StopSignals:
    """Remembers what came while it is entered. Does nothing outside of the main thread."""

    def __init__(self) -> None:
        self.received = 0
        self.is_urgent = False
        self._received_at = 0.0
        self._old: dict[int, Any] = {}

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if not self.received:
            self.received, self._received_at = number, time.monotonic()
        elif time.monotonic() - self._received_at > _SAME_REQUEST_SECONDS:
            self.is_urgent = True

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for name in _NAMES:
                number = getattr(signal, name, None)
                # A signal that is ignored (nohup) stays so.
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._old[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
