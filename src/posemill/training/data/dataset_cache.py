"""`cache_dataset`: the result of a slow, repeatable step is kept after its first use.

A sample is a file of its own, renamed into its place when it is whole: nobody waits for anybody,
and a kill loses the sample under way. It is kept as bytes, without pickle: reading a stranger's
file runs nothing. A checksum and the length of the description come first, then the description
(JSON), then the numbers of every array.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import sys
import weakref
import zlib
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posemill.errors import TrainingError
from posemill.files import cache_folder, mark_output, remove_leftovers, temporary_stem
from posemill.messages import Message
from posemill.training.data.cache import import_h5py

STORES = ("mmap", "ram", "hdf5")
_FORMAT = 3
_FULL_MARK = "no-room"


def cache_dataset(
    dataset: Any,
    *,
    key: str | Mapping[str, Any],
    folder: Path | str | None = None,
    store: str = "mmap",
    limit_gb: float | None = None,
) -> CachedDataset:
    """Return a data set that makes each sample of `dataset` once, and keeps it on the disk.

    For steps that take long and give the same every time: a distance map, a resized picture,
    decoded frames. Random augmentation belongs around the cache, not inside. Loader processes and
    several trainings may share a cache; killed at any moment it holds what was whole. Nothing is
    pickled.

    Args:
        dataset: `len()` and `[index]`; a sample is made of arrays, tensors, numbers, texts, None,
            and tuples, lists and dicts of them.
        key: Names the data, the step and its settings: another key is another cache, and so is
            another number of samples. What changes a sample has to be in it.
        folder: Where caches are kept; `datasets` below posemill's cache folder by default.
        store: `mmap` (files mapped into memory), `ram` (the same, and each process keeps what it
            has read), or `hdf5` (slower to read than both).
        limit_gb: Most gigabytes (1e9 bytes) on the disk; what has no room is made every time.
    """
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise TypeError(f"cache_dataset: expected len() and [index], got {type(dataset).__name__}")
    if not key:
        raise ValueError("cache_dataset: key: expected what names the data and the step")
    if getattr(dataset, "is_random", False) or getattr(dataset, "may_drop", False):
        raise ValueError(
            "cache_dataset: this data set draws its samples at random, or leaves some out: one "
            "draw would be kept for good; give is_training=False and on_error='replace'"
        )
    if store not in STORES:
        raise ValueError(f"cache_dataset: store: expected mmap, ram or hdf5, got {store!r}")
    if limit_gb is not None and not limit_gb > 0:
        raise ValueError(f"cache_dataset: limit_gb: expected more than 0, got {limit_gb!r}")
    if store == "hdf5":
        import_h5py()
    key = key if isinstance(key, str) else json.dumps(dict(key), sort_keys=True)
    text = f"{_FORMAT}\0{len(dataset)}\0{key}"
    # Absolute: the program may go on in another folder.
    root = Path(folder).absolute() if folder else cache_folder() / "datasets"
    place = root / hashlib.sha256(text.encode()).hexdigest()[:32]
    try:
        place.mkdir(parents=True, exist_ok=True)
        mark_output(place)
        remove_leftovers(place / place.name)
        (place / _FULL_MARK).unlink(missing_ok=True)  # there may be room now
    except OSError as error:
        raise TrainingError(
            "cannot write the cache in {folder} ({error}); free some space there, or give "
            "another folder=…",
            folder=place,
            error=error,
        ) from error
    return CachedDataset(dataset, key, place, store, limit_gb)


@dataclass(eq=False)
class CachedDataset:
    """What `cache_dataset` returns: `len()` and `[index]` as the data set itself has them."""

    dataset: Any
    key: str
    folder: Path
    store: str
    limit_gb: float | None

    def __post_init__(self) -> None:
        self._suffix = ".h5" if self.store == "hdf5" else ".sample"
        self._in_memory: dict[int, bytes] = {}
        self._checked: set[int] = set()  # samples whose checksum this process has compared
        self._num_bytes = self._num_new_bytes = 0
        self._is_full = False
        for name in ("lengths", "collate_fn"):  # what `fit` sorts by, and how it makes batches
            if hasattr(self.dataset, name):
                setattr(self, name, getattr(self.dataset, name))
        _LIVE.add(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_in_memory": {}, "_checked": set()}

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        index = int(index) + (len(self) if index < 0 else 0)
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        try:
            value = unpack(self._read(index), is_checked=index in self._checked)
            self._checked.add(index)
            return value
        except (OSError, ValueError, KeyError, TypeError):  # not there, damaged, not ours
            value = self.dataset[index]
        try:
            self._write(index, pack(value))
        except TypeError as error:
            raise TypeError(f"cache_dataset: sample {index}: {error}") from error
        except FileNotFoundError:
            pass  # the user has removed the folder: the training goes on
        except OSError:  # the disk or the limit is full: the training goes on
            self._is_full = True
            with suppress(OSError):
                (self.folder / _FULL_MARK).touch()  # loader processes have no other way to say it
        return value

    def _path(self, index: int) -> Path:
        return self.folder / f"{index}{self._suffix}"

    def _read(self, index: int) -> bytes | mmap.mmap:
        if index in self._in_memory:
            return self._in_memory[index]
        if self.store == "hdf5":
            # h5py's functions below `File` take half the time: each sample is a file to open.
            h5py, path = import_h5py(), os.fsencode(self._path(index))
            with closing(h5py.h5f.open(path, h5py.h5f.ACC_RDONLY)) as opened:
                sample = h5py.h5d.open(opened, b"sample")
                data = np.empty(sample.shape, np.uint8)
                sample.read(h5py.h5s.ALL, h5py.h5s.ALL, data)
            return data.tobytes()
        with self._path(index).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self.store == "mmap":
            return mapped
        self._in_memory[index] = mapped[:]
        return self._in_memory[index]

    def _write(self, index: int, data: bytes) -> None:
        """Keep a sample; OSError where there is no room."""
        if self._is_full:
            return
        if self.limit_gb is not None:
            limit = self.limit_gb * 1e9
            # Others write, too: look again after every hundredth of the limit.
            if not self._num_bytes or self._num_new_bytes > limit / 100:
                self._num_new_bytes = self._num_bytes = 0
                for entry in self._list_kept():
                    with suppress(FileNotFoundError):  # somebody has removed it
                        self._num_bytes += entry.stat().st_size
            self._num_bytes += len(data)
            self._num_new_bytes += len(data)
            if self._num_bytes > limit:
                raise OSError(errno.ENOSPC, "limit_gb is reached")
        temporary = self.folder / f"{temporary_stem(self.folder)}.tmp"
        try:
            if self.store == "hdf5":
                with import_h5py().File(temporary, "w") as file:
                    file["sample"] = np.frombuffer(data, np.uint8)
            else:
                temporary.write_bytes(data)
            temporary.replace(self._path(index))
        finally:
            temporary.unlink(missing_ok=True)

    def _list_kept(self) -> list[os.DirEntry[str]]:
        return [entry for entry in os.scandir(self.folder) if entry.name.endswith(self._suffix)]

    def count_kept(self) -> int:
        """Return how many samples are on the disk, by whatever process."""
        try:
            return len(self._list_kept())
        except FileNotFoundError:  # the user has removed it
            return 0

    def lacks_room(self) -> bool:
        """Return whether this process or one of its loader processes had no room for a sample."""
        return self._is_full or (self.folder / _FULL_MARK).exists()


def live_uses() -> dict[CachedDataset, int]:
    """Return every cache that this process made and still has, with the samples it keeps."""
    return {cache: cache.count_kept() for cache in list(_LIVE)}


def describe_uses(before: Mapping[CachedDataset, int]) -> list[str]:
    """Return lines on each cache: samples that are kept, those since `before`, a lack of room."""
    lines: list[str] = []
    for cache, num_kept in live_uses().items():
        if num_kept:
            template = (
                "cache {key!r}: {num_kept} of {num_samples} samples are kept, {num_new} of them new"
            )
            counts = {"num_kept": num_kept, "num_samples": len(cache)}
            num_new = num_kept - before.get(cache, 0)
            lines.append(Message(template, key=cache.key, num_new=num_new, **counts))
        if num_kept < len(cache) and cache.lacks_room():
            template = (
                "cache {key!r}: no room for the other samples (limit_gb, or a full disk): they are "
                "made every time"
            )
            lines.append(Message(template, key=cache.key))
    return sorted(lines)


_LIVE: weakref.WeakSet[CachedDataset] = weakref.WeakSet()
_KINDS = "biufcSUmM"  # numpy's numbers, texts and times; no objects
_KEPT = "arrays, tensors, numbers, texts, None, and tuples, lists and dicts of them"


def pack(value: Any) -> bytes:
    """Return the bytes of a sample; what cannot be kept is a `TypeError` that says where it is."""
    blocks = bytearray()
    text = json.dumps(_describe(value, "", blocks)).encode()
    body = len(text).to_bytes(8, "little") + text + blocks
    return zlib.crc32(body).to_bytes(4, "little") + body


def unpack(data: bytes | mmap.mmap, *, is_checked: bool = False) -> Any:
    """Return the sample of `pack`, free to be changed; other or damaged bytes are a `ValueError`.

    `is_checked` leaves out the checksum, which costs more than the rest.
    """
    view = memoryview(data)
    end = 12 + int.from_bytes(view[4:12], "little")
    try:
        if not is_checked and zlib.crc32(view[4:]) != int.from_bytes(view[:4], "little"):
            raise ValueError("its checksum differs")
        return _build(json.loads(bytes(view[12:end])), view[end:])
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a packed sample: {error}") from error


def _describe(value: Any, where: str, blocks: bytearray) -> Any:
    """Return what JSON can hold of a value; the numbers of its arrays go to the end of `blocks`."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (tuple, list):
        parts = [_describe(part, f"{where}[{i}]", blocks) for i, part in enumerate(value)]
        return {kind.__name__: parts}
    if kind is dict:
        if not all(type(key) in (str, int) for key in value):
            raise TypeError(f"{where or 'the sample'}: expected names or numbers as keys of a dict")
        return {
            "dict": [[key, _describe(v, f"{where}[{key!r}]", blocks)] for key, v in value.items()]
        }
    torch, start = sys.modules.get("torch"), len(blocks)
    if torch is not None and isinstance(value, torch.Tensor):
        blocks += value.detach().cpu().reshape(-1).view(torch.uint8).numpy().data
        return {"tensor": [str(value.dtype).removeprefix("torch."), list(value.shape), start]}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in _KINDS:
        blocks += value.tobytes()
        name = "array" if isinstance(value, np.ndarray) else "number"
        return {name: [value.dtype.str, list(value.shape), start]}
    named = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    raise TypeError(f"{where or 'the sample'} is a {named}, which cannot be kept: {_KEPT} can")


def _build(node: Any, blocks: memoryview) -> Any:
    """Return the value that `_describe` described."""
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    if kind in ("tuple", "list"):
        parts = [_build(part, blocks) for part in content]
        return tuple(parts) if kind == "tuple" else parts
    if kind == "dict":
        return {key: _build(part, blocks) for key, part in content}
    name, shape, start = content
    if kind == "tensor":
        import torch

        value: Any = torch.empty(shape, dtype=getattr(torch, name))
        flat = value.reshape(-1).view(torch.uint8).numpy()
    else:
        value = np.empty(shape, name)
        flat = value.reshape(-1).view(np.uint8)
    flat[:] = blocks[start : start + len(flat)]
    return value[()] if kind == "number" else value
