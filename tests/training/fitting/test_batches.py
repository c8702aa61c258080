from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import IterableDataset

from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import Draw
from posemill.training.data.loaders import open_loader
from posemill.training.fitting.batches import (
    CallModel,
    UserBatch,
    UserBatches,
    count_samples,
    take_sample,
)
from posemill.training.fitting.data_sets import ReadData
from posemill.training.launch.modes import ModePlan
from posemill.training.loop.distributed import World

PAIRS = [(torch.tensor([x]), torch.tensor(x + 1)) for x in (1.0, 3.0)]


class Two(NamedTuple):
    """A batch with names."""

    x: Any
    y: Any


class ByName(nn.Module):
    """Takes two entries of a dict."""

    def forward(self, x: Tensor, scale: float = 2.0) -> Tensor:
        return x * scale


class AnyName(nn.Module):
    """Takes whatever comes."""

    def forward(self, **entries: Tensor) -> list[str]:
        return sorted(entries)


def test_a_batch_is_inputs_and_the_target_last() -> None:
    batch = UserBatches(PAIRS).__getitems__([Draw(1), Draw(0)])
    assert batch.values[0].tolist() == [[3.0], [1.0]]
    assert batch.target.tolist() == [4.0, 2.0]
    assert (batch.indices, batch.counts, len(batch)) == ([1, 0], True, 2)
    assert not UserBatches(PAIRS)[Draw(0, weight=0.0)].counts
    assert len(UserBatches(PAIRS)) == 2


def test_a_collate_function_of_ones_own_makes_the_batch() -> None:
    def pad(samples: list[Any]) -> dict[str, Any]:
        return {"x": nn.utils.rnn.pad_sequence(samples, batch_first=True), "n": len(samples)}

    batch = UserBatches([torch.ones(2), torch.ones(3)], pad).__getitems__([Draw(0), Draw(1)])
    assert batch.values["x"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch.values["n"] == 2
    assert batch.target is batch.values, "a dict without a target is the target"


def test_everything_inside_a_batch_is_moved() -> None:
    one = torch.ones(1)
    batch = UserBatch(({"a": one, "b": [one, "text"]}, Two(one, (one,)), one), [0], counts=False)
    moved = batch.to("meta")
    assert moved.values[0]["a"].device.type == moved.values[0]["b"][0].device.type == "meta"
    assert moved.values[0]["b"][1] == "text"
    assert isinstance(moved.values[1], Two)
    assert moved.values[1].y[0].device.type == moved.target.device.type == "meta"
    assert (moved.indices, moved.counts) == ([0], False)


def test_the_model_gets_the_inputs_or_the_entries_it_names() -> None:
    x, model = torch.ones(2), ByName()
    assert CallModel(model)(model, UserBatch((x, 3.0, "target"), [0])).tolist() == [3, 3]
    values = {"x": x, "target": x, "file": "a.png"}
    assert CallModel(model)(model, UserBatch(values, [0])).tolist() == [2, 2]
    assert CallModel(model)(model, UserBatch({**values, "scale": 5.0}, [0])).tolist() == [5, 5]
    assert CallModel(AnyName())(AnyName(), UserBatch(values, [0])) == ["file", "x"]
    assert CallModel(model)(model, UserBatch(x, [0])).tolist() == [2, 2]
    own = CallModel(model, lambda model, values: model(values["x"], 7.0))
    assert own(model, UserBatch(values, [0])).tolist() == [7, 7]
    assert UserBatch(values, [0]).target is x


def test_what_a_model_misses_in_a_dict_is_known() -> None:
    assert CallModel(ByName()).missing_in({"image": 1}) == ["x"]
    assert CallModel(ByName()).missing_in({"x": 1}) == []
    assert CallModel(ByName()).missing_in((1, 2)) == []
    assert CallModel(ByName(), lambda model, values: 0).missing_in({"image": 1}) == []


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ((torch.zeros(3, 2), torch.zeros(3)), 3), ({"name": "abcd", "x": np.zeros((5, 1))}, 5),
        ([["a", "b"], torch.zeros(2)], 2), ("text", None), ((torch.tensor(1.0), "a"), None),
        (7, None),
    ],
)  # fmt: skip
def test_the_samples_of_a_batch_are_counted(values: Any, count: int | None) -> None:
    assert count_samples(values) == count


def test_one_sample_of_a_batch_is_taken_out_of_everything() -> None:
    batch = {"x": torch.arange(6).reshape(3, 2), "names": ["a", "b", "c"], "scale": 2.0,
             "all": torch.ones(4), "pair": (torch.arange(3), np.arange(3)),
             "one": torch.tensor(5)}  # fmt: skip
    sample = take_sample(batch, 1, 3)
    assert sample["x"].tolist() == [2, 3]
    assert (sample["names"], sample["scale"], int(sample["one"])) == ("b", 2.0, 5)
    assert sample["all"].tolist() == [1, 1, 1, 1]
    assert [int(part) for part in sample["pair"]] == [1, 1]


class Drawn:
    """Samples that draw from every generator there is."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[Tensor, float, float]:
        return torch.rand(()), random.random(), np.random.random()  # noqa: NPY002


class DrawnStream(Drawn, IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(self[index] for index in range(8))


@pytest.mark.parametrize("samples", [Drawn(), DrawnStream()])
def test_what_samples_draw_follows_from_the_seed_in_every_process(samples: Any) -> None:
    def draws(*, start_step: int = 0, **settings: Any) -> list[list[float]]:
        config = TrainConfig(batch_size=4, micro_batch=4, **settings)
        split = ReadData(None, 0, config).split("train_set", samples)
        loader = open_loader(split, config, World(), shuffle=True, in_thread=True)
        state = torch.get_rng_state()
        batches = list(loader.batches(0, 2, start_step=start_step))
        assert torch.equal(torch.get_rng_state(), state), "the model draws from it, too"
        return [torch.stack([v.double() for v in batch.values]).tolist() for batch in batches]

    whole = draws(workers=0)
    assert len({str(batch) for batch in whole}) == 4, "no epoch is like the one before"
    assert draws(workers=1) == whole
    assert draws(workers=0, start_step=1) == whole[1:]
    assert draws(workers=1, start_step=1) == whole[1:]
    assert draws(workers=0, seed=1) != whole
    assert draws(workers=1, seed=1) != whole


def test_a_thread_makes_no_batches_of_samples_that_may_draw() -> None:
    plan = ModePlan("multi_thread", 1, 2, "")
    config = TrainConfig()
    assert plan.apply(config).workers == 0
    split = ReadData(None, 0, config).split("train_set", Drawn())
    assert plan.apply(config, is_threadsafe=split.is_threadsafe).workers == 1
