"""The modes: one process with one thread, with several, or several processes; or what is fastest.

`multi_process` is started by us (spawned, supervised: when one process dies the others are ended
and its error is raised here) or by torchrun, whose variables are recognised.
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from posemill import errors
from posemill.errors import ConfigError, DeviceError, PosemillError, TrainingError
from posemill.machine.limits import count_cores
from posemill.machine.processes import die_with_parent, environment, thread_variables
from posemill.training.config.presets import loader_workers
from posemill.training.config.resolve import Resolved
from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.distributed import World, join_world, leave_at_once
from posemill.training.loop.precision import choose_device, choose_precision, cpu_has_fast_bf16
from posemill.training.loop.session import MakeWorkload, train_here
from posemill.training.runs.run_folder import RunFolder

RankTask = Callable[[World], Mapping[str, Any]]


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

    def apply(self, config: TrainConfig) -> TrainConfig:
        """Return the settings with this plan in them; loader processes where not given."""
        workers = config.workers
        if workers < 0:
            workers = 0
            if self.mode != "multi_thread":
                workers = loader_workers(config.preset, cores=count_cores(), ranks=self.processes)
        return config.replace(
            parallel=self.mode,
            processes=self.processes,
            threads=self.threads,
            workers=workers,
        )


def under_torchrun() -> bool:
    """Return True where torchrun (or a launcher that speaks like it) started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def check_hardware(config: TrainConfig) -> torch.device:
    """Return the device; more processes than cores or GPUs, or no GPU, is an error."""
    device, cores = choose_device(config.device), count_cores()
    choose_precision(config.precision, device)
    if device.type == "cuda" and config.processes > torch.cuda.device_count():
        raise DeviceError(
            f"processes = {config.processes}, but there are {torch.cuda.device_count()} GPUs: "
            "each process needs its own"
        )
    if device.type == "cpu" and config.processes > cores and not under_torchrun():
        raise ConfigError(
            f"processes = {config.processes}, but this process may use {cores} cores: more "
            f"processes than cores only wait for each other; use --processes {cores} or fewer"
        )
    if config.threads > cores:
        raise ConfigError(
            f"threads = {config.threads}, but this process may use {cores} cores; "
            f"use --threads {cores} or fewer"
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
                f"processes = {config.processes}, but torchrun started {world}; leave it out"
            )
        local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
        threads = config.threads or max(1, cores // local)
        return ModePlan("multi_process", world, threads, f"torchrun started {world} processes")
    if config.parallel == "single":
        return ModePlan("single", 1, config.threads or 1, "asked for")
    if config.parallel == "multi_thread":
        return ModePlan("multi_thread", 1, config.threads or cores, "asked for")
    if config.parallel == "multi_process":
        ranks = config.processes or units
        return ModePlan(
            "multi_process", ranks, config.threads or max(1, cores // ranks), "asked for"
        )
    if config.deterministic:
        reason = "deterministic: a measured choice could differ between runs"
        return ModePlan("single", 1, config.threads or 1, reason)
    if device.type == "cuda" and config.device != "auto":
        return ModePlan("single", 1, config.threads or cores, f"{config.device} was asked for")
    if device.type == "cuda":
        mode = "multi_process" if units > 1 else "single"
        return ModePlan(mode, units, config.threads or max(1, cores // units), f"{units} GPUs")
    if cores == 1:
        return ModePlan("single", 1, 1, "one core")
    return None


def resolve_hardware(resolved: Resolved) -> Resolved:
    """Return the settings with what the machine decides before anything is measured, and why.

    `parallel` and, on CPUs with bf16, `precision` stay `auto` where a probe decides at the start.
    """
    config = resolved.config
    device, plan = choose_device(config.device), plan_mode(config)
    found: dict[str, Any] = {}
    why: dict[str, str] = {}
    if config.device == "auto":
        found["device"] = device.type
        why["device"] = "a GPU is here" if device.type == "cuda" else "no GPU here"
    if config.precision == "auto":
        is_measured = device.type == "cpu" and cpu_has_fast_bf16()
        chosen = choose_precision("auto", device)
        found["precision"] = "auto" if is_measured else chosen.name
        why["precision"] = "bf16 is measured at the start" if is_measured else chosen.reason
    planned = (plan.apply(config) if plan else config).to_dict()
    asked = {"parallel": "auto", "processes": 0, "threads": 0}
    for name in (name for name, value in asked.items() if getattr(config, name) == value):
        found[name] = planned[name]
        why[name] = plan.reason if plan else f"measured at the start, on {count_cores()} cores"
    return resolved.with_machine(found, why)


def launch(make: MakeWorkload, config: TrainConfig, folder: RunFolder) -> dict[str, Any]:
    """Train in the mode that `config` (already planned) says, and return the summary.

    Args:
        make: Returns the workload; for several processes it must be picklable.
        config: As `ModePlan.apply` returned it.
        folder: Already made.
    """
    task = partial(_train_rank, make, config, folder.path)
    if under_torchrun():
        device_type = choose_device(config.device).type
        world = join_world(
            int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), device_type=device_type
        )
        try:
            return dict(task(world))
        finally:
            world.close()
    if config.parallel == "multi_process":
        return run_ranks(task, config)
    return dict(task(World()))


def _train_rank(
    make: MakeWorkload, config: TrainConfig, folder: Path, world: World
) -> Mapping[str, Any]:
    return train_here(make, config, RunFolder(folder), world)


def run_ranks(task: RankTask, config: TrainConfig) -> dict[str, Any]:
    """Run `task(world)` in `config.processes` new processes and return what the first returned."""
    size, device_type = config.processes, choose_device(config.device).type
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="posemill-ranks-") as scratch:
        shared = Path(scratch)
        processes = [
            context.Process(
                target=_rank_main,
                args=(task, _Seat(rank, size, config.threads, device_type), shared),
                name=f"posemill-rank-{rank}",
                daemon=False,
            )
            for rank in range(size)
        ]
        try:
            with environment(thread_variables(config.threads)):
                _start(processes)
            _wait(processes)
        finally:
            for process in processes:
                if process.pid is not None and process.is_alive():
                    process.terminate()
            for process in processes:
                if process.pid is not None:
                    process.join()
        _raise_first_error(processes, shared)
        return dict(json.loads((shared / "result.json").read_text(encoding="utf-8")))


@dataclass(frozen=True)
class _Seat:
    """What a spawned process has to know before it meets the others."""

    rank: int
    size: int
    threads: int
    device_type: str


def _rank_main(task: RankTask, seat: _Seat, shared: Path) -> None:
    """What each spawned process does; errors are left in a file for the parent."""
    rank = seat.rank
    die_with_parent()
    if seat.threads:
        torch.set_num_threads(seat.threads)
    try:
        store = str(shared / "store")
        world = join_world(rank, seat.size, store_file=store, device_type=seat.device_type)
        result = task(world)
        world.close()
        if rank == 0:
            (shared / "result.json").write_text(json.dumps(dict(result)), encoding="utf-8")
        leave_at_once()
    except PosemillError as error:
        note = {"kind": type(error).__name__, "message": str(error)}
        (shared / f"error-{rank}.json").write_text(json.dumps(note), encoding="utf-8")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def _start(processes: list[Any]) -> None:
    try:
        for process in processes:
            process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TrainingError(
            "mode multi_process sends the model, the data and the loss to its processes, and one "
            f"of them cannot be sent: {error}. Define it at the top level of a module (no lambda, "
            "no local class), or use --parallel multi_thread"
        ) from error


def _wait(processes: list[Any]) -> None:
    """Return when all have ended well, or as soon as one has not."""
    running = {process.sentinel: process for process in processes}
    while running:
        for sentinel in multiprocessing.connection.wait(list(running)):
            process = running.pop(sentinel)
            process.join()
            if process.exitcode != 0:
                return


def _raise_first_error(processes: list[Any], shared: Path) -> None:
    for path in sorted(shared.glob("error-*.json")):
        note = json.loads(path.read_text(encoding="utf-8"))
        raise getattr(errors, note["kind"], TrainingError)(note["message"])
    ended = {process.name: process.exitcode for process in processes if process.exitcode}
    if 130 in ended.values():
        raise KeyboardInterrupt
    if ended:
        # The others were ended by us: the one with another code came first.
        name, code = next(
            ((name, code) for name, code in ended.items() if code != -15), next(iter(ended.items()))
        )
        raise TrainingError(
            f"{name} of the training ended with code {code} (negative: a signal; -9 is often the "
            "system's out-of-memory killer: lower --micro-batch or --processes); what it said is "
            "above. Continue with --resume"
        )
