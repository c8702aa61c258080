"""The table of a run, a row per frame: its versioned Arrow schema, clips to rows and back."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from posemill.blocks import ClipBlock
from posemill.errors import RunError
from posemill.files import parse_json, readable
from posemill.records import (
    FloatArray,
    IntArray,
    OtherPeople,
    PersonIds,
    PoseClip,
    nothing_in_metres,
)
from posemill.skeletons import WORLD_LAYOUT, get_skeleton

SCHEMA_VERSION = 2  # of a shard
_WORLD_SHAPE = (WORLD_LAYOUT.num_points, 3)
# Columns of runs whose engine finds several people: all but the one in `keypoints`, largest first,
# and the ids of the one and of the others, null where people were not followed; and of runs with
# landmarks in metres: x, y and z of 75 points, null for clips without them, and of the others.
OPTIONAL = {
    "other_keypoints": pa.list_(pa.float32()),
    "other_scores": pa.list_(pa.float32()),
    "person_ids": pa.list_(pa.int32()),
    "world": pa.list_(pa.float32()),
    "other_world": pa.list_(pa.float32()),
}
# What `block_of` needs; the ledger knows the rest.
CLIP_COLUMNS = ("image_path", "width", "height", "keypoints", "scores", "label", "fps", "extra",
                *OPTIONAL)  # fmt: skip
_VERSION_KEY, _SKELETON_KEY = b"posemill.schema_version", b"posemill.skeleton"


def leave_pandas_unloaded() -> None:
    """Let pyarrow do without pandas in this process, until somebody calls `to_pandas`.

    pyarrow loads it at its first array, to ask whether it was given a series: 0.4 s of CPU and
    45 MB in every worker.
    """

    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":  # the rest is for the other finders
            raise ModuleNotFoundError(name, name=name)

    finder = cast(Any, SimpleNamespace(find_spec=find_spec))
    sys.meta_path.insert(0, finder)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(finder)


def run_schema(skeleton_name: str, optional: Collection[str] = ()) -> pa.Schema:
    """Return the columns of a run whose keypoints have that skeleton; of `OPTIONAL` those named.

    `keypoints` are x, y, z of the first point, of the second, … as in `PoseClip.points`: NaN where
    not found. `has_<part>` says whether any point of the part was found. `extra` is a JSON object.
    """
    skeleton = get_skeleton(skeleton_name)
    num_points = skeleton.num_points
    fields = [
        pa.field("split", pa.string(), nullable=False),
        pa.field("clip_id", pa.string(), nullable=False),
        pa.field("frame_index", pa.int64(), nullable=False),
        pa.field("image_path", pa.string()),
        pa.field("width", pa.int32(), nullable=False),
        pa.field("height", pa.int32(), nullable=False),
        *(pa.field(f"has_{name}", pa.bool_(), nullable=False) for name in skeleton.part_names),
        pa.field("keypoints", pa.list_(pa.float32(), 3 * num_points), nullable=False),
        pa.field("scores", pa.list_(pa.float32(), num_points), nullable=False),
        pa.field("label", pa.string()),
        pa.field("fps", pa.float64()),
        pa.field("extra", pa.string()),
        *(pa.field(name, kind) for name, kind in OPTIONAL.items() if name in optional),
    ]
    metadata = {_VERSION_KEY: str(SCHEMA_VERSION).encode(), _SKELETON_KEY: skeleton_name.encode()}
    return pa.schema(fields, metadata)


def join_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Return rows behind each other; those that know one person only have nobody else."""
    same = len({tuple(table.schema.names) for table in tables}) == 1
    return pa.concat_tables(tables, promote_options="none" if same else "default")


def check_schema(schema: pa.Schema, where: str) -> str:
    """Return the skeleton's name of a shard, or raise if its schema is not one we can read."""
    metadata = schema.metadata or {}
    version = metadata.get(_VERSION_KEY, b"none").decode()
    if version != str(SCHEMA_VERSION) or _SKELETON_KEY not in metadata:
        raise RunError(
            "{name}: not a shard of a posemill run, or of another version (schema version "
            "{version}, this posemill reads {expected}); use the posemill that made it",
            name=where,
            version=version,
            expected=SCHEMA_VERSION,
        )
    return skeleton_of(schema)


def skeleton_of(schema: pa.Schema) -> str:
    """Return the skeleton's name of a checked schema, of a shard or of the table."""
    return str(schema.metadata[_SKELETON_KEY].decode())


def table_of(clip: PoseClip) -> pa.Table:
    """Return the rows of a clip, or of a piece of one."""
    num_frames, num_points = len(clip), clip.skeleton.num_points
    paths: Sequence[str | None] = [readable(path) for path in clip.image_paths]
    label = None if clip.label is None else readable(clip.label)
    columns: list[Any] = [
        pa.repeat(readable(clip.split), num_frames),
        pa.repeat(readable(clip.clip_id), num_frames),
        pa.array(np.asarray(clip.frame_indices, np.int64)),
        pa.array(paths or [None] * num_frames, pa.string()),
        pa.array(np.asarray(clip.sizes_wh[:, 0], np.int32)),
        pa.array(np.asarray(clip.sizes_wh[:, 1], np.int32)),
        *(pa.array(column) for column in clip.present.T),
        pa.FixedSizeListArray.from_arrays(_flat(clip.points), 3 * num_points),
        pa.FixedSizeListArray.from_arrays(_flat(clip.scores), num_points),
        pa.array([label] * num_frames, pa.string()),
        pa.array([clip.fps] * num_frames, pa.float64()),
        pa.array([_dump_extra(clip)] * num_frames, pa.string()),
    ]
    others, optional = clip.others, dict[str, pa.Array]()
    if others is not None:
        optional["other_keypoints"] = _lists_of(others.counts, others.points)
        optional["other_scores"] = _lists_of(others.counts, others.scores)
        ids = others.ids
        joined = ids and np.insert(ids.others, others.starts[:-1], ids.first).astype(np.int32)
        optional["person_ids"] = _lists_of(1 + others.counts, joined)
    if clip.world is not None:
        optional["world"] = _lists_of(np.ones(num_frames, np.int64), clip.world)
    if clip.world is not None and others is not None:
        optional["other_world"] = _lists_of(others.counts, others.world)
    schema = run_schema(clip.skeleton_name, optional)
    return pa.Table.from_arrays([*columns, *optional.values()], schema=schema)


def _flat(values: npt.NDArray[Any]) -> pa.Array:
    return pa.array(np.ascontiguousarray(values).reshape(-1))


def _lists_of(counts: IntArray, values: npt.NDArray[Any] | None) -> pa.Array:
    """Return a list for each frame: the numbers of so many people, or null where none has any."""
    if values is None:
        return pa.nulls(len(counts))
    ends = np.cumsum(counts * math.prod(values.shape[1:]))
    starts = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.ListArray.from_arrays(starts, _flat(values))


def _people_in(
    table: pa.Table, name: str, counts: IntArray, shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Return `(people, *shape)`: what `_lists_of` made a column of."""
    lists = table.column(name).combine_chunks()
    if (_lengths_of(lists) != math.prod(shape) * counts).any():
        raise RunError("the shard is damaged: its {name} are not of as many people", name=name)
    return numbers_of(lists.flatten()).reshape(-1, *shape)


def _lengths_of(lists: pa.Array) -> IntArray:
    return np.diff(numbers_of(lists.offsets)).astype(np.int64)


def people_of(table: pa.Table, num_points: int) -> OtherPeople | None:
    """Return the others of the rows of a table; None where it does not know them."""
    if "other_scores" not in table.schema.names:
        return None
    counts = _lengths_of(table.column("other_scores").combine_chunks()) // num_points
    ids = None
    if not table.column("person_ids").null_count:
        joined = _people_in(table, "person_ids", 1 + counts, ()).astype(np.int64)
        first = np.cumsum(1 + counts) - 1 - counts
        ids = PersonIds(joined[first], np.delete(joined, first))
    return OtherPeople(
        counts,
        _people_in(table, "other_keypoints", counts, (num_points, 3)),
        _people_in(table, "other_scores", counts, (num_points,)),
        world_of(table, "other_world", counts),
        ids,
    )


def world_of(table: pa.Table, name: str, counts: IntArray) -> FloatArray | None:
    """Return `(people, 75, 3)` in metres, NaN in frames without; None where no frame has any."""
    if name not in table.schema.names:
        return None
    has_metres = _lengths_of(table.column(name).combine_chunks()) > 0
    if not has_metres.any():
        return None
    world = nothing_in_metres(int(counts.sum()))
    known = _people_in(table, name, np.where(has_metres, counts, 0), _WORLD_SHAPE)
    world[np.repeat(has_metres, counts)] = known
    return world


def _dump_extra(clip: PoseClip) -> str | None:
    if not clip.extra:
        return None
    try:
        return readable(json.dumps(dict(clip.extra), ensure_ascii=False, sort_keys=True))
    except TypeError as error:
        raise ValueError(f"clip {clip.clip_id!r}: extra holds what JSON cannot: {error}") from error


def block_of(
    table: pa.Table,
    names: Sequence[tuple[str, str]],
    lengths: Sequence[int],
    made: Mapping[str, Any],
    *,
    whole: str,
) -> ClipBlock:
    """Return the clips whose rows these are, in `CLIP_COLUMNS`, by clip and frame.

    `names` are split and id of each, `made` what all have in common, as fields of `PoseClip`.
    `whole` is the run's skeleton; that of `made` may be a part of it.
    """
    skeleton_name = made["skeleton_name"]
    arrays = arrays_of(table, skeleton_name)
    if skeleton_name != whole:  # 0 where a point was not found, as in `PoseClip.as_skeleton`
        is_found = ~np.isnan(arrays["points"][..., 0])
        arrays["scores"] = np.where(is_found, arrays["scores"], np.float32(0))
    others = people_of(table, get_skeleton(whole).num_points)
    others = others and others.as_skeleton(whole, skeleton_name)
    world = world_of(table, "world", np.ones(len(table), np.int64))
    (split, clip_id), *_ = names
    frames = PoseClip(**arrays, **made, split=split, clip_id=clip_id, others=others, world=world)
    texts = {name: table.column(name) for name in ("image_path", "label", "fps", "extra")}
    clips, start = [], 0
    for (split, clip_id), length in zip(names, lengths, strict=True):
        rows = slice(start, start + length)
        paths = texts["image_path"][rows].to_pylist()
        # What is the same in all rows of a clip is taken from its first.
        label, fps, extra = (texts[name][start].as_py() for name in ("label", "fps", "extra"))
        clips.append(
            dataclasses.replace(
                frames,
                **{name: values[rows] for name, values in arrays.items()},
                clip_id=clip_id,
                split=split,
                image_paths=() if None in paths else tuple(paths),
                label=label,
                fps=fps,
                extra=_extra_of(extra, clip_id) if extra else {},
                others=others and others.of_frames(rows.start, rows.stop),
                world=None if world is None else world[rows],
            )
        )
        start += length
    return ClipBlock(frames, tuple(clips))


def _extra_of(text: str, clip_id: str) -> dict[str, Any]:
    try:
        return dict(parse_json(text))
    except (ValueError, TypeError) as error:
        template = "the shard of clip {clip_id!r} is damaged: its extra is {error}"
        raise RunError(template, clip_id=clip_id, error=error) from error


def arrays_of(table: pa.Table, skeleton_name: str) -> dict[str, Any]:
    """Return points `(N, K, 3)`, scores `(N, K)`, sizes_wh `(N, 2)`, frame_indices `(N,)`."""
    num_points = get_skeleton(skeleton_name).num_points
    sizes = [values_of(table.column(name), np.int32) for name in ("width", "height")]
    return {
        "points": values_of(table.column("keypoints")).reshape(-1, num_points, 3),
        "scores": values_of(table.column("scores")).reshape(-1, num_points),
        "sizes_wh": np.stack(sizes, 1),
        "frame_indices": values_of(table.column("frame_index"), np.int64),
    }


def values_of(column: pa.ChunkedArray, dtype: type[np.generic] = np.float32) -> Any:
    """Return the numbers of a column of that type, flat if they are in lists."""
    chunks = column.chunks
    if pa.types.is_nested(column.type):
        chunks = [chunk.flatten() for chunk in chunks]  # which honours a slice's offset
    parts = [*map(numbers_of, chunks)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype), *parts])


def numbers_of(values: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a column of numbers themselves, read-only.

    `to_numpy` gives the same, but imports pandas if it is installed: as long as ten shards take.
    """
    if values.null_count:
        copied: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return copied
    return np.from_dlpack(values)
