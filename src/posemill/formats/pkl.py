"""`.pkl` in the layout many projects use: per split three lists with an entry per frame.

`{split: {'keypoints': [{'face': (68, 3) | None, 'left_hand': (21, 3) | None, 'right_hand':
(21, 3) | None, 'pose': (33, 3) | None}, …], 'image_paths': […], 'video_ids': […]}}`, and in each
split `'posemill'`: JSON with version and recipe.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import numpy as np

from posemill.errors import FormatError
from posemill.files import atomic_path
from posemill.formats.shared import pickles as out
from posemill.formats.shared.contract import ClipStream, Format, Size, make_clip, read_header
from posemill.formats.shared.pickles import array_of, has_annotations, open_pickle
from posemill.formats.shared.pixels import LOOKED_AT, divide_pixels, median_of_pixels
from posemill.messages import Message
from posemill.npz.clips import expect_together
from posemill.records import PoseClip, fields_of_recipe
from posemill.skeletons import get_skeleton

_SKELETON = "holistic-143"
_LISTS = ("keypoints", "image_paths", "video_ids")


class PklFormat(Format):
    """One pickle of plain types and numpy arrays; read without running anything in it."""

    name = "pkl"
    suffix = ".pkl"
    layouts: tuple[str, ...] = (_SKELETON,)
    losses: tuple[str, ...] = (
        Message("scores (1 where found)"),
        Message("picture sizes, frame positions, label, fps and extra"),
        Message("clips without frames"),
    )

    def sniff(self, path: Path) -> bool:
        """Return True for a pickle that is not one of pyskl's."""
        is_pickle = path.suffix.lower() in (".pkl", ".pickle") and path.is_file()
        return is_pickle and not has_annotations(path)

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write one pickle; the lists of each split wait in temporary files."""
        waiting: dict[str, dict[str, IO[bytes]]] = {}
        try:
            for clip in clips:
                if clip.split not in waiting:
                    waiting[clip.split] = _new_lists(path.parent)
                _write_frames(clip, waiting[clip.split])
            with atomic_path(path) as temporary, temporary.open("wb") as handle:
                _join(waiting, json.dumps(clips.header()), handle)
        finally:
            for lists in waiting.values():
                for file in lists.values():
                    file.close()

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips: runs of frames with one video id."""
        with open_pickle(path) as content:
            if not isinstance(content, dict):
                raise FormatError(
                    "{path}: expected {split: {'keypoints': …}}, got {kind}",
                    path=path,
                    kind=type(content).__name__,
                )
            for split, lists in content.items():
                yield from _clips_of(path, str(split), lists, size_wh)


def _new_lists(folder: Path) -> dict[str, IO[bytes]]:
    return {name: tempfile.TemporaryFile(dir=folder) for name in _LISTS}


def _write_frames(clip: PoseClip, lists: dict[str, IO[bytes]]) -> None:
    parts = clip.skeleton.parts
    names = [out.pickled_text(part.name) for part in parts]
    for points, present in zip(clip.points, clip.present, strict=True):
        pieces = [out.DICT, out.MARK]
        for part, name, is_there in zip(parts, names, present, strict=True):
            array = out.pickled_array(points[part.start : part.stop]) if is_there else out.NONE
            pieces += (name, array)
        pieces.append(out.SETITEMS)
        lists["keypoints"].write(b"".join(pieces))
    paths = clip.image_paths or ("",) * len(clip)
    lists["image_paths"].write(b"".join(map(out.pickled_text, paths)))
    lists["video_ids"].write(out.pickled_text(clip.clip_id) * len(clip))


def _join(waiting: dict[str, dict[str, IO[bytes]]], header: str, handle: IO[bytes]) -> None:
    handle.write(out.PRELUDE + out.DICT + out.MARK)
    for split, lists in waiting.items():
        handle.write(out.pickled_text(split) + out.DICT + out.MARK)
        for name, file in lists.items():
            handle.write(out.pickled_text(name) + out.LIST + out.MARK)
            file.seek(0)
            while piece := file.read(1 << 20):
                handle.write(piece)
            handle.write(out.APPENDS)
        handle.write(out.pickled_text("posemill") + out.pickled_text(header) + out.SETITEMS)
    handle.write(out.SETITEMS + out.STOP)


def _clips_of(path: Path, split: str, lists: Any, size_wh: Size | None) -> Iterator[PoseClip]:
    if not isinstance(lists, dict) or not isinstance(lists.get("keypoints"), list):
        raise FormatError(
            "{path}: split {split!r}: expected a list 'keypoints'", path=path, split=split[:80]
        )
    frames = lists["keypoints"]
    if not frames:
        raise FormatError(
            "{path}: split {split!r} holds no frames; expected at least one",
            path=path,
            split=split[:80],
        )
    paths = [str(value) for value in _strings(lists, "image_paths", len(frames))]
    ids = [str(value) for value in _strings(lists, "video_ids", len(frames))]
    if not any(ids):
        ids = [name.rpartition("/")[0] or split for name in paths]
    pieces = [list(group) for _, group in groupby(range(len(frames)), key=ids.__getitem__)]
    starts = [rows[0] for rows in pieces]
    expect_together(path, [ids[start] for start in starts], starts)
    header = lists.get("posemill")
    ours = read_header(header) if isinstance(header, str) else {}
    made = fields_of_recipe(ours.get("recipe"))
    seen = range(0, len(frames), max(1, len(frames) // LOOKED_AT))
    pixels = 0.0 if ours else median_of_pixels(_points(path, split, seen, frames))
    for rows in pieces:
        points = _points(path, split, rows, frames)
        sizes = np.tile(np.array(size_wh or (0, 0), np.int32), (len(rows), 1))
        named = tuple(paths[index] for index in rows)
        yield make_clip(
            path,
            divide_pixels(path, points, sizes, pixels) if pixels else points,
            None,
            None,
            skeleton_name=_SKELETON,
            clip_id=ids[rows[0]],
            split=split,
            sizes_wh=sizes,
            image_paths=named if any(named) else (),
            **made,
        )


def _strings(lists: Any, name: str, length: int) -> list[Any]:
    values: list[Any] = lists.get(name, [""] * length)
    if not isinstance(values, list):
        values = array_of(values).tolist()
    if len(values) != length:
        raise ValueError(f"a split has {length} keypoints and {len(values)} {name}")
    return values


def _points(path: Path, split: str, rows: Sequence[int], frames: list[Any]) -> np.ndarray[Any, Any]:
    return np.stack([_frame(path, split, index, frames[index]) for index in rows])


def _frame(path: Path, split: str, index: int, frame: Any) -> np.ndarray[Any, Any]:
    points = np.full((get_skeleton(_SKELETON).num_points, 3), np.nan, np.float32)
    if frame is None:
        return points
    if not isinstance(frame, dict):
        raise FormatError(
            "{path}: {split!r} frame {index}: expected parts by name",
            path=path,
            split=split[:80],
            index=index,
        )
    for part in get_skeleton(_SKELETON).parts:
        value = frame.get(part.name)
        if value is None:
            continue
        array = array_of(value)
        if array.shape != (len(part), 3) or array.dtype.kind not in "fiu":
            raise FormatError(
                "{path}: {split!r} frame {index}: expected {name} ({num_part}, 3) or None, got "
                "{array_dtype} {array_shape}",
                path=path,
                split=split[:80],
                index=index,
                name=part.name,
                num_part=len(part),
                array_dtype=array.dtype,
                array_shape=array.shape,
            )
        points[part.start : part.stop] = array
    return points
