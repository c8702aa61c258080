"""HDF5: the arrays of the npz as datasets that can be sliced, clips by offset and length.

Root datasets as in `posemill.formats.npz`; strings are UTF-8; the attribute `posemill` holds JSON
with version, skeleton and recipe. Chunks carry checksums.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from posemill.errors import FormatError, MissingExtraError
from posemill.files import atomic_path
from posemill.formats.shared.contract import (
    ANY,
    ClipStream,
    Format,
    Recipe,
    Size,
    head_of,
    info_text,
    make_clip,
    read_header,
    read_info,
    skeleton_for,
)
from posemill.geometry import fill_missing
from posemill.records import PoseClip, fields_of_recipe
from posemill.skeletons import Skeleton, get_skeleton

_CHUNK_FRAMES = 64
# name -> (dtype, row shape with None for the number of keypoints)
_FRAME_SETS: dict[str, tuple[Any, tuple[int | None, ...]]] = {
    "keypoints": (np.float32, (None, 3)),
    "scores": (np.float32, (None,)),
    "mask": (np.bool_, (None,)),
    "frame_index": (np.int64, ()),
    "sizes_wh": (np.int32, (2,)),
}
_CLIP_SETS = {"offsets": "iu", "lengths": "iu", "clip_ids": "O", "splits": "O", "clip_info": "O"}


def _h5py() -> Any:
    try:
        return import_module("h5py")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "format 'hdf5' needs 'h5py'; run: pip install 'posemill[formats]'"
        ) from error


class Hdf5Format(Format):
    """One HDF5 file."""

    name = "hdf5"
    suffix = ".h5"
    layouts: tuple[str, ...] = ("holistic-543", ANY)
    has_mask = True
    needs_unicode = True
    damage = (RuntimeError,)

    def sniff(self, path: Path) -> bool:
        """Return True for a file that begins as HDF5 files do."""
        return head_of(path, 8) == b"\x89HDF\r\n\x1a\n"

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write one file; its datasets grow with every clip."""
        h5py = _h5py()
        per_clip: dict[str, list[Any]] = {name: [] for name in _CLIP_SETS}
        with atomic_path(path) as temporary, _new_file(h5py, temporary) as file:
            for clip in clips:
                start = clips.summary.num_frames
                if clips.is_first:
                    file.do(_create, clip.skeleton.num_points)
                file.do(_append, clip, start, clips.asked)
                row = (start, len(clip), clip.clip_id, clip.split, info_text(clip))
                for values, value in zip(per_clip.values(), row, strict=True):
                    values.append(value)
            header = json.dumps(clips.header())
            file.do(_finish, per_clip, get_skeleton(clips.skeleton_name), header)

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips."""
        h5py = _h5py()
        with h5py.File(path, "r") as file:
            header = read_header(str(file.attrs.get("posemill", "{}")))
            sets = _open_sets(path, file, h5py)
            skeleton = skeleton_for(sets["keypoints"].shape[1], path, header.get("skeleton"))
            made = fields_of_recipe(header.get("recipe"))
            _check_sets(path, sets)
            clips = {name: sets[name][()] for name in _CLIP_SETS}
            for index, length in enumerate(clips["lengths"].tolist()):
                start = int(clips["offsets"][index])
                if not 0 <= start <= start + length <= len(sets["keypoints"]):
                    raise FormatError(
                        "{path}: clip {index} is frames {start} to {end} of {num_keypoints}",
                        path=path,
                        index=index,
                        start=start,
                        end=start + length,
                        num_keypoints=len(sets["keypoints"]),
                    )
                rows = slice(start, start + length)
                paths = tuple(_text(value) for value in sets["image_paths"][rows])
                yield make_clip(
                    path,
                    sets["keypoints"][rows],
                    sets["scores"][rows],
                    sets["mask"][rows],
                    skeleton_name=skeleton,
                    sizes_wh=sets["sizes_wh"][rows].astype(np.int32),
                    frame_indices=sets["frame_index"][rows].astype(np.int64),
                    clip_id=_text(clips["clip_ids"][index]),
                    split=_text(clips["splits"][index]),
                    image_paths=paths if any(paths) else (),
                    **read_info(_text(clips["clip_info"][index])),
                    **made,
                )


class _Worker:
    """Does all work on one HDF5 file, in a thread of its own: Ctrl-C cannot cut it in two there."""

    def __init__(self, h5py: Any, disk: DeferredErrorFile, thread: ThreadPoolExecutor) -> None:
        self._disk, self._thread = disk, thread
        self._file = thread.submit(h5py.File, disk, "w").result()

    def do(self, work: Callable[..., None], *arguments: Any) -> None:
        """Call `work(file, *arguments)`; OSError if the disk failed."""
        self._thread.submit(work, self._file, *arguments).result()
        self._disk.raise_failure()

    def close(self) -> None:
        """End the file after whatever is still at work."""
        self._thread.submit(self._file.close).result()


@contextmanager
def _new_file(h5py: Any, path: Path) -> Iterator[_Worker]:
    with DeferredErrorFile(path) as disk:
        with ThreadPoolExecutor(1, "hdf5") as thread:
            file = _Worker(h5py, disk, thread)
            try:
                yield file
            finally:
                file.close()
        disk.raise_failure()


def _create(file: Any, num_points: int) -> None:
    for name, (dtype, row) in _FRAME_SETS.items():
        shape = tuple(num_points if length is None else length for length in row)
        file.create_dataset(
            name,
            (0, *shape),
            dtype,
            maxshape=(None, *shape),
            chunks=(_CHUNK_FRAMES, *shape),
            fletcher32=True,
        )
    text = _h5py().string_dtype()
    file.create_dataset("image_paths", (0,), text, maxshape=(None,), chunks=(1024,))


def _append(file: Any, clip: PoseClip, start: int, recipe: Recipe) -> None:
    values: dict[str, Any] = {
        "keypoints": fill_missing(clip.points, recipe.fill or "zero"),
        "scores": clip.scores,
        "mask": clip.mask,
        "frame_index": clip.frame_indices,
        "sizes_wh": clip.sizes_wh,
        "image_paths": list(clip.image_paths) or [""] * len(clip),
    }
    if not len(clip):
        return
    for name, rows in values.items():
        file[name].resize(start + len(clip), axis=0)
        file[name][start:] = rows


def _finish(file: Any, per_clip: dict[str, list[Any]], skeleton: Skeleton, header: str) -> None:
    text = _h5py().string_dtype()
    for name, values in per_clip.items():
        kind = np.int64 if _CLIP_SETS[name] == "iu" else text
        file.create_dataset(name, data=np.array(values, kind), dtype=kind)
    names = np.array(skeleton.point_names, text)
    file.create_dataset("keypoint_names", data=names, dtype=text)
    file.attrs["posemill"] = header


def _open_sets(path: Path, file: Any, h5py: Any) -> dict[str, Any]:
    wanted = [*_FRAME_SETS, "image_paths", *_CLIP_SETS]
    # A link of another kind could lead into another file.
    missing = [
        name
        for name in wanted
        if not isinstance(file.get(name, getlink=True), h5py.HardLink)
        or not isinstance(file.get(name), h5py.Dataset)
    ]
    if missing:
        found = ", ".join(sorted(str(name)[:40] for name in file)[:20]) or "nothing"
        raise FormatError(
            "{path}: expected the datasets {wanted}; missing: {missing}; found: {found}",
            path=path,
            wanted=", ".join(wanted),
            missing=", ".join(missing),
            found=found,
        )
    size = path.stat().st_size
    for name in wanted:
        data = file[name]
        # Our chunks are not packed, so a set cannot be much larger than the file.
        if data.size * data.dtype.itemsize > 2 * size + (1 << 20):
            raise FormatError(
                "{path}: '{name}' {data_shape} is larger than the file",
                path=path,
                name=name,
                data_shape=data.shape,
            )
        if data.external or data.is_virtual:
            raise FormatError(
                "{path}: the data of '{name}' is in another file; expected it here",
                path=path,
                name=name,
            )
    return {name: file[name] for name in wanted}


def _check_sets(path: Path, sets: dict[str, Any]) -> None:
    frames, num_points = sets["keypoints"].shape[:2]
    for name, (dtype, row) in _FRAME_SETS.items():
        shape = (frames, *(num_points if length is None else length for length in row))
        got = sets[name]
        if got.shape != shape or got.dtype.kind != np.dtype(dtype).kind:
            raise FormatError(
                "{path}: expected '{name}' {dtype} {shape}, got {got_dtype} {got_shape}",
                path=path,
                name=name,
                dtype=np.dtype(dtype),
                shape=shape,
                got_dtype=got.dtype,
                got_shape=got.shape,
            )
    for name, kinds in {"image_paths": "O", **_CLIP_SETS}.items():
        count = frames if name == "image_paths" else len(sets["lengths"])
        if sets[name].shape != (count,) or sets[name].dtype.kind not in kinds:
            raise FormatError(
                "{path}: expected {count} of '{name}', got {shape}",
                path=path,
                count=count,
                name=name,
                shape=sets[name].shape,
            )


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


class DeferredErrorFile:
    """A new file with the methods h5py calls; a context manager.

    Ask `raise_failure` after every piece of work: what is written after a failure is held in
    memory until then.
    """

    def __init__(self, path: Path) -> None:
        self._raw = path.open("w+b", buffering=0)
        self._at = 0
        # Not the error itself: it would keep alive all that its traceback leads to.
        self._failure: tuple[int | None, str | None] | None = None
        self._held: list[tuple[int, bytes]] = []  # in the order of writing

    def raise_failure(self) -> None:
        """Raise the first error of the disk, if there was one."""
        if self._failure is not None:
            raise OSError(*self._failure)

    def write(self, data: memoryview) -> int:
        """Write at the position; return how many bytes, which is always all."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            if self._failure is None:
                self._raw.seek(self._at)
                while done < len(view):
                    done += self._raw.write(view[done:])
        except OSError as error:
            self._failure = error.errno, error.strerror
        if done < len(view):
            self._held.append((self._at + done, bytes(view[done:])))
        self._at += len(view)
        return len(view)

    def readinto(self, buffer: memoryview) -> int:
        """Read at the position; return how many bytes, zeros where nothing was written."""
        view = memoryview(buffer).cast("B")
        self._raw.seek(self._at)
        done = 0
        while count := self._raw.readinto(view[done:]):
            done += count
        view[done:] = bytes(len(view) - done)
        for start, data in self._held:
            first, last = max(start, self._at), min(start + len(data), self._at + len(view))
            if first < last:
                view[first - self._at : last - self._at] = data[first - start : last - start]
        self._at += len(view)
        return len(view)

    def read(self, size: int) -> bytes:
        """Return so many bytes at the position; h5py knows a file by this method."""
        data = bytearray(size)
        self.readinto(memoryview(data))
        return bytes(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place and return it."""
        if whence == os.SEEK_END:
            ends = [start + len(data) for start, data in self._held]
            offset += max(self._raw.seek(0, os.SEEK_END), *ends, 0)
        elif whence == os.SEEK_CUR:
            offset += self._at
        self._at = offset
        return offset

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def truncate(self, size: int) -> int:
        """Make the file this long."""
        try:
            if self._failure is None:
                self._raw.truncate(size)
        except OSError as error:
            self._failure = error.errno, error.strerror
        return size

    def flush(self) -> None:
        """Do nothing: every write goes to the system at once."""

    def __enter__(self) -> DeferredErrorFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._raw.close()
