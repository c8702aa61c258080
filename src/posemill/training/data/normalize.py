"""Points of every skeleton brought to the same place and size, missing ones left out.

Parts of a known skeleton (body, left hand, right hand, face) are centred in each frame on the
part's root and scaled by its usual size in the clip. An unknown skeleton is centred and scaled as
one, once per clip: its path stays. `Augment` changes normalised points a little in every epoch.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from posemill.errors import ConfigError
from posemill.records import BoolArray, FloatArray
from posemill.skeletons import get_skeleton
from posemill.training.config.data_settings import AugmentationSettings

Rng = np.random.Generator
MaskedPoints: TypeAlias = tuple[FloatArray, BoolArray]  # `(T, K, D)` and `(T, K)`
_SMALLEST = 1e-6


@dataclass(frozen=True)
class Group:
    """A run of points, with what its centre and its size are measured by."""

    start: int
    stop: int
    roots: tuple[int, ...] = ()  # whose mean is the centre; empty: the mean of all found points
    ruler: tuple[int, ...] = ()  # two a unit apart; empty: the root mean square size is the unit


@cache
def groups_of(skeleton_name: str) -> tuple[Group, ...]:
    """Return the groups: body on the shoulders, hands on the wrist, others on their mean."""
    skeleton = get_skeleton(skeleton_name)
    where = {name: index for index, name in enumerate(skeleton.point_names)}
    shoulders = tuple(where[name] for name in ("left_shoulder", "right_shoulder") if name in where)
    groups = []
    for part in skeleton.parts:
        wrist = f"{part.name}_wrist"
        if part.name in ("pose", "body") and len(shoulders) == 2:
            groups.append(Group(part.start, part.stop, shoulders, shoulders))
        elif part.name.endswith("_hand") and wrist in where:
            groups.append(Group(part.start, part.stop, (where[wrist],)))
        else:
            groups.append(Group(part.start, part.stop))
    return tuple(groups)


@dataclass
class Preparation:
    """What is done to every clip once, before training; its `repr` is the key of a cache.

    `normalize` is `parts` (see above), `whole` (one centre and size per clip), `none`, or `auto`:
    parts where the skeleton is known, whole elsewhere. The numbers are those of `DataSettings`; 0:
    as it is.
    """

    normalize: str = "auto"
    skeleton_name: str | None = None
    num_dims: int = 0
    num_frames: int = 0
    max_frames: int = 0

    def __post_init__(self) -> None:
        if self.normalize == "auto":
            self.normalize = "parts" if self.skeleton_name else "whole"
        if self.normalize == "parts" and self.skeleton_name is None:
            raise ConfigError(
                "{--normalize:parts} needs a known skeleton; use {--normalize:whole} or "
                "{--normalize:none}"
            )

    def __call__(self, points: FloatArray, mask: BoolArray) -> MaskedPoints:
        """Return points `(T, K, D)` and mask `(T, K)` of a prepared clip."""
        points = points[..., : self.num_dims] if self.num_dims else points
        if self.num_frames or (self.max_frames and len(points) > self.max_frames):
            times = np.linspace(0, len(points) - 1, self.num_frames or self.max_frames)
            points, mask = sample_at(points, mask, times)
        if self.normalize == "parts" and self.skeleton_name:
            return normalize_parts(points, mask, groups_of(self.skeleton_name))
        if self.normalize == "whole":
            return normalize_whole(points, mask)
        return np.where(mask[..., None], points, np.float32(0)), mask


def sample_at(points: FloatArray, mask: BoolArray, times: npt.NDArray[np.float64]) -> MaskedPoints:
    """Return the clip at these times, in frames, by straight lines between found points.

    Points are `(frames, keypoints, dims)` here and below, masks `(frames, keypoints)`.
    """
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


def normalize_whole(points: FloatArray, mask: BoolArray) -> MaskedPoints:
    """Return a clip centred on the mean of its found points, of root mean square size 1."""
    known = points[mask]
    if not len(known):
        return np.zeros_like(points), mask
    centre = known.mean(0)
    size = np.sqrt(np.square(known - centre).sum(-1).mean())
    moved = (points - centre) / max(float(size), _SMALLEST)
    return np.where(mask[..., None], moved, 0).astype(np.float32), mask


def normalize_parts(points: FloatArray, mask: BoolArray, groups: tuple[Group, ...]) -> MaskedPoints:
    """Return a clip with each group centred per frame and scaled per clip; missing points are 0."""
    result = np.zeros_like(points, dtype=np.float32)
    known = np.where(mask[..., None], points, np.nan)
    # A frame without any point of the group has the mean NaN, and stays missing.
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
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
            size = np.nanmedian(sizes)
            is_usable = np.isfinite(size) and size >= _SMALLEST
            result[:, group.start : group.stop] = moved / (size if is_usable else 1.0)
    return np.where(mask[..., None], result, np.float32(0)).astype(np.float32), mask


@dataclass(frozen=True)
class Augment:
    """Changes a clip: call it with points `(T, K, D)`, mask `(T, K)` and a random generator.

    `amounts` leave nothing open. `skeleton_name` says whose left and right are swapped, and which
    parts are dropped; None: mirrored without a swap.
    """

    amounts: AugmentationSettings
    skeleton_name: str | None = None

    def __call__(self, points: FloatArray, mask: BoolArray, rng: Rng) -> MaskedPoints:
        """Return the changed clip; the given arrays are not modified."""
        by = self.amounts
        if (by.time_warp or by.crop) and len(points) > 2:
            speed, crop = by.time_warp or 0.0, by.crop or 0.0
            points, mask = warp_time(points, mask, rng, speed=speed, crop=crop)
        if by.mirror and rng.random() < by.mirror:
            points, mask = mirror(points, mask, self.skeleton_name)
        if by.joint_dropout:
            kept = rng.random(points.shape[1]) >= by.joint_dropout
            mask = mask & kept
        if by.part_dropout and self.skeleton_name:
            mask = drop_parts(mask, rng, by.part_dropout, self.skeleton_name)
        if by.rotate or by.scale or by.shift:
            points = self._move(points, rng)
        if by.noise:
            points = points + by.noise * rng.standard_normal(points.shape, np.float32)
        return np.where(mask[..., None], points, np.float32(0)), mask

    def _move(self, points: FloatArray, rng: Rng) -> FloatArray:
        """Turn, resize and shift x and y; z is resized with them."""
        rotate, scale = self.amounts.rotate or 0.0, self.amounts.scale or 0.0
        angle = np.deg2rad(rng.uniform(-rotate, rotate))
        size = 1 + rng.uniform(-scale, scale)
        stretch = 1 + rng.uniform(-scale, scale, 2) / 2
        shift = np.float32(self.amounts.shift) * (2 * rng.random(points.shape[-1], np.float32) - 1)
        matrix = np.eye(points.shape[-1]) * size
        cos, sin = np.cos(angle), np.sin(angle)
        if points.shape[-1] >= 2:
            turn = np.array([[cos, sin], [-sin, cos]])
            matrix[:2, :2] = size * turn @ np.diag(stretch)
        flat: FloatArray = points.reshape(-1, points.shape[-1]) @ matrix.astype(np.float32) + shift
        return flat.reshape(points.shape)


def mirror(points: FloatArray, mask: BoolArray, skeleton_name: str | None) -> MaskedPoints:
    """Return the clip as a mirror shows it: x negated, left and right points swapped."""
    flipped = points * np.array([-1, *[1] * (points.shape[-1] - 1)], np.float32)
    if skeleton_name is None:
        return flipped, mask
    order = list(get_skeleton(skeleton_name).mirror)
    return flipped[:, order], mask[:, order]


def drop_parts(mask: BoolArray, rng: Rng, chance: float, skeleton_name: str) -> BoolArray:
    """Return the mask with some parts missing in a span of frames, half of the clip or more."""
    mask, frames = mask.copy(), len(mask)
    for part in get_skeleton(skeleton_name).parts:
        if part.name in ("pose", "body") or rng.random() >= chance:
            continue
        length = int(rng.integers((frames + 1) // 2, frames + 1))
        start = int(rng.integers(0, frames - length + 1))
        mask[start : start + length, part.start : part.stop] = False
    return mask


def warp_time(
    points: FloatArray, mask: BoolArray, rng: Rng, *, speed: float, crop: float = 0.0
) -> MaskedPoints:
    """Return the clip faster or slower as a whole, uneven along its way, its ends cut.

    `speed` is the largest change of length and local speed, `crop` the largest share cut off.
    """
    last = len(points) - 1
    cut = rng.uniform(0, crop) * last
    start = rng.uniform(0, cut)
    frames = max(2, round((last - cut + 1) * (1 + rng.uniform(-speed, speed))))
    # Local speeds at five knots, joined by lines; their sum is the way through the clip.
    knots = 1 + rng.uniform(-speed, speed, 5)
    speeds = np.interp(np.linspace(0, 4, frames - 1), np.arange(5), knots)
    way = np.concatenate([[0], speeds.cumsum()])
    return sample_at(points, mask, start + way / way[-1] * (last - cut))
