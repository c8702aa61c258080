import errno
import os

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posemill.decoders.opening import (
    PICTURE_SUFFIXES,
    REASONS,
    VIDEO_SUFFIXES,
    natural_sort,
    open_regular,
    raise_for_os_error,
    suffix_of,
    without_suffix,
)
from posemill.errors import DecodeError
from posemill.files import readable


def refusal(path):
    with pytest.raises(DecodeError) as caught:
        open_regular(path)
    assert caught.value.reason in REASONS
    return caught.value.reason, str(caught.value)


def test_what_is_no_ordinary_file_is_told_and_nothing_stays_open(tmp_path):
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "broken").symlink_to("no such")
    (tmp_path / "loop").symlink_to("loop")
    before = psutil.Process().num_fds()
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
    assert psutil.Process().num_fds() == before


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


def test_numbers_sort_by_their_value():
    names = "b images10.png images9.png images009.png a2b10 a2b9 10 9"
    expected = "9 10 a2b9 a2b10 b images009.png images9.png images10.png"
    assert natural_sort(names.split()) == expected.split()


@given(st.lists(st.integers(0, 9999), unique=True))
def test_names_with_leading_zeros_sort_by_number(numbers):
    names = [f"images{number:04d}.png" for number in numbers]
    assert natural_sort(names) == [f"images{number:04d}.png" for number in sorted(numbers)]


def test_what_a_file_is_stands_in_its_last_suffix():
    suffixes = [suffix_of(name) for name in ("a.PNG", "a.b.mp4", "png", ".png")]
    assert suffixes == ["png", "mp4", "", ""]
    names = ["a/b.mp4", "a/b.c.mp4", "a.b/c", ".mp4", "a/.mp4"]
    assert [without_suffix(name) for name in names] == ["a/b", "a/b.c", "a.b/c", ".mp4", "a/.mp4"]
    assert " ".join(sorted(PICTURE_SUFFIXES)) == "bmp jpeg jpg png tif tiff webp"
    assert " ".join(sorted(VIDEO_SUFFIXES)) == (
        "3g2 3gp asf avi f4v flv gif m2ts m2v m4v mjpeg mjpg mkv mov mp4 mpeg mpg mts ogv ts vob "
        "webm wmv"
    )


def test_foreign_bytes_become_readable():
    assert readable("plain ü") == "plain ü"
    assert readable("caf\udce9") == "caf\\xe9"
    assert readable("half \ud800") == "half \\ud800"
