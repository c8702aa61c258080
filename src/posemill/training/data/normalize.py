"""Points of every skeleton brought to the same place and size, missing ones left out.

Per part of a known skeleton (body, left hand, right hand, face): centred in each frame on the
part's root, scaled by its usual size in the clip. Where each hand is stays in the wrists of the
body. An unknown skeleton is centred and scaled as one, once per clip: its path stays.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import ConfigError
from posemill.plugins import not_among
from posemill.records import BoolArray, FloatArray
from posemill.skeletons import get_skeleton
from posemill.training.data.cache import Transform

NORMALIZATIONS = ("auto", "parts", "whole", "none")
_SMALLEST = 1e-6


@dataclass(frozen=True)
class Group:
    """A run of points, the points whose mean is its centre, and two points a unit apart (or none).

    Args:
        start: First point.
        stop: After the last point.
        roots: Indices whose mean is the centre; empty: the mean of all found points.
        ruler: Two indices whose distance is the unit; empty: the root mean square size.
    """

    start: int
    stop: int
    roots: tuple[int, ...] = ()
    ruler: tuple[int, ...] = ()


@cache
def groups_of(skeleton_name: str) -> tuple[Group, ...]:
    """Return a skeleton's groups: body on the shoulders, hands on the wrist, others on their mean.

    A body without shoulders or a hand without a wrist is centred on its mean too.
    """
    skeleton = get_skeleton(skeleton_name)
    where = {name: index for index, name in enumerate(skeleton.point_names)}
    groups = []
    for part in skeleton.parts:
        has_shoulders = {"left_shoulder", "right_shoulder"} <= {*where}
        if part.name in ("pose", "body") and has_shoulders:
            shoulders = (where["left_shoulder"], where["right_shoulder"])
            groups.append(Group(part.start, part.stop, shoulders, shoulders))
        elif part.name.endswith("_hand") and f"{part.name}_wrist" in where:
            groups.append(Group(part.start, part.stop, (where[f"{part.name}_wrist"],)))
        else:
            groups.append(Group(part.start, part.stop))
    return tuple(groups)


def preparation(
    *,
    normalize: str = "auto",
    skeleton_name: str | None = None,
    num_dims: int = 0,
    num_frames: int = 0,
    max_frames: int = 0,
) -> Transform:
    """Return what is done to every clip once, before training.

    Args:
        normalize: `parts` (see above), `whole` (one centre and size per clip), `none`, or `auto`:
            parts where the skeleton is known, whole elsewhere.
        skeleton_name: One of ours or None.
        num_dims: Keep so many coordinates; 0: all.
        num_frames: Resample to so many frames; 0: as it is.
        max_frames: Resample longer clips to so many frames; 0: no limit.
    """
    if normalize not in NORMALIZATIONS:
        raise not_among("normalize", normalize, NORMALIZATIONS)
    if normalize == "auto":
        normalize = "parts" if skeleton_name else "whole"
    if normalize == "parts" and skeleton_name is None:
        raise ConfigError(
            "{--normalize:parts} needs a known skeleton; use {--normalize:whole} or "
            "{--normalize:none}"
        )
    groups = groups_of(skeleton_name) if normalize == "parts" and skeleton_name else ()

    def prepare(points: FloatArray, mask: BoolArray) -> tuple[FloatArray, BoolArray]:
        points = points[..., :num_dims] if num_dims else points
        if num_frames or (max_frames and len(points) > max_frames):
            points, mask = resample(points, mask, num_frames or max_frames)
        if groups:
            return normalize_parts(points, mask, groups)
        return (normalize_whole if normalize == "whole" else _leave)(points, mask)

    parameters: dict[str, Any] = {
        "version": 1,
        "normalize": normalize,
        "skeleton": skeleton_name,
        "num_dims": num_dims,
        "num_frames": num_frames,
        "max_frames": max_frames,
    }
    return Transform("prepare", prepare, parameters)


def resample(points: FloatArray, mask: BoolArray, num_frames: int) -> tuple[FloatArray, BoolArray]:
    """Return the clip at evenly spaced times; a point between a found and a missing is the found.

    Args:
        points: `(frames, keypoints, dims)`.
        mask: `(frames, keypoints)`.
        num_frames: How many to return.
    """
    return sample_at(points, mask, np.linspace(0, len(points) - 1, num_frames))


def sample_at(
    points: FloatArray, mask: BoolArray, times: npt.NDArray[np.float64]
) -> tuple[FloatArray, BoolArray]:
    """Return the clip at these times, in frames, by straight lines between found points."""
    before = np.clip(np.floor(times).astype(np.int64), 0, len(points) - 1)
    after = np.minimum(before + 1, len(points) - 1)
    share = np.clip(times - before, 0, 1).astype(np.float32)[:, None]
    # A missing end has no weight, so that nothing is drawn towards the zeros that stand for it.
    weight_before, weight_after = mask[before] * (1 - share), mask[after] * share
    total = weight_before + weight_after
    mixed = points[before] * weight_before[..., None] + points[after] * weight_after[..., None]
    found = total > 0
    mixed = mixed / np.where(found, total, 1)[..., None]
    return np.where(found[..., None], mixed, 0).astype(np.float32), found


def _leave(points: FloatArray, mask: BoolArray) -> tuple[FloatArray, BoolArray]:
    return np.where(mask[..., None], points, np.float32(0)), mask


def normalize_whole(points: FloatArray, mask: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Return a clip centred on the mean of its found points, of root mean square size 1."""
    known = points[mask]
    if not len(known):
        return np.zeros_like(points), mask
    centre = known.mean(0)
    size = np.sqrt(np.square(known - centre).sum(-1).mean())
    moved = (points - centre) / max(float(size), _SMALLEST)
    return np.where(mask[..., None], moved, 0).astype(np.float32), mask


def normalize_parts(
    points: FloatArray, mask: BoolArray, groups: tuple[Group, ...]
) -> tuple[FloatArray, BoolArray]:
    """Return a clip with each group centred per frame and scaled per clip; missing points are 0.

    Args:
        points: `(frames, keypoints, dims)`. Not modified.
        mask: `(frames, keypoints)`.
        groups: As `groups_of` gives them.
    """
    result = np.zeros_like(points, dtype=np.float32)
    known = np.where(mask[..., None], points, np.nan)
    with warnings.catch_warnings():
        # A frame without any point of the group has the mean NaN, and stays missing.
        warnings.simplefilter("ignore", RuntimeWarning)
        for group in groups:
            inside = known[:, group.start : group.stop]
            centre = np.nanmean(inside, axis=1, keepdims=True)
            if group.roots:
                root = known[:, group.roots].mean(1, keepdims=True)
                centre = np.where(np.isnan(root), centre, root)
            moved = inside - centre
            if group.ruler:
                one, other = group.ruler
                sizes = np.linalg.norm(known[:, one, :2] - known[:, other, :2], axis=-1)
            else:
                sizes = np.sqrt(np.nanmean(np.square(moved[..., :2]).sum(-1), axis=1))
            size = np.nanmedian(sizes) if np.isfinite(sizes).any() else np.nan
            if not np.isfinite(size) or size < _SMALLEST:
                size = 1.0
            result[:, group.start : group.stop] = moved / size
    return np.where(mask[..., None], result, np.float32(0)).astype(np.float32), mask
