"""Samples appended to files, each file by one process, read by all; nothing is ever waited for.

A record counts when it is whole and its checksum holds. A process that is killed leaves at most the
beginning of one record at the end of its own file, which nobody appends to again.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import uuid
import weakref
import zlib
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posemill.training.data.cache import import_h5py

# Mark, index of the sample, bytes, seconds it took to make, checksum of the bytes and of these.
_HEAD = struct.Struct("<8sQQdII")
_MARK = b"pmcache1"
_RECORD = np.dtype(
    [("sample", "<i8"), ("start", "<i8"), ("size", "<i8"), ("seconds", "<f8"), ("checksum", "<u4")]
)


class Record(NamedTuple):
    """Where a sample is in its file, in bytes, and what making it took."""

    sample: int
    start: int
    size: int
    seconds: float
    checksum: int


class MappedSegment:
    """A plain file of records, appended to by the process that made it, mapped by those that read.

    Args:
        path: Of the file.
        is_new: Make it and append to it.
    """

    suffix = ".seg"

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        self._file: Any = path.open("xb" if is_new else "rb", buffering=0)
        self._map: mmap.mmap | None = None
        self._end = 0  # of the last whole record
        self._is_broken = False

    def new_records(self) -> list[Record]:
        """Return the whole records that came since the last call."""
        size = os.fstat(self._file.fileno()).st_size
        records: list[Record] = []
        while not self._is_broken and self._end + _HEAD.size <= size:
            head = self._bytes(self._end, _HEAD.size)
            mark, index, length, seconds, checksum, of_head = _HEAD.unpack(head)
            if mark != _MARK or zlib.crc32(head[:-4]) != of_head:
                self._is_broken = True  # what a crash of the machine left: the rest is lost
            elif self._end + _HEAD.size + length > size:
                break  # being written, or what a kill left
            else:
                start = self._end + _HEAD.size
                records.append(Record(index, start, length, seconds, checksum))
                self._end = start + length
        return records

    def read(self, record: Record) -> bytes | memoryview:
        """Return the bytes of a sample, unchecked."""
        return self._bytes(record.start, record.size)

    def _bytes(self, start: int, count: int) -> memoryview:
        if self._map is None or start + count > len(self._map):
            size = os.fstat(self._file.fileno()).st_size
            self._map = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ)
        return memoryview(self._map)[start : start + count]

    def add(self, index: int, data: bytes, seconds: float) -> Record:
        """Append a sample; where that fails the file is as it was."""
        head = _HEAD.pack(_MARK, index, len(data), seconds, zlib.crc32(data), 0)[:-4]
        whole = memoryview(head + zlib.crc32(head).to_bytes(4, "little") + data)
        try:
            done = 0
            while done < len(whole):
                done += self._file.write(whole[done:])
        except OSError:
            self._file.truncate(self._end)
            self._file.seek(self._end)
            raise
        start = self._end + _HEAD.size
        self._end += len(whole)
        return Record(index, start, len(data), seconds, zlib.crc32(data))

    def close(self) -> None:
        """Close the file; a view that someone still holds keeps its map."""
        self._file.close()
        self._map = None


class Hdf5Segment:
    """The same in an HDF5 file, in its mode for one writer and many readers."""

    suffix = ".h5"

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        h5py = import_h5py()
        if is_new:
            hidden = path.with_suffix(".new")  # its name until readers may open it
            self._file = h5py.File(hidden, "x", libver="latest")
            for name, dtype, chunk in (("data", np.uint8, 1 << 16), ("records", _RECORD, 64)):
                self._file.create_dataset(name, (0,), dtype, maxshape=(None,), chunks=(chunk,))
            self._file.swmr_mode = True
            hidden.rename(path)
        else:
            self._file = h5py.File(path, "r", libver="latest", swmr=True)
        self._data, self._records = self._file["data"], self._file["records"]
        self._num_seen = 0

    def new_records(self) -> list[Record]:
        """Return the records that came since the last call; they are written after their data."""
        self._records.refresh()
        rows = self._records[self._num_seen :]
        if len(rows):
            self._data.refresh()
        self._num_seen += len(rows)
        return [Record(*row) for row in rows.tolist()]

    def read(self, record: Record) -> bytes | memoryview:
        """Return the bytes of a sample, unchecked."""
        return bytes(self._data[record.start : record.start + record.size].tobytes())

    def add(self, index: int, data: bytes, seconds: float) -> Record:
        """Append a sample: its bytes first, then the record that makes them count."""
        start, number = len(self._data), len(self._records)
        self._data.resize((start + len(data),))
        self._data[start:] = np.frombuffer(data, np.uint8)
        self._data.flush()
        self._records.resize((number + 1,))
        record = Record(index, start, len(data), seconds, zlib.crc32(data))
        self._records[number] = tuple(record)
        self._records.flush()
        return record

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Segments:
    """All files of a cache, as one process sees them; a fork or a copy begins with none open.

    Args:
        folder: Of the cache, already made.
        is_hdf5: HDF5 in place of plain files.
    """

    def __init__(self, folder: Path, *, is_hdf5: bool) -> None:
        self._folder, self._is_hdf5 = folder, is_hdf5
        self._forget()

    def _forget(self) -> None:
        self._kind: Any = Hdf5Segment if self._is_hdf5 else MappedSegment
        self._open: dict[str, Any] = {}
        self._records: dict[int, list[tuple[Any, Record]]] = {}
        self._checked: set[int] = set()
        self._writer: Any = None
        self._writer_name = ""
        self._pid = os.getpid()
        self.num_bytes = 0
        self.lock = threading.RLock()
        if self._is_hdf5:
            _WITH_HDF5.add(self)

    def __reduce__(self) -> Any:
        return partial(Segments, is_hdf5=self._is_hdf5), (self._folder,)

    def look(self) -> None:
        """Find what all processes have added by now."""
        self.num_bytes = 0
        for entry in os.scandir(self._folder):
            if not entry.name.endswith(self._kind.suffix):
                continue
            self.num_bytes += entry.stat().st_size
            if entry.name == self._writer_name and self._is_hdf5:
                continue  # HDF5 opens a file once in a process
            if entry.name not in self._open:
                try:
                    self._open[entry.name] = self._kind(Path(entry.path))
                except (OSError, KeyError):
                    continue  # what a crash left of it cannot be opened
            segment = self._open[entry.name]
            for record in segment.new_records():
                self._records.setdefault(record.sample, []).append((segment, record))

    def find(self, index: int) -> tuple[bytes | memoryview, float] | None:
        """Return (bytes, seconds that making it took) of a sample; None where it is not there."""
        if self._pid != os.getpid():
            self._forget()  # forked: the parent's files are not ours
        with self.lock:
            known = self._find_known(index)
            if known is None:
                self.look()
                known = self._find_known(index)
            return known

    def _find_known(self, index: int) -> tuple[bytes | memoryview, float] | None:
        known = self._records.get(index, [])
        while known:  # two processes may have made it at once, and one of them been cut off
            segment, record = known[0]
            data = segment.read(record)
            if index in self._checked or zlib.crc32(data) == record.checksum:
                self._checked.add(index)
                return data, record.seconds
            del known[0]
        return None

    def add(self, index: int, data: bytes, seconds: float) -> None:
        """Append a sample to this process's file."""
        with self.lock:
            if self._writer is None:
                self._writer_name = f"{os.getpid()}-{uuid.uuid4().hex[:12]}{self._kind.suffix}"
                self._writer = self._kind(self._folder / self._writer_name, is_new=True)
            record = self._writer.add(index, data, seconds)
            self.num_bytes += record.size
            if self._is_hdf5:
                self._records.setdefault(index, []).append((self._writer, record))

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close all files; the next call opens them again."""
        for segment in self._open.values():
            segment.close()
        if self._writer is not None:
            self._writer.close()
        self._open, self._records, self._writer_name, self._writer = {}, {}, "", None
        self._checked.clear()


_WITH_HDF5: weakref.WeakSet[Segments] = weakref.WeakSet()


def _close_hdf5() -> None:
    """Before a fork: the child's HDF5 would take the parent's open files for its own."""
    for segments in list(_WITH_HDF5):
        with segments.lock:
            segments.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_hdf5)
