"""Who is who along a clip: the same number for the same person in every frame.

A person of a new frame is somebody whose pose and box are similar to where that person was last,
or to where they would be if they had moved on. Who is away for more than `MAX_MISSING` frames is
somebody new.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from posemill.skeletons import get_skeleton

if TYPE_CHECKING:
    from posemill.records import PoseClip

Pixels = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]
MAX_MISSING = 25
_SPREAD = 0.14  # of the distance of two points that are the same one, in sizes of the person
_MIN_SIMILARITY = 0.15  # of a person and of where that person was last
_MAX_POINTS = 50  # that are compared
_MAX_STEPS = 10  # frames that somebody who is not seen goes on in the same direction
_STAYS = 0.7  # what the place counts where somebody was last, beside where they would be now
_NEW_SHARE = 0.4  # of the last step in the speed of a person
# Of boxes of neighbouring frames, half of which at least overlap so much: frames of a video.
_IS_VIDEO = 0.5


def pose_similarity(one: Pixels, other: Pixels) -> Pixels:
    """Return `(a, b)`: how similar poses `(a, points, 2)` and `(b, points, 2)` are, 0 to 1.

    The mean over the points that both have of a bell curve of their distance, as wide as people
    are large; 0 where they have no point in common.
    """
    return _pose_similarity(one, boxes_of(one), other, boxes_of(other))


def _pose_similarity(one: Pixels, one_boxes: Pixels, other: Pixels, other_boxes: Pixels) -> Pixels:
    squares = ((one[:, None] - other[None]) ** 2).sum(axis=3)  # (a, b, points)
    sizes = _areas(one_boxes)[:, None] + _areas(other_boxes)[None]
    near = np.exp(-squares / (_SPREAD**2 * np.maximum(sizes, 1e-12))[..., None])
    is_common = ~np.isnan(near)
    totals = np.where(is_common, near, 0).sum(axis=2)
    means: Pixels = totals / np.maximum(is_common.sum(axis=2), 1)
    return means


def box_overlap(one: Pixels, other: Pixels) -> Pixels:
    """Return `(a, b)`: intersection over union of boxes `(a, 4)` and `(b, 4)`."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=2)
    union = _areas(one)[:, None] + _areas(other)[None] - shared
    overlap: Pixels = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return overlap


def boxes_of(points: Pixels) -> Pixels:
    """Return left, top, right, bottom `(people, 4)` of `(people, points, 2)`; all have a point."""
    return np.concatenate([np.nanmin(points, axis=1), np.nanmax(points, axis=1)], axis=1)


def _areas(boxes: Pixels) -> Pixels:
    areas: Pixels = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return areas


def points_for_tracker(pixels: Pixels, skeleton_name: str) -> Pixels:
    """Return the points of `(people, keypoints, 2)` by which people are told apart.

    Those of the body, or of the first part of a skeleton without one, not too many of them; of
    somebody who has none of these, the middle of the others.
    """
    parts = get_skeleton(skeleton_name).parts
    part = next((part for part in parts if part.name in ("pose", "body")), parts[0])
    step = -(-len(part) // _MAX_POINTS)
    chosen: Pixels = pixels[:, part.start : part.stop : step].copy()
    has_none = np.isnan(chosen[..., 0]).all(axis=1)
    if has_none.any():
        chosen[has_none] = np.nanmean(pixels[has_none], axis=1, keepdims=True)
    return chosen


@dataclass
class _Track:
    """A person: the points when last seen, the speed in pixels a frame, and when that was."""

    person_id: int
    points: Pixels
    speed: Pixels
    frame: int


@dataclass
class Tracker:
    """Gives the people of one frame after the other their ids, from 1 on."""

    num_frames: int = 0
    next_id: int = 1
    tracks: list[_Track] = field(default_factory=list)

    def assign(self, points: Pixels) -> list[int]:
        """Return the ids of the people of the next frame.

        Args:
            points: `(people, points, 2)` in pixels, NaN where not found; everybody has a point.
        """
        self.num_frames += 1
        self.tracks = [
            track for track in self.tracks if self.num_frames - track.frame <= MAX_MISSING + 1
        ]
        track_of = self._match(points)
        ids = []
        for row, track in enumerate(track_of):
            if track is None:
                track = _Track(self.next_id, points[row], np.zeros(2), self.num_frames)
                self.tracks.append(track)
                self.next_id += 1
            else:
                step = np.nanmean(points[row], axis=0) - np.nanmean(track.points, axis=0)
                step = step / (self.num_frames - track.frame)
                track.speed = _NEW_SHARE * step + (1 - _NEW_SHARE) * track.speed
                track.points, track.frame = points[row], self.num_frames
            ids.append(track.person_id)
        return ids

    def _match(self, points: Pixels) -> list[_Track | None]:
        """Return who each person is, None for somebody new: the most similar pairs first."""
        track_of: list[_Track | None] = [None] * len(points)
        if not self.tracks or not len(points):
            return track_of
        where = np.stack([track.points for track in self.tracks])
        steps = np.array([min(self.num_frames - track.frame, _MAX_STEPS) for track in self.tracks])
        shifts = np.stack([track.speed for track in self.tracks]) * steps[:, None]
        boxes, new_boxes = boxes_of(where), boxes_of(points)
        stayed = _similarity(where, boxes, points, new_boxes)
        moved_boxes = boxes + np.tile(shifts, 2)
        moved = _similarity(where + shifts[:, None], moved_boxes, points, new_boxes)
        similarity = np.maximum(_STAYS * stayed, moved)
        while (best := float(similarity.max())) >= _MIN_SIMILARITY:
            number, row = np.argwhere(similarity == best)[0].tolist()
            track_of[row] = self.tracks[number]
            similarity[number], similarity[:, row] = -1, -1
        return track_of

    def copy(self) -> Tracker:
        """Return a tracker that later frames of this one do not change."""
        tracks = [_Track(t.person_id, t.points, t.speed, t.frame) for t in self.tracks]
        return Tracker(self.num_frames, self.next_id, tracks)

    def to_bytes(self) -> bytes:
        """Return the state as JSON; `from_bytes` gives the same to the bit."""
        tracks = [
            [track.person_id, track.frame, track.speed.tolist(), track.points.tolist()]
            for track in self.tracks
        ]
        state = {"num_frames": self.num_frames, "next_id": self.next_id, "tracks": tracks}
        return json.dumps(state).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Tracker:
        """Return the tracker that `to_bytes` wrote."""
        state = json.loads(data)
        tracks = [
            _Track(person_id, np.array(points), np.array(speed), frame)
            for person_id, frame, speed, points in state["tracks"]
        ]
        return cls(state["num_frames"], state["next_id"], tracks)


def _similarity(one: Pixels, one_boxes: Pixels, other: Pixels, other_boxes: Pixels) -> Pixels:
    """Return `(a, b)`: how similar people are in pose and place, 0 to 1."""
    poses = _pose_similarity(one, one_boxes, other, other_boxes)
    return (poses + box_overlap(one_boxes, other_boxes)) / 2


def track_clip(clip: PoseClip) -> tuple[IntArray, IntArray]:
    """Return the ids of the people of a clip: `(frames,)` of the first ones, `(people,)` of others.

    0 where there is nobody, and for all people of pictures that stand alone.
    """
    people = _Everyone.of(clip)
    ids = np.zeros(people.num_rows, np.int64)
    if people.is_video():
        tracker = Tracker()
        for rows in people.rows_of_frames():
            ids[people.rows[rows]] = tracker.assign(people.points[rows])
    return ids[: len(clip)], ids[len(clip) :]


def slots_of(clip: PoseClip) -> IntArray:
    """Return a place from 0 on for everybody of a clip, in the order of `PoseClip.everybody`.

    The same person has the same place in every frame, two people of a frame have two. A place is
    free again after the last frame of who had it: there are as few as can be. Without ids the
    first of a frame has place 0, the others those behind it. -1 where there is nobody.
    """
    people = clip.everybody()
    frames, ids = people.frames, people.ids
    if not ids.any():
        return np.arange(len(frames)) - np.searchsorted(frames, frames)
    last_frame = np.zeros(ids.max() + 1, np.int64)
    np.maximum.at(last_frame, ids, frames)
    slots = np.full(len(ids), -1, np.int64)
    slot_of: dict[int, int] = {}
    free_after: list[int] = []  # the last frame of who has each place
    for row in np.lexsort((ids, frames)).tolist():
        person_id, frame = int(ids[row]), int(frames[row])
        if not person_id:
            continue
        if person_id not in slot_of:
            free = [slot for slot, last in enumerate(free_after) if last < frame]
            slot_of[person_id] = free[0] if free else len(free_after)
            if not free:
                free_after.append(0)
            free_after[slot_of[person_id]] = int(last_frame[person_id])
        slots[row] = slot_of[person_id]
    return slots


@dataclass(frozen=True, eq=False)
class _Everyone:
    """All people of a clip who have a point, frame by frame.

    Args:
        points: `(people, points to compare, 2)` in pixels.
        boxes: `(people, 4)` around all of their points, in pixels.
        frames: `(people,)`: the frame each is in, ascending.
        rows: `(people,)`: where each is in the points of the clip and behind them of the others.
        num_frames: Of the clip.
        num_rows: Of the clip and the others together.
    """

    points: Pixels
    boxes: Pixels
    frames: IntArray
    rows: IntArray
    num_frames: int
    num_rows: int

    @classmethod
    def of(cls, clip: PoseClip) -> _Everyone:
        """Return the people of a clip."""
        frames, points = np.arange(len(clip)), clip.points
        if clip.others is not None:
            frames = np.concatenate([frames, np.repeat(frames, clip.others.counts)])
            points = np.concatenate([points, clip.others.points])
        order = np.argsort(frames, kind="stable")
        rows = order[~np.isnan(points[order, :, 0]).all(axis=1)]
        # Shares of the picture where its size is not known.
        sizes = np.where((clip.sizes_wh > 0).all(axis=1, keepdims=True), clip.sizes_wh, 1)
        pixels = points[rows, :, :2] * sizes[frames[rows], None].astype(np.float64)
        boxes = boxes_of(pixels)
        compared = points_for_tracker(pixels, clip.skeleton_name)
        return cls(compared, boxes, frames[rows], rows, len(clip), len(points))

    def rows_of_frames(self) -> Iterator[IntArray]:
        """Yield which people are in each frame."""
        starts = np.searchsorted(self.frames, np.arange(self.num_frames + 1))
        for start, stop in pairwise(starts):
            yield np.arange(start, stop)

    def is_video(self) -> bool:
        """Return whether the largest of a frame is mostly where somebody is in the next one."""
        overlaps = []
        for rows, next_rows in pairwise(self.rows_of_frames()):
            if len(rows) and len(next_rows):
                largest = rows[np.argmax(_areas(self.boxes[rows]))]
                near = box_overlap(self.boxes[[largest]], self.boxes[next_rows])
                overlaps.append(float(near.max()))
        return bool(overlaps) and float(np.median(overlaps)) >= _IS_VIDEO
