"""Writes `.npz` archives column by column, so that they can be larger than memory.

Members are stored, not packed, each starting at a multiple of 64 bytes, so that `open_npz` can map
every array from its offset in the file. `numpy.load` reads the same files.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from posemill.errors import FormatError

_ALIGNMENT = 64
_COPY_BYTES = 1 << 20
_CHARS = 1 << 18  # turned into rows at a time


class Column:
    """One growing array of an archive: `append` adds rows to `file`."""

    def __init__(
        self, name: str, dtype: npt.DTypeLike, row_shape: tuple[int, ...], file: IO[bytes]
    ) -> None:
        self.name, self.row_shape, self.file = name, row_shape, file
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.num_rows = 0

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Write rows behind the ones before."""
        if rows.shape[1:] != self.row_shape:
            raise ValueError(f"{self.name}: expected rows of {self.row_shape}, got {rows.shape}")
        self.file.write(np.ascontiguousarray(rows, self.dtype).reshape(-1).view(np.uint8).data)
        self.num_rows += len(rows)


class ArchiveWriter(ExitStack):
    """Writes an `.npz` whose arrays grow side by side; a context manager.

    Columns wait in unnamed temporary files in the same folder (they vanish with the process) until
    `finish`; the first goes straight to its place where the number of rows is known.
    """

    def __init__(self, path: Path, *, num_rows: int | None = None) -> None:
        super().__init__()
        self._folder, self._num_rows = path.parent, num_rows
        self._columns: list[Column] = []
        self._texts: dict[str, Texts] = {}
        self._file = self.enter_context(path.open("wb"))
        self._zip = self.enter_context(zipfile.ZipFile(self._file, "w"))

    def column(self, name: str, dtype: npt.DTypeLike, row_shape: tuple[int, ...] = ()) -> Column:
        """Return a new column; declare the largest one first."""
        if self._columns or self._num_rows is None:
            file: IO[bytes] = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        else:
            file = self._begin(name, np.dtype(dtype), (self._num_rows, *row_shape))
        self._columns.append(Column(name, dtype, row_shape, self.enter_context(file)))
        return self._columns[-1]

    def texts(self, name: str) -> Texts:
        """Return a new column of strings."""
        self._texts[name] = Texts(self._folder)
        self.callback(self._texts[name].close)
        return self._texts[name]

    def finish(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Append the waiting columns, small whole arrays and the texts."""
        for column in self._columns:
            if self._num_rows not in (None, column.num_rows):
                raise ValueError(
                    f"{column.name}: expected {self._num_rows} rows, got {column.num_rows}"
                )
            if not column.file.readable():  # it is the member itself
                column.file.close()
                continue
            shape = (column.num_rows, *column.row_shape)
            column.file.seek(0)
            with self._begin(column.name, column.dtype, shape) as member:
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


class Texts:
    """A growing column of strings, kept in a temporary file until their longest is known."""

    def __init__(self, folder: Path) -> None:
        self.num_rows = 0
        self._width = 1
        # Names of files that are not UTF-8 have lone surrogates, which numpy keeps.
        self._file = tempfile.TemporaryFile(  # noqa: SIM115
            "w+", encoding="utf-8", errors="surrogatepass", newline="", dir=folder
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """Strings as long as the longest so far."""
        return np.dtype(f"<U{self._width}")

    def extend(self, texts: Sequence[str]) -> None:
        """Add strings; a NUL inside one is an error."""
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
        self.num_rows += len(texts)

    def blocks(self) -> Iterator[bytes]:
        """Yield the rows as fixed-width strings."""
        self._file.seek(0)
        rest = ""
        while piece := self._file.read(_CHARS):
            *texts, rest = (rest + piece).split("\0")
            yield np.array(texts, self.dtype).tobytes()

    def close(self) -> None:
        """Remove the temporary file."""
        self._file.close()
