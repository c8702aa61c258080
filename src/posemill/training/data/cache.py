"""Samples packed one after the other: mapped npz files (default), RAM, or HDF5.

A cache is named by all that decides what is in it, so it is never stale. It is written under
another name and renamed when whole: other processes see all of it or nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from posemill.errors import TrainingError, import_optional
from posemill.files import atomic_path, cache_folder, remove_leftovers
from posemill.machine.processes import PerProcess
from posemill.npz.mapped import open_npz
from posemill.npz.writer import ArchiveWriter
from posemill.records import BoolArray, FloatArray, IntArray

_FORMAT = 4

Samples = Iterable[tuple[FloatArray, BoolArray]]


class Store:
    """Packed samples.

    `open_arrays` opens, in each process that reads, `points` (frames, K, D), `mask` (frames, K),
    and `offsets` (N + 1,): where each sample begins; the last is the number of frames.
    """

    def __init__(self, open_arrays: Callable[[], Mapping[str, Any]]) -> None:
        self._arrays = PerProcess(open_arrays)
        self.offsets: IntArray = np.array(self._arrays.get()["offsets"])

    def read(self, index: int) -> tuple[FloatArray, BoolArray]:
        """Return points `(T, K, D)` and mask `(T, K)` of one sample; do not modify."""
        arrays, frames = self._arrays.get(), slice(self.offsets[index], self.offsets[index + 1])
        return arrays["points"][frames], arrays["mask"][frames]


def precompute(
    samples: Samples, *, key: str, kind: str = "mmap", folder: Path | None = None
) -> Store:
    """Return samples that are computed once per key and kind; not touched on a cache hit.

    `key` names all that decides what `samples` yields, in that order. A `kind` of `ram` is kept on
    the disk as mmap, one of `none` is not. Caches are in `folder`, or in
    `training` below posemill's cache folder.
    """
    if kind == "none":
        points, masks = zip(*samples, strict=True)
        offsets = np.cumsum([0, *map(len, masks)], dtype=np.int64)
        packed, mask = np.concatenate(points), np.concatenate(masks)
        return Store(partial(dict, offsets=offsets, points=packed, mask=mask))
    root = folder or cache_folder() / "training"
    name = hashlib.sha256(f"{_FORMAT}\0{key}".encode()).hexdigest()[:32]
    path = root / (f"{name}.h5" if kind == "hdf5" else f"{name}.npz")
    if not path.is_file():
        try:
            root.mkdir(parents=True, exist_ok=True)
            remove_leftovers(path)
            with atomic_path(path) as temporary:
                (_write_hdf5 if kind == "hdf5" else _write)(samples, temporary)
        except OSError as error:
            raise TrainingError(
                "cannot write the cache below {root} ({error}); free some space there, or "
                "name another folder with {--cache-folder}",
                root=root,
                error=error,
            ) from error
    if kind == "ram":
        in_memory = {name: np.array(array) for name, array in open_npz(path).items()}
        return Store(partial(dict, in_memory))
    return Store(partial(import_h5py().File if kind == "hdf5" else open_npz, path))


def _write(samples: Samples, path: Path) -> None:
    """Write an npz, sample by sample."""
    lengths = [0]
    with ArchiveWriter(path) as archive:
        for points, mask in samples:
            archive.append("points", points.astype(np.float32, copy=False))
            archive.append("mask", mask.astype(bool, copy=False))
            lengths.append(len(points))
        archive.finish({"offsets": np.cumsum(lengths, dtype=np.int64)})


def _write_hdf5(samples: Samples, path: Path) -> None:
    packed = path.with_suffix(".npz.tmp")
    try:
        _write(samples, packed)
        with import_h5py().File(path, "w") as file:
            for name, array in open_npz(packed).items():
                file[name] = array
    finally:
        packed.unlink(missing_ok=True)


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


def import_h5py() -> Any:
    """Return the package h5py, or say which extra brings it."""
    return import_optional("h5py", extra="formats")
