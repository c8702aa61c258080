"""`index.csv`: where the frames of every clip are; `posemill frames` writes it last.

It is a list of clips too, which `posemill extract` and every other command takes as a source.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from posemill.errors import ContentError, RunError
from posemill.files import atomic_path
from posemill.records import IntArray
from posemill.tables import Line, read_table

INDEX_NAME = "index.csv"
FrameFormat = Literal["jpg", "png", "webp", "rgb"]  # rgb: a pack of bytes, nothing else


@dataclass(frozen=True)
class IndexedClip:
    """A clip whose frames lie as pictures in a folder, or one behind the other in a pack."""

    path: Path  # the folder of `000000.jpg`, `000001.jpg` …, or the pack
    clip_id: str
    split: str
    label: str | None
    format: FrameFormat
    offset: int | None  # where the first frame begins in the pack, in bytes; None in a folder
    num_frames: int
    width: int
    height: int
    fps: float | None = None  # of these frames, not of the video; None where nobody knows
    frame_indices: str = ""  # of the source: `0-299`, `0-298/2`, `0-9 12 15`
    extra: Mapping[str, str] = field(default_factory=dict)  # other columns of the list source


COLUMNS = tuple(column.name for column in fields(IndexedClip))[:-1]
_OPTIONAL = ("label", "offset", "fps")
_READERS: Mapping[str, Callable[[str], Any]] = {
    "label": str, "offset": int, "num_frames": int, "width": int, "height": int, "fps": float,
}  # fmt: skip


def picture_name(position: int, format: str) -> str:
    """Return the name of a picture in its clip's folder."""
    return f"{position:06d}.{format}"


def ranges_of(indices: Sequence[int]) -> str:
    """Return ascending numbers in short: `0-299`, `0-298/2` for every second, `0-9 12 15`."""
    words, position = [], 0
    while position < len(indices):
        first, end = indices[position], position + 1
        step = indices[end] - first if end < len(indices) else 1
        while end < len(indices) and indices[end] - indices[end - 1] == step:
            end += 1
        if end - position < 3 and step > 1:
            end = position + 1  # two numbers far apart are no range
        every = f"/{step}" if step > 1 else ""
        words.append(f"{first}-{indices[end - 1]}{every}" if end > position + 1 else str(first))
        position = end
    return " ".join(words)


def indices_of(ranges: str) -> IntArray:
    """Return the numbers that `ranges_of` wrote, int64; ValueError if it did not."""
    parts = [np.zeros(0, np.int64)]
    for word in ranges.split():
        span, _, step = word.partition("/")
        first, dash, last = span.partition("-")
        stop = int(last if dash else first) + 1
        parts.append(np.arange(int(first), stop, int(step or 1), dtype=np.int64))
    return np.concatenate(parts)


def write_index(folder: Path, clips: Iterable[IndexedClip]) -> Path:
    """Write `index.csv` into the folder that the clips lie below; return its path."""
    clips = list(clips)
    names = [*COLUMNS, *sorted({name for clip in clips for name in clip.extra} - {*COLUMNS})]
    path = folder / INDEX_NAME
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, "", "ignore", lineterminator="\n")
        writer.writeheader()
        for clip in clips:
            fps = None if clip.fps is None else f"{clip.fps:.6g}"
            place = clip.path.relative_to(folder).as_posix()
            writer.writerow({**clip.extra, **vars(clip), "path": place, "fps": fps})
    return path


def read_index(path: Path) -> list[IndexedClip]:
    """Return the clips of an `index.csv`, or of the folder it lies in."""
    file = path / INDEX_NAME if path.is_dir() else path
    if not file.is_file():
        raise RunError(
            "{file} is not there: posemill frames writes it when all frames are; finish it by the "
            "same command, or make one with: posemill frames VIDEOS --out FOLDER",
            file=file,
        )
    try:
        lines = read_table(file, names=COLUMNS, encoding="utf-8")
        return [_clip_of(line, file.parent) for line in lines]
    except (ContentError, OSError) as error:
        raise RunError("{file} is no index of frames: {error}", file=file, error=error) from error


def _clip_of(line: Line, folder: Path) -> IndexedClip:
    extra = dict(line.values)
    try:
        row: dict[str, Any] = {name: extra.pop(name) for name in COLUMNS}
        for name, reader in _READERS.items():
            row[name] = None if name in _OPTIONAL and not row[name] else reader(row[name])
        if row["format"] not in get_args(FrameFormat) or not row["num_frames"]:
            raise ValueError(f"the format {row['format']!r} is not known, or there are no frames")
    except KeyError as error:
        raise ContentError(
            "line {line}: it has no column {error}", line=line.number, error=error
        ) from error
    except ValueError as error:
        raise ContentError("line {line}: {error}", line=line.number, error=error) from error
    row["path"] = folder / row["path"]
    return IndexedClip(**row, extra=extra)
