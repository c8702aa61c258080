"""Writes `.npz` archives column by column, so that they can be larger than memory.

Members are stored, not packed, each starting at a multiple of 64 bytes, so that `open_npz` can map
every array from its offset in the file. `numpy.load` reads the same files.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from posemill.errors import FormatError

_ALIGNMENT = 64
_HEADER_BYTES = 128
_COPY_BYTES = 1 << 20
# Characters turned into rows at a time; few where each string fills many rows.
_CHARS, _REPEATED_CHARS = 1 << 18, 1 << 10
_UINT32 = 0xFFFFFFFF
_POLYNOMIAL = 0xEDB88320


def _multiply(a: int, b: int) -> int:
    """Return a times b, polynomials over two elements, modulo the one of CRC-32."""
    product, bit = 0, 1 << 31
    while bit:
        if a & bit:
            product ^= b
        bit >>= 1
        b = (b >> 1) ^ _POLYNOMIAL if b & 1 else b >> 1
    return product


def combine_crc(first: int, second: int, second_bytes: int) -> int:
    """Return the CRC-32 of two pieces behind each other, of which only the CRCs are known."""
    # Appending n bytes multiplies the first CRC by x^(8n): square and multiply.
    power, square, count = 1 << 31, 1 << 30, 8 * second_bytes
    while count:
        if count & 1:
            power = _multiply(square, power)
        square = _multiply(square, square)
        count >>= 1
    return _multiply(power, first) ^ second


def _npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the 128 bytes before the data: fixed, so that the shape can be filled in later."""
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    text = repr(fields).ljust(_HEADER_BYTES - 11).encode("ascii") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


class Column:
    """One growing array of an archive: `append` adds rows."""

    def __init__(self, name: str, dtype: npt.DTypeLike, row_shape: tuple[int, ...]) -> None:
        self.name = name
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.row_shape = row_shape
        self.row_bytes = int(np.prod(row_shape, dtype=np.int64)) * int(self.dtype.itemsize)
        self.num_rows = 0
        self.crc = 0
        self.handle: IO[bytes] | None = None
        self.offset: int | None = None  # of the entry, if the rows go straight to their place

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Write rows behind the ones before."""
        if rows.shape[1:] != self.row_shape:
            raise ValueError(f"{self.name}: expected rows of {self.row_shape}, got {rows.shape}")
        data = np.ascontiguousarray(rows, self.dtype).reshape(-1).view(np.uint8).data
        assert self.handle is not None
        self.handle.write(data)
        self.crc = zlib.crc32(data, self.crc)
        self.num_rows += len(rows)

    @property
    def header(self) -> bytes:
        """The array's header, for the rows so far."""
        return _npy_header(self.dtype, (self.num_rows, *self.row_shape))

    @property
    def crc_with_header(self) -> int:
        """The CRC-32 of the header and the rows so far."""
        return combine_crc(zlib.crc32(self.header), self.crc, self.num_bytes)

    @property
    def num_bytes(self) -> int:
        """Bytes of the rows so far."""
        return self.num_rows * self.row_bytes


class ArchiveWriter:
    """Writes an `.npz` whose arrays grow side by side; a context manager.

    Where the number of rows is known, each column goes straight to its place in the file. Else
    only the first does; the others wait in unnamed temporary files in the same folder (they vanish
    with the process) and are appended at the end.

    Args:
        path: The file.
        num_rows: How many rows each column will have, None where nobody knows.
    """

    def __init__(self, path: Path, *, num_rows: int | None = None) -> None:
        self._path = path
        self._num_rows = num_rows
        self._columns: list[Column] = []
        self._texts: dict[str, Texts] = {}
        self._entries: list[tuple[bytes, int, int, int]] = []  # name, CRC, size, offset
        self._file: IO[bytes] = path.open("wb")

    def column(self, name: str, dtype: npt.DTypeLike, row_shape: tuple[int, ...] = ()) -> Column:
        """Return a new column; declare the largest one first."""
        column = Column(name, dtype, row_shape)
        if self._columns and self._num_rows is None:
            column.handle = tempfile.TemporaryFile(dir=self._path.parent)  # noqa: SIM115
        else:
            column.offset = self._start(name)
            column.handle = self._path.open("r+b")
            column.handle.seek(self._file.tell() + _HEADER_BYTES)
            if self._num_rows is not None:
                self._file.seek(_HEADER_BYTES + self._num_rows * column.row_bytes, os.SEEK_CUR)
        self._columns.append(column)
        return column

    def texts(self, name: str) -> Texts:
        """Return a new column of strings."""
        self._texts[name] = Texts(self._path.parent)
        return self._texts[name]

    def finish(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Append the waiting columns, small whole arrays and the texts, then the directory."""
        for column in self._columns:
            self._end(column)
        for name, array in arrays.items():
            plain = np.ascontiguousarray(array)
            whole = Column(name, plain.dtype, plain.shape[1:])
            whole.num_rows = len(plain)
            self._add(name, whole, iter([plain.tobytes()]))
        for name, text in self._texts.items():
            self._add(name, text.shape_of_column(name), text.blocks())
        self._write_directory()

    def _start(self, name: str) -> int:
        """Write a local header, its sizes still open, padded so that the data is aligned.

        Returns:
            Where it begins; the data begins where the file stands now.
        """
        offset = self._file.tell()
        encoded = f"{name}.npy".encode("ascii")
        unpadded = offset + 30 + len(encoded) + 20 + 4
        padding = -unpadded % _ALIGNMENT
        extra = struct.pack("<HHQQ", 1, 16, 0, 0) + struct.pack("<HH", 0xD935, padding)
        header = struct.pack(
            "<4sHHHHHIIIHH",
            b"PK\x03\x04",
            45,
            0,
            0,
            0,
            0x21,
            0,
            _UINT32,
            _UINT32,
            len(encoded),
            len(extra) + padding,
        )
        self._file.write(header + encoded + extra + bytes(padding))
        return offset

    def _close_entry(self, name: str, offset: int, crc: int, size: int) -> None:
        """Write CRC and sizes into a local header; the file stands behind the data again."""
        encoded = f"{name}.npy".encode("ascii")
        end = self._file.tell()
        self._file.seek(offset + 14)
        self._file.write(struct.pack("<I", crc))
        self._file.seek(offset + 30 + len(encoded) + 4)
        self._file.write(struct.pack("<QQ", size, size))
        self._file.seek(end)
        self._entries.append((encoded, crc, size, offset))

    def _end(self, column: Column) -> None:
        """Complete a column: its header, and its rows if they were waiting. CRCs are known."""
        assert column.handle is not None
        if self._num_rows not in (None, column.num_rows):
            raise ValueError(
                f"{column.name}: expected {self._num_rows} rows, got {column.num_rows}"
            )
        if column.offset is None:
            offset = self._start(column.name)
            self._file.write(column.header)
            column.handle.seek(0)
            shutil.copyfileobj(column.handle, self._file, _COPY_BYTES)
        else:
            offset = column.offset
            end = column.handle.tell()
            column.handle.seek(end - column.num_bytes - _HEADER_BYTES)
            column.handle.write(column.header)
            self._file.seek(max(end, self._file.tell()))
        column.handle.close()
        self._close_entry(
            column.name, offset, column.crc_with_header, _HEADER_BYTES + column.num_bytes
        )

    def _add(self, name: str, column: Column, blocks: Iterator[bytes]) -> None:
        offset = self._start(name)
        self._file.write(column.header)
        crc, size = zlib.crc32(column.header), len(column.header)
        for block in blocks:
            self._file.write(block)
            crc = zlib.crc32(block, crc)
            size += len(block)
        self._close_entry(name, offset, crc, size)

    def _write_directory(self) -> None:
        start = self._file.tell()
        for name, crc, size, offset in self._entries:
            large = [value for value in (size, size, offset) if value >= _UINT32]
            extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
            small, where = min(size, _UINT32), min(offset, _UINT32)
            self._file.write(
                struct.pack(
                    "<4sHHHHHHIIIHHHHHII",
                    b"PK\x01\x02",
                    45,
                    45,
                    0,
                    0,
                    0,
                    0x21,
                    crc,
                    small,
                    small,
                    len(name),
                    len(extra),
                    0,
                    0,
                    0,
                    0o600 << 16,
                    where,
                )
                + name
                + extra
            )
        end, count = self._file.tell(), len(self._entries)
        if end >= _UINT32:
            self._file.write(
                struct.pack(
                    "<4sQHHIIQQQQ",
                    b"PK\x06\x06",
                    44,
                    45,
                    45,
                    0,
                    0,
                    count,
                    count,
                    end - start,
                    start,
                )
            )
            self._file.write(struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1))
        self._file.write(
            struct.pack(
                "<4sHHHHIIH", b"PK\x05\x06", 0, 0, count, count, end - start, min(start, _UINT32), 0
            )
        )

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for column in self._columns:
            if column.handle is not None:
                column.handle.close()
        for text in self._texts.values():
            text.close()
        self._file.close()


class Texts:
    """A growing column of strings, kept in a temporary file until their longest is known."""

    def __init__(self, folder: Path) -> None:
        self.num_rows = 0
        self._width = 1
        self._repeats: list[npt.NDArray[np.int64]] = []  # of each string, where given
        # Names of files that are not UTF-8 have lone surrogates, which numpy keeps.
        self._file = tempfile.TemporaryFile(  # noqa: SIM115
            "w+", encoding="utf-8", errors="surrogatepass", newline="", dir=folder
        )

    def extend(self, texts: Sequence[str], repeats: npt.NDArray[np.int64] | None = None) -> None:
        """Add strings; a NUL inside one is an error.

        Args:
            texts: The strings.
            repeats: How many rows each one fills; 1 by default. Given always or never.
        """
        if not texts:
            return
        joined = "\0".join(texts)
        if joined.count("\0") != len(texts) - 1:
            bad = next(text for text in texts if "\0" in text)
            raise FormatError(
                "{bad!r} holds a NUL character, which npz cannot store; change this id, path or "
                "label where it comes from",
                bad=bad[:200],
            )
        self._file.write(joined + "\0")
        self._width = max(self._width, max(map(len, texts)))
        if repeats is None:
            self.num_rows += len(texts)
        else:
            self.num_rows += int(repeats.sum())
            self._repeats.append(repeats)

    def shape_of_column(self, name: str) -> Column:
        """Return the column these strings become."""
        column = Column(name, f"<U{self._width}", ())
        column.num_rows = self.num_rows
        return column

    def blocks(self) -> Iterator[bytes]:
        """Yield the rows as fixed-width strings, then forget them."""
        self._file.seek(0)
        repeats = np.concatenate(self._repeats) if self._repeats else None
        start, rest = 0, ""
        while piece := self._file.read(_REPEATED_CHARS if self._repeats else _CHARS):
            *texts, rest = (rest + piece).split("\0")
            rows = np.array(texts, f"<U{self._width}")
            if repeats is not None:
                rows = np.repeat(rows, repeats[start : start + len(rows)])
            start += len(texts)
            yield rows.tobytes()
        self._file.close()

    def close(self) -> None:
        """Remove the temporary file."""
        self._file.close()
