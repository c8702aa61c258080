import multiprocessing
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest
import torch
from small_sets import BareClips, make_set

from posemill.training.config.train_config import TrainConfig
from posemill.training.data import loaders
from posemill.training.data.keypoint_clips import KeypointClips, Sample
from posemill.training.data.loaders import EpochLoader
from posemill.training.runtime import Runtime


class ThreadNotes(KeypointClips):
    """Notes which threads make batches."""

    def __getitems__(self, draws):
        THREADS.add(threading.current_thread().name)
        return super().__getitems__(draws)


THREADS = set()


def make_loader(*, in_thread, num_workers=0):
    rng = np.random.default_rng(0)
    samples = [
        Sample(rng.random((3 + i % 4, 2, 2)).astype(np.float32), np.ones((3 + i % 4, 2), bool), 0)
        for i in range(11)
    ]
    clips = make_set(samples, ["a"])
    mode = "multi_thread" if in_thread else "single"
    config = TrainConfig(
        data="d", labels="l", batch_size=4, micro_batch=4, num_workers=num_workers, mode=mode
    )
    THREADS.clear()
    return EpochLoader(ThreadNotes(**vars(clips)), config, Runtime(), shuffle=True)


@pytest.fixture
def made(monkeypatch):
    """What the loader of torch was given last."""
    given = {}
    monkeypatch.setattr(loaders, "DataLoader", lambda *_, **options: given.update(options))
    return given


@pytest.mark.parametrize(("workers", "found"), [(-1, 0), (0, 0), (3, 3)])
def test_the_settings_of_loading_are_handed_on(made, workers, found):
    config = TrainConfig(workers=workers, persistent_workers=False, prefetch_factor=5, seed=3,
                         batch_size=4, micro_batch=2, pin_memory=True)  # fmt: skip
    split = BareClips(9)
    loader = EpochLoader(split, config, Runtime(device=torch.device("cuda")), shuffle=False)
    assert (made["num_workers"], made["pin_memory"]) == (found, True)
    if found:
        assert (made["persistent_workers"], made["prefetch_factor"]) == (False, 5)
    assert loader._ahead == (0 if found else 5)
    sampler = loader.sampler
    assert (sampler.batch_sizes, sampler.micro_batch_sizes, sampler.seed) == ((4,), (2,), 3)
    assert (sampler.shuffle, sampler.bucket_batches) == (False, 32)
    plain = EpochLoader(split, config.replace(bucket_by_length=False), Runtime(), shuffle=True)
    assert made["pin_memory"] is False
    assert plain._ahead == 0
    assert (plain.sampler.shuffle, plain.sampler.bucket_batches) == (True, 0)


def clips_of(batches):
    return [batch.indices.tolist() for batch in batches]


@pytest.mark.parametrize("in_thread", [True, False])
def test_batches_come_from_a_thread_where_asked_for_and_are_the_same(in_thread):
    loader = make_loader(in_thread=in_thread)
    seen = clips_of(loader.batches(0, 2))
    assert len(seen) == 2 * loader.num_steps == 6
    assert sorted(chain(*seen[:3])) == sorted(chain(*seen[3:])) == list(range(11))
    assert seen[:3] != seen[3:]
    assert seen[2:] == clips_of(loader.batches(0, 2, start_step=2))
    assert THREADS
    assert all(name.startswith("read-ahead") == in_thread for name in THREADS)


def test_leaving_early_ends_the_thread():
    batches = make_loader(in_thread=True).batches(0, 50)
    next(batches)
    batches.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("read-ahead")]


def test_loader_processes_leave_the_signals_of_the_program_alone():
    seen = []

    def mine(number, _):
        seen.append(number)

    before = signal.signal(signal.SIGCHLD, mine)
    try:
        assert len(list(make_loader(in_thread=False, num_workers=1).batches(0, 1))) == 3
        assert signal.getsignal(signal.SIGCHLD) is mine
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_thread_of_the_program_may_have_loader_processes():
    """Where nobody may set a signal."""
    batches = make_loader(in_thread=False, num_workers=1).batches(0, 1)
    with ThreadPoolExecutor(1) as pool:
        assert len(pool.submit(list, batches).result()) == 3


def test_loader_processes_stay_until_the_stream_is_left_early():
    others = multiprocessing.active_children()  # of tests before
    loader = make_loader(in_thread=False, num_workers=1)
    assert len(list(loader.batches(0, 1))) == 3
    (stays,) = set(multiprocessing.active_children()) - set(others)
    assert stays.is_alive(), "for the next evaluation"
    batches = loader.batches(0, 50)
    next(batches)
    assert set(multiprocessing.active_children()) - set(others) == {stays}
    batches.close()
    stays.join(30)
    assert not stays.is_alive()
