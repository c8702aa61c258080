"""Writes `.npz` archives column by column, so that they can be larger than memory.

Members are stored, not packed, each starting at a multiple of 64 bytes, so that `open_npz` can map
every array from its offset in the file. `numpy.load` reads the same files.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from posemill.errors import FormatError

_ALIGNMENT = 64
_COPY_BYTES = 1 << 20
_CHARS = 1 << 18  # turned into rows at a time


@dataclass
class _Column:
    file: IO[bytes]
    dtype: np.dtype[Any]
    row_shape: tuple[int, ...]
    num_rows: int = 0


class ArchiveWriter(ExitStack):
    """Writes an `.npz` whose arrays grow side by side; a context manager.

    Columns wait in unnamed temporary files in the same folder (they vanish with the process) until
    `finish`; the first goes straight to its place where the number of rows is known.
    """

    def __init__(self, path: Path, *, num_rows: int | None = None) -> None:
        super().__init__()
        self._folder, self._num_rows = path.parent, num_rows
        self._columns: dict[str, _Column] = {}
        self._texts: dict[str, _Texts] = {}
        self._file = self.enter_context(path.open("wb"))
        self._zip = self.enter_context(zipfile.ZipFile(self._file, "w"))

    def append(self, name: str, rows: npt.NDArray[Any]) -> None:
        """Add rows to a column, which has the type of the first; begin with the largest column."""
        if name not in self._columns:
            dtype, row_shape = rows.dtype.newbyteorder("<"), rows.shape[1:]
            if self._columns or self._num_rows is None:
                file: IO[bytes] = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            else:
                file = self._begin(name, dtype, (self._num_rows, *row_shape))
            self._columns[name] = _Column(self.enter_context(file), dtype, row_shape)
        column = self._columns[name]
        if rows.shape[1:] != column.row_shape:
            raise ValueError(f"{name}: expected rows of {column.row_shape}, got {rows.shape}")
        column.file.write(np.ascontiguousarray(rows, column.dtype).reshape(-1).view(np.uint8).data)
        column.num_rows += len(rows)

    def extend(self, name: str, texts: Sequence[str]) -> None:
        """Add strings to a column; a NUL inside one is an error."""
        if name not in self._texts:
            self._texts[name] = _Texts(self._folder)
            self.callback(self._texts[name].file.close)
        if texts:
            self._texts[name].extend(texts)

    def finish(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Append the waiting columns, small whole arrays and the texts."""
        for name, column in self._columns.items():
            if self._num_rows not in (None, column.num_rows):
                raise ValueError(f"{name}: expected {self._num_rows} rows, got {column.num_rows}")
            if not column.file.readable():  # it is the member itself
                column.file.close()
                continue
            column.file.seek(0)
            with self._begin(name, column.dtype, (column.num_rows, *column.row_shape)) as member:
                shutil.copyfileobj(column.file, member, _COPY_BYTES)
        for name, array in arrays.items():
            with self._begin(name, array.dtype, array.shape) as member:
                member.write(array.tobytes())
        for name, texts in self._texts.items():
            with self._begin(name, texts.dtype, (texts.num_rows,)) as member:
                for block in texts.blocks():
                    member.write(block)

    def _begin(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> IO[bytes]:
        """Return a new member of the archive, the array's header already in it."""
        entry = zipfile.ZipInfo(f"{name}.npy")
        # A field of nothing, so that the data is aligned; behind it comes one of 20 bytes.
        padding = -(self._file.tell() + 30 + len(entry.filename) + 4 + 20) % _ALIGNMENT
        entry.extra = struct.pack("<HH", 0xD935, padding) + bytes(padding)
        member = self._zip.open(entry, "w", force_zip64=True)
        fields = {"descr": dtype.newbyteorder("<").str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(member, fields)
        return member


class _Texts:
    """A growing column of strings, kept in a temporary file until their longest is known."""

    def __init__(self, folder: Path) -> None:
        self.num_rows, self.dtype = 0, np.dtype("<U1")
        # Names of files that are not UTF-8 have lone surrogates, which numpy keeps.
        self.file = tempfile.TemporaryFile(  # noqa: SIM115
            "w+", encoding="utf-8", errors="surrogatepass", newline="", dir=folder
        )

    def extend(self, texts: Sequence[str]) -> None:
        joined = "\0".join(texts)
        if joined.count("\0") != len(texts) - 1:
            refuse_nul(texts, "npz")
        self.file.write(joined + "\0")
        self.dtype = np.promote_types(self.dtype, f"<U{max(map(len, texts))}")
        self.num_rows += len(texts)

    def blocks(self) -> Iterator[bytes]:
        """Yield the rows as fixed-width strings."""
        self.file.seek(0)
        rest = ""
        while piece := self.file.read(_CHARS):
            *texts, rest = (rest + piece).split("\0")
            yield np.array(texts, self.dtype).tobytes()


def refuse_nul(texts: Iterable[str], format_name: str) -> None:
    """Raise if a text holds the character that ends strings in files of the format."""
    for text in texts:
        if "\0" in text:
            raise FormatError(
                "{text!r} holds a NUL character, which {format_name} cannot store; change this id, "
                "path or label where it comes from",
                text=text[:200],
                format_name=format_name,
            )
