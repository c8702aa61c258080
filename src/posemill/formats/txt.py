"""Text: a file per picture, 18 lines `x y` in pixels (openpose-18), the folders as in the source.

A joint that was not found is `-1 -1`; the first line of `posemill.jsonl` says so (`missing`), the
others hold what the lines cannot. One person a picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import FormatError
from posemill.formats.shared.contract import (
    Recipe,
    Size,
    SkeletonCheck,
    Summary,
    expect_clips,
    make_clip,
    reading,
)
from posemill.formats.shared.folders import (
    fields_of,
    frame_files,
    frame_names,
    from_pixels,
    header_in,
    new_folder,
    read_index,
    same_sizes,
    split_and_id,
    to_pixels,
)
from posemill.messages import Message
from posemill.records import PoseClip

_SKELETON = "openpose-18"
_POINTS = 18
_MISSING = "-1 -1"
_MAX_BYTES = 4096
_SNIFFED = 100  # files: a README may lie beside those of frames


class TxtFormat:
    """A folder of text files."""

    name = "txt"
    suffix = ""
    layouts: tuple[str, ...] = (_SKELETON,)
    has_pixels = True
    has_mask = False
    mirrors = True  # the folders of the source
    losses: tuple[str, ...] = (
        "z",
        Message("scores (1 where found)"),
        Message("x and y beyond a thousandth of a pixel"),
    )

    def sniff(self, path: Path) -> bool:
        """Return True for a folder of ours, or one with frames as text and no JSON in it."""
        if not path.is_dir():
            return False
        header = header_in(path)
        if header:
            return header.get("format") == self.name
        files = islice(path.rglob("*.txt"), _SNIFFED)
        return any(map(_is_frame, files)) and not any(path.rglob("*.json"))

    def write(self, clips: Iterable[PoseClip], path: Path, *, recipe: Recipe) -> Summary:
        """Write a folder per clip."""
        summary, check = Summary(path, self.name), SkeletonCheck(self, path)
        with new_folder(path, self.name, recipe, missing=_MISSING) as (_, index):
            for clip in clips:
                check(clip)
                folder = index.place(clip, has_picture_files=True)
                folder.mkdir(parents=True, exist_ok=True)
                for name, points in zip(
                    frame_names(clip.image_paths, clip.frame_indices), to_pixels(clip), strict=True
                ):
                    lines = [
                        f"{x:.3f} {y:.3f}" if score else _MISSING for x, y, score in points.tolist()
                    ]
                    (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="ascii")
                summary.count(clip)
            check.finish(summary)
        return summary

    def read(self, path: Path, *, size_wh: Size | None = None) -> Iterator[PoseClip]:
        """Yield the clips: those of the index, or every folder that has text files."""
        with reading(path, self.name):
            if not path.is_dir():
                raise FormatError("{path}: expected a folder of text files", path=path)
            count = 0
            for folder, record in _folders(path):
                files = frame_files(folder, ".txt", record)
                pixels = np.stack([_read_frame(file) for file in files]) if files else _NOTHING
                if record is not None:
                    fields = fields_of(record, len(files))
                else:
                    split, clip_id = split_and_id(path, folder)
                    sizes_wh = same_sizes(size_wh, len(files))
                    fields = {"split": split, "clip_id": clip_id, "sizes_wh": sizes_wh}
                found = ~np.isnan(pixels[..., 0])
                points = from_pixels(path, pixels, fields["sizes_wh"])
                yield make_clip(path, points, None, found, skeleton_name=_SKELETON, **fields)
                count += 1
            expect_clips(path, count)


_NOTHING = np.zeros((0, _POINTS, 2))


def _folders(path: Path) -> Iterator[tuple[Path, dict[str, Any] | None]]:
    """Yield each clip's folder, and its record if there is an index."""
    if header_in(path):
        records = read_index(path)
        next(records)
        for record in records:
            yield path / record["place"], record
        return
    for folder in sorted({file.parent for file in path.rglob("*.txt")}):
        yield folder, None


def _is_frame(file: Path) -> bool:
    try:
        _read_frame(file)
    except (OSError, ValueError, FormatError):
        return False
    return True


def _read_frame(file: Path) -> npt.NDArray[np.float64]:
    """Return `(18, 2)` pixels, NaN where missing."""
    if file.stat().st_size > _MAX_BYTES:
        raise FormatError(
            "{file}: expected 18 lines 'x y', got {num_bytes} bytes",
            file=file,
            num_bytes=file.stat().st_size,
        )
    lines = file.read_text(encoding="ascii").split("\n")
    rows = [line.split() for line in lines if line.strip()]
    if len(rows) != _POINTS or any(len(row) != 2 for row in rows):
        raise FormatError(
            "{file}: expected 18 lines 'x y', got {num_rows} lines", file=file, num_rows=len(rows)
        )
    points = np.array([[float(x), float(y)] for x, y in rows])
    if np.isinf(points).any():
        raise FormatError("{file}: a coordinate is infinite", file=file)
    missing = np.isnan(points).any(1) | (points == -1).all(1) | (points == 0).all(1)
    points[missing] = np.nan
    return points
