"""OpenPose's JSON: a file per frame, or everything in one; with which points: docs/formats.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.files import atomic_path
from posemill.formats.shared import json_text
from posemill.formats.shared.contract import ClipStream, Format, Size, same_sizes
from posemill.formats.shared.folders import read_clip_folders, write_picture_files
from posemill.formats.shared.losses import DEPTH
from posemill.formats.shared.people import Person, clip_of_people, people_in_pixels, points_by_part
from posemill.messages import Message
from posemill.records import PoseClip
from posemill.skeletons import get_skeleton

BODY_25 = tuple(
    "nose neck right_shoulder right_elbow right_wrist left_shoulder left_elbow left_wrist mid_hip "
    "right_hip right_knee right_ankle left_hip left_knee left_ankle right_eye left_eye right_ear "
    "left_ear left_big_toe left_small_toe left_heel right_big_toe right_small_toe "
    "right_heel".split()
)
_MEANS = {"neck": ("left_shoulder", "right_shoulder"), "mid_hip": ("left_hip", "right_hip")}
_PARTS = {"face_keypoints_2d": ("face", 70), "hand_left_keypoints_2d": ("left_hand", 21),
          "hand_right_keypoints_2d": ("right_hand", 21)}  # fmt: skip
_PLACES = {name: index for index, name in enumerate(get_skeleton("coco-133").point_names)}
# `(25, 2)`: the two points of coco-133 whose mean each of the 25 is (twice the same).
_SOURCES = np.array([[_PLACES[each] for each in _MEANS.get(name, (name,) * 2)] for name in BODY_25])
_MAX_FRAME_BYTES = 1 << 22
# What a file of people or of our clips says early, however it is laid out.
IS_OPENPOSE = re.compile(rb'"people"\s*:|"clips"\s*:\s*\[')


def _person_of(points: npt.NDArray[np.float64], person_id: int) -> dict[str, Any]:
    """Return a person of a frame's list, of points as `to_pixels` gives them; id -1: not known."""
    person: dict[str, Any] = {"person_id": [person_id or -1]}
    if len(points) == 18:
        person["pose_keypoints_2d"] = points.ravel().tolist()
        return person | {key: [] for key in _PARTS}
    pairs = points[_SOURCES]  # (25, 2, 3)
    body = np.round(pairs.mean(axis=1), 6)
    body[:, 2] = pairs[..., 2].min(axis=1)
    body[body[:, 2] == 0] = 0
    person["pose_keypoints_2d"] = body.ravel().tolist()
    for key, (name, count) in _PARTS.items():
        part = get_skeleton("coco-133").part(name)
        whole = np.zeros((count, 3))
        whole[: len(part)] = points[part.start : part.stop]
        person[key] = whole.ravel().tolist()
    return person


def _frames_of(clip: PoseClip) -> Iterator[dict[str, Any]]:
    for people in people_in_pixels(clip):
        yield {"people": [_person_of(*person) for person in people]}


def _texts_of(clip: PoseClip) -> Iterator[str]:
    for frame in _frames_of(clip):
        yield json.dumps({"version": 1.3, **frame})


def people_of(frame: Any) -> list[Person]:
    """Return everybody, of 18 or 133 points, the largest first."""
    if not isinstance(frame, dict) or not isinstance(frame.get("people"), list):
        raise ValueError("expected a frame with a list 'people'")
    found: list[tuple[float, Person]] = []
    for person in frame["people"]:
        if not isinstance(person, dict):
            raise ValueError("expected people as objects")
        points = _points(person)
        there = points[points[:, 2] > 0]
        with np.errstate(all="ignore"):
            area = float(np.ptp(there[:, :2], axis=0).prod()) if len(there) else -1.0
        found.append((area, Person(points, _id_of(person))))
    found.sort(key=lambda each: -each[0])
    # People without a point are nobody; one alone still says which skeleton it is.
    found = [each for each in found if each[0] >= 0] or found[:1]
    return [person for _, person in found]


def _id_of(person: dict[str, Any]) -> int:
    """Return a person's id, 0 where the file does not say one: OpenPose itself writes -1."""
    given = person.get("person_id")
    number = given[0] if isinstance(given, list) and given else given
    return number if isinstance(number, int) and number > 0 else 0


def _points(person: dict[str, Any]) -> npt.NDArray[np.float64]:
    """Return `(18, 3)` of a body alone, or else `(133, 3)`: x, y in pixels and score."""
    body = json_text.numbers(person.get("pose_keypoints_2d", []), 3, what="pose_keypoints_2d")
    if len(body) not in (0, 18, 25):
        raise ValueError(f"pose_keypoints_2d: expected 18 or 25 points, got {len(body)}")
    if len(body) == 18 and not any(map(person.get, _PARTS)):
        return body
    points = points_by_part(person, _PARTS)
    names = BODY_25 if len(body) == 25 else get_skeleton("openpose-18").point_names
    for name, point in zip(names, body, strict=False):
        if name in _PLACES:
            points[_PLACES[name]] = point
    return points


def _clip(frames: list[Any], fields: dict[str, Any], skeleton: str | None) -> PoseClip:
    """Return the clip of frames as they come from JSON."""
    read = [people_of(frame) for frame in frames]
    is_body = all(len(person.points) == 18 for people in read for person in people)
    name = skeleton or ("openpose-18" if is_body else "coco-133")
    num_points = get_skeleton(name).num_points
    for index, people in enumerate(read):
        for points, _ in people:
            if len(points) != num_points and points[:, 2].any():
                raise ValueError(f"frame {index} has {len(points)} points, others {num_points}")
    return clip_of_people(read, name, **fields)


class PeopleFormat(Format):
    """JSON of all people of each picture, in rounded pixels."""

    layouts: tuple[str, ...] = ("coco-133", "openpose-18")
    has_pixels = True
    holds_people = True
    losses: tuple[str, ...] = (
        Message("x and y beyond a thousandth of a pixel; scores beyond a millionth"),
    )
    may_lose = (DEPTH,)


class OpenPoseFolderFormat(PeopleFormat):
    """A folder per clip with `<picture>_keypoints.json` per frame."""

    name = "openpose"
    picture_ending = "_keypoints.json"
    files_inside = "**/*_keypoints.json"
    mirrors = True

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write a folder per clip, a file per frame."""
        write_picture_files(clips, self.picture_ending, _texts_of)

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips: those of the index, or every folder with `*_keypoints.json`."""
        for files, fields, skeleton in read_clip_folders(path, "_keypoints.json", size_wh):
            frames = [json_text.load_json(file, max_bytes=_MAX_FRAME_BYTES) for file in files]
            yield _clip(frames, fields, skeleton)


class OpenPoseFileFormat(PeopleFormat):
    """One JSON file: a list of clips, each with its frames by number."""

    name = "openpose-file"
    suffix = ".json"

    def begins_like(self, start: bytes) -> bool:
        """Return True for a JSON file whose beginning names people or our clips."""
        return IS_OPENPOSE.search(start[:4096]) is not None

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write one file, a line per clip."""
        with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as handle:
            for clip in clips:
                if clips.is_first:
                    header = json.dumps(clips.header())
                    handle.write(f'{{"version": 1.3, "posemill": {header}, "clips": [\n')
                frames = {str(number): frame for number, frame in enumerate(_frames_of(clip))}
                points = {"skeleton": clip.skeleton_name, "frames": frames}
                line = json_text.line_of(json_text.record_of(clip) | points, clip.clip_id)
                handle.write(line if clips.is_first else f",\n{line}")
            handle.write("\n]}\n")

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips of our file, or the one clip of a list or an object of frames."""
        if json_text.is_line_list(path, "clips", line=0):
            yield from map(_clip_of, json_text.read_line_list(path, "clips"))
            return
        content = json_text.load_json(path)
        if isinstance(content, dict) and isinstance(content.get("clips"), list):
            yield from map(_clip_of, content["clips"])
            return
        if isinstance(content, dict):
            content = [content] if "people" in content else _in_order(content)
        if not isinstance(content, list):
            raise ValueError(f"expected frames with 'people', got {content!r:.80}")
        if content:
            fields = {"clip_id": path.stem, "sizes_wh": same_sizes(size_wh, len(content))}
            yield _clip(content, fields, None)


def _clip_of(record: Any) -> PoseClip:
    """Return a clip of our own file."""
    if not isinstance(record, dict) or not isinstance(record.get("frames"), dict):
        raise ValueError(f"expected clips with an object 'frames', got {record!r:.80}")
    frames = _in_order(record["frames"])
    return _clip(frames, json_text.fields_of(record, len(frames)), record["skeleton"])


def _in_order(frames: dict[str, Any]) -> list[Any]:
    """Return frames by their numbers: a tool that sorts keys puts "10" before "2"."""
    if all(key.isdecimal() for key in frames):
        return [frames[key] for key in sorted(frames, key=int)]
    return list(frames.values())
