"""Samples packed one after the other: memory-mapped files (default), RAM, or HDF5.

A cache is named by the content of its source and the parameters of what was done to it, so it is
never stale. It is written in a folder of its own and renamed when whole: other processes see all
of it or nothing. Handles are opened in the process that reads, so workers may fork or spawn.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from posemill.errors import MissingExtraError, TrainingError
from posemill.files import cache_folder, remove_leftovers, sync_folder, temporary_stem
from posemill.records import BoolArray, FloatArray, IntArray

_FORMAT = 2
_READY = "ready.json"

SampleFunction = Callable[[FloatArray, BoolArray], tuple[FloatArray, BoolArray]]


@dataclass(frozen=True)
class Transform:
    """A per-sample function, with the name and the parameters that tell its result apart.

    Args:
        name: What it is called.
        function: `(points (T, K, D), mask (T, K))` -> the same two, T and D as it likes.
        parameters: Everything the result depends on beside the input; JSON values.
    """

    name: str
    function: SampleFunction
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The text that names the result."""
        return json.dumps([self.name, dict(self.parameters)], sort_keys=True)


class Store(Protocol):
    """Packed samples."""

    offsets: IntArray

    def read(self, index: int) -> tuple[FloatArray, BoolArray]:
        """Return points `(T, K, D)` and mask `(T, K)` of one sample; do not modify."""


class RamStore:
    """Packed samples in memory: `points` (frames, K, D), `mask` (frames, K), `offsets` (N + 1,)."""

    def __init__(self, points: FloatArray, mask: BoolArray, offsets: IntArray) -> None:
        self.points, self.mask, self.offsets = points, mask, offsets

    def read(self, index: int) -> tuple[FloatArray, BoolArray]:
        """Return points and mask of one sample."""
        start, stop = self.offsets[index], self.offsets[index + 1]
        return self.points[start:stop], self.mask[start:stop]


class FileStore:
    """Packed samples in memory-mapped .npy files or in one HDF5 file.

    Opened in each process that reads: HDF5 handles do not travel.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.offsets: IntArray = self._arrays("offsets")[0][:]
        self._open: tuple[int, Any, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    def read(self, index: int) -> tuple[FloatArray, BoolArray]:
        """Return points and mask of one sample; of .npy files views."""
        if self._open is None or self._open[0] != os.getpid():
            points, mask = self._arrays("points", "mask")  # finding them takes its time
            self._open = os.getpid(), points, mask
        start, stop = int(self.offsets[index]), int(self.offsets[index + 1])
        _, points, mask = self._open
        return points[start:stop], mask[start:stop]

    def _arrays(self, *names: str) -> list[Any]:
        if self.kind == "hdf5":
            file = import_h5py().File(self.folder / "samples.h5", "r")
            return [file[name] for name in names]
        return [np.load(self.folder / f"{name}.npy", mmap_mode="r") for name in names]

    def to_ram(self) -> RamStore:
        """Return the same samples, read into memory."""
        points, mask = (np.array(array) for array in self._arrays("points", "mask"))
        return RamStore(points, mask, self.offsets)


def precompute(
    samples: Iterable[tuple[FloatArray, BoolArray]],
    transform: Transform,
    *,
    content_key: str,
    kind: str = "mmap",
    folder: Path | None = None,
) -> Store:
    """Return the transformed samples, computed once per content, transform and kind.

    Args:
        samples: Points `(T, K, D)` and mask `(T, K)` of each sample; not touched on a cache hit.
        transform: What to do to each.
        content_key: Digest of what `samples` yields, in that order.
        kind: `mmap`, `ram` (kept on the disk as mmap, read into memory), `hdf5`, or
            `none`: in memory, nothing kept on the disk.
        folder: Where caches are kept; `training` below posemill's cache folder by default.
    """
    transformed = (transform.function(points, mask) for points, mask in samples)
    if kind == "none":
        return _pack(transformed)
    on_disk = "hdf5" if kind == "hdf5" else "mmap"
    text = f"{_FORMAT}\0{on_disk}\0{content_key}\0{transform.key}"
    root = folder or cache_folder() / "training"
    place = root / hashlib.sha256(text.encode()).hexdigest()[:32]
    if not (place / _READY).is_file():
        try:
            with _whole_folder(place) as working:
                _write_mmap(transformed, working)
                if on_disk == "hdf5":
                    _move_into_hdf5(working)
                notes = {"content": content_key, "transform": transform.key, "format": _FORMAT}
                (working / _READY).write_text(json.dumps(notes))
        except OSError as error:
            raise TrainingError(
                "cannot write the cache below {root} ({error}); free some space there, or "
                "name another folder with {--cache-folder}",
                root=root,
                error=error,
            ) from error
    store = FileStore(place, on_disk)
    return store.to_ram() if kind == "ram" else store


def verify_once(path: Path, verify: Callable[[], None], *, folder: Path | None = None) -> None:
    """Call `verify` unless it went well before for this file, of this size and time of change."""
    facts = path.stat()
    note = json.dumps([str(path.resolve()), facts.st_size, facts.st_mtime_ns])
    name = hashlib.sha256(note.encode()).hexdigest()[:32]
    record = (folder or cache_folder() / "training") / "verified" / name
    if record.is_file():
        return
    verify()
    with suppress(OSError):  # a disk that is full or read-only costs the reading again, no more
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(note)


def _pack(samples: Iterable[tuple[FloatArray, BoolArray]]) -> RamStore:
    points, masks = zip(*samples, strict=True)
    offsets = np.cumsum([0, *(len(mask) for mask in masks)], dtype=np.int64)
    return RamStore(np.concatenate(points), np.concatenate(masks), offsets)


@contextmanager
def _whole_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder that becomes `target` at the end; if another was faster, theirs stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    working = target.with_name(f"{temporary_stem(target)}.tmp")
    working.mkdir()
    try:
        yield working
        try:
            working.rename(target)
            sync_folder(target.parent)
        except OSError:
            if not (target / _READY).is_file():
                raise
    finally:
        shutil.rmtree(working, ignore_errors=True)


def _write_mmap(samples: Iterable[tuple[FloatArray, BoolArray]], folder: Path) -> None:
    """Append raw numbers, then put the .npy header of the final shape in front of them."""
    lengths, shape = [0], (0, 0)
    points_path, mask_path = folder / "points.npy", folder / "mask.npy"
    with points_path.open("wb") as points_file, mask_path.open("wb") as mask_file:
        # A header of fixed length: rewritten when the number of frames is known.
        _write_header(points_file, (0, 0, 0), np.dtype(np.float32))
        _write_header(mask_file, (0, 0), np.dtype(bool))
        for points, mask in samples:
            shape = (points.shape[1], points.shape[2])
            lengths.append(len(points))
            points_file.write(np.ascontiguousarray(points, np.float32).tobytes())
            mask_file.write(np.ascontiguousarray(mask, bool).tobytes())
        frames = sum(lengths)
        points_file.seek(0)
        _write_header(points_file, (frames, *shape), np.dtype(np.float32))
        mask_file.seek(0)
        _write_header(mask_file, (frames, shape[0]), np.dtype(bool))
        for handle in (points_file, mask_file):
            handle.flush()
            os.fsync(handle.fileno())
    np.save(folder / "offsets.npy", np.cumsum(lengths, dtype=np.int64))


def _write_header(handle: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Write a version 1.0 .npy header padded to 256 bytes whatever the shape."""
    text = repr({"descr": dtype.str, "fortran_order": False, "shape": shape})
    body = text.ljust(256 - 11).encode("ascii") + b"\n"
    handle.write(b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body)


def _move_into_hdf5(folder: Path) -> None:
    with import_h5py().File(folder / "samples.h5", "w") as file:
        for name in ("points", "mask", "offsets"):
            file[name] = np.load(folder / f"{name}.npy", mmap_mode="r")
            (folder / f"{name}.npy").unlink()


def import_h5py() -> Any:
    """Return the package h5py, or say which extra brings it."""
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "a cache in HDF5 needs 'h5py'; run: pip install 'posemill[formats]'"
        ) from error
    return h5py
