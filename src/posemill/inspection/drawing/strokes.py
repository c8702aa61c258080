"""Bones and points as lines and dots: colours by part and side, widths by the size of the part.

Or skeletons on black, in the colours that pose-driven generators such as ControlNet were taught:
limbs are ellipses of nine pixels across in 0.6 of their colour, points are dots of radius 4 in
theirs, whatever the size of the picture: a generator expects no others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from posemill.errors import ConfigError
from posemill.records import BoolArray, FloatArray, Frame, PoseClip
from posemill.skeletons import Part, get_skeleton, palette
from posemill.skeletons.layouts import OPENPOSE_BONES

_SHIFT = 4  # cv2 takes coordinates in sixteenths of a pixel: lines do not jump from frame to frame
_UNSURE_OPACITY = 0.4
_FACE_RIM_OPACITY = 0.35  # a full rim would hide the small features below it
_ANGLES = np.linspace(0, 2 * np.pi, 24, endpoint=False)
_CIRCLE = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], 1)  # (corners, 2), radius 1
SKELETON = "openpose-18"
_HALF_WIDTH, _RADIUS, _WEIGHT = 4, 4, 0.6


def paint_keypoints(
    canvas: Frame,
    skeleton_name: str,
    points: FloatArray,
    sure: BoolArray,
    *,
    line_scale: float = 1.0,
    rim: palette.Colour = palette.RIM,
) -> None:
    """Draw one frame's keypoints into the canvas, `(height, width, 3)` RGB.

    `points` are `(keypoints, 2)` in its pixels, NaN where not to be drawn; those that are not
    `sure`, `(keypoints,)`, are drawn fainter. `rim` is the colour around all lines of a person.
    """
    skeleton, bone_colours = get_skeleton(skeleton_name), palette.bone_keys(skeleton_name)
    is_found = ~np.isnan(points[:, 0])
    thin = _shown_better(skeleton_name, is_found)

    def paint(layer: Frame, visible: BoolArray) -> None:
        for part, numbers in _drawing_order(skeleton_name):
            part_points = points[part.start : part.stop]
            width = max(1.0, line_scale * _usual_width(part, part_points, max(canvas.shape[:2])))
            rim_width = max(1.0, width / 4)
            ends = {number: list(skeleton.bones[number]) for number in numbers}
            lines = {number: pair for number, pair in ends.items() if visible[pair].all()}
            # All rims first: the rim of one bone must not cut through another.
            rim_layer = layer.copy() if part.name == "face" and lines else layer
            for pair in lines.values():
                if not thin[pair].any():
                    _line(rim_layer, points[pair], rim, width + 2 * rim_width)
            if rim_layer is not layer:
                _blend(rim_layer, layer, _FACE_RIM_OPACITY)
            for number, pair in lines.items():
                line_width = 0.4 * width if thin[pair].any() else width
                _line(layer, points[pair], palette.COLOURS[bone_colours[number]], line_width)
            for index in range(part.start, part.stop) if part.name != "face" else ():
                if visible[index] and not thin[index]:
                    colour = palette.COLOURS[palette.point_keys(skeleton_name)[index]]
                    _dot(layer, points[index], rim, 0.85 * width + rim_width)
                    _dot(layer, points[index], colour, 0.85 * width)
                    _dot(layer, points[index], (255, 255, 255), 0.45 * width)

    if (is_found & ~sure).any():
        layer = canvas.copy()
        paint(layer, is_found)
        _blend(layer, canvas, _UNSURE_OPACITY)
    paint(canvas, is_found & sure)


def _shown_better(skeleton_name: str, is_found: BoolArray) -> BoolArray:
    """Return `(keypoints,)`: points of the body that a part of their own shows better."""
    thin = np.zeros(len(is_found), bool)
    for part_name, repeated in palette.repeated_points(skeleton_name).items():
        part = get_skeleton(skeleton_name).part(part_name)
        thin[list(repeated)] |= is_found[part.start : part.stop].any()
    return thin


@cache
def _drawing_order(skeleton_name: str) -> tuple[tuple[Part, tuple[int, ...]], ...]:
    """Return each part with the numbers of its bones: body first, hands last, so on top."""
    skeleton = get_skeleton(skeleton_name)
    order = (*palette.BODY_PARTS, "face", "left_hand", "right_hand")
    rank = {name: number for number, name in enumerate(order)}
    parts = sorted(skeleton.parts, key=lambda part: rank.get(part.name, len(rank)))
    # A bone between two parts (ankle to toe) belongs to the later one.
    ends = list(enumerate(map(max, skeleton.bones)))
    return tuple(
        (part, tuple(number for number, end in ends if part.start <= end < part.stop))
        for part in parts
    )


def _usual_width(part: Part, points: FloatArray, long_side: int) -> float:
    """Return the line width for a part: thinner where the part is small in the picture."""
    points = points[~np.isnan(points[:, 0])]
    extent = float(np.ptp(points, axis=0).max()) if len(points) else 0.0
    share, detail = 0.75, 24
    if part.name == "face":
        share, detail = 1 / 3, 90
    elif part.name in palette.BODY_PARTS:
        share, detail = 1, 60
    return min(share * long_side / 220, extent / detail)


def _line(canvas: Frame, ends: FloatArray, colour: palette.Colour, width: float) -> None:
    start, end = ends
    along = end - start
    # cv2.line knows whole widths only; a filled polygon has any, plus half a pixel of blur.
    across = np.array([-along[1], along[0]]) / max(np.hypot(*along), 1e-3) * (width - 1) / 2
    _fill(canvas, np.array([start + across, end + across, end - across, start - across]), colour)


def _dot(canvas: Frame, place: FloatArray, colour: palette.Colour, radius: float) -> None:
    # cv2.circle makes diamonds of small circles.
    _fill(canvas, place + max(radius - 0.5, 0.25) * _CIRCLE, colour)


def _fill(canvas: Frame, corners: npt.NDArray[Any], colour: palette.Colour) -> None:
    fixed = np.rint(corners * (1 << _SHIFT)).astype(np.int32)
    cv2.fillConvexPoly(canvas, fixed, colour, cv2.LINE_AA, _SHIFT)


def _blend(layer: Frame, canvas: Frame, opacity: float) -> None:
    cv2.addWeighted(layer, opacity, canvas, 1 - opacity, 0, dst=canvas)


def pose_maps(clip: PoseClip, rows: Sequence[int]) -> Iterator[tuple[int, Frame]]:
    """Yield each row with its map, `(height, width, 3)` RGB of the size of its picture.

    All people are drawn, the one that stands for the frame last. Points outside of the picture are
    left out. Where nobody was found the map is black.
    """
    try:
        clip = clip.as_skeleton(SKELETON)
    except ValueError as error:
        raise ConfigError("{--style:openpose}: {error}", error=error) from error
    if clip.normalized != "none":
        raise ConfigError(
            "{--style:openpose}: clip {clip_id!r} was normalised by {normalized!r}, so it has no "
            "place in a picture; take the run it was made of",
            clip_id=clip.clip_id,
            normalized=clip.normalized,
        )
    others = clip.others
    for row in rows:
        width, height = clip.sizes_wh[row].tolist()
        if width <= 0 or height <= 0:
            raise ConfigError(
                "{--style:openpose}: clip {clip_id!r} does not say how large its pictures are; "
                "give it by {--size:WIDTHxHEIGHT}",
                clip_id=clip.clip_id,
            )
        canvas = np.zeros((height, width, 3), np.uint8)
        if others is not None:
            for points in others.points[others.starts[row] : others.starts[row + 1]][::-1]:
                _paint_map(canvas, points)
        _paint_map(canvas, clip.points[row])
        yield row, canvas


def _paint_map(canvas: Frame, points: FloatArray) -> None:
    """Draw a person; `points` are `(18, 3)` as shares of the picture, NaN where not found."""
    with np.errstate(invalid="ignore"):
        is_inside = np.asarray(((points[:, :2] >= 0) & (points[:, :2] <= 1)).all(axis=1))
    pixels = points[:, :2].astype(np.float64) * canvas.shape[1::-1]
    for (start, stop), colour in zip(OPENPOSE_BONES, palette.OPENPOSE_COLOURS, strict=False):
        if is_inside[start] and is_inside[stop]:
            x, y = ((pixels[start] + pixels[stop]) / 2).tolist()
            across, down = (pixels[start] - pixels[stop]).tolist()
            axes = int(math.hypot(across, down) / 2), _HALF_WIDTH
            angle = int(math.degrees(math.atan2(down, across)))
            corners = np.asarray(cv2.ellipse2Poly((int(x), int(y)), axes, angle, 0, 360, 1))
            cv2.fillConvexPoly(canvas, corners, [int(_WEIGHT * channel) for channel in colour])
    for index in np.flatnonzero(is_inside):
        x, y = pixels[index].tolist()
        cv2.circle(canvas, (int(x), int(y)), _RADIUS, palette.OPENPOSE_COLOURS[index], thickness=-1)
