"""Who works on a run: the lock, what it says about its holder, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from posemill.errors import RunError
from posemill.stores import lock
from posemill.stores.lock import Holder, RunLock, describe, holder_of


def test_the_holder_is_known_while_it_holds(tmp_path: Path) -> None:
    assert holder_of(tmp_path) is None
    with RunLock(tmp_path):
        holder = holder_of(tmp_path)
        assert holder is not None
        assert (holder.pid, holder.host) == (os.getpid(), socket.gethostname())
        assert holder_of(tmp_path) == holder  # asking does not take it
    assert holder_of(tmp_path) is None
    with RunLock(tmp_path):
        assert holder_of(tmp_path) is not None


def test_a_second_one_is_refused_and_told_who_and_what_to_do(tmp_path: Path) -> None:
    with RunLock(tmp_path), pytest.raises(RunError) as caught, RunLock(tmp_path):
        pass
    said = str(caught.value)
    assert said.startswith(f"{tmp_path} is being worked on by pid {os.getpid()} on ")
    assert said.endswith(
        f"look with: posemill status {tmp_path}; end it with: posemill stop {tmp_path}"
    )


def test_the_text_of_a_longer_holder_before_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("x" * 500)
    with RunLock(tmp_path):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


def test_a_holder_that_wrote_nothing_yet_is_waited_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    with RunLock(tmp_path):
        text = (tmp_path / "lock").read_text()
        (tmp_path / "lock").write_text("")

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                (tmp_path / "lock").write_text(text)

        monkeypatch.setattr(lock.time, "sleep", wait)
        holder = holder_of(tmp_path)
        assert holder is not None
        assert holder.pid == os.getpid()
        assert len(waits) == 3
        (tmp_path / "lock").write_text('{"pid": 1}')
        assert holder_of(tmp_path) == Holder(0, "an unknown host", "an unknown time")


def test_whoever_asks_for_an_instant_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [False] * 9 + [True]
    monkeypatch.setattr(lock, "try_lock", lambda descriptor: answers.pop(0))
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: None)
    with RunLock(tmp_path):
        assert answers == []


def test_a_lock_that_cannot_be_looked_at_is_said(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("lock")  # a link to itself
    with pytest.raises(RunError, match="cannot tell whether somebody works on it, its file 'lock'"):
        holder_of(tmp_path)


def test_holders_are_described_in_words() -> None:
    assert describe(None) == "another process"
    assert describe(Holder(12, "x", "noon")) == "pid 12 on x since noon"
