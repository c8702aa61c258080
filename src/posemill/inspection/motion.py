"""What changes from frame to frame: jumps, hands and sides that swap, frames that stand still.

All distances are in body scales: the width of the shoulders, so a person far away and one close to
the camera are judged alike. Pure functions; a long clip is taken in blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posemill.geometry import shoulders_of
from posemill.records import BoolArray, FloatArray, PoseClip
from posemill.skeletons.palette import BODY_PARTS

BLOCK_FRAMES = 1024
SURE_SCORE = 0.5  # body points below it (legs under the picture's edge) say nothing about motion
_MAX_POINTS = 40  # per part: a fair sample of 468 face points moves like all of them
# A whole part that moves farther in a 25th of a second than this share of the shoulder width was
# lost and found elsewhere: for a hand it is about 5 m/s.
JUMP_FLOOR = 0.5
JUMP_MADS = 5.0
_FRAMES_PER_SECOND = 25.0
_FARTHEST = 1e4  # in pictures; beyond it a number is damage, not a place
_PAIRS = ("shoulder", "elbow", "wrist", "hip")


class Motion(NamedTuple):
    """Per frame, compared with the one before (the first frame has no motion).

    Args:
        moved: `(frames, parts)`: how far the part moved, in body scales; NaN where it was missing
            in either frame.
        frozen: `(frames, parts)`: the part was found and has exactly the same points.
        swapped: `(frames,)`: left and right look exchanged, against the frame before or, for a
            hand, against the wrists of the body.
        doubled: `(frames,)`: both hands were found on the same spot.
    """

    moved: FloatArray
    frozen: BoolArray
    swapped: BoolArray
    doubled: BoolArray


def measure_motion(clip: PoseClip) -> Motion:
    """Return the motion in a clip; frames that do not follow on one another have none."""
    scale, step = body_scale(clip), usual_step(clip)
    # Of 30 frames a second 12.5 are two or three apart; where one is lost it is twice a step.
    follows = np.abs(np.diff(clip.frame_indices, prepend=clip.frame_indices[:1]) - step) < step
    blocks = []
    for start in range(0, max(1, len(clip)), BLOCK_FRAMES):
        # One frame of overlap: the block's first frame has a predecessor too.
        rows = slice(max(0, start - 1), start + BLOCK_FRAMES)
        block = _motion_of(clip, rows, scale, follows[rows])
        blocks.append([values[start - rows.start :] for values in block])
    return Motion(*(np.concatenate(values) for values in zip(*blocks, strict=True)))


def find_jumps(moved: FloatArray, fps: float | None) -> BoolArray:
    """Return `(frames, parts)`: where a part moved too far to have moved.

    Farther than the floor, and far outside of the part's own usual motion (median plus five times
    the scaled median deviation): a fast signer is not a broken clip. Of several in a row, as a
    glitch for one frame makes, only the first counts. An unknown `fps` is taken as 25.
    """
    jumps = np.zeros(moved.shape, bool)
    floor = JUMP_FLOOR * _FRAMES_PER_SECOND / (fps if fps and fps > 0 else _FRAMES_PER_SECOND)
    for part in range(moved.shape[1]):
        values = moved[:, part]
        known = values[np.isfinite(values)]
        if not len(known):
            continue
        median = float(np.median(known))
        spread = 1.4826 * float(np.median(np.abs(known - median)))
        with np.errstate(invalid="ignore"):
            far = values > max(floor, median + JUMP_MADS * spread)
        jumps[:, part] = far & ~np.concatenate([[False], far[:-1]])
    return jumps


def usual_step(clip: PoseClip) -> int:
    """Return how many frames of the source lie between two rows: 2 where every other was taken."""
    return max(1, int(np.median(np.diff(clip.frame_indices)))) if len(clip) > 1 else 1


def body_scale(clip: PoseClip) -> float:
    """Return the width of the shoulders in pixels (shares of the picture where sizes are unknown).

    The upper quartile over the clip: someone who turns sideways does not shrink. Without shoulders
    twice the size of a hand or of the face, else 1/4 of the picture.
    """
    step = max(1, len(clip) // 512)
    places = _places(clip, slice(None, None, step))
    if "left_shoulder" in clip.skeleton.point_names:
        left, right = shoulders_of(clip.skeleton)
        widths = _lengths(places[:, left] - places[:, right])
        if (widths := widths[np.isfinite(widths) & (widths > 0)]).size:
            return float(np.percentile(widths, 75))
    for part in clip.skeleton.parts:
        block = places[:, part.start : part.stop]
        block = block[np.isfinite(block).all((1, 2))]
        if len(block) and (extent := float(np.median(np.ptp(block, axis=1).max(1)))) > 0:
            return 2 * extent
    return 0.25 * float(max(clip.sizes_wh.max(initial=1), 1))


def _places(clip: PoseClip, rows: slice) -> FloatArray:
    """Return `(frames, keypoints, 2)` in pixels, or in shares where the size is unknown."""
    sizes = np.maximum(clip.sizes_wh[rows], 1).astype(np.float32)
    points = clip.points[rows, :, :2]
    with np.errstate(invalid="ignore"):
        points = np.where(np.abs(points) < _FARTHEST, points, np.float32(np.nan))
    return np.asarray(points * sizes[:, None], np.float32)


def _motion_of(clip: PoseClip, rows: slice, scale: float, follows: BoolArray) -> Motion:
    """Return the motion in some frames, of which `follows` says if they follow the one before."""
    skeleton, points = clip.skeleton, clip.points[rows]
    places = _places(clip, rows) / np.float32(scale)
    for part in skeleton.parts:
        if part.name in BODY_PARTS:
            within = slice(part.start, part.stop)
            places[:, within][clip.scores[rows, within] < SURE_SCORE] = np.nan
    shape = len(places), len(skeleton.parts)
    moved, frozen = np.full(shape, np.nan, np.float32), np.zeros(shape, bool)
    for number, part in enumerate(skeleton.parts):
        sample = places[:, part.start : part.stop : -(-len(part) // _MAX_POINTS)]
        ways = _lengths(np.diff(sample, axis=0))
        # The way that four fifths of the points stay below; NaN are sorted last.
        pick = (0.8 * np.isfinite(ways).sum(1)).astype(int)
        moved[1:, number] = np.take_along_axis(np.sort(ways, axis=1), pick[:, None], 1)[:, 0]
        block = points[:, part.start : part.stop]
        is_found = ~np.isnan(block)
        is_same = (block[1:] == block[:-1]) | (~is_found[1:] & ~is_found[:-1])
        frozen[1:, number] = is_same.all((1, 2)) & is_found[1:].any((1, 2))
    crossed, at_other_wrist, doubled = (np.zeros(len(places), bool) for _ in range(3))
    names, sides = skeleton.point_names, ("left", "right")
    joints = [joint for joint in _PAIRS if f"left_{joint}" in names]
    if joints:
        pairs = [[names.index(f"{side}_{joint}") for side in sides] for joint in joints]
        crossed |= _crossed(places[:, np.array(pairs)])
    if "left_hand" in skeleton.part_names:
        parts = [skeleton.part(f"{side}_hand") for side in sides]
        hands = [places[:, part.start : part.stop] for part in parts]
        crossed |= _crossed(np.stack([hand.mean(1) for hand in hands], 1)[:, None])
        between = _lengths(hands[0] - hands[1]).mean(1)
        with np.errstate(invalid="ignore"):
            doubled = np.asarray(between < 0.2 * np.ptp(hands[0], axis=1).max(1))
        if "left_wrist" in names:
            at_other_wrist = _at_other_wrist(clip, places, [hand[:, 0] for hand in hands])
    moved[~follows] = np.nan
    return Motion(moved, frozen & follows[:, None], crossed & follows | at_other_wrist, doubled)


def _at_other_wrist(clip: PoseClip, places: FloatArray, starts: list[FloatArray]) -> BoolArray:
    """Return `(frames,)`: a hand begins at the body's other wrist, not at its own."""
    names = clip.skeleton.point_names
    wrists = [places[:, names.index(f"{side}_wrist")] for side in ("left", "right")]
    result = np.zeros(len(places), bool)
    with np.errstate(invalid="ignore"):
        are_apart = _lengths(wrists[0] - wrists[1]) > 0.4
        for side, start in enumerate(starts):
            to_its_own, to_the_other = (_lengths(start - wrists[i]) for i in (side, 1 - side))
            result |= are_apart & (to_its_own > 0.3) & (to_the_other < 0.5 * to_its_own)
    return result


def _lengths(vectors: FloatArray) -> FloatArray:
    return np.asarray(np.hypot(vectors[..., 0], vectors[..., 1]))


def _crossed(pairs: FloatArray) -> BoolArray:
    """Return `(frames,)`: over all pairs found in both frames, crossing explains the motion better.

    `pairs` are `(frames, pairs, 2 sides, 2)`.
    """
    result = np.zeros(len(pairs), bool)
    before, now = pairs[:-1], pairs[1:]
    stay = _lengths(now - before).sum(-1)  # (frames - 1, pairs)
    cross = _lengths(now - before[:, :, ::-1]).sum(-1)
    known = np.isfinite(stay)
    stays, crosses = (np.where(known, each, 0).sum(1) for each in (stay, cross))
    # Far enough that both sides cannot have moved there, about half of the way between them.
    result[1:] = (stays > 0.8 * known.sum(1)) & (crosses < 0.5 * stays)
    return result
