"""Parts of a video file, as browsers ask for them: honoured, and bounded."""

from __future__ import annotations

import os
import re
from pathlib import Path

from starlette.responses import Response

from posemill.files import open_plain
from posemill.web.answers import JsonAnswer

MOST_BYTES = 4 << 20  # of one answer; a browser asks for the rest
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})$")
_TYPES = {".mp4": "video/mp4", ".m4v": "video/mp4", ".webm": "video/webm", ".ogv": "video/ogg",
          ".mov": "video/quicktime", ".mkv": "video/x-matroska"}  # fmt: skip


def answer_range(path: Path, asked: str | None) -> Response:
    """Return a part of a file: what a `Range` header asks for, at most `MOST_BYTES` of it.

    Several ranges at once are answered as none: from the start.
    """
    with os.fdopen(open_plain(path), "rb") as handle:
        size = handle.seek(0, os.SEEK_END)
        start, stop = parse_range(asked, size)
        if start >= size or stop <= start:
            return JsonAnswer({"reason": "no such part"}, 416, {"content-range": f"bytes */{size}"})
        stop = min(stop, start + MOST_BYTES)
        handle.seek(start)
        content = handle.read(stop - start)
    if not content:  # it was cut in between
        return JsonAnswer({"reason": "no such part"}, 416, {"content-range": f"bytes */{size}"})
    is_whole = asked is None and len(content) == size
    headers = {"accept-ranges": "bytes"}
    if not is_whole:
        headers["content-range"] = f"bytes {start}-{start + len(content) - 1}/{size}"
    kind = _TYPES.get(path.suffix.lower(), "application/octet-stream")
    return Response(content, 200 if is_whole else 206, headers, kind)


def parse_range(asked: str | None, size: int) -> tuple[int, int]:
    """Return start and end (exclusive) of the bytes that a header asks for."""
    found = _RANGE.match((asked or "").strip())
    if not found or not (found[1] or found[2]):
        return 0, size
    if not found[1]:
        return max(0, size - int(found[2])), size
    return int(found[1]), min(size, int(found[2]) + 1 if found[2] else size)
