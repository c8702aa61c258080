"""How busy the device was."""

from __future__ import annotations

import os
import threading
import time
from types import SimpleNamespace

import psutil
import pytest
import torch

from posemill.machine.gpus import Gpu
from posemill.training.loop import timing
from posemill.training.loop.timing import BusyMeter


class Times(tuple[float, ...]):
    """User, nice, system, idle, iowait, irq, softirq, steal, guest."""

    idle, iowait = property(lambda self: self[3]), property(lambda self: self[4])


BEFORE = [Times((10, 0, 0, 90, 0, 0, 0, 0, 5)), Times((99, 0, 0, 0, 0, 0, 0, 0, 0)),
          Times((10, 0, 0, 90, 0, 0, 0, 0, 0))]  # fmt: skip
AFTER = [Times((60, 0, 10, 120, 10, 0, 0, 0, 55)), Times((199, 0, 0, 0, 0, 0, 0, 0, 0)),
         Times((10, 0, 0, 190, 0, 0, 0, 0, 0))]  # fmt: skip


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
    share = meter.stop()
    assert 0 < share < 0.01


def test_a_gpu_is_sampled_where_its_library_answers(monkeypatch):
    monkeypatch.setattr(timing, "_SAMPLE_SECONDS", 0.01)
    properties = SimpleNamespace(uuid="11-22")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    enough = threading.Event()
    shares = iter([0.5, None, 0.7])

    def read_gpus() -> list[Gpu]:
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
