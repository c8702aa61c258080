"""What is wrong with a file, in fixed words, before anybody reads it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import psutil
import pytest

from posemill.decoders.opening import (
    REASONS,
    open_regular,
    raise_for_os_error,
)
from posemill.errors import DecodeError


def num_open_files() -> int:
    return psutil.Process().num_fds()


def refusal(path: Path | str) -> tuple[str, str]:
    with pytest.raises(DecodeError) as caught:
        open_regular(path)
    assert caught.value.reason in REASONS
    return caught.value.reason, str(caught.value)


def test_what_is_no_ordinary_file_is_told_and_nothing_stays_open(tmp_path):
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "broken").symlink_to("no such")
    (tmp_path / "loop").symlink_to("loop")
    before = num_open_files()
    assert refusal(tmp_path / "empty") == (
        "empty file",
        f"'{tmp_path}/empty': empty file: it has 0 bytes; copy it again from where it came",
    )
    assert refusal(tmp_path)[1].endswith("not a file: it is a folder")
    assert refusal(tmp_path / "pipe")[1].endswith("it is a pipe, a socket or a device")
    assert refusal(tmp_path / "none")[1].endswith("missing: no such file")
    assert refusal(tmp_path / "empty" / "below")[0] == "missing"
    assert refusal(tmp_path / "broken")[1].endswith(
        "broken link: it points to 'no such', which is not there"
    )
    assert refusal(tmp_path / "loop")[1].endswith("broken link: links that point at each other")
    after = num_open_files()
    assert after == before


@pytest.mark.parametrize(
    ("number", "reason", "words"),
    [
        (errno.EACCES, "no permission", "Permission denied; check its mode and owner"),
        (errno.EISDIR, "not a file", "it is a folder"),
        (errno.ENXIO, "not a file", "it is a pipe, a socket or a device"),
        (errno.EIO, "unreadable", "Input/output error"),
        (errno.ESTALE, "unreadable", "Stale file handle"),
    ],
)
def test_what_the_system_says_becomes_a_reason(number, reason, words):
    error = OSError(number, os.strerror(number))
    with pytest.raises(DecodeError) as caught:
        raise_for_os_error("a.png", error)
    assert caught.value.reason == reason
    assert str(caught.value) == f"'a.png': {reason}: {words}"
    assert caught.value.__cause__ is error
