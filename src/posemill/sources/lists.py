"""Lists of clips: CSV, TSV or JSON lines with a path in each row."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from posemill.decoders.opening import suffix_of, without_suffix
from posemill.errors import ContentError, SourceError
from posemill.files import parse_json, readable
from posemill.messages import Message
from posemill.places import uri_of
from posemill.places.cache import fetched
from posemill.records import Clip
from posemill.sources.clip_list import ClipList, Collector
from posemill.sources.scan import MISSING, look_at
from posemill.tables import GBK, find_encoding, read_table

LIST_SUFFIXES = frozenset(["csv", "tsv", "jsonl"])
_KEEP_BYTES = "surrogateescape"
_OWN_COLUMNS = ("path", "clip_id", "split", "start_seconds", "end_seconds", "label")


def find(path: str, collector: Collector) -> ClipList:
    """Return one clip for each row.

    Columns: `path` (relative ones start at the list's folder), and, where they are there,
    `clip_id`, `split`, `start_seconds`, `end_seconds`, `label`; all others go to `Clip.extra`.
    """
    clips = read_list(path)
    for line, clip in clips:
        collector.add(clip, where=Message("{path}, line {line}: ", path=readable(path), line=line))
    if num_missing := sum(clip.version == MISSING for _, clip in clips):
        template = "{num_missing} of {num_clips} paths in the list do not exist"
        collector.say(template, num_missing=num_missing, num_clips=len(clips))
    return collector.finish(Message("rows with a path"))


def read_list(path: str) -> list[tuple[int, Clip]]:
    """Return the line and the clip of each row; the version of a missing file is `MISSING`.

    `SourceError` where the list cannot be read, or a row does not say where its clip is.
    """
    uri = uri_of(path)
    folder = str(Path(path).absolute().parent) if uri is None else uri.rpartition("/")[0]
    rows: list[tuple[int, Clip, str]] = []
    try:
        for line, values in _read_rows(Path(path) if uri is None else fetched(uri), folder):
            try:
                rows.append((line, *_to_clip(values, folder)))
            except ContentError as error:
                raise ContentError("line {line}: {error}", line=line, error=error) from error
    except ContentError as error:
        raise SourceError("{path}, {error}", path=readable(path), error=error) from error
    except OSError as error:
        template, reason = "{path} cannot be read: {reason}", Message(error.strerror or "")
        raise SourceError(template, path=readable(path), reason=reason) from error
    if not rows:
        raise SourceError("{path} is empty: expected a row for each clip", path=readable(path))
    # `a.mp4` is called `a`, unless there is an `a.avi` too.
    counts = Counter((clip.split, clip.clip_id) for _, clip, _ in rows)
    return [
        (line, clip if counts[clip.split, clip.clip_id] == 1 else replace(clip, clip_id=long_id))
        for line, clip, long_id in rows
    ]


def _read_rows(file: Path, folder: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line and values of each row; bytes of paths that are no UTF-8 come through."""
    if suffix_of(file.name) == "jsonl":
        with file.open(encoding="utf-8-sig", errors=_KEEP_BYTES, newline="") as handle:
            lines = enumerate(handle, 1)
            yield from ((line, _json_row(line, text)) for line, text in lines if text.strip())
        return
    encoding = find_encoding(file)
    if encoding is None or (encoding == GBK and not _is_gbk(file, folder)):
        encoding = "utf-8"
    rows = read_table(file, names=_OWN_COLUMNS, encoding=encoding, errors=_KEEP_BYTES)
    for number, values in rows:
        if "path" not in values:
            raise ContentError("line 1: expected a column 'path', got {names}", names=list(values))
        yield number, values


def _is_gbk(file: Path, folder: str) -> bool:
    """Return whether a list that could be GBK is: no path speaks against it, or one is there."""
    rows = read_table(file, names=_OWN_COLUMNS, encoding=GBK)
    paths = [path for row in rows if not (path := row.values.get("path", "")).isascii()]
    return not paths or any(os.path.exists(os.path.join(folder, path)) for path in paths)  # noqa: PTH110, PTH118


def _json_row(line: int, text: str) -> dict[str, str]:
    try:
        row = parse_json(text)
    except ValueError as error:
        raise ContentError("line {line}: not JSON: {error}", line=line, error=error) from error
    if not isinstance(row, dict) or not isinstance(row.get("path"), str):
        template = "line {line}: expected an object with a text 'path', got {text!r}"
        raise ContentError(template, line=line, text=text.strip()[:60])
    texts = ((key, "" if value is None else value) for key, value in row.items())
    return {
        key: text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
        for key, text in texts
    }


def _to_clip(row: Mapping[str, str], folder: str) -> tuple[Clip, str]:
    """Return the clip of a row, and an id with the suffix; `ContentError` if it says none."""
    given, shown = row["path"], readable(row["path"])
    if not given.strip():
        raise ContentError("'path' is empty")
    can_be_a_path = False
    with suppress(UnicodeEncodeError):
        can_be_a_path = b"\0" not in os.fsencode(given)
    if not can_be_a_path:
        raise ContentError("'path' holds what no file name can: {given!r}", given=shown)
    path = uri_of(given) or os.path.join(folder, given)  # noqa: PTH118
    kind, content = look_at(path)
    start, end = _to_seconds(row, "start_seconds"), _to_seconds(row, "end_seconds")
    if end is not None and end <= (start or 0):
        template = "end_seconds {end:g} is not after start_seconds {start:g}"
        raise ContentError(template, end=end, start=start or 0)
    if kind != "video" and (start or end):
        template = "start_seconds and end_seconds need a video, and {given!r} is none"
        raise ContentError(template, given=shown)
    others = {key: value for key, value in row.items() if key not in _OWN_COLUMNS}
    for key, value in row.items():
        if (key == "label" or key in others) and readable(value) != value:
            raise ContentError("column {key!r} is not UTF-8; save the list as UTF-8", key=key)
    # Nothing in a name leads upwards.
    parts = [part for part in PurePosixPath(given).parts if part not in ("..", ".", "/", "//")]
    name, window = "/".join(parts) or "clip", ""
    if start is not None or end is not None:
        until = "" if end is None else f"{end:.10g}"  # milliseconds in a recording of many hours
        window = f"@{start or 0:.10g}-{until}"
    short_name = without_suffix(name) if kind == "video" else name
    clip_id = row.get("clip_id", "") or short_name + window
    if ".." in clip_id.split("/") or clip_id.startswith("/"):
        template = "clip_id {clip_id!r} leads out of the dataset"
        raise ContentError(template, clip_id=readable(clip_id))
    split = readable(row.get("split", "").strip()) or "all"
    if "/" in split or split in (".", ".."):
        raise ContentError("split: expected a word, got {split!r}", split=split)
    seconds = {"start_seconds": start or 0.0, "end_seconds": end}
    label = row.get("label") or None
    clip = content.clip(clip_id, kind, split, label=label, extra=others, **seconds)
    return clip, readable(row.get("clip_id", "") or name + window)


def _to_seconds(row: Mapping[str, str], column: str) -> float | None:
    text = row.get(column, "").strip()
    if not text:
        return None
    try:
        value = float(text.replace(",", "."))  # a comma, as half of the world writes it
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        template = "{column}: expected seconds, 0 or more, got {text!r}"
        raise ContentError(template, column=column, text=readable(text))
    return value
