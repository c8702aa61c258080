"""The frames of one clip, out of a video, a folder of pictures or a pack, in the size asked for."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.decoders import VideoReader, open_video
from posemill.decoders.opening import TargetSize, raise_decode_error, raise_for_os_error
from posemill.decoders.pictures import keep_freed_memory, read_picture, resize_frame
from posemill.decoders.sampling import Sampling
from posemill.errors import DecodeError, TrainingError
from posemill.files import atomic_path, cache_folder, mark_output
from posemill.messages import Message
from posemill.records import Clip, Frame, IntArray
from posemill.runs.frame_index import picture_name
from posemill.sources.reading import frame_path, list_frames
from posemill.training.video.index import StoredClip, fingerprint

Frames = npt.NDArray[np.uint8]  # (frames, height, width, 3), RGB
Choose = Callable[..., IntArray]  # which of so many frames are read
_FORMAT = 3  # of the cache
_MOST_BYTES = 1 << 28  # of one clip of it; longer ones are decoded each time
_KEPT_FREE = 5 * 10**9  # bytes of the disk, or a tenth of it where that is less


@dataclass(frozen=True)
class FrameSize:
    """The size in which frames are given; None leaves them as they are.

    `crop` keeps the proportions and cuts off what stands out, on both sides alike; `stretch` keeps
    all of the picture.
    """

    size_wh: tuple[int, int] | None
    resize: str = "crop"

    def __post_init__(self) -> None:
        if self.resize not in ("crop", "stretch"):
            raise ValueError(f"resize: expected crop or stretch, got {self.resize!r}")
        if self.size_wh is not None and min(self.size_wh) < 1:
            raise ValueError(f"size: expected 1 pixel or more, got {self.size_wh}")

    @property
    def target_size(self) -> TargetSize:
        """What a decoder of videos may bring frames to, so that `apply` has little left to do."""
        if self.size_wh is None or self.resize == "stretch":
            return self.size_wh
        return max(self.size_wh)  # of the short side; the exact one where a square is asked for

    def scaled_wh(self, size_wh: tuple[int, int]) -> tuple[int, int]:
        """Return the size a frame of that size is brought to, before anything is cut off."""
        if self.size_wh is None or self.resize == "stretch":
            return self.size_wh or size_wh
        (width, height), (to_width, to_height) = size_wh, self.size_wh
        if width * to_height >= height * to_width:  # wider than asked for
            return max(to_width, round(width * to_height / height)), to_height
        return to_width, max(to_height, round(height * to_width / width))

    def cut(self, frames: Frames) -> Frames:
        """Return the middle of scaled frames `(…, height, width, 3)`, a view."""
        if self.size_wh is None:
            return frames
        width, height = self.size_wh
        top, left = (frames.shape[-3] - height) // 2, (frames.shape[-2] - width) // 2
        return frames[..., top : top + height, left : left + width, :]

    def apply(self, frame: Frame) -> Frame:
        """Return a frame in the size."""
        return self.cut(resize_frame(frame, self.scaled_wh((frame.shape[1], frame.shape[0]))))


class FrameCache:
    """Decoded clips, whole, on the disk in the size of the training; read by mapping.

    A file is named by the video (path, size and time of change) and by `way`, which is all that
    decides how a frame comes out: it is never stale, and trainings and loader processes share it.
    """

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
        return self.folder / f"{fingerprint(clip)}.npy"


def free_bytes(folder: Path) -> int:
    """Return how much may be kept below a folder, there or not; some of the disk stays free."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    disk = shutil.disk_usage(there)
    return max(0, disk.free - min(_KEPT_FREE, disk.total // 10))


@dataclass(eq=False)
class ClipReader:
    """Reads clips, and keeps the files of the last few open.

    Files are closed before a fork and opened again by whoever reads next: a decoder does not
    survive one. Sent to another process it arrives without any. Videos that `decoder` refuses are
    read by `refused_to`, and kept decoded on the disk where `is_cached`.
    """

    size: FrameSize
    decoder: str
    max_open: int
    refused_to: str | None = None
    is_cached: bool = False
    cache_folder: str | os.PathLike[str] | None = None  # below posemill's cache folder by default

    def __post_init__(self) -> None:
        if self.max_open < 1:
            raise ValueError(f"max_open: expected 1 or more, got {self.max_open}")
        # All that decides how a frame of a file comes out
        way = f"{self.size} {self.decoder} {self.refused_to}"
        self.cache = FrameCache(self.cache_folder, way) if self.is_cached else None
        self._open: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.RLock()
        _LIVE.add(self)

    def __reduce__(self) -> Any:  # in another process no file is open
        return ClipReader, tuple(getattr(self, field.name) for field in fields(self))

    def read(
        self, clip: Clip, sampling: Sampling, rng: np.random.Generator | None
    ) -> tuple[Frames, IntArray]:
        """Return `(frames, height, width, 3)` uint8 RGB of a clip, and which of its frames.

        One that cannot be read is a `DecodeError`.
        """
        with self._lock:
            if clip.kind == "video":
                return self._read_video(clip, sampling, rng)
            choose = partial(sampling.indices, rng=rng)
            if isinstance(clip, StoredClip) and not clip.suffix:
                return self._read_packed(clip, choose)
            return self._read_pictures(clip, choose)

    @property
    def num_open(self) -> int:
        """Files that are open in this process."""
        return len(self._open)

    def close(self) -> None:
        """Close all files; the next reading opens them again."""
        with self._lock:
            while self._open:
                _close(self._open.popitem()[1])

    def _kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what is open under a key; the longest unused is closed for a new one."""
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        while len(self._open) >= self.max_open:
            _close(self._open.popitem(last=False)[1])
        found = self._open[key] = make()
        return found

    def _read_packed(self, clip: StoredClip, choose: Choose) -> tuple[Frames, IntArray]:
        num_frames, (width, height) = clip.num_frames or 0, clip.size_wh
        pack: Frames = self._kept(clip.path, lambda: _map_pack(clip.path))
        end = clip.offset + num_frames * height * width * 3
        if end > len(pack):
            template = (
                "clip {clip_id!r} should end at byte {end:,} of {num_bytes:,}; write the frames "
                "again"
            )
            detail = Message(template, clip_id=clip.clip_id, end=end, num_bytes=len(pack))
            raise_decode_error(clip.path, "truncated", detail)
        indices = choose(num_frames, fps=clip.fps)
        stored = pack[clip.offset : end].reshape(num_frames, height, width, 3)
        scaled = self.size.scaled_wh((width, height))
        if scaled == (width, height):
            return np.ascontiguousarray(self.size.cut(stored)[indices]), indices
        return np.stack([self.size.apply(stored[number]) for number in indices]), indices

    def _read_pictures(self, clip: Clip, choose: Choose) -> tuple[Frames, IntArray]:
        if isinstance(clip, StoredClip):
            name_of: Callable[[int], str] = partial(picture_name, format=clip.suffix)
            count, fps = clip.num_frames or 0, clip.fps
        else:
            names: list[str] = self._kept(clip.path, lambda: list(list_frames(clip)))
            name_of, count, fps = names.__getitem__, len(names), clip.listed_fps
        indices = choose(count, fps=fps)
        keep_freed_memory()
        paths = [frame_path(clip, name_of(number)) for number in indices.tolist()]
        least = max(self.size.size_wh) if self.size.size_wh else None
        pictures = [self.size.apply(read_picture(path, least_side=least)) for path in paths]
        return _stack(pictures, clip.path), indices

    def _read_video(
        self, clip: Clip, sampling: Sampling, rng: np.random.Generator | None
    ) -> tuple[Frames, IntArray]:
        whole = self._whole_video(clip)
        if whole is not None and sampling.kind != "fps":
            indices = sampling.indices(len(whole), rng=rng)
        else:  # of a rate by the frames' own times
            indices = self._open_video(clip).sample(sampling, rng)
        frames = self._open_video(clip).frames_at(indices) if whole is None else whole[indices]
        return frames, indices

    def _whole_video(self, clip: Clip) -> Frames | None:
        """Return all frames out of the cache, decoded now if need be; None if it cannot be kept."""
        cache = self.cache
        frames = cache.find(clip) if cache else None
        if cache is None or frames is not None:
            return frames
        video = self._open_video(clip)
        width, height = self.size.size_wh or (1 << 12, 1 << 12)
        if not cache.has_room(video.num_frames * width * height * 3):
            return None
        try:
            frames = video.frames_at(np.arange(video.num_frames))
        except DecodeError:
            return None  # some of its frames may be good
        cache.add(clip, frames)
        return frames

    def count_bytes(self, clip: Clip) -> int | None:
        """Return what all frames of a video take in the size; None where it cannot be opened."""
        try:
            with self._lock:
                video = self._open_video(clip)
                frame = video.frames_at(np.arange(1))[0]
        except DecodeError:
            return None
        return int(video.num_frames * frame.nbytes)

    def sample_video(
        self, clip: Clip, sampling: Sampling, rng: np.random.Generator | None
    ) -> IntArray:
        """Return the frames of a video that `read` would read, without decoding it."""
        with self._lock:
            return self._open_video(clip).sample(sampling, rng)

    def _open_video(self, clip: Clip) -> _OpenVideo:
        def make() -> _OpenVideo:
            try:
                return _OpenVideo(clip, self.decoder, self.size)
            except DecodeError as error:
                if error.reason != "unsupported" or self.refused_to is None:
                    raise
                return _OpenVideo(clip, self.refused_to, self.size)

        video: _OpenVideo = self._kept((clip.path, clip.start_seconds, clip.end_seconds), make)
        return video


class _OpenVideo:
    """A video with its number of frames, which some containers do not say."""

    def __init__(self, clip: Clip, decoder: str, size: FrameSize) -> None:
        self.path, self.size = clip.path, size
        self.reader: VideoReader = open_video(
            clip.path,
            decoder=decoder,
            threads=1,
            start_seconds=clip.start_seconds,
            end_seconds=clip.end_seconds,
            target_size=size.target_size,
        )
        self.num_frames = self.reader.num_frames or self.reader.count_frames()
        if not self.num_frames:
            self.reader.close()
            raise_decode_error(clip.path, "no frames", Message("none inside"), frame_index=0)

    def sample(self, sampling: Sampling, rng: np.random.Generator | None) -> IntArray:
        """Return the numbers of the frames to read; by their own times for a rate."""
        seconds = self.reader.frame_seconds() if sampling.kind == "fps" else None
        return sampling.indices(self.num_frames, rng=rng, seconds=seconds)

    def frames_at(self, indices: IntArray) -> Frames:
        """Return these frames in the size."""
        try:
            frames = self.reader.frames_at(indices.tolist())
        except IndexError as error:  # the container promised more frames than it has
            raise_decode_error(self.path, "corrupt", str(error), cause=error)
        return _stack([self.size.apply(frame) for frame in frames], self.path)


def _stack(frames: list[Frame], path: str) -> Frames:
    shapes = {frame.shape for frame in frames}
    if len(shapes) > 1:
        sizes = " and ".join(f"{width} x {height}" for height, width, _ in sorted(shapes)[:2])
        detail = Message("frames of {sizes} in one clip; give a size", sizes=sizes)
        raise_decode_error(path, "unsupported", detail)
    return np.stack(frames)


# By path and what tells that the file is another by now.
_MAPS: weakref.WeakValueDictionary[tuple[Any, ...], np.memmap[Any, Any]] = (
    weakref.WeakValueDictionary()
)


def _map_pack(path: str) -> Frames:
    """Return a file mapped into memory, once for all readers: Multigrid has a dozen of them."""
    try:
        about = os.stat(path)  # noqa: PTH116
        key = path, about.st_ino, about.st_size, about.st_mtime_ns
        found = _MAPS.get(key)
        if found is None:
            found = _MAPS[key] = np.memmap(path, np.uint8, "r")
        return found
    except OSError as error:
        raise_for_os_error(path, error)
    except ValueError as error:  # nothing can be mapped of a file without bytes
        raise_decode_error(
            path, "empty file", Message("it has 0 bytes; write it again"), cause=error
        )


def _close(opened: Any) -> None:
    if isinstance(opened, _OpenVideo):
        opened.reader.close()
    # A map is closed with its last view, which a caller may still hold.


_LIVE: weakref.WeakSet[ClipReader] = weakref.WeakSet()
_HELD: list[ClipReader] = []


def _before_fork() -> None:
    for reader in list(_LIVE):
        reader._lock.acquire()
        reader.close()
        _HELD.append(reader)


def _after_fork() -> None:
    while _HELD:
        _HELD.pop()._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
