from __future__ import annotations

from pathlib import Path

import pytest
import torch

from posemill.errors import ConfigError, DeviceError
from posemill.training import precision
from posemill.training.config.resolve import resolve_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.front import train
from posemill.training.tuning import modes
from posemill.training.tuning.modes import ModePlan, plan_mode


@pytest.fixture
def _two_cores(monkeypatch):
    monkeypatch.setattr(modes, "count_cores", lambda: 2)


def test_torchrun_and_another_number_of_processes_is_refused(monkeypatch):
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "a"),
                        ("MASTER_PORT", "1")):  # fmt: skip
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="processes=2, but torchrun started 4; leave it out"):
        plan_mode(TrainConfig(processes=2, device="cpu", mode="multi_process"))
    reason = "torchrun started 4 processes"
    for cores, local, threads in ((8, None, 2), (8, "2", 4), (2, None, 1)):
        monkeypatch.setattr(modes, "count_cores", lambda found=cores: found)
        if local:
            monkeypatch.setenv("LOCAL_WORLD_SIZE", local)
        else:
            monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
        plan = plan_mode(TrainConfig(device="cpu"))
        assert plan == ModePlan("multi_process", 4, threads, reason)
    assert plan_mode(TrainConfig(device="cpu", threads=2)) == ModePlan(
        "multi_process", 4, 2, reason
    )
    assert plan_mode(TrainConfig(device="cpu", processes=4)) == plan


@pytest.mark.usefixtures("_two_cores")
def test_a_format_that_the_device_lacks_is_refused_before_work_starts():
    with pytest.raises(ConfigError, match='precision="fp16" needs a GPU'):
        plan_mode(TrainConfig(device="cpu", precision="fp16"))


def test_one_core_has_one_process_and_one_thread(monkeypatch):
    monkeypatch.setattr(modes, "count_cores", lambda: 1)
    assert plan_mode(TrainConfig(device="cpu")) == ModePlan("single", 1, 1, "one core")


@pytest.mark.usefixtures("_two_cores")
def test_more_processes_or_threads_than_cores_is_refused(settings):
    with pytest.raises(ConfigError, match="processes=3, but this process may use 2 cores"):
        train(settings(mode="multi_process", processes=3, device="cpu"))
    with pytest.raises(ConfigError, match="threads=5, but this process may use 2 cores"):
        train(settings(threads=5))


def test_a_gpu_asked_for_and_absent_is_an_error_before_work_starts(settings, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    fields = settings(device="cuda")
    with pytest.raises(DeviceError, match="torch sees no GPU"):
        train(fields)
    assert not Path(fields["out"]).exists()


@pytest.mark.usefixtures("_two_cores")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"mode": "single"}, ("single", 1, 1)),
        ({"mode": "single", "threads": 2}, ("single", 1, 2)),
        ({"mode": "multi_thread"}, ("multi_thread", 1, 2)),
        ({"mode": "multi_process"}, ("multi_process", 2, 1)),
        ({"mode": "multi_process", "processes": 2}, ("multi_process", 2, 1)),
        ({"mode": "multi_process", "processes": 1}, ("multi_process", 1, 2)),
        ({"mode": "auto", "deterministic": True}, ("single", 1, 1)),
    ],
)
def test_threads_are_the_cores_divided_by_the_ranks(fields, expected):
    plan = plan_mode(TrainConfig(device="cpu", **fields))
    assert (plan.mode, plan.processes, plan.threads) == expected


@pytest.mark.usefixtures("_two_cores")
def test_what_the_machine_decides_is_marked(monkeypatch):
    monkeypatch.setattr(precision, "cpu_has_fast_bf16", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = modes.resolve_hardware(resolve_config(None, {"mode": "multi_thread"}))
    decided = {name: getattr(found.config, name) for name in ("device", "precision", "threads")}
    assert decided == {"device": "cpu", "precision": "fp32", "threads": 2}
    assert {found.sources[name] for name in ("device", "threads")} == {
        "machine: no GPU here",
        "machine: asked for",
    }
    assert found.sources["precision"].startswith("machine: ")
    assert found.sources["parallel"] == "flag"


@pytest.mark.usefixtures("_two_cores")
def test_gpus_take_a_process_each(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    assert plan_mode(TrainConfig()) == ModePlan("multi_process", 2, 1, "2 GPUs")
    assert plan_mode(TrainConfig(device="cuda:1")) == ModePlan(
        "single", 1, 2, "cuda:1 was asked for"
    )
    two = plan_mode(TrainConfig(mode="multi_process", processes=2))
    assert two == plan_mode(TrainConfig(mode="multi_process"))
    found = modes.resolve_hardware(resolve_config(None, {}))
    assert (found.config.device, found.sources["device"]) == ("cuda", "machine: a GPU is here")
    with pytest.raises(DeviceError, match="processes=3, but there are 2 GPUs"):
        plan_mode(TrainConfig(mode="multi_process", processes=3))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert plan_mode(TrainConfig()) == ModePlan("single", 1, 2, "1 GPUs")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert plan_mode(TrainConfig(mode="multi_process")) == ModePlan(
        "multi_process", 4, 1, "asked for"
    )


@pytest.mark.usefixtures("_two_cores")
def test_loader_processes_follow_the_mode():
    config = TrainConfig(preset="high-performance")
    workers = [
        ModePlan(mode, ranks, 1, "").apply(config).num_workers
        for mode, ranks in (("single", 1), ("multi_thread", 1), ("multi_process", 2))
    ]
    assert workers == [1, 0, 0]
    assert ModePlan("multi_thread", 1, 2, "").apply(config.replace(num_workers=3)).num_workers == 3
    assert ModePlan("single", 1, 1, "").apply(config.replace(num_workers=0)).num_workers == 0


def test_the_precision_before_anything_is_measured_is_that_of_the_hardware(monkeypatch):
    config = TrainConfig(device="cpu")
    for has_bf16, expected in ((True, "bf16"), (False, "fp32")):
        monkeypatch.setattr(precision, "cpu_has_fast_bf16", lambda found=has_bf16: found)
        assert {modes.plan_precision(config).name for _ in range(3)} == {expected}
        assert modes.plan_precision(config.replace(precision="fp32")).name == "fp32"
        same = modes.plan_precision(config.replace(deterministic=True))
        assert (same.name, same.reason) == ("fp32", "deterministic: the same on every CPU")
