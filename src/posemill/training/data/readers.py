"""Clips out of files: npz with `keypoints` and `video_ids` (or lengths, labels), CSV of numbers."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.archives import open_npz
from posemill.errors import TrainingError
from posemill.files import sha256_of
from posemill.records import BoolArray, IntArray
from posemill.skeletons import guess_skeleton, is_skeleton

Arrays = Mapping[str, npt.NDArray[Any]]
_SPLITS = ("train", "dev", "test", "val", "valid", "validation", "all")


@dataclass(frozen=True, eq=False)
class RawClips:
    """The clips of one file, frames one after the other, nothing changed yet.

    Args:
        points: `(frames, keypoints, dims)`, any float type, perhaps on the disk.
        mask: `(frames, keypoints)`, or None where the file has none: then a point whose
            coordinates are all exactly 0 is missing.
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


def find_files(data: str) -> dict[str, Path]:
    """Return the data file of each split.

    Args:
        data: A folder with `{split}_keypoints.npz` (or `{split}.npz`), a pattern with `{split}`
            in it, or one .npz or .csv file (split `all`, or the split its name begins with).
    """
    if "{split}" in data:
        found = {
            split: Path(data.replace("{split}", split))
            for split in _SPLITS
            if Path(data.replace("{split}", split)).is_file()
        }
        if not found:
            raise TrainingError(f"no file {data} for any split of {', '.join(_SPLITS)}")
        return found
    path = Path(data)
    if path.is_file():
        stem = path.stem.removesuffix("_keypoints")
        return {stem if stem in _SPLITS else "all": path}
    if not path.is_dir():
        raise TrainingError(f"no data at {path}: expected what `posemill prepare` wrote, or an npz")
    found = {
        file.stem.removesuffix("_keypoints"): file for file in sorted(path.glob("*_keypoints.npz"))
    }
    found = found or {file.stem: file for file in sorted(path.glob("*.npz"))}
    if not found:
        raise TrainingError(
            f"{path}: expected files such as train_keypoints.npz, found no npz; "
            "run: posemill prepare RUN --out FOLDER"
        )
    return found


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
    if path.suffix == ".npz":
        return _read_npz(path, unit)
    raise TrainingError(f"{path}: expected .npz or .csv, got {path.suffix or 'no ending'}")


def _read_npz(path: Path, unit: str) -> RawClips:
    arrays = open_npz(path)
    if "keypoints" not in arrays:
        raise TrainingError(
            f"{path}: expected an array 'keypoints' [frames, points, dims], "
            f"found {', '.join(sorted(arrays)) or 'nothing'}"
        )
    points, mask = arrays["keypoints"], arrays.get("mask")
    if points.ndim != 3 or points.dtype.kind != "f":
        raise TrainingError(
            f"{path}: expected keypoints [frames, points, dims] of a float type, "
            f"got {points.shape} {points.dtype}"
        )
    if mask is not None and mask.shape != points.shape[:2]:
        raise TrainingError(f"{path}: expected mask {points.shape[:2]}, got {mask.shape}")
    offsets, clip_ids = _cut(path, arrays, len(points), unit)
    return RawClips(
        points,
        mask,
        offsets,
        clip_ids,
        _texts(path, arrays, "labels", offsets),
        _texts(path, arrays, "splits", offsets),
        _skeleton_said(path, arrays) or guess_skeleton(points.shape[1], path),
        sha256_of(path),
        path,
    )


def _texts(path: Path, arrays: Arrays, name: str, offsets: IntArray) -> tuple[str, ...]:
    """One text per clip, '' where the file has none; also from an array with one per frame."""
    count = len(offsets) - 1
    if name not in arrays:
        return ("",) * count
    found = arrays[name]
    if len(found) == offsets[-1] != count:
        found = found[offsets[:-1]]
    if len(found) != count:
        if len(offsets) == len(arrays["keypoints"]) + 1:
            return ("",) * count  # every frame a clip of its own: what is said of clips is not
        raise TrainingError(f"{path}: {len(found)} {name} for {count} clips")
    return tuple(str(value) for value in found)


def _skeleton_said(path: Path, arrays: Arrays) -> str | None:
    """The skeleton in the notes that `posemill prepare` leaves."""
    if "meta" not in arrays:
        return None
    try:
        notes = json.loads(str(arrays["meta"].reshape(-1)[0]))
    except (ValueError, IndexError):
        return None
    said = notes.get("skeleton") if isinstance(notes, dict) else None
    if said is not None and not is_skeleton(said):
        raise TrainingError(
            f"{path} says its skeleton is {str(said)[:80]!r}, which is not known here; install "
            "the package of the engine that brings it"
        )
    return said


def _cut(path: Path, small: Arrays, num_frames: int, unit: str) -> tuple[IntArray, tuple[str, ...]]:
    """Return where the clips begin and their ids."""
    frame_ids = small.get("video_ids")
    if frame_ids is not None and "lengths" not in small and len(frame_ids) != num_frames:
        raise TrainingError(f"{path}: {len(frame_ids)} video_ids for {num_frames} frames")
    if unit == "frame":
        names = small.get("image_paths")
        if names is None or not any(names):
            names = frame_ids if frame_ids is not None else np.arange(num_frames).astype(str)
        return np.arange(num_frames + 1), tuple(str(name) for name in names)
    if "lengths" in small:
        lengths = small["lengths"].astype(np.int64)
        if (lengths < 0).any() or lengths.sum() != num_frames:
            raise TrainingError(
                f"{path}: lengths add up to {lengths.sum()}, keypoints has {num_frames} frames"
            )
        offsets = np.concatenate([[0], lengths.cumsum()])
        ids = _ids_of_clips(path, small, offsets)
    elif frame_ids is not None:
        changes = np.flatnonzero(frame_ids[1:] != frame_ids[:-1]) + 1
        offsets = np.concatenate([[0], changes, [num_frames]]) if num_frames else np.zeros(1, int)
        ids = [str(name) for name in frame_ids[offsets[:-1]]]
    else:
        raise TrainingError(f"{path}: expected video_ids (one per frame) or lengths (one per clip)")
    if len(set(ids)) != len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise TrainingError(f"{path}: the frames of clip {twice!r} are not next to each other")
    return offsets.astype(np.int64), tuple(ids)


def _ids_of_clips(path: Path, small: Arrays, offsets: IntArray) -> list[str]:
    for name in ("clip_ids", "video_ids"):
        found = small.get(name)
        if found is not None and len(found) == len(offsets) - 1:
            return [str(value) for value in found]
        if found is not None and len(found) == offsets[-1]:
            return [str(value) for value in found[np.minimum(offsets[:-1], offsets[-1] - 1)]]
    return [f"{path.stem}/{index}" for index in range(len(offsets) - 1)]


def _read_csv(path: Path, dims: int, frames: int) -> RawClips:
    """Rows of a label and then `frames * points * dims` numbers, with or without a header."""
    with path.open(encoding="utf-8-sig", newline="") as handle:
        rows = [row for row in csv.reader(handle) if row]
    if rows and not _is_number(rows[0][-1]):
        rows = rows[1:]
    if not rows:
        raise TrainingError(f"{path}: no rows; expected a label and numbers in each")
    width = len(rows[0]) - 1
    if width <= 0 or width % (dims * frames):
        raise TrainingError(
            f"{path}: expected a label and a multiple of {dims * frames} numbers "
            f"({frames} frames of {dims} numbers a point), got {width}; see csv_dims, csv_frames"
        )
    numbers = _numbers(path, rows, width)
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


def _numbers(path: Path, rows: Sequence[Sequence[str]], width: int) -> npt.NDArray[np.float32]:
    numbers = np.empty((len(rows), width), np.float32)
    for index, row in enumerate(rows):
        if len(row) != width + 1:
            raise TrainingError(
                f"{path}, row {index + 1}: expected {width} numbers after the label, "
                f"got {len(row) - 1}"
            )
        try:
            numbers[index] = np.fromiter(map(float, row[1:]), np.float32, width)
        except ValueError as error:
            raise TrainingError(
                f"{path}, row {index + 1}: expected {width} numbers after the label ({error})"
            ) from error
    return numbers


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_mask(points: npt.NDArray[Any], mask: npt.NDArray[Any] | None) -> BoolArray:
    """Return `(frames, keypoints)`: which points were found, and refuse numbers that are none.

    Raises:
        ValueError: A found point is NaN or infinite; the message says which frame and point.
    """
    is_finite = np.isfinite(points).all(-1)
    found: BoolArray = np.asarray(points.any(-1) if mask is None else mask, bool)
    bad = found & ~is_finite
    if bad.any():
        frame, point = np.argwhere(bad)[0]
        raise ValueError(
            f"{int(bad.sum())} points are NaN or infinite, first frame {frame} point {point}"
        )
    return found
