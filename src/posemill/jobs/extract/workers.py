"""How many workers a run gets on this machine, of what kind, on which devices."""

from __future__ import annotations

import os
from dataclasses import dataclass

import psutil

from posemill.config import ExtractConfig

_LEAST_MEMORY = 1 << 30


@dataclass(frozen=True)
class WorkerPlan:
    """How many workers, of what kind, on what."""

    num_workers: int
    executor: str
    devices: tuple[str, ...]
    memory_bytes: int

    def __str__(self) -> str:
        kind = {"processes": "processes", "threads": "threads of one process"}
        what = "1 process (serial)" if self.executor == "serial" else (
            f"{self.num_workers} {kind.get(self.executor, self.executor + ' workers')}"
        )  # fmt: skip
        limit = f", at most {self.memory_bytes >> 20} MB each" if self.memory_bytes else ""
        return f"{what} x 1 thread on {', '.join(self.devices)}{limit}"


def plan_workers(config: ExtractConfig) -> WorkerPlan:
    """Return the workers a config asks for on this machine."""
    devices = tuple(config.devices())
    if config.num_gpus:
        num_workers = config.num_gpus * config.num_workers_per_gpu
    else:
        num_workers = config.workers or usable_cores()
    if config.executor == "serial":
        num_workers = 1
    memory = config.memory_limit_mb
    if memory is None and config.executor != "processes":
        memory_bytes = 0  # a new thread would be no smaller than the old one
    elif memory is None:
        share = int(0.8 * psutil.virtual_memory().total / num_workers)
        memory_bytes = max(_LEAST_MEMORY, share)
    else:
        memory_bytes = memory << 20
    return WorkerPlan(num_workers, config.executor, devices, memory_bytes)


def usable_cores() -> int:
    """Return how many cores this process may use: a container or `taskset` may allow fewer."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
