from __future__ import annotations

import os
from pathlib import Path

import pytest

from posemill.formats.hdf5 import DeferredErrorFile


class FullDisk:
    """A raw file with room for so many bytes."""

    def __init__(self, raw, room: int) -> None:
        self.raw, self.room = raw, room

    def write(self, data) -> int:
        count = min(len(data), self.room - self.raw.tell())
        if count <= 0:
            raise OSError(28, "No space left on device")
        return self.raw.write(data[:count])

    def __getattr__(self, name: str):
        return getattr(self.raw, name)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    with DeferredErrorFile(tmp_path / "a") as file:
        assert file.write(memoryview(b"abcdef")) == 6
        assert (file.seek(2), file.read(3), file.tell()) == (2, b"cde", 5)
        assert file.seek(1, os.SEEK_CUR) == 6
        file.truncate(4)
        assert file.seek(0, os.SEEK_END) == 4
        file.seek(3)
        assert file.read(3) == b"d\0\0"
        file.flush()
        file.raise_failure()
    assert (tmp_path / "a").read_bytes() == b"abcd"


def test_a_full_disk_is_not_noticed_by_the_writer_and_told_when_asked(tmp_path: Path) -> None:
    with DeferredErrorFile(tmp_path / "a") as file:
        file._raw = FullDisk(file._raw, 4)
        assert file.write(memoryview(b"abcdef")) == 6
        assert file.write(memoryview(b"gh")) == 2
        file.seek(5)
        file.write(memoryview(b"F"))
        file.truncate(2)
        assert file.seek(0, os.SEEK_END) == 8
        file.seek(0)
        assert file.read(9) == b"abcdeFgh\0"
        with pytest.raises(OSError, match="No space left on device"):
            file.raise_failure()
