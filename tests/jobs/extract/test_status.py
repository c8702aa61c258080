"""How a run stands, and stopping it, from outside."""

import errno
import fcntl
import io
import json
import os
import re
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from cli_runner import said_by
from made_up_people import make_person, write_run

import posemill
from posemill.errors import RunError
from posemill.jobs.extract import coordinator
from posemill.jobs.extract.run import extract
from posemill.jobs.extract.status import Progress, read_status, stop_run
from posemill.machine.gpus import Gpu
from posemill.machine.live_files import write_live
from posemill.runs.events import Committed, Finished, Lost, Planned, PlannedClip, UnitProgress
from posemill.runs.home import holder_of, run_lock
from posemill.runs.log import EventLog
from posemill.runs.manifest import Manifest
from posemill.runs.queries import SplitCounts
from posemill.runs.reader import open_run

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


HOLD = """
import signal, sys, time
from pathlib import Path
from posemill.runs.home import run_lock
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_of_a_folder_of_runs_each_has_a_line_or_a_reason(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "deep/b", "c"):
        write_run(Path("runs", name), make_person(2))
    Path("runs/c/manifest.json").write_text("{")
    first, damaged, last = said_by("status", "runs").splitlines()
    assert re.match("runs/a: finished at .*; 2/2 frames", first)
    assert damaged.startswith("runs/c/manifest.json is not the manifest")
    assert last.startswith("runs/deep/b: finished")
    found = json.loads(said_by("status", "runs", "--json"))
    assert [row["folder"] for row in found] == ["runs/a", "runs/c", "runs/deep/b"]
    assert [row.get("state") for row in found] == ["finished", None, "finished"]
    with pytest.raises(RunError, match="no run, but holds 3 runs: give one of them: runs/a"):
        posemill.status("runs")
    assert said_by("status", "runs/deep").startswith("runs/deep/b: finished")
    monkeypatch.setattr("posemill.web.library._MOST_ENTRIES", 5)
    assert said_by("status", "runs").startswith("runs/a: finished")
    assert "runs holds too many files to look at all" in caplog.text


def test_one_without_a_ledger_has_stopped_and_one_that_does_not_listen_is_named(tmp_path):
    Manifest("holistic-543").write(tmp_path)
    status = read_status(tmp_path)
    assert (status.state, status.frames_known) == ("stopped", 0)
    assert "stopped before its end; the same extract command continues it" in status.headline()
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        assert holder_of(tmp_path).pid == process.pid
        with pytest.raises(RunError, match=rf"did not end within 0.2 s; .*kill -9 {process.pid}"):
            stop_run(tmp_path, timeout_seconds=0.2)
        process.kill()
    assert holder_of(tmp_path) is None, "the kernel drops the lock of the dead"
    with run_lock(tmp_path):
        assert holder_of(tmp_path).pid == os.getpid()


@pytest.fixture
def bystander():
    """A process that has nothing to do with any run."""
    command = [sys.executable, "-c", "print(input())"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.communicate("unharmed", timeout=120)[0] == "unharmed\n"


def name_holder(folder, pid, host=None):
    text = {"pid": pid, "host": host or socket.gethostname(), "started_at": "then"}
    (folder / "lock").write_text(json.dumps(text))


def refuse_lock(monkeypatch, error, *, also_to_read=False):
    """Let opening a lock raise, as for another user's run or on a read-only disk."""
    really_open = io.open

    def refuse(path, mode="r", *more, **others):
        if str(path).endswith("lock") and (also_to_read or not mode.startswith("r")):
            raise error
        return really_open(path, mode, *more, **others)

    monkeypatch.setattr(io, "open", refuse)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_lock_that_cannot_be_written_is_asked_all_the_same(
    make_tree, config_for, tmp_path, bystander, monkeypatch, code
):
    folder = tmp_path / "run"
    extract(config_for(make_tree(SIZES)))
    assert stop_run(folder) is None
    name_holder(folder, bystander.pid)  # what a killed coordinator left, its pid used again
    refuse_lock(monkeypatch, OSError(code, os.strerror(code)))
    assert read_status(folder).state == "finished"
    assert stop_run(folder) is None
    monkeypatch.undo()
    with run_lock(folder):
        refuse_lock(monkeypatch, OSError(code, os.strerror(code)))
        assert holder_of(folder).pid == os.getpid()
        assert read_status(folder).state == "running"


def test_a_lock_that_cannot_be_read_is_not_guessed_at(tmp_path, bystander, monkeypatch):
    Manifest("holistic-543").write(tmp_path)
    name_holder(tmp_path, bystander.pid)
    refuse_lock(monkeypatch, PermissionError(13, "Permission denied"), also_to_read=True)
    status = read_status(tmp_path)
    assert (status.state, status.holder) == ("unknown", None)
    said = r"lock: cannot tell whether somebody works .*\(Permission denied\)"
    assert re.search(said, status.headline())
    with pytest.raises(RunError, match=said):
        stop_run(tmp_path)
    with closing(EventLog(tmp_path)) as events:
        events.record(Finished("2026"))
    assert read_status(tmp_path).state == "finished"


def test_one_who_only_asks_does_not_keep_a_run_from_starting(tmp_path, monkeypatch):
    really_flock, asked = fcntl.flock, []

    def flock(descriptor, operation):
        asked.append(operation)
        if len(asked) == 1:
            raise BlockingIOError
        really_flock(descriptor, operation)

    monkeypatch.setattr("fcntl.flock", flock)
    with run_lock(tmp_path):
        assert holder_of(tmp_path).pid == os.getpid()
    assert len(asked) == 3


def test_no_signal_goes_to_a_process_without_the_lock_or_one_gone_elsewhere_or_of_another_user(
    tmp_path, bystander, monkeypatch
):
    def refuse(process):
        raise psutil.AccessDenied(process.pid)

    Manifest("holistic-543").write(tmp_path)
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    with run_lock(tmp_path):
        for pid in (bystander.pid, gone.pid):
            name_holder(tmp_path, pid)
            with pytest.raises(RunError, match=rf"by pid {pid} .*nothing was stopped"):
                stop_run(tmp_path)
        name_holder(tmp_path, 1, "elsewhere")
        with pytest.raises(RunError, match="on elsewhere since then: run posemill stop there"):
            stop_run(tmp_path)
        name_holder(tmp_path, bystander.pid)
        monkeypatch.setattr(psutil.Process, "open_files", refuse)
        with pytest.raises(RunError, match=r"another user; nothing was stopped"):
            stop_run(tmp_path)


def test_the_log_tells_how_far_a_run_is_and_is_read_from_its_end(
    make_tree, config_for, tmp_path, monkeypatch
):
    monkeypatch.setattr(coordinator, "_LOG_SECONDS", (0.0, 0.0))
    speed = extract(config_for(make_tree(SIZES))).frames_per_second
    lines = json.loads(said_by("logs", tmp_path / "run", "--json"))
    assert f"start: pid {os.getpid()}" in lines[0]
    done, end = "30/30 frames (100.0%), ", "0 failed; train 21/21, dev 9/9"
    assert f"finished: {done}{speed:.1f} frames/s, {end}" in lines[-1]
    assert [line for line in lines if " progress: " in line][-1].endswith(done + end)
    assert said_by("logs", tmp_path / "run", "-n", 1, "--follow") == lines[-1] + "\n"
    with pytest.raises(RunError, match=r"no log of worker 7; its logs: coordinator\.log"):
        said_by("logs", tmp_path / "run", "--worker", 7)


def test_a_run_with_nothing_left_was_finished_when_it_was(make_tree, config_for, tmp_path):
    tree, then = make_tree(SIZES), "2020-01-01T00:00:00+00:00"
    config = config_for(tree)
    (tree / "dev" / "d" / "0002.png").write_bytes(b"x")
    for retry_failed, is_new in ((False, False), (True, True)):  # a frame is tried again
        extract(config)
        with closing(EventLog(tmp_path / "run")) as events:
            events.record(Finished(then))
        extract(config.replace(retry_failed=retry_failed))
        finished_at = read_status(tmp_path / "run").finished_at
        assert finished_at > "2026" if is_new else finished_at == then
    (tree / "dev" / "d" / "0002.png").unlink()
    clean = config.replace(out=tmp_path / "clean")
    extract(clean)
    with closing(EventLog(tmp_path / "clean")) as events:
        events.record(Finished(then))
    extract(clean.replace(retry_failed=True))
    assert read_status(tmp_path / "clean").finished_at == then


def test_the_workers_of_each_gpu_are_shown_while_it_runs_here(tmp_path, monkeypatch):
    gpu = Gpu(1, "A100", "GPU-1", 0.5, 1 << 30, 4 << 30)
    monkeypatch.setattr("posemill.machine.gpus.read_gpus", lambda: [gpu])
    Manifest("holistic-543").write(tmp_path)
    write_live(tmp_path, {**Progress(()).to_json(), "workers_on": {"1": [0, 1]}})
    with run_lock(tmp_path):
        assert read_status(tmp_path).to_json()["gpus"][0]["memory_used"] == 1 << 30
        shown = "GPU 1 A100: 50% busy, 1.0 of 4.0 GB, workers 0, 1\n"
        assert shown in said_by("status", tmp_path)
        monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
        assert read_status(tmp_path).gpus == ()
    assert read_status(tmp_path).gpus == ()


def test_frames_committed_since_the_live_file_are_not_counted_twice(tmp_path):
    Manifest("holistic-543").write(tmp_path)
    write_live(tmp_path, Progress((SplitCounts("a", 2, 1, 20, 4, 1),), {"a": 8}, 3.0).to_json())
    clips = (PlannedClip("a", "1", 10), PlannedClip("a", "2", 10))
    lost = (Lost(3, 1, "/1", "corrupt", "it is"),)
    events = EventLog(tmp_path)
    first = UnitProgress(None, 1, "a", 0, None, True, 10, lost)
    events.record(Planned("run", clips), Committed(None, (first,)))
    with run_lock(tmp_path):
        snapshot = read_status(tmp_path)
        assert (snapshot.frames_done, snapshot.in_flight) == (13, {"a": 2})
        # Frames that the share counts and the column of what is out does not are in one of theirs.
        rows = r"frames failed +not yet written\n.*\n *a( +\d+){6} +2\n"
        assert re.search(rows, said_by("status", tmp_path))
        events.record(Committed(None, (UnitProgress(None, 2, "a", 0, None, False, 7),)))
        assert read_status(tmp_path).frames_done == 18
    events.close()


def test_a_finished_run_begun_again_and_not_completed_does_not_say_finished(
    make_tree, config_for, tmp_path, monkeypatch
):
    tree = make_tree({"train/a": 6})
    (tree / "train" / "a" / "0002.png").write_bytes(b"not a picture")
    extract(config_for(tree))
    assert read_status(tmp_path / "run").state == "finished"

    def die(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("posemill.jobs.extract.run._work", die)
    with pytest.raises(KeyboardInterrupt):
        extract(config_for(tree, retry_failed=True))
    assert read_status(tmp_path / "run").state == "stopped"
    assert not open_run(tmp_path / "run").is_finished
