"""Where a user's own code makes a training wait: lines that read back from the device, or print.

A thread looks at the stack of the training a few times a second, which tells how long a line takes;
two steps are followed call by call, which tells of lines too quick to be met by chance. Both see
only the code of users: our own loop reads nothing back between two lines of its log.
"""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

_SAMPLE_SECONDS = 0.05
_FOLLOWED = (5, 6)  # steps of a session, after those that warm up
_LEAST_SHARE = 0.01
_CALLS = ("item", "cpu", "tolist", "synchronize", "print")
_IN_SOURCE = re.compile(r"(?:\.(item|cpu|tolist|synchronize)|\b(print))\(")
_PACKAGE = Path(__file__).parents[2]
_NOT_THEIRS = ("<", f"{_PACKAGE}/", f"{sysconfig.get_path('stdlib')}/")
_LOADING = "/torch/utils/data/"  # what is read back there was never on the device
_LOOP = (str(_PACKAGE / "training" / "loop" / "trainer.py"), "_run_epoch")


@dataclass(frozen=True)
class Wait:
    """A line of a user's code that waits for the device or prints.

    Args:
        file: Its file.
        line: Its number.
        call: `.item()`, `.cpu()`, `.tolist()`, `synchronize()` or `print()`.
        share: Of the time of steps that was spent there.
        per_step: How often a step calls it; 0 where that was not counted.
    """

    file: str
    line: int
    call: str
    share: float
    per_step: int

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Wait:
        """Return what `to_json` gave; a stranger's file is a `ValueError` or `TypeError`."""
        return cls(
            str(values["file"]),
            int(values["line"]),
            str(values["call"]),
            float(values["share"]),
            int(values["per_step"]),
        )


class StepWatch:
    """Watches the thread that makes it, between `start` and `stop`.

    Args:
        is_on: False makes every call do nothing: a training without a user's code.
    """

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self._thread = threading.get_ident()
        self._is_over = threading.Event()
        self._is_in_step = False
        self._num_steps = 0
        self._num_samples = 0
        self._seen: Counter[tuple[str, int]] = Counter()
        self._called: list[Counter[tuple[str, int, str]]] = []

    def start(self) -> None:
        """Begin to look."""
        if self.is_on:
            threading.Thread(target=self._sample, name="posemill-watch", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._is_over.set()
        self.end_step()

    def begin_step(self) -> None:
        """Say that a step begins."""
        if not self.is_on:
            return
        self._is_in_step = True
        self._num_steps += 1
        # Somebody else's profiler stays in its place.
        if self._num_steps in _FOLLOWED and sys.getprofile() is None:
            self._called.append(Counter())
            sys.setprofile(self._follow)

    def end_step(self) -> None:
        """Say that it is over."""
        if not self.is_on:
            return
        self._is_in_step = False
        if sys.getprofile() == self._follow:
            sys.setprofile(None)

    def waits(self) -> list[Wait]:
        """Return the lines found so far, those that take longest first."""
        calls: Counter[tuple[str, int, str]] = Counter()
        if len(self._called) == len(_FOLLOWED):  # what one of them does is not done in each
            calls = self._called[0] & self._called[1]
        found = {
            (file, line): Wait(file, line, _spelled(name), self._share(file, line), count)
            for (file, line, name), count in calls.items()
        }
        for file, line in list(self._seen):
            share = self._share(file, line)
            named = _IN_SOURCE.search(linecache.getline(file, line))
            if named and share >= _LEAST_SHARE and (file, line) not in found:
                name = named[1] or named[2]
                found[file, line] = Wait(file, line, _spelled(name), share, 0)
        return sorted(found.values(), key=lambda wait: (-wait.share, wait.file, wait.line))

    def _share(self, file: str, line: int) -> float:
        return self._seen[file, line] / self._num_samples if self._num_samples else 0.0

    def _sample(self) -> None:
        while not self._is_over.wait(_SAMPLE_SECONDS):
            frame = sys._current_frames().get(self._thread) if self._is_in_step else None
            if frame is None:
                continue
            self._num_samples += 1
            if place := _user_line(frame):
                self._seen[place] += 1

    def _follow(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            name = getattr(called, "__name__", "")
            if name != "print" and not hasattr(getattr(called, "__self__", None), "is_cuda"):
                return  # of an array, not of a tensor
        elif event == "call" and frame.f_code.co_name == "synchronize":
            name = "synchronize"  # torch's is written in Python
        else:
            return
        if name in _CALLS and (place := _user_line(frame)):
            self._called[-1][place[0], place[1], name] += 1


def _user_line(frame: FrameType | None) -> tuple[str, int] | None:
    """Return file and line of the innermost frame of a user's code, inside of our loop."""
    found = None
    while frame is not None:
        file = frame.f_code.co_filename
        if _LOADING in file or (file, frame.f_code.co_name) == _LOOP:
            return None if _LOADING in file else found  # further out is who called the training
        if not found and not file.startswith(_NOT_THEIRS) and "/site-packages/" not in file:
            found = file, frame.f_lineno
        frame = frame.f_back
    return None


def _spelled(name: str) -> str:
    return f"{name}()" if name in ("print", "synchronize") else f".{name}()"
