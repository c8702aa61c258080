"""Where the time of a training goes: seconds by part, without stopping the device."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # names of parts and shares are read without it
    import torch

PARTS = ("data", "transfer", "forward", "backward", "optimizer", "evaluation", "checkpoint")


class Clock:
    """Splits running time into `PARTS`. `lap(part)` gives the time since the last lap to `part`.

    On a GPU the host runs ahead of the device, so laps are events on the device's stream; they
    are read in `read`, which is where the training waits for the device anyway.
    """

    def __init__(self, device: torch.device) -> None:
        self._uses_events = device.type == "cuda"
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._events: list[tuple[str, torch.cuda.Event]] = []
        self.restart()

    def restart(self) -> None:
        """Forget the time since the last lap (what came between belongs to no part)."""
        if self._uses_events:
            self._events.append(("", self._record()))
        else:
            self._last = time.perf_counter()

    def lap(self, part: str) -> None:
        """Add the time since the last lap to a part."""
        if self._uses_events:
            self._events.append((part, self._record()))
            return
        now = time.perf_counter()
        self._seconds[part] += now - self._last
        self._last = now

    def read(self) -> Mapping[str, float]:
        """Return the seconds of each part so far; waits for the device."""
        if self._events:
            self._events[-1][1].synchronize()
            for (_, start), (part, end) in pairwise(self._events):
                if part:
                    self._seconds[part] += start.elapsed_time(end) / 1000
            self._events = self._events[-1:]
        return dict(self._seconds)

    @staticmethod
    def _record() -> torch.cuda.Event:
        import torch

        event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return each part's share of the sum, 0 to 1."""
    total = sum(seconds.values())
    return {part: value / total if total else 0.0 for part, value in seconds.items()}
