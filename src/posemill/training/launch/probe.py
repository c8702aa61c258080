"""A short measurement on the real model and data: which mode."""

from __future__ import annotations

import copy
import dataclasses
import statistics
import time
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any

import torch

from posemill.errors import ConfigError, TrainingError
from posemill.machine.limits import count_cores
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import open_loader
from posemill.training.launch.modes import ModePlan
from posemill.training.launch.ranks import run_ranks
from posemill.training.loop.distributed import World
from posemill.training.loop.precision import choose_precision
from posemill.training.loop.random_states import random_states_kept
from posemill.training.loop.rank import MakeWorkload, numeric_settings
from posemill.training.loop.stepping import Stepper
from posemill.training.loop.timing import Clock
from posemill.training.tasks.workload import Workload

_LEAST_STEPS = 3
_MOST_STEPS = 12
_LEAST_SECONDS = 1.0
_PAYS_AFTER_SECONDS = 30.0  # below, starting processes costs more than they save


def probe_mode(workload: Workload, make: MakeWorkload, config: TrainConfig) -> ModePlan:
    """Return the fastest plan on this machine's CPU, measured on the first steps of the data.

    The remaining time is predicted for each mode from its seconds a step and, for several
    processes, the time they took to start.

    Args:
        workload: Measured in this process; its model is copied.
        make: Makes it again in other processes.
        config: The settings, precision decided.
    """
    cores = count_cores()
    one = config.replace(parallel="single", processes=1, threads=1, workers=0)
    many = one.replace(parallel="multi_thread", threads=cores)
    seconds = _measure_in_turn(workload, {"single": one, "multi_thread": many})
    total = _count_steps(workload, config)
    predicted = {mode: total * value for mode, value in seconds.items()}
    quickest = min(predicted.values())
    if not can_divide(workload):
        note = "its order is its own, so that several processes cannot share it"
    elif quickest < _PAYS_AFTER_SECONDS:
        note = f"{quickest:.0f} s of work: too short for several processes to pay"
    else:
        started = time.perf_counter()
        ranks = config.replace(
            parallel="multi_process",
            processes=config.processes or cores,
            threads=1,
            workers=0,
        )
        step_seconds = float(run_ranks(partial(_measure_rank, make, ranks), ranks)["seconds"])
        start = max(0.0, time.perf_counter() - started - _MOST_STEPS * step_seconds)
        predicted["multi_process"] = start + total * step_seconds
        seconds["multi_process"] = step_seconds
        note = f"{total} steps to take"
    best = min(predicted, key=lambda mode: predicted[mode])
    measured = ", ".join(f"{mode} {value * 1000:.0f} ms" for mode, value in seconds.items())
    reason = f"a step takes: {measured}; {note}"
    processes = (config.processes or cores) if best == "multi_process" else 1
    threads = cores if best == "multi_thread" else 1
    return ModePlan(best, processes, threads, reason)


def check_divisible(workload: Workload, plan: ModePlan) -> None:
    """Raise `ConfigError` where several processes are to share what they cannot."""
    if plan.processes > 1 and not can_divide(workload):
        raise ConfigError(
            "the DataLoader of train_set draws an order of its own, which several processes cannot "
            "share: give its dataset and collate_fn to fit(), or use parallel='multi_thread'"
        )


def can_divide(workload: Workload) -> bool:
    """Return whether several processes can share the training samples."""
    stream = workload.train.stream
    return stream is None or stream.is_divisible


def _measure_in_turn(workload: Workload, configs: Mapping[str, TrainConfig]) -> dict[str, float]:
    """Return the median seconds of a step for each configuration, taking turns."""
    timed = {name: _TimedSteps(workload, config, World()) for name, config in configs.items()}
    started = time.perf_counter()
    for turn in range(_MOST_STEPS):
        for steps in timed.values():
            steps.take()
        if turn >= _LEAST_STEPS and time.perf_counter() - started > _LEAST_SECONDS:
            break
    return {name: steps.seconds for name, steps in timed.items()}


def _measure_rank(make: MakeWorkload, config: TrainConfig, world: World) -> dict[str, Any]:
    """Measure in one of several processes; all take the same number of steps."""
    steps = _TimedSteps(make(), config, world)
    for _ in range(_MOST_STEPS):
        steps.take()
    return {"seconds": steps.seconds}


class _TimedSteps:
    """Steps of a copy of the model over the first batches, again and again."""

    def __init__(self, workload: Workload, config: TrainConfig, world: World) -> None:
        device = torch.device("cpu")
        self._config = config
        own = dataclasses.replace(workload, model=copy.deepcopy(workload.model).train())
        self._stepper = Stepper(
            own,
            config,
            device=device,
            precision=choose_precision(config.precision, device),
            world=world,
            clock=Clock(device),
        )
        loader = open_loader(workload.train, config, world, shuffle=True)
        self._num_micro = loader.num_micro_batches(0)
        steps = min(2, loader.num_steps)
        self._batches = list(islice(loader.batches(), self._num_micro * steps))
        self._taken: list[float] = []
        self._next = 0

    def take(self) -> None:
        """Take a step and remember how long it took."""
        count = self._num_micro
        rotated = [self._batches[(self._next + i) % len(self._batches)] for i in range(count)]
        self._next += count
        with numeric_settings(self._config), random_states_kept():
            started = time.perf_counter()
            self._stepper.take(iter(rotated), count, self._config.lr)
            self._taken.append(time.perf_counter() - started)

    @property
    def seconds(self) -> float:
        """Median of the steps after the first, which warms up."""
        if len(self._taken) < 2:
            raise TrainingError("the probe took too few steps to measure")
        return statistics.median(self._taken[1:])


def _count_steps(workload: Workload, config: TrainConfig) -> int:
    loader = open_loader(workload.train, config, World(), shuffle=True)
    by_epochs = config.optimisation.epochs * loader.num_steps
    return min(by_epochs, config.optimisation.max_steps or by_epochs)
