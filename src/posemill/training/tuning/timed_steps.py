"""Steps of a copy of the model on the user's own batches, timed one by one."""

from __future__ import annotations

import copy
import dataclasses
import statistics
import time
from collections.abc import Mapping
from itertools import islice

import torch

from posemill.errors import TrainingError
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import open_loader
from posemill.training.loop.distributed import World
from posemill.training.loop.precision import choose_precision
from posemill.training.loop.random_states import random_states_kept
from posemill.training.loop.rank import numeric_settings
from posemill.training.loop.stepping import Stepper
from posemill.training.loop.timing import Clock
from posemill.training.tasks.workload import Workload

MOST_STEPS = 12
_LEAST_STEPS = 3
_LEAST_SECONDS = 1.0


class TimedSteps:
    """Steps of a copy of the model over the first batches, again and again.

    Args:
        workload: Its model is copied.
        config: The settings; loader processes have no part in it.
        world: The processes that step together.
        device: Where the copy computes.
    """

    def __init__(
        self, workload: Workload, config: TrainConfig, world: World, device: torch.device
    ) -> None:
        self._config, self._device = config, device
        model = copy.deepcopy(workload.model).to(device).train()
        own = dataclasses.replace(workload, model=model)
        self._stepper = Stepper(
            own,
            config,
            device=device,
            precision=choose_precision(config.precision, device),
            world=world,
            clock=Clock(device),
        )
        loader = open_loader(workload.train, config.replace(workers=0), world, shuffle=True)
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
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
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
        name: TimedSteps(workload, config, World(), device) for name, config in configs.items()
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
