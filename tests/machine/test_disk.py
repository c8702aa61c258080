import errno
import os

import pytest

from posemill.machine.disk import disk_message, is_full, is_of_the_disk


@pytest.mark.parametrize(
    ("name", "has_no_room", "is_to_blame"),
    [("ENOSPC", True, True), ("EDQUOT", True, True), ("EFBIG", True, True), ("EIO", False, True),
     ("EROFS", False, True), ("EACCES", False, False)],
)  # fmt: skip
def test_a_write_for_which_there_is_no_room_says_to_make_room(name, has_no_room, is_to_blame):
    code = getattr(errno, name)
    error = OSError(code, os.strerror(code))
    assert is_full(error) == (name in ("ENOSPC", "EDQUOT"))
    assert is_of_the_disk(error) == is_to_blame
    first, last = f"cannot write to runs/a: {error}", "run the same command again when it can be w"
    if has_no_room:
        first = f"no room left to write to runs/a ({os.strerror(code)})"
        last = "make room and run the same command again"
    said = disk_message(error, "runs/a")
    assert said.startswith(f"{first}; everything committed so far is safe: {last}")
    said = disk_message(error, "a", saved="nothing was begun yet", again="begin")
    assert said.partition("; ")[2].startswith("nothing was begun yet: ")
    assert "begin" in said.rpartition(":")[2]
