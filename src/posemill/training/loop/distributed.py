"""The group of processes that train together: numbers summed, scores gathered."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from posemill.errors import TrainingError


@dataclass
class World:
    """One process's place among those that train together; alone by default."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """True for the one process that writes files and shows progress."""
        return self.rank == 0

    def start_sum(self, values: Tensor) -> Callable[[], object]:
        """Begin to sum `values` over the processes, in place; what is returned waits for it."""
        if self.size == 1:
            return lambda: None
        handle: Any = dist.all_reduce(values, async_op=True)
        return handle.wait  # type: ignore[no-any-return]

    @torch.no_grad()
    def average_buffers(self, model: nn.Module) -> None:
        """Replace running statistics (batch norm) by their mean over the processes."""
        if self.size == 1:
            return
        for buffer in model.buffers():
            if buffer.is_floating_point():
                dist.all_reduce(buffer)
                buffer /= self.size

    def gather(self, value: Any) -> list[Any]:
        """Return the value of every process, by rank (plain Python and numpy values)."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the element-wise sum over the processes, in double precision."""
        if self.size == 1:
            return list(values)
        gathered = self.gather(list(values))
        return [float(sum(column)) for column in zip(*gathered, strict=True)]

    def close(self) -> None:
        """Leave the group."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


def join_world(
    rank: int,
    size: int,
    *,
    store_file: str = "",
    device_type: str = "cpu",
    timeout_seconds: float = 1800,
) -> World:
    """Return this process's place in a group of `size`, checked to have as many as asked for.

    Args:
        rank: This process's number, from 0.
        size: Processes expected.
        store_file: A path all of them see; empty under torchrun, whose variables are used.
        device_type: `cuda` takes nccl, anything else gloo.
        timeout_seconds: How long to wait for the others.
    """
    local_rank = int(os.environ.get("LOCAL_RANK", rank))
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if device_type != "cuda" and local_size == size:
        # All on one machine: gloo would otherwise look for an address of the host name.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        dist.init_process_group(
            "nccl" if device_type == "cuda" else "gloo",
            init_method=f"file://{store_file}" if store_file else "env://",
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=timeout_seconds),
        )
    except (RuntimeError, ValueError) as error:
        raise TrainingError(
            f"process {rank} of {size} could not join the others: {error}"
        ) from error
    check_world(size, device_type)
    return World(rank=rank, size=size, local_rank=local_rank)


def check_world(expected: int, device_type: str) -> None:
    """Raise `TrainingError` unless `expected` processes really answer."""
    one = torch.ones(1, device=device_type if device_type == "cuda" else "cpu")
    dist.all_reduce(one)
    if int(one.item()) != expected or dist.get_world_size() != expected:
        raise TrainingError(
            f"asked for {expected} processes, but {int(one.item())} answered "
            f"(the launcher says {dist.get_world_size()})"
        )
