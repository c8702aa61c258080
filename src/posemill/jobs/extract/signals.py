"""SIGINT, SIGTERM and SIGHUP as a request to stop cleanly; a second one as an order."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class StopSignals:
    """Remembers what came while it is entered. Does nothing outside of the main thread."""

    def __init__(self) -> None:
        self.received = 0
        self.is_urgent = False
        self._old: dict[int, Any] = {}

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.is_urgent = bool(self.received)
        self.received = self.received or number

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
