"""A short measurement on the real model and data: which mode, and which number format."""

from __future__ import annotations

import copy
import dataclasses
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import torch

from posemill.errors import ConfigError, TrainingError
from posemill.machine.limits import count_cores
from posemill.machine.torchrun import under_torchrun
from posemill.messages import Message, join
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import open_loader
from posemill.training.loop.random_states import random_states_kept
from posemill.training.loop.stepping import Stepper
from posemill.training.loop.timing import Clock
from posemill.training.multigrid.stages import Stages
from posemill.training.precision import Precision, choose_device, choose_precision
from posemill.training.ranks import run_ranks
from posemill.training.runtime import Runtime, numeric_settings
from posemill.training.tasks.workload import MakeWorkload, Workload
from posemill.training.tuning.modes import ModePlan

_CPU = torch.device("cpu")
PROCESS_SECONDS = 25.0  # that a measurement of several processes takes, with their start
_CLEARLY = 1.03  # less is noise
MOST_STEPS = 12
_LEAST_STEPS = 3
_LEAST_SECONDS = 1.0
_PAYS_AFTER_SECONDS = 30.0  # below, starting processes costs more than they save


def probe_mode(
    workload: Workload,
    make: MakeWorkload,
    config: TrainConfig,
    *,
    most_seconds: float | None = None,
) -> ModePlan:
    """Return the fastest plan on this machine's CPU, measured on the first steps of the data.

    The remaining time is predicted for each mode from its seconds a step and, for several
    processes, the time they took to start.

    Args:
        workload: Measured in this process; its model is copied.
        make: Makes it again in other processes.
        config: The settings, precision decided.
        most_seconds: For several processes: with less than they usually take they are not tried.
    """
    cores = count_cores()
    one = config.replace(parallel="single", processes=1, threads=1, workers=0)
    many = one.replace(parallel="multi_thread", threads=config.threads or cores)
    ranks = one.replace(
        parallel="multi_process",
        processes=config.processes or cores,
        threads=config.threads or 1,
    )
    seconds = measure_in_turn(workload, {"single": one, "multi_thread": many}, _CPU)
    total = Stages(workload.train, config).total_steps
    predicted = {mode: total * value for mode, value in seconds.items()}
    quickest = min(predicted.values())
    if not can_divide(workload):
        note = Message("its order is its own, so that several processes cannot share it")
    elif most_seconds is not None and most_seconds < PROCESS_SECONDS:
        note = Message("no time to try several processes")
    elif quickest < _PAYS_AFTER_SECONDS:
        note = Message(
            "{quickest:.0f} s of work: too short for several processes to pay", quickest=quickest
        )
    else:
        started = time.perf_counter()
        note = Message("{total} steps to take", total=total)
        try:
            task = partial(_measure_rank, make, ranks)
            found = run_ranks(task, ranks, most_seconds=most_seconds)
            step_seconds = float(found["seconds"])
        except TrainingError as error:
            failure = Message("multi_process cannot be used: {error}", error=error)
            note = join("; ", [note, failure])
        else:
            start = max(0.0, time.perf_counter() - started - MOST_STEPS * step_seconds)
            predicted["multi_process"] = start + total * step_seconds
            seconds["multi_process"] = step_seconds
    best = min(predicted, key=lambda mode: predicted[mode])
    measured = _list_times(seconds)
    reason = Message("a step takes: {measured}; {note}", measured=measured, note=note)
    chosen = {"single": one, "multi_thread": many, "multi_process": ranks}[best]
    return ModePlan(best, chosen.processes, chosen.threads, reason)


def probe_precision(
    workload: Workload, config: TrainConfig, usual: Precision, *, threads: int
) -> Precision:
    """Return the number format of a training: fp32 on a CPU that is not faster with its bf16.

    Both take turns on the first batches. What was asked for by name stays; so does what processes
    of torchrun choose, which could measure differently.

    Args:
        workload: Its model is copied.
        config: The settings as they were given.
        usual: What the hardware has, by `plan_precision`.
        threads: Of the training.
    """
    is_open = (
        config.precision == "auto" and usual.name == "bf16" and choose_device(config.device) == _CPU
    )
    if not is_open or under_torchrun():
        return usual
    one = config.replace(parallel="single", processes=1, threads=threads, workers=0, compile="off")
    arms = {name: one.replace(precision=name) for name in ("fp32", "bf16")}
    seconds = measure_in_turn(workload, arms, _CPU)
    measured = _list_times(seconds)
    if seconds["bf16"] * _CLEARLY < seconds["fp32"]:
        return replace(
            usual,
            reason=Message(
                "{reason}; a step takes: {measured}", reason=usual.reason, measured=measured
            ),
        )
    reason = Message(
        "this CPU has bf16 instructions and is not faster with them; a step takes: {measured}",
        measured=measured,
    )
    return Precision("fp32", reason)


def _list_times(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value * 1000:.0f} ms" for name, value in seconds.items())


def check_divisible(workload: Workload, plan: ModePlan) -> None:
    """Raise `ConfigError` where several processes are to share what they cannot."""
    if plan.processes > 1 and not can_divide(workload):
        raise ConfigError(
            "the DataLoader of train_set draws an order of its own, which several processes cannot "
            "share: give its dataset and collate_fn to fit(), or use {--parallel:multi_thread}"
        )


def can_divide(workload: Workload) -> bool:
    """Return whether several processes can share the training samples."""
    stream = workload.train.stream
    return stream is None or stream.is_divisible


def _measure_rank(make: MakeWorkload, config: TrainConfig, runtime: Runtime) -> dict[str, Any]:
    """Measure in one of several processes; all take the same number of steps."""
    steps = TimedSteps(make(), config, runtime.using(config))
    for _ in range(MOST_STEPS):
        steps.take()
    return {"seconds": steps.seconds}


class TimedSteps:
    """Steps of a copy of the model over the first batches, again and again.

    Args:
        workload: Its model is copied.
        config: The settings; loader processes have no part in it.
        runtime: This process.
    """

    def __init__(self, workload: Workload, config: TrainConfig, runtime: Runtime) -> None:
        self._config, self._runtime = config, runtime
        model = copy.deepcopy(workload.model).to(runtime.device).train()
        own = dataclasses.replace(workload, model=model)
        self._stepper = Stepper(own, config, runtime=runtime, clock=Clock(runtime.device))
        loader = open_loader(workload.train, config.replace(workers=0), runtime, shuffle=True)
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
            if self._runtime.is_on_gpu:
                torch.cuda.synchronize(self._runtime.device)
            self._taken.append(time.perf_counter() - started)

    @property
    def seconds(self) -> float:
        """Median of the steps after the first, which warms up."""
        if len(self._taken) < 2:
            raise TrainingError("the probe took too few steps to measure")
        return statistics.median(self._taken[1:])


def measure_in_turn(
    workload: Workload, configs: Mapping[str, TrainConfig], device: torch.device
) -> dict[str, float]:
    """Return the median seconds of a step for each configuration, taking turns."""
    timed = {
        name: TimedSteps(workload, config, Runtime.of(config.replace(device=str(device))))
        for name, config in configs.items()
    }
    started = time.perf_counter()
    for turn in range(MOST_STEPS):
        for steps in timed.values():
            steps.take()
        if turn >= _LEAST_STEPS and time.perf_counter() - started > _LEAST_SECONDS:
            break
    return {name: steps.seconds for name, steps in timed.items()}


def bf16_gain(workload: Workload, config: TrainConfig, device: torch.device) -> float | None:
    """Return the seconds of a step in fp32 by those in bf16; None where bf16 is no choice."""
    can_choose = config.precision == "fp32" and not config.deterministic
    if not can_choose or choose_precision("auto", device).name != "bf16":
        return None
    configs = {name: config.replace(precision=name) for name in ("fp32", "bf16")}
    seconds = measure_in_turn(workload, configs, device)
    return seconds["fp32"] / seconds["bf16"]
