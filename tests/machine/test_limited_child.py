from __future__ import annotations

import os

import pytest

from posemill.errors import ConfigError
from posemill.machine import limited_child
from posemill.machine.limited_child import Share, divide_machine


def test_more_jobs_than_cores_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"workers: expected 1 to \d+ on this machine"):
        divide_machine(10_000)


def test_a_quota_of_a_container_is_shared_in_threads_not_in_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limited_child, "count_cores", lambda: 3)
    monkeypatch.setattr(limited_child, "free_memory", lambda: 1000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert divide_machine(2) == [Share((0, 2, 4, 6), 2, 450), Share((1, 3, 5, 7), 1, 450)]
