"""What engines of several people share: one box for each, people in order, and their ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import cv2
import numpy as np
import numpy.typing as npt

from posemill.errors import ConfigError
from posemill.estimators import ClipState, EngineInfo, checked_frames
from posemill.records import (
    FloatArray,
    Frame,
    IntArray,
    Keypoints,
    OtherPeople,
    PersonIds,
    nothing_in_metres,
)
from posemill.tracker import Tracker, points_for_tracker

_LENGTH_BYTES = 8


class PictureEngine(ABC):
    """What engines of several people have in common that look at each picture alone.

    Args:
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Threads inside one network call. OpenCV's are set to the same number.
        options: The engine's own, see `info.options`.
    """

    name: ClassVar[str]
    info: EngineInfo

    def __init__(self, *, device: str = "cpu", threads: int = 1, **options: Any) -> None:
        self.info.check_device(self.name, device)
        self.options = self.info.all_options(self.name, options)
        self.device, self.threads = device, threads
        cv2.setNumThreads(threads)

    @abstractmethod
    def _find(self, frames: list[Frame]) -> Keypoints:
        """Return the people of frames that were checked."""

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the people of every frame: the largest, and the others by their size."""
        return self._find(checked_frames(frames))

    def new_state(self) -> ClipState:
        """There is no video mode."""
        raise ConfigError("engine {name!r} has no video mode", name=self.name)

    def load_state(self, data: bytes) -> ClipState:
        """There is no video mode."""
        return self.new_state()


def drop_doubles(
    boxes: npt.NDArray[np.floating],
    scores: npt.NDArray[np.floating],
    *,
    most_overlap: float,
    rim: float = 0.0,
) -> IntArray:
    """Return which boxes to keep, the best first: none overlaps a better one by more.

    Args:
        boxes: `(boxes, 4)`: left, top, right, bottom.
        scores: `(boxes,)`. Of equal ones the last is the best.
        most_overlap: Intersection over union that two people may have.
        rim: Added to widths and heights: 1 where edges are counted as pixels of the box.
    """
    left, top, right, bottom = boxes.T
    areas = (right - left + rim) * (bottom - top + rim)
    order = np.argsort(scores, kind="stable")[::-1]
    kept: list[int] = []
    while len(order):
        best, order = order[0], order[1:]
        kept.append(int(best))
        across = np.minimum(right[best], right[order]) - np.maximum(left[best], left[order]) + rim
        down = np.minimum(bottom[best], bottom[order]) - np.maximum(top[best], top[order]) + rim
        shared = np.maximum(across, 0) * np.maximum(down, 0)
        order = order[shared <= most_overlap * (areas[best] + areas[order] - shared)]
    return np.array(kept, np.int64)


def gather_people(
    frames: Sequence[Frame],
    found: Sequence[tuple[FloatArray, FloatArray]],
    num_points: int,
    *,
    worlds: Sequence[FloatArray] | None = None,
) -> Keypoints:
    """Return the people of every frame: the one with the largest box, and the others by size.

    Args:
        frames: The pictures.
        found: For each, points `(people, points, 2 or 3)`: x and y as shares of the picture, and z
            in the scale of x where it is known, NaN where not found; and scores `(people, points)`,
            0 where not found.
        num_points: Of a person.
        worlds: For each frame, landmarks of its people in metres `(people, 75, 3)`; None where
            they are not kept.
    """
    points = np.full((len(frames), num_points, 3), np.nan, np.float32)
    scores = np.zeros((len(frames), num_points), np.float32)
    rest_points = [np.zeros((0, num_points, 3), np.float32)]
    rest_scores = [np.zeros((0, num_points), np.float32)]
    world = None if worlds is None else nothing_in_metres(len(frames))
    rest_worlds = [nothing_in_metres(0)]
    counts = np.zeros(len(frames), np.int64)
    sizes_wh = np.array([frame.shape[1::-1] for frame in frames], np.int32).reshape(-1, 2)
    for row, (places, sure) in enumerate(found):
        if not len(places):
            continue
        flat, dimensions = places[..., :2], places.shape[-1]
        low, high = np.nanmin(flat, axis=1), np.nanmax(flat, axis=1)
        # In pixels: sizes as shares of the picture order alike, but for the rounding.
        order = np.argsort(-((high - low) * sizes_wh[row]).prod(axis=1), kind="stable")
        people = np.full((*sure.shape, 3), np.nan, np.float32)
        people[..., :dimensions] = places
        if dimensions == 2:
            people[sure > 0, 2] = 0
        people, sure = people[order], sure[order]
        points[row], scores[row] = people[0], sure[0]
        rest_points.append(people[1:])
        rest_scores.append(sure[1:])
        if worlds is not None and world is not None:
            first, *rest = order
            world[row] = worlds[row][first]
            rest_worlds.append(worlds[row][rest])
        counts[row] = len(people) - 1
    others = OtherPeople(
        counts,
        np.concatenate(rest_points),
        np.concatenate(rest_scores),
        None if worlds is None else np.concatenate(rest_worlds),
    )
    return Keypoints(points, scores, sizes_wh, others, world)


@dataclass
class TrackedState:
    """What is remembered of a clip with several people: the engine's state, and who is who."""

    engine: ClipState
    tracker: Tracker = field(default_factory=Tracker)

    def copy(self) -> TrackedState:
        """Return a state that later frames of this one do not change."""
        return TrackedState(self.engine.copy(), self.tracker.copy())

    def to_bytes(self) -> bytes:
        """Return both as bytes; `split_bytes` takes them apart."""
        tracker = self.tracker.to_bytes()
        return len(tracker).to_bytes(_LENGTH_BYTES, "little") + tracker + self.engine.to_bytes()

    @staticmethod
    def split_bytes(data: bytes) -> tuple[bytes, Tracker]:
        """Return the bytes of the engine's state, and the tracker."""
        end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
        return data[end:], Tracker.from_bytes(data[_LENGTH_BYTES:end])


def with_ids(keypoints: Keypoints, trackers: Sequence[Tracker], skeleton_name: str) -> Keypoints:
    """Return the people of the next frame of each clip with their ids; trackers go on."""
    others = keypoints.others
    assert others is not None
    ids = PersonIds(np.zeros(len(keypoints), np.int64), np.zeros(len(others.points), np.int64))
    for row, tracker in enumerate(trackers):
        rows = slice(others.starts[row], others.starts[row + 1])
        points = np.concatenate([keypoints.points[row : row + 1], others.points[rows]])
        if np.isnan(points[0, :, 0]).all():  # nobody
            points = points[:0]
        pixels = points[..., :2] * keypoints.sizes_wh[row].astype(np.float64)
        first, *rest = tracker.assign(points_for_tracker(pixels, skeleton_name)) or [0]
        ids.first[row], ids.others[rows] = first, rest
    return replace(keypoints, others=replace(others, ids=ids))
