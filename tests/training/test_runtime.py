import random

import numpy as np
import pytest
import torch
from torch import nn

from posemill.errors import TrainingError
from posemill.training.config.train_config import TrainConfig
from posemill.training.precision import Precision
from posemill.training.ranks import run_ranks
from posemill.training.record.checkpoints import copy_state
from posemill.training.runtime import (
    Runtime,
    check_processes,
    numeric_settings,
    read_random_states,
    seed_everything,
    set_random_states,
)

pytestmark = pytest.mark.usefixtures("warm_children")


def test_fewer_processes_than_asked_for_is_an_error(monkeypatch):
    monkeypatch.setattr("torch.distributed.all_reduce", lambda tensor: tensor)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 1)
    with pytest.raises(TrainingError, match="asked for 2 processes, but 1 answered"):
        check_processes(2, "cpu")


def use_runtime(runtime):
    """What each call gives in a process whose numbers depend on its rank."""
    model = nn.BatchNorm1d(2)
    model.running_mean = torch.tensor([1.0, 2.0]) * (runtime.rank + 1)
    model.num_batches_tracked += runtime.rank
    runtime.average_buffers(model)
    counts = torch.tensor([1.0, 10.0]) * (runtime.rank + 1)
    runtime.start_sum(counts)()
    return {
        "is_first": runtime.gather(runtime.is_first),
        "gathered": runtime.gather({"rank": runtime.rank}),
        "sum": runtime.sum([runtime.rank + 1, 0.5]),
        "started": counts.tolist(),
        "mean": model.running_mean.tolist(),
        "batches": int(model.num_batches_tracked),
    }


def test_two_processes_share_numbers_and_running_statistics():
    config = TrainConfig(mode="multi_process", processes=2, threads=1)
    assert run_ranks(use_runtime, config) == {
        "is_first": [True, False],
        "gathered": [{"rank": 0}, {"rank": 1}],
        "sum": [3.0, 1.0],
        "started": [3.0, 30.0],
        "mean": [1.5, 3.0],
        "batches": 0,
    }


def read():
    return (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
    )


def test_threads_and_determinism_are_set_for_the_block_only():
    before = read()
    with numeric_settings(TrainConfig(threads=2, deterministic=True, cudnn_benchmark=True)):
        assert read() == (2, True, False), "a benchmark may choose another algorithm each time"
    assert read() == before
    with numeric_settings(TrainConfig(cudnn_benchmark=True)):
        assert read() == (before[0], False, True)
    with pytest.raises(KeyError), numeric_settings(TrainConfig(threads=3)):
        raise KeyError
    assert read() == before


@pytest.mark.parametrize(("size", "expected"), [(1, "cuda:1"), (2, "cuda:0")])
def test_the_gpu_that_was_asked_for_is_the_current_one(monkeypatch, size, expected):
    seen = []
    monkeypatch.setattr("posemill.training.runtime.choose_device", torch.device)
    monkeypatch.setattr(torch.cuda, "set_device", seen.append)
    config = TrainConfig(precision="fp32", threads=3)
    runtime = Runtime(size=size).using(config.replace(device="cuda:1"))
    assert seen == [runtime.device] == [torch.device(expected)]
    assert (runtime.is_on_gpu, runtime.threads, runtime.size) == (True, 3, size)
    assert not Runtime().using(config.replace(device="cpu")).is_on_gpu
    assert len(seen) == 1


def test_in_fp32_nothing_is_cast_and_fp16_needs_a_scaler():
    runtime = Runtime()
    with runtime.autocast():
        assert not torch.is_autocast_enabled("cpu")
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
    assert not runtime.needs_scaler
    with Runtime(precision=Precision("bf16", "")).autocast():
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16
    assert Runtime(precision=Precision("fp16", "")).needs_scaler


def draw():
    numbers = np.random.normal(size=2)  # noqa: NPY002  what users may draw from
    return [random.random(), random.gauss(0, 1), *numbers.tolist(), *torch.rand(2).tolist()]


def test_generators_go_on_where_they_were_and_any_seed_and_rank_decide_all(monkeypatch):
    seed_everything(3)
    random.gauss(0, 1)  # draws two and keeps one for the next call
    np.random.normal()  # noqa: NPY002
    states = copy_state(read_random_states())
    expected = draw()
    assert draw() != expected
    set_random_states(states)
    assert draw() == expected
    found = []
    for seed, rank in ((3, 0), (3, 0), (4, 0), (3, 1), (4, 1)):
        seed_everything(seed, rank)
        found.append(draw())
    assert found[0] == found[1]
    for number in range(len(found[0])):
        assert len({row[number] for row in found[1:]}) == 4
    seeds = []
    monkeypatch.setattr(np.random, "seed", seeds.append)
    for seed in (2**32 - 1, 2**32 + 5):
        seed_everything(seed)
    assert seeds == [2**32 - 1, 5]


def test_the_generator_of_a_gpu_goes_on_too(monkeypatch):
    kept = []
    state = torch.arange(3, dtype=torch.uint8)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: state)
    monkeypatch.setattr(torch.cuda, "set_rng_state", kept.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    states = read_random_states()
    assert states["cuda"] is state
    set_random_states(states)
    assert kept == [state]
    set_random_states({name: states[name] for name in ("torch", "numpy", "python")})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    set_random_states(states)
    assert len(kept) == 1, "a checkpoint of another machine"
    assert "cuda" not in read_random_states()
