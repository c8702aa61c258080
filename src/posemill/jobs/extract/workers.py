"""How many workers a run gets on this machine, of what kind, on which devices."""

from __future__ import annotations

from dataclasses import dataclass

from posemill.config import ExtractConfig, JobConfig
from posemill.estimators.runtimes.devices import list_gpus
from posemill.machine.limits import count_cores, memory_limit
from posemill.messages import Message

# What a worker needs with room to spare: 190 MB with the engine and four frames of 1920 x 1080.
_LEAST_MEMORY = 512 << 20
_SHARE_OF_MEMORY = 0.8


@dataclass(frozen=True)
class WorkerPlan:
    """How many workers, of what kind, on what; `runtime` is what runs the engine's networks."""

    num_workers: int
    executor: str
    devices: tuple[str, ...]
    memory_bytes: int
    note: str = ""
    runtime: str = ""

    def describe(self) -> Message:
        """Return one line: `2 processes x 1 thread on cpu by litert, at most 3200 MB each`."""
        template = {
            "processes": "{number:process|processes}",
            "threads": "{number:thread|threads} of one process",
            "serial": "1 process (serial)",
            "ray": "{number:worker|workers} of the Ray cluster",
        }.get(self.executor, "{number} {executor} workers")
        what = Message(template, number=self.num_workers, executor=self.executor)
        limit = ""
        if self.memory_bytes:
            limit = Message(", at most {limit_mb} MB each", limit_mb=self.memory_bytes >> 20)
        return Message(
            "{what} x 1 thread on {devices}{runtime}{limit}{note}",
            what=what,
            devices=", ".join(self.devices),
            runtime=Message(" by {runtime}", runtime=self.runtime) if self.runtime else "",
            limit=limit,
            note=Message(" ({note})", note=self.note) if self.note else "",
        )


def missing_gpus(config: JobConfig) -> str:
    """Return what to say where GPUs are asked for and this machine has none; empty otherwise."""
    number = config.num_gpus * config.num_workers_per_gpu
    if not number or list_gpus():
        return ""
    return Message(
        "{--num-gpus:{num_gpus}}: this machine has no NVIDIA GPU that its driver lists; "
        "{--workers:{number}} instead uses {number:process|processes} on the CPU",
        num_gpus=config.num_gpus,
        number=number,
    )


def plan_workers(config: JobConfig) -> WorkerPlan:
    """Return the workers a config asks for on this machine."""
    devices, note = tuple(config.devices()), ""
    is_ray, is_far = config.executor == "ray", bool(config.ray_address)
    if is_ray and config.num_gpus:
        devices = ("cuda:0",)  # Ray shows each worker its own GPU, and that one alone
    if config.executor == "serial":
        num_workers = 1
    elif config.num_gpus:
        num_workers = config.num_gpus * config.num_workers_per_gpu
    elif config.workers:
        num_workers = config.workers
    elif is_ray and is_far:
        from posemill.executors.ray_connection import connected, count_room

        with connected(config.ray_address):
            num_workers = max(1, count_room())
        note = Message("more if machines join")
    else:
        num_workers, note = usual_workers()
    memory_bytes = 0
    if config.memory_limit_mb is not None:
        memory_bytes = config.memory_limit_mb << 20
    elif config.executor == "processes" or (is_ray and not is_far):
        # Else a new thread would be no smaller than the old one; other machines have other memory.
        share = int(_SHARE_OF_MEMORY * memory_limit().amount / num_workers)
        memory_bytes = max(_LEAST_MEMORY, share)
    return WorkerPlan(num_workers, config.executor, devices, memory_bytes, note)


def usual_workers() -> tuple[int, str]:
    """Return how many workers run where nobody said: one a core, and why if they are fewer."""
    cores, memory = count_cores(), memory_limit()
    fitting = max(1, int(_SHARE_OF_MEMORY * memory.amount) // _LEAST_MEMORY)
    if fitting >= cores:
        return cores, ""
    template = "not {cores}, one a core, for {memory_mb} MB of memory"
    if memory.reason:
        template = "not {cores}, one a core, for {memory_mb} MB of memory: {reason}"
    note = Message(template, cores=cores, memory_mb=memory.amount >> 20, reason=memory.reason)
    return fitting, note


def frames_per_call(config: ExtractConfig) -> int:
    """Return how many frames the engine is shown at a time."""
    return config.batch_size or (16 if config.num_gpus else 4)
