"""HDF5: the arrays of the npz as datasets that can be sliced, clips by offset and length."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from posemill.errors import import_optional
from posemill.files import atomic_path
from posemill.formats.shared import contract
from posemill.formats.shared.contract import ClipStream, Format, Size
from posemill.formats.shared.json_text import info_text, read_info
from posemill.npz.clips import read_object
from posemill.npz.mapped import check_array
from posemill.npz.writer import refuse_nul
from posemill.records import PoseClip
from posemill.skeletons import Skeleton, get_skeleton

_CHUNK_FRAMES = 64
_CLIP_SETS = {"offsets": "iu", "lengths": "iu", "clip_ids": "O", "splits": "O", "clip_info": "O"}

_h5py = partial(import_optional, "h5py", extra="formats")


class Hdf5Format(Format):
    """One HDF5 file."""

    name = "hdf5"
    suffix = ".h5"
    first_bytes = b"\x89HDF\r\n\x1a\n"
    layouts: tuple[str, ...] = ("holistic-543", contract.ANY)
    has_mask = True
    needs_unicode = True
    damage = (RuntimeError,)

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write one file; its datasets grow with every clip."""
        rows: list[tuple[Any, ...]] = []  # of `_CLIP_SETS`
        with atomic_path(path) as temporary, _new_file(_h5py(), temporary) as do:
            for clip in clips:
                refuse_nul((clip.clip_id, clip.split, *clip.image_paths), self.name)
                start = clips.summary.num_frames
                if clips.is_first:
                    do(_create, clip.skeleton.num_points)
                do(_append, clip, start, contract.arrays_of(clip, clips.asked))
                rows.append((start, len(clip), clip.clip_id, clip.split, info_text(clip)))
            do(_finish, rows, get_skeleton(clips.skeleton_name), json.dumps(clips.header()))

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips."""
        h5py = _h5py()
        with h5py.File(path, "r") as file:
            header = read_object(str(file.attrs.get("posemill", "{}")))
            sets = _open_sets(path, file, h5py)
            done = contract.header_fields(header, sets["keypoints"].shape[1], path)
            clips = {name: sets[name][()] for name in _CLIP_SETS}
            for index, length in enumerate(clips["lengths"].tolist()):
                start = int(clips["offsets"][index])
                if not 0 <= start <= start + length <= len(sets["keypoints"]):
                    raise ValueError(f"clip {index} is frames {start} to {start + length}")
                rows = slice(start, start + length)
                yield contract.clip_of_arrays(
                    {name: sets[name][rows] for name in contract.FRAME_ARRAYS},
                    clip_id=clips["clip_ids"][index],
                    split=clips["splits"][index],
                    image_paths=tuple(sets["image_paths"][rows]),
                    **read_info(clips["clip_info"][index]),
                    **done,
                )


@contextmanager
def _new_file(h5py: Any, path: Path) -> Iterator[Callable[..., None]]:
    """Yield what calls a function with the file: in a thread, where Ctrl-C cannot cut it in two."""
    with DeferredErrorFile(path) as disk, ThreadPoolExecutor(1, "hdf5") as thread:
        file = thread.submit(h5py.File, disk, "w").result()

        def do(work: Callable[..., None], *arguments: Any) -> None:
            thread.submit(work, file, *arguments).result()
            disk.raise_failure()

        try:
            yield do
        finally:
            thread.submit(file.close).result()
        disk.raise_failure()


def _create(file: Any, num_points: int) -> None:
    def create(name: str, kind: Any, *chunk: int, **options: Any) -> None:
        shape = chunk[1:]
        options |= {"maxshape": (None, *shape), "chunks": chunk}
        file.create_dataset(name, (0, *shape), kind, **options)

    for name, (kind, _) in contract.FRAME_ARRAYS.items():
        create(name, kind, _CHUNK_FRAMES, *contract.row_shape(name, num_points), fletcher32=True)
    create("image_paths", _h5py().string_dtype(), 1024)


def _append(file: Any, clip: PoseClip, start: int, arrays: dict[str, Any]) -> None:
    paths = list(clip.image_paths) or [""] * len(clip)
    for name, rows in {**arrays, "image_paths": paths}.items():
        if len(clip):
            file[name].resize(start + len(clip), axis=0)
            file[name][start:] = rows


def _finish(file: Any, rows: list[Any], skeleton: Skeleton, header: str) -> None:
    text = _h5py().string_dtype()
    for name, values in zip(_CLIP_SETS, zip(*rows, strict=True), strict=True):
        kind = np.int64 if _CLIP_SETS[name] == "iu" else text
        file.create_dataset(name, data=np.array(values, kind), dtype=kind)
    file.create_dataset("keypoint_names", data=np.array(skeleton.point_names, text), dtype=text)
    file.attrs["posemill"] = header


def _open_sets(path: Path, file: Any, h5py: Any) -> dict[str, Any]:
    """Return the datasets by name, each here, in this file and no larger than it."""
    sets = {}
    for name in (*contract.FRAME_ARRAYS, "image_paths", *_CLIP_SETS):
        # A link of another kind could lead into another file.
        is_here = isinstance(file.get(name, getlink=True), h5py.HardLink)
        if not is_here or not isinstance(file.get(name), h5py.Dataset):
            names = ", ".join(sorted(str(each)[:40] for each in file)[:20]) or "nothing"
            raise ValueError(f"expected a dataset '{name}', found {names}")
        data = sets[name] = file[name]
        # Our chunks are not packed, so a set cannot be much larger than the file.
        if data.size * data.dtype.itemsize > 2 * path.stat().st_size + (1 << 20):
            raise ValueError(f"'{name}' {data.shape} is larger than the file")
        if data.external or data.is_virtual:
            raise ValueError(f"the data of '{name}' is in another file; expected it here")
    for name, kinds in {"image_paths": "O", **_CLIP_SETS}.items():
        count = len(sets["keypoints" if name == "image_paths" else "lengths"])
        check_array(sets[name], name, kinds, (count,))
        if kinds == "O":
            sets[name] = sets[name].asstr()
    return sets


class DeferredErrorFile(io.FileIO):
    """A new file for h5py, which crashes where a disk is full: errors wait for `raise_failure`.

    Ask that after every piece of work: what is written after a failure is held in memory.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w+")
        # Not the error itself: it would keep alive all that its traceback leads to.
        self._failure: tuple[int | None, str | None] | None = None
        self._held: list[tuple[int, bytes]] = []  # in the order of writing

    def raise_failure(self) -> None:
        """Raise the first error of the disk, if there was one."""
        if self._failure is not None:
            raise OSError(*self._failure)

    def write(self, data: Any) -> int:
        """Write at the position; return how many bytes, which is always all."""
        view, start, done = memoryview(data).cast("B"), self.tell(), 0
        try:
            while self._failure is None and done < len(view):
                done += super().write(view[done:])
        except OSError as error:
            self._failure = error.errno, error.strerror
        if done < len(view):
            self._held.append((start + done, bytes(view[done:])))
            self.seek(start + len(view))
        return len(view)

    def readinto(self, buffer: Any) -> int:
        """Read at the position; return how many bytes, zeros where nothing was written."""
        view, start, done = memoryview(buffer).cast("B"), self.tell(), 0
        while count := super().readinto(view[done:]):
            done += count
        view[done:] = bytes(len(view) - done)
        for at, data in self._held:
            first, last = max(at, start), min(at + len(data), start + len(view))
            if first < last:
                view[first - start : last - start] = data[first - at : last - at]
        return self.seek(start + len(view)) - start

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place and return it."""
        if whence == os.SEEK_END:
            ends = [at + len(data) for at, data in self._held]
            offset += max(super().seek(0, os.SEEK_END), *ends, 0)
            whence = os.SEEK_SET
        return super().seek(offset, whence)

    def truncate(self, size: int | None = None) -> int:
        """Make the file this long."""
        try:
            if self._failure is None:
                super().truncate(size)
        except OSError as error:
            self._failure = error.errno, error.strerror
        return size or 0
