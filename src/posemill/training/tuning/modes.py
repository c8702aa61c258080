"""The mode and the number format of a training: as asked for, as the hardware is, or measured."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from posemill.errors import ConfigError, DeviceError, TrainingError
from posemill.machine.limits import count_cores
from posemill.machine.processes import under_torchrun
from posemill.messages import Message, Option, join, render
from posemill.training.config.resolve import Resolved
from posemill.training.config.run_settings import loader_workers
from posemill.training.config.train_config import TrainConfig
from posemill.training.multigrid.stages import Stages
from posemill.training.precision import Precision, bf16_made_ready, choose_device, choose_precision
from posemill.training.tasks.workload import Workload
from posemill.training.tuning.arms import RANK_WARM_STEPS, MakeFor, measure_in_turn, run_processes

_CPU = torch.device("cpu")
PROCESS_SECONDS = 25.0  # that a measurement of several processes takes, with their start
_BF16_GAIN = 1.1  # less is noise: the choice is to be the same every time where both are alike
_RANK_STEPS = 9  # that several processes are measured with
_PAYS_AFTER_SECONDS = 30.0  # below, starting processes costs more than they save


@dataclass(frozen=True)
class ModePlan:
    """How a training runs, with so many threads in each process, and why."""

    mode: str
    processes: int
    threads: int
    reason: str

    def describe(self) -> Message:
        """Return it in a sentence."""
        return Message("mode {mode}, {processes} x {threads} threads: {reason}", **vars(self))

    def apply(self, config: TrainConfig, *, is_threadsafe: bool = True) -> TrainConfig:
        """Return the settings with this plan in them; loader processes where not given.

        In mode `multi_thread` there is one only where no thread may make batches.
        """
        workers = config.workers
        if workers < 0 and self.mode == "multi_thread":
            workers = 0 if is_threadsafe else 1
        elif workers < 0:
            workers = loader_workers(config.preset, cores=count_cores(), ranks=self.processes)
        return config.replace(
            parallel=self.mode, processes=self.processes, threads=self.threads, workers=workers
        )


def check_hardware(config: TrainConfig) -> torch.device:
    """Return the device; more processes than cores or GPUs, or no GPU, is an error."""
    device, cores = choose_device(config.device), count_cores()
    plan_precision(config)
    if device.type == "cuda" and config.processes > torch.cuda.device_count():
        raise DeviceError(
            "{--processes:{processes}}, but there are {num_gpus} GPUs: each process needs its own",
            processes=config.processes,
            num_gpus=torch.cuda.device_count(),
        )
    limited = {"threads": config.threads}
    if device.type == "cpu" and not under_torchrun():
        limited["processes"] = config.processes
    for name, number in limited.items():
        if number > cores:
            raise ConfigError(
                "{asked}, but this process may use {num_cores:core|cores}: more than one for "
                "each core only wait for each other; use {most} or fewer",
                asked=Option(name, number),
                num_cores=cores,
                most=Option(name, cores),
            )
    return device


def plan_mode(config: TrainConfig) -> ModePlan | None:
    """Return the plan where no measurement is needed, None where `auto` has to probe."""
    device, cores = check_hardware(config), count_cores()
    units = torch.cuda.device_count() if device.type == "cuda" else cores
    if under_torchrun():
        world = int(os.environ["WORLD_SIZE"])
        if config.processes not in (0, world):
            template = "{--processes:{processes}}, but torchrun started {world}; leave it out"
            raise ConfigError(template, processes=config.processes, world=world)
        threads = max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", world)))
        reason = Message("torchrun started {world} processes", world=world)
        plan = ModePlan("multi_process", world, threads, reason)
    elif config.parallel != "auto":
        ranks = config.processes or units if config.parallel == "multi_process" else 1
        threads = {"single": 1, "multi_thread": cores}.get(config.parallel, max(1, cores // ranks))
        plan = ModePlan(config.parallel, ranks, threads, Message("asked for"))
    elif config.deterministic:
        reason = Message("deterministic: a measured choice could differ between runs")
        plan = ModePlan("single", 1, 1, reason)
    elif device.type == "cuda" and config.device != "auto":
        reason = Message("{device} was asked for", device=config.device)
        plan = ModePlan("single", 1, cores, reason)
    elif device.type == "cuda":
        mode = "multi_process" if units > 1 else "single"
        plan = ModePlan(mode, units, max(1, cores // units), Message("{units} GPUs", units=units))
    elif cores == 1:
        plan = ModePlan("single", 1, 1, Message("one core"))
    else:
        return None
    return replace(plan, threads=config.threads or plan.threads)


def plan_precision(config: TrainConfig) -> Precision:
    """Return the number format by what the hardware has; `probe_precision` measures it."""
    if _is_fp32_for_all(config):
        return Precision("fp32", Message("deterministic: the same on every CPU"))
    return choose_precision(config.precision, choose_device(config.device))


def _is_fp32_for_all(config: TrainConfig) -> bool:
    is_open = config.precision == "auto" or "precision" not in config.given
    return is_open and config.deterministic and choose_device(config.device).type == "cpu"


def processor_made_ready(config: TrainConfig) -> AbstractContextManager[None]:
    """Return the block in which a training can choose among the number formats that work here."""
    requested = "fp32" if _is_fp32_for_all(config) else config.precision
    return bf16_made_ready(requested, choose_device(config.device))


def resolve_hardware(resolved: Resolved) -> Resolved:
    """Return the settings with what the machine decides before anything is measured, and why.

    `parallel` stays `auto` where a probe decides at the start.
    """
    config = resolved.config
    device, plan = choose_device(config.device), plan_mode(config)
    found: dict[str, Any] = {}
    why: dict[str, str] = {}
    if config.device == "auto":
        found["device"] = device.type
        here = {"cuda": Message("a GPU is here"), "cpu": Message("no GPU here")}
        why["device"] = here[device.type]
    if config.precision in ("auto", "mixed"):
        with processor_made_ready(config):
            chosen = plan_precision(config)
        reasons = [chosen.reason]
        if config.precision == "auto" and chosen.name == "bf16" and device.type == "cpu":
            reasons.append(Message("measured against fp32 at the start"))
        found["precision"], why["precision"] = chosen.name, join("; ", reasons)
    planned = (plan.apply(config) if plan else config).to_dict()
    measured = Message("measured at the start, on {num_cores} cores", num_cores=count_cores())
    for name, open_value in (("parallel", "auto"), ("processes", 0), ("threads", 0)):
        if getattr(config, name) == open_value:
            found[name], why[name] = planned[name], plan.reason if plan else measured
    return resolved.with_machine(found, why)


def decide(
    workload: Workload, make: MakeFor, config: TrainConfig, *, most_seconds: float | None = None
) -> tuple[ModePlan, Precision]:
    """Return mode and number format of a new training, measured where nothing else decides."""
    plan, usual = plan_mode(config), plan_precision(config)
    precision = probe_precision(workload, config, usual, threads=plan.threads if plan else 1)
    config = config.replace(precision=precision.name)
    return plan or probe_mode(workload, make, config, most_seconds=most_seconds), precision


@contextmanager
def _measuring(what: Message, config: TrainConfig) -> Iterator[None]:
    """Say what is measured in the block, beside a clock that runs where someone watches."""
    console = Console(stderr=True, quiet=not config.progress)
    if not console.is_terminal:
        console.print(render(what), highlight=False, markup=False)
        yield
        return
    columns = TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    # A quicker clock would take part in what is measured.
    with Progress(*columns, console=console, refresh_per_second=1) as clock:
        clock.add_task(render(what))
        yield


def with_open_workers(resolved: Resolved) -> TrainConfig:
    """Return settings whose loader processes are decided with the mode, unless they were given."""
    is_open = resolved.sources["workers"].startswith("machine")
    return resolved.config.replace(workers=-1) if is_open else resolved.config


def probe_mode(
    workload: Workload, make: MakeFor, config: TrainConfig, *, most_seconds: float | None = None
) -> ModePlan:
    """Return the fastest plan on this machine's CPU, measured on the first steps of the data.

    The remaining time is predicted for each mode from its seconds a step and, for several
    processes, the time they took to start.
    """
    cores = count_cores()
    one = config.replace(parallel="single", processes=1, threads=1, workers=0)
    many = one.replace(parallel="multi_thread", threads=config.threads or cores)
    ranks = one.replace(
        parallel="multi_process", processes=config.processes or cores, threads=config.threads or 1
    )
    with _measuring(Message("measuring first steps to find the fastest mode"), config):
        seconds = measure_in_turn(workload, {"single": one, "multi_thread": many}, _CPU)
    total = Stages(workload.train, config).total_steps
    predicted = {mode: total * value for mode, value in seconds.items()}
    quickest = min(predicted.values())
    if workload.train.stream is not None:
        note = Message("its order is its own, so that several processes cannot share it")
    elif most_seconds is not None and most_seconds < PROCESS_SECONDS:
        note = Message("no time to try several processes")
    elif quickest < _PAYS_AFTER_SECONDS:
        template = "{quickest:.0f} s of work: too short for several processes to pay"
        note = Message(template, quickest=quickest)
    else:
        started, taken_steps = time.perf_counter(), RANK_WARM_STEPS + _RANK_STEPS
        limit = most_seconds or PROCESS_SECONDS + taken_steps * max(seconds.values())
        note = Message("{total} steps to take", total=total)
        template = "trying {processes} processes: up to {limit:.0f} s"
        what = Message(template, processes=ranks.processes, limit=limit)
        try:
            with _measuring(what, config):
                speed = run_processes(
                    make, ranks, steps=_RANK_STEPS, repeats=True, most_seconds=limit
                )
        except TrainingError as error:
            failure = Message("multi_process cannot be used: {error}", error=error)
            note = join("; ", [note, failure])
        else:
            batch_size = min(config.batch_size, len(workload.train) or config.batch_size)
            step_seconds = seconds["multi_process"] = batch_size / speed
            taken_seconds = taken_steps * step_seconds
            start = max(0.0, time.perf_counter() - started - taken_seconds)
            predicted["multi_process"] = start + total * step_seconds
    best = min((one, many, ranks), key=lambda each: predicted.get(each.parallel, math.inf))
    template = "a step takes: {measured}; {note}"
    reason = Message(template, measured=_list_times(seconds), note=note)
    return ModePlan(best.parallel, best.processes, best.threads, reason)


def probe_precision(
    workload: Workload, config: TrainConfig, usual: Precision, *, threads: int
) -> Precision:
    """Return the number format of a training: fp32 on a CPU that is not faster with its bf16.

    Both take turns on the first batches. What was asked for by name stays; so does what processes
    of torchrun choose, which could measure differently.
    """
    if not _is_precision_open(config, usual):
        return usual
    one = config.replace(parallel="single", processes=1, threads=threads, workers=0, compile="off")
    arms = {name: one.replace(precision=name) for name in ("fp32", "bf16")}
    with _measuring(Message("measuring first steps to find the fastest number format"), config):
        seconds = measure_in_turn(workload, arms, _CPU)
    is_faster = seconds["bf16"] * _BF16_GAIN < seconds["fp32"]
    reason = usual.reason if is_faster else Message("bf16 is not clearly faster on this CPU")
    template = "{reason}; a step takes: {measured}"
    reason = Message(template, reason=reason, measured=_list_times(seconds))
    return replace(usual, reason=reason) if is_faster else Precision("fp32", reason)


def _is_precision_open(config: TrainConfig, usual: Precision) -> bool:
    is_auto = config.precision == "auto" and usual.name == "bf16"
    return is_auto and choose_device(config.device) == _CPU and not under_torchrun()


def _list_times(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value * 1000:.0f} ms" for name, value in seconds.items())


def check_divisible(workload: Workload, plan: ModePlan) -> None:
    """Raise `ConfigError` where several processes are to share what they cannot."""
    if plan.processes > 1 and workload.train.stream is not None:
        raise ConfigError(
            "train_set comes in an order of its own, which several processes cannot share: give "
            "fit() a data set with len() and [index], or use {--parallel:multi_thread}"
        )


def bf16_gain(workload: Workload, config: TrainConfig, device: torch.device) -> float | None:
    """Return the seconds of a step in fp32 by those in bf16; None where bf16 is no choice."""
    can_choose = config.precision == "fp32" and not config.deterministic
    if not can_choose or choose_precision("auto", device).name != "bf16":
        return None
    arms = {name: config.replace(precision=name) for name in ("fp32", "bf16")}
    seconds = measure_in_turn(workload, arms, device)
    return seconds["fp32"] / seconds["bf16"]
