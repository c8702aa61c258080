from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset

from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import Draw
from posemill.training.data.loaders import open_loader
from posemill.training.fitting.user_clips import (
    UserClips,
    count_samples,
    make_user_batch,
    take_sample,
)
from posemill.training.fitting.workload import read_split
from posemill.training.runtime import Runtime

PAIRS = [(torch.tensor([x]), torch.tensor(x + 1)) for x in (1.0, 3.0)]


class Two(NamedTuple):
    """A batch with names."""

    x: Any
    y: Any


def test_a_batch_is_inputs_and_the_target_last_and_one_sample_is_taken_out_of_all():
    batch = UserClips(PAIRS).__getitems__([Draw(1), Draw(0)])
    assert batch.inputs[0].tolist() == [[3.0], [1.0]]
    assert batch.targets.tolist() == [4.0, 2.0]
    assert (batch.indices.tolist(), batch.weights.tolist(), len(batch)) == ([1, 0], [1, 1], 2)
    assert UserClips(PAIRS)[Draw(0, weight=0.0)].weights.tolist() == [0]
    assert len(UserClips(PAIRS)) == 2
    batch = {"x": torch.arange(6).reshape(3, 2), "names": ["a", "b", "c"], "scale": 2.0,
             "all": torch.ones(4), "pair": (torch.arange(3), np.arange(3)),
             "one": torch.tensor(5)}  # fmt: skip
    sample = take_sample(batch, 1, 3)
    assert sample["x"].tolist() == [2, 3]
    assert (sample["names"], sample["scale"], int(sample["one"])) == ("b", 2.0, 5)
    assert sample["all"].tolist() == [1, 1, 1, 1]
    assert [int(part) for part in sample["pair"]] == [1, 1]


def test_everything_inside_a_batch_is_moved():
    one = torch.ones(1)
    batch = make_user_batch(
        ({"a": one, "b": [one, "text"]}, Two(one, (one,)), one), [0], counts=False
    )
    moved = batch.to("meta")
    assert moved.inputs[0]["a"].device.type == moved.inputs[0]["b"][0].device.type == "meta"
    assert moved.inputs[0]["b"][1] == "text"
    assert isinstance(moved.inputs[1], Two)
    assert moved.inputs[1].y[0].device.type == moved.targets.device.type == "meta"
    assert moved.targets is moved.inputs[2], "moved once"
    assert moved.indices.device.type == "meta"


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ((torch.zeros(3, 2), torch.zeros(3)), 3), ({"name": "abcd", "x": np.zeros((5, 1))}, 5),
        ([["a", "b"], torch.zeros(2)], 2), ("text", None), ((torch.tensor(1.0), "a"), None),
        (7, None),
    ],
)  # fmt: skip
def test_the_samples_of_a_batch_are_counted(values, count):
    assert count_samples(values) == count


class Drawn:
    """Samples that draw from every generator there is."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.rand(()), random.random(), np.random.random()  # noqa: NPY002


class DrawnStream(Drawn, IterableDataset[Any]):
    def __iter__(self):
        return iter(self[index] for index in range(8))


@pytest.mark.parametrize("samples", [Drawn(), DrawnStream()])
def test_what_samples_draw_follows_from_the_seed_in_every_process(samples):
    def draws(*, start_step=0, **settings):
        config = TrainConfig(batch_size=4, micro_batch=4, mode="multi_thread", **settings)
        split = read_split("train_set", samples, config)
        loader = open_loader(split, config, Runtime(), shuffle=True)
        state = torch.get_rng_state()
        batches = list(loader.batches(0, 2, start_step=start_step))
        assert torch.equal(torch.get_rng_state(), state), "the model draws from it, too"
        return [torch.stack([v.double() for v in batch.inputs]).tolist() for batch in batches]

    whole = draws(workers=0)
    assert len({str(batch) for batch in whole}) == 4, "no epoch is like the one before"
    assert draws(workers=1) == whole
    assert draws(workers=0, start_step=1) == whole[1:]
    assert draws(workers=1, start_step=1) == whole[1:]
    assert draws(workers=0, seed=1) != whole
    assert draws(workers=1, seed=1) != whole
