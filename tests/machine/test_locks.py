import errno
import fcntl
import os
import subprocess
import sys
import threading
from contextlib import nullcontext

import pytest

from posemill.machine.locks import exclusive_lock, try_lock


def test_the_second_holder_of_a_lock_waits_and_is_told_once(tmp_path):
    order = []
    waiting = threading.Event()

    def second():
        with exclusive_lock(tmp_path / "lock", on_wait=waiting.set):
            order.append("second")

    with exclusive_lock(tmp_path / "lock", on_wait=lambda: pytest.fail("nobody else has it")):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(30)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]


def test_a_lock_is_refused_while_another_open_file_has_it_but_may_be_shared(tmp_path):
    with (tmp_path / "lock").open("w+") as first, (tmp_path / "lock").open("w+") as second:
        assert try_lock(first.fileno())
        assert not try_lock(second.fileno())
        assert not try_lock(second.fileno(), is_shared=True)
        assert try_lock(first.fileno(), is_shared=True)
        assert try_lock(second.fileno(), is_shared=True)
        assert not try_lock(second.fileno())
        first.close()
        assert try_lock(second.fileno())


def test_a_lock_of_its_own_is_not_kept_alive_by_a_forked_process(tmp_path):
    def lock_in_another_process():
        code = (
            "import sys; from posemill.machine.locks import try_lock\n"
            "handle = open(sys.argv[1], 'r+b')\n"
            "print(try_lock(handle.fileno(), is_own=True))"
        )
        command = [sys.executable, "-c", code, str(tmp_path / "lock")]
        return subprocess.check_output(command) == b"True\n"

    with (tmp_path / "lock").open("w+b") as handle:
        assert try_lock(handle.fileno(), is_own=True)
        assert not lock_in_another_process()
        # A child that has the file open, as a forked loader has, and outlives the closing here.
        sleeper = subprocess.Popen(["sleep", "60"], pass_fds=[handle.fileno()])
    try:
        assert lock_in_another_process()
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize("is_own", [False, True])
def test_permission_denied_means_held_only_where_posix_says_so(is_own, tmp_path, monkeypatch):
    def deny(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(fcntl, "lockf" if is_own else "flock", deny)
    with (tmp_path / "lock").open("w+b") as handle:
        if is_own:
            assert not try_lock(handle.fileno(), is_own=True)
        else:
            with pytest.raises(PermissionError, match="Permission denied"):
                try_lock(handle.fileno())


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EIO])
def test_a_file_system_without_locks_counts_as_ours_a_broken_one_does_not(
    code, tmp_path, monkeypatch
):
    def fail(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", fail)
    refused = pytest.raises(OSError, match="Input/output error")
    with nullcontext() if code == errno.ENOLCK else refused, exclusive_lock(tmp_path / "lock"):
        assert code == errno.ENOLCK
