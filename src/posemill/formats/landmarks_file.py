"""The file of `posemill landmarks`: an `.npz` of one clip, all 543 points part by part.

`pose` (n, 33, 4) with visibility, `face` (n, 468, 3), `left_hand` and `right_hand` (n, 21, 3), all
normalised, NaN where a part was not found; `size_wh` (n, 2) and `image_paths` (n or none).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.archives import MappedNpz
from posemill.errors import FormatError
from posemill.formats.shared.contract import Size, expect_clips, make_clip
from posemill.records import PoseClip
from posemill.skeletons import get_skeleton

_SKELETON = "holistic-543"


def has_landmarks(arrays: MappedNpz) -> bool:
    """Return True if an archive has the arrays of `posemill landmarks`."""
    names = get_skeleton(_SKELETON).part_names
    return "keypoints" not in arrays and all(name in arrays for name in names)


def read_landmarks(arrays: MappedNpz, *, split: str, size_wh: Size | None) -> PoseClip:
    """Return the clip of an archive; its id is the file's name."""
    path = arrays.path
    frames = len(arrays["pose"]) if arrays["pose"].ndim else 0
    expect_clips(path, frames)
    parts = dict(_parts(arrays, frames))
    points = np.concatenate([part[..., :3] for part in parts.values()], axis=1)
    mask = ~np.isnan(points).any(axis=2)
    scores = mask.astype(np.float32)
    if parts["pose"].shape[2] == 4:
        pose = get_skeleton(_SKELETON).part("pose")
        scores[:, pose.start : pose.stop] = np.nan_to_num(parts["pose"][..., 3])
    sizes = np.tile(np.array(size_wh or (0, 0), np.int32), (frames, 1))
    if "size_wh" in arrays:
        if arrays["size_wh"].dtype.kind not in "iu":
            raise FormatError(
                f"{path}: expected 'size_wh' of whole numbers, got {arrays['size_wh'].dtype}"
            )
        sizes = arrays["size_wh"].astype(np.int32)
    paths = tuple(map(str, arrays["image_paths"].reshape(-1))) if "image_paths" in arrays else ()
    return make_clip(
        path, points, scores, mask, skeleton_name=_SKELETON, clip_id=path.stem, split=split,
        sizes_wh=sizes, image_paths=paths if any(paths) else (),
    )  # fmt: skip


def _parts(arrays: MappedNpz, frames: int) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    for part in get_skeleton(_SKELETON).parts:
        array = arrays[part.name]
        widths = (3, 4) if part.name == "pose" else (3,)
        shapes = [(frames, len(part), width) for width in widths]
        if array.shape not in shapes or array.dtype.kind != "f":
            raise FormatError(
                f"{arrays.path}: expected '{part.name}' of shape "
                f"{' or '.join(map(str, shapes))}, got {array.dtype} {array.shape}"
            )
        yield part.name, np.asarray(array, np.float32)
