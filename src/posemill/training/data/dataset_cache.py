"""`cache_dataset`: the result of a slow, repeatable step is kept after its first use.

A sample is kept as bytes, without pickle: reading a stranger's file runs nothing. Eight bytes say
how long the description is, then comes the description (JSON), then the numbers of every array,
each at a multiple of 64.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import sys
import tempfile
import time
import uuid
import weakref
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posemill.errors import TrainingError
from posemill.files import atomic_path, cache_folder, mark_output
from posemill.messages import Message
from posemill.training.data.cache import import_h5py
from posemill.training.data.segments import Segments

STORES = ("mmap", "ram", "hdf5")
_FORMAT = 1
_ABOUT = "about.json"
_GB = 1e9


@dataclass(frozen=True)
class CacheUse:
    """What a cache did, over all processes.

    Args:
        num_hits: Samples that were there.
        num_made: Samples that were made.
        num_refused: Of these, those for which there was no room.
        seconds_making: What making them took.
        seconds_saved: What making the hits would have taken, less what reading them took.
    """

    num_hits: int = 0
    num_made: int = 0
    num_refused: int = 0
    seconds_making: float = 0.0
    seconds_saved: float = 0.0

    def since(self, before: CacheUse) -> CacheUse:
        """Return what was added since then."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return CacheUse(*(now - then for now, then in pairs))


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
            has read), or `hdf5`.
        limit_gb: Most gigabytes (1e9 bytes) on the disk; what has no room is made every time.
    """
    return CachedDataset(dataset, key=key, folder=folder, store=store, limit_gb=limit_gb)


class CachedDataset:
    """What `cache_dataset` returns: `len()` and `[index]` as the data set itself has them."""

    def __init__(
        self,
        dataset: Any,
        *,
        key: str | Mapping[str, Any],
        folder: Path | str | None,
        store: str,
        limit_gb: float | None,
    ) -> None:
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise TypeError(
                f"cache_dataset: expected len() and [index], got {type(dataset).__name__}"
            )
        if not key:
            raise ValueError(
                "cache_dataset: key: expected a text that names the data, the step and its "
                "settings, got nothing; without it an old result would be taken for a new one"
            )
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
        self.dataset, self.store, self.limit_gb = dataset, store, limit_gb
        self.key = key if isinstance(key, str) else json.dumps(dict(key), sort_keys=True)
        on_disk = "hdf5" if store == "hdf5" else "mmap"
        text = f"{_FORMAT}\0{on_disk}\0{len(dataset)}\0{self.key}"
        root = Path(folder) if folder else cache_folder() / "datasets"
        self.folder = root / hashlib.sha256(text.encode()).hexdigest()[:32]
        _make_folder(self.folder, self.key, len(dataset))
        self._counts_folder = Path(tempfile.mkdtemp(prefix="posemill-cache-"))
        weakref.finalize(self, _remove_counts, self._counts_folder, os.getpid())
        _LIVE.add(self)
        self._segments = Segments(self.folder, is_hdf5=store == "hdf5")
        self._forget()

    def _forget(self) -> None:
        """Drop all that belongs to one process."""
        self._pid = os.getpid()
        self._kept: dict[int, tuple[bytes | memoryview, float]] = {}
        self._counts: Any = None
        self._is_full = False

    def __getstate__(self) -> dict[str, Any]:
        of_process = ("_kept", "_counts")
        return {name: value for name, value in self.__dict__.items() if name not in of_process}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        # what `fit` sorts by, and how it makes batches, where a data set says so
        if name in ("lengths", "collate_fn") and "dataset" in self.__dict__:
            return getattr(self.dataset, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getitem__(self, index: int) -> Any:
        index = int(index) + (len(self) if index < 0 else 0)
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        if self._pid != os.getpid():
            self._forget()
        started = time.perf_counter()
        found = self._find(index)
        if found is not None:
            value, seconds = found
            saved = seconds - (time.perf_counter() - started)
            self._count(CacheUse(num_hits=1, seconds_saved=saved))
            return value
        started = time.perf_counter()
        value = self.dataset[index]
        seconds = time.perf_counter() - started
        is_kept = self._keep(index, value, seconds)
        self._count(CacheUse(num_made=1, num_refused=int(not is_kept), seconds_making=seconds))
        return value

    def _find(self, index: int) -> tuple[Any, float] | None:
        known = self._kept.get(index) or self._segments.find(index)
        if known is None:
            return None
        data, seconds = known
        if self.store == "ram":
            data = bytes(data)
            self._kept[index] = data, seconds
        try:
            return unpack(data), seconds
        except ValueError:
            return None  # written by something else: made anew

    def _keep(self, index: int, value: Any, seconds: float) -> bool:
        """Write a sample down; return False where there is no room for it."""
        try:
            data = pack(value)
        except TypeError as error:
            raise TypeError(f"cache_dataset: sample {index}: {error}") from error
        with self._segments.lock:
            if self.limit_gb is not None:
                self._segments.look()  # the others write, too
                self._is_full |= self._segments.num_bytes + len(data) > self.limit_gb * _GB
            if self._is_full:
                return False
            try:
                self._segments.add(index, data, seconds)
            except OSError:
                self._is_full = True  # the disk is full: the training goes on, and says so
                return False
        return True

    def _count(self, use: CacheUse) -> None:
        """Add to this process's numbers, in a file of its own: nobody waits, nothing is lost."""
        if self._counts is None:
            path = self._counts_folder / f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
            try:
                self._counts = np.memmap(path, np.float64, "w+", shape=(5,))
            except OSError:
                self._counts = np.zeros(5)  # a counter is not worth a training
        self._counts += astuple(use)

    def use(self) -> CacheUse:
        """Return what this cache did since it was made, in all processes that read from it."""
        total = np.zeros(5)
        for path in self._counts_folder.glob("*-*"):
            values = np.fromfile(path, np.float64)
            if len(values) == 5:
                total += values
        hits, made, refused = (round(value) for value in total[:3])
        return CacheUse(hits, made, refused, float(total[3]), float(total[4]))


def live_uses() -> dict[CachedDataset, CacheUse]:
    """Return every cache that this process made and still has, with what it did."""
    return {cache: cache.use() for cache in list(_LIVE)}


def describe_uses(before: Mapping[CachedDataset, CacheUse]) -> list[str]:
    """Return a line for each cache that was used since `before`: hits, and seconds saved."""
    lines = []
    for cache, now in live_uses().items():
        use = now.since(before.get(cache, CacheUse()))
        if not use.num_hits + use.num_made:
            continue
        refused = Message(
            "; {num_refused} had no room (limit_gb, or a full disk)", num_refused=use.num_refused
        )
        values = {**asdict(use), "seconds_saved": max(0.0, use.seconds_saved)}
        lines.append(
            Message(
                "cache {key!r}: {num_hits} samples were there and {num_made} were made in "
                "{seconds_making:.1f} s; it saved {seconds_saved:.1f} s{refused}",
                key=cache.key,
                refused=refused if use.num_refused else "",
                **values,
            )
        )
    return sorted(lines)


def _make_folder(folder: Path, key: str, count: int) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mark_output(folder)
        if not (folder / _ABOUT).is_file():
            with atomic_path(folder / _ABOUT) as temporary:
                temporary.write_text(json.dumps({"key": key, "samples": count}), "utf-8")
    except OSError as error:
        raise TrainingError(
            "cannot write the cache in {folder} ({error}); free some space there, or give "
            "another folder=…",
            folder=folder,
            error=error,
        ) from error


def _remove_counts(folder: Path, pid: int) -> None:
    if os.getpid() == pid:  # a forked loader drops its copy of the data set, too
        shutil.rmtree(folder, ignore_errors=True)


_LIVE: weakref.WeakSet[CachedDataset] = weakref.WeakSet()


_ALIGN = 64
_KINDS = "biufcSUmM"  # numpy's numbers, texts and times; no objects
KEPT = "arrays, tensors, numbers, texts, None, and tuples, lists and dicts of them"


def pack(value: Any) -> bytes:
    """Return the bytes of a sample.

    Args:
        value: Arrays, tensors, numbers, texts, None, and tuples, lists and dicts of them, nested
            as one likes. Anything else is a `TypeError` that says where it is.
    """
    blocks: list[bytes] = []
    text = json.dumps(_describe(value, "", blocks)).encode()
    data = bytearray(len(text).to_bytes(8, "little") + text)
    for block in blocks:
        data += bytes(-len(data) % _ALIGN)
        data += block
    return bytes(data)


def unpack(data: bytes | memoryview) -> Any:
    """Return the sample; its arrays are copies, free to be changed.

    Raises:
        ValueError: These are not the bytes of a sample.
    """
    view = memoryview(data)
    size = int.from_bytes(view[:8], "little")
    try:
        tree = json.loads(bytes(view[8 : 8 + size]))
        return _Reader(view, 8 + size).build(tree)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a packed sample: {error}") from error


def _describe(value: Any, where: str, blocks: list[bytes]) -> Any:
    """Return what JSON can hold of a value; the numbers of its arrays go to `blocks`."""
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
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        plain = value.detach().cpu().contiguous()
        blocks.append(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
        return {"tensor": [str(value.dtype).removeprefix("torch."), list(value.shape)]}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in _KINDS:
        blocks.append(np.ascontiguousarray(value).tobytes())
        name = "array" if isinstance(value, np.ndarray) else "number"
        return {name: [value.dtype.str, list(value.shape)]}
    named = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    raise TypeError(f"{where or 'the sample'} is a {named}, which cannot be kept: {KEPT} can")


class _Reader:
    """Builds a value; arrays come in the order in which they were described."""

    def __init__(self, view: memoryview, start: int) -> None:
        self._view, self._at = view, start

    def build(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind in ("tuple", "list"):
            parts = [self.build(part) for part in content]
            return tuple(parts) if kind == "tuple" else parts
        if kind == "dict":
            return {key: self.build(part) for key, part in content}
        name, shape = content
        if kind == "tensor":
            import torch

            dtype = getattr(torch, name)
            if not math.prod(shape):
                return torch.empty(shape, dtype=dtype)
            raw = self._take(np.dtype(np.uint8), (math.prod(shape) * dtype.itemsize,))
            return torch.from_numpy(raw).view(dtype).reshape(shape)
        array = self._take(np.dtype(name), tuple(shape))
        return array if kind == "array" else array[()]

    def _take(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if dtype.kind not in _KINDS:
            raise ValueError(f"an array of {dtype}")
        start = self._at + -self._at % _ALIGN
        count = math.prod(shape)
        self._at = start + count * dtype.itemsize
        if self._at > len(self._view):
            raise ValueError("it ends too early")
        array: np.ndarray[Any, Any] = np.empty(shape, dtype)
        array.reshape(-1).view(np.uint8)[:] = self._view[start : self._at]
        return array
