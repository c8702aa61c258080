"""How many workers a run gets on this machine, of what kind, on which devices."""

from __future__ import annotations

from dataclasses import dataclass

from posemill.config import ExtractConfig, JobConfig
from posemill.estimators.devices import list_gpus
from posemill.machine.limits import count_cores, memory_limit
from posemill.terminal import counted

# What a worker needs with room to spare: 190 MB with the engine and four frames of 1920 x 1080.
_LEAST_MEMORY = 512 << 20
_SHARE_OF_MEMORY = 0.8


@dataclass(frozen=True)
class WorkerPlan:
    """How many workers, of what kind, on what."""

    num_workers: int
    executor: str
    devices: tuple[str, ...]
    memory_bytes: int
    note: str = ""

    def __str__(self) -> str:
        number = self.num_workers
        what = {
            "processes": counted(number, "processes"),
            "threads": f"{counted(number, 'threads')} of one process",
            "serial": "1 process (serial)",
            "ray": f"{counted(number, 'workers')} of the Ray cluster",
        }.get(self.executor, f"{number} {self.executor} workers")
        limit = f", at most {self.memory_bytes >> 20} MB each" if self.memory_bytes else ""
        note = f" ({self.note})" if self.note else ""
        return f"{what} x 1 thread on {', '.join(self.devices)}{limit}{note}"


def missing_gpus(config: JobConfig) -> str:
    """Return what to say where GPUs are asked for and this machine has none; empty otherwise."""
    number = config.num_gpus * config.num_workers_per_gpu
    if not number or list_gpus():
        return ""
    return (
        f"--num-gpus {config.num_gpus}: this machine has no NVIDIA GPU that its driver lists; "
        f"--workers {number} instead uses {counted(number, 'processes')} on the CPU"
    )


def plan_workers(config: JobConfig) -> WorkerPlan:
    """Return the workers a config asks for on this machine."""
    devices = tuple(config.devices())
    if config.executor == "ray" and config.num_gpus:
        devices = ("cuda:0",)  # Ray shows each worker its own GPU, and that one alone
    note = ""
    if config.executor == "serial":
        num_workers = 1
    elif config.num_gpus:
        num_workers = config.num_gpus * config.num_workers_per_gpu
    elif config.workers:
        num_workers = config.workers
    elif config.executor == "ray" and config.ray_address:
        num_workers, note = _room_of_cluster(config.ray_address), "more if machines join"
    else:
        num_workers, note = usual_workers()
    memory = config.memory_limit_mb
    is_here = config.executor == "processes" or (
        config.executor == "ray" and not config.ray_address
    )
    if memory is None and not is_here:
        # A new thread would be no smaller than the old one; other machines have other memories.
        memory_bytes = 0
    elif memory is None:
        share = int(_SHARE_OF_MEMORY * memory_limit().amount / num_workers)
        memory_bytes = max(_LEAST_MEMORY, share)
    else:
        memory_bytes = memory << 20
    return WorkerPlan(num_workers, config.executor, devices, memory_bytes, note)


def _room_of_cluster(address: str) -> int:
    from posemill.executors.ray_connection import connected, count_room

    with connected(address):
        return max(1, count_room())


def usual_workers() -> tuple[int, str]:
    """Return how many workers run where nobody said: one a core, and why if they are fewer."""
    cores, memory = count_cores(), memory_limit()
    fitting = max(1, int(_SHARE_OF_MEMORY * memory.amount) // _LEAST_MEMORY)
    if fitting >= cores:
        return cores, ""
    why = f": {memory.reason}" if memory.reason else ""
    return fitting, f"not {cores}, one a core, for {memory.amount >> 20} MB of memory{why}"


def frames_per_call(config: ExtractConfig) -> int:
    """Return how many frames the engine is shown at a time."""
    return config.batch_size or (16 if config.num_gpus else 4)
