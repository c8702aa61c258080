"""Decoded frames of videos, kept on the disk in the size of the training and read by mapping.

A clip is kept whole, as an .npy file named by the video (path, size and time of change) and by how
it was read: it is never stale, and trainings and loader processes share it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from posemill.errors import TrainingError
from posemill.files import atomic_path, cache_folder, mark_output
from posemill.records import Clip
from posemill.training.video.index import fingerprint

_FORMAT = 3
_MOST_BYTES = 1 << 28  # of one clip; longer ones are decoded each time
_KEPT_FREE = 5 * 10**9  # bytes of the disk, or a tenth of it where that is less


class FrameCache:
    """Whole clips by their place; `way` is all that decides how a frame comes out."""

    def __init__(self, folder: str | os.PathLike[str] | None, way: str) -> None:
        root = Path(folder) if folder else cache_folder() / "frames"
        self.folder = root / hashlib.sha256(f"{_FORMAT}\0{way}".encode()).hexdigest()[:32]
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
        self._is_full = False

    def find(self, clip: Clip) -> npt.NDArray[np.uint8] | None:
        """Return all frames of a clip `(frames, height, width, 3)`, mapped; None if not there."""
        try:
            frames: npt.NDArray[np.uint8] = np.load(self._path(clip), mmap_mode="r")
        except (OSError, ValueError, EOFError):  # not there, or damaged
            return None
        return frames

    def has_room(self, num_bytes: int) -> bool:
        """Return whether a clip of so many bytes is to be kept."""
        if self._is_full or num_bytes > _MOST_BYTES:
            return False
        self._is_full = num_bytes > free_bytes(self.folder)
        return not self._is_full

    def add(self, clip: Clip, frames: npt.NDArray[np.uint8]) -> None:
        """Keep all frames of a clip; where the disk refuses, it is decoded again next time."""
        try:
            with atomic_path(self._path(clip)) as temporary, temporary.open("wb") as file:
                np.save(file, frames)
        except OSError:
            self._is_full = True

    def _path(self, clip: Clip) -> Path:
        """Return where a clip of a file as it is now belongs."""
        return self.folder / f"{fingerprint(clip)}.npy"


def free_bytes(folder: Path) -> int:
    """Return how much may be kept below a folder, there or not; some of the disk stays free."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    disk = shutil.disk_usage(there)
    return max(0, disk.free - min(_KEPT_FREE, disk.total // 10))
