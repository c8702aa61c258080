from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from posemill.machine.limits import count_cores
from posemill.training.launch.sweep import Sweep, read_sweep
from posemill.training.launch.sweep_runner import run_sweep

# Stands for `posemill train CONFIG [--resume]`: notes how it was called, then does as `lr` says.
FAKE_TRAIN = """
import json, os, pathlib, sys, time
import resource
folder = pathlib.Path(sys.argv[1]).parent
config = (folder / "config.toml").read_text()
with (folder / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps({
        "pid": os.getpid(), "resumes": "--resume" in sys.argv,
        "threads": os.environ["OMP_NUM_THREADS"],
        "memory": resource.getrlimit(resource.RLIMIT_DATA)[0],
        "cores": len(os.sched_getaffinity(0)),
    }) + "\\n")
(folder / "run").mkdir(exist_ok=True)
if "lr = 2.0" in config and not os.environ.get("REPAIRED"):
    print("posemill: the disk is full", file=sys.stderr)
    sys.exit(2)
if "lr = 3.0" in config and not os.environ.get("REPAIRED"):
    (folder / "run" / "run.json").write_text("{}")
    print("ready", flush=True)
    time.sleep(600)
summary = {"scores": {"dev": {"accuracy": 0.9}}, "seconds": 1.0}
(folder / "run" / "summary.json").write_text(json.dumps(summary))
"""


@pytest.fixture
def command(tmp_path):
    script = tmp_path / "fake_train.py"
    script.write_text(FAKE_TRAIN)
    return (sys.executable, str(script))


def make_sweep(tmp_path: Path, rates: str) -> Sweep:
    path = tmp_path / "sweep.toml"
    path.write_text(f'out = "{tmp_path}/out"\n[grid]\nlr = {rates}\n')
    return read_sweep(path)


def calls_of(sweep: Sweep, index: int) -> list[dict[str, int]]:
    lines = (sweep.jobs[index].folder / "calls.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def wait_until(is_true: Callable[[], bool], process: psutil.Popen) -> None:
    """Wait for something a process does, not longer than two minutes or than it lives."""
    deadline = time.monotonic() + 120
    while not is_true():
        assert process.poll() is None, "the sweep ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_every_job_runs_once_with_its_share(tmp_path, command):
    sweep = make_sweep(tmp_path, "[0.1, 0.2, 0.3]")
    events: list[tuple[str, str]] = []
    num_jobs = min(2, count_cores())
    failures = run_sweep(
        sweep,
        num_jobs=num_jobs,
        command=command,
        report=lambda e, job: events.append((e, job.name)),
    )
    assert not failures
    assert [event for event, _ in events].count("done") == 3
    (call,) = calls_of(sweep, 0)
    assert call["cores"] == int(call["threads"]) == -(-count_cores() // num_jobs)
    assert 0 < call["memory"] <= psutil.virtual_memory().total // num_jobs
    run_sweep(sweep, num_jobs=1, command=command)
    assert len(calls_of(sweep, 0)) == 1, "what has finished is not run again"


def test_a_failed_job_does_not_stop_the_others(tmp_path, command):
    sweep = make_sweep(tmp_path, "[2.0, 0.1]")
    failures = run_sweep(sweep, command=command)
    assert failures == {sweep.jobs[0].name: "exit code 2: posemill: the disk is full"}
    assert sweep.jobs[1].summary is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_or_killed_sweep_leaves_no_process_and_continues(
    number, tmp_path, command, monkeypatch, start_process
):
    sweep = make_sweep(tmp_path, "[0.1, 3.0]")
    driver = textwrap.dedent(f"""
        from pathlib import Path
        from posemill.training.launch.sweep import read_sweep
        from posemill.training.launch.sweep_runner import run_sweep
        run_sweep(read_sweep(Path({str(sweep.path)!r})), command={command!r})
    """)
    process = start_process([sys.executable, "-c", driver], stderr=subprocess.PIPE)
    log = sweep.jobs[1].folder / "log.txt"
    wait_until(lambda: log.is_file() and "ready" in log.read_text(), process)
    (call,) = calls_of(sweep, 1)
    training = psutil.Process(call["pid"])
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert (b"KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    _, alive = psutil.wait_procs([training], timeout=60)  # killed, it dies with its parent
    assert not alive
    monkeypatch.setenv("REPAIRED", "1")
    assert not run_sweep(sweep, command=command)
    assert [entry["resumes"] for entry in calls_of(sweep, 1)] == [False, True]
    assert len(calls_of(sweep, 0)) == 1
