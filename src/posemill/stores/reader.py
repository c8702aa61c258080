"""Reading runs: only what the commit records name, clip by clip, in the order of the source."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from posemill.errors import MissingExtraError, RunError
from posemill.records import PoseClip
from posemill.stores.commits import (
    Failure,
    SplitCounts,
    read_counts,
    read_failures,
    read_ledger,
    read_meta,
)
from posemill.stores.manifest import SHARDS_NAME, Manifest
from posemill.stores.names import plain_text
from posemill.stores.schema import arrays_of, check_schema, clip_of, run_schema

_OPEN_FILES = 2  # an open file holds on to a row group; neighbours are in the same file
_PIECES = (
    "SELECT clip_no, split, clip_id, name, row_offset, pieces.num_rows FROM pieces "
    "JOIN clips USING (clip_no) JOIN shards USING (shard_no)"
)


def open_run(path: Path | str) -> Run:
    """Return the run in a folder, finished or not: what was committed to it so far."""
    return Run(Path(path))


class Run:
    """A run folder, read lazily: a clip's keypoints are in memory only while it is looked at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = Manifest.read(folder)
        with read_ledger(folder) as database:
            self._counts = read_counts(database)
            self._meta = read_meta(database)

    def __repr__(self) -> str:
        parts = ", ".join(f"{each.split} {each.frames_out} frames" for each in self._counts)
        state = "finished" if self.is_finished else "not finished"
        return f"Run({str(self.folder)!r}, {self.skeleton_name}, {parts or 'empty'}, {state})"

    def __len__(self) -> int:
        return sum(each.num_clips for each in self._counts)

    @property
    def skeleton_name(self) -> str:
        """The layout of the keypoints."""
        return self.manifest.skeleton_name

    @property
    def is_finished(self) -> bool:
        """Whether everything that was planned was tried."""
        return "finished_at" in self._meta

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits, in the order of the source."""
        return tuple(each.split for each in self._counts)

    @property
    def num_frames(self) -> int:
        """How many frames have keypoints, in all splits."""
        return sum(each.frames_out for each in self._counts)

    @property
    def counts(self) -> list[SplitCounts]:
        """Clips and frames of every split, as they were when the run was opened."""
        return list(self._counts)

    def failures(self) -> list[Failure]:
        """Return what gave no keypoints, with the reasons, in the order of clips and frames."""
        with read_ledger(self.folder) as database:
            return list(read_failures(database))

    def clip_ids(self, split: str | None = None) -> list[str]:
        """Return the ids of all clips that have keypoints, in reading order."""
        where, values = self._where(split)
        with read_ledger(self.folder) as database:
            rows = database.execute(
                "SELECT clip_id FROM clips WHERE clip_no IN (SELECT clip_no FROM pieces)"
                f"{where.replace('WHERE', 'AND')} ORDER BY clip_no",
                values,
            )
            return [clip_id for (clip_id,) in rows]

    def clips(self, split: str | None = None) -> Iterator[PoseClip]:
        """Yield the clips that have keypoints, of one split or of all, in a stable order."""
        for table in self._tables(split, None):
            yield clip_of(table, self.skeleton_name)

    def clip(self, clip_id: str, split: str | None = None) -> PoseClip:
        """Return one clip; `split` is needed only where two splits have the same id."""
        where, values = self._where(split)
        condition = f"{where} AND clip_id = ?" if where else " WHERE clip_id = ?"
        with read_ledger(self.folder) as database:
            rows = database.execute(
                f"{_PIECES}{condition} ORDER BY clip_no, first_frame",
                (*values, plain_text(clip_id)),
            ).fetchall()
        if not rows:
            raise RunError(f"{self.folder} has no keypoints of a clip {clip_id!r}")
        if len({row[0] for row in rows}) > 1:
            splits = ", ".join(sorted({row[1] for row in rows}))
            raise RunError(f"clip {clip_id!r} is in several splits ({splits}): say which")
        return clip_of(_ShardCache(self).read(rows, None), self.skeleton_name)

    def table(self, split: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows as an Arrow table, by clip and frame. Small columns cost little."""
        schema = run_schema(self.skeleton_name)
        if columns is not None:
            if unknown := [name for name in columns if name not in schema.names]:
                raise ValueError(f"no columns {unknown}; a run has {', '.join(schema.names)}")
            schema = pa.schema([schema.field(name) for name in columns], schema.metadata)
        return pa.concat_tables([schema.empty_table(), *self._tables(split, columns)])

    def to_pandas(self, split: str | None = None, columns: Sequence[str] | None = None) -> Any:
        """Return the rows as a pandas DataFrame, by clip and frame.

        The keypoints of a million frames are 9 GB: give `columns` to leave them on the disk.
        """
        _need("pandas")
        return self.table(split, columns).to_pandas()

    def to_numpy(self, split: str | None = None) -> dict[str, Any]:
        """Return the keypoints of all clips, one after the other.

        Keys: `points (N, K, 3)`, `scores (N, K)`, `sizes_wh (N, 2)`, `frame_indices (N,)`,
        `clip_starts (clips + 1,)` (clip i is rows `clip_starts[i]:clip_starts[i + 1]`), and
        `clip_ids`, a list. Memory is taken once, for the result.
        """
        total = sum(each.frames_out for each in self._counts if split in (None, each.split))
        arrays: dict[str, Any] = {}
        starts, clip_ids = [0], []
        for table in self._tables(split, None):
            piece = arrays_of(table, self.skeleton_name)
            stop = starts[-1] + table.num_rows
            for name, values in piece.items():
                if name not in arrays:
                    arrays[name] = np.empty((total, *values.shape[1:]), values.dtype)
                arrays[name][starts[-1] : stop] = values
            starts.append(stop)
            clip_ids.append(table.column("clip_id")[0].as_py())
        if not arrays:
            arrays = arrays_of(run_schema(self.skeleton_name).empty_table(), self.skeleton_name)
        return {**arrays, "clip_starts": np.array(starts, np.int64), "clip_ids": clip_ids}

    def to_torch(self, split: str | None = None) -> dict[str, Any]:
        """Return what `to_numpy` does, the arrays as tensors that share its memory."""
        torch = _need("torch")
        return {
            name: values if isinstance(values, list) else torch.from_numpy(values)
            for name, values in self.to_numpy(split).items()
        }

    def _where(self, split: str | None) -> tuple[str, tuple[str, ...]]:
        if split is None:
            return "", ()
        if split not in self.splits:
            raise RunError(
                f"{self.folder} has no split {split!r}; it has {', '.join(self.splits) or 'none'}"
            )
        return " WHERE split = ?", (split,)

    def _tables(self, split: str | None, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        """Yield one table per clip that has rows."""
        where, values = self._where(split)
        shards = _ShardCache(self)
        needed = None if columns is None else [*columns, "frame_index"]
        with read_ledger(self.folder) as database:
            # By clip and frame: an index has this order, so SQLite streams and does not sort.
            rows = database.execute(f"{_PIECES}{where} ORDER BY clip_no, first_frame", values)
            for _, pieces in groupby(rows, key=lambda row: row[0]):
                table = shards.read(list(pieces), needed)
                yield table if columns is None else table.select(columns)


class _ShardCache:
    """The last few shards, open, and of each the last rows read: neighbours share row groups."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._files: OrderedDict[str, pq.ParquetFile] = OrderedDict()
        self._last: tuple[Any, pa.Table | None] = (None, None)

    def read(self, pieces: list[tuple[Any, ...]], columns: Sequence[str] | None) -> pa.Table:
        """Return the rows of one clip's pieces (clip_no, split, clip_id, shard, offset, rows)."""
        tables = [
            self._read_piece(name, offset, num_rows, columns)
            for _, _, _, name, offset, num_rows in pieces
        ]
        if len(tables) == 1:
            return tables[0]
        table = pa.concat_tables(tables)
        # A frame that was tried again later has a piece of its own, inside the span of another.
        indices = table.column("frame_index").to_numpy()
        if (np.diff(indices) < 0).any():
            table = table.take(np.argsort(indices, kind="stable"))
        return table

    def _read_piece(
        self, name: str, offset: int, num_rows: int, columns: Sequence[str] | None
    ) -> pa.Table:
        file = self._open(name)
        parts, start = [], 0
        for group in range(file.num_row_groups):
            stop = start + file.metadata.row_group(group).num_rows
            low, high = max(offset, start), min(offset + num_rows, stop)
            if low < high:
                parts.append(self._group(name, group, columns).slice(low - start, high - low))
            start = stop
        table = pa.concat_tables(parts)
        if table.num_rows != num_rows:
            raise RunError(
                f"{self._path(name)}: the ledger counts {num_rows} rows from {offset}, the file "
                f"has {table.num_rows}; it was changed after the run"
            )
        return table

    def _group(self, name: str, group: int, columns: Sequence[str] | None) -> pa.Table:
        key = (name, group)
        if self._last[0] != key:
            try:
                table = self._files[name].read_row_group(
                    group,
                    columns=None if columns is None else sorted(set(columns)),
                    use_threads=False,
                )
            except (OSError, pa.ArrowException) as error:
                raise RunError(f"{self._path(name)} cannot be read: {error}") from error
            self._last = (key, table)
        return self._last[1]

    def _open(self, name: str) -> pq.ParquetFile:
        if name in self._files:
            self._files.move_to_end(name)
            return self._files[name]
        path = self._path(name)
        try:
            file = pq.ParquetFile(path)
        except FileNotFoundError as error:
            raise RunError(f"{path} is missing, but the ledger counts on it") from error
        except (OSError, pa.ArrowException) as error:
            raise RunError(f"{path} cannot be read: {error}") from error
        skeleton_name = check_schema(file.schema_arrow, str(path))
        if skeleton_name != self._run.skeleton_name:
            raise RunError(f"{path} has {skeleton_name}, its run has {self._run.skeleton_name}")
        self._files[name] = file
        if len(self._files) > _OPEN_FILES:
            self._files.popitem(last=False)[1].close()
        return file

    def _path(self, name: str) -> Path:
        return self._run.folder / SHARDS_NAME / name


def _need(package: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"this needs {package!r}, which is not installed; run: pip install {package}"
        ) from error
