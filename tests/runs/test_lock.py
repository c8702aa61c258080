import json
import os
import socket

import pytest

from posemill.errors import RunError
from posemill.runs import home
from posemill.runs.home import Holder, holder_of, run_lock


def test_the_holder_is_known_while_the_lock_is_held_and_not_after(tmp_path):
    assert holder_of(tmp_path) is None
    (tmp_path / home.LOCK_NAME).write_text("x" * 5000)  # of one before; nothing of it is left
    with run_lock(tmp_path):
        assert json.loads((tmp_path / home.LOCK_NAME).read_text())["pid"] == os.getpid()
        holder = holder_of(tmp_path)
        assert (holder.pid, holder.host) == (os.getpid(), socket.gethostname())
    assert holder_of(tmp_path) is None
    with (tmp_path / home.LOCK_NAME).open("rb") as handle:  # the text of the dead says nothing
        assert home.try_lock(handle.fileno(), is_shared=True)  # as another one who asks has it
        assert holder_of(tmp_path) is None


def test_a_second_one_is_refused_with_who_has_it_and_what_to_do(tmp_path):
    with run_lock(tmp_path):
        said = rf"is being worked on by pid {os.getpid()} on .* since .*posemill status.*stop"
        with pytest.raises(RunError, match=said), run_lock(tmp_path):
            pass
        assert holder_of(tmp_path) is not None  # the attempt changed nothing
    with run_lock(tmp_path):
        pass


def test_a_holder_who_has_not_written_yet_is_waited_for_and_then_unknown(tmp_path, monkeypatch):
    (tmp_path / home.LOCK_NAME).write_text("")
    naps = []
    monkeypatch.setattr(home.time, "sleep", naps.append)
    monkeypatch.setattr(home, "try_lock", lambda *_, **__: False)
    assert holder_of(tmp_path) == Holder(0, "an unknown host", "an unknown time")
    assert sum(naps) == pytest.approx(0.5)


def test_a_lock_that_cannot_be_asked_or_taken_is_said_with_what_to_do(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(95, "Operation not supported")

    (tmp_path / home.LOCK_NAME).touch()
    monkeypatch.setattr(home, "try_lock", refuse)
    with pytest.raises(RunError, match=r"cannot tell .* \(Operation not supported\)"):
        holder_of(tmp_path)
    no_locks = pytest.raises(RunError, match=r"its file system cannot lock files \(Operation not")
    with no_locks, run_lock(tmp_path):
        pass
    (tmp_path / home.LOCK_NAME).unlink()
    (tmp_path / home.LOCK_NAME).symlink_to(home.LOCK_NAME)  # a loop: it cannot be opened
    with pytest.raises(RunError, match="Too many levels"):
        holder_of(tmp_path)
