"""Sets of samples in memory, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posemill.training.data.cache import RamStore
from posemill.training.data.datasets import KeypointSet, Sample


def make_set(
    samples: Sequence[Sample],
    class_names: Sequence[str],
    *,
    skeleton_name: str | None = None,
    task: str = "classify",
) -> KeypointSet:
    """Return a set of samples that are already in memory, as they are."""
    offsets = np.cumsum([0, *(len(sample.points) for sample in samples)], dtype=np.int64)
    store = RamStore(
        np.concatenate([sample.points for sample in samples]).astype(np.float32),
        np.concatenate([sample.mask for sample in samples]).astype(bool),
        offsets,
    )
    return KeypointSet(
        store,
        np.arange(len(samples)),
        tuple(sample.target for sample in samples),
        tuple(f"sample{index}" for index in range(len(samples))),
        tuple(class_names),
        skeleton_name,
        task,
    )
