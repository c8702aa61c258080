"""JSON from strangers, and JSON larger than memory.

Our own files have one record per line inside a list, so that they can be read line by line. Other
files, also ours after another tool saved them anew, are loaded whole, up to a limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from posemill.errors import ContentError

MAX_JSON_BYTES = 1 << 28  # lists of nothing take twenty times as much memory
MAX_LINE_BYTES = MAX_JSON_BYTES


def parse_json(text: str | bytes) -> Any:
    """Return the value; an error of `CORRUPT` for anything broken, too deep, NaN or infinite."""
    return json.loads(text, parse_constant=_reject_constant)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def load_json(path: Path, *, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Return the value of a whole file, refusing one that is too large to hold."""
    size = path.stat().st_size
    if size > max_bytes:
        raise ContentError(
            "{size} bytes of JSON in one value; expected at most {max_bytes}: split it (what "
            "posemill writes itself, a record a line, may be larger)",
            size=size,
            max_bytes=max_bytes,
        )
    return parse_json(path.read_bytes())


def read_line_list(path: Path, key: str) -> Iterator[Any]:
    """Yield the records of `"key": [`, one per line, without reading the rest into memory."""
    start = f'"{key}": ['.encode()
    with path.open("rb") as handle:
        while True:
            line = handle.readline(MAX_LINE_BYTES)
            if not line:
                raise ValueError(f"has no list {key!r}, or is cut off before it")
            if line.rstrip().endswith(start):
                break
        while True:
            line = handle.readline(MAX_LINE_BYTES).strip()
            if len(line) >= MAX_LINE_BYTES - 2:
                raise ValueError(f"a record of {key!r} has {MAX_LINE_BYTES} bytes or more")
            if not line:
                raise ValueError(f"is cut off in the list {key!r}")
            if line.startswith(b"]"):
                return
            yield parse_json(line.removesuffix(b","))


def line_of(record: dict[str, Any], clip_id: str) -> str:
    """Return a record of a clip as a line of JSON that `read_line_list` can read again."""
    line = json.dumps(record)
    if len(line) >= MAX_LINE_BYTES - 4:
        raise ContentError(
            "clip {clip_id!r}: {num_bytes} bytes of JSON; expected less than {max_line_bytes}: cut "
            "it into several clips, or choose another format",
            clip_id=clip_id,
            num_bytes=len(line),
            max_line_bytes=MAX_LINE_BYTES,
        )
    return line


def is_line_list(path: Path, key: str, *, line: int) -> bool:
    """Return True if a file has our lines: this one opens the list `key`, the next is a record.

    Lines are counted from 0.
    """
    with path.open("rb") as handle:
        for _ in range(line):
            if not handle.readline(1 << 16).endswith(b"\n"):
                return False
        if not handle.readline(1 << 16).endswith(f'"{key}": [\n'.encode()):
            return False
        first = handle.readline(MAX_LINE_BYTES)
    is_cut = len(first) == MAX_LINE_BYTES  # by us; whoever reads it says so
    is_record = first.startswith(b"{") and (is_cut or first.rstrip().endswith((b"}", b"},")))
    return is_record or first.startswith(b"]")


def numbers(values: Any, width: int, *, what: str) -> npt.NDArray[np.float64]:
    """Return `(rows, width)` from a flat list of finite numbers."""
    if not isinstance(values, list) or len(values) % width:
        raise ValueError(f"{what}: expected a list of {width} numbers a point")
    array = np.asarray(values if values else np.zeros(0))
    if array.ndim != 1 or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise ValueError(f"{what}: expected a flat list of finite numbers")
    return array.astype(np.float64).reshape(-1, width)
