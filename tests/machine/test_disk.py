"""What a full disk is, and what is said about one."""

from __future__ import annotations

import errno
import os

import pytest

from posemill.machine.disk import disk_message, is_full, is_of_the_disk


@pytest.mark.parametrize(
    ("name", "has_no_room"),
    [("ENOSPC", True), ("EDQUOT", True), ("EFBIG", True), ("EIO", False), ("EACCES", False)],
)
def test_a_write_for_which_there_is_no_room_says_to_make_room(name: str, has_no_room: bool) -> None:
    code = getattr(errno, name)
    error = OSError(code, os.strerror(code))
    assert is_full(error) == (name in ("ENOSPC", "EDQUOT"))
    said = disk_message(error, "runs/a")
    if has_no_room:
        assert said == (
            f"no room left to write to runs/a ({os.strerror(code)}); everything committed so far "
            "is safe: make room and run the same command again"
        )
    else:
        assert said == (
            f"cannot write to runs/a: {error}; everything committed so far is safe: "
            "run the same command again when it can be written"
        )


def test_what_is_left_is_said_as_it_is() -> None:
    error = OSError(errno.ENOSPC, "No space")
    said = disk_message(error, "a", saved="nothing was begun yet", again="begin")
    assert (
        said == "no room left to write to a (No space); nothing was begun yet: make room and begin"
    )


def test_only_errors_of_the_disk_blame_it() -> None:
    to_blame = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
    assert all(is_of_the_disk(OSError(code, "")) for code in to_blame)
    assert not is_of_the_disk(OSError(errno.EPIPE, ""))
