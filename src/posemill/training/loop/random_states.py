"""Seeds, and the states of all random generators."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

_RANK_STRIDE = 7919  # a prime: seeds of runs and of ranks do not meet


def seed_everything(seed: int, rank: int = 0) -> None:
    """Seed Python, numpy and torch; ranks draw different dropout."""
    value = seed + rank * _RANK_STRIDE
    random.seed(value)
    np.random.seed(value % 2**32)  # noqa: NPY002  user code may draw from it
    torch.manual_seed(value)


def read_random_states() -> dict[str, Any]:
    """Return the states of this process's generators, as tensors and plain values."""
    name, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    states = {
        "torch": torch.get_rng_state(),
        "numpy": (str(name), torch.from_numpy(np.asarray(keys, np.int64)), *rest),
        "python": random.getstate(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def set_random_states(states: Mapping[str, Any]) -> None:
    """Put back what `read_random_states` returned."""
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    random.setstate(states["python"])


@contextmanager
def own_draws() -> Iterator[Callable[[int, int, int], None]]:
    """Yield a function that seeds what code of users draws from, by a seed, an epoch and a sample.

    After the block all generators of the CPU are as they were; those of GPUs are not touched.
    """
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield _seed_draws
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        random.setstate(states[2])


def _seed_draws(*numbers: int) -> None:
    value = int(np.random.SeedSequence(numbers).generate_state(1)[0])
    random.seed(value)
    np.random.seed(value)  # noqa: NPY002
    torch.default_generator.manual_seed(value)


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Leave all random generators after the block as they were before it."""
    states = read_random_states()
    try:
        yield
    finally:
        set_random_states(states)
