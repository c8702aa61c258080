"""COCO-WholeBody JSON: 133 points a person, pictures and annotations in two lists.

`keypoints` has the 17 body points as x, y, visibility (2 found, 0 missing), `foot_kpts`,
`face_kpts`, `lefthand_kpts` and `righthand_kpts` the others. Beside what COCO knows, `videos`
lists the clips, and every annotation has our `scores`. Plain COCO files (17 points) are read too.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from posemill.errors import FormatError
from posemill.files import atomic_path
from posemill.formats.openpose_json import IS_OPENPOSE
from posemill.formats.shared.contract import (
    Recipe,
    Size,
    SkeletonCheck,
    Summary,
    expect_clips,
    header_text,
    make_clip,
    reading,
)
from posemill.formats.shared.folders import fields_of, from_pixels, record_of, to_pixels
from posemill.formats.shared.json_text import is_line_list, load_json, numbers, read_line_list
from posemill.records import PoseClip
from posemill.skeletons import get_skeleton
from posemill.terminal import warn_once

_SKELETON = "coco-133"
_FIELDS = {"keypoints": ("body", 17), "foot_kpts": ("feet", 6), "face_kpts": ("face", 68),
           "lefthand_kpts": ("left_hand", 21), "righthand_kpts": ("right_hand", 21)}  # fmt: skip


class CocoFormat:
    """One JSON file."""

    name = "coco"
    suffix = ".json"
    layouts: tuple[str, ...] = (_SKELETON,)
    has_pixels = True
    has_mask = False
    losses: tuple[str, ...] = (
        "z",
        "x and y beyond a thousandth of a pixel; scores beyond a millionth",
    )

    def sniff(self, path: Path) -> bool:
        """Return True for a JSON file that speaks of images, annotations or categories early."""
        if path.suffix != ".json" or not path.is_file():
            return False
        with path.open("rb") as handle:
            start = handle.read(1 << 16)
        words = (b'"images"', b'"annotations"', b'"categories"')
        return not IS_OPENPOSE.search(start) and any(word in start for word in words)

    def write(self, clips: Iterable[PoseClip], path: Path, *, recipe: Recipe) -> Summary:
        """Write one file; videos and annotations wait in temporary files."""
        summary, check = Summary(path, self.name), SkeletonCheck(self, path)
        with (
            atomic_path(path) as temporary,
            temporary.open("w", encoding="utf-8") as handle,
            tempfile.TemporaryFile("w+", encoding="utf-8", dir=path.parent) as annotations,
            tempfile.TemporaryFile("w+", encoding="utf-8", dir=path.parent) as videos,
        ):
            header = header_text(self.name, _SKELETON, recipe)
            handle.write(f'{{"info": {{"description": "posemill", "posemill": {header}}},\n')
            handle.write(f'"categories": [{json.dumps(_category())}],\n"images": [')
            for clip in clips:
                check(clip)
                record = record_of(clip) | {"id": summary.num_clips + 1, "name": clip.clip_id}
                _put(videos, record, is_first=not summary.num_clips)
                _write_frames(clip, summary, handle, annotations)
                summary.count(clip)
            check.finish(summary)
            for name, waiting in (("annotations", annotations), ("videos", videos)):
                handle.write(f'\n],\n"{name}": [')
                waiting.seek(0)
                while piece := waiting.read(1 << 20):
                    handle.write(piece)
            handle.write("\n]}\n")
        return summary

    def read(self, path: Path, *, size_wh: Size | None = None) -> Iterator[PoseClip]:
        """Yield the clips of our file, or a clip per picture of a plain one."""
        with reading(path, self.name):
            if is_line_list(path, "images", line=2):
                names = ("videos", "images", "annotations")
                yield from _read_ours(path, *(read_line_list(path, name) for name in names))
                return
            content = load_json(path)
            if not isinstance(content, dict) or not isinstance(content.get("images"), list):
                raise FormatError(f"{path}: expected an object with a list 'images'")
            is_ours = _has_our_videos(content)
            yield from (
                _read_ours(path, *_sorted(content)) if is_ours else _read_plain(path, content)
            )


def _put(handle: IO[str], record: dict[str, Any], *, is_first: bool) -> None:
    handle.write(("\n" if is_first else ",\n") + json.dumps(record))


def _category() -> dict[str, Any]:
    skeleton = get_skeleton(_SKELETON)
    bones = [[a + 1, b + 1] for a, b in skeleton.bones if max(a, b) < 17]
    return {"id": 1, "name": "person", "supercategory": "person",
            "keypoints": list(skeleton.point_names[:17]), "skeleton": bones}  # fmt: skip


def _write_frames(clip: PoseClip, summary: Summary, handle: IO[str], annotations: IO[str]) -> None:
    paths = clip.image_paths or [f"{clip.clip_id}/{i:06d}" for i in clip.frame_indices.tolist()]
    for row, points in enumerate(to_pixels(clip)):
        number = summary.num_frames + row + 1
        width, height = clip.sizes_wh[row].tolist()
        image = {"id": number, "file_name": paths[row], "width": width, "height": height,
                 "video_id": summary.num_clips + 1, "frame_id": row}  # fmt: skip
        _put(handle, image, is_first=number == 1)
        _put(annotations, _annotation(points, number), is_first=number == 1)


def _annotation(points: npt.NDArray[np.float64], number: int) -> dict[str, Any]:
    skeleton = get_skeleton(_SKELETON)
    found = points[:, 2] > 0
    marked = points.copy()
    marked[:, 2] = 2 * found
    annotation: dict[str, Any] = {"id": number, "image_id": number, "category_id": 1, "iscrowd": 0}
    box = _box(points[found])
    annotation |= {"bbox": box, "area": round(box[2] * box[3], 3),
                   "num_keypoints": int(found[:17].sum())}  # fmt: skip
    for key, (name, _) in _FIELDS.items():
        part = skeleton.part(name)
        annotation[key] = marked[part.start : part.stop].ravel().tolist()
        if key not in ("keypoints", "foot_kpts"):
            there = found[part.start : part.stop]
            kind = key.removesuffix("_kpts")
            annotation[f"{kind}_box"] = _box(points[part.start : part.stop][there])
            annotation[f"{kind}_valid"] = bool(there.any())
    annotation["foot_valid"] = bool(found[17:23].any())
    annotation["scores"] = points[:, 2].tolist()
    return annotation


def _box(points: npt.NDArray[np.float64]) -> list[float]:
    """Return x, y, width, height around points; zeros around none."""
    if not len(points):
        return [0.0, 0.0, 0.0, 0.0]
    low, high = points[:, :2].min(0), points[:, :2].max(0)
    return [round(value, 3) for value in (*low.tolist(), *(high - low).tolist())]


def _has_our_videos(content: dict[str, Any]) -> bool:
    videos = content.get("videos")
    if not isinstance(videos, list) or not videos:
        return False
    return all(
        isinstance(video, dict) and {"clip_id", "sizes_wh"} <= set(video) for video in videos
    )


def _sorted(content: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return videos, pictures and annotations of a file of ours in the order it had at first."""
    order = {video["id"]: index for index, video in enumerate(content["videos"])}
    images = sorted(content["images"], key=lambda one: (order[one["video_id"]], one["frame_id"]))
    by_image = {one["image_id"]: one for one in content.get("annotations") or []}
    found = [by_image[image["id"]] for image in images if image["id"] in by_image]
    return content["videos"], images, found


def _read_ours(
    path: Path, videos: Iterable[Any], pictures: Iterable[Any], annotations: Iterable[Any]
) -> Iterator[PoseClip]:
    """Read pictures and annotations side by side: the n-th of both belong together."""
    images = groupby(pictures, key=lambda image: image["video_id"])
    annotations = iter(annotations)
    waiting = next(images, None)
    count = 0
    for record in videos:
        rows = []
        if waiting is not None and waiting[0] == record["id"]:
            for image in waiting[1]:
                annotation = next(annotations, None)
                if annotation is None or annotation["image_id"] != image["id"]:
                    raise ValueError(f"picture {image['id']} has no annotation of its own")
                rows.append(_points(annotation))
            waiting = next(images, None)
        pixels = np.stack(rows) if rows else np.zeros((0, 133, 3))
        fields = fields_of(record, len(rows))
        count += 1
        yield _clip(path, pixels, fields)
    expect_clips(path, count)


def _read_plain(path: Path, content: dict[str, Any]) -> Iterator[PoseClip]:
    people: dict[Any, list[dict[str, Any]]] = {}
    for annotation in content.get("annotations") or []:
        if annotation.get("keypoints") and not annotation.get("iscrowd"):
            people.setdefault(annotation["image_id"], []).append(annotation)
    expect_clips(path, len(content["images"]))
    known = {image["id"] for image in content["images"]}
    if lost := sum(len(found) for image, found in people.items() if image not in known):
        warn_once(f"{path}: {lost} annotations are of pictures that are not in it; left out")
    ids = _picture_ids([str(image["file_name"]) for image in content["images"]])
    for image, clip_id in zip(content["images"], ids, strict=True):
        found = people.get(image["id"], [])
        # The largest person; a picture without any gives a clip without points.
        best = max(found, key=lambda one: float(one.get("area") or 0), default={})
        size = np.array([[image["width"], image["height"]]], np.int32)
        name = str(image["file_name"])
        fields = {"clip_id": clip_id, "sizes_wh": size, "image_paths": (name,)}
        yield _clip(path, _points(best)[None], fields)


def _picture_ids(names: list[str]) -> list[str]:
    """Return an id per picture: its path without the ending, unless two differ only by that."""
    paths = [PurePosixPath(name.replace("\\", "/")) for name in names]
    # What leads to the root or upwards is no part of an id.
    whole = ["/".join(part for part in path.parts if part not in ("/", "//", ".."))
             for path in paths]  # fmt: skip
    short = [name.removesuffix(path.suffix) for name, path in zip(whole, paths, strict=True)]
    counts = Counter(short)
    return [few if counts[few] == 1 else all_ for few, all_ in zip(short, whole, strict=True)]


def _points(annotation: dict[str, Any]) -> npt.NDArray[np.float64]:
    """Return `(133, 3)`: x, y in pixels and score, zeros where missing."""
    skeleton = get_skeleton(_SKELETON)
    points = np.zeros((skeleton.num_points, 3))
    for key, (name, count) in _FIELDS.items():
        given = numbers(annotation.get(key) or [], 3, what=key)
        if len(given) not in (0, count):
            raise ValueError(f"{key}: expected {count} points, got {len(given)}")
        part = skeleton.part(name)
        points[part.start : part.start + len(given)] = given
    # Visibility 1 and 2 are found; the face and hands of COCO-WholeBody have a score there.
    points[:17, 2] = points[:17, 2] > 0
    points[:, 2] = np.clip(points[:, 2], 0, 1)
    if "scores" in annotation:
        points[:, 2] = numbers(annotation["scores"], 1, what="scores").ravel()
    return points


def _clip(path: Path, pixels: npt.NDArray[np.float64], fields: dict[str, Any]) -> PoseClip:
    points = from_pixels(path, pixels, fields["sizes_wh"])
    return make_clip(
        path, points, np.clip(pixels[..., 2], 0, 1), pixels[..., 2] > 0,
        skeleton_name=_SKELETON, **fields,
    )  # fmt: skip
