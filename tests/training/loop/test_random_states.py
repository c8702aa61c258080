from __future__ import annotations

import json
import random

import numpy as np
import torch

from posemill.training.loop.random_states import (
    read_random_states,
    seed_everything,
    set_random_states,
)


def draw() -> list[float]:
    numbers = np.random.normal(size=2)  # noqa: NPY002  what users may draw from
    return [random.random(), random.gauss(0, 1), *numbers.tolist(), *torch.rand(2).tolist()]


def test_all_generators_go_on_where_they_were() -> None:
    seed_everything(3)
    random.gauss(0, 1)  # draws two and keeps one for the next call
    np.random.normal()  # noqa: NPY002
    tensors, values = read_random_states()
    values = json.loads(json.dumps(values))
    expected = draw()
    assert draw() != expected
    set_random_states(tensors, values)
    assert draw() == expected


def test_a_seed_decides_all_and_ranks_differ() -> None:
    found = []
    for seed, rank in ((3, 0), (3, 0), (4, 0), (3, 1), (4, 1)):
        seed_everything(seed, rank)
        found.append(draw())
    assert found[0] == found[1]
    for number in range(len(found[0])):
        assert len({row[number] for row in found[1:]}) == 4
