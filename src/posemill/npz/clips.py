"""The clips in the arrays of an `.npz`, checked and cut; docs/formats.md says what it may hold.

Whole numbers are read as float32. Without `lengths`, frames of the same `video_ids` that follow
each other are a clip.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from posemill.errors import ContentError, FormatError
from posemill.files import reading
from posemill.geometry import check_scores, find_points
from posemill.messages import Message
from posemill.npz.mapped import MappedNpz, check_array
from posemill.records import BoolArray, FloatArray, IntArray
from posemill.skeletons import WORLD_LAYOUT

Array = npt.NDArray[Any]

_SPLIT_IN_NAME = re.compile(r"(\w+?)_keypoints\.npz$")
# name -> (kinds of dtype, shape of a row: None for the number of keypoints)
_FRAME_ARRAYS: dict[str, tuple[str, tuple[int | None, ...]]] = {
    "scores": ("fiu", (None,)),
    "mask": ("biuf", (None,)),
    "frame_index": ("iu", ()),
    "sizes_wh": ("iu", (2,)),
    "world": ("f", (WORLD_LAYOUT.num_points, 3)),
    "image_paths": ("U", ()),
    "video_ids": ("Uiu", ()),
}
_CLIP_ARRAYS = {"clip_ids": "Uiu", "splits": "U", "labels": "Uiufb", "clip_info": "U"}


@dataclass(frozen=True, eq=False)
class NpzClips:
    """What an archive says about its clips; their frames are read when asked for."""

    path: Path
    arrays: Mapping[str, Array]
    header: Mapping[str, Any]  # empty for a file of another maker
    offsets: IntArray  # (clips + 1,): where each clip begins; the last is the number of frames
    clip_ids: tuple[str, ...]
    splits: tuple[str, ...]  # one per clip, as the labels; empty where it has none
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.clip_ids)

    def clip(self, index: int) -> tuple[FloatArray, BoolArray]:
        """Return points `(T, K, D)`, 0 where missing, and mask `(T, K)` of a clip."""
        frames = slice(self.offsets[index], self.offsets[index + 1])
        points = np.asarray(self.arrays["keypoints"][frames], np.float32)
        mask = self.arrays["mask"][frames] if "mask" in self.arrays else None
        try:
            mask = find_points(points, mask)
        except ValueError as error:
            template, name = "{path}: clip {clip_id!r}: {error}", self.clip_ids[index]
            raise FormatError(template, path=self.path, clip_id=name, error=error) from error
        return np.where(mask[..., None], points, np.float32(0)), mask

    def column(self, name: str) -> tuple[str, ...]:
        """Return the text or whole number an array has for each clip, or frame; '' for none."""
        array = self.arrays.get(name, np.zeros(0))
        if array.shape == (int(self.offsets[-1]),):
            array = array[self.offsets[:-1]]
        if array.shape != (len(self),) or array.dtype.kind not in "Uiu":
            return ("",) * len(self)
        return tuple(str(value).strip() for value in array)


class NpzFrames(NamedTuple):
    """Some frames: points `(n, K, D)`, mask and scores `(n, K)`, frame_index `(n,)`."""

    points: FloatArray
    mask: BoolArray
    scores: FloatArray
    frame_index: IntArray


def read_npz_clips(arrays: MappedNpz, *, unit: str = "clip") -> NpzClips:
    """Return where clips begin and what they are called; of `unit` `frame` each frame is one."""
    with reading(arrays.path, "npz"):
        frames = _frame_arrays(arrays)
        num_frames = len(arrays["keypoints"])
        offsets = _offsets(arrays, frames, num_frames)
        names = [name for name in ("splits", "labels", "clip_info") if name in arrays]
        if unit == "frame":
            # What is said of clips is not said of their frames.
            names = [name for name in names if len(np.atleast_1d(arrays[name])) == num_frames]
            pictures = frames.get("image_paths", np.zeros(0))
            if not pictures.any():
                pictures = frames.get("video_ids", np.arange(num_frames))
            offsets, ids = np.arange(num_frames + 1), tuple(map(str, pictures.tolist()))
        else:
            ids = _clip_ids(arrays, frames, offsets)
        texts = {name: _clip_texts(arrays, name, offsets) for name in names}
        empty = ("",) * (len(offsets) - 1)
        splits = texts.get("splits", empty)
        counts = Counter(zip(splits, ids, strict=True))
        twice = [clip_id for (_, clip_id), count in counts.items() if count > 1]
        if twice and unit == "clip":
            raise ContentError(
                "expected every clip once, but {clip_id!r} of clip_ids comes again; give its clips "
                "names of their own",
                clip_id=twice[0][:80],
            )
        infos = (read_object(text or "{}", "clip_info") for text in texts.get("clip_info", empty))
        labels = texts.get("labels") or tuple(str(info.get("label") or "") for info in infos)
        return NpzClips(arrays.path, arrays, read_npz_header(arrays), offsets, ids, splits, labels)


def read_frames(arrays: MappedNpz, rows: slice) -> NpzFrames:
    """Return some frames of an archive that `read_npz_clips` found in order."""
    with np.errstate(all="ignore"):
        points: FloatArray = np.array(arrays["keypoints"][rows], np.float32)
    with reading(arrays.path, "npz"):
        mask = find_points(points, arrays["mask"][rows] if "mask" in arrays else None)
        scores = check_scores(arrays["scores"][rows] if "scores" in arrays else mask, mask)
    index = arrays["frame_index"][rows] if "frame_index" in arrays else np.arange(len(points))
    return NpzFrames(points, mask, scores, index.astype(np.int64))


def read_npz_header(arrays: MappedNpz) -> Mapping[str, Any]:
    """Return what a file of ours says about itself; nothing for one of another maker."""
    if "meta" not in arrays:
        return {}
    with reading(arrays.path, "npz"):
        return read_object(str(next(iter(arrays["meta"].reshape(-1)), "")), "meta")


def read_object(text: str, name: str = "header") -> dict[str, Any]:
    """Return the object in a text of JSON: what a file of ours says about itself or a clip."""
    value = json.loads(text, parse_constant=refuse_constant)
    if not isinstance(value, dict):
        raise ValueError(f"expected an object as {name}, got {type(value).__name__}")
    return value


def refuse_constant(name: str) -> NoReturn:
    """Raise for NaN and infinity, which JSON has not: a `parse_constant` of `json.loads`."""
    raise ValueError(f"{name} is not a JSON number")


def split_by_name(path: Path) -> str:
    """Return the split that a file's name says, `all` where it says none."""
    match = _SPLIT_IN_NAME.search(path.name)
    return match.group(1) if match else "all"


def expect_new(name: str | tuple[str, str], seen: set[Any], start: int | None = None) -> None:
    """Raise if frames of a clip come again behind those of another; note the clip as seen."""
    if name in seen:
        where = Message(": it begins again at frame {start}", start=start)
        raise ContentError(
            "the frames of clip {name!r} do not follow each other{where}; sort the file by clip, "
            "then by frame",
            name=(name if isinstance(name, str) else name[1])[:80],
            where="" if start is None else where,
        )
    seen.add(name)


def _frame_arrays(arrays: MappedNpz) -> dict[str, Array]:
    """Return what an archive has of each frame beside its keypoints, shapes and types checked."""
    if "keypoints" not in arrays:
        template = "expected an array 'keypoints' (frames, points, dims), found {arrays}"
        raise ContentError(template, arrays=", ".join(sorted(arrays)) or "nothing")
    keypoints = arrays["keypoints"]
    check_array(keypoints, "keypoints", "fiu", ("frames", "points", "dims"))
    num_frames, num_points = keypoints.shape[:2]
    known = {name: arrays[name] for name in _FRAME_ARRAYS if name in arrays}
    if "lengths" in arrays and known.get("video_ids", keypoints).shape == arrays["lengths"].shape:
        known.pop("video_ids", None)  # one per clip
    for name, array in known.items():
        kinds, row = _FRAME_ARRAYS[name]
        row_shape = (num_points if length is None else length for length in row)
        check_array(array, name, kinds, (num_frames, *row_shape))
    return known


def _offsets(arrays: MappedNpz, frames: Mapping[str, Array], num_frames: int) -> IntArray:
    if "lengths" in arrays:
        lengths = arrays["lengths"]
        check_array(lengths, "lengths", "iu", ("clips",))
        if (lengths < 0).any():
            raise ValueError(f"expected 'lengths' of 0 or more, got {lengths!r}")
        if sum(lengths.tolist()) != num_frames:
            template = "lengths add up to {total}, keypoints has {num_frames} frames"
            raise ContentError(template, total=sum(lengths.tolist()), num_frames=num_frames)
        return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    if not num_frames:
        return np.zeros(1, np.int64)
    if "video_ids" not in frames:
        return np.array([0, num_frames])
    ids = frames["video_ids"]
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    seen = set[str]()
    for start in starts.tolist():
        expect_new(str(ids[start]), seen, start)
    return np.append(starts, num_frames)


def _clip_ids(arrays: MappedNpz, frames: Mapping[str, Array], offsets: IntArray) -> tuple[str, ...]:
    """Return an id per clip: those of the file, else its name; numbered where one comes again."""
    if "clip_ids" in arrays:
        ids: Sequence[str] = _clip_texts(arrays, "clip_ids", offsets)
    elif "video_ids" in frames:
        names = frames["video_ids"]
        bounds = pairwise(offsets.tolist())
        ids = [str(names[start]) if start < stop else "" for start, stop in bounds]
    else:
        ids = [str(name) for name in arrays.get("video_ids", [""] * (len(offsets) - 1))]
    ids = [name or arrays.path.stem for name in ids]
    counts, seen = Counter(ids), Counter[str]()
    for index, name in enumerate(ids):
        if counts[name] > 1 and "clip_ids" not in arrays:
            ids[index] = f"{name}_{seen[name]:04d}"
            seen[name] += 1
    return tuple(ids)


def _clip_texts(arrays: MappedNpz, name: str, offsets: IntArray) -> tuple[str, ...]:
    """Return a text per clip, also from an array with one per frame that is the same in a clip."""
    array, kinds = arrays[name], _CLIP_ARRAYS[name]
    count, num_frames = len(offsets) - 1, int(offsets[-1])
    if array.shape == (num_frames,) != (count,) and array.dtype.kind in kinds:
        changes = np.flatnonzero(array[1:] != array[:-1]) + 1
        if np.isin(changes, offsets).all() and (np.diff(offsets) > 0).all():
            array = array[offsets[:-1]]
    expected = Message(
        "{name} for {count} clips, which begin where 'lengths' (one per clip) or 'video_ids' (one "
        "per frame) say,",
        name=name,
        count=count,
    )
    check_array(array, expected, kinds, (count,))
    return tuple(map(str, array.tolist()))
