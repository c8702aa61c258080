"""Clips from the arrays of a `.npz`: of ours, of `posemill landmarks`, or of another maker."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.archives import MappedNpz
from posemill.errors import FormatError
from posemill.formats.landmarks_file import has_landmarks, read_landmarks
from posemill.formats.shared.contract import (
    Size,
    expect_clips,
    make_clip,
    read_info,
    skeleton_for,
)
from posemill.formats.shared.pixels import divide_pixels, median_of_pixels
from posemill.npz_clips import read_npz_clips, split_by_name
from posemill.records import PoseClip, fields_of_recipe
from posemill.skeletons import get_skeleton


def clips_of(arrays: MappedNpz, *, size_wh: Size | None = None) -> Iterator[PoseClip]:
    """Yield the clips of an archive: of ours, or of any that has `keypoints` (N, K, 2 or 3).

    Without `splits`, the file's name says it. Points of another maker that are pixels are divided
    by the pictures' size.
    """
    path = arrays.path
    if has_landmarks(arrays):
        yield read_landmarks(arrays, split=split_by_name(path), size_wh=size_wh)
        return
    clips = read_npz_clips(arrays)
    keypoints = arrays["keypoints"]
    skeleton = skeleton_for(keypoints.shape[1], path, clips.header.get("skeleton"))
    made = fields_of_recipe(clips.header.get("recipe"))
    _check_names(arrays, skeleton)
    expect_clips(path, len(clips))
    pixels = 0.0 if "posemill" in clips.header else median_of_pixels(keypoints)
    for index, (start, stop) in enumerate(pairwise(clips.offsets.tolist())):
        rows = slice(start, stop)
        points, sizes = np.array(keypoints[rows]), _sizes(arrays, rows, size_wh)
        info = read_info(str(arrays["clip_info"][index])) if "clip_info" in arrays else {}
        yield make_clip(
            path, divide_pixels(path, points, sizes, pixels) if pixels else points,
            _cut(arrays, "scores", rows), _cut(arrays, "mask", rows), sizes_wh=sizes,
            skeleton_name=skeleton, clip_id=clips.clip_ids[index],
            split=clips.splits[index] or split_by_name(path),
            frame_indices=_cut(arrays, "frame_index", rows, np.arange(stop - start)),
            image_paths=_paths(arrays, rows), world=_cut(arrays, "world", rows), **made,
            **{**info, "label": clips.labels[index] or info.get("label")},
        )  # fmt: skip


def _paths(arrays: MappedNpz, rows: slice) -> tuple[str, ...]:
    paths = tuple(arrays["image_paths"][rows].tolist()) if "image_paths" in arrays else ()
    return paths if any(paths) else ()


def _cut(arrays: MappedNpz, name: str, rows: slice, default: Any = None) -> Any:
    return np.array(arrays[name][rows]) if name in arrays else default


def _sizes(arrays: MappedNpz, rows: slice, size_wh: Size | None) -> npt.NDArray[np.int32]:
    if "sizes_wh" in arrays:
        return np.array(arrays["sizes_wh"][rows], np.int32)
    return np.tile(np.array(size_wh or (0, 0), np.int32), (rows.stop - rows.start, 1))


def _check_names(arrays: MappedNpz, skeleton_name: str) -> None:
    if "keypoint_names" not in arrays:
        return
    expected, got = get_skeleton(skeleton_name).point_names, arrays["keypoint_names"].tolist()
    if tuple(got) != expected:
        different = next((i for i, pair in enumerate(zip(expected, got, strict=False))
                          if pair[0] != pair[1]), min(len(expected), len(got)))  # fmt: skip
        raise FormatError(
            "{path}: keypoint_names are not those of {skeleton_name}; the first difference is at "
            "{different}",
            path=arrays.path,
            skeleton_name=skeleton_name,
            different=different,
        )
