from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch
from small_sets import BareClips
from torch import nn

from posemill.errors import TrainingError
from posemill.training.config.train_config import TrainConfig
from posemill.training.tuning import tune
from posemill.training.tuning.arms import in_one_process
from posemill.training.tuning.tune import Row, Search

Speed = Callable[[TrainConfig], float]
BASE = TrainConfig(
    parallel="single", processes=1, threads=1, workers=0, precision="fp32", batch_size=64,
    micro_batch=32, cache="mmap",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch):
    monkeypatch.setattr(tune, "count_cores", lambda: 4)
    monkeypatch.setattr(tune, "run_processes", lambda _, config, **__: 1.0)
    monkeypatch.setattr(Search, "_fits", lambda *_: True)
    monkeypatch.setattr(Search, "_share_waited", lambda _: 0.5)


def make(num_clips=10_000, model=None):
    workload = SimpleNamespace(model=model or nn.Linear(1, 1), train=BareClips(num_clips))
    return lambda _: workload


def run(speed, monkeypatch, **more):
    monkeypatch.setattr(Search, "take_turns", lambda _, configs, rounds=3: [*map(speed, configs)])
    options = {"make": make(), "base": BASE, "seconds": 1000.0, **more}
    found = Search(**options)
    found.run()
    return found


def changed(found):
    before, after = BASE.to_dict(), found.best.to_dict()
    return {name: value for name, value in after.items() if value != before[name]}


def test_what_is_clearly_faster_is_kept_with_the_reason(monkeypatch):
    speeds = {0: 100.0, 1: 150.0, 2: 151.0, 3: 120.0, 4: 90.0}
    found = run(lambda config: speeds[config.workers], monkeypatch)
    assert changed(found) == {"workers": 2}
    assert found.reasons == {"workers": "measured 151 samples/s, 100 with workers 0"}
    assert Row("workers 1", 150.0, 1.5, "") in found.rows
    assert Row("workers 2", 151.0, 1.51, "taken") in found.rows
    found = run(lambda config: 102.0 if config.workers else 100.0, monkeypatch)
    assert changed(found) == {}, "which is less than the noise"
    assert {row.note for row in found.rows} == {""}


def faster_by_all(config):
    is_fast = [config.precision == "bf16", config.cache == "ram", config.compile == "on"]
    return 100.0 * (1 + sum(is_fast)) * config.batch_size


def test_batch_and_precision_stay_where_the_maths_is_to_stay(monkeypatch):
    monkeypatch.setattr(tune, "choose_precision", lambda *_: SimpleNamespace(name="bf16"))
    found = run(faster_by_all, monkeypatch, keeps_maths=True)
    assert changed(found) == {"cache": "ram", "compile": "on"}
    found = run(faster_by_all, monkeypatch)
    # Twenty steps an epoch are left: 10,000 clips in batches of 256.
    assert changed(found) == {
        "cache": "ram", "compile": "on", "precision": "bf16", "batch_size": 256, "micro_batch": 128,
    }  # fmt: skip


def test_what_the_user_gave_stays(monkeypatch):
    fixed = frozenset({"cache", "micro_batch", "threads", "precision"})
    found = run(faster_by_all, monkeypatch, fixed=fixed)
    assert changed(found) == {"compile": "on"}
    tried = " ".join(row.setting for row in found.rows)
    assert not any(name in tried for name in fixed)


def test_pictures_are_tried_with_channels_last(monkeypatch):
    pictures = make(model=nn.Conv2d(3, 3, 3))
    found = run(lambda config: 1.0 + config.channels_last, monkeypatch, make=pictures)
    assert changed(found) == {"channels_last": True}


def test_a_gpu_is_tried_compiled_and_never_by_several_processes(monkeypatch):
    monkeypatch.setattr(tune, "choose_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(tune, "choose_precision", lambda *_: SimpleNamespace(name="fp32"))
    found = run(lambda config: 1.0 + (config.compile == "on"), monkeypatch)
    assert changed(found) == {"compile": "on"}
    assert not [row for row in found.rows if "processes" in row.setting]


def test_several_processes_have_to_be_clearly_faster(monkeypatch):
    for speed, is_taken in ((102.0, False), (200.0, True)):
        monkeypatch.setattr(tune, "run_processes", lambda *_, speed=speed, **__: speed)
        found = run(lambda _: 100.0, monkeypatch)
        assert (found.best.parallel == "multi_process") == is_taken
        assert found.rows[-1].setting.startswith("parallel multi_process, processes 4, threads 1")


def test_several_processes_stay_and_are_measured_by_one_of_them(monkeypatch):
    many = BASE.replace(parallel="multi_process", processes=4)
    pictures = make(model=nn.Conv2d(3, 3, 3))
    found = run(lambda config: 1.0 + config.channels_last, monkeypatch, make=pictures, base=many)
    assert (found.best.parallel, found.best.processes) == ("multi_process", 4)
    assert found.best.channels_last
    tried = " ".join(row.setting for row in found.rows)
    assert not any(name in tried for name in ("threads", "workers", "processes")), "all cores work"
    one = in_one_process(many)
    assert (one.parallel, one.processes, one.batch_size) == ("single", 1, 16), "its share"
    assert in_one_process(BASE) == BASE


def test_more_loaders_are_not_tried_where_next_to_nothing_waits(monkeypatch):
    monkeypatch.setattr(Search, "_share_waited", lambda _: 0.01)
    found = run(lambda config: 1.0 + config.workers, monkeypatch)
    assert changed(found) == {}
    assert Row("workers", note="not measured: 1% of the time waits for data") in found.rows


def test_several_processes_are_compared_as_they_would_run(monkeypatch):
    many = BASE.replace(parallel="multi_process", processes=4)
    speeds = iter([100.0, 97.0])
    monkeypatch.setattr(tune, "run_processes", lambda *_, **__: next(speeds))
    assert Search(make(), many.replace(cache="ram"), 1000.0).compare(many) == (100.0, 97.0)


def test_passes_larger_than_the_share_of_a_process_are_not_tried(monkeypatch):
    many = BASE.replace(parallel="multi_process", processes=4, micro_batch=16)
    found = run(lambda _: 1.0, monkeypatch, base=many, keeps_maths=True)
    tried = [row.setting for row in found.rows if row.setting.startswith("micro_batch")]
    assert tried == ["micro_batch 8"], "a process has 16 clips of the 64"


def test_what_there_is_no_time_for_is_said(monkeypatch):
    found = run(lambda _: 1.0, monkeypatch, seconds=0.0)
    assert {row.note for row in found.rows} == {"not measured: no time left"}
    assert found.best == BASE


def test_a_setting_that_fails_is_left_out_with_the_reason(monkeypatch):
    def speed(config):
        if config.compile == "on":
            raise RuntimeError("no C++ compiler\nand more")
        return 1.0

    found = run(speed, monkeypatch)
    assert Row("compile on", note="cannot be used: no C++ compiler") in found.rows

    def fail(*_, **__):
        raise TrainingError("a process died")

    monkeypatch.setattr(tune, "run_processes", fail)
    assert run(lambda _: 1.0, monkeypatch).rows[-1].note == "cannot be used: a process died"


def test_what_does_not_fit_into_memory_is_not_tried(monkeypatch):
    monkeypatch.undo()  # measure what a pass takes
    monkeypatch.setattr(tune, "count_cores", lambda: 1)
    monkeypatch.setattr(tune, "free_memory", lambda: 100_000_000)
    monkeypatch.setattr(Search, "_share_waited", lambda _: 0.5)
    monkeypatch.setattr(tune, "grown_memory", lambda *_: 64_000_000)  # of a pass of 32 clips
    arm = SimpleNamespace(run_steps=lambda _: 1.0)
    monkeypatch.setattr(tune, "opened", lambda *_: nullcontext([arm]))
    found = run(lambda config: float(config.micro_batch), monkeypatch, keeps_maths=True)
    assert found.best.micro_batch == 32
    said = "not tried: about 128 MB, and 100 MB are free"
    assert Row("micro_batch 64", note=said) in found.rows


def test_slow_settings_have_one_turn_and_all_when_the_time_is_up(monkeypatch):
    turns = []

    def arm(name, speed):
        return SimpleNamespace(run=lambda _: (turns.append(name), speed)[1])

    @contextmanager
    def opened(*_):
        yield [arm("base", 100.0), arm("slow", 50.0), arm("quick", 120.0)]

    monkeypatch.setattr(tune, "opened", opened)
    found = Search(make(), BASE, 100.0)
    assert found.take_turns([BASE] * 3) == [100.0, 50.0, 120.0]
    assert turns == ["base", "slow", "quick", "base", "quick", "base", "quick"]
    turns.clear()
    found._end -= 130.0  # 30 s late
    assert found.take_turns([BASE] * 3) == [100.0, 50.0, 120.0]
    assert turns == ["base", "slow", "quick"]
