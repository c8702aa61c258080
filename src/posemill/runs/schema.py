"""The table of a run, a row per frame: its versioned Arrow schema, clips to rows and back."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

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
    join_world,
    nothing_in_metres,
)
from posemill.skeletons import WORLD_LAYOUT, get_skeleton

SCHEMA_VERSION = 2  # of a shard
Integer = TypeVar("Integer", np.int32, np.int64)
_WORLD_NUMBERS = 3 * WORLD_LAYOUT.num_points
# Columns of some runs only. Of those whose engine finds several people: all but the one in
# `keypoints`, largest first, behind each other, and the ids of the one and of the others, null
# where people were not followed. Of those with landmarks in metres: x, y and z of 75 points, NaN
# where not found, null for clips without them; and the same of each of the other people.
OPTIONAL = {
    "other_keypoints": pa.list_(pa.float32()),
    "other_scores": pa.list_(pa.float32()),
    "person_ids": pa.list_(pa.int32()),
    "world": pa.list_(pa.float32(), _WORLD_NUMBERS),
    "other_world": pa.list_(pa.float32()),
}
# What `block_of` needs; the ledger knows the rest.
CLIP_COLUMNS = ("frame_index", "image_path", "width", "height", "keypoints", "scores", "label",
                "fps", "extra", *OPTIONAL)  # fmt: skip
_VERSION_KEY, _SKELETON_KEY = b"posemill.schema_version", b"posemill.skeleton"


class _NoPandas:
    """Finds no pandas, wherever it is installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise `ModuleNotFoundError` for pandas; leave the rest to the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def leave_pandas_unloaded() -> None:
    """Let pyarrow do without pandas in this process, until somebody calls `to_pandas`.

    pyarrow loads it at its first array, to ask whether it was given a series: 0.4 s of CPU and
    45 MB in every worker.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(finder)


def run_schema(skeleton_name: str, optional: Collection[str] = ()) -> pa.Schema:
    """Return the columns of a run whose keypoints have that skeleton; of `OPTIONAL` those named.

    `keypoints` is `num_points * 3` float32 (x, y, z of the first point, of the second, …) as in
    `PoseClip.points`: NaN where not found. `scores` is `num_points` float32. `has_<part>` says
    whether any point of the part was found. `extra` is a JSON object or null.
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
    version = metadata.get(_VERSION_KEY)
    if version is None or _SKELETON_KEY not in metadata:
        raise RunError(
            "{name}: not a shard of a posemill run (no schema version in its header)", name=where
        )
    if int(version) != SCHEMA_VERSION:
        raise RunError(
            "{name}: schema version {version}, this posemill reads {expected}; use "
            "the posemill that made it",
            name=where,
            version=int(version),
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
        _rows_of(clip.points, 3 * num_points),
        _rows_of(clip.scores, num_points),
        pa.array([label] * num_frames, pa.string()),
        pa.array([clip.fps] * num_frames, pa.float64()),
        pa.array([_dump_extra(clip)] * num_frames, pa.string()),
    ]
    others, optional = clip.others, dict[str, pa.Array]()
    if others is not None:
        optional["other_keypoints"] = _lists_of(others, others.points)
        optional["other_scores"] = _lists_of(others, others.scores)
        optional["person_ids"] = _column_of_ids(others)
    if clip.world is not None:
        optional["world"] = _rows_of(clip.world, _WORLD_NUMBERS)
    if clip.world is not None and others is not None:
        metres = join_world([others])
        optional["other_world"] = (
            pa.nulls(num_frames, OPTIONAL["other_world"])
            if metres is None
            else _lists_of(others, metres)
        )
    schema = run_schema(clip.skeleton_name, optional)
    return pa.Table.from_arrays([*columns, *optional.values()], schema=schema)


def _rows_of(values: FloatArray, width: int) -> pa.Array:
    numbers = np.ascontiguousarray(values, np.float32).reshape(-1)
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers), width)


def _lists_of(others: OtherPeople, values: FloatArray) -> pa.Array:
    """Return a row of numbers for each frame: those of all its other people."""
    numbers = np.ascontiguousarray(values, np.float32).reshape(-1)
    per_person = math.prod(values.shape[1:])
    return pa.ListArray.from_arrays(
        pa.array((others.starts * per_person).astype(np.int32)), pa.array(numbers)
    )


def _column_of_ids(others: OtherPeople) -> pa.Array:
    num_frames = len(others.counts)
    if others.ids is None:
        return pa.nulls(num_frames, pa.list_(pa.int32()))
    frames = np.arange(num_frames)
    order = np.argsort(np.concatenate([frames, np.repeat(frames, others.counts)]), kind="stable")
    return pa.ListArray.from_arrays(
        pa.array((others.starts + np.arange(num_frames + 1)).astype(np.int32)),
        pa.array(np.concatenate(others.ids)[order].astype(np.int32)),
    )


def people_of(table: pa.Table, num_points: int) -> OtherPeople | None:
    """Return the others of the rows of a table; None where it does not know them."""
    if "other_scores" not in table.schema.names:
        return None
    points, scores, ids = (table.column(name).combine_chunks() for name in list(OPTIONAL)[:3])
    counts, rest = np.divmod(_lengths_of(scores), num_points)
    people = OtherPeople(
        counts,
        numbers_of(points.flatten()).reshape(-1, num_points, 3),
        numbers_of(scores.flatten()).reshape(-1, num_points),
        _world_of_others(table, counts),
        None if ids.null_count else _ids_of(ids, counts),
    )
    if rest.any() or (_lengths_of(points) != 3 * num_points * counts).any():
        raise RunError("the shard is damaged: its people have not as many points as the skeleton")
    return people


def _ids_of(lists: pa.Array, counts: npt.NDArray[np.int64]) -> PersonIds:
    """Return the ids of a column: in each row that of the first person and those of the others."""
    if (_lengths_of(lists) != 1 + counts).any():
        raise RunError("the shard is damaged: it has not as many ids as people")
    ids = numbers_of(lists.flatten()).astype(np.int64)
    is_first = np.zeros(len(ids), bool)
    is_first[np.cumsum(1 + counts) - 1 - counts] = True
    return PersonIds(ids[is_first], ids[~is_first])


def _world_of_others(table: pa.Table, counts: IntArray) -> FloatArray | None:
    if "other_world" not in table.schema.names:
        return None
    lists = table.column("other_world").combine_chunks()
    lengths = _lengths_of(lists)
    if not lengths.any():
        return None
    has_metres = lengths > 0
    if (lengths[has_metres] != _WORLD_NUMBERS * counts[has_metres]).any():
        raise RunError("the shard is damaged: not all of its people have 75 points in metres")
    world = nothing_in_metres(int(counts.sum()))
    world[np.repeat(has_metres, counts)] = numbers_of(lists.flatten()).reshape(-1, *world.shape[1:])
    return world


def world_of(table: pa.Table) -> FloatArray | None:
    """Return `(rows, 75, 3)` in metres, NaN in rows without them; None where no row has any."""
    if "world" not in table.schema.names:
        return None
    column = table.column("world")
    if column.null_count == len(column):
        return None
    world = nothing_in_metres(len(column))
    is_known = column.is_valid().to_numpy()
    world[is_known] = floats_of(column.drop_null()).reshape(-1, *world.shape[1:])
    return world


def _lengths_of(lists: pa.Array) -> npt.NDArray[np.int64]:
    ends: npt.NDArray[np.int64] = numbers_of(lists.offsets).astype(np.int64)
    return ends[1:] - ends[:-1]


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
    part_of: str | None = None,
) -> ClipBlock:
    """Return the clips whose rows these are.

    Args:
        table: The columns `CLIP_COLUMNS`, by clip and frame.
        names: Split and id of each clip.
        lengths: Frames of each, at least one.
        made: What all clips of the run have in common, as fields of `PoseClip`: their skeleton,
            and how they were normalised and interpolated.
        part_of: The run's skeleton, where that of `made` is a part of it. The score of a point
            that was not found is 0 then, as in `PoseClip.as_skeleton`.
    """
    is_part = part_of is not None
    whole, skeleton_name = part_of or made["skeleton_name"], made["skeleton_name"]
    arrays = arrays_of(table, skeleton_name)
    if is_part:
        arrays["scores"] = np.require(arrays["scores"], requirements="W")
    others = people_of(table, get_skeleton(whole).num_points)
    others = others and others.as_skeleton(whole, skeleton_name)
    world = world_of(table)
    frames = PoseClip(
        **arrays, **made, split=names[0][0], clip_id=names[0][1], others=others, world=world
    )
    if is_part:
        np.copyto(frames.scores, 0, where=~frames.mask)
    paths = table.column("image_path").to_pylist()
    clips, start = [], 0
    for (split, clip_id), length in zip(names, lengths, strict=True):
        rows = slice(start, start + length)
        # What is the same in all rows of a clip is taken from its first.
        first = (table.column(name)[start] for name in ("label", "fps", "extra"))
        label, fps, extra = (value.as_py() for value in first)
        start += length
        clips.append(
            PoseClip(
                **{name: values[rows] for name, values in arrays.items()},
                **made,
                clip_id=clip_id,
                split=split,
                image_paths=() if None in paths[rows] else tuple(paths[rows]),
                label=label,
                fps=fps,
                extra=_extra_of(extra, clip_id) if extra else {},
                others=None if others is None else others.of_frames(rows.start, rows.stop),
                world=None if world is None else world[rows],
            )
        )
    return ClipBlock(frames, tuple(clips))


def _extra_of(text: str, clip_id: str) -> dict[str, Any]:
    try:
        return dict(parse_json(text))
    except (ValueError, TypeError) as error:
        raise RunError(
            "the shard of clip {clip_id!r} is damaged: its extra is {error}",
            clip_id=clip_id,
            error=error,
        ) from error


def arrays_of(table: pa.Table, skeleton_name: str) -> dict[str, Any]:
    """Return points `(N, K, 3)`, scores `(N, K)`, sizes_wh `(N, 2)`, frame_indices `(N,)`."""
    num_points = get_skeleton(skeleton_name).num_points
    sizes = [integers_of(table.column(name), np.int32) for name in ("width", "height")]
    return {
        "points": floats_of(table.column("keypoints")).reshape(-1, num_points, 3),
        "scores": floats_of(table.column("scores")).reshape(-1, num_points),
        "sizes_wh": np.stack(sizes, 1),
        "frame_indices": integers_of(table.column("frame_index"), np.int64),
    }


def integers_of(column: pa.ChunkedArray, dtype: type[Integer]) -> npt.NDArray[Integer]:
    """Return a copy of the values of a column of that type."""
    return np.concatenate([np.zeros(0, dtype), *map(numbers_of, column.chunks)])


def floats_of(column: pa.ChunkedArray) -> Any:
    """Return the flat float32 values of a list column (`flatten` honours a slice's offset)."""
    parts = [numbers_of(chunk.flatten()) for chunk in column.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.float32), *parts])


def numbers_of(values: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a column of numbers themselves, read-only.

    `to_numpy` gives the same, but imports pandas if it is installed: as long as ten shards take.
    """
    if values.null_count:
        copied: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return copied
    return np.from_dlpack(values)
