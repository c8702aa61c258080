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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from posemill.errors import MissingExtraError, TrainingError
from posemill.files import cache_folder, remove_leftovers, sync_folder, temporary_stem
from posemill.records import BoolArray, FloatArray, IntArray

_FORMAT = 3
_READY = "ready.json"

Samples = Iterable[tuple[FloatArray, BoolArray]]


class Store:
    """Packed samples: `points` (frames, K, D), `mask` (frames, K) and `offsets` (N + 1,).

    Args:
        offsets: Where each sample begins; the last is the number of frames.
        arrays: Points and mask in memory; None: of the folder.
        folder: Of the files, opened in each process that reads: handles do not travel.
    """

    def __init__(
        self,
        offsets: IntArray,
        arrays: tuple[FloatArray, BoolArray] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.offsets, self._folder = offsets, folder
        self._open: tuple[int, Any] = (0, arrays)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": (0, None)} if self._folder else self.__dict__

    def read(self, index: int) -> tuple[FloatArray, BoolArray]:
        """Return points `(T, K, D)` and mask `(T, K)` of one sample; do not modify."""
        if self._folder is not None and self._open[0] != os.getpid():
            self._open = os.getpid(), _open_arrays(self._folder)[1:]
        points, mask = self._open[1]
        start, stop = int(self.offsets[index]), int(self.offsets[index + 1])
        return points[start:stop], mask[start:stop]


def precompute(
    samples: Samples, *, key: str, kind: str = "mmap", folder: Path | None = None
) -> Store:
    """Return samples that are computed once per key and kind.

    Args:
        samples: Points `(T, K, D)` and mask `(T, K)` of each, as they are computed; not touched
            on a cache hit.
        key: Names all that decides what `samples` yields, in that order.
        kind: `mmap`, `ram` (kept on the disk as mmap, read into memory), `hdf5`, or
            `none`: in memory, nothing kept on the disk.
        folder: Where caches are kept; `training` below posemill's cache folder by default.
    """
    if kind == "none":
        points, masks = zip(*samples, strict=True)
        offsets = np.cumsum([0, *map(len, masks)], dtype=np.int64)
        return Store(offsets, (np.concatenate(points), np.concatenate(masks)))
    on_disk = "hdf5" if kind == "hdf5" else "mmap"
    root = folder or cache_folder() / "training"
    text = f"{_FORMAT}\0{on_disk}\0{key}"
    place = root / hashlib.sha256(text.encode()).hexdigest()[:32]
    if not (place / _READY).is_file():
        try:
            with _whole_folder(place) as working:
                _write(samples, working, is_hdf5=on_disk == "hdf5")
        except OSError as error:
            raise TrainingError(
                "cannot write the cache below {root} ({error}); free some space there, or "
                "name another folder with {--cache-folder}",
                root=root,
                error=error,
            ) from error
    offsets, *arrays = _open_arrays(place)
    if kind == "ram":
        return Store(offsets[:], (np.array(arrays[0]), np.array(arrays[1])))
    return Store(offsets[:], folder=place)


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


def _write(samples: Samples, folder: Path, *, is_hdf5: bool) -> None:
    """Append raw numbers to two files; their shape is in a third, which is written last."""
    lengths, shape = [0], (0, 0)
    with (folder / "points").open("wb") as points_file, (folder / "mask").open("wb") as mask_file:
        for points, mask in samples:
            shape = (points.shape[1], points.shape[2])
            lengths.append(len(points))
            points_file.write(np.ascontiguousarray(points, np.float32).tobytes())
            mask_file.write(np.ascontiguousarray(mask, bool).tobytes())
        for handle in (points_file, mask_file):
            handle.flush()
            os.fsync(handle.fileno())
    np.save(folder / "offsets.npy", np.cumsum(lengths, dtype=np.int64))
    (folder / _READY).write_text(json.dumps(shape))
    if is_hdf5:
        arrays = dict(zip(("offsets", "points", "mask"), _open_arrays(folder), strict=True))
        with import_h5py().File(folder / "samples.h5", "w") as file:
            for name, array in arrays.items():
                file[name] = array
        for name in ("offsets.npy", "points", "mask"):
            (folder / name).unlink()


def _open_arrays(folder: Path) -> list[Any]:
    """Return offsets, points and mask of what `_write` wrote."""
    if (folder / "samples.h5").is_file():
        file = import_h5py().File(folder / "samples.h5", "r")
        return [file[name] for name in ("offsets", "points", "mask")]
    offsets = np.load(folder / "offsets.npy")
    num_points, num_dims = json.loads((folder / _READY).read_text())
    points, mask = (
        np.memmap(folder / name, dtype, "r", shape=(int(offsets[-1]), num_points, *more))
        for name, dtype, more in (("points", np.float32, [num_dims]), ("mask", bool, []))
    )
    return [offsets, points, mask]


def import_h5py() -> Any:
    """Return the package h5py, or say which extra brings it."""
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "a cache in HDF5 needs 'h5py'; run: pip install 'posemill[formats]'"
        ) from error
    return h5py
