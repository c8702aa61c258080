"""Finds the bodies in each frame of a batch: what Holistic and pose begin with."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from posemill.estimators import ClipState, EngineOption
from posemill.estimators.landmarks import body
from posemill.estimators.landmarks.body_state import BodyState, PeopleState
from posemill.estimators.landmarks.crop_network import (
    RUNTIME_OPTION,
    WORLD_OPTION,
    CropNetwork,
    LandmarkEngine,
    Part,
    confidence_options,
)
from posemill.estimators.landmarks.detection import Detection, Detector, project_detection
from posemill.estimators.landmarks.hand import around_wrist
from posemill.estimators.landmarks.rects import Rect, Region, Size, f32
from posemill.estimators.people import gather_people
from posemill.records import FloatArray, Frame, Keypoints, nothing_in_metres
from posemill.skeletons import WORLD_LAYOUT, get_skeleton
from posemill.tracker import MAX_MISSING, pose_similarity

_NUM_POINTS = 33
# By `model_complexity`.
_NETWORKS = ("pose_landmark_lite", "pose_landmark_full", "pose_landmark_heavy")
# Two regions show the same person where their centres are nearer than this share of a side; two
# bodies are the same person where their poses are more similar than this.
_SAME_PLACE, _SAME_POSE = 0.1, 0.4
_SEEN = 0.5  # least visibility of the points by which two bodies are compared
_MOST_TILES = 24  # of a picture, in which people are looked for
# A lost person may come back within this distance, in sides of the region.
_BACK_WITHIN = 0.5
BODY_OPTIONS = (
    RUNTIME_OPTION,
    *confidence_options(
        "Of the pose detector.", "Of the pose landmarks; below it nobody is there."
    ),
    EngineOption("smooth_landmarks", bool, True, "Filter the pose over time."),
    EngineOption(
        "model_complexity",
        int,
        1,
        "Of the body's network: 0 is the fastest, 2 the most exact.",
        least=0,
        most=2,
    ),
    WORLD_OPTION,
    EngineOption(
        "people", int, 1, "The most people to find; all: no limit.", least=1, words=("all",)
    ),
    EngineOption(
        "people_from",
        str,
        "detector",
        "What finds people: MediaPipe's pose detector, made for one person close by, or the "
        "engine movenet, which finds more people in a group and takes more time.",
        choices=("detector", "movenet"),
    ),
    EngineOption(
        "search_every",
        int,
        10,
        "Frames of a video between two searches for more people; while somebody is lost every "
        "frame is searched.",
        least=1,
    ),
)


@dataclass
class BodyFrame:
    """One person of one frame on the way through an engine.

    `state` is None in a frame that stands alone. `body` is None where nobody was found at `rect`;
    `parts` has those of hands and face that were found, for engines that look for them. `closer` is
    as in `Region`, for somebody new.
    """

    pixels: Frame
    state: BodyState | None
    rect: Rect
    closer: Rect | None = None
    body: body.PoseLandmarks | None = None
    parts: dict[str, Part] = field(default_factory=dict)
    size: Size = field(init=False)

    def __post_init__(self) -> None:
        self.size = f32(self.pixels.shape[1]), f32(self.pixels.shape[0])


@dataclass
class PeopleFrame:
    """One frame on its way through an engine, and the people in it; see `BodyFrame`."""

    pixels: Frame
    state: PeopleState | None
    people: list[BodyFrame] = field(default_factory=list)


class RegionFinder(Protocol):
    """Says where in pictures bodies may be."""

    def find(self, frames: Sequence[Frame]) -> Iterable[Iterable[Region]]:
        """Yield the regions of the bodies in each frame, the best first."""

    def identity(self) -> dict[str, str]:
        """Return what decides the result, beside the networks of the engine."""


class DetectedRegions:
    """Regions by MediaPipe's pose detector.

    Args:
        network: `pose_detection`.
        min_score: Detections below it do not count.
        looks_closer: Whether it looks at overlapping parts of a picture, too: in the whole of it
            people of a group are too small for the detector.
    """

    def __init__(self, network: CropNetwork, *, min_score: float, looks_closer: bool) -> None:
        self._network, self._looks_closer = network, looks_closer
        self._detector = Detector(body.DETECTOR_SIZE, body.DETECTOR_STRIDES, min_score=min_score)

    def find(self, frames: Sequence[Frame]) -> Iterator[Iterator[Region]]:
        """Yield the regions of the bodies in each frame: in the whole of it, then in its parts."""
        outputs = self._network.look([(frame, None) for frame in frames])
        for frame, (boxes, logits) in zip(frames, outputs, strict=True):
            yield self._find_in(frame, self._detector.find(boxes[0], logits.reshape(-1)))

    def _find_in(self, frame: Frame, in_whole: Iterator[Detection]) -> Iterator[Region]:
        size = f32(frame.shape[1]), f32(frame.shape[0])
        in_parts = self._find_in_parts(frame, size) if self._looks_closer else []
        for detection in in_whole:
            rect = body.rect_from_detection(detection, size)
            near = [part for part in in_parts if _distance(rect, part[1]) < _SAME_PLACE]
            yield Region(rect, max(near, key=itemgetter(0))[1] if near else None)
        for _, rect in in_parts:
            yield Region(rect)

    def _find_in_parts(self, frame: Frame, size: Size) -> list[tuple[np.float32, Rect]]:
        """Return the regions in squares of a picture with their scores, square by square."""
        tiles = _tiles_of(size)
        outputs = self._network.look([(frame, tile) for tile in tiles])
        scored = []
        for tile, (boxes, logits) in zip(tiles, outputs, strict=True):
            for detection in self._detector.find(boxes[0], logits.reshape(-1)):
                points = project_detection(detection, size, tile).points
                scored.append((detection.score, body.rect_around(points, size)))
        return scored

    def identity(self) -> dict[str, str]:
        """Return nothing: its network is one of the engine's."""
        return {}


def _tiles_of(size: Size) -> list[Rect]:
    """Return squares of the shorter side that cover a picture, each half over the next."""
    side = min(size)
    count = min(math.ceil(2 * max(size) / side) - 1, _MOST_TILES)
    if count == 1:
        return []
    width, height = side / size[0], side / size[1]
    x, y = (np.linspace(share / 2, 1 - share / 2, count) for share in (width, height))
    return [Rect(f32(x[i]), f32(y[i]), width, height, f32(0)) for i in range(count)]


class BodyEngine(LandmarkEngine[PeopleFrame]):
    """An engine that begins with bodies: where they are, and the network of their landmarks.

    Args:
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Threads inside one network call. OpenCV's are set to the same number.
        with_masks: Whether `find` gives masks of people, too: they take a third of the network's
            time. Not an option of runs.
        options: Its own, see `info.options`.
    """

    state_class: ClassVar[type[BodyState]] = BodyState

    def __init__(
        self, *, device: str = "cpu", threads: int = 1, with_masks: bool = False, **options: Any
    ) -> None:
        super().__init__(device=device, threads=threads, **options)
        people = self.options["people"]
        self._max_people = sys.maxsize if people == "all" else int(people)
        self._regions = self._open_regions()
        network = _NETWORKS[self.options["model_complexity"]]
        self._body_landmarks = self._open(f"{network}_with_mask" if with_masks else network)

    def _open_regions(self) -> RegionFinder:
        if self.options["people_from"] == "movenet":
            from posemill.estimators.movenet.regions import MoveNetRegions  # wants ONNX Runtime

            return MoveNetRegions(device=self.device, threads=self.threads)
        network = self._open("pose_detection", repeats_border=False)
        return DetectedRegions(
            network,
            min_score=self.options["min_detection_confidence"],
            looks_closer=self._max_people > 1,
        )

    def identity(self) -> dict[str, str]:
        """Return what decides the result: options, versions, hashes of the model files."""
        return {**super().identity(), **self._regions.identity()}

    def new_state(self) -> PeopleState:
        """Return the state before a clip's first frame."""
        return PeopleState([self.state_class(smooths=self.options["smooth_landmarks"])])

    def load_state(self, data: bytes) -> PeopleState:
        """Return the state that `to_bytes` of a state wrote."""
        return PeopleState.from_bytes(data, self.state_class)

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the landmarks of a batch of RGB frames of any sizes.

        Scores are the visibility of the body's points; those of a hand or a face are how sure the
        network is that there is one. Of several people the largest stands for the frame.
        """
        found = self.find(frames, cast("Sequence[PeopleState] | None", states))
        keeps_world = self.options["world"]
        if self._max_people > 1:
            num_points = get_skeleton(self.info.skeleton_names[0]).num_points
            worlds = [_world_of(people) for people in found] if keeps_world else None
            people = list(map(self._arrays_of, found))
            return gather_people(frames, people, num_points, worlds=worlds)
        alone = [people[0] if people else None for people in found]
        points, scores = self._arrays_of(alone)
        sizes_wh = np.array([frame.shape[1::-1] for frame in frames], np.int32).reshape(-1, 2)
        world = _world_of(alone) if keeps_world else None
        return Keypoints(points, scores, sizes_wh, world=world)

    def _arrays_of(self, people: Sequence[BodyFrame | None]) -> tuple[FloatArray, FloatArray]:
        """Return points `(people, keypoints, 3)` and scores; NaN and 0 where there is nobody."""
        skeleton = get_skeleton(self.info.skeleton_names[0])
        points = np.full((len(people), skeleton.num_points, 3), np.nan, np.float32)
        scores = np.zeros((len(people), skeleton.num_points), np.float32)
        for row, person in enumerate(people):
            if person is None or person.body is None:
                continue
            points[row, :_NUM_POINTS] = person.body.points
            scores[row, :_NUM_POINTS] = person.body.visibility
            for name, part in person.parts.items():
                place = skeleton.part(name)
                points[row, place.start : place.stop] = part.points
                scores[row, place.start : place.stop] = part.score
        return points, scores

    def find(
        self, frames: Sequence[Frame], states: Sequence[PeopleState] | None = None
    ) -> list[list[BodyFrame]]:
        """Return the people in each frame of a batch, in the engine's own terms.

        Args:
            frames: `(height, width, 3)` RGB uint8 each.
            states: One per frame, each of another clip, changed in place; None: frames stand alone.
        """
        return [frame.people for frame in self._look_at(frames, states)]

    def _begin(self, pixels: Frame, state: PeopleState | None) -> PeopleFrame:
        return PeopleFrame(pixels, state)

    def _find_in(self, batch: list[PeopleFrame]) -> None:
        for frame in batch:
            _expect_followed(frame)
        self._expect_new([frame for frame in batch if self._is_search_due(frame)])
        for people in self._groups_of(batch):
            self._read_bodies(people)
        for frame in batch:
            _drop_doubles(frame)
        for people in self._groups_of(batch, _in_view_of_others):
            self._look_closer(people)
        for frame in batch:
            _remember(frame, keeps_world=self.options["world"])
        for people in self._groups_of(batch):
            self._find_parts(people)

    def _groups_of(
        self,
        batch: list[PeopleFrame],
        choose: Callable[[PeopleFrame], list[BodyFrame]] = attrgetter("people"),
    ) -> Iterator[list[BodyFrame]]:
        """Yield the people of some frames, as many at once as frames: crops take memory."""
        people = [person for frame in batch for person in choose(frame)]
        for start in range(0, len(people), self._max_batch):
            yield people[start : start + self._max_batch]

    def _is_search_due(self, frame: PeopleFrame) -> bool:
        if len(frame.people) >= self._max_people:
            return False
        if frame.state is None or len(frame.people) < len(frame.state.people):
            return True
        is_turn: bool = frame.state.num_frames % self.options["search_every"] == 0
        return is_turn

    def _expect_new(self, frames: list[PeopleFrame]) -> None:
        """Add the people who are not followed yet, where they may be."""
        regions = self._regions.find([frame.pixels for frame in frames])
        for frame, found in zip(frames, regions, strict=True):
            for rect, closer in found:
                if not any(_distance(person.rect, rect) < _SAME_PLACE for person in frame.people):
                    state = self._state_at(frame, rect)
                    frame.people.append(BodyFrame(frame.pixels, state, rect, closer))
                if len(frame.people) == self._max_people:
                    break

    def _state_at(self, frame: PeopleFrame, rect: Rect) -> BodyState | None:
        """Return the memory of who was lost near `rect`, or that of a newcomer.

        Where no more people are wanted, the newcomer takes the memory of anybody who is lost: stock
        has one memory, for whoever is in the picture.
        """
        if frame.state is None:
            return None
        people = frame.state.people
        in_frame = [id(person.state) for person in frame.people]
        nearness = [
            (0.0 if state.last_rect is None else _distance(state.last_rect, rect), number)
            for number, state in enumerate(people)
            if id(state) not in in_frame
        ]
        if nearness:
            distance, number = min(nearness)
            if distance < _BACK_WITHIN or len(people) >= self._max_people:
                return people[number]
        people.append(people[0].for_newcomer())
        return people[-1]

    def _read_bodies(self, people: list[BodyFrame]) -> None:
        outputs = self._body_landmarks.look([(person.pixels, person.rect) for person in people])
        min_score = self.options["min_tracking_confidence"]
        for person, values in zip(people, outputs, strict=True):
            person.body = body.read_pose(values, person.rect, person.size, min_score=min_score)

    def _look_closer(self, people: list[BodyFrame]) -> None:
        """Read bodies again where the detector saw them larger: its region is better there."""
        first = [(person.rect, person.body) for person in people]
        for person in people:
            assert person.closer is not None
            person.rect = person.closer
        self._read_bodies(people)
        for person, (rect, pose) in zip(people, first, strict=True):
            if person.body is None:
                person.rect, person.body = rect, pose

    def _find_parts(self, people: list[BodyFrame]) -> None:
        """Find hands and faces of people, in an engine that has them."""


def _expect_followed(frame: PeopleFrame) -> None:
    """Put the people who are followed where they are expected in the frame."""
    if frame.state is None:
        return
    frame.state.num_frames += 1
    for state in frame.state.people:
        state.num_frames += 1
        if state.next_rect is not None:
            frame.people.append(BodyFrame(frame.pixels, state, state.next_rect))


def _distance(one: Rect, other: Rect) -> float:
    """Return how far the centres of two regions are from each other, in sides of the larger."""
    across = float(one.center_x - other.center_x) / float(max(one.width, other.width))
    down = float(one.center_y - other.center_y) / float(max(one.height, other.height))
    return math.hypot(across, down)


def _in_view_of_others(frame: PeopleFrame) -> list[BodyFrame]:
    """Return the newcomers of a group; somebody alone is as an engine of one person finds them."""
    if frame.state is None:
        return []
    found = [person for person in frame.people if person.body is not None]
    return [person for person in found if person.closer is not None] if len(found) > 1 else []


def _drop_doubles(frame: PeopleFrame) -> None:
    """Let nobody be in the frame twice: who is followed for longer stays, of others the better."""
    found = [(person, person.body) for person in frame.people if person.body is not None]
    if len(found) < 2:
        return
    pixels = np.stack([pose.points[:, :2] * np.array(person.size) for person, pose in found])
    # Of who is seen in part, the network makes up the rest, each time another one.
    is_seen = np.stack([pose.visibility for _, pose in found]) >= _SEEN
    is_seen[~is_seen.any(axis=1)] = True
    pixels[~is_seen] = np.nan
    similarity = pose_similarity(pixels, pixels)
    kept: list[int] = []
    for row, (person, _) in enumerate(found):
        if kept and similarity[row, kept].max() > _SAME_POSE:
            person.body = None
        else:
            kept.append(row)


def _remember(frame: PeopleFrame, *, keeps_world: bool) -> None:
    """Go on in the memory of everybody: of who is in the frame, and of who is not."""
    found = []
    for person in frame.people:
        if person.body is not None:
            person.body = body.follow(
                person.body, person.state, person.size, keeps_world=keeps_world
            )
            found.append(person)
    frame.people = found
    if frame.state is not None:
        seen = [id(person.state) for person in found]
        for state in frame.state.people:
            if id(state) not in seen:
                state.lose_person()
        frame.state.forget(MAX_MISSING)


def _world_of(people: Sequence[BodyFrame | None]) -> FloatArray:
    """Return `(people, 75, 3)` in metres: the body around the hips, hands around their wrists."""
    world = nothing_in_metres(len(people))
    for row, person in enumerate(people):
        if person is None or person.body is None:
            continue
        if person.body.world is not None:
            world[row, :_NUM_POINTS] = person.body.world
        for name, part in person.parts.items():
            if part.world is not None:
                place = WORLD_LAYOUT.part(name)
                world[row, place.start : place.stop] = around_wrist(part.world)
    return world
