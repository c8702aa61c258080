"""Trainings of a sweep side by side, and how it stands, from outside."""

import json
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest
from cli_runner import said_by

import posemill
from posemill.commands.printing import without_constants
from posemill.errors import RunError
from posemill.machine.limits import count_cores
from posemill.machine.live_files import write_live
from posemill.training.launch.sweep import read_sweep
from posemill.training.launch.sweep_runner import run_sweep, write_record
from posemill.training.record.live import hold
from posemill.training.runs.status import read_sweep_status

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
if "lr = 2.0" in config and not os.environ.get("REPAIRED"):
    print("posemill: the disk is full", file=sys.stderr)
    sys.exit(2)
(folder / "run").mkdir(exist_ok=True)
if "lr = 3.0" in config and not os.environ.get("REPAIRED"):
    (folder / "run" / "run.json").write_text("{}")
    print("ready", flush=True)
    time.sleep(600)
files = {
    "run.json": {"kind": "posemill-training"},
    "live.json": {"step": 8, "total_steps": 8, "epoch": 2, "epochs": 2, "best": 0.75,
                  "best_step": 4, "chosen_by": "accuracy"},
    "summary.json": {"steps": 8, "scores": {"dev": {"accuracy": 0.75}}, "seconds": 1.0},
}
for name, content in files.items():
    (folder / "run" / name).write_text(json.dumps(content))
"""


@pytest.fixture
def command(tmp_path):
    script = tmp_path / "fake_train.py"
    script.write_text(FAKE_TRAIN)
    return (sys.executable, str(script))


def make_sweep(tmp_path, rates):
    path = tmp_path / "sweep.toml"
    path.write_text(f'out = "{tmp_path}/out"\n[grid]\nlr = {rates}\n')
    return read_sweep(path)


def calls_of(sweep, index):
    lines = (sweep.jobs[index].folder / "calls.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def wait_until(is_true, process):
    """Wait for something a process does, not longer than two minutes or than it lives."""
    deadline = time.monotonic() + 120
    while not is_true():
        assert process.poll() is None, "the sweep ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_every_job_runs_once_with_its_share(tmp_path, command):
    sweep = make_sweep(tmp_path, "[0.1, 0.2, 0.3]")
    events = []
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


def test_a_sweep_shows_its_trainings_and_why_one_failed(tmp_path, command):
    found = make_sweep(tmp_path, "[0.1, 2.0]")
    run_sweep(found, command=command)
    status = posemill.status(tmp_path / "out")
    assert status.state == "stopped"
    first, second = status.trainings
    assert first == {
        "job": found.jobs[0].name, "lr": 0.1, "state": "done", "epoch": "2/2", "step": "8/8",
        "best_accuracy": 0.75, "dev_accuracy": 0.75,
    }  # fmt: skip
    assert second == {
        "job": found.jobs[1].name, "lr": 2.0, "state": "failed",
        "reason": "exit code 2: posemill: the disk is full",
    }  # fmt: skip
    said = said_by("status", tmp_path / "out")
    assert "has ended\n1/2 trainings done, 1 failed\n" in said
    assert "exit code 2: posemill: the disk is full" in said
    assert f"next: posemill sweep {found.path} --out {tmp_path}/out" in said
    as_json = json.loads(said_by("status", tmp_path / "out", "--json"))
    assert as_json["trainings"][1]["state"] == "failed"
    lines = said_by("logs", tmp_path / "out").splitlines()
    assert f"{first['job']} done" in lines[2]
    assert "failed: exit code 2: posemill: the disk is full" in lines[-1]
    # The folder of one of its trainings stands for the training.
    assert posemill.status(tmp_path / "out" / first["job"]).state == "finished"


def test_a_sweep_at_work_is_seen_and_a_second_one_kept_out(tmp_path):
    found = make_sweep(tmp_path, "[0.1, 0.2]")
    found.out.mkdir()
    with hold(found.out, what="sweep"):
        write_record(found, 2)
        status = read_sweep_status(found.out)
        assert (status.state, status.describe()) == ("running", "0/2 trainings done, 2 waiting")
        assert status.next_command() == f"posemill status {found.out} --watch"
        with pytest.raises(RunError, match=r"is being trained by another process"):
            run_sweep(found)
    assert read_sweep_status(found.out).next_command().endswith("--workers 2")


@pytest.mark.parametrize(
    "trainings",
    ["null", "[3]", '[{"name": "../../secret", "changes": {}}]', '[{"name": "0-00000000"}]',
     '[{"name": "0-00000000", "changes": {"model_options": [1]}}]'],
)  # fmt: skip
def test_a_strangers_record_is_refused(tmp_path, trainings):
    (tmp_path / "sweep.json").write_text(f'{{"kind": "posemill-sweep", "trainings": {trainings}}}')
    with pytest.raises(RunError, match=r"sweep.json is not what posemill wrote"):
        posemill.status(tmp_path)


def test_the_folder_of_a_training_that_is_a_link_is_refused(tmp_path):
    found = make_sweep(tmp_path, "[0.1, 0.2]")
    found.out.mkdir()
    write_record(found, 1)
    write_live(found.out, {"pid": "x"})
    (tmp_path / "elsewhere" / "run").mkdir(parents=True)
    found.jobs[0].folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"is a link, expected a folder"):
        read_sweep_status(found.out)


def test_what_all_trainings_have_alike_is_said_once(tmp_path):
    found = make_sweep(tmp_path, "[0.1, 0.2]\nepochs = [2]")
    found.out.mkdir()
    write_record(found, 1)
    said = said_by("status", tmp_path / "out")
    assert "the same in all: epochs 2\n" in said
    heading = next(line for line in said.splitlines() if line.startswith("job"))
    assert heading.split() == ["job", "lr", "state"]
    only = {"job": "a", "lr": 1.0}
    assert without_constants([only], keep=("job",)) == ({}, [only])
