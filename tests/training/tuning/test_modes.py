from pathlib import Path

import pytest
import torch

from posemill.errors import ConfigError, DeviceError
from posemill.training import precision
from posemill.training.config.resolve import resolve_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.keypoint_clips import KeypointClips
from posemill.training.front import train
from posemill.training.precision import Precision
from posemill.training.tasks.workload import build_workload
from posemill.training.tuning import modes
from posemill.training.tuning.modes import (
    ModePlan,
    bf16_gain,
    plan_mode,
    probe_mode,
    probe_precision,
)


@pytest.fixture(autouse=True)
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision": "fp16"}, 'precision="fp16" needs a GPU'),
        ({"device": "cuda"}, "torch sees no GPU"),
        ({"threads": 5}, "threads=5, but this process may use 2 cores"),
        (
            {"parallel": "multi_process", "processes": 3},
            "processes=3, but this process may use 2 cores",
        ),
    ],
)
def test_what_the_machine_lacks_is_refused_before_work_starts(
    settings, changes, message, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    fields = settings(**{"device": "cpu", **changes})
    with pytest.raises((ConfigError, DeviceError), match=message):
        train(fields)
    assert not Path(fields["out"]).exists()


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
def test_threads_are_the_cores_divided_by_the_ranks(fields, expected, monkeypatch):
    plan = plan_mode(TrainConfig(device="cpu", **fields))
    assert (plan.mode, plan.processes, plan.threads) == expected
    monkeypatch.setattr(modes, "count_cores", lambda: 1)
    assert plan_mode(TrainConfig(device="cpu")) == ModePlan("single", 1, 1, "one core")


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


CPU = torch.device("cpu")


def test_auto_measures_and_leaves_the_model_and_the_random_state_as_they_were(settings):
    config = TrainConfig(**settings(parallel="auto"))
    workload = build_workload(config)
    weights = [weight.clone() for weight in workload.model.parameters()]
    state = torch.get_rng_state()
    plan = probe_mode(workload, build_workload, config)
    assert plan.mode in ("single", "multi_thread")
    assert "a step takes: single" in plan.reason
    assert "too short for several processes to pay" in plan.reason
    assert all(map(torch.equal, weights, workload.model.parameters()))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("start_seconds", "expected"), [(30, "multi_process"), (50, "multi_thread")]
)
def test_what_it_takes_to_start_processes_is_weighed_against_what_they_save(
    start_seconds, expected, settings, monkeypatch, capsys
):
    now, asked = [0.0], []

    def run(_, config, most_seconds, **__):
        asked.append((config.parallel, config.processes, config.threads, most_seconds))
        now[0] += start_seconds + 12 * 0.5  # the twelve steps of the measurement are no start
        return 7 / 0.5

    monkeypatch.setattr(modes.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(modes, "run_processes", run)
    measured = {"single": 1.0, "multi_thread": 0.9}
    monkeypatch.setattr(modes, "measure_in_turn", lambda *_: dict(measured))
    # 100 steps: 90 s with two threads; 50 s and the start with two processes.
    config = TrainConfig(
        **settings(parallel="auto", epochs=25, batch_size=7, micro_batch=7, progress=True)
    )
    plan = probe_mode(build_workload(config), build_workload, config)
    # 25 s to start, and twelve steps that take no longer than those of one process.
    assert asked == [("multi_process", 2, 1, 25 + 12)]
    assert capsys.readouterr().err.splitlines() == [
        "measuring first steps to find the fastest mode", "trying 2 processes: up to 37 s",
    ]  # fmt: skip
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    probe_mode(build_workload(config), build_workload, config)
    assert "trying 2 processes: up to 37 s \x1b[33m0:00:00" in capsys.readouterr().err
    assert plan.mode == expected
    assert (plan.processes, plan.threads) == ((2, 1) if expected == "multi_process" else (1, 2))
    assert "single 1000 ms, multi_thread 900 ms, multi_process 500 ms; 100 steps" in plan.reason


def test_auto_rules_out_processes_that_there_is_no_time_for_or_that_cannot_be_started(
    settings, monkeypatch
):
    reads, read = [], KeypointClips.__getitems__
    monkeypatch.setattr(
        KeypointClips, "__getitems__", lambda *args: reads.append(args[1]) or read(*args)
    )
    monkeypatch.setattr(modes, "_PAYS_AFTER_SECONDS", 0.0)
    config = TrainConfig(**settings(parallel="auto", max_steps=2))
    workload = build_workload(config)
    with monkeypatch.context() as patch:
        patch.setattr(modes, "run_processes", lambda *_, **__: pytest.fail("started processes"))
        plan = probe_mode(workload, build_workload, config, most_seconds=15.0)
    assert "no time to try several processes" in plan.reason
    assert len(reads) <= 1 + 2 * 2, "each of two modes takes its first two batches again and again"
    plan = probe_mode(workload, lambda config: build_workload(config), config)
    assert plan.mode in ("single", "multi_thread")
    assert "multi_process cannot be used: " in plan.reason
    assert "one of them cannot be sent: " in plan.reason


@pytest.mark.parametrize(
    ("asked", "bf16_seconds", "expected"),
    [("auto", 0.8, "bf16"), ("auto", 0.93, "fp32"), ("auto", 1.3, "fp32"), ("bf16", 1.3, "bf16"),
     ("mixed", 1.3, "bf16")],
)  # fmt: skip
def test_auto_takes_bf16_only_where_it_is_faster(
    asked, bf16_seconds, expected, settings, monkeypatch
):
    measured = {"fp32": 1.0, "bf16": bf16_seconds}
    monkeypatch.setattr(modes, "measure_in_turn", lambda *_: dict(measured))
    config = TrainConfig(**settings(precision=asked))
    usual = Precision("bf16", "this CPU has bf16 instructions")
    found = probe_precision(build_workload(config), config, usual, threads=1)
    assert found.name == expected
    assert ("a step takes: fp32 1000 ms, bf16 " in found.reason) is (asked == "auto")


def test_a_training_is_in_fp32_where_bf16_is_slower_and_stays_so(settings, monkeypatch):
    # As on a processor that has bf16.
    monkeypatch.setattr(modes, "plan_precision", lambda _: Precision("bf16", "has"))
    slow = {"fp32": 1.0, "bf16": 1.3}
    monkeypatch.setattr(modes, "measure_in_turn", lambda *_: dict(slow))
    result = train(settings(precision="auto", epochs=1))
    assert result.summary["precision"] == "fp32"
    assert "bf16 is not clearly faster" in result.summary["precision_reason"]
    slow["bf16"] = 0.5  # a run that goes on is not measured again
    again = train(settings(precision="auto", epochs=2, resume=True))
    assert again.summary["precision"] == "fp32"


def test_bf16_is_measured_only_where_the_hardware_has_it(settings, monkeypatch):
    asked = []

    def fake(_, configs, device):
        asked.append([config.precision for config in configs.values()])
        return {"fp32": 3.0, "bf16": 2.0}

    monkeypatch.setattr(modes, "measure_in_turn", fake)
    config = TrainConfig(**settings(precision="fp32"))
    workload = build_workload(config)
    monkeypatch.setattr(precision, "cpu_has_fast_bf16", lambda: True)
    assert bf16_gain(workload, config, CPU) == 1.5
    assert asked == [["fp32", "bf16"]]
    assert bf16_gain(workload, config.replace(precision="bf16"), CPU) is None
    assert bf16_gain(workload, config.replace(deterministic=True), CPU) is None
    monkeypatch.setattr(precision, "cpu_has_fast_bf16", lambda: False)
    assert bf16_gain(workload, config, CPU) is None
    assert len(asked) == 1
