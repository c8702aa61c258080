"""Seeded changes to a training clip: the same action, seen a little differently.

All work on normalised points, missing ones stay missing, and the same generator gives the same
result: rotation, size, shift, noise, time-warp, joint dropout, mirror with left and right swapped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posemill.errors import ConfigError
from posemill.messages import Option
from posemill.records import BoolArray, FloatArray
from posemill.skeletons import get_skeleton
from posemill.training.data.normalize import sample_at

Rng = np.random.Generator


@dataclass(frozen=True)
class Augment:
    """Changes a clip: call it with points `(T, K, D)`, mask `(T, K)` and a random generator.

    Args:
        rotate: Largest turn in the picture plane, degrees.
        scale: Largest change of size, as a share; x and y each a little differently.
        shift: Largest shift, in units of the normalised points.
        noise: Spread of the noise on each number, same units.
        time_warp: Largest change of speed, as a share, overall and along the clip.
        crop: Largest share of a clip cut off, at its ends together.
        joint_dropout: Chance that a point is dropped from a clip.
        part_dropout: Chance, for each part of a known skeleton but the body, that it is missing
            for a while, as hands are that the estimator did not find.
        mirror: Chance of a mirrored clip.
        skeleton_name: Whose left and right are swapped; None: mirrored without a swap.
    """

    rotate: float = 0.0
    scale: float = 0.0
    shift: float = 0.0
    noise: float = 0.0
    time_warp: float = 0.0
    crop: float = 0.0
    joint_dropout: float = 0.0
    part_dropout: float = 0.0
    mirror: float = 0.0
    skeleton_name: str | None = None

    @classmethod
    def of(cls, config: Any, skeleton_name: str | None) -> Augment | None:
        """Return what the `augment_…` fields of a training's config ask for; None for nothing."""
        values = {
            name: float(getattr(config, f"augment_{name}", 0.0))
            for name in ("rotate", "scale", "shift", "noise", "time_warp", "crop", "joint_dropout",
                         "part_dropout", "mirror")
        }  # fmt: skip
        return cls(**values, skeleton_name=skeleton_name) if any(values.values()) else None

    def __post_init__(self) -> None:
        for name in ("scale", "time_warp", "crop", "joint_dropout", "part_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(
                    "{option}: expected 0 to below 1, got {value}",
                    option=Option(f"augment_{name}"),
                    value=getattr(self, name),
                )
        for name in ("rotate", "shift", "noise"):
            if getattr(self, name) < 0:
                raise ConfigError(
                    "{option}: expected 0 or more, got {value}",
                    option=Option(f"augment_{name}"),
                    value=getattr(self, name),
                )
        if not 0 <= self.mirror <= 1:
            raise ConfigError(
                "{--augment-mirror}: expected 0 to 1, got {mirror}", mirror=self.mirror
            )

    def __call__(
        self, points: FloatArray, mask: BoolArray, rng: Rng
    ) -> tuple[FloatArray, BoolArray]:
        """Return the changed clip; the given arrays are not modified."""
        if (self.time_warp or self.crop) and len(points) > 2:
            points, mask = warp_time(points, mask, rng, speed=self.time_warp, crop=self.crop)
        if self.mirror and rng.random() < self.mirror:
            points, mask = mirror(points, mask, self.skeleton_name)
        if self.joint_dropout:
            kept = rng.random(points.shape[1]) >= self.joint_dropout
            mask = mask & kept
        if self.part_dropout and self.skeleton_name:
            mask = drop_parts(mask, rng, self.part_dropout, self.skeleton_name)
        if self.rotate or self.scale or self.shift:
            points = self._move(points, rng)
        if self.noise:
            points = points + self.noise * rng.standard_normal(points.shape, np.float32)
        return np.where(mask[..., None], points, np.float32(0)), mask

    def _move(self, points: FloatArray, rng: Rng) -> FloatArray:
        """Turn, resize and shift x and y; z is resized with them."""
        angle = np.deg2rad(rng.uniform(-self.rotate, self.rotate))
        size = 1 + rng.uniform(-self.scale, self.scale)
        stretch = 1 + rng.uniform(-self.scale, self.scale, 2) / 2
        shift = np.float32(self.shift) * (2 * rng.random(points.shape[-1], np.float32) - 1)
        matrix = np.eye(points.shape[-1]) * size
        cos, sin = np.cos(angle), np.sin(angle)
        if points.shape[-1] >= 2:
            turn = np.array([[cos, sin], [-sin, cos]])
            matrix[:2, :2] = size * turn @ np.diag(stretch)
        flat: FloatArray = points.reshape(-1, points.shape[-1]) @ matrix.astype(np.float32) + shift
        return flat.reshape(points.shape)


def mirror(
    points: FloatArray, mask: BoolArray, skeleton_name: str | None
) -> tuple[FloatArray, BoolArray]:
    """Return the clip as a mirror shows it: x negated, left and right points swapped."""
    flipped = points * np.array([-1, *[1] * (points.shape[-1] - 1)], np.float32)
    if skeleton_name is None:
        return flipped, mask
    order = list(get_skeleton(skeleton_name).mirror)
    return flipped[:, order], mask[:, order]


def drop_parts(mask: BoolArray, rng: Rng, chance: float, skeleton_name: str) -> BoolArray:
    """Return the mask with some parts missing in a span of frames, half of the clip or more."""
    mask = mask.copy()
    frames = len(mask)
    for part in get_skeleton(skeleton_name).parts:
        if part.name in ("pose", "body") or rng.random() >= chance:
            continue
        length = int(rng.integers((frames + 1) // 2, frames + 1))
        start = int(rng.integers(0, frames - length + 1))
        mask[start : start + length, part.start : part.stop] = False
    return mask


def warp_time(
    points: FloatArray, mask: BoolArray, rng: Rng, *, speed: float, crop: float = 0.0
) -> tuple[FloatArray, BoolArray]:
    """Return the clip faster or slower as a whole, uneven along its way, its ends cut.

    Args:
        points: `(frames, keypoints, dims)`.
        mask: `(frames, keypoints)`.
        rng: Random generator.
        speed: Largest change of the length and of the local speed, as a share.
        crop: Largest share cut off.
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
