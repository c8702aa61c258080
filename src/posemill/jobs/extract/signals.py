"""SIGINT, SIGTERM and SIGHUP as a request to stop cleanly; a later one as an order."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
# `timeout` signals its child and then the child's group: what comes within this is one request.
_SAME_REQUEST_SECONDS = 1.0


class StopSignals:
    """Remembers which signal came, and whether another one came after it."""

    received, is_urgent, _received_at = 0, False, 0.0

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if not self.received:
            self.received, self._received_at = number, time.monotonic()
        elif time.monotonic() - self._received_at > _SAME_REQUEST_SECONDS:
            self.is_urgent = True

    @contextmanager
    def caught(self) -> Iterator[StopSignals]:
        """Remember what comes within the block. Does nothing outside of the main thread."""
        numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
        if threading.current_thread() is not threading.main_thread():
            numbers = []
        # A signal that is ignored (nohup) stays so.
        handlers = {
            number: signal.signal(number, self._remember)
            for number in numbers
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield self
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
