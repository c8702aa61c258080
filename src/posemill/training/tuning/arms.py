"""Configurations at work side by side: loader, steps and all, in windows of a second or two."""

from __future__ import annotations

import copy
import dataclasses
import math
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle, islice
from typing import Any

import numpy as np
import psutil
import torch

from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import open_loader
from posemill.training.loop.stepping import Stepper
from posemill.training.loop.timing import Clock, shares
from posemill.training.ranks import run_ranks, said_by_the_parent
from posemill.training.runtime import Runtime, numeric_settings, random_states_kept
from posemill.training.tasks.workload import Workload

MakeFor = Callable[[TrainConfig], Workload]
_MOST_BATCHES = 8  # of different clips, drawn evenly: a cache is to be full of them soon
_LEAST_STEPS = 2
_MOST_TURNS, _LEAST_TURNS, _LEAST_SECONDS = 12, 3, 1.0
RANK_WARM_STEPS = 3


def in_one_process(config: TrainConfig) -> TrainConfig:
    """Return the settings of one of several processes, alone, with its share of a batch."""
    if config.parallel != "multi_process":
        return config
    own = max(1, config.batch_size // max(1, config.processes))
    return config.replace(parallel="single", processes=1, batch_size=own)


class Arm:
    """A copy of the model that trains as a configuration says, mode and `workers` decided.

    Where it `repeats`, it takes the batches of the first two steps again and again: loading has no
    part in what is measured.
    """

    def __init__(
        self,
        workload: Workload,
        config: TrainConfig,
        runtime: Runtime | None = None,
        *,
        repeats: bool = False,
    ) -> None:
        runtime = (runtime or Runtime()).using(config)
        self._config, self._device = config, runtime.device
        self._clock = Clock(self._device)
        with random_states_kept():
            model = copy.deepcopy(workload.model).to(self._device).train()
            copied = dataclasses.replace(workload, model=model)
            self._stepper = Stepper(copied, config, runtime=runtime, clock=self._clock)
        clips = workload.train
        if not repeats and clips.stream is None and len(clips) > config.batch_size:
            count = min(len(clips) // config.batch_size, _MOST_BATCHES) * config.batch_size
            clips = clips.select(np.linspace(0, len(clips) - 1, count).astype(np.int64))
        self.batch_size = min(config.batch_size, len(clips) or config.batch_size)
        loaded = config.replace(workers=0) if repeats else config
        self._loader = open_loader(clips, loaded, runtime, shuffle=True)
        self._num_steps, self._step = self._loader.num_steps, 0
        stream = self._loader.batches(0, 1 << 40)
        self.close = stream.close  # ends the loader processes
        self._batches: Iterator[Any] = stream
        if repeats:
            count = self._loader.num_micro_batches(0) * min(2, self._num_steps)
            self._batches, self._num_steps = cycle(list(islice(stream, count))), 1
            self.close()

    def run(self, seconds: float) -> float:
        """Train for about so long; return samples a second, without what was loaded before."""
        waiting = self._config.workers * self._config.prefetch_factor  # from the pause before
        with numeric_settings(self._config), random_states_kept():
            if not self._step:
                self._take(1)  # which compiles, and asks for memory
            self._take(-(-waiting // self._loader.num_micro_batches(0)), most_seconds=seconds)
            return self._time(_LEAST_STEPS, seconds)

    def run_steps(self, steps: int = 0, *, warm_steps: int = 0) -> float:
        """Return samples a second of so many steps, by default on each clip once."""
        with numeric_settings(self._config), random_states_kept():
            self._take(warm_steps)
            return self._time(steps or self._loader.num_steps)

    @property
    def share_waited(self) -> float:
        """Share of the time so far in which it waited for data, 0 to 1."""
        return shares(self._clock.read())["data"]

    def _time(self, steps: int, least_seconds: float = 0.0) -> float:
        """Take so many steps, or more until so long has passed; return samples a second."""
        before = self._step
        self._wait()
        started = time.perf_counter()
        self._take(steps)
        while time.perf_counter() - started < least_seconds:
            self._take(1)
        self._wait()
        seconds = time.perf_counter() - started
        return float((self._step - before) * self.batch_size) / seconds

    def _take(self, steps: int, *, most_seconds: float = math.inf) -> None:
        end = time.perf_counter() + most_seconds
        for _ in range(steps):
            if time.perf_counter() > end:
                return
            count = self._loader.num_micro_batches(self._step % self._num_steps)
            self._stepper.take(self._batches, count, self._config.lr)
            self._step += 1

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


@contextmanager
def opened(make: MakeFor, configs: Sequence[TrainConfig]) -> Iterator[list[Arm]]:
    """Yield an arm for each configuration, and end their loader processes."""
    with ExitStack() as stack:
        arms = []
        for config in configs:
            arms.append(Arm(make(config), config))
            stack.callback(arms[-1].close)
        yield arms


def measure_in_turn(
    workload: Workload, configs: Mapping[str, TrainConfig], device: torch.device
) -> dict[str, float]:
    """Return the median seconds of a step for each configuration, taking turns; not of loading."""
    arms = {
        name: Arm(workload, config.replace(device=str(device)), repeats=True)
        for name, config in configs.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    started = time.perf_counter()
    for turn in range(_MOST_TURNS):
        for name, arm in arms.items():
            seconds[name].append(arm.batch_size / arm.run_steps(1))
        if turn >= _LEAST_TURNS and time.perf_counter() - started > _LEAST_SECONDS:
            break
    # The first step warms up.
    return {name: statistics.median(taken[1:]) for name, taken in seconds.items()}


def run_processes(
    make: MakeFor,
    config: TrainConfig,
    *,
    steps: int = 20,
    repeats: bool = False,
    most_seconds: float | None = None,
) -> float:
    """Return samples a second of several processes over some steps; see `run_ranks` and `Arm`."""
    task = partial(_run_rank, make, config, steps=steps, repeats=repeats)
    return float(run_ranks(task, config, most_seconds=most_seconds)["speed"])


def _run_rank(
    make: MakeFor, config: TrainConfig, runtime: Runtime, *, steps: int, repeats: bool
) -> dict[str, Any]:
    with said_by_the_parent():
        arm = Arm(make(config), config, runtime, repeats=repeats)
    try:
        return {"speed": arm.run_steps(steps, warm_steps=RANK_WARM_STEPS)}
    finally:
        arm.close()


def grown_memory(work: Callable[[], object], device: torch.device) -> int:
    """Return how many bytes a call took more than there were before it, at its highest."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        return max(0, torch.cuda.max_memory_allocated(device) - before)
    process, is_over = psutil.Process(), threading.Event()
    sizes: list[int] = [process.memory_info().rss]

    def look() -> None:
        while not is_over.wait(0.002):
            sizes.append(process.memory_info().rss)

    thread = threading.Thread(target=look, name="posemill-memory", daemon=True)
    thread.start()
    try:
        work()
    finally:
        is_over.set()
        thread.join()
    return max(sizes) - sizes[0]
