"""Text: a file per picture, 18 lines `x y` in pixels (openpose-18), folders as in the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from posemill.formats.shared.contract import ClipStream, Format, Size, make_clip
from posemill.formats.shared.folders import read_clip_folders, write_picture_files
from posemill.formats.shared.json_text import header_in
from posemill.formats.shared.losses import DEPTH, SCORES
from posemill.formats.shared.people import from_pixels, to_pixels
from posemill.messages import Message
from posemill.records import PoseClip

_SKELETON = "openpose-18"
_POINTS = 18
_MISSING = "-1 -1"
_MAX_BYTES = 4096
_SNIFFED = 100  # files: a README may lie beside those of frames


class TxtFormat(Format):
    """A folder of text files."""

    name = "txt"
    picture_ending = ".txt"
    layouts: tuple[str, ...] = (_SKELETON,)
    has_pixels = True
    mirrors = True
    facts: Mapping[str, str] = {"missing": _MISSING}
    losses: tuple[str, ...] = (Message("x and y beyond a thousandth of a pixel"),)
    may_lose = (DEPTH, SCORES)

    def sniff(self, path: Path) -> bool:
        """Return True for a folder of ours, or one with frames as text and no JSON in it."""
        if not path.is_dir() or header_in(path):
            return super().sniff(path)
        files = islice(path.rglob("*.txt"), _SNIFFED)
        return any(map(_is_frame, files)) and not any(path.rglob("*.json"))

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write a folder per clip."""
        write_picture_files(clips, self.picture_ending, _texts_of)

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips: those of the index, or every folder that has text files."""
        for files, fields, _ in read_clip_folders(path, ".txt", size_wh):
            pixels = np.array([_read_frame(file) for file in files]).reshape(-1, _POINTS, 2)
            points = from_pixels(pixels, fields["sizes_wh"])
            is_infinite = np.isinf(points).any(axis=(1, 2))
            if is_infinite.any():
                raise ValueError(f"{files[is_infinite.argmax()]}: a found point is infinite")
            mask = ~np.isnan(pixels[..., 0])
            yield make_clip(points, None, mask, skeleton_name=_SKELETON, **fields)


def _texts_of(clip: PoseClip) -> Iterator[str]:
    for points in to_pixels(clip):
        lines = [f"{x:.3f} {y:.3f}" if score else _MISSING for x, y, score in points.tolist()]
        yield "\n".join(lines) + "\n"


def _is_frame(file: Path) -> bool:
    try:
        _read_frame(file)
    except (OSError, ValueError):
        return False
    return True


def _read_frame(file: Path) -> npt.NDArray[np.float64]:
    """Return `(18, 2)` pixels, NaN where missing."""
    if file.stat().st_size > _MAX_BYTES:
        raise ValueError(f"{file}: expected 18 lines 'x y', got {file.stat().st_size} bytes")
    rows = [line.split() for line in file.read_text(encoding="ascii").split("\n") if line.strip()]
    if len(rows) != _POINTS or any(len(row) != 2 for row in rows):
        raise ValueError(f"{file}: expected 18 lines 'x y', got {len(rows)} lines")
    points = np.array([[float(x), float(y)] for x, y in rows])
    missing = np.isnan(points).any(1) | (points == -1).all(1) | (points == 0).all(1)
    points[missing] = np.nan
    return points
