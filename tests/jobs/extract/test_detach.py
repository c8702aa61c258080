"""Runs in the background: when the call returns, and what it says if there is no run."""

import os
import signal
import sys
import time

import pytest

from posemill.errors import RunError
from posemill.jobs.extract import status
from posemill.jobs.extract.status import start_detached
from posemill.runs.home import Holder, holder_of
from posemill.runs.manifest import Manifest
from posemill.runs.writer import RunWriter

# Holds the lock as a coordinator does, writes its manifest, and waits.
WORKS = """
import os, signal, time
from pathlib import Path
from posemill.runs.home import run_lock
from posemill.runs.manifest import Manifest
with run_lock(Path({run!r})):
    Manifest("holistic-543").write(Path({run!r}))
    assert os.getsid(0) == os.getpid() and not os.read(0, 1)
    print("at work", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a piece of Python instead of posemill; all are ended after the test."""
    pids = []

    def run(code):
        command = [sys.executable, "-c", code.format(run=str(tmp_path / "run"))]
        monkeypatch.setattr(status, "python_command", lambda *arguments: command)
        pids.append(start_detached(["extract"], tmp_path / "run"))
        return pids[-1]

    yield run
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def test_it_returns_when_the_new_process_works_on_the_run(tmp_path, start):
    pid = start(WORKS)
    holder = holder_of(tmp_path / "run")
    assert holder.pid == pid
    log = tmp_path / "run" / "logs" / "detached.log"
    deadline = time.monotonic() + 60
    while not log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert log.read_text() == "at work\n"


@pytest.mark.parametrize("code", [0, 1])
def test_a_run_that_was_quick_is_no_failure(code, tmp_path, start):
    assert start(f"raise SystemExit({code})") > 0


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit(2)", "exit code 2"),
        ("import sys; sys.stderr.write('note\\nposemill: no such engine\\n'); sys.exit(2)",
         "no such engine"),
        ("import os; os.write(1, b'\\xff words'); os._exit(7)", "� words"),
    ],
)  # fmt: skip
def test_a_process_that_ends_says_why(code, said, start):
    with pytest.raises(RunError) as caught:
        start(code)
    assert str(caught.value) == f"it did not start: {said}"


def test_only_what_this_start_said_counts_and_no_other_folder_is_touched(tmp_path, start):
    with RunWriter(tmp_path / "run", Manifest("holistic-543")):
        pass
    logs = tmp_path / "run" / "logs"
    logs.mkdir(exist_ok=True)
    (logs / "detached.log").write_text("posemill: an old fault\n")
    with pytest.raises(RunError, match=r"^it did not start: exit code 3$"):
        start("raise SystemExit(3)")
    assert (logs / "detached.log").read_text() == "posemill: an old fault\n"
    (tmp_path / "run" / "manifest.json").unlink()
    with pytest.raises(RunError, match="is not empty and not a posemill run"):
        start("raise SystemExit(0)")


def test_a_start_that_takes_too_long_is_left_alone(tmp_path, start, monkeypatch):
    monkeypatch.setattr(status, "_START_SECONDS", 0.1)
    monkeypatch.setattr(status, "holder_of", lambda folder: Holder(1, "elsewhere", "now"))
    os.kill(start("import time; time.sleep(60)"), 0)  # it lives


def test_what_it_says_is_a_log_and_so_english(start, tmp_path, monkeypatch):
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    with pytest.raises(RunError, match=r"^it did not start: en$"):
        start("import os, sys; print('posemill: ' + os.environ['POSEMILL_LANG']); sys.exit(2)")
