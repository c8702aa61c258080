"""`.pose` version 0.2, the binary format of pose-format: a file per clip, or one single file.

Header: version, width/height/depth, components (name, points, limbs, colours, "XYZC"). Body: fps,
frames, people, coordinates in pixels, confidences (0 = missing). Depth is the width: our z has
the scale of x. Behind the body stands what the format has no place for, see docs/formats.md.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import ContentError
from posemill.files import atomic_path, reading
from posemill.formats.shared import json_text
from posemill.formats.shared.contract import ClipStream, Format, Size, same_sizes
from posemill.formats.shared.folders import new_folder, split_and_id
from posemill.formats.shared.losses import OTHER_SIZES, TINY_SCORES
from posemill.formats.shared.people import clip_of_axis, first_size, stack_people
from posemill.messages import Message
from posemill.records import IntArray, PoseClip
from posemill.skeletons import Part, Skeleton, get_skeleton

_VERSION = 0.2
_NOTE = b"posemill"
# Component names of pose-format -> (skeleton, its parts in the order of the components).
_COMPONENTS: dict[tuple[str, ...], str] = {
    ("POSE_LANDMARKS", "FACE_LANDMARKS", "LEFT_HAND_LANDMARKS", "RIGHT_HAND_LANDMARKS"):
        "holistic-543",
    ("FACE_LANDMARKS", "LEFT_HAND_LANDMARKS", "RIGHT_HAND_LANDMARKS", "POSE_LANDMARKS"):
        "holistic-143",
    ("BODY", "FACE", "LEFT_HAND", "RIGHT_HAND"): "coco-133",
    ("pose_keypoints_2d",): "openpose-18",
}  # fmt: skip


class PoseFormat(Format):
    """A folder of `.pose` files, or one `.pose` file with one clip."""

    name = "pose"
    file_ending = ".pose"
    files_inside = "**/*.pose"
    layouts: tuple[str, ...] = ("holistic-543", "holistic-143", "coco-133", "openpose-18")
    has_pixels = True
    holds_people = True
    losses: tuple[str, ...] = (Message("digits beyond float32 pixels"),)
    may_lose = (TINY_SCORES, OTHER_SIZES)

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write a file per clip; one clip to `path` itself if that ends in `.pose`."""
        if path.suffix.lower() != ".pose":
            with new_folder(clips) as index:
                for clip in clips:
                    place = _file_at(index.place(clip))
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(encode_clip(clip, clips.header(clip)))
            return
        with atomic_path(path) as temporary:
            for clip in clips:
                if not clips.is_first:
                    raise ContentError(
                        "a .pose file holds one clip, {clip_id!r} is the second; give a folder's "
                        "name to get a file per clip",
                        clip_id=clip.clip_id,
                    )
                temporary.write_bytes(encode_clip(clip, clips.header(clip)))

    def files_of(self, folder: Path, place: Path, fields: Mapping[str, Any]) -> list[Path]:
        """Return the file of the clip."""
        return [_file_at(place)]

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips with all people, those of other makers the surest first."""
        for file, fields in _files(path):
            with reading(file, self.name):
                yield decode_clip(file, fields)


def _file_at(place: Path) -> Path:
    return place.with_name(f"{place.name}.pose")


def _files(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    if path.is_file():
        yield path, {}
    elif json_text.header_in(path):
        for place, fields in json_text.indexed_clips(path):
            yield _file_at(place), fields
    else:
        for file in sorted(path.rglob("*.pose")):
            split, clip_id = split_and_id(path, file.with_suffix(""))
            yield file, {"split": split, "clip_id": clip_id}


def encode_clip(clip: PoseClip, about: Mapping[str, Any] | None = None) -> bytes:
    """Return the bytes of a `.pose` file, and behind its body what it says `about` itself."""
    width, height = first_size(clip)
    pixels, scores, first, ids = stack_people(clip)
    most = pixels.shape[1]
    if max(width, height, most) > 65535:
        template = "clip {clip_id!r}: {width}x{height} or {most} people are too many for .pose"
        raise ContentError(template, clip_id=clip.clip_id, width=width, height=height, most=most)
    names = next(names for names, known in _COMPONENTS.items() if known == clip.skeleton_name)
    parts = _parts(clip.skeleton)
    is_flat = clip.skeleton_name in ("openpose-18", "coco-133")
    dims = 2 if is_flat and not pixels[..., 2].any() else 3
    header = [struct.pack("<fHHHH", _VERSION, width, height, width if dims == 3 else 0, len(parts))]
    form = "XYZC"[:dims] + "C"
    header += [
        _encode_component(clip.skeleton, *named, form) for named in zip(names, parts, strict=True)
    ]
    body = struct.pack("<fIH", clip.fps or 0, len(clip), most)
    values = (pixels[..., :dims].astype("<f4"), scores.astype("<f4"))
    whole = b"".join((*header, body, *(array.tobytes() for array in values)))
    if about is None:
        return whole
    note = {**about, "clip": json_text.record_of(clip)}
    if clip.others is not None and clip.others.counts.any():
        note["people"] = {"first": first.tolist(), "ids": ids.tolist()}
    text = json_text.line_of(note, clip.clip_id).encode("ascii")
    return whole + _NOTE + struct.pack("<I", len(text)) + text


def _parts(skeleton: Skeleton) -> tuple[Part, ...]:
    """Return the parts as components: pose-format counts the feet of coco-133 to the body."""
    if skeleton.name != "coco-133":
        return skeleton.parts
    return (Part("body", 0, 23), *skeleton.parts[2:])


def _point_name(skeleton: Skeleton, component: str, index: int, offset: int) -> str:
    name = skeleton.point_names[index]
    if component.endswith("HAND_LANDMARKS"):
        joint = name.split("_hand_")[1].upper()
        return re.sub("INDEX|MIDDLE|RING", r"\g<0>_FINGER", joint)
    if component in ("LEFT_HAND", "RIGHT_HAND"):
        return f"hand_{offset}"
    if component == "FACE_LANDMARKS":
        return str(offset)
    if component == "FACE":
        return f"face-{offset}"
    return name.upper() if component == "POSE_LANDMARKS" else name


def _encode_component(skeleton: Skeleton, name: str, part: Part, form: str) -> bytes:
    inside = range(part.start, part.stop)
    limbs = [(a, b) for a, b in skeleton.bones if a in inside and b in inside]
    points = [_point_name(skeleton, name, index, index - part.start) for index in inside]
    pieces = [_text(name), _text(form), struct.pack("<HHH", len(points), len(limbs), 1)]
    pieces += map(_text, points)
    pieces += [struct.pack("<HH", a - part.start, b - part.start) for a, b in limbs]
    return b"".join((*pieces, struct.pack("<HHH", 0, 255, 0)))


def _text(text: str) -> bytes:
    encoded = text.encode("ascii")
    return struct.pack("<H", len(encoded)) + encoded


class _Cursor:
    """Takes values from bytes; ValueError where they end too early."""

    def __init__(self, path: Path) -> None:
        self.data, self.at = path.read_bytes(), 0

    def _expect(self, num_bytes: int) -> None:
        if self.at + num_bytes > len(self.data):
            raise ValueError(f"cut off at byte {len(self.data)}")

    def take(self, layout: str) -> tuple[Any, ...]:
        self._expect(struct.calcsize(layout))
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    def text(self, size: str = "<H") -> str:
        (length,) = self.take(size)
        (raw,) = self.take(f"<{length}s")
        return str(raw.decode("utf-8"))

    def floats(self, *shape: int) -> npt.NDArray[np.float32]:
        self._expect(4 * math.prod(shape))
        array = np.frombuffer(self.data, "<f4", math.prod(shape), self.at).reshape(shape)
        self.at += array.nbytes
        return array.astype(np.float32)

    def note(self) -> dict[str, Any]:
        """Return what stands behind the body; empty in files of other makers."""
        if not self.data.startswith(_NOTE, self.at):
            return {}
        self.at += len(_NOTE)
        note = json_text.parse_json(self.text("<I"))
        if not isinstance(note, dict) or not isinstance(note.get("clip"), dict):
            raise ValueError("expected an object with 'clip' behind the body")
        return note


def decode_clip(path: Path, fields: Mapping[str, Any]) -> PoseClip:
    """Return the clip of a `.pose` file; `fields` replace what the file says about it."""
    cursor = _Cursor(path)
    (version,) = cursor.take("<f")
    if not abs(version - _VERSION) < 1e-3:
        raise ContentError("expected .pose version 0.2, got {version:.3g}", version=version)
    width, height, depth, num_components = cursor.take("<HHHH")
    components = [_read_component(cursor) for _ in range(num_components)]
    skeleton = _skeleton_of(components)
    num_points = sum(count for _, count, _ in components)
    dims = max((len(form) for _, _, form in components), default=1) - 1
    fps, frames, people = cursor.take("<fIH")
    if dims not in (2, 3) or not people or not math.isfinite(fps):
        raise ValueError(f"{people} people in {dims} dimensions at {fps} frames a second")
    data = cursor.floats(frames, people, num_points, dims)
    confidence = cursor.floats(frames, people, num_points)
    if not np.isfinite(confidence).all():
        raise ValueError("a confidence is infinite or not a number")
    note = cursor.note()
    if frames and people > 1 and not note:
        with np.errstate(all="ignore"):
            surest = np.argsort(-confidence.mean(axis=(0, 2)), kind="stable")
        data, confidence = data[:, surest], confidence[:, surest]
    with np.errstate(all="ignore"):
        scale = np.array([width or 1, height or 1, depth or width or 1], np.float32)
        points = data / scale[:dims]
    given = {
        "clip_id": path.stem,
        "sizes_wh": same_sizes((width, height), frames),
        "fps": float(fps) or None,
        **(json_text.fields_of(note["clip"], frames) if note else {}),
        **fields,
    }
    first, ids = _people_noted(note, confidence.shape[:2])
    return clip_of_axis(points, confidence, first=first, ids=ids, skeleton_name=skeleton, **given)


def _people_noted(
    note: Mapping[str, Any], shape: tuple[int, ...]
) -> tuple[IntArray, IntArray | None]:
    """Return who stands for each frame of a file, `(frames,)`, and the ids `(frames, people)`."""
    people = note.get("people")
    if not isinstance(people, dict):
        return np.zeros(shape[0], np.int64), None
    first, ids = (np.array(people.get(name), np.int64) for name in ("first", "ids"))
    if first.shape != shape[:1] or ids.shape != shape or (first < 0).any():
        raise ValueError("what it says of its people does not fit to them")
    return np.minimum(first, shape[1] - 1), ids if ids.any() else None


def _read_component(cursor: _Cursor) -> tuple[str, int, str]:
    name, form = cursor.text(), cursor.text()
    num_points, num_limbs, num_colours = cursor.take("<HHH")
    for _ in range(num_points):
        cursor.text()
    cursor.take(f"<{2 * num_limbs + 3 * num_colours}H")
    return name, num_points, form


def _skeleton_of(components: list[tuple[str, int, str]]) -> str:
    names = tuple(name for name, _, _ in components)
    counts = [count for _, count, _ in components]
    known = _COMPONENTS.get(names)
    if known is None or counts != [len(part) for part in _parts(get_skeleton(known))]:
        listed = ", ".join(f"{name[:40]} ({count})" for name, count, _ in components[:8])
        template = "its components are {listed}; expected those of {layouts}"
        raise ContentError(template, listed=listed or "none", layouts=", ".join(PoseFormat.layouts))
    return known
