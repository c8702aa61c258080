"""`.npz`, the model's input: all frames of all clips behind each other, mapped instead of loaded.

Its arrays: docs/formats.md. Of several people, M of each frame: `keypoints` (N, M, K, 3), `mask`
and `scores` (N, M, K), and no `world`.
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
from posemill.formats.shared import contract
from posemill.formats.shared.contract import ClipStream, Format, Recipe, Size, Summary
from posemill.formats.shared.json_text import info_text, read_info
from posemill.formats.shared.people import are_pixels, from_pixels
from posemill.geometry import Fill, fill_missing
from posemill.npz.clips import read_npz_clips, split_by_name
from posemill.npz.mapped import MappedNpz, open_npz
from posemill.npz.writer import ArchiveWriter
from posemill.records import FloatArray, PoseClip, nothing_in_metres
from posemill.skeletons import get_skeleton

_ROWS = ("keypoints", "scores", "mask", "frame_index", "sizes_wh", "image_paths", "world")


class NpzFormat(Format):
    """One `.npz`; reading also takes a folder of `{split}_keypoints.npz` and files of others."""

    name = "npz"
    suffix = ".npz"
    files_inside = "*_keypoints.npz"
    layouts: tuple[str, ...] = ("holistic-143", contract.ANY)
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

        Of the recipe `fill` is done here, the rest was before. Where the frames of all blocks are
        known, nothing is written twice.
        """
        stream, lengths = ClipStream(self, (), path, recipe), list[int]()
        with (
            naming(path),
            atomic_path(path) as temporary,
            ArchiveWriter(temporary, num_rows=num_frames) as archive,
        ):
            for block in stream.blocks(blocks):
                lengths += block.lengths.tolist()
                for name, rows in _rows_of(block, recipe.fill or "zero").items():
                    archive.append(name, rows)
                world = block.frames.world
                if stream.keeps_world and not block.beside:
                    world = nothing_in_metres(len(block)) if world is None else world
                    archive.append("world", world)
                for name, texts in _texts_of(block).items():
                    archive.extend(name, texts)
            archive.extend("keypoint_names", get_skeleton(stream.skeleton_name).point_names)
            archive.extend("meta", [json.dumps(stream.header())])
            sizes = np.array(lengths, np.int64)
            archive.finish({"lengths": sizes, "offsets": np.cumsum(sizes) - sizes})
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


def _rows_of(block: ClipBlock, fill: Fill) -> dict[str, npt.NDArray[Any]]:
    """Return the `FRAME_ARRAYS` of clips; several people are on an axis behind the frames."""
    frames, people = block.frames, (block, *block.beside)
    by_person = (
        [_filled(person, fill) for person in people],
        [person.frames.scores for person in people],
        [person.frames.mask for person in people],
    )
    stacked = (rows[0] if len(rows) == 1 else np.stack(rows, axis=1) for rows in by_person)
    return contract.as_frame_arrays(*stacked, frames.frame_indices, frames.sizes_wh)


def _texts_of(block: ClipBlock) -> dict[str, list[str]]:
    clips = block.clips
    ids = [clip.clip_id for clip in clips]
    return {
        "image_paths": [path for clip in clips for path in clip.image_paths or [""] * len(clip)],
        "video_ids": np.repeat(np.array(ids, object), block.lengths).tolist(),
        "clip_ids": ids,
        "splits": [clip.split for clip in clips],
        "labels": [clip.label or "" for clip in clips],
        "clip_info": [info_text(clip) for clip in clips],
    }


def _filled(block: ClipBlock, fill: Fill) -> FloatArray:
    if fill == "zero":
        return block.zeroed
    # Lines are drawn inside a clip, never from one to the next.
    return np.concatenate([fill_missing(clip.points, fill) for clip in block.clips])


def clips_of(arrays: MappedNpz, size_wh: Size | None = None) -> Iterator[PoseClip]:
    """Yield the clips of an archive: of ours, or of any that has `keypoints` (N, K, 2 or 3)."""
    path = arrays.path
    if has_landmarks(arrays):
        yield read_landmarks(arrays, split=split_by_name(path), size_wh=size_wh)
        return
    clips = read_npz_clips(arrays)
    keypoints = arrays["keypoints"]
    done = contract.header_fields(clips.header, keypoints.shape[1], path)
    if "keypoint_names" in arrays:
        _check_names(arrays["keypoint_names"].tolist(), done["skeleton_name"])
    is_pixels = "posemill" not in clips.header and are_pixels(keypoints)
    for index, (start, stop) in enumerate(pairwise(clips.offsets.tolist())):
        rows = {name: np.array(arrays[name][start:stop]) for name in _ROWS if name in arrays}
        points = rows["keypoints"]
        sizes = rows.get("sizes_wh", contract.same_sizes(size_wh, stop - start)).astype(np.int32)
        info = read_info(str(arrays["clip_info"][index])) if "clip_info" in arrays else {}
        yield contract.make_clip(
            from_pixels(points, sizes) if is_pixels else points,
            rows.get("scores"),
            rows.get("mask"),
            sizes_wh=sizes,
            clip_id=clips.clip_ids[index],
            split=clips.splits[index] or split_by_name(path),
            frame_indices=rows.get("frame_index", np.arange(stop - start)),
            image_paths=tuple(rows["image_paths"].tolist()) if "image_paths" in rows else (),
            world=rows.get("world"),
            **done,
            **{**info, "label": clips.labels[index] or info.get("label")},
        )


def _check_names(names: list[str], skeleton_name: str) -> None:
    """Raise if the points are called otherwise than those of the skeleton."""
    pairs = enumerate(zip_longest(get_skeleton(skeleton_name).point_names, names))
    different = next((index for index, (name, other) in pairs if name != other), None)
    if different is not None:
        template = "keypoint_names are not those of {skeleton_name}: they differ at {different}"
        raise ContentError(template, skeleton_name=skeleton_name, different=different)
