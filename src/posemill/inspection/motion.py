"""What changes from frame to frame: jumps, hands and sides that swap, frames that stand still.

All distances are in body scales: the width of the shoulders, so a person far away and one close to
the camera are judged alike. Pure functions; a long clip is taken in blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from posemill.records import BoolArray, FloatArray, PoseClip
from posemill.skeletons import get_skeleton
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


@dataclass(frozen=True)
class Motion:
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
    num_frames, num_parts = len(clip), len(clip.skeleton.parts)
    motion = Motion(
        np.full((num_frames, num_parts), np.nan, np.float32),
        np.zeros((num_frames, num_parts), bool),
        np.zeros(num_frames, bool),
        np.zeros(num_frames, bool),
    )
    scale = body_scale(clip)
    step = usual_step(clip)
    # Of 30 frames a second 12.5 are two or three apart; where one is lost it is twice a step.
    apart = np.diff(clip.frame_indices, prepend=clip.frame_indices[:1])
    follows = np.abs(apart - step) < step
    for start in range(0, num_frames, BLOCK_FRAMES):
        # One frame of overlap: the block's first frame has a predecessor too.
        rows = slice(max(0, start - 1), min(num_frames, start + BLOCK_FRAMES))
        kept = slice(1 if start else 0, None)
        into = slice(start, rows.stop)
        block = _Block(clip, rows, scale)
        motion.moved[into] = np.where(follows[into, None], block.moved()[kept], np.nan)
        motion.frozen[into] = block.frozen()[kept] & follows[into, None]
        motion.swapped[into] = (block.sides_crossed()[kept] & follows[into]) | (
            block.hand_at_other_wrist()[kept]
        )
        motion.doubled[into] = block.doubled()[kept]
    return motion


def find_jumps(moved: FloatArray, fps: float | None) -> BoolArray:
    """Return `(frames, parts)`: where a part moved too far to have moved.

    Farther than the floor, and far outside of the part's own usual motion (median plus five times
    the scaled median deviation): a fast signer is not a broken clip. Of several in a row, as a
    glitch for one frame makes, only the first counts.

    Args:
        moved: `(frames, parts)` as in `Motion`.
        fps: Frames per second; 25 where unknown.
    """
    jumps = np.zeros(moved.shape, bool)
    if not len(moved):
        return jumps
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
    names = clip.skeleton.point_names
    if "left_shoulder" in names:
        pair = [names.index("left_shoulder"), names.index("right_shoulder")]
        widths = np.hypot(*(places[:, pair[0]] - places[:, pair[1]]).T)
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


@cache
def _sampled_points(skeleton_name: str) -> tuple[tuple[int, ...], ...]:
    """Return per part the points whose motion is looked at."""
    return tuple(
        tuple(range(part.start, part.stop, -(-len(part) // _MAX_POINTS)))
        for part in get_skeleton(skeleton_name).parts
    )


@cache
def _body_pairs(skeleton_name: str) -> tuple[tuple[int, int], ...]:
    """Return the left and the right point of every pair of joints the body has."""
    names = get_skeleton(skeleton_name).point_names
    return tuple(
        (names.index(f"left_{joint}"), names.index(f"right_{joint}"))
        for joint in _PAIRS
        if f"left_{joint}" in names
    )


class _Block:
    """Some frames of a clip, in body scales, unsure body points taken out."""

    def __init__(self, clip: PoseClip, rows: slice, scale: float) -> None:
        self.clip, self.rows = clip, rows
        self.skeleton = clip.skeleton
        self.places = _places(clip, rows) / np.float32(scale)
        unsure = clip.scores[rows] < SURE_SCORE
        for part in self.skeleton.parts:
            if part.name in BODY_PARTS:
                within = slice(part.start, part.stop)
                self.places[:, within][unsure[:, within]] = np.nan

    def moved(self) -> FloatArray:
        """Return `(frames, parts)`: the way four fifths of the part's points stay below."""
        result = np.full((len(self.places), len(self.skeleton.parts)), np.nan, np.float32)
        for number, indices in enumerate(_sampled_points(self.clip.skeleton_name)):
            steps = np.diff(self.places[:, list(indices)], axis=0)
            ways = np.hypot(steps[..., 0], steps[..., 1])
            found = np.isfinite(ways).sum(1)
            ordered = np.sort(ways, axis=1)  # NaN last
            pick = (0.8 * found).astype(int)
            result[1:, number] = np.take_along_axis(ordered, pick[:, None], 1)[:, 0]
        return result

    def frozen(self) -> BoolArray:
        """Return `(frames, parts)`: found, and not one number differs from the frame before."""
        result = np.zeros((len(self.places), len(self.skeleton.parts)), bool)
        points = self.clip.points[self.rows]
        for number, part in enumerate(self.skeleton.parts):
            block = points[:, part.start : part.stop]
            there = ~np.isnan(block)
            same = (block[1:] == block[:-1]) | (~there[1:] & ~there[:-1])
            result[1:, number] = same.all((1, 2)) & there[1:].any((1, 2))
        return result

    def sides_crossed(self) -> BoolArray:
        """Return `(frames,)`: each side is near where the other side was, and far from itself."""
        crossed = np.zeros(len(self.places), bool)
        if (hands := self._hands()) is not None:
            crossed |= _crossed(hands)
        if pairs := _body_pairs(self.clip.skeleton_name):
            crossed |= _crossed(self.places[:, np.array(pairs)])
        return crossed

    def hand_at_other_wrist(self) -> BoolArray:
        """Return `(frames,)`: a hand begins at the body's other wrist, not at its own."""
        result = np.zeros(len(self.places), bool)
        names = self.skeleton.point_names
        if "left_hand" not in self.skeleton.part_names or "left_wrist" not in names:
            return result
        wrists = self.places[:, [names.index("left_wrist"), names.index("right_wrist")]]
        with np.errstate(invalid="ignore"):
            apart = _distance(wrists[:, 0], wrists[:, 1]) > 0.4
            for side, name in enumerate(("left_hand", "right_hand")):
                start = self.places[:, self.skeleton.part(name).start]
                own = _distance(start, wrists[:, side])
                other = _distance(start, wrists[:, 1 - side])
                result |= apart & (own > 0.3) & (other < 0.5 * own)
        return result

    def doubled(self) -> BoolArray:
        """Return `(frames,)`: the points of both hands lie on one another."""
        if "left_hand" not in self.skeleton.part_names:
            return np.zeros(len(self.places), bool)
        left, right = (
            self.places[:, self.skeleton.part(name).start : self.skeleton.part(name).stop]
            for name in ("left_hand", "right_hand")
        )
        apart = np.hypot(*np.moveaxis(left - right, -1, 0)).mean(1)
        extent = np.ptp(left, axis=1).max(1)
        with np.errstate(invalid="ignore"):
            return np.asarray(apart < 0.2 * extent)

    def _hands(self) -> FloatArray | None:
        """Return `(frames, 1, 2, 2)`: the middles of the left and the right hand."""
        if "left_hand" not in self.skeleton.part_names:
            return None
        parts = [self.skeleton.part(name) for name in ("left_hand", "right_hand")]
        middles = [self.places[:, part.start : part.stop].mean(1) for part in parts]
        return np.stack(middles, 1)[:, None]


def _distance(one: FloatArray, other: FloatArray) -> FloatArray:
    return np.asarray(np.hypot(*(one - other).T), np.float32)


def _crossed(pairs: FloatArray) -> BoolArray:
    """Return `(frames,)`: over all pairs found in both frames, crossing explains the motion better.

    Args:
        pairs: `(frames, pairs, 2 sides, 2)` in body scales.
    """
    result = np.zeros(len(pairs), bool)
    before, now = pairs[:-1], pairs[1:]
    stay = np.hypot(*np.moveaxis(now - before, -1, 0)).sum(-1)  # (frames - 1, pairs)
    cross = np.hypot(*np.moveaxis(now - before[:, :, ::-1], -1, 0)).sum(-1)
    known = np.isfinite(stay)
    stays, crosses = (np.where(known, each, 0).sum(1) for each in (stay, cross))
    # Far enough that both sides cannot have moved there, about half of the way between them.
    result[1:] = (stays > 0.8 * known.sum(1)) & (crosses < 0.5 * stays)
    return result
