"""`index.csv`: where the frames of every clip are, for whoever trains on pictures.

A plain table, one row a clip, that `posemill frames` writes last: what it names is whole. It is a
list of clips too, which `posemill extract` and every other command takes as a source.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, cast

import numpy as np

from posemill.errors import RunError
from posemill.files import atomic_path
from posemill.records import IntArray
from posemill.tables import Line, TableError, read_table

INDEX_NAME = "index.csv"
PACKED = "rgb"  # the format of a pack: bytes of red, green and blue, nothing else
FrameFormat = Literal["jpg", "png", "webp", "rgb"]
COLUMNS = ("path", "clip_id", "split", "label", "format", "offset", "num_frames", "width",
           "height", "fps", "frame_indices")  # fmt: skip


@dataclass(frozen=True)
class IndexedClip:
    """One row: a clip whose frames lie as pictures in a folder, or one behind the other in a pack.

    Args:
        path: The folder of `000000.jpg`, `000001.jpg` …, or the pack.
        format: What the pictures are; `rgb` for a pack.
        offset: Where the first frame begins in the pack, in bytes; 0 in a folder.
        num_frames: How many there are.
        size_wh: Of every frame, in pixels.
        fps: Frames per second of these frames, not of the video; None where nobody knows.
        frame_ranges: Which frames of the source they are: `0-299`, `0-298/2`, `0-9 12 15`.
        label: Of a list source.
        extra: Its other columns.
    """

    clip_id: str
    split: str
    path: Path
    format: FrameFormat
    num_frames: int
    size_wh: tuple[int, int]
    offset: int = 0
    fps: float | None = None
    frame_ranges: str = ""
    label: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_packed(self) -> bool:
        """Whether `path` is a pack."""
        return self.format == PACKED

    @cached_property
    def frame_indices(self) -> IntArray:
        """`(num_frames,)` int64: the number of each frame in its source, ascending."""
        return indices_of(self.frame_ranges)

    def picture_path(self, position: int) -> Path:
        """Return the file of the frame at a position, 0 to `num_frames - 1`; not of a pack."""
        return self.path / picture_name(position, self.format)

    def open_pack(self) -> np.memmap[tuple[int, ...], np.dtype[np.uint8]]:
        """Return `(num_frames, height, width, 3)` uint8 RGB of a pack, read where it is touched."""
        width, height = self.size_wh
        shape = (self.num_frames, height, width, 3)
        return np.memmap(self.path, np.uint8, "r", self.offset, shape)


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
        last = indices[end - 1]
        every = f"/{step}" if step > 1 else ""
        words.append(str(first) if last == first else f"{first}-{last}{every}")
        position = end
    return " ".join(words)


def indices_of(ranges: str) -> IntArray:
    """Return the numbers that `ranges_of` wrote, int64.

    Raises:
        ValueError: It is not written so.
    """
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
    more = sorted({name for clip in clips for name in clip.extra} - {*COLUMNS})
    path = folder / INDEX_NAME
    with (
        atomic_path(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as handle,
    ):
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow([*COLUMNS, *more])
        for clip in clips:
            offset = clip.offset if clip.is_packed else ""
            fps = "" if clip.fps is None else f"{clip.fps:.6g}"
            extra = [clip.extra.get(name, "") for name in more]
            writer.writerow(
                [
                    clip.path.relative_to(folder).as_posix(),
                    clip.clip_id,
                    clip.split,
                    clip.label or "",
                    clip.format,
                    offset,
                    clip.num_frames,
                    *clip.size_wh,
                    fps,
                    clip.frame_ranges,
                    *extra,
                ]
            )
    return path


def read_index(path: Path) -> list[IndexedClip]:
    """Return the clips of an `index.csv`, or of the folder it lies in.

    Raises:
        RunError: There is none, as in a folder that is not finished; or it is something else.
    """
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
    except (TableError, OSError) as error:
        raise RunError("{file} is no index of frames: {error}", file=file, error=error) from error


def _clip_of(line: Line, folder: Path) -> IndexedClip:
    values = dict(line.values)
    try:
        row = {name: values.pop(name) for name in COLUMNS}
        clip = IndexedClip(
            row["clip_id"],
            row["split"],
            folder / row["path"],
            cast(FrameFormat, row["format"]),
            int(row["num_frames"]),
            (int(row["width"]), int(row["height"])),
            int(row["offset"] or 0),
            float(row["fps"]) if row["fps"] else None,
            row["frame_indices"],
            row["label"] or None,
            values,
        )
    except KeyError as error:
        raise TableError(
            "line {line}: it has no column {error}", line=line.number, error=error
        ) from error
    except ValueError as error:
        raise TableError("line {line}: {error}", line=line.number, error=error) from error
    if clip.format not in ("jpg", "png", "webp", PACKED):
        raise TableError(
            "line {line}: the format {format!r} is not known", line=line.number, format=clip.format
        )
    return clip
