"""One process of a training: its place among the others, how it computes, its random states."""

from __future__ import annotations

import dataclasses
import gc
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from posemill.errors import TrainingError
from posemill.machine.allocator import keep_freed_memory
from posemill.messages import Message
from posemill.training.config.train_config import TrainConfig
from posemill.training.precision import Precision, choose_device, choose_precision

_RANK_STRIDE = 7919  # a prime: seeds of runs and of ranks do not meet
_CPU, _FP32 = torch.device("cpu"), Precision("fp32", Message("asked for"))


@dataclass(frozen=True)
class Runtime:
    """A process of a training; alone, on the CPU and in fp32 by default.

    Args:
        rank: Its number among the `size` that train together.
        local_rank: Its number among those of this machine.
        precision: Number format of the forward pass; weights and optimizer stay in fp32.
        threads: Of torch; 0 leaves them as they are.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    device: torch.device = _CPU
    precision: Precision = _FP32
    threads: int = 0

    def using(self, config: TrainConfig) -> Runtime:
        """Return the same process with the device, the number format and the threads of settings.

        Its device is torch's current one from here on: random states and the times of a GPU are
        those of the current device.
        """
        device = choose_device(config.device)
        if device.type == "cuda":
            if self.size > 1:
                device = torch.device("cuda", self.local_rank)
            torch.cuda.set_device(device)
        precision = choose_precision(config.precision, device)
        return dataclasses.replace(self, device=device, precision=precision, threads=config.threads)

    @property
    def is_first(self) -> bool:
        """True for the one process that writes files and shows progress."""
        return self.rank == 0

    @property
    def is_on_gpu(self) -> bool:
        """Whether it computes on a GPU."""
        return self.device.type == "cuda"

    @property
    def needs_scaler(self) -> bool:
        """True for fp16: its small gradients vanish unless the loss is scaled up."""
        return self.precision.name == "fp16"

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context in which the forward pass runs."""
        if self.precision.name == "fp32":
            return nullcontext()
        dtype = torch.bfloat16 if self.precision.name == "bf16" else torch.float16
        return torch.autocast(self.device.type, dtype=dtype)

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
        return [float(sum(column)) for column in zip(*self.gather(list(values)), strict=True)]

    def close(self) -> None:
        """Leave the group."""
        if self.size > 1 and dist.is_initialized():
            # Whoever shares gradients goes first: as the group's last owner it would wait for the
            # group's threads, which wait for Python's lock that it holds.
            gc.collect()
            dist.destroy_process_group()


def join_processes(
    rank: int, size: int, *, store_file: str = "", device_type: str = "cpu"
) -> Runtime:
    """Return this process as one of `size`, checked to be as many as asked for.

    `store_file` is a path that all of them see; empty under torchrun, whose variables are used.
    """
    local_rank = int(os.environ.get("LOCAL_RANK", rank))
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if device_type == "cuda":
        torch.cuda.set_device(local_rank)  # before the first exchange, which is on it
    elif local_size == size:
        # All on one machine: gloo would otherwise look for an address of the host name.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        dist.init_process_group(
            "nccl" if device_type == "cuda" else "gloo",
            init_method=f"file://{store_file}" if store_file else "env://",
            rank=rank,
            world_size=size,
            timeout=timedelta(minutes=30),
        )
    except (RuntimeError, ValueError) as error:
        template = "process {rank} of {size} could not join the others: {error}"
        raise TrainingError(template, rank=rank, size=size, error=error) from error
    check_processes(size, device_type)
    return Runtime(rank, size, local_rank)


def check_processes(expected: int, device_type: str) -> None:
    """Raise `TrainingError` unless `expected` processes really answer."""
    one = torch.ones(1, device=device_type if device_type == "cuda" else "cpu")
    dist.all_reduce(one)
    if int(one.item()) != expected or dist.get_world_size() != expected:
        raise TrainingError(
            "asked for {expected} processes, but {num_answers} answered (the launcher says "
            "{launched})",
            expected=expected,
            num_answers=int(one.item()),
            launched=dist.get_world_size(),
        )


@contextmanager
def numeric_settings(config: TrainConfig) -> Iterator[None]:
    """Set threads, cuDNN and determinism for the block, and put them back after it.

    Freed memory is kept for what comes next; `freed_memory_returned` around all of it ends that.
    """
    threads, had_benchmark = torch.get_num_threads(), torch.backends.cudnn.benchmark
    was_deterministic = torch.are_deterministic_algorithms_enabled()
    keep_freed_memory()
    if config.threads:
        torch.set_num_threads(config.threads)
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = config.cudnn_benchmark and not config.deterministic
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        # The call loads the compiler of torch, which takes 2 s of CPU.
        if torch.are_deterministic_algorithms_enabled() != was_deterministic:
            torch.use_deterministic_algorithms(was_deterministic)
        torch.backends.cudnn.benchmark = had_benchmark


def seed_everything(seed: int, rank: int = 0) -> None:
    """Seed Python, numpy and torch; ranks draw different dropout."""
    value = seed + rank * _RANK_STRIDE
    random.seed(value)
    np.random.seed(value % 2**32)  # noqa: NPY002  user code may draw from it
    torch.manual_seed(value)


def read_random_states(*, with_gpu: bool = True) -> dict[str, Any]:
    """Return the states of this process's generators, as tensors and plain values."""
    name, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    states = {
        "torch": torch.get_rng_state(),
        "numpy": (str(name), torch.from_numpy(np.asarray(keys, np.int64)), *rest),
        "python": random.getstate(),
    }
    if with_gpu and torch.cuda.is_available():
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
def random_states_kept(*, with_gpu: bool = True) -> Iterator[None]:
    """Leave all random generators after the block as they were before it."""
    states = read_random_states(with_gpu=with_gpu)
    try:
        yield
    finally:
        set_random_states(states)


@contextmanager
def own_draws() -> Iterator[Callable[[int, int, int], None]]:
    """Yield a function that seeds what code of users draws from, by a seed, an epoch and a sample.

    After the block all generators of the CPU are as they were; those of GPUs are not touched.
    """

    def seed_draws(*numbers: int) -> None:
        value = int(np.random.SeedSequence(numbers).generate_state(1)[0])
        random.seed(value)
        np.random.seed(value)  # noqa: NPY002
        torch.default_generator.manual_seed(value)

    with random_states_kept(with_gpu=False):
        yield seed_draws
