"""`.npz`, the model's input: all frames of all clips behind each other, mapped instead of loaded.

Per frame (N): `keypoints` float32 (N, K, 3), `mask` bool and `scores` float32 (N, K),
`frame_index` int64, `sizes_wh` int32 (N, 2), `image_paths`, `video_ids`. Per clip (C): `offsets`
(first frame) and `lengths` int64, `clip_ids`, `splits`, `labels`, `clip_info` (JSON).
Of clips with landmarks in metres: `world` float32 (N, 75, 3), as in `PoseClip`.
Of several people, M of each frame: `keypoints` (N, M, K, 3), `mask` and `scores` (N, M, K).
`keypoint_names` (K), and `meta` (1): JSON with version, skeleton and recipe.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.blocks import ClipBlock, join_stream
from posemill.errors import ContentError
from posemill.files import atomic_path, naming, reading
from posemill.formats.landmarks_file import has_landmarks, read_landmarks
from posemill.formats.shared.contract import (
    ANY,
    ClipStream,
    Format,
    Recipe,
    Size,
    Summary,
    info_text,
    make_clip,
    read_info,
    same_sizes,
    skeleton_for,
)
from posemill.formats.shared.pixels import are_pixels, from_pixels
from posemill.geometry import Fill, fill_missing
from posemill.npz.clips import read_npz_clips, split_by_name
from posemill.npz.mapped import MappedNpz, open_npz
from posemill.npz.writer import ArchiveWriter
from posemill.records import FloatArray, PoseClip, fields_of_recipe, nothing_in_metres
from posemill.skeletons import WORLD_LAYOUT, Skeleton, get_skeleton


class NpzFormat(Format):
    """One `.npz`; reading also takes a folder of `{split}_keypoints.npz` and files of others."""

    name = "npz"
    suffix = ".npz"
    file_ending = ".npz"
    files_inside = "*_keypoints.npz"
    layouts: tuple[str, ...] = ("holistic-143", ANY)
    has_mask = True
    holds_world = True

    def write(self, clips: Iterable[PoseClip], path: Path, *, recipe: Recipe) -> Summary:
        """Write one archive; see the module for its arrays."""
        return self.write_blocks(join_stream(clips), path, recipe=recipe)

    def write_blocks(
        self,
        blocks: Iterable[ClipBlock],
        path: Path,
        *,
        recipe: Recipe,
        num_frames: int | None = None,
    ) -> Summary:
        """Write one archive of clips that come many at a time, which is faster.

        Args:
            blocks: Of any splits, one skeleton.
            path: The file.
            recipe: Recorded; its `fill` is done here, the rest was before.
            num_frames: The frames of all blocks; if known, nothing is written twice.
        """
        stream = ClipStream(self, (), path, recipe)
        with (
            naming(path),
            atomic_path(path) as temporary,
            ArchiveWriter(temporary, num_rows=num_frames) as archive,
        ):
            columns: _Columns | None = None
            for block in stream.blocks(blocks):
                if columns is None:
                    columns = _Columns(
                        archive,
                        get_skeleton(stream.skeleton_name),
                        keeps_world=stream.keeps_world and not block.beside,
                        num_people=1 + len(block.beside),
                    )
                columns.append(block, recipe)
            assert columns is not None
            columns.finish(json.dumps(stream.header()))
        return stream.summary

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips, after one pass over the file to compare its checksums."""
        paths = sorted(path.glob("*_keypoints.npz")) if path.is_dir() else [path]
        if not paths:
            raise ValueError("expected files named SPLIT_keypoints.npz, found none")
        for file in paths:
            arrays = open_npz(file)
            arrays.verify()
            with reading(file, self.name):
                yield from clips_of(arrays, size_wh)


class _Columns:
    """The arrays of an archive, growing block by block."""

    def __init__(
        self,
        archive: ArchiveWriter,
        skeleton: Skeleton,
        *,
        keeps_world: bool,
        num_people: int,
    ) -> None:
        row = (skeleton.num_points,) if num_people == 1 else (num_people, skeleton.num_points)
        self._archive, self._point_names = archive, skeleton.point_names
        self._keypoints = archive.column("keypoints", np.float32, (*row, 3))
        self._scores = archive.column("scores", np.float32, row)
        self._mask = archive.column("mask", np.bool_, row)
        self._frame_index = archive.column("frame_index", np.int64)
        self._sizes_wh = archive.column("sizes_wh", np.int32, (2,))
        world_shape = (WORLD_LAYOUT.num_points, 3)
        self._world = archive.column("world", np.float32, world_shape) if keeps_world else None
        self._texts = {
            name: archive.texts(name)
            for name in ("image_paths", "video_ids", "clip_ids", "splits", "labels", "clip_info")
        }
        self._lengths: list[int] = []

    def append(self, block: ClipBlock, recipe: Recipe) -> None:
        frames = block.frames
        people = (block, *block.beside)
        self._keypoints.append(_stacked([_filled(each, recipe.fill or "zero") for each in people]))
        self._scores.append(_stacked([each.frames.scores for each in people]))
        self._mask.append(_stacked([each.frames.mask for each in people]))
        self._frame_index.append(frames.frame_indices)
        self._sizes_wh.append(frames.sizes_wh)
        if self._world is not None:
            world = frames.world
            self._world.append(nothing_in_metres(len(frames)) if world is None else world)
        self._lengths += block.lengths.tolist()
        ids = [clip.clip_id for clip in block.clips]
        paths: list[str] = []
        for clip in block.clips:
            paths += clip.image_paths or [""] * len(clip)
        self._texts["image_paths"].extend(paths)
        self._texts["video_ids"].extend(np.repeat(np.array(ids, object), block.lengths).tolist())
        self._texts["clip_ids"].extend(ids)
        self._texts["splits"].extend([clip.split for clip in block.clips])
        self._texts["labels"].extend([clip.label or "" for clip in block.clips])
        self._texts["clip_info"].extend([info_text(clip) for clip in block.clips])

    def finish(self, header: str) -> None:
        self._archive.texts("keypoint_names").extend(self._point_names)
        self._archive.texts("meta").extend([header])
        sizes = np.array(self._lengths, np.int64)
        self._archive.finish({"lengths": sizes, "offsets": np.cumsum(sizes) - sizes})


def _stacked(people: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the array of one person, or those of several on an axis behind the frames."""
    return people[0] if len(people) == 1 else np.stack(people, axis=1)


def _filled(block: ClipBlock, fill: Fill) -> FloatArray:
    if fill == "zero":
        return block.zeroed
    # Lines are drawn inside a clip, never from one to the next.
    return np.concatenate([fill_missing(clip.points, fill) for clip in block.clips])


def clips_of(arrays: MappedNpz, size_wh: Size | None = None) -> Iterator[PoseClip]:
    """Yield the clips of an archive: of ours, or of any that has `keypoints` (N, K, 2 or 3).

    Without `splits`, the file's name says it. Points of another maker that are pixels are divided
    by the pictures' size.
    """
    path = arrays.path
    if has_landmarks(arrays):
        yield read_landmarks(arrays, split=split_by_name(path), size_wh=size_wh)
        return
    clips = read_npz_clips(arrays)
    keypoints = arrays["keypoints"]
    skeleton = skeleton_for(keypoints.shape[1], path, clips.header.get("skeleton"))
    done = fields_of_recipe(clips.header.get("recipe"))
    if "keypoint_names" in arrays:
        _check_names(arrays["keypoint_names"].tolist(), skeleton)
    is_pixels = "posemill" not in clips.header and are_pixels(keypoints)
    for index, (start, stop) in enumerate(pairwise(clips.offsets.tolist())):
        rows = slice(start, stop)
        points, paths = np.array(keypoints[rows]), _cut(arrays, "image_paths", rows, np.zeros(0))
        sizes = _cut(arrays, "sizes_wh", rows, same_sizes(size_wh, stop - start)).astype(np.int32)
        info = read_info(str(arrays["clip_info"][index])) if "clip_info" in arrays else {}
        yield make_clip(
            from_pixels(points, sizes) if is_pixels else points,
            _cut(arrays, "scores", rows),
            _cut(arrays, "mask", rows),
            sizes_wh=sizes,
            skeleton_name=skeleton,
            clip_id=clips.clip_ids[index],
            split=clips.splits[index] or split_by_name(path),
            frame_indices=_cut(arrays, "frame_index", rows, np.arange(stop - start)),
            image_paths=tuple(paths.tolist()) if paths.any() else (),
            world=_cut(arrays, "world", rows),
            **done,
            **{**info, "label": clips.labels[index] or info.get("label")},
        )


def _cut(arrays: MappedNpz, name: str, rows: slice, default: Any = None) -> Any:
    return np.array(arrays[name][rows]) if name in arrays else default


def _check_names(names: list[str], skeleton_name: str) -> None:
    """Raise if the points are called otherwise than those of the skeleton."""
    expected = get_skeleton(skeleton_name).point_names
    if tuple(names) != expected:
        pairs = enumerate(zip_longest(expected, names))
        different = next(index for index, (name, other) in pairs if name != other)
        raise ContentError(
            "keypoint_names are not those of {skeleton_name}; the first difference is at "
            "{different}",
            skeleton_name=skeleton_name,
            different=different,
        )
