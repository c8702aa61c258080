"""What a job at work leaves for others to look at: a log of lines, and a note of how far it is.

Others may be strangers to each other: a file that is read here is an ordinary one, or nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from posemill.files import open_plain, parse_json

LIVE_NAME = "live.json"
_RATE_SECONDS = 60.0
_MOST_BYTES = 1 << 24  # of a note, or of the end of a log


def now_text() -> str:
    """Return the time now, UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class LogFile:
    """Appends lines; a full disk silences it, the job itself says so elsewhere."""

    def __init__(self, path: Path) -> None:
        self._descriptor = open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, text: str) -> None:
        """Append a line with the time in front."""
        line = f"{now_text()} {text}\n"
        with suppress(OSError):
            os.write(self._descriptor, line.encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """Write no more."""
        os.close(self._descriptor)


def last_lines(path: Path, num_lines: int) -> list[str]:
    """Return the last lines of a log, none where there is no log."""
    with suppress(FileNotFoundError), os.fdopen(open_plain(path), "rb") as handle:
        size = handle.seek(0, os.SEEK_END)
        handle.seek(max(0, size - min(400 * num_lines, _MOST_BYTES)))
        return handle.read().decode("utf-8", "replace").splitlines()[-num_lines:]
    return []


def follow_lines(path: Path, is_over: Callable[[], bool]) -> Iterator[str]:
    """Yield new lines of a log as they come, until nobody writes to it any more."""
    position = path.stat().st_size if path.exists() else 0
    while True:
        ends = is_over()
        if path.exists():
            with os.fdopen(open_plain(path), "rb") as handle:
                handle.seek(position)
                lines = handle.read().splitlines(keepends=True)
            for line in lines:
                if line.endswith(b"\n") or ends:
                    position += len(line)
                    yield line.decode("utf-8", "replace").rstrip("\n")
        if ends:
            return
        time.sleep(0.2)


def write_live(folder: Path, content: Mapping[str, Any]) -> None:
    """Leave a note where `status` finds it. Not flushed: it is worth little after a crash."""
    temporary = folder / f".{LIVE_NAME}.tmp"
    with suppress(OSError):  # a full disk is met where it matters
        descriptor = open_plain(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(json.dumps({**content, "written_at": time.time()}))
        os.replace(temporary, folder / LIVE_NAME)  # noqa: PTH105


def read_live(folder: Path) -> dict[str, Any]:
    """Return what `write_live` left, nothing if it did not."""
    content = None
    with suppress(OSError, ValueError), os.fdopen(open_plain(folder / LIVE_NAME), "rb") as handle:
        content = parse_json(handle.read(_MOST_BYTES))
    return content if isinstance(content, dict) else {}


class Speedometer:
    """Frames, or steps, per second over the last minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def see(self, num_done: int) -> float | None:
        """Return the speed now that so many are done."""
        now = time.monotonic()
        if not self._seen or now - self._seen[-1][0] > 0.2:
            self._seen.append((now, num_done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _RATE_SECONDS:
            self._seen.popleft()
        (then, before), (last, after) = self._seen[0], self._seen[-1]
        if last - then < 1.0 or after <= before:
            return None
        return (after - before) / (last - then)
