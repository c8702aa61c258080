"""Workers: which device each one has, and what it says when it cannot have it."""

from __future__ import annotations

import dataclasses

import pytest

from posemill.executors import NUM_SLOTS, Progress
from posemill.jobs.extract.messages import Fatal, Task, WorkerSettings
from posemill.jobs.extract.worker import MakeWorker, disk_message

SETTINGS = WorkerSettings(
    folder="run",
    engine="fake",
    engine_options={},
    devices=("cuda:0", "cuda:1"),
    skeleton_name="holistic-543",
    decoder="pyav",
    batch_size=1,
    memory_bytes=0,
)


@pytest.fixture
def opened(monkeypatch):
    """The options every engine was opened with; none is."""
    seen = []

    def refuse(name, **options):
        seen.append((name, options))
        from posemill.errors import DeviceError

        raise DeviceError(f"{options['device']} is not there")

    monkeypatch.setattr("posemill.jobs.extract.worker.open_estimator", refuse)
    return seen


def test_workers_take_the_devices_in_turn_with_one_thread_each(opened):
    settings = dataclasses.replace(SETTINGS, engine_options={"x": 1})
    said = [
        next(iter(MakeWorker(settings)(index)(Task("t", (), 8), Progress([0] * NUM_SLOTS))))
        for index in range(4)
    ]
    assert [options["device"] for _, options in opened] == ["cuda:0", "cuda:1"] * 2
    assert all(options["threads"] == 1 and options["x"] == 1 for _, options in opened)
    assert said[1] == Fatal("DeviceError", "cuda:1 is not there")


def test_a_disk_that_refuses_is_told_from_one_that_is_full():
    full = disk_message(OSError(28, "No space left on device"), "run/shards")
    assert full.startswith("no room left to write to run/shards (No space left on device)")
    broken = disk_message(OSError(5, "Input/output error"), "run/shards")
    assert broken.startswith("cannot write to run/shards: [Errno 5] Input/output error")
    assert "run the same command again" in full
    assert "run the same command again" in broken
