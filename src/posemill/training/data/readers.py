"""Clips out of files: npz with `keypoints` and `video_ids` (or lengths, labels), CSV of numbers."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import FormatError, TrainingError
from posemill.files import near_path, sha256_of
from posemill.geometry import find_points
from posemill.npz.clips import content_key, read_npz_clips
from posemill.npz.mapped import open_npz
from posemill.places import uri_of
from posemill.places.cache import fetched
from posemill.records import SPLIT_NAMES, BoolArray, FloatArray, IntArray
from posemill.skeletons import guess_skeleton, is_skeleton

_SPLITS = (*SPLIT_NAMES, "all")


@dataclass(frozen=True, eq=False)
class RawClips:
    """The clips of one file, frames one after the other, nothing changed yet.

    Args:
        points: `(frames, keypoints, dims)`, any type of numbers, perhaps on the disk.
        mask: `(frames, keypoints)`, or None where the file has none: see `find_points`.
        offsets: `(clips + 1,)`: where each clip begins; the last is the number of frames.
        clip_ids: One per clip.
        labels: One per clip, empty where the file has none.
        splits: One per clip, empty where the file does not say.
        skeleton_name: As far as the file says or the number of points tells; None otherwise.
        content_key: Hexadecimal digest of the content.
        path: The file, for messages.
    """

    points: npt.NDArray[Any]
    mask: npt.NDArray[Any] | None
    offsets: IntArray
    clip_ids: tuple[str, ...]
    labels: tuple[str, ...]
    splits: tuple[str, ...]
    skeleton_name: str | None
    content_key: str
    path: Path

    def __len__(self) -> int:
        return len(self.clip_ids)

    def clip(self, index: int) -> tuple[FloatArray, BoolArray]:
        """Return points `(T, K, D)`, 0 where missing, and mask `(T, K)` of a clip.

        Raises:
            FormatError: A found point is no number.
        """
        frames = slice(self.offsets[index], self.offsets[index + 1])
        points = np.asarray(self.points[frames], np.float32)
        try:
            mask = find_points(points, None if self.mask is None else self.mask[frames])
        except ValueError as error:
            raise FormatError(
                "{path}: clip {clip_id!r}: {error}",
                path=self.path,
                clip_id=self.clip_ids[index],
                error=error,
            ) from error
        return np.where(mask[..., None], points, np.float32(0)), mask

    def column(self, name: str) -> tuple[str, ...]:
        """Return what an array of the npz says of each clip; '' where there is none.

        Args:
            name: Of the array: one text or whole number a clip, or one a frame.
        """
        array = open_npz(self.path).get(name) if self.path.suffix.lower() == ".npz" else None
        if array is not None and array.shape == (int(self.offsets[-1]),):
            array = array[self.offsets[:-1]]
        if array is None or array.shape != (len(self),) or array.dtype.kind not in "Uiu":
            return ("",) * len(self)
        return tuple(str(value).strip() for value in array)


@lru_cache(maxsize=8)
def _local(data: str) -> str:
    """Return where the data is on this machine."""
    uri = uri_of(data)
    if uri is None:
        return data
    folder, _, name = uri.rpartition("/")
    return f"{fetched(folder)}/{name}" if "{split}" in name else str(fetched(uri))


def refuse_missing(data: str) -> None:
    """Raise `TrainingError` for one path on this machine that is not there."""
    path = Path(data)
    if "{split}" not in data and uri_of(data) is None and not path.exists():
        raise TrainingError(
            "no data at {path}: expected what `posemill prepare` or `posemill frames` "
            "wrote, an npz, or a list or a folder of videos{hint}",
            path=path,
            hint=near_path(path),
        )


def find_files(data: str) -> dict[str, Path]:
    """Return the data file of each split.

    Args:
        data: A folder with `{split}_keypoints.npz` (or `{split}.npz`), a pattern with `{split}`
            in it, or one .npz or .csv file (split `all`, or the split its name begins with). At a
            URI: fetched into the cache, checked by hash, once in a process.
    """
    data = _local(data)
    if "{split}" in data:
        found = {
            split: Path(data.replace("{split}", split))
            for split in _SPLITS
            if Path(data.replace("{split}", split)).is_file()
        }
        if not found:
            raise TrainingError(
                "no file {data} for any split of {splits}", data=data, splits=", ".join(_SPLITS)
            )
        return found
    path = Path(data)
    if path.is_file():
        stem = path.stem.removesuffix("_keypoints")
        return {stem if stem in _SPLITS else "all": path}
    refuse_missing(data)
    found = {
        file.stem.removesuffix("_keypoints"): file for file in sorted(path.glob("*_keypoints.npz"))
    }
    found = found or {file.stem: file for file in sorted(path.glob("*.npz"))}
    if not found:
        raise TrainingError(
            "{path}: expected files such as train_keypoints.npz, found no npz; run: "
            "posemill prepare RUN --out FOLDER",
            path=path,
        )
    return found


def read_all(data: str, **options: Any) -> dict[str, RawClips]:
    """Return the clips of the file of each split; see `find_files` and `read_clips`."""
    return {split: read_clips(path, **options) for split, path in find_files(data).items()}


def read_clips(
    path: Path, *, unit: str = "clip", csv_dims: int = 2, csv_frames: int = 1
) -> RawClips:
    """Return the clips of one file.

    Args:
        path: .npz or .csv.
        unit: `clip`, or `frame`: every frame is a clip of its own, named by its picture.
        csv_dims: Numbers per point in a CSV.
        csv_frames: Frames per row of a CSV.
    """
    if path.suffix == ".csv":
        return _read_csv(path, csv_dims, csv_frames)
    if path.suffix.lower() == ".npz":
        return _read_npz(path, unit)
    raise TrainingError(
        "{path}: expected .npz or .csv, got {suffix}", path=path, suffix=path.suffix or "no ending"
    )


def _read_npz(path: Path, unit: str) -> RawClips:
    arrays = open_npz(path)
    clips = read_npz_clips(arrays, unit=unit)
    points, skeleton = arrays["keypoints"], clips.header.get("skeleton")
    if skeleton is not None and not is_skeleton(skeleton):
        raise TrainingError(
            "{path} says its skeleton is {skeleton!r}, which is not known here; install "
            "the package of the engine that brings it",
            path=path,
            skeleton=str(skeleton)[:80],
        )
    return RawClips(
        points,
        arrays.get("mask"),
        clips.offsets,
        clips.clip_ids,
        clips.labels,
        clips.splits,
        skeleton or guess_skeleton(points.shape[1], path),
        content_key(arrays),
        path,
    )


def _read_csv(path: Path, dims: int, frames: int) -> RawClips:
    """Rows of a label and then `frames * points * dims` numbers, with or without a header."""
    with path.open(encoding="utf-8-sig", newline="") as handle:
        rows = [row for row in csv.reader(handle) if row]
    if rows and not _is_number(rows[0][-1]):
        rows = rows[1:]
    width = len(rows[0]) - 1 if rows else 0
    if not width or width % (dims * frames):
        raise TrainingError(
            "{path}: expected rows of a label and a multiple of {multiple} numbers ({frames} "
            "frames of {dims} numbers a point), got {width}; see {--csv-dims}, {--csv-frames}",
            path=path,
            multiple=dims * frames,
            frames=frames,
            dims=dims,
            width=width,
        )
    for number, row in enumerate(rows, 1):
        if len(row) != width + 1 or not all(map(_is_number, row[1:])):
            raise TrainingError(
                "{path}, row {number}: expected keypoints, a label and {width} numbers; of videos "
                "expected a list with a column path",
                path=path,
                number=number,
                width=width,
            )
    numbers = np.asarray([row[1:] for row in rows], np.float32)
    points = numbers.reshape(len(rows) * frames, -1, dims)
    return RawClips(
        points,
        np.ones(points.shape[:2], bool),
        np.arange(len(rows) + 1, dtype=np.int64) * frames,
        tuple(f"row{index}" for index in range(len(rows))),
        tuple(row[0] for row in rows),
        ("",) * len(rows),
        None,
        sha256_of(path),
        path,
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
