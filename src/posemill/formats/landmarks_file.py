"""The file of `posemill landmarks`: an `.npz` of one clip, all points of the engine part by part.

`skeleton` is its name. Of Holistic: `pose` (n, 33, 4) with visibility, `face` (n, 468 or 478, 3),
`left_hand` and `right_hand` (n, 21, 3). Of other engines: every part (n, points, 4) with a score.
All are normalised by the picture, NaN where not found; `size_wh` (n, 2), `image_paths` (n or none).
With landmarks in metres: `world` (n, 75, 3), as in `PoseClip`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import ContentError
from posemill.formats.shared.contract import Size, known_skeleton, make_clip, same_sizes
from posemill.npz.mapped import MappedNpz, check_array
from posemill.records import PoseClip
from posemill.skeletons import get_skeleton

_HOLISTIC = ("holistic-543", "holistic-553")  # the first also of files that do not say: older ones


def landmark_arrays(clip: PoseClip) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of the file, by name."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for part in clip.skeleton.parts:
        arrays[part.name] = points = clip.part(part.name)
        if clip.skeleton_name not in _HOLISTIC or part.name == "pose":
            scores = clip.scores[:, part.start : part.stop, None].copy()
            scores[np.isnan(points[..., :1])] = np.nan
            arrays[part.name] = np.concatenate([points, scores], -1)
    if clip.world is not None:
        arrays["world"] = clip.world
    return {
        **arrays,
        "size_wh": clip.sizes_wh,
        "image_paths": np.array(clip.image_paths, dtype=np.str_),
        "skeleton": np.array(clip.skeleton_name),
    }


def has_landmarks(arrays: MappedNpz) -> bool:
    """Return True if an archive has the arrays of `posemill landmarks`."""
    parts = get_skeleton(_HOLISTIC[0]).part_names
    return "keypoints" not in arrays and ("skeleton" in arrays or {*parts} <= {*arrays})


def read_landmarks(arrays: MappedNpz, *, split: str, size_wh: Size | None) -> PoseClip:
    """Return the clip of an archive; its id is the file's name."""
    path, name = arrays.path, _HOLISTIC[0]
    if "skeleton" in arrays:
        name = str(next(iter(arrays["skeleton"].reshape(-1)), ""))
    skeleton = known_skeleton(name)
    if not {*skeleton.part_names} <= {*arrays}:
        parts, names = (", ".join(sorted(each)) for each in (skeleton.part_names, arrays))
        raise ContentError("expected arrays {parts}, found {arrays}", parts=parts, arrays=names)
    first = arrays[skeleton.part_names[0]]
    frames = len(first) if first.ndim else 0
    if not frames:
        raise ContentError("holds no clips; expected at least one")
    points = np.zeros((frames, skeleton.num_points, 3), np.float32)
    scores = np.ones(points.shape[:2], np.float32)
    for part in skeleton.parts:
        widths = (3,) if name in _HOLISTIC and part.name != "pose" else (3, 4)
        array, rows = arrays[part.name], slice(part.start, part.stop)
        check_array(array, part.name, "f", *((frames, len(part), width) for width in widths))
        points[:, rows] = array[..., :3]
        if array.shape[2] == 4:
            scores[:, rows] = np.nan_to_num(array[..., 3])
    sizes = arrays["size_wh"] if "size_wh" in arrays else same_sizes(size_wh, frames)
    check_array(sizes, "size_wh", "iu", (frames, 2))
    paths = arrays["image_paths"].reshape(-1).tolist() if "image_paths" in arrays else ()
    return make_clip(
        points,
        scores,
        np.asarray(~np.isnan(points).any(axis=2)),
        skeleton_name=name,
        clip_id=path.stem,
        split=split,
        sizes_wh=sizes.astype(np.int32),
        image_paths=tuple(map(str, paths)),
        world=np.array(arrays["world"], np.float32) if "world" in arrays else None,
    )
