"""The modes: one process with one thread or with several, several processes, or the fastest."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from posemill.errors import ConfigError, DeviceError
from posemill.machine.limits import count_cores
from posemill.machine.torchrun import under_torchrun
from posemill.messages import Message, join
from posemill.training.config.presets import loader_workers
from posemill.training.config.resolve import Resolved
from posemill.training.config.train_config import TrainConfig
from posemill.training.precision import (
    Precision,
    bf16_made_ready,
    choose_device,
    choose_precision,
)


@dataclass(frozen=True)
class ModePlan:
    """How a training runs, and why.

    Args:
        mode: `single`, `multi_thread` or `multi_process`.
        processes: Ranks.
        threads: Of each rank.
        reason: For the user to read.
    """

    mode: str
    processes: int
    threads: int
    reason: str

    def apply(self, config: TrainConfig, *, is_threadsafe: bool = True) -> TrainConfig:
        """Return the settings with this plan in them; loader processes where not given.

        Args:
            config: The settings.
            is_threadsafe: Whether a thread may make batches beside the training.
        """
        workers = config.workers
        if workers < 0:
            workers = 0 if is_threadsafe else 1
            if self.mode != "multi_thread":
                workers = loader_workers(config.preset, cores=count_cores(), ranks=self.processes)
        return config.replace(
            parallel=self.mode,
            processes=self.processes,
            threads=self.threads,
            workers=workers,
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
    if device.type == "cpu" and config.processes > cores and not under_torchrun():
        raise ConfigError(
            "{--processes:{processes}}, but this process may use {cores} cores: more processes "
            "than cores only wait for each other; use {--processes:{cores}} or fewer",
            processes=config.processes,
            cores=cores,
        )
    if config.threads > cores:
        raise ConfigError(
            "{--threads:{threads}}, but this process may use {num_cores:core|cores}; use "
            "{--threads:{cores}} or fewer",
            threads=config.threads,
            num_cores=cores,
            cores=cores,
        )
    return device


def plan_mode(config: TrainConfig) -> ModePlan | None:
    """Return the plan where no measurement is needed, None where `auto` has to probe."""
    device, cores = check_hardware(config), count_cores()
    units = torch.cuda.device_count() if device.type == "cuda" else cores
    if under_torchrun():
        world = int(os.environ["WORLD_SIZE"])
        if config.processes not in (0, world):
            raise ConfigError(
                "{--processes:{processes}}, but torchrun started {world}; leave it out",
                processes=config.processes,
                world=world,
            )
        local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
        threads = config.threads or max(1, cores // local)
        return ModePlan(
            "multi_process",
            world,
            threads,
            Message("torchrun started {world} processes", world=world),
        )
    if config.parallel == "single":
        return ModePlan("single", 1, config.threads or 1, Message("asked for"))
    if config.parallel == "multi_thread":
        return ModePlan("multi_thread", 1, config.threads or cores, Message("asked for"))
    if config.parallel == "multi_process":
        ranks = config.processes or units
        return ModePlan(
            "multi_process", ranks, config.threads or max(1, cores // ranks), Message("asked for")
        )
    if config.deterministic:
        reason = Message("deterministic: a measured choice could differ between runs")
        return ModePlan("single", 1, config.threads or 1, reason)
    if device.type == "cuda" and config.device != "auto":
        return ModePlan(
            "single",
            1,
            config.threads or cores,
            Message("{device} was asked for", device=config.device),
        )
    if device.type == "cuda":
        mode = "multi_process" if units > 1 else "single"
        return ModePlan(
            mode,
            units,
            config.threads or max(1, cores // units),
            Message("{units} GPUs", units=units),
        )
    if cores == 1:
        return ModePlan("single", 1, 1, Message("one core"))
    return None


def plan_precision(config: TrainConfig) -> Precision:
    """Return the number format by what the hardware has; `probe_precision` measures it."""
    device = choose_device(config.device)
    if _is_fp32_for_all(config, device):
        return Precision("fp32", Message("deterministic: the same on every CPU"))
    return choose_precision(config.precision, device)


def _is_fp32_for_all(config: TrainConfig, device: torch.device) -> bool:
    is_open = config.precision == "auto" or "precision" not in config.given
    return is_open and config.deterministic and device.type == "cpu"


def processor_made_ready(config: TrainConfig) -> AbstractContextManager[None]:
    """Return the block in which a training can choose among the number formats that work here."""
    device = choose_device(config.device)
    requested = "fp32" if _is_fp32_for_all(config, device) else config.precision
    return bf16_made_ready(requested, device)


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
        why["device"] = (
            Message("a GPU is here") if device.type == "cuda" else Message("no GPU here")
        )
    if config.precision in ("auto", "mixed"):
        with processor_made_ready(config):
            chosen = plan_precision(config)
        found["precision"], why["precision"] = chosen.name, chosen.reason
        if config.precision == "auto" and chosen.name == "bf16" and device.type == "cpu":
            why["precision"] = join(
                "; ", [chosen.reason, Message("measured against fp32 at the start")]
            )
    planned = (plan.apply(config) if plan else config).to_dict()
    asked = {"parallel": "auto", "processes": 0, "threads": 0}
    for name in (name for name, value in asked.items() if getattr(config, name) == value):
        found[name] = planned[name]
        why[name] = (
            plan.reason
            if plan
            else Message("measured at the start, on {num_cores} cores", num_cores=count_cores())
        )
    return resolved.with_machine(found, why)
