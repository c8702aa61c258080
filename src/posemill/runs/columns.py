"""The columns of a shard: where the points of a frame are on the disk, and their way back.

Those of `holistic-543` lie in two parts, as most readers want only the first: `keypoints_143` has
the points of `holistic-143`, in its order, `keypoints_other` the 400 others, all of the face, in
the order of the 468; `scores_…` likewise. Other skeletons have `keypoints` and `scores`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from posemill.records import IntArray
from posemill.runs.schema import numbers_of, skeleton_of, values_of
from posemill.skeletons import get_skeleton, point_map

_FLOATS = ("keypoints", "scores")
_WHOLE, _FIRST = "holistic-543", "holistic-143"


@cache
def part_for(skeleton_name: str, layout: str) -> str:
    """Return the skeleton to read from a run, whole or the part that lies in columns of its own."""
    if skeleton_name != _WHOLE or layout == _WHOLE:
        return skeleton_name
    first, needed = (
        {index for indices in point_map(_WHOLE, name) for index in indices}
        for name in (_FIRST, layout)
    )
    return _FIRST if needed <= first else _WHOLE


def as_stored(table: pa.Table) -> pa.Table:
    """Return the rows of a run's table in the columns of a shard."""
    is_parted = skeleton_of(table.schema) == _WHOLE
    columns: dict[pa.Field, pa.ChunkedArray] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        if field.name not in _FLOATS:
            columns[field] = column
            continue
        rows = values_of(column).reshape(len(table), -1)
        parts = _parts_of(field.name) if is_parted else {field.name: None}
        for name, places in parts.items():
            part = rows if places is None else np.take(rows, places, axis=1, mode="clip")
            # That no number is null spares a flag per number: a quarter less work unpacks them.
            number = pa.field("element", pa.float32(), nullable=False)
            kind = pa.list_(number, part.shape[1])
            lists = pa.FixedSizeListArray.from_arrays(pa.array(part.reshape(-1)), type=kind)
            columns[pa.field(name, kind, nullable=False)] = lists
    schema = pa.schema(list(columns), table.schema.metadata)
    return pa.Table.from_arrays(list(columns.values()), schema=schema)


def read_groups(file: pq.ParquetFile, groups: Iterable[int], wanted: pa.Schema) -> pa.Table:
    """Return row groups of a shard as columns of the table; only what they need is read.

    `wanted` is out of `run_schema`, of the shard's own skeleton or the part `part_for` names.
    """
    is_parted, is_part = skeleton_of(file.schema_arrow) == _WHOLE, skeleton_of(wanted) == _FIRST
    sources = {name: [name] for name in wanted.names}
    for name in _FLOATS if is_parted else ():
        if name in sources:
            sources[name] = list(_parts_of(name))[: 1 if is_part else 2]
    needed = [column for columns in sources.values() for column in columns]
    # One at a time: what it takes to unpack them is then used again, not asked for anew.
    table = pa.concat_tables(
        file.read_row_group(group, columns=needed, use_threads=False) for group in groups
    )
    columns = [
        table.column(parts[0]) if len(parts) == 1 else _joined(table, name)
        for name, parts in sources.items()
    ]
    # Shards differ in whether their lists may hold nulls; none does, so nothing is copied.
    return pa.Table.from_arrays(columns, names=wanted.names).cast(wanted)


def _joined(table: pa.Table, name: str) -> pa.Array:
    """Return `keypoints` or `scores` of 543 points, from the two columns they lie in."""
    parts = _parts_of(name)
    places = np.argsort(np.concatenate(list(parts.values())))
    kinds = [pa.field(part, pa.list_(pa.float32(), len(parts[part]))) for part in parts]
    rows = np.empty((len(table), len(places)), np.float32)
    start = 0
    for batch in table.select(list(parts)).cast(pa.schema(kinds)).to_batches():
        numbers = [numbers_of(column.flatten()).reshape(len(batch), -1) for column in batch.columns]
        whole, out = np.concatenate(numbers, axis=1), rows[start : start + len(batch)]
        np.take(whole, places, axis=1, out=out, mode="clip")  # "raise" would make another copy
        start += len(batch)
    # As `pa.array` does, which would import pandas to know whether this is something of its own.
    flat = pa.Array.from_buffers(pa.float32(), rows.size, [None, pa.py_buffer(rows)])
    return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])


@cache
def _parts_of(name: str) -> dict[str, IntArray]:
    """Return the columns that hold `keypoints` or `scores`: the places of their numbers in it."""
    first = [index for (index,) in point_map(_WHOLE, _FIRST)]
    others = sorted(set(range(get_skeleton(_WHOLE).num_points)).difference(first))
    size = 3 if name == "keypoints" else 1  # numbers of a point
    return {
        f"{name}_{part}": (np.array(points)[:, None] * size + np.arange(size)).reshape(-1)
        for part, points in (("143", first), ("other", others))
    }
