from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from posemill.errors import TrainingError
from posemill.training.config.train_config import TrainConfig
from posemill.training.launch.ranks import run_ranks
from posemill.training.loop.distributed import World, check_world


def test_a_world_smaller_than_asked_for_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.all_reduce", lambda tensor: tensor)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 1)
    with pytest.raises(TrainingError, match="asked for 2 processes, but 1 answered"):
        check_world(2, "cpu")


def use_world(world: World) -> dict[str, Any]:
    """What each call gives in a process whose numbers depend on its rank."""
    model = nn.BatchNorm1d(2)
    model.running_mean = torch.tensor([1.0, 2.0]) * (world.rank + 1)
    model.num_batches_tracked += world.rank
    world.average_buffers(model)
    counts = torch.tensor([1.0, 10.0]) * (world.rank + 1)
    world.start_sum(counts)()
    return {
        "is_first": world.gather(world.is_first),
        "gathered": world.gather({"rank": world.rank}),
        "sum": world.sum([world.rank + 1, 0.5]),
        "started": counts.tolist(),
        "mean": model.running_mean.tolist(),
        "batches": int(model.num_batches_tracked),
    }


def test_two_processes_share_numbers_and_running_statistics() -> None:
    config = TrainConfig(mode="multi_process", processes=2, threads=1)
    assert run_ranks(use_world, config) == {
        "is_first": [True, False],
        "gathered": [{"rank": 0}, {"rank": 1}],
        "sum": [3.0, 1.0],
        "started": [3.0, 30.0],
        "mean": [1.5, 3.0],
        "batches": 0,
    }


def test_alone_everything_is_as_it_was() -> None:
    assert use_world(World()) == {
        "is_first": [True],
        "gathered": [{"rank": 0}],
        "sum": [1, 0.5],
        "started": [1.0, 10.0],
        "mean": [1.0, 2.0],
        "batches": 0,
    }
