"""`.npz` archives larger than memory: every array is mapped from its offset in the file."""

from __future__ import annotations

import hashlib
import io
import math
import struct
import tokenize
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from posemill.errors import ContentError
from posemill.files import reading
from posemill.machine.limits import free_memory

_COPY_BYTES = 1 << 22
_MEMORY_SHARE = 0.7  # of what is free
# Packed members that together are larger than this, and that many times the file, are taken for a
# bomb: keypoints shrink to a half or a tenth.
_BOMB_BYTES, _BOMB_RATIO = 1 << 26, 50
_DAMAGE = (zipfile.BadZipFile, RuntimeError, SyntaxError, tokenize.TokenError)


class MappedNpz(Mapping[str, npt.NDArray[Any]]):
    """The arrays of an `.npz` by name: mapped where they are stored, loaded where packed.

    `numpy.savez` and `posemill prepare` store them. Nothing is read before an array is asked for.
    Pickles as the path alone, so loader workers each map the file for themselves.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        self._entries: dict[str, zipfile.ZipInfo] = {}
        with reading(self.path, "npz", *_DAMAGE):
            self._size = self.path.stat().st_size
            try:
                with zipfile.ZipFile(self.path) as archive:
                    entries = archive.infolist()
            except zipfile.BadZipFile as error:  # the directory is at the end
                raise ValueError(f"{error}; was it cut off?") from error
            for entry in entries:
                self._entries[entry.filename.removesuffix(".npy")] = entry

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self._arrays:
            if name not in self._entries:
                raise KeyError(name)
            self._arrays[name] = self._open(name, self._entries[name])
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedNpz, (self.path,)

    def content_key(self) -> str:
        """Return a digest of the directory's checksums; only `verify` reads what they are of."""
        digest = hashlib.sha256()
        for entry in self._entries.values():
            digest.update(f"{entry.filename}\0{entry.file_size}\0{entry.CRC:08x}\n".encode())
        return digest.hexdigest()

    def verify(self) -> None:
        """Read everything once and compare with the archive's checksums."""
        with reading(self.path, "npz", *_DAMAGE), zipfile.ZipFile(self.path) as archive:
            for name, entry in self._entries.items():
                self._check_size(name, entry)
                with archive.open(entry) as member:
                    while member.read(_COPY_BYTES):
                        pass

    def _check_size(self, name: str, entry: zipfile.ZipInfo) -> None:
        if entry.flag_bits & 1:
            raise ValueError(f"'{name}' is encrypted; expected a plain .npz")
        if entry.compress_type == zipfile.ZIP_STORED:
            if entry.file_size > self._size:
                raise ValueError(f"'{name}' claims {entry.file_size} bytes of {self._size}")
            return
        entries = self._entries.values()
        packed = sum(each.file_size for each in entries if each.compress_type != zipfile.ZIP_STORED)
        if packed > max(_BOMB_BYTES, _BOMB_RATIO * self._size):
            template = (
                "would unpack from {size} to {packed} bytes; refused (more than {bomb_ratio} "
                "times). If it is to be trusted, save its arrays with numpy.savez, which does not "
                "pack them"
            )
            raise ContentError(template, size=self._size, packed=packed, bomb_ratio=_BOMB_RATIO)

    def _open(self, name: str, entry: zipfile.ZipInfo) -> npt.NDArray[Any]:
        with reading(self.path, "npz", *_DAMAGE):
            self._check_size(name, entry)
            with zipfile.ZipFile(self.path) as archive, archive.open(entry) as member:
                dtype, shape, order = _read_npy_header(member)
                start, num_bytes = member.tell(), _count(shape) * dtype.itemsize
                if num_bytes + start != entry.file_size:
                    raise ValueError(
                        f"'{name}' of shape {shape} {dtype} needs {num_bytes} bytes, the archive "
                        f"has {entry.file_size - start}"
                    )
                if entry.compress_type != zipfile.ZIP_STORED or not num_bytes:
                    free = free_memory()
                    if num_bytes > _BOMB_BYTES and num_bytes > _MEMORY_SHARE * free:
                        template = (
                            "'{name}' would unpack to {num_bytes} bytes, and {free} are free; save "
                            "it with numpy.savez, which does not pack it: then it is read piece by "
                            "piece"
                        )
                        raise ContentError(template, name=name, num_bytes=num_bytes, free=free)
                    data = member.read(num_bytes)
                    return np.ndarray(shape, dtype, data, order=order)
            with self.path.open("rb") as handle:
                handle.seek(entry.header_offset)
                name_bytes, extra_bytes = struct.unpack("<26xHH", handle.read(30))
            start += entry.header_offset + 30 + name_bytes + extra_bytes
            return np.memmap(self.path, dtype, "r", start, shape, order=order)


def read_npy(data: bytes) -> npt.NDArray[Any]:
    """Return the array in the bytes of a `.npy` file; ValueError if they are not exactly that."""
    handle = io.BytesIO(data)
    try:
        dtype, shape, order = _read_npy_header(handle)
    except (SyntaxError, tokenize.TokenError) as error:
        raise ValueError(f"not a .npy array: {error}") from error
    start = handle.tell()
    if _count(shape) * dtype.itemsize != len(data) - start:
        raise ValueError(f"{shape} {dtype} does not fit {len(data) - start} bytes")
    return np.ndarray(shape, dtype, data, start, order=order)


def _count(shape: tuple[int, ...]) -> int:
    if min(shape, default=0) < 0:
        raise ValueError(f"negative length in shape {shape}")
    return math.prod(shape)


def _read_npy_header(handle: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...], Literal["C", "F"]]:
    version = np.lib.format.read_magic(handle)
    if version == (1, 0):
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(handle)
    elif version == (2, 0):
        shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(handle)
    else:
        raise ValueError(f"array header of version {version}; expected 1.0 or 2.0")
    if dtype.hasobject:
        raise ValueError("an array of Python objects; unpickling it could run code")
    if dtype.kind not in "biufSU" or dtype.names:
        raise ValueError(f"array of {dtype}; expected numbers or strings")
    return dtype, shape, "F" if is_fortran else "C"


def check_array(
    array: npt.NDArray[Any], name: str, kinds: str, *shapes: tuple[int | str, ...]
) -> None:
    """Raise if an array has none of these shapes, or a type of another kind.

    A word in a shape stands for an axis of any length; `kinds` are letters of `numpy.dtype.kind`,
    which do not count for an empty array.
    """
    is_shaped = any(
        len(shape) == array.ndim
        and all(isinstance(n, str) or n == got for n, got in zip(shape, array.shape, strict=True))
        for shape in shapes
    )
    if not is_shaped or (array.size and array.dtype.kind not in kinds):
        template = "expected {name} of shape {shapes} (kind {kinds}), got {dtype} {shape}"
        listed = " or ".join(f"({', '.join(map(str, shape))})" for shape in shapes)
        got = {"dtype": array.dtype, "shape": array.shape}
        raise ContentError(template, name=name, shapes=listed, kinds=kinds, **got)


open_npz = MappedNpz  # its public name
