"""`.npz` archives larger than memory: every array is mapped from its offset in the file.

That needs members that are stored, not packed (as `numpy.savez` and `posemill prepare` write them);
packed ones are loaded when asked for.
"""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from posemill.errors import FormatError
from posemill.files import refuse_pipe
from posemill.machine.limits import free_memory

_COPY_BYTES = 1 << 22
_MEMORY_SHARE = 0.7  # of what is free
# Packed members that together are larger than this, and that many times the file, are taken for a
# bomb: keypoints shrink to a half or a tenth.
_BOMB_BYTES, _BOMB_RATIO = 1 << 26, 50
_BAD_HEADER = (
    ValueError,
    SyntaxError,
    TypeError,
    RecursionError,
    MemoryError,
    OverflowError,
    tokenize.TokenError,
)


class MappedNpz(Mapping[str, npt.NDArray[Any]]):
    """The arrays of an `.npz` by name: mapped where they are stored, loaded where packed.

    Nothing is read before an array is asked for. Pickles as the path alone, so loader workers
    each map the file for themselves.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        self._size = 0
        self._entries: dict[str, zipfile.ZipInfo] = {}
        refuse_pipe(self.path)
        try:
            self._size = self.path.stat().st_size
            with zipfile.ZipFile(self.path) as archive:
                for entry in archive.infolist():
                    self._entries[entry.filename.removesuffix(".npy")] = entry
        except OSError as error:
            raise FormatError(
                "{path}: cannot be read: {reason}", path=self.path, reason=error.strerror or error
            ) from error
        except (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError) as error:
            raise FormatError(
                "{path}: expected a whole .npz (a zip archive), got {size} bytes that are not one "
                "({error}); was it cut off?",
                path=self.path,
                size=self._size,
                error=error,
            ) from error

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

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        MappedNpz.__init__(self, state["path"])

    def __repr__(self) -> str:
        return f"MappedNpz({str(self.path)!r}, {', '.join(self._entries)})"

    def entries(self) -> list[zipfile.ZipInfo]:
        """Return the archive's directory: name, size and checksum of every member."""
        return list(self._entries.values())

    def verify(self) -> None:
        """Read everything once and compare with the archive's checksums."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                for name, entry in self._entries.items():
                    self._check_size(name, entry)
                    with archive.open(entry) as member:
                        while member.read(_COPY_BYTES):
                            pass
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            ValueError,
            OSError,
            RuntimeError,
            NotImplementedError,
            struct.error,
        ) as error:
            raise FormatError("{path}: damaged: {error}", path=self.path, error=error) from error

    def _check_size(self, name: str, entry: zipfile.ZipInfo) -> None:
        if entry.flag_bits & 1:
            raise FormatError(
                "{path}: '{name}' is encrypted; expected a plain .npz", path=self.path, name=name
            )
        if entry.compress_type == zipfile.ZIP_STORED:
            if entry.file_size > self._size:
                raise FormatError(
                    "{path}: '{name}' claims {file_size} bytes, the file has {size}",
                    path=self.path,
                    name=name,
                    file_size=entry.file_size,
                    size=self._size,
                )
            return
        packed = sum(
            each.file_size for each in self.entries() if each.compress_type != zipfile.ZIP_STORED
        )
        if packed > max(_BOMB_BYTES, _BOMB_RATIO * self._size):
            raise FormatError(
                "{path}: would unpack from {size} to {packed} bytes; refused (more than "
                "{bomb_ratio} times). If it is to be trusted, save its arrays with numpy.savez, "
                "which does not pack them",
                path=self.path,
                size=self._size,
                packed=packed,
                bomb_ratio=_BOMB_RATIO,
            )

    def _check_memory(self, name: str, entry: zipfile.ZipInfo) -> None:
        """Raise where a packed member does not fit into memory beside the rest."""
        free = free_memory()
        if entry.file_size > _BOMB_BYTES and entry.file_size > _MEMORY_SHARE * free:
            raise FormatError(
                "{path}: '{name}' would unpack to {file_size} bytes, and {free} are free; save it "
                "with numpy.savez, which does not pack it: then it is read piece by piece",
                path=self.path,
                name=name,
                file_size=entry.file_size,
                free=free,
            )

    def _open(self, name: str, entry: zipfile.ZipInfo) -> npt.NDArray[Any]:
        self._check_size(name, entry)
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(entry) as member:
                dtype, shape, is_fortran = _read_npy_header(member)
                header_bytes = member.tell()
                num_bytes = _count(shape) * dtype.itemsize
                if num_bytes + header_bytes != entry.file_size:
                    raise FormatError(
                        "{path}: '{name}' of shape {shape} {dtype} needs {num_bytes} bytes, the "
                        "archive has {file_size}",
                        path=self.path,
                        name=name,
                        shape=shape,
                        dtype=dtype,
                        num_bytes=num_bytes,
                        file_size=entry.file_size - header_bytes,
                    )
                order: Any = "F" if is_fortran else "C"
                if entry.compress_type != zipfile.ZIP_STORED or not num_bytes:
                    self._check_memory(name, entry)
                    data = member.read(num_bytes)
                    if len(data) != num_bytes:
                        raise FormatError("{path}: '{name}' is cut off", path=self.path, name=name)
                    loaded: npt.NDArray[Any] = np.ndarray(shape, dtype, data, order=order)
                    return loaded
            start = self._data_start(entry) + header_bytes
            if start + num_bytes > self._size:
                raise FormatError("{path}: '{name}' is cut off", path=self.path, name=name)
            mapped: npt.NDArray[Any] = np.memmap(self.path, dtype, "r", start, shape, order=order)
            return mapped
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            RuntimeError,
            NotImplementedError,
            struct.error,
            *_BAD_HEADER,
        ) as error:
            raise FormatError(
                "{path}: '{name}' cannot be read: {error}", path=self.path, name=name, error=error
            ) from error

    def _data_start(self, entry: zipfile.ZipInfo) -> int:
        with self.path.open("rb") as handle:
            handle.seek(entry.header_offset)
            fixed = handle.read(30)
        name_bytes, extra_bytes = struct.unpack("<HH", fixed[26:30])
        return entry.header_offset + 30 + int(name_bytes) + int(extra_bytes)


def read_npy(data: bytes) -> npt.NDArray[Any]:
    """Return the array in the bytes of a `.npy` file; ValueError if they are not exactly that."""
    handle = io.BytesIO(data)
    try:
        dtype, shape, is_fortran = _read_npy_header(handle)
    except _BAD_HEADER as error:
        raise ValueError(f"not a .npy array: {error}") from error
    start = handle.tell()
    if _count(shape) * dtype.itemsize != len(data) - start:
        raise ValueError(f"{shape} {dtype} does not fit {len(data) - start} bytes")
    order: Any = "F" if is_fortran else "C"
    array: npt.NDArray[Any] = np.ndarray(shape, dtype, data, start, order=order)
    return array


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for length in shape:
        if length < 0:
            raise ValueError(f"negative length in shape {shape}")
        total *= length
    return total


def _read_npy_header(handle: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
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
    return dtype, shape, bool(is_fortran)


def open_npz(path: str | Path) -> MappedNpz:
    """Return the arrays of an `.npz`, mapped into memory instead of loaded."""
    return MappedNpz(path)
