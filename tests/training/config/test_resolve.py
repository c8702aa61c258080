"""From files, flags and presets to one configuration: the loaders, by cores and ranks."""

from __future__ import annotations

import dataclasses

import pytest

from posemill.training.config import resolve
from posemill.training.config.resolve import resolve_config


@pytest.mark.parametrize(
    ("flags", "cores", "workers", "why"),
    [
        ({"preset": "balanced"}, 3, 2, "machine: 3 cores, preset balanced wants 4"),
        ({"preset": "balanced"}, 1, 0, "machine: 1 core, preset balanced wants 4"),
        ({"preset": "balanced"}, 2, 1, "machine: 2 cores, preset balanced wants 4"),
        ({"preset": "balanced", "parallel": "multi_process", "processes": 2}, 6, 2,
         "machine: 6 cores, preset balanced wants 4"),
        ({"preset": "balanced"}, 5, 4, "machine: 5 cores, preset balanced"),
        # As many ranks as cores where none are asked for.
        ({"preset": "balanced", "parallel": "multi_process"}, 6, 0,
         "machine: 6 cores, preset balanced wants 4"),
    ],
)  # fmt: skip
def test_loaders_are_chosen_by_the_machine(flags, cores, workers, why):
    resolved = resolve_config(None, flags, cores=cores)
    assert (resolved.config.workers, resolved.sources["workers"]) == (workers, why)


def test_the_cores_are_those_of_the_machine_unless_told(monkeypatch):
    monkeypatch.setattr(resolve, "count_cores", lambda: 3)
    assert resolve_config(None, {"preset": "balanced"}).config.workers == 2


def test_the_memory_is_that_of_the_machine_unless_told(monkeypatch):
    limit = resolve.memory_limit()
    limited = dataclasses.replace(limit, amount=1 << 29)
    monkeypatch.setattr(resolve, "memory_limit", lambda: limited)
    assert resolve_config(None, {"preset": "balanced", "workers": 0}).config.micro_batch == 8
