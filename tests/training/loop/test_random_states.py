from __future__ import annotations

import random

import numpy as np
import torch

from posemill.training.record.checkpoints import copy_state
from posemill.training.runtime import (
    read_random_states,
    seed_everything,
    set_random_states,
)


def draw() -> list[float]:
    numbers = np.random.normal(size=2)  # noqa: NPY002  what users may draw from
    return [random.random(), random.gauss(0, 1), *numbers.tolist(), *torch.rand(2).tolist()]


def test_all_generators_go_on_where_they_were():
    seed_everything(3)
    random.gauss(0, 1)  # draws two and keeps one for the next call
    np.random.normal()  # noqa: NPY002
    states = copy_state(read_random_states())
    expected = draw()
    assert draw() != expected
    set_random_states(states)
    assert draw() == expected


def test_a_seed_decides_all_and_ranks_differ():
    found = []
    for seed, rank in ((3, 0), (3, 0), (4, 0), (3, 1), (4, 1)):
        seed_everything(seed, rank)
        found.append(draw())
    assert found[0] == found[1]
    for number in range(len(found[0])):
        assert len({row[number] for row in found[1:]}) == 4


def test_a_seed_too_large_for_numpy_is_taken(monkeypatch):
    seeds: list[int] = []
    monkeypatch.setattr(np.random, "seed", seeds.append)
    for seed in (2**32 - 1, 2**32 + 5):
        seed_everything(seed)
    assert seeds == [2**32 - 1, 5]


def test_the_generator_of_a_gpu_goes_on_too(monkeypatch):
    kept: list[torch.Tensor] = []
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
