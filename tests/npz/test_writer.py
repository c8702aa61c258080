"""Archives written column by column: the bytes of the container, and what numpy reads of it."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.npz import writer as archive_writer
from posemill.npz.writer import ArchiveWriter, Column, Texts, combine_crc

FLOATS = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
INTS = np.arange(5, dtype=">i8")


def write(path: Path, num_rows: int | None) -> None:
    with ArchiveWriter(path, num_rows=num_rows) as archive:
        floats = archive.column("floats", np.float32, (2, 3))
        ints = archive.column("numbers", np.int64)
        names = archive.texts("names")
        for rows in (slice(0, 2), slice(2, 2), slice(2, 5)):
            floats.append(FLOATS[rows])
            ints.append(INTS[rows])
        names.extend(["a", "bcd"])
        names.extend([])
        names.extend(["\udcff"])
        archive.finish({"whole": np.eye(2)})


@pytest.mark.parametrize("num_rows", [None, 5])
def test_numpy_reads_what_was_written(num_rows: int | None, tmp_path: Path) -> None:
    write(tmp_path / "a.npz", num_rows)
    with np.load(tmp_path / "a.npz") as found:
        assert list(found) == ["floats", "numbers", "whole", "names"]
        np.testing.assert_array_equal(found["floats"], FLOATS)
        np.testing.assert_array_equal(found["numbers"], INTS)
        np.testing.assert_array_equal(found["whole"], np.eye(2))
        assert found["names"].tolist() == ["a", "bcd", "\udcff"]
        assert [found[name].dtype.str for name in found] == ["<f4", "<i8", "<f8", "<U3"]
    assert list(tmp_path.iterdir()) == [tmp_path / "a.npz"]


@pytest.mark.parametrize("num_rows", [None, 5])
def test_members_are_aligned_and_say_their_sizes_twice(
    num_rows: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.npz"
    write(path, num_rows)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        infos = archive.infolist()
    sizes = [128 + 120, 128 + 40, 128 + 32, 128 + 36]
    assert [info.file_size for info in infos] == sizes
    end = 0
    for info in infos:
        assert info.header_offset == end  # nothing lies between the members
        name = info.filename.encode()
        start = info.header_offset + 30 + len(name)
        *fields, extra_size = struct.unpack_from("<4sHHHHHIIIHH", data, info.header_offset)
        full = 0xFFFFFFFF
        assert fields == [
            b"PK\x03\x04", 45, 0, 0, 0, 0x21, info.CRC, full, full, len(name)
        ]  # fmt: skip
        assert data[start - len(name) : start] == name
        kind, length, size, packed, other, padding = struct.unpack_from("<HHQQHH", data, start)
        assert (kind, length, size, packed) == (1, 16, info.file_size, info.file_size)
        assert (other, padding) == (0xD935, extra_size - 24)
        assert padding < 64
        begin = start + extra_size
        assert begin % 64 == 0
        end = begin + size
        assert zlib.crc32(data[begin:end]) == info.CRC
        assert (info.create_version, info.extract_version, info.create_system) == (45, 45, 0)
        assert (info.external_attr, info.date_time) == (0o600 << 16, (1980, 1, 1, 0, 0, 0))
        assert (info.extra, info.compress_size) == (b"", info.file_size)
    assert b"PK\x06\x06" not in data
    assert data[-22:] == struct.pack(
        "<4sHHHHIIH", b"PK\x05\x06", 0, 0, 4, 4, len(data) - 22 - end, end, 0
    )


@pytest.mark.parametrize(("size", "offset", "num_extra"), [
    (0xFFFFFFFE, 0xFFFFFFFE, 0), (0xFFFFFFFE, 0xFFFFFFFF, 1), (0xFFFFFFFF, 5, 2),
    (1 << 33, 1 << 34, 3),
])  # fmt: skip
def test_the_directory_of_archives_over_4_gb(
    size: int, offset: int, num_extra: int, tmp_path: Path
) -> None:
    with ArchiveWriter(tmp_path / "a.npz") as archive:
        archive._entries = [(b"a.npy", 7, size, offset)]
        archive._file.seek(1 << 32)  # a hole: takes no room on the disk
        archive._write_directory()
    with (tmp_path / "a.npz").open("rb") as handle:
        handle.seek(1 << 32)
        data = handle.read()
    (info,) = zipfile.ZipFile(tmp_path / "a.npz").infolist()
    assert (info.file_size, info.compress_size, info.header_offset) == (size, size, offset)
    length = 46 + 5 + (4 + 8 * num_extra if num_extra else 0)
    assert len(info.extra) == length - 51
    end = (1 << 32) + length
    assert data[length:] == (
        struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, length, 1 << 32)
        + struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
        + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 1, 1, length, 0xFFFFFFFF, 0)
    )


@pytest.mark.parametrize("second", [b"", b"x", b"yz" * 100, bytes(4097)])
def test_checksums_of_pieces_are_joined(second: bytes) -> None:
    for first in (b"", b"abc", b"\xff" * 77):
        joined = combine_crc(zlib.crc32(first), zlib.crc32(second), len(second))
        assert joined == zlib.crc32(first + second)


def test_the_header_of_an_array_has_a_fixed_size() -> None:
    column = Column("a", ">i2", (3,))
    column.num_rows = 10**15
    header = column.header
    assert (len(header), header[-1:]) == (128, b"\n")
    stream = io.BytesIO(header)
    assert np.lib.format.read_magic(stream) == (1, 0)
    found = np.lib.format.read_array_header_1_0(stream)
    assert found == ((10**15, 3), False, np.dtype("<i2"))
    assert (column.row_bytes, column.num_bytes) == (6, 6 * 10**15)


def test_rows_of_another_shape_or_number_are_refused(tmp_path: Path) -> None:
    with ArchiveWriter(tmp_path / "a.npz", num_rows=3) as archive:
        column = archive.column("points", np.float32, (2,))
        with pytest.raises(ValueError, match=r"^points: expected rows of \(2,\), got \(1, 3\)$"):
            column.append(np.zeros((1, 3)))
        column.append(np.zeros((2, 2)))
        with pytest.raises(ValueError, match=r"^points: expected 3 rows, got 2$"):
            archive.finish({})


def test_all_files_are_closed_where_writing_ends_early(tmp_path: Path) -> None:
    with ArchiveWriter(tmp_path / "a.npz") as archive:
        columns = [archive.column(name, np.float32) for name in "ab"]
        texts = archive.texts("c")
    handles: list[Any] = [*(column.handle for column in columns), texts._file, archive._file]
    assert [handle.closed for handle in handles] == [True] * 4


def rows_of(texts: Texts) -> list[str]:
    column = texts.shape_of_column("t")
    data = b"".join(texts.blocks())
    assert texts._file.closed
    found = np.frombuffer(data, column.dtype).tolist()
    assert (column.num_rows, column.row_shape) == (len(found), ())
    return found


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_strings_come_back_whatever_is_read_at_a_time(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_writer, "_CHARS", size)
    monkeypatch.setattr(archive_writer, "_REPEATED_CHARS", size)
    words = ["", "one", "two\r\n", "", "\U0001f600x", "\ud800"]
    texts, repeated = Texts(tmp_path), Texts(tmp_path)
    for some in (words[:4], words[4:]):
        texts.extend(some)
        repeated.extend(some, np.arange(len(some)))
    assert texts.shape_of_column("t").dtype == "<U5"
    assert rows_of(texts) == words
    assert rows_of(repeated) == ["one", "two\r\n", "two\r\n", "", "", "", "\ud800"]


def test_repeated_strings_come_back_in_pieces_of_the_usual_size(tmp_path: Path) -> None:
    texts = Texts(tmp_path)
    texts.extend(["a", "b"], np.array([2, 3]))
    assert rows_of(texts) == ["a", "a", "b", "b", "b"]


def test_strings_of_nothing_have_a_width(tmp_path: Path) -> None:
    texts = Texts(tmp_path)
    texts.extend(["", ""])
    assert texts.shape_of_column("t").dtype == "<U1"
    assert rows_of(texts) == ["", ""]


def test_strings_with_nul_are_refused(tmp_path: Path) -> None:
    texts = Texts(tmp_path)
    bad = "b\0" + "c" * 300
    with pytest.raises(FormatError) as caught:
        texts.extend(["a", bad])
    assert str(caught.value) == (
        f"{bad[:200]!r} holds a NUL character, which npz cannot store; change this id, path or "
        "label where it comes from"
    )
    texts.close()
    assert texts._file.closed
