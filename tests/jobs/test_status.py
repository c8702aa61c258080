"""How a run stands, and stopping it, from outside."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from posemill.errors import RunError
from posemill.jobs.log import follow_log, read_logs
from posemill.jobs.run import extract
from posemill.jobs.snapshot import Snapshot, Speedometer, read_live
from posemill.jobs.status import read_status, stop_run
from posemill.stores.commits import SplitCounts
from posemill.stores.lock import RunLock, holder_of
from posemill.stores.manifest import Manifest

SIZES = {"train/a": 21, "dev/d": 9}


def test_status_during_and_after_a_run(make_tree, config_for, tmp_path):
    tree = make_tree(SIZES)
    (tree / "dev" / "d" / "0002.png").write_bytes(b"x")
    seen = []
    extract(config_for(tree), on_progress=lambda _: seen.append(read_status(tmp_path / "run")))
    assert {status.state for status in seen} == {"running"}
    assert f"running, pid {os.getpid()} on {socket.gethostname()}" in seen[0].headline()
    status = read_status(tmp_path / "run")
    assert status.state == "finished"
    assert "finished at 20" in status.headline()
    content = json.loads(json.dumps(status.to_json()))
    assert content["frames_known"] == content["frames_done"] == 30
    assert content["reasons"] == [{"reason": "not an image", "failures": 1, "frames": 1}]
    assert [each["split"] for each in content["splits"]] == ["train", "dev"]


def test_status_of_a_run_that_was_killed_before_its_ledger(tmp_path):
    Manifest("holistic-543").write(tmp_path)
    status = read_status(tmp_path)
    assert status.state == "stopped"
    assert "stopped before its end; the same extract command continues it" in status.headline()
    assert status.snapshot.frames_known == 0


def test_nobody_to_stop(make_tree, config_for, tmp_path):
    extract(config_for(make_tree(SIZES)))
    assert stop_run(tmp_path / "run") is None


def test_a_run_on_another_machine_is_not_stopped_from_here(tmp_path):
    Manifest("holistic-543").write(tmp_path)
    with RunLock(tmp_path):
        lock = tmp_path / "lock"
        lock.write_text(json.dumps({"pid": 1, "host": "elsewhere", "started_at": "then"}))
        with pytest.raises(RunError, match="on elsewhere since then: run posemill stop there"):
            stop_run(tmp_path)


HOLD = """
import signal, sys, time
from pathlib import Path
from posemill.stores.lock import RunLock
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_that_does_not_listen_is_named(tmp_path):
    Manifest("holistic-543").write(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert holder_of(tmp_path).pid == process.pid  # type: ignore[union-attr]
        with pytest.raises(RunError, match=rf"did not end within 0.2 s; .*kill -9 {process.pid}"):
            stop_run(tmp_path, timeout_seconds=0.2)
        process.kill()
    assert holder_of(tmp_path) is None, "the kernel drops the lock of the dead"
    with RunLock(tmp_path):
        assert holder_of(tmp_path).pid == os.getpid()  # type: ignore[union-attr]


def test_logs_are_read_from_their_end(make_tree, config_for, tmp_path):
    extract(config_for(make_tree(SIZES)))
    lines = read_logs(tmp_path / "run")
    assert f"start: pid {os.getpid()}" in lines[0]
    assert "finished: train 21 frames, 0 failed, dev 9 frames" in lines[-1]
    assert read_logs(tmp_path / "run", num_lines=1) == lines[-1:]
    assert read_logs(tmp_path / "run", worker=7) == []
    assert list(follow_log(tmp_path / "run")) == []


def test_the_speed_is_that_of_the_last_minute(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    meter = Speedometer()
    assert meter.see(0) is None
    clock[0] = 10
    assert meter.see(100) == pytest.approx(10)
    for second in range(11, 200):
        clock[0] = second
        speed = meter.see(100 + 50 * (second - 10))
    assert speed == pytest.approx(50)


def test_a_snapshot_adds_up_its_splits():
    snapshot = Snapshot(
        (SplitCounts("a", 2, 1, 20, 9, 1), SplitCounts("b", 1, 0, 5, 0, 0)), {"b": 3}
    )
    assert (snapshot.frames_known, snapshot.frames_done, snapshot.frames_failed) == (25, 13, 1)


def test_a_broken_live_file_is_ignored(tmp_path):
    assert read_live(tmp_path) == {}
    (tmp_path / "live.json").write_text("{")
    assert read_live(tmp_path) == {}
