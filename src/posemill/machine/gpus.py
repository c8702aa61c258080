"""The GPUs of this machine, as NVIDIA's library sees them; none where there is none."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

from posemill.messages import Message


@dataclass(frozen=True)
class Gpu:
    """One GPU now."""

    index: int  # as the driver counts them; CUDA may count others, see `place_workers`
    name: str
    uuid: str
    busy_share: float | None  # of the last moment in which it computed; None where it is not told
    memory_used: int  # bytes
    memory_total: int
    workers: tuple[int, ...] = ()  # of a run, or ranks of a training, that are on it

    def describe(self) -> str:
        """Return one line: `GPU 0 NVIDIA A100: 87 % busy, 3.9 of 40.0 GB, workers 0, 2`."""
        busy = workers = ""
        if self.busy_share is not None:
            busy = Message("{busy_share:.0%} busy, ", busy_share=self.busy_share)
        if self.workers:
            workers = Message(", workers {numbers}", numbers=", ".join(map(str, self.workers)))
        used, total = self.memory_used / (1 << 30), self.memory_total / (1 << 30)
        values = vars(self) | {"busy": busy, "used": used, "total": total, "workers": workers}
        return Message("GPU {index} {name}: {busy}{used:.1f} of {total:.1f} GB{workers}", **values)


def read_gpus() -> list[Gpu]:
    """Return every GPU that NVIDIA's library tells of."""
    try:
        import pynvml
    except ImportError:
        return []
    with suppress(pynvml.NVMLError), ExitStack() as stack:  # no driver
        pynvml.nvmlInit()
        stack.callback(pynvml.nvmlShutdown)
        gpus = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            memory = pynvml.nvmlDeviceGetMemoryInfo(device)
            busy = None
            with suppress(pynvml.NVMLError):  # one that is cut into several does not tell
                busy = pynvml.nvmlDeviceGetUtilizationRates(device).gpu / 100
            name, uuid = pynvml.nvmlDeviceGetName(device), pynvml.nvmlDeviceGetUUID(device)
            gpus.append(Gpu(index, name, uuid, busy, int(memory.used), int(memory.total)))
        return gpus
    return []


def place_workers(devices: Sequence[str]) -> dict[str, list[int]]:
    """Return which workers are on which GPU, by the GPU's number or the start of its `GPU-…` name.

    `devices` has that of each worker: `cuda:1`, or the CPU.
    """
    # CUDA counts only these.
    visible = re.findall(r"[^,\s]+", os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    workers_by_gpu: dict[str, list[int]] = {}
    for worker, device in enumerate(devices):
        kind, _, number = device.partition(":")
        if kind == "cuda":
            place = int(number or 0)
            name = visible[place] if place < len(visible) else str(place)
            workers_by_gpu.setdefault(name, []).append(worker)
    return workers_by_gpu


def with_workers(placed: Any) -> list[Gpu]:
    """Return the GPUs with the workers on them, as `place_workers` said; none if it said none.

    What it said comes out of a file that may be a stranger's.
    """
    gpus = read_gpus() if isinstance(placed, Mapping) and placed else []
    for number, gpu in enumerate(gpus):
        for name, workers in placed.items():
            is_this = name == str(gpu.index) or (len(name) > 4 and gpu.uuid.startswith(name))
            if is_this and isinstance(workers, list):
                numbers = (index for index in workers if isinstance(index, int))
                gpus[number] = replace(gpu, workers=tuple(numbers))
    return gpus
