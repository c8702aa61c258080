"""Clips from the arrays of a `.npz`: of ours, of `posemill landmarks`, or of another maker."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.archives import MappedNpz
from posemill.errors import FormatError
from posemill.formats.landmarks_file import has_landmarks, read_landmarks
from posemill.formats.shared.contract import (
    Size,
    expect_clips,
    expect_together,
    make_clip,
    read_header,
    read_info,
    skeleton_for,
)
from posemill.formats.shared.pixels import divide_pixels, median_of_pixels
from posemill.records import PoseClip, fields_of_recipe
from posemill.skeletons import get_skeleton

_SPLIT_IN_NAME = re.compile(r"(\w+?)_keypoints\.npz$")


def clips_of(arrays: MappedNpz, *, size_wh: Size | None = None) -> Iterator[PoseClip]:
    """Yield the clips of an archive: of ours, or of any that has `keypoints` (N, K, 2 or 3).

    Without `lengths`, frames of the same `video_ids` that follow each other are a clip. Without
    `mask`, points that are all zero or NaN are missing. Without `splits`, the file's name says it.
    Points of another maker that are pixels are divided by the pictures' size.
    """
    path = arrays.path
    if has_landmarks(arrays):
        yield read_landmarks(arrays, split=_split_of(path), size_wh=size_wh)
        return
    if "keypoints" not in arrays:
        raise FormatError(
            f"{path}: expected an array 'keypoints', found {', '.join(sorted(arrays)) or 'nothing'}"
        )
    keypoints = arrays["keypoints"]
    if keypoints.ndim != 3 or keypoints.dtype.kind not in "fiu":
        raise FormatError(
            f"{path}: expected keypoints (frames, points, 2 or 3), got {keypoints.dtype} "
            f"{keypoints.shape}"
        )
    header = read_header(str(arrays["meta"].reshape(-1)[0])) if "meta" in arrays else {}
    skeleton = skeleton_for(keypoints.shape[1], path, header.get("skeleton"))
    made = fields_of_recipe(header.get("recipe"))
    _check_names(arrays, skeleton)
    frames = _frame_arrays(arrays, len(keypoints))
    lengths = _lengths(arrays, frames, len(keypoints))
    per_clip = _clip_arrays(arrays, len(lengths))
    expect_clips(path, len(lengths))
    default_split = _split_of(path)
    ids = _clip_ids(arrays, frames, lengths)
    pixels = 0.0 if "posemill" in header else median_of_pixels(keypoints)
    start = 0
    for index, length in enumerate(lengths):
        rows = slice(start, start + length)
        start += length
        given = {name: str(values[index]) for name, values in per_clip.items()}
        points, sizes = np.array(keypoints[rows]), _sizes(frames, rows, length, size_wh)
        yield make_clip(
            path, divide_pixels(path, points, sizes, pixels) if pixels else points,
            _cut(frames, "scores", rows), _cut(frames, "mask", rows), sizes_wh=sizes,
            skeleton_name=skeleton, clip_id=ids[index],
            split=given.get("splits") or default_split,
            frame_indices=_cut(frames, "frame_index", rows, np.arange(length, dtype=np.int64)),
            image_paths=_paths(frames, rows), **_info(given), **made,
        )  # fmt: skip


def _clip_ids(
    arrays: MappedNpz, frames: Mapping[str, npt.NDArray[Any]], lengths: Sequence[int]
) -> list[str]:
    """Return an id per clip: those of the file, else its name; numbered where one comes again."""
    starts = (np.cumsum(lengths) - lengths).tolist()
    if "clip_ids" in arrays:
        ids = [str(value) for value in arrays["clip_ids"]]
    elif "video_ids" in frames:
        ids = [str(frames["video_ids"][start]) if length else ""
               for start, length in zip(starts, lengths, strict=True)]  # fmt: skip
    else:
        ids = [""] * len(lengths)
    ids = [name or arrays.path.stem for name in ids]
    counts, seen = Counter(ids), Counter[str]()
    if "clip_ids" in arrays or len(counts) == len(ids):
        return ids
    for index, name in enumerate(ids):
        if counts[name] > 1:
            ids[index] = f"{name}_{seen[name]:04d}"
            seen[name] += 1
    return ids


def _info(given: Mapping[str, str]) -> dict[str, Any]:
    if "clip_info" in given:
        return read_info(given["clip_info"])
    return {"label": given.get("labels") or None}


def _paths(frames: Mapping[str, npt.NDArray[Any]], rows: slice) -> tuple[str, ...]:
    paths = tuple(frames["image_paths"][rows].tolist()) if "image_paths" in frames else ()
    return paths if any(paths) else ()


def _cut(
    frames: Mapping[str, npt.NDArray[Any]], name: str, rows: slice, default: Any = None
) -> Any:
    return np.array(frames[name][rows]) if name in frames else default


def _sizes(
    frames: Mapping[str, npt.NDArray[Any]], rows: slice, length: int, size_wh: Size | None
) -> npt.NDArray[np.int32]:
    if "sizes_wh" in frames:
        return np.array(frames["sizes_wh"][rows], np.int32)
    return np.tile(np.array(size_wh or (0, 0), np.int32), (length, 1))


# name -> (kinds of dtype, shape of a row: None for the number of keypoints)
_FRAME_ARRAYS: dict[str, tuple[str, tuple[int | None, ...]]] = {
    "scores": ("f", (None,)),
    "mask": ("b", (None,)),
    "frame_index": ("iu", ()),
    "sizes_wh": ("iu", (2,)),
    "image_paths": ("U", ()),
    "video_ids": ("Uiu", ()),
}


def _frame_arrays(arrays: MappedNpz, num_frames: int) -> dict[str, npt.NDArray[Any]]:
    found = {}
    num_points = arrays["keypoints"].shape[1]
    for name, (kinds, row) in _FRAME_ARRAYS.items():
        if name not in arrays:
            continue
        array = arrays[name]
        expected = (num_frames, *(num_points if length is None else length for length in row))
        if array.shape != expected or array.dtype.kind not in kinds:
            raise FormatError(
                f"{arrays.path}: expected '{name}' of shape {expected} (kind {kinds}), got "
                f"{array.dtype} {array.shape}"
            )
        found[name] = array
    return found


def _clip_arrays(arrays: MappedNpz, num_clips: int) -> dict[str, npt.NDArray[Any]]:
    found = {}
    for name in ("clip_ids", "splits", "labels", "clip_info"):
        if name not in arrays:
            continue
        if arrays[name].shape != (num_clips,):
            raise FormatError(
                f"{arrays.path}: expected '{name}' for {num_clips} clips, got {arrays[name].shape}"
            )
        found[name] = arrays[name]
    return found


def _lengths(
    arrays: MappedNpz, frames: Mapping[str, npt.NDArray[Any]], num_frames: int
) -> list[int]:
    if "lengths" in arrays:
        lengths = arrays["lengths"]
        if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any():
            raise FormatError(
                f"{arrays.path}: expected 'lengths' of whole numbers, got {lengths!r}"
            )
        if sum(lengths.tolist()) != num_frames:
            raise FormatError(
                f"{arrays.path}: lengths add up to {sum(lengths.tolist())}, keypoints has "
                f"{num_frames} frames"
            )
        return [int(length) for length in lengths]
    if "video_ids" not in frames:
        return [num_frames] if num_frames else []
    ids = frames["video_ids"]
    if not num_frames:
        return []
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    expect_together(arrays.path, ids[starts].tolist(), starts.tolist())
    lengths = np.diff(np.r_[starts, num_frames])
    return [int(length) for length in lengths]


def _check_names(arrays: MappedNpz, skeleton_name: str) -> None:
    if "keypoint_names" not in arrays:
        return
    expected, got = get_skeleton(skeleton_name).point_names, arrays["keypoint_names"].tolist()
    if tuple(got) != expected:
        different = next((i for i, pair in enumerate(zip(expected, got, strict=False))
                          if pair[0] != pair[1]), min(len(expected), len(got)))  # fmt: skip
        raise FormatError(
            f"{arrays.path}: keypoint_names are not those of {skeleton_name}; the first difference "
            f"is at {different}"
        )


def _split_of(path: Path) -> str:
    match = _SPLIT_IN_NAME.search(path.name)
    return match.group(1) if match else "all"
