"""Killed at any moment, a run ends equal to an unbroken one."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from posemill.config import ExtractConfig
from posemill.jobs.extract.run import extract
from posemill.jobs.extract.status import read_status

SIZES = {"train/a": 30, "train/b": 5, "train/c": 9, "dev/d": 20, "dev/e": 1, "test/f": 13}

SCRIPT = """
from pathlib import Path
from posemill.config import ExtractConfig
from posemill.jobs.extract.run import extract
config = ExtractConfig(Path(sys.argv[1]), Path(sys.argv[2]), engine="fake", executor="serial",
                       task_frames=8, engine_options={"seconds_per_frame": 0.001})
def run():
    return extract(config)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory, write_tree):
    root = write_tree(tmp_path_factory.mktemp("tree"), SIZES)
    (root / "train" / "c" / "0004.png").write_bytes(b"not a picture")
    return root


@pytest.fixture(scope="module")
def whole(tree, tmp_path_factory):
    """The folder of an unbroken run."""
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    extract(ExtractConfig(tree, folder, engine="fake", executor="serial", task_frames=16))
    return folder


def test_a_coordinator_killed_at_many_moments_ends_as_an_unbroken_run(
    tree, whole, tmp_path, config_for, same_runs, kill_until_done
):
    kills, code = kill_until_done(SCRIPT, tree, tmp_path / "cut", seconds=0.12, quick=10)
    assert code == 1  # one frame is no picture
    assert kills > 5
    same_runs(tmp_path / "cut", whole)


@pytest.mark.parametrize(
    "step",
    [
        "runs.manifest.Manifest.write",
        "jobs.extract.opening.compare",
        "jobs.extract.opening.EventLog",
        "runs.ledger.Ledger._add_planned",
        "jobs.extract.run.remove_uncommitted",
        "runs.ledger.Ledger._add_started",
        "runs.ledger.Ledger._add_committed",
        "runs.ledger.Ledger._add_finished",
        "runs.ledger.Ledger.check_totals",
    ],
)  # fmt: skip
def test_a_start_that_dies_at_any_step_can_be_repeated(
    step, tree, whole, tmp_path, config_for, same_runs, monkeypatch
):

    def die(*_, **__):
        raise KeyboardInterrupt(step)

    with monkeypatch.context() as patch:
        patch.setattr(f"posemill.{step}", die)
        with suppress(KeyboardInterrupt):
            extract(config_for(tree, "cut"))
    extract(config_for(tree, "cut"))
    same_runs(tmp_path / "cut", whole)


def test_workers_killed_at_random_moments_are_replaced(
    tree, whole, tmp_path, config_for, same_runs, killing_workers
):
    with killing_workers(least=0.1, most=2.0, count=2) as kills:
        options = {"seconds_per_frame": 0.03}
        extract(config_for(tree, "cut", executor="processes", engine_options=options))
    assert kills
    same_runs(tmp_path / "cut", whole)


def test_chance_kills_at_one_frame_give_up_nothing(
    make_tree, tmp_path, config_for, same_runs, killing_workers
):
    tree = make_tree({"a": 12})
    extract(config_for(tree, "whole"))
    # Nothing is committed before the end: every worker begins at the same frame.
    config = config_for(
        tree, "cut", executor="processes", workers=1, task_frames=512, max_tries=2,
        engine_options={"seconds_per_frame": 0.3},
    )  # fmt: skip
    with killing_workers(least=0.02, most=0.02, count=2, age=1.2) as kills:
        summary = extract(config)
    assert len(kills) == 2
    assert summary.exit_code == 0
    same_runs(tmp_path / "cut", tmp_path / "whole")


def command(tree, out, *more):
    return [
        sys.executable, "-m", "posemill", "extract", str(tree), "--out", str(out),
        "--engine", "fake", "--workers", "2", "--task-frames", "16", *more,
    ]  # fmt: skip


def wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_a_coordinator_killed_with_its_workers_at_work_takes_them_along_and_continues(
    tree, whole, tmp_path, config_for, same_runs, start_process
):
    out = tmp_path / "cut"
    slow = ("--engine-option", "seconds_per_frame=0.1")
    process = start_process(command(tree, out, *slow), stderr=subprocess.DEVNULL)
    wait_until(lambda: _frames_done(out) > 2)
    workers = psutil.Process(process.pid).children()
    process.kill()
    process.wait()
    assert len(workers) >= 2
    wait_until(lambda: not any(each.is_running() for each in workers), 30)
    assert read_status(out).state == "stopped"
    assert extract(config_for(tree, "cut")).exit_code == 1
    same_runs(out, whole)


def test_a_signal_stops_within_seconds_and_loses_nothing(
    tree, whole, tmp_path, config_for, same_runs, start_process
):
    out = tmp_path / "cut"
    slow = ("--engine-option", "seconds_per_frame=0.05")
    process = start_process(
        command(tree, out, *slow), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_until(lambda: _frames_done(out) > 4)
    asked_at = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers as well
    _, said = process.communicate()
    assert time.monotonic() - asked_at < 20
    assert process.returncode == 130
    assert "the same command continues" in said
    assert read_status(out).frames_done > 0
    assert extract(config_for(tree, "cut")).exit_code == 1
    same_runs(out, whole)


def _frames_done(out):
    if not (out / "manifest.json").exists():
        return 0
    return read_status(out).frames_done
