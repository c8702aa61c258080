"""`.pkl` in the layout many projects use, see docs/formats.md: of each split three lists."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import numpy as np

from posemill.formats.shared import contract
from posemill.formats.shared import pickles as out
from posemill.formats.shared.contract import ClipStream, Format, Size
from posemill.formats.shared.losses import EMPTY_CLIPS, EXTRA, FPS, LABELS, POSITIONS, SCORES, SIZES
from posemill.formats.shared.people import LOOKED_AT, are_pixels, from_pixels
from posemill.formats.shared.pickles import array_of, has_annotations, load_pickle
from posemill.npz.clips import expect_new, read_object
from posemill.npz.mapped import check_array
from posemill.records import PoseClip, fields_of_recipe
from posemill.skeletons import get_skeleton

_SKELETON = "holistic-143"
_LISTS = ("keypoints", "image_paths", "video_ids")
_COPY_BYTES = 1 << 20


class PklFormat(Format):
    """One pickle of plain types and numpy arrays; read without running anything in it."""

    name = "pkl"
    suffix = ".pkl"
    layouts: tuple[str, ...] = (_SKELETON,)
    may_lose = (SCORES, SIZES, POSITIONS, LABELS, FPS, EXTRA, EMPTY_CLIPS)

    def begins_like(self, start: bytes) -> bool:
        """Return True for a pickle that is not one of pyskl's."""
        return not has_annotations(start)

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write one pickle; the lists of each split wait in temporary files."""
        waiting: dict[str, dict[str, IO[bytes]]] = {}
        with ExitStack() as files:
            for clip in clips:
                if clip.split not in waiting:
                    waiting[clip.split] = {
                        name: files.enter_context(tempfile.TemporaryFile(dir=path.parent))
                        for name in _LISTS
                    }
                _write_frames(clip, waiting[clip.split])
            header = out.pickled(json.dumps(clips.header()))
            content = {
                split: out.pickled_dict({**dict(_read_lists(lists)), "posemill": header})
                for split, lists in waiting.items()
            }
            out.write_pickle(path, content)

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips: runs of frames with one video id."""
        content = load_pickle(path)
        if not isinstance(content, dict):
            kind = type(content).__name__
            raise ValueError(f"expected {{split: {{'keypoints': …}}}}, got {kind}")
        for split, lists in content.items():
            yield from _clips_of(str(split), lists, size_wh)


def _write_frames(clip: PoseClip, lists: dict[str, IO[bytes]]) -> None:
    parts = clip.skeleton.parts
    for points, present in zip(clip.points, clip.present, strict=True):
        items = {
            part.name: out.pickled_array(points[part.start : part.stop]) if is_there else b"N"
            for part, is_there in zip(parts, present, strict=True)
        }
        lists["keypoints"].writelines(out.pickled_dict(items))
    lists["image_paths"].writelines(map(out.pickled, clip.image_paths or ("",) * len(clip)))
    lists["video_ids"].write(out.pickled(clip.clip_id) * len(clip))


def _read_lists(lists: dict[str, IO[bytes]]) -> Iterator[tuple[str, Iterator[bytes]]]:
    for name, file in lists.items():
        file.seek(0)
        yield name, out.pickled_list(iter(partial(file.read, _COPY_BYTES), b""))


def _clips_of(split: str, lists: Any, size_wh: Size | None) -> Iterator[PoseClip]:
    if not isinstance(lists, dict) or not isinstance(lists.get("keypoints"), list):
        raise ValueError(f"split {split[:80]!r}: expected a list 'keypoints'")
    frames = lists["keypoints"]
    if not frames:
        raise ValueError(f"split {split[:80]!r} holds no frames; expected at least one")
    paths, ids = (_strings(lists, name, len(frames)) for name in _LISTS[1:])
    if not any(ids):
        ids = [name.rpartition("/")[0] or split for name in paths]
    header = lists.get("posemill")
    ours = read_object(header) if isinstance(header, str) else {}
    some = range(0, len(frames), max(1, len(frames) // LOOKED_AT))
    is_pixels = not ours and are_pixels(_points(split, some, frames))
    seen = set[str]()
    for clip_id, group in groupby(range(len(frames)), key=ids.__getitem__):
        rows = list(group)
        expect_new(clip_id, seen, rows[0])
        points, sizes = _points(split, rows, frames), contract.same_sizes(size_wh, len(rows))
        yield contract.make_clip(
            from_pixels(points, sizes) if is_pixels else points,
            skeleton_name=_SKELETON,
            clip_id=clip_id,
            split=split,
            sizes_wh=sizes,
            image_paths=tuple(paths[index] for index in rows),
            **fields_of_recipe(ours.get("recipe")),
        )


def _strings(lists: Any, name: str, length: int) -> list[str]:
    values: list[Any] = lists.get(name, [""] * length)
    if not isinstance(values, list):
        values = array_of(values).tolist()
    if len(values) != length:
        raise ValueError(f"a split has {length} keypoints and {len(values)} {name}")
    return list(map(str, values))


def _points(split: str, rows: Sequence[int], frames: list[Any]) -> np.ndarray[Any, Any]:
    """Return `(rows, keypoints, 3)`, NaN where a part is missing."""
    skeleton = get_skeleton(_SKELETON)
    points = np.full((len(rows), skeleton.num_points, 3), np.nan, np.float32)
    for place, index in zip(points, rows, strict=True):
        parts = {} if frames[index] is None else frames[index]
        if not isinstance(parts, dict):
            raise ValueError(f"{split[:80]!r} frame {index}: expected parts by name")
        for part in skeleton.parts:
            if parts.get(part.name) is None:
                continue
            array = array_of(parts[part.name])
            check_array(array, f"{part.name} of {split[:80]} frame {index}", "fiu", (len(part), 3))
            place[part.start : part.stop] = array
    return points
