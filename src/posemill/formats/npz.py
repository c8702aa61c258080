"""`.npz`, the model's input: all frames of all clips behind each other, mapped instead of loaded.

Per frame (N): `keypoints` float32 (N, K, 3), `mask` bool and `scores` float32 (N, K),
`frame_index` int64, `sizes_wh` int32 (N, 2), `image_paths`, `video_ids`. Per clip (C): `offsets`
(first frame) and `lengths` int64, `clip_ids`, `splits`, `labels`, `clip_info` (JSON).
Of clips with landmarks in metres: `world` float32 (N, 75, 3), as in `PoseClip`.
Of several people, M of each frame: `keypoints` (N, M, K, 3), `mask` and `scores` (N, M, K).
`keypoint_names` (K), and `meta` (1): JSON with version, skeleton and recipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.archives import open_npz
from posemill.blocks import ClipBlock, join_stream
from posemill.errors import FormatError
from posemill.files import atomic_path
from posemill.formats.shared.archive_writer import ArchiveWriter
from posemill.formats.shared.contract import (
    ANY,
    Recipe,
    Size,
    SkeletonCheck,
    Summary,
    header_text,
    info_text,
    reading,
)
from posemill.formats.shared.npz_reader import clips_of
from posemill.geometry import Fill, fill_missing
from posemill.records import FloatArray, PoseClip, nothing_in_metres
from posemill.skeletons import WORLD_LAYOUT, Skeleton, get_skeleton

__all__ = ["NpzFormat", "open_npz"]


class NpzFormat:
    """One `.npz`; reading also takes a folder of `{split}_keypoints.npz` and files of others."""

    name = "npz"
    suffix = ".npz"
    layouts: tuple[str, ...] = ("holistic-143", ANY)
    has_pixels = False
    has_mask = True
    holds_world = True
    losses: tuple[str, ...] = ()

    def sniff(self, path: Path) -> bool:
        """Return True for a `.npz`, or a folder with `*_keypoints.npz` in it."""
        if path.is_dir():
            return any(path.glob("*_keypoints.npz"))
        return path.suffix.lower() == ".npz"

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
            whole = recipe
            for block in blocks:
                check.check_block(block)
                if columns is None:
                    columns = _Columns(
                        archive,
                        get_skeleton(check.name),
                        keeps_world=check.keeps_world and not block.beside,
                        num_people=1 + len(block.beside),
                    )
                whole = whole.after(block.frames)
                columns.append(block, recipe)
                for clip in block.clips:
                    summary.count(clip)
            check.finish(summary)
            assert columns is not None
            columns.finish(header_text(self.name, check.name, whole))
        return summary

    def read(self, path: Path, *, size_wh: Size | None = None) -> Iterator[PoseClip]:
        """Yield the clips, after one pass over the file to compare its checksums."""
        paths = sorted(path.glob("*_keypoints.npz")) if path.is_dir() else [path]
        if not paths:
            raise FormatError(
                "{path}: expected files named {split}_keypoints.npz, found none", path=path
            )
        for one in paths:
            with reading(one, self.name):
                arrays = open_npz(one)
                arrays.verify()
                yield from clips_of(arrays, size_wh=size_wh)


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
        self._texts = {name: archive.texts(name) for name in ("image_paths", "video_ids",
                       "clip_ids", "splits", "labels", "clip_info")}  # fmt: skip
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


def _stacked(people: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the array of one person, or those of several on an axis behind the frames."""
    return people[0] if len(people) == 1 else np.stack(people, axis=1)


def _filled(block: ClipBlock, fill: Fill) -> FloatArray:
    if fill == "zero":
        return block.zeroed
    # Lines are drawn inside a clip, never from one to the next.
    return np.concatenate([fill_missing(clip.points, fill) for clip in block.clips])
