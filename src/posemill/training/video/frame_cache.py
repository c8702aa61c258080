"""Decoded frames of videos, kept on the disk in the size of the training and read by mapping.

A clip is decoded whole when it is first asked for. What is kept depends on the file (its path, size
and time of change) and on how it was read, so it is never stale, and trainings share it. Loader
processes each append to a file of their own; see `caching.segments`.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from posemill.errors import TrainingError
from posemill.files import cache_folder, mark_output
from posemill.training.data.segments import Segments
from posemill.training.video.index import ClipPlace

_FORMAT = 1
_SHAPE = struct.Struct("<III")  # frames, height, width
_MOST_BYTES = 1 << 28  # of one clip; longer ones are decoded each time
_KEPT_FREE = 5 * 10**9  # bytes of the disk, or a tenth of it where that is less


class FrameCache:
    """Whole clips by their place; every process has its own view of the same files.

    Args:
        folder: Of all such caches; posemill's own where None.
        way: All that decides how a frame of a file comes out: size, decoder.
    """

    def __init__(self, folder: Path | str | None, way: str) -> None:
        self._root = Path(folder) if folder else cache_folder() / "frames"
        self.folder = self._root / hashlib.sha256(f"{_FORMAT}\0{way}".encode()).hexdigest()[:32]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            mark_output(self.folder)
        except OSError as error:
            raise TrainingError(
                "cannot write decoded frames to {folder} ({reason}); choose another "
                "{--cache-folder}, or {--cache:none}",
                folder=self.folder,
                reason=error.strerror,
            ) from error
        self._segments = Segments(self.folder, is_hdf5=False)
        self._is_full = False

    def in_another_way(self, way: str) -> FrameCache:
        """Return the cache of frames that come out in another way."""
        return FrameCache(self._root, way)

    def find(self, place: ClipPlace) -> npt.NDArray[np.uint8] | None:
        """Return all frames of a clip `(frames, height, width, 3)`, mapped; None if not there."""
        key = _key_of(place)
        known = None if key is None else self._segments.find(key)
        if known is None:
            return None
        shape = (*_SHAPE.unpack(known[0][: _SHAPE.size]), 3)
        return np.frombuffer(known[0], np.uint8, offset=_SHAPE.size).reshape(shape)

    def has_room(self, num_bytes: int) -> bool:
        """Return whether a clip of so many bytes is to be kept."""
        if self._is_full or num_bytes > _MOST_BYTES:
            return False
        self._is_full = num_bytes > free_bytes(self.folder)
        return not self._is_full

    def add(self, place: ClipPlace, frames: npt.NDArray[np.uint8]) -> None:
        """Keep all frames of a clip; where the disk refuses, it is decoded again next time."""
        key = _key_of(place)
        if key is None:
            return
        data = _SHAPE.pack(*frames.shape[:3]) + frames.tobytes()
        try:
            self._segments.add(key, data, time.time())
        except OSError:
            self._is_full = True


def free_bytes(folder: Path) -> int:
    """Return how much may be kept below a folder, there or not; some of the disk stays free."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    disk = shutil.disk_usage(there)
    return max(0, disk.free - min(_KEPT_FREE, disk.total // 10))


def _key_of(place: ClipPlace) -> int | None:
    """Return a number for a clip of a file as it is now; None where the file is not there."""
    path = Path(place.path)
    try:
        facts = path.stat()
    except OSError:
        return None
    text = (
        f"{path.absolute()}\0{facts.st_size}\0{facts.st_mtime_ns}\0"
        f"{place.start_seconds}\0{place.end_seconds}"
    )
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:7], "big")
