import random
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from posemill.training.config.train_config import TrainConfig
from posemill.training.fitting import streams
from posemill.training.fitting.workload import make_user_workload, read_split, settings_of_loader
from posemill.training.runtime import Runtime

NUMBERS = TensorDataset(torch.arange(10.0), torch.arange(10.0))
QUIET = {"workers": 0, "progress": False}


class Numbers(IterableDataset[Any]):
    """10 numbers, the epoch times 100 added."""

    def __init__(self, count=10, said=None):
        self.count, self.said, self.epoch = count, said, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter([(torch.tensor(float(100 * self.epoch + i)), i) for i in range(self.count)])


class Counted(Numbers):
    """The same with a length."""

    def __len__(self):
        return self.count if self.said is None else self.said


def read(samples, *, steps=0, runtime=None, epochs=(0, 1), start_step=0, train=True, **settings):
    """Return the inputs of every batch."""
    config = TrainConfig(**{"batch_size": 4, "micro_batch": 4, **QUIET, **settings})
    name = "train_set" if train else "val_set"
    split = read_split(name, samples, config, steps_per_epoch=steps)
    loader = split.stream(config, runtime or Runtime(), is_training=train)
    found = loader.batches(*epochs, start_step=start_step)
    return [batch.inputs[0].tolist() if batch.weights[0] else [] for batch in found]


def notes_of(samples, **settings):
    """Return what `fit` says of such data."""
    config, data = TrainConfig(**settings), (samples, None)
    return make_user_workload(nn.Linear(1, 1), data, config, loss=nn.MSELoss()).notes


def test_an_iterable_is_cut_into_steps_epoch_by_epoch():
    assert read(Counted(), epochs=(1, 3)) == [
        [100, 101, 102, 103], [104, 105, 106, 107], [108, 109],
        [200, 201, 202, 203], [204, 205, 206, 207], [208, 209],
    ]  # fmt: skip
    assert read(Counted(), micro_batch=3) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert read(Counted(), epochs=(0, 2), start_step=2)[:2] == [[8, 9], [100, 101, 102, 103]]
    assert read(Counted(), workers=3) == read(Counted())
    assert notes_of(Counted(), workers=3) == (
        "workers=3: one loader process reads train_set, as two would read the same samples of an "
        "iterable",
    )
    assert read(Numbers(3), steps=2) == [[0, 1, 2, 0], [1, 2, 0, 1]], "begun again at its end"
    assert read(Numbers(5), train=False, micro_batch=3) == [[0, 1], [2, 3], [4]], "of no length"


def test_processes_take_turns_in_evaluating_an_iterable_or_a_ready_loader():
    def parts_of(samples, **settings):
        ranks = (Runtime(rank, 2) for rank in range(2))
        return [read(samples, runtime=rank, train=False, **settings) for rank in ranks]

    parts = parts_of(Numbers(9), micro_batch=2)
    assert sorted(x for part in parts for batch in part for x in batch) == list(range(9))
    loader = DataLoader(NUMBERS, batch_size=4, drop_last=True)
    assert parts_of(loader) == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]


@pytest.mark.parametrize(
    ("loader", "is_shuffled"),
    [
        (DataLoader(NUMBERS, batch_size=3, shuffle=True), True),
        (DataLoader(NUMBERS, batch_size=3), False),
    ],
)
def test_a_plain_loader_is_taken_apart(loader, is_shuffled):
    split = read_split("train_set", loader, TrainConfig(**QUIET))
    assert split.stream is None
    assert (len(split), split.is_shuffled) == (10, is_shuffled)
    assert settings_of_loader(loader, {"workers"}) == {"batch_size": 3, "micro_batch": 3}


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(NUMBERS, batch_size=3, drop_last=True),
        DataLoader(NUMBERS, batch_sampler=[[0, 1], [5]]),
        DataLoader(NUMBERS, sampler=WeightedRandomSampler([1.0] * 10, 10)),
        DataLoader(NUMBERS, sampler=RandomSampler(NUMBERS, replacement=True)),
        DataLoader(NUMBERS, sampler=RandomSampler(NUMBERS, num_samples=4)),
        DataLoader(NUMBERS, shuffle=True, generator=torch.Generator()),
        DataLoader(NUMBERS, num_workers=1, worker_init_fn=print),
        DataLoader(Numbers()),
        DataLoader(NUMBERS, batch_sampler=type("Own", (BatchSampler,), {})(
            SequentialSampler(NUMBERS), 2, False)),
    ],
)  # fmt: skip
def test_a_loader_that_does_more_is_left_whole(loader):
    assert streams.is_shuffled(loader) is None
    assert settings_of_loader(loader, ()) == {}


def test_a_ready_loader_is_used_as_it_is_and_its_draws_follow_from_the_seed():
    weights = WeightedRandomSampler([1.0] * 10, 10)
    loader = DataLoader(NUMBERS, batch_size=4, sampler=weights)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = read(loader, epochs=(0, 2), seed=3)
    assert torch.equal(before, torch.get_rng_state()), "dropout does not hear of it"
    torch.manual_seed(2)
    assert [len(batch) for batch in first] == [4, 4, 2, 4, 4, 2]
    assert read(loader, epochs=(0, 2), seed=3) == first
    assert read(loader, epochs=(0, 2), seed=3, start_step=1, batch_size=8) == first[2:]
    assert read(loader, epochs=(0, 2), seed=4) != first
    assert read(loader, epochs=(1, 2), seed=3) == first[3:]
    endless = read(loader, steps=4)
    assert [len(batch) for batch in endless] == [4, 4, 2, 4]


class Buffered(Counted):
    """Draws from a buffer as it goes: what comes next depends on all draws before."""

    def __iter__(self):
        items = list(super().__iter__())
        while items:
            yield items.pop(random.randrange(len(items)))


class Lazy(WeightedRandomSampler):
    """A sampler of a user that draws each sample when it is asked for it."""

    def __iter__(self):
        return (random.randrange(10) for _ in range(10))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", ["buffer", "sampler"])
@pytest.mark.usefixtures("warm_children")
def test_a_loader_that_draws_as_it_goes_goes_on_in_the_same_order(kind, workers):
    options = {"batch_size": 2, "num_workers": workers}
    loader = (
        DataLoader(Buffered(), **options)
        if kind == "buffer"
        else DataLoader(NUMBERS, sampler=Lazy([1.0] * 10, 10), **options)
    )
    random.seed(1)
    whole = read(loader, batch_size=2, seed=3)
    random.seed(2)
    assert read(loader, batch_size=2, seed=3, start_step=2) == whole[2:]


def test_a_larger_batch_accumulates_batches_of_a_ready_loader():
    loader = DataLoader(NUMBERS, batch_size=2, drop_last=True)
    config = TrainConfig(batch_size=4, **QUIET)
    opened = read_split("train_set", loader, config).stream(config, Runtime(), is_training=True)
    assert opened.num_steps == 3
    assert [opened.num_micro_batches(step) for step in range(3)] == [2, 2, 1]
    assert notes_of(loader) == (
        "the DataLoader of train_set is used as it is: its sampler draws the order, and one "
        "process trains (0 loader processes of its own)",
    )
    assert notes_of(DataLoader(NUMBERS)) == ()


def test_wrong_data_is_named():
    def split(name, samples, **options):
        read_split(name, samples, TrainConfig(), **options)

    with pytest.raises(TypeError, match=r"train_set: expected len\(\) and \[index\], got int"):
        split("train_set", 3)
    with pytest.raises(ValueError, match="val_set: expected samples, got none"):
        split("val_set", [])
    with pytest.raises(ValueError, match=r"a Numbers without len\(\) does not say .* steps_per_ep"):
        split("train_set", Numbers())
    with pytest.raises(ValueError, match=r"a DataLoader without len\(\) does not say"):
        split("train_set", DataLoader(Numbers()))
    with pytest.raises(TypeError, match="a list_iterator can be read through once only"):
        split("train_set", iter([1]))
    with pytest.raises(ValueError, match=r"steps_per_epoch is for data without len\(\): .* its 10"):
        split("train_set", NUMBERS, steps_per_epoch=5)
    with pytest.raises(TypeError, match="collate_fn: the DataLoader of train_set has its own"):
        split("train_set", DataLoader(NUMBERS), collate=list)
    with pytest.raises(ValueError, match=r"train_set: len\(\) says 8, but it gave 4 samples"):
        read(Counted(4, 8))
    with pytest.raises(ValueError, match=r"train_set: len\(\) says 3, but .* in 2 batches"):
        read(DataLoader(Counted(6, 10), batch_size=4))
    texts = DataLoader(["a", "b"], batch_size=None, sampler=[0, 1])
    with pytest.raises(ValueError, match="cannot tell how many samples a batch of the DataLoader"):
        read(texts)
    with pytest.raises(ValueError, match="but it gave 0"):
        read(Numbers(0), steps=3)
