"""The pickle of pyskl and MMAction2: one annotation per clip, what is in it: docs/formats.md."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from posemill.errors import ContentError
from posemill.formats.shared import contract
from posemill.formats.shared import pickles as out
from posemill.formats.shared.contract import ClipStream, Format, Size
from posemill.formats.shared.losses import (
    DEPTH,
    EXTRA,
    FPS,
    IMAGE_PATHS,
    OTHER_SIZES,
    POSITIONS,
    TINY_SCORES,
)
from posemill.formats.shared.people import clip_of_axis, first_size, stack_people
from posemill.formats.shared.pickles import array_of, has_annotations, load_pickle
from posemill.messages import Message
from posemill.npz.mapped import check_array
from posemill.records import PoseClip


class PysklFormat(Format):
    """One pickle with an annotation per clip."""

    name = "pyskl"
    suffix = ".pkl"
    layouts: tuple[str, ...] = ("coco-133", contract.ANY)
    has_pixels = True
    holds_people = True
    losses: tuple[str, ...] = (Message("digits beyond float32 pixels"),)
    may_lose = (DEPTH, IMAGE_PATHS, POSITIONS, FPS, EXTRA, TINY_SCORES, OTHER_SIZES)

    def begins_like(self, start: bytes) -> bool:
        """Return True for a pickle with annotations."""
        return has_annotations(start)

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write one pickle; labels are filled in when all are known."""
        keys: list[tuple[str, str]] = []  # split and id of each clip
        labels: list[str] = []
        sizes: list[int] = []  # bytes that wait
        with tempfile.TemporaryFile(dir=path.parent) as waiting:
            for clip in clips:
                keys.append((clip.split, clip.clip_id))
                labels.append(clip.label or "")
                sizes.append(waiting.write(_pickled(clip)))
            numbers = _number_labels(set(labels) - {""})
            names = _unique_names(keys)
            header = clips.header()
            header["class_names"] = {str(number): name for name, number in numbers.items()}
            header["clip_ids"] = {name: key[1] for key, name in names.items() if name != key[1]}
            waiting.seek(0)
            pieces = (
                out.pickled_dict(
                    {"frame_dir": out.pickled(name), "label": out.pickled(numbers.get(label, -1))},
                    start=waiting.read(size),
                )
                for name, label, size in zip(names.values(), labels, sizes, strict=True)
            )
            splits = defaultdict[str, list[bytes]](list)
            for (split, _), name in names.items():
                splits[split].append(out.pickled(name))
            listed = {split: out.pickled_list(of_split) for split, of_split in splits.items()}
            content = {
                "annotations": out.pickled_list(chain.from_iterable(pieces)),
                "split": out.pickled_dict(listed),
                "posemill": [out.pickled(json.dumps(header))],
            }
            out.write_pickle(path, content)

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips; of several people, the one with the highest mean score comes first."""
        content = load_pickle(path)
        if not isinstance(content, dict) or not isinstance(content.get("annotations"), list):
            raise ValueError("expected {'split': …, 'annotations': […]}")
        header = json.loads(str(content.get("posemill") or "{}"))
        splits = dict(content.get("split") or {}).items()
        split_of = {str(name): str(split) for split, names in splits for name in names}
        for annotation in content["annotations"]:
            yield _clip_of(path, annotation, split_of, header, size_wh=size_wh)


def _unique_names(keys: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return a `frame_dir` for each split and id: the id, or `split/id` where several have it."""
    counts = Counter(clip_id for _, clip_id in set(keys))
    names: dict[tuple[str, str], str] = {}
    taken = set(counts)
    for split, clip_id in keys:
        if (split, clip_id) in names:
            template = "clip {split}/{clip_id} came twice; expected it once"
            raise ContentError(template, split=split, clip_id=clip_id)
        name = clip_id if counts[clip_id] == 1 else f"{split}/{clip_id}"
        while name != clip_id and name in taken:
            name += "_"
        taken.add(name)
        names[split, clip_id] = name
    return names


def _pickled(clip: PoseClip) -> bytes:
    """Return the annotation's instructions without its name and label."""
    width, height = first_size(clip)
    shape = out.pickled((height, width))
    pixels, scores = (array.swapaxes(0, 1) for array in stack_people(clip)[:2])
    items = {
        "img_shape": shape,
        "original_shape": shape,
        "total_frames": out.pickled(len(clip)),
        "keypoint": out.pickled_array(pixels[..., :2]),
        "keypoint_score": out.pickled_array(scores),
    }
    return b"".join(out.pickled_dict(items))


def _number_labels(labels: set[str]) -> dict[str, int]:
    if all(label.isdecimal() and label.isascii() and len(label) < 10 for label in labels):
        return {label: int(label) for label in sorted(labels, key=int)}
    return {label: number for number, label in enumerate(sorted(labels))}


def _clip_of(
    path: Path,
    annotation: Any,
    split_of: dict[str, str],
    header: dict[str, Any],
    *,
    size_wh: Size | None,
) -> PoseClip:
    if not isinstance(annotation, dict) or not {"frame_dir", "keypoint"} <= annotation.keys():
        raise ValueError("expected annotations with 'frame_dir' and 'keypoint'")
    name = str(annotation["frame_dir"])
    people = array_of(annotation["keypoint"])
    shapes = [(max((1, *people.shape[:1])), "frames", "points", dims) for dims in (2, 3)]
    check_array(people, f"keypoint of {name[:80]}", "biuf", *shapes)
    scores = np.ones(people.shape[:3], np.float32)
    if "keypoint_score" in annotation:
        scores = array_of(annotation["keypoint_score"])
        check_array(scores, f"keypoint_score of {name[:80]}", "biuf", people.shape[:3])
    height, width = annotation.get("img_shape") or (size_wh or (0, 0))[::-1]
    if not (0 < int(width) < 1 << 20 and 0 < int(height) < 1 << 20):
        template = "{name!r}: expected img_shape (height, width), got {shape}; give it by {--size}"
        raise ContentError(template, name=name[:80], shape=(height, width))
    num_people, num_frames, count, dims = people.shape
    skeleton = header.get("skeleton")
    # 17 points are the first of 133.
    total = 133 if count == 17 and skeleton in (None, "coco-133") else count
    points = np.zeros((num_frames, num_people, total, 3), np.float32)
    found_scores = np.zeros(points.shape[:3], np.float32)
    with np.errstate(all="ignore"):  # what is not a number is not found, or refused later
        pixels = people.astype(np.float32)
        found = np.isfinite(pixels).all(axis=3) & (pixels != 0).any(axis=3)
        points[:, :, :count, :dims] = pixels.swapaxes(0, 1)
        points[..., :2] /= np.array([width, height], np.float32)
        found_scores[:, :, :count] = np.where(found, scores, 0).swapaxes(0, 1)
        surest = np.nan_to_num(scores).mean(axis=(1, 2)).argmax() if scores.size else 0
    label = annotation.get("label")
    names = header.get("class_names", {})
    return clip_of_axis(
        points,
        found_scores,
        first=np.full(num_frames, surest, np.int64),
        ids=np.tile(np.arange(num_people) + 1, (num_frames, 1)),
        sizes_wh=contract.same_sizes((width, height), num_frames),
        clip_id=str(header.get("clip_ids", {}).get(name, name)),
        split=split_of.get(name, "all"),
        label=None if label in (None, -1) else str(names.get(str(label), label)),
        **contract.header_fields(header, total, path),
    )
