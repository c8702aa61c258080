"""One person out of clips that show several: the largest, followed along the clip."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from posemill.errors import ConfigError
from posemill.records import FloatArray, IntArray, PoseClip, join_world, nothing_in_metres

# Of boxes of neighbouring frames, half of which at least overlap so much: frames of a video.
_IS_VIDEO = 0.5
_IS_SAME = 0.1  # least overlap of a person with where they were last
_LOST_FRAMES = 25  # who is away for longer is somebody new


def parse_person(text: str | int) -> str | int:
    """Return `main`, `all` or the number of a person, from 1 on."""
    word = str(text).strip().lower()
    if word in ("main", "all"):
        return word
    if word.isascii() and word.isdecimal() and int(word) > 0:
        return int(word)
    raise ConfigError(
        "{--person}: expected main, all, or a number from 1 on, got {text!r}", text=text
    )


def choose_person(clip: PoseClip, person: str | int) -> PoseClip:
    """Return the clip of one person, or of all.

    In a video people are followed by the overlap of their boxes, and numbered by the area they
    have in all frames together: `main` is number 1. A frame in which the chosen one was not found
    has no points then. In pictures that stand alone people are numbered in each by their area.

    Args:
        clip: With `others`; any other is returned as it is.
        person: As `parse_person` gives it; with `all` the clip stays as it is.
    """
    others = clip.others
    if others is None or person == "all":
        return clip
    number = 1 if person == "main" else int(person)
    if not len(others.points) and number == 1:
        return dataclasses.replace(clip, others=None)
    everyone = _Everyone.of(clip)
    numbers = everyone.numbers_in_video() if everyone.is_video() else everyone.numbers_by_area()
    rows = np.nonzero(numbers == number)[0]
    points = np.full_like(clip.points, np.nan)
    scores = np.zeros_like(clip.scores)
    points[everyone.frames[rows]] = everyone.points[rows]
    scores[everyone.frames[rows]] = everyone.scores[rows]
    world = None
    if everyone.world is not None:
        world = nothing_in_metres(len(clip))
        world[everyone.frames[rows]] = everyone.world[rows]
    return dataclasses.replace(clip, points=points, scores=scores, others=None, world=world)


@dataclass(frozen=True, eq=False)
class _Everyone:
    """All people of a clip, frame by frame.

    Args:
        points: `(people, keypoints, 3)`.
        scores: `(people, keypoints)`.
        frames: `(people,)`: the row of the frame each is in.
        boxes: `(people, 4)`: left, top, right and bottom, as shares of the picture.
        areas: `(people,)`.
        num_frames: Of the clip.
        world: `(people, 75, 3)` in metres; None where they were not kept.
    """

    points: FloatArray
    scores: FloatArray
    frames: IntArray
    boxes: FloatArray
    areas: FloatArray
    num_frames: int
    world: FloatArray | None

    @classmethod
    def of(cls, clip: PoseClip) -> _Everyone:
        """Return the people of a clip."""
        others = clip.others
        assert others is not None
        frames = np.concatenate(
            [np.arange(len(clip)), np.repeat(np.arange(len(clip)), others.counts)]
        )
        points = np.concatenate([clip.points, others.points])
        scores = np.concatenate([clip.scores, others.scores])
        order = np.argsort(frames, kind="stable")
        there = order[~np.isnan(points[order, :, 0]).all(axis=1)]
        places = points[there, :, :2]
        boxes = np.concatenate([np.nanmin(places, axis=1), np.nanmax(places, axis=1)], axis=1)
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        world = join_world([clip, others])
        return cls(
            points[there],
            scores[there],
            frames[there],
            boxes,
            areas,
            len(clip),
            None if world is None else world[there],
        )

    @property
    def starts(self) -> IntArray:
        """`(frames + 1,)`: people of frame i are rows `starts[i]:starts[i + 1]`."""
        return np.searchsorted(self.frames, np.arange(self.num_frames + 1))

    def is_video(self) -> bool:
        """Return whether the largest of a frame is mostly where someone is in the next one."""
        starts, best = self.starts, []
        for start, middle, stop in zip(starts[:-2], starts[1:-1], starts[2:], strict=True):
            if start < middle < stop:
                largest = start + int(np.argmax(self.areas[start:middle]))
                best.append(
                    overlaps(self.boxes[largest : largest + 1], self.boxes[middle:stop]).max()
                )
        return bool(best) and float(np.median(best)) >= _IS_VIDEO

    def numbers_by_area(self) -> IntArray:
        """Return `(people,)`: 1 for the largest of each frame, 2 for the next and so on."""
        order = np.lexsort((-self.areas, self.frames))
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order)) - self.starts[self.frames[order]] + 1
        return numbers

    def numbers_in_video(self) -> IntArray:
        """Return `(people,)`: the number of each, the same in all frames they were followed in."""
        starts = self.starts
        track_of = np.full(len(self.frames), -1)
        last_row = np.zeros(0, np.int64)  # of each track
        for frame in np.unique(self.frames):
            rows = np.arange(starts[frame], starts[frame + 1])
            known = np.nonzero(frame - self.frames[last_row] <= _LOST_FRAMES)[0]
            overlap = overlaps(self.boxes[last_row[known]], self.boxes[rows])
            while overlap.size and overlap.max() >= _IS_SAME:
                track, row = np.unravel_index(int(overlap.argmax()), overlap.shape)
                track_of[rows[row]] = known[track]
                overlap[track], overlap[:, row] = 0, 0
            new = rows[track_of[rows] < 0]
            track_of[new] = len(last_row) + np.arange(len(new))
            last_row = np.append(last_row, new)
            last_row[track_of[rows]] = rows
        totals = np.bincount(track_of, weights=self.areas)
        numbers = np.empty(len(totals), np.int64)
        numbers[np.argsort(-totals, kind="stable")] = np.arange(len(totals)) + 1
        found: IntArray = numbers[track_of]
        return found


def overlaps(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return `(a, b)`: how much of the union of two boxes is in both, for `(a, 4)` and `(b, 4)`."""
    least = np.maximum(one[:, None, :2], other[None, :, :2])
    most = np.minimum(one[:, None, 2:], other[None, :, 2:])
    shared = np.clip(most - least, 0, None).prod(2)
    area_one, area_other = ((box[:, 2:] - box[:, :2]).prod(1) for box in (one, other))
    union = area_one[:, None] + area_other[None] - shared
    found: FloatArray = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return found
