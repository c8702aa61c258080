from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

import posemill
from posemill.errors import ConfigError, DeviceError, RunError, TrainingError
from posemill.training.config.resolve import resolve_config, write_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.launch import modes as launch
from posemill.training.launch import probe
from posemill.training.launch.modes import ModePlan, plan_mode, run_ranks
from posemill.training.launch.probe import probe_mode, probe_precision
from posemill.training.launch.start import train
from posemill.training.loop import precision
from posemill.training.loop.distributed import check_world
from posemill.training.runs.run_folder import RunFolder
from posemill.training.tasks.building import build_workload

Settings = Callable[..., dict[str, Any]]
SOURCES = str(Path(posemill.__file__).parent.parent)
NO_DROPOUT = {"width": 16, "num_layers": 1, "num_heads": 2, "dropout": 0.0}


@pytest.fixture
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (launch, probe):
        monkeypatch.setattr(module, "count_cores", lambda: 2)


def losses_of(run: Path) -> list[float]:
    return [row["loss"] for row in RunFolder(run).read_metrics()]


@pytest.mark.usefixtures("_two_cores")
def test_all_modes_give_the_same_losses_and_weights(settings: Settings, tmp_path: Path) -> None:
    # 28 clips in steps of 8: the last step has 4; micro-batches of 3 make it uneven, too.
    # Plain sgd: adam would blow the rounding of gradients that are zero (key biases) up to lr.
    fields = settings(model_options=NO_DROPOUT, augment_noise=0.01, epochs=1, micro_batch=3,
                      optimizer="sgd", lr=0.1)  # fmt: skip
    modes = {
        "single": {},
        "multi_thread": {"threads": 2},
        "multi_process": {"processes": 2},
    }
    runs = {
        mode: train(fields | more | {"mode": mode, "out": str(tmp_path / mode)})
        for mode, more in modes.items()
    }
    assert runs["multi_process"].summary["processes"] == 2
    assert runs["multi_thread"].summary["threads"] == 2
    expected = losses_of(tmp_path / "single")
    weights = RunFolder(tmp_path / "single").checkpoints.load("last").weights
    for mode in ("multi_thread", "multi_process"):
        assert losses_of(tmp_path / mode) == pytest.approx(expected, abs=1e-5)
        other = RunFolder(tmp_path / mode).checkpoints.load("last").weights
        for name, value in weights.items():
            torch.testing.assert_close(other[name], value, atol=1e-5, rtol=1e-4)
        for split, scores in runs["single"].scores.items():
            assert runs[mode].scores[split] == pytest.approx(scores, abs=1e-4)


@pytest.mark.usefixtures("_two_cores")
def test_a_rank_that_fails_ends_the_others_and_its_error_is_raised(settings: Settings) -> None:
    fields = settings(mode="multi_process", processes=2, lr=1e30, optimizer="sgd",
                      clip_grad_norm=0, warmup_epochs=0.0)  # fmt: skip
    with pytest.raises(TrainingError, match=r"the loss became .*: lower --lr"):
        train(fields)


def test_ranks_leave_with_their_parent_and_one_process_can_continue(
    settings: Settings, tmp_path: Path
) -> None:
    fields = settings(model_options=NO_DROPOUT, epochs=1000, save_every_steps=1, eval_every=1000,
                      optimizer="sgd")  # fmt: skip
    config = tmp_path / "config.toml"
    ranks = {"mode": "multi_process", "processes": 2}
    write_config(TrainConfig(**fields | ranks), config)
    parent = psutil.Popen(
        [sys.executable, "-m", "posemill", "train", str(config)],
        env={**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"},
    )
    last = Path(fields["out"]) / "checkpoints" / "last.json"
    deadline = time.monotonic() + 120
    while not (last.is_file() and json.loads(last.read_text())["step"] >= 2):
        assert parent.poll() is None, "the training ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = parent.children(recursive=True)
    assert len(children) >= 2
    with pytest.raises(RunError, match="is being trained by another process"):
        train(fields | {"resume": True})
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    step = json.loads(last.read_text())["step"]
    result = train(fields | {"resume": True, "max_steps": step + 3})
    assert result.summary["steps"] == step + 3
    assert any("continued with 1 processes instead of 2" in n for n in result.summary["notes"])


def test_a_rank_that_dies_is_reported_with_its_code() -> None:
    config = TrainConfig(mode="multi_process", processes=1, threads=1)
    with pytest.raises(TrainingError, match=r"posemill-rank-0 .* ended with code 7 .*--resume"):
        run_ranks(partial(_leave, 7), config)


def _leave(code: int, _: object) -> dict[str, Any]:
    os._exit(code)


def test_what_cannot_be_sent_to_a_process_is_said() -> None:
    config = TrainConfig(mode="multi_process", processes=1, threads=1)
    with pytest.raises(TrainingError, match=r"one of them cannot be sent.*--parallel multi_thread"):
        run_ranks(lambda _: {}, config)


def test_torchrun_is_recognised_and_its_world_is_used(settings: Settings, tmp_path: Path) -> None:
    fields = settings(mode="auto", epochs=1, model_options=NO_DROPOUT)
    train(fields | {"mode": "single", "out": str(tmp_path / "single")})
    config = tmp_path / "config.toml"
    write_config(TrainConfig(**fields), config)
    ended = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "-m", "posemill", "train", str(config)],
        env={**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"},
        check=False,
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    summary = RunFolder(fields["out"]).read_summary()
    assert (summary["processes"], summary["mode"]) == (2, "multi_process")
    assert summary["mode_reason"] == "torchrun started 2 processes"
    expected = losses_of(tmp_path / "single")
    assert losses_of(Path(fields["out"])) == pytest.approx(expected, abs=1e-5)


def test_torchrun_and_another_number_of_processes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "a"),
                        ("MASTER_PORT", "1")):  # fmt: skip
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="processes = 2, but torchrun started 4; leave it out"):
        plan_mode(TrainConfig(processes=2, device="cpu", mode="multi_process"))
    plan = plan_mode(TrainConfig(device="cpu"))
    assert plan is not None
    assert plan.processes == 4


def test_a_world_smaller_than_asked_for_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.all_reduce", lambda tensor: tensor)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 1)
    with pytest.raises(TrainingError, match="asked for 2 processes, but 1 answered"):
        check_world(2, "cpu")


@pytest.mark.usefixtures("_two_cores")
def test_more_processes_or_threads_than_cores_is_refused(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="processes = 3, but this process may use 2 cores"):
        train(settings(mode="multi_process", processes=3, device="cpu"))
    with pytest.raises(ConfigError, match="threads = 5, but this process may use 2 cores"):
        train(settings(threads=5))


def test_a_gpu_asked_for_and_absent_is_an_error_before_work_starts(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        ({"mode": "multi_process", "processes": 1}, ("multi_process", 1, 2)),
        ({"mode": "auto", "deterministic": True}, ("single", 1, 1)),
    ],
)
def test_threads_are_the_cores_divided_by_the_ranks(
    fields: dict[str, Any], expected: tuple[str, int, int]
) -> None:
    plan = plan_mode(TrainConfig(device="cpu", **fields))
    assert plan is not None
    assert (plan.mode, plan.processes, plan.threads) == expected


@pytest.mark.usefixtures("_two_cores")
def test_what_the_machine_decides_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "cpu_has_fast_bf16", lambda: False)
    monkeypatch.setattr(precision, "cpu_has_fast_bf16", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = launch.resolve_hardware(resolve_config(None, {"mode": "multi_thread"}))
    decided = {name: getattr(found.config, name) for name in ("device", "precision", "threads")}
    assert decided == {"device": "cpu", "precision": "fp32", "threads": 2}
    assert {found.sources[name] for name in ("device", "threads")} == {
        "machine: no GPU here",
        "machine: asked for",
    }
    assert found.sources["precision"].startswith("machine: ")
    assert found.sources["parallel"] == "flag"


@pytest.mark.usefixtures("_two_cores")
@pytest.mark.parametrize("has_bf16", [False, True])
def test_what_is_left_to_the_machine_is_never_called_a_default(
    has_bf16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "cpu_has_fast_bf16", lambda: has_bf16)
    monkeypatch.setattr(precision, "cpu_has_fast_bf16", lambda: has_bf16)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    measured = launch.resolve_hardware(resolve_config(None, {}))
    assert measured.config.parallel == "auto"
    assert measured.sources["parallel"] == "machine: measured at the start, on 2 cores"
    assert measured.sources["precision"].startswith("machine: ")
    assert measured.config.precision == ("auto" if has_bf16 else "fp32")
    given = launch.resolve_hardware(resolve_config(None, {"parallel": "single", "threads": 1}))
    assert (given.sources["parallel"], given.sources["threads"]) == ("flag", "flag")
    assert given.sources["seed"] == "default"


@pytest.mark.usefixtures("_two_cores")
def test_gpus_take_a_process_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    assert plan_mode(TrainConfig()) == ModePlan("multi_process", 2, 1, "2 GPUs")
    single = plan_mode(TrainConfig(device="cuda:1"))
    assert single is not None
    assert single.mode == "single"
    with pytest.raises(DeviceError, match="processes = 3, but there are 2 GPUs"):
        plan_mode(TrainConfig(mode="multi_process", processes=3))


@pytest.mark.usefixtures("_two_cores")
def test_loader_processes_follow_the_mode() -> None:
    config = TrainConfig(preset="high-performance")
    workers = [
        ModePlan(mode, ranks, 1, "").apply(config).num_workers
        for mode, ranks in (("single", 1), ("multi_thread", 1), ("multi_process", 2))
    ]
    assert workers == [1, 0, 0]
    assert ModePlan("multi_thread", 1, 2, "").apply(config.replace(num_workers=3)).num_workers == 3


@pytest.mark.usefixtures("_two_cores")
def test_auto_measures_and_says_why(settings: Settings) -> None:
    config = TrainConfig(**settings(mode="auto"))
    states = torch.get_rng_state()
    plan = probe_mode(build_workload(config), partial(build_workload, config), config)
    assert plan.mode in ("single", "multi_thread")
    assert "a step takes: single" in plan.reason
    assert "too short for several processes to pay" in plan.reason
    torch.manual_seed(config.seed)  # what building the workload did
    build_workload(config)
    assert states.shape == torch.get_rng_state().shape


@pytest.mark.usefixtures("_two_cores")
def test_auto_takes_processes_where_they_save_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def fake_ranks(_: object, config: TrainConfig) -> dict[str, Any]:
        asked.append(config.processes)
        return {"seconds": 1e-6}

    monkeypatch.setattr(probe, "run_ranks", fake_ranks)
    config = TrainConfig(**settings(mode="auto", epochs=10**6))
    plan = probe_mode(build_workload(config), partial(build_workload, config), config)
    assert asked == [2]
    assert (plan.mode, plan.processes, plan.threads) == ("multi_process", 2, 1)
    assert "multi_process 0 ms" in plan.reason


def test_bf16_on_a_cpu_has_to_be_faster(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TrainConfig(**settings(precision="auto"))
    workload = build_workload(config)
    monkeypatch.setattr(probe, "cpu_has_fast_bf16", lambda: True)
    for seconds, expected in ((0.5, "bf16"), (2.0, "fp32")):
        monkeypatch.setattr(
            probe, "_measure_in_turn", lambda *_, s=seconds: {"fp32": 1.0, "bf16": s}
        )
        assert probe_precision(workload, config).name == expected
    assert "a step takes fp32 1000 ms, bf16 2000 ms" in probe_precision(workload, config).reason
    assert probe_precision(workload, config.replace(deterministic=True)).name == "fp32"
