"""Where the time of a training goes: laps, how busy the device was, lines of users that wait."""

import dataclasses
import inspect
import json
import os
import threading
import time
from types import SimpleNamespace

import psutil
import pytest
import torch
from cli_runner import said_by
from small_sets import QUIET, killed_at
from torch import nn

import posemill
from posemill.errors import RunError
from posemill.machine.gpus import Gpu
from posemill.training.loop import timing
from posemill.training.loop.timing import (
    PARTS,
    BusyMeter,
    Clock,
    Evidence,
    Wait,
    read_evidence,
    write_evidence,
)
from posemill.training.record.live import write_object
from posemill.training.record.run_folder import RunFolder


@pytest.fixture
def at(monkeypatch):
    """Return a function that sets the time."""
    now = [100.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def set_time(seconds):
        now[0] = seconds

    return set_time


def test_a_lap_gives_the_time_since_the_last_to_its_part(at):
    clock = Clock(torch.device("cpu"))
    at(101.0)
    clock.lap("data")
    at(103.0)
    clock.lap("forward")
    at(110.0)
    clock.restart()  # seven seconds of nobody
    at(110.5)
    clock.lap("data")
    assert clock.read() == dict.fromkeys(PARTS, 0.0) | {"data": 1.5, "forward": 2.0}


class Event:
    """An event on a GPU's stream: knows its time only after someone has waited for it."""

    def __init__(self, *, enable_timing):
        assert enable_timing
        self.seconds = None
        self.is_done = False

    def record(self):
        self.seconds = timing.time.perf_counter()

    def synchronize(self):
        self.is_done = True

    def elapsed_time(self, end):
        return (end.seconds - self.seconds) * 1000


def test_on_a_gpu_laps_are_events_that_are_read_once(at, monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", Event)
    clock = Clock(torch.device("cuda"))
    at(101.0)
    clock.lap("data")
    at(103.0)
    clock.lap("forward")
    last = clock._events[-1][1]
    assert not last.is_done
    expected = dict.fromkeys(PARTS, 0.0) | {"data": 1.0, "forward": 2.0}
    assert clock.read() == pytest.approx(expected)
    assert last.is_done, "the last event is waited for, the others came before it"
    assert clock.read() == pytest.approx(expected)
    at(110.0)
    clock.lap("data")
    at(115.0)
    clock.restart()
    at(115.5)
    clock.lap("data")
    assert clock.read() == pytest.approx(expected | {"data": 8.5})
    assert len(clock._events) == 1


class CoreTimes(tuple[float, ...]):
    """User, nice, system, idle, iowait, irq, softirq, steal, guest."""

    idle, iowait = property(lambda self: self[3]), property(lambda self: self[4])


BEFORE = [CoreTimes((10, 0, 0, 90, 0, 0, 0, 0, 5)), CoreTimes((99, 0, 0, 0, 0, 0, 0, 0, 0)),
          CoreTimes((10, 0, 0, 90, 0, 0, 0, 0, 0))]  # fmt: skip
AFTER = [CoreTimes((60, 0, 10, 120, 10, 0, 0, 0, 55)), CoreTimes((199, 0, 0, 0, 0, 0, 0, 0, 0)),
         CoreTimes((10, 0, 0, 190, 0, 0, 0, 0, 0))]  # fmt: skip


def test_of_a_cpu_it_is_the_share_of_the_cores_that_may_be_used(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2}, raising=False)
    monkeypatch.setattr(timing, "count_cores", lambda: 2)
    looks = iter([BEFORE, AFTER])
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: next(looks))
    meter = BusyMeter(torch.device("cpu"))
    meter.start()
    assert meter.stop() == pytest.approx(60 / 200)


def test_under_a_quota_it_is_what_this_process_had_of_it(monkeypatch):
    monkeypatch.setattr(timing, "count_cores", lambda: 1_000)
    meter = BusyMeter(torch.device("cpu"))
    meter.start()
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    assert 0 < meter.stop() < 0.01


def test_a_gpu_is_sampled_where_its_library_answers(monkeypatch):
    monkeypatch.setattr(timing, "_SAMPLE_SECONDS", 0.01)
    properties = SimpleNamespace(uuid="11-22")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    enough = threading.Event()
    shares = iter([0.5, None, 0.7])

    def read_gpus():
        share = next(shares, -1.0)
        if share == -1.0:
            enough.set()
            return []
        return [Gpu(0, "x", "GPU-other", 1.0, 0, 1), Gpu(1, "x", "GPU-11-22", share, 0, 1)]

    monkeypatch.setattr(timing, "read_gpus", read_gpus)
    meter = BusyMeter(torch.device("cuda"))
    meter.start()
    assert enough.wait(20)
    assert meter.stop() == pytest.approx(0.6)
    silent = BusyMeter(torch.device("cuda"))
    silent.start()
    assert silent.stop() is None


# As of a GPU that has not caught up, in a file of a library.
LIBRARY = {}
SOURCE = """
import time
class SlowScalar:
    def item(self):
        time.sleep(0.01)
    __str__ = lambda self: self.item() or ""
"""
exec(compile(SOURCE, "/venv/site-packages/gpu.py", "exec"), LIBRARY)
SLOW = LIBRARY["SlowScalar"]()


def line_of(function, text):
    """Return where a text stands in a function of this file."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


class Pairs:
    """Numbers; what is read back while loading makes no device wait."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        SLOW.item()
        x = torch.tensor([float(index)])
        return x, 3 * x


def read_back(moment):
    SLOW.item()


def talk(moment):
    print(SLOW)  # noqa: T201


def compute(moment):
    time.sleep(0.01)


@pytest.mark.parametrize(
    ("on_step", "expected"), [(read_back, ".item()"), (talk, "print()"), (compute, "")]
)
def test_a_line_that_takes_long_is_found_with_file_and_call(
    on_step, expected, tmp_path, monkeypatch
):
    monkeypatch.setattr(timing, "_WATCH_SECONDS", 0.002)
    loss = nn.MSELoss()
    posemill.fit(nn.Linear(1, 1), Pairs(), loss=loss, on_step=on_step, out=tmp_path / "a",
                 epochs=2, batch_size=2, **QUIET)  # fmt: skip
    waits = read_evidence(tmp_path / "a").waits
    if not expected:
        assert waits == ()
        return
    (wait,) = waits
    assert (wait.file, wait.call) == (__file__, expected)
    assert wait.line == line_of(on_step, "SLOW")
    (advice,) = [each for each in posemill.advise(tmp_path / "a") if not each.setting]
    assert advice.gain > 1.05


WELL = dict.fromkeys(PARTS, 0.0) | {"forward": 60.0, "backward": 60.0, "optimizer": 5.0}


def test_what_a_training_measured_is_read_back_and_a_fault_in_it_named(run, monkeypatch):
    found = read_evidence(run)
    assert dict(found.timing_seconds) == RunFolder(run).read_summary()["timing_seconds"]
    assert (found.ranks, found.num_evals, found.is_gpu) == (1, 1, False)
    assert 0 < found.padding_share < 0.3  # clips of 5 to 12 frames, sorted
    evidence = Evidence(
        WELL, cores=4, ranks=2, num_evals=3, busy_share=0.9, is_gpu=True, padding_share=0.1,
        bf16_gain=1.2, waits=(Wait("a.py", 3, ".item()", 0.25),), num_videos=3, decoded_bytes=4,
        frame_side=112, free_bytes=5,
    )  # fmt: skip
    write_evidence(run, evidence)
    assert read_evidence(run) == evidence
    write_evidence(run, Evidence({**WELL, "checkpoint": 125.0}, cores=4))
    assert "50% goes into checkpoints: try --save-every 2 (up to 1.33x)" in said_by("advise", run)
    (only,) = json.loads(said_by("advise", run, "--json"))["advice"]
    assert (only["setting"], only["change"]) == ("save_every", "save_every=2")
    monkeypatch.setenv("POSEMILL_LANG", "zh_CN")
    assert "50% 的时间" in said_by("advise", run)


def test_a_training_that_was_killed_has_advice(settings, tmp_path):
    with killed_at(1):
        posemill.train(settings())
    assert not (tmp_path / "run" / "summary.json").exists()
    assert read_evidence(tmp_path / "run").seconds > 0
    posemill.advise(tmp_path / "run")


def test_what_cannot_be_advised_on_is_said(run, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=r"empty is not the folder of a training \(no run.json\)"):
        posemill.advise(tmp_path / "empty")
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "sweep.json").write_text('{"kind": "posemill-sweep"}')
    with pytest.raises(RunError, match="is a sweep: ask for advice on one of the trainings in it"):
        posemill.advise(tmp_path / "sweep")
    write_object(
        run / "timing.json",
        dataclasses.asdict(Evidence(WELL, cores=2)) | {"waits": [{"file": "a.py"}]},
    )
    with pytest.raises(RunError, match=r"timing.json is not what posemill wrote: KeyError\('line"):
        posemill.advise(run)
    write_object(run / "timing.json", {})
    with pytest.raises(RunError, match="has measured nothing yet: wait until it has taken some"):
        posemill.advise(run)
