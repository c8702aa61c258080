"""COCO-WholeBody JSON, or plain COCO of bodies of 17 or 18 points; its lists: docs/formats.md."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.files import atomic_path
from posemill.formats.openpose_json import IS_OPENPOSE, PeopleFormat
from posemill.formats.shared import json_text
from posemill.formats.shared.contract import ClipStream, Size
from posemill.formats.shared.people import Person, clip_of_people, people_in_pixels, points_by_part
from posemill.messages import Message
from posemill.records import PoseClip
from posemill.skeletons import get_skeleton
from posemill.terminal import warn_once

_SKELETON, _BODY = "coco-133", "coco-17"
_FIELDS = {"keypoints": ("body", 17), "foot_kpts": ("feet", 6), "face_kpts": ("face", 68),
           "lefthand_kpts": ("left_hand", 21), "righthand_kpts": ("right_hand", 21)}  # fmt: skip
_CATEGORY = {
    "id": 1,
    "name": "person",
    "supercategory": "person",
    "keypoints": get_skeleton(_BODY).point_names,
    "skeleton": [(one + 1, other + 1) for one, other in get_skeleton(_BODY).bones],
}


class CocoFormat(PeopleFormat):
    """One JSON file."""

    name = "coco"
    suffix = ".json"
    layouts = (_SKELETON, _BODY)

    def begins_like(self, start: bytes) -> bool:
        """Return True for a JSON file that speaks of images, annotations or categories early."""
        words = (b'"images"', b'"annotations"', b'"categories"')
        return not IS_OPENPOSE.search(start) and any(word in start for word in words)

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write one file; videos and annotations wait in temporary files."""
        with (
            atomic_path(path) as temporary,
            temporary.open("w", encoding="utf-8") as handle,
            tempfile.TemporaryFile("w+", encoding="utf-8", dir=path.parent) as person_file,
            tempfile.TemporaryFile("w+", encoding="utf-8", dir=path.parent) as video_file,
        ):
            images, people, videos = map(json_text.NumberedList, (handle, person_file, video_file))
            for clip in clips:
                if clips.is_first:
                    info = {"description": "posemill", "posemill": clips.header()}
                    handle.write(f'{{"info": {json.dumps(info)},\n')
                    handle.write(f'"categories": [{json.dumps(_CATEGORY)}],\n"images": [')
                video = {"name": clip.clip_id, "skeleton": clip.skeleton_name}
                video_id = videos.add(json_text.record_of(clip) | video, clip.clip_id)
                _write_frames(clip, video_id, images, people)
            for name, waiting in (("annotations", person_file), ("videos", video_file)):
                handle.write(f'\n],\n"{name}": [')
                waiting.seek(0)
                shutil.copyfileobj(waiting, handle)
            handle.write("\n]}\n")

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips of our file, or a clip per picture of a plain one."""
        if json_text.is_line_list(path, "images", line=2):
            names = ("videos", "images", "annotations")
            yield from _read_ours(*(json_text.read_line_list(path, name) for name in names))
            return
        content = json_text.load_json(path)
        if not isinstance(content, dict) or not isinstance(content.get("images"), list):
            raise ValueError("expected an object with a list 'images'")
        videos = content.get("videos") or [{}]
        is_ours = isinstance(videos, list) and all(
            isinstance(video, dict) and {"clip_id", "sizes_wh"} <= video.keys() for video in videos
        )
        yield from _read_ours(*_sorted(content)) if is_ours else _read_plain(path, content)


def _write_frames(
    clip: PoseClip, video_id: int, images: json_text.NumberedList, people: json_text.NumberedList
) -> None:
    paths = clip.image_paths or [f"{clip.clip_id}/{i:06d}" for i in clip.frame_indices.tolist()]
    for row, found in enumerate(people_in_pixels(clip)):
        width, height = clip.sizes_wh[row].tolist()
        image = {
            "file_name": paths[row],
            "width": width,
            "height": height,
            "video_id": video_id,
            "frame_id": row,
            "num_people": len(found),
        }
        image_id = images.add(image, clip.clip_id)
        for points, person_id in found:
            track = {"track_id": person_id} if person_id else {}
            people.add({"image_id": image_id, **_annotation(points), **track}, clip.clip_id)


def _annotation(points: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return a person, of 17 points or of 133, without the ids."""
    found = points[:, 2] > 0
    marked = points.copy()
    marked[:, 2] = 2 * found
    box = _box(points[found])
    annotation: dict[str, Any] = {
        "category_id": 1,
        "iscrowd": 0,
        "bbox": box,
        "area": round(box[2] * box[3], 3),
        "num_keypoints": int(found[:17].sum()),
        "keypoints": marked[:17].ravel().tolist(),
        # As evaluations rank people: by the points found, and how sure they are.
        "score": round(float(points[:17, 2].sum()) / 17, 6),
    }
    if len(points) > 17:
        for key, (name, _) in list(_FIELDS.items())[1:]:
            part = get_skeleton(_SKELETON).part(name)
            there = found[part.start : part.stop]
            annotation[key] = marked[part.start : part.stop].ravel().tolist()
            kind = key.removesuffix("_kpts")
            if kind != "foot":
                annotation[f"{kind}_box"] = _box(points[part.start : part.stop][there])
            annotation[f"{kind}_valid"] = bool(there.any())
    annotation["scores"] = points[:, 2].tolist()
    return annotation


def _box(points: npt.NDArray[np.float64]) -> list[float]:
    """Return x, y, width, height around points; zeros around none."""
    if not len(points):
        return [0.0, 0.0, 0.0, 0.0]
    low, high = points[:, :2].min(0), points[:, :2].max(0)
    return [round(value, 3) for value in (*low.tolist(), *(high - low).tolist())]


def _sorted(content: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return videos, pictures and annotations of a file of ours in the order it had at first."""
    order = {video["id"]: index for index, video in enumerate(content["videos"])}
    images = sorted(content["images"], key=lambda one: (order[one["video_id"]], one["frame_id"]))
    place = {image["id"]: index for index, image in enumerate(images)}
    people = [one for one in content.get("annotations") or [] if one["image_id"] in place]
    people.sort(key=lambda one: (place[one["image_id"]], one["id"]))
    return content["videos"], images, people


def _read_ours(
    videos: Iterable[Any], pictures: Iterable[Any], annotations: Iterable[Any]
) -> Iterator[PoseClip]:
    """Read pictures and annotations side by side: both come in the order of the pictures."""
    images = groupby(pictures, key=lambda image: image["video_id"])
    people = groupby(annotations, key=lambda person: person["image_id"])
    waiting, person = next(images, None), next(people, None)
    for record in videos:
        rows: list[list[Person]] = []
        if waiting is not None and waiting[0] == record["id"]:
            for image in waiting[1]:
                rows.append([])
                if person is not None and person[0] == image["id"]:
                    rows[-1] = [_person(each) for each in person[1]]
                    person = next(people, None)
                if len(rows[-1]) != image["num_people"]:
                    raise ValueError(f"picture {image['id']} has no annotation of its own")
            waiting = next(images, None)
        name = _BODY if record.get("skeleton") == _BODY else _SKELETON
        yield clip_of_people(rows, name, **json_text.fields_of(record, len(rows)))
    if person is not None:
        raise ValueError(f"annotation of picture {person[0]} is not where the picture is")


def _read_plain(path: Path, content: dict[str, Any]) -> Iterator[PoseClip]:
    people: dict[Any, list[dict[str, Any]]] = {}
    for annotation in content.get("annotations") or []:
        if annotation.get("keypoints") and not annotation.get("iscrowd"):
            people.setdefault(annotation["image_id"], []).append(annotation)
    known = {image["id"] for image in content["images"]}
    if lost := sum(len(found) for image, found in people.items() if image not in known):
        template = "{path}: {lost} annotations are of pictures that are not in it; left out"
        warn_once(Message(template, path=path, lost=lost))
    ids = _picture_ids([str(image["file_name"]) for image in content["images"]])
    for image, clip_id in zip(content["images"], ids, strict=True):
        # The largest first; a picture without any gives a clip without points.
        found = sorted(people.get(image["id"], []), key=lambda one: -float(one.get("area") or 0))
        yield clip_of_people(
            [[_person(each) for each in found]],
            _SKELETON,
            clip_id=clip_id,
            sizes_wh=np.array([[image["width"], image["height"]]], np.int32),
            image_paths=(str(image["file_name"]),),
        )


def _picture_ids(names: list[str]) -> list[str]:
    """Return an id per picture: its path without the ending, unless two differ only by that."""
    paths = [PurePosixPath(name.replace("\\", "/")) for name in names]
    # What leads to the root or upwards is no part of an id.
    whole = [
        "/".join(part for part in path.parts if part not in ("/", "//", "..")) for path in paths
    ]
    short = [name.removesuffix(path.suffix) for name, path in zip(whole, paths, strict=True)]
    counts = Counter(short)
    return [few if counts[few] == 1 else all_ for few, all_ in zip(short, whole, strict=True)]


def _person(annotation: dict[str, Any]) -> Person:
    points = points_by_part(annotation, _FIELDS)
    # Visibility 1 and 2 are found; the face and hands of COCO-WholeBody have a score there.
    points[:17, 2] = points[:17, 2] > 0
    points[:, 2] = np.clip(points[:, 2], 0, 1)
    if "scores" in annotation:
        scores = json_text.numbers(annotation["scores"], 1, what="scores").ravel()
        if len(scores) not in (17, len(points)):
            raise ValueError(f"scores: expected 17 or {len(points)}, got {len(scores)}")
        points[: len(scores), 2] = scores
    track_id = annotation.get("track_id")
    return Person(points, track_id if isinstance(track_id, int) else 0)
