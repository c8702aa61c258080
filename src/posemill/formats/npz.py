"""`.npz`, the model's input: all frames of all clips behind each other, mapped instead of loaded.

Per frame (N): `keypoints` float32 (N, K, 3), `mask` bool and `scores` float32 (N, K),
`frame_index` int64, `sizes_wh` int32 (N, 2), `image_paths`, `video_ids`. Per clip (C): `offsets`
(first frame) and `lengths` int64, `clip_ids`, `splits`, `labels`, `clip_info` (JSON).
`keypoint_names` (K), and `meta` (1): JSON with version, skeleton and recipe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.archives import MappedNpz, open_npz
from posemill.blocks import ClipBlock, join_stream
from posemill.errors import FormatError
from posemill.files import atomic_path
from posemill.formats.archive_writer import ArchiveWriter
from posemill.formats.contract import (
    Recipe,
    Size,
    SkeletonCheck,
    Summary,
    expect_clips,
    header_text,
    info_text,
    make_clip,
    read_header,
    read_info,
    reading,
    skeleton_for,
)
from posemill.geometry import Fill, fill_missing
from posemill.records import FloatArray, PoseClip
from posemill.skeletons import Skeleton, get_skeleton

__all__ = ["NpzFormat", "open_npz"]

_SPLIT_IN_NAME = re.compile(r"(\w+?)_keypoints\.npz$")


class NpzFormat:
    """One `.npz`; reading also takes a folder of `{split}_keypoints.npz` and files of others."""

    name = "npz"
    suffix = ".npz"
    layouts: tuple[str, ...] = ("holistic-143", "holistic-543", "openpose-18", "coco-133")
    has_pixels = False
    has_mask = True
    losses: tuple[str, ...] = ()

    def sniff(self, path: Path) -> bool:
        """Return True for a `.npz`, or a folder with `*_keypoints.npz` in it."""
        if path.is_dir():
            return any(path.glob("*_keypoints.npz"))
        return path.suffix == ".npz"

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
        summary, check = Summary(path, self.name), SkeletonCheck(self, path)
        with (
            atomic_path(path) as temporary,
            ArchiveWriter(temporary, num_rows=num_frames) as archive,
        ):
            columns: _Columns | None = None
            for block in blocks:
                check.check_block(block)
                if columns is None:
                    columns = _Columns(archive, get_skeleton(check.name))
                columns.append(block, recipe)
                for clip in block.clips:
                    summary.count(clip)
            check.finish(summary)
            assert columns is not None
            columns.finish(header_text(self.name, check.name, recipe))
        return summary

    def read(self, path: Path, *, size_wh: Size | None = None) -> Iterator[PoseClip]:
        """Yield the clips, after one pass over the file to compare its checksums."""
        paths = sorted(path.glob("*_keypoints.npz")) if path.is_dir() else [path]
        if not paths:
            raise FormatError(f"{path}: expected files named {{split}}_keypoints.npz, found none")
        for one in paths:
            with reading(one, self.name):
                arrays = open_npz(one)
                arrays.verify()
                yield from clips_of(arrays, size_wh=size_wh)


class _Columns:
    """The arrays of an archive, growing block by block."""

    def __init__(self, archive: ArchiveWriter, skeleton: Skeleton) -> None:
        num_points = skeleton.num_points
        self._archive, self._point_names = archive, skeleton.point_names
        self._keypoints = archive.column("keypoints", np.float32, (num_points, 3))
        self._scores = archive.column("scores", np.float32, (num_points,))
        self._mask = archive.column("mask", np.bool_, (num_points,))
        self._frame_index = archive.column("frame_index", np.int64)
        self._sizes_wh = archive.column("sizes_wh", np.int32, (2,))
        self._texts = {name: archive.texts(name) for name in ("image_paths", "video_ids",
                       "clip_ids", "splits", "labels", "clip_info")}  # fmt: skip
        self._lengths: list[int] = []

    def append(self, block: ClipBlock, recipe: Recipe) -> None:
        frames = block.frames
        self._keypoints.append(_filled(block, recipe.fill or "zero"))
        self._scores.append(frames.scores)
        self._mask.append(frames.mask)
        self._frame_index.append(frames.frame_indices)
        self._sizes_wh.append(frames.sizes_wh)
        self._lengths += block.lengths.tolist()
        ids = [clip.clip_id for clip in block.clips]
        paths: list[str] = []
        for clip in block.clips:
            paths += clip.image_paths or [""] * len(clip)
        self._texts["image_paths"].extend(paths)
        self._texts["video_ids"].extend(ids, block.lengths)
        self._texts["clip_ids"].extend(ids)
        self._texts["splits"].extend([clip.split for clip in block.clips])
        self._texts["labels"].extend([clip.label or "" for clip in block.clips])
        self._texts["clip_info"].extend([info_text(clip) for clip in block.clips])

    def finish(self, header: str) -> None:
        self._archive.texts("keypoint_names").extend(self._point_names)
        self._archive.texts("meta").extend([header])
        sizes = np.array(self._lengths, np.int64)
        self._archive.finish({"lengths": sizes, "offsets": np.cumsum(sizes) - sizes})


def _filled(block: ClipBlock, fill: Fill) -> FloatArray:
    if fill == "zero":
        return block.zeroed
    # Lines are drawn inside a clip, never from one to the next.
    return np.concatenate([fill_missing(clip.points, fill) for clip in block.clips])


def clips_of(arrays: MappedNpz, *, size_wh: Size | None = None) -> Iterator[PoseClip]:
    """Yield the clips of an archive: of ours, or of any that has `keypoints` (N, K, 2 or 3).

    Without `lengths`, frames of the same `video_ids` that follow each other are a clip. Without
    `mask`, points that are all zero or NaN are missing. Without `splits`, the file's name says it.
    """
    path = arrays.path
    if "keypoints" not in arrays:
        raise FormatError(
            f"{path}: expected an array 'keypoints', found {', '.join(sorted(arrays)) or 'nothing'}"
        )
    keypoints = arrays["keypoints"]
    if keypoints.ndim != 3 or keypoints.dtype.kind not in "fiu":
        raise FormatError(
            f"{path}: expected keypoints (frames, points, 2 or 3), got {keypoints.dtype} "
            f"{keypoints.shape}"
        )
    header = read_header(str(arrays["meta"].reshape(-1)[0])) if "meta" in arrays else {}
    skeleton = skeleton_for(keypoints.shape[1], path, header.get("skeleton"))
    _check_names(arrays, skeleton)
    frames = _frame_arrays(arrays, len(keypoints))
    lengths = _lengths(arrays, frames, len(keypoints))
    per_clip = _clip_arrays(arrays, len(lengths))
    expect_clips(path, len(lengths))
    default_split = _split_of(path)
    start = 0
    for index, length in enumerate(lengths):
        rows = slice(start, start + length)
        start += length
        given = {name: str(values[index]) for name, values in per_clip.items()}
        first_id = str(frames["video_ids"][rows][0]) if "video_ids" in frames and length else ""
        yield make_clip(
            path, np.array(keypoints[rows]), _cut(frames, "scores", rows),
            _cut(frames, "mask", rows), sizes_wh=_sizes(frames, rows, length, size_wh),
            skeleton_name=skeleton, clip_id=given.get("clip_ids") or first_id or path.stem,
            split=given.get("splits") or default_split,
            frame_indices=_cut(frames, "frame_index", rows, np.arange(length, dtype=np.int64)),
            image_paths=_paths(frames, rows), **_info(given),
        )  # fmt: skip


def _info(given: Mapping[str, str]) -> dict[str, Any]:
    if "clip_info" in given:
        return read_info(given["clip_info"])
    return {"label": given.get("labels") or None}


def _paths(frames: Mapping[str, npt.NDArray[Any]], rows: slice) -> tuple[str, ...]:
    paths = tuple(frames["image_paths"][rows].tolist()) if "image_paths" in frames else ()
    return paths if any(paths) else ()


def _cut(
    frames: Mapping[str, npt.NDArray[Any]], name: str, rows: slice, default: Any = None
) -> Any:
    return np.array(frames[name][rows]) if name in frames else default


def _sizes(
    frames: Mapping[str, npt.NDArray[Any]], rows: slice, length: int, size_wh: Size | None
) -> npt.NDArray[np.int32]:
    if "sizes_wh" in frames:
        return np.array(frames["sizes_wh"][rows], np.int32)
    return np.tile(np.array(size_wh or (0, 0), np.int32), (length, 1))


# name -> (kinds of dtype, shape of a row: None for the number of keypoints)
_FRAME_ARRAYS: dict[str, tuple[str, tuple[int | None, ...]]] = {
    "scores": ("f", (None,)),
    "mask": ("b", (None,)),
    "frame_index": ("iu", ()),
    "sizes_wh": ("iu", (2,)),
    "image_paths": ("U", ()),
    "video_ids": ("Uiu", ()),
}


def _frame_arrays(arrays: MappedNpz, num_frames: int) -> dict[str, npt.NDArray[Any]]:
    found = {}
    num_points = arrays["keypoints"].shape[1]
    for name, (kinds, row) in _FRAME_ARRAYS.items():
        if name not in arrays:
            continue
        array = arrays[name]
        expected = (num_frames, *(num_points if length is None else length for length in row))
        if array.shape != expected or array.dtype.kind not in kinds:
            raise FormatError(
                f"{arrays.path}: expected '{name}' of shape {expected} (kind {kinds}), got "
                f"{array.dtype} {array.shape}"
            )
        found[name] = array
    return found


def _clip_arrays(arrays: MappedNpz, num_clips: int) -> dict[str, npt.NDArray[Any]]:
    found = {}
    for name in ("clip_ids", "splits", "labels", "clip_info"):
        if name not in arrays:
            continue
        if arrays[name].shape != (num_clips,):
            raise FormatError(
                f"{arrays.path}: expected '{name}' for {num_clips} clips, got {arrays[name].shape}"
            )
        found[name] = arrays[name]
    return found


def _lengths(
    arrays: MappedNpz, frames: Mapping[str, npt.NDArray[Any]], num_frames: int
) -> list[int]:
    if "lengths" in arrays:
        lengths = arrays["lengths"]
        if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any():
            raise FormatError(
                f"{arrays.path}: expected 'lengths' of whole numbers, got {lengths!r}"
            )
        if sum(lengths.tolist()) != num_frames:
            raise FormatError(
                f"{arrays.path}: lengths add up to {sum(lengths.tolist())}, keypoints has "
                f"{num_frames} frames"
            )
        return [int(length) for length in lengths]
    if "video_ids" not in frames:
        return [num_frames] if num_frames else []
    ids = frames["video_ids"]
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]]) if num_frames else np.zeros(0, int)
    return np.diff(np.r_[starts, num_frames]).tolist() if num_frames else []


def _check_names(arrays: MappedNpz, skeleton_name: str) -> None:
    if "keypoint_names" not in arrays:
        return
    expected, got = get_skeleton(skeleton_name).point_names, arrays["keypoint_names"].tolist()
    if tuple(got) != expected:
        different = next((i for i, pair in enumerate(zip(expected, got, strict=False))
                          if pair[0] != pair[1]), min(len(expected), len(got)))  # fmt: skip
        raise FormatError(
            f"{arrays.path}: keypoint_names are not those of {skeleton_name}; the first difference "
            f"is at {different}"
        )


def _split_of(path: Path) -> str:
    match = _SPLIT_IN_NAME.search(path.name)
    return match.group(1) if match else "all"
