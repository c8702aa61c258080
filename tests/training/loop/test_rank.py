from __future__ import annotations

import pytest
import torch

from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.rank import numeric_settings


def read() -> tuple[int, bool, bool]:
    return (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
    )


def test_threads_and_determinism_are_set_for_the_block_only() -> None:
    before = read()
    with numeric_settings(TrainConfig(threads=2, deterministic=True, cudnn_benchmark=True)):
        assert read() == (2, True, False), "a benchmark may choose another algorithm each time"
    assert read() == before
    with numeric_settings(TrainConfig(cudnn_benchmark=True)):
        assert read() == (before[0], False, True)
    with pytest.raises(KeyError), numeric_settings(TrainConfig(threads=3)):
        raise KeyError
    assert read() == before
