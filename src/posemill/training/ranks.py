"""The processes of a training: this one, new ones that we start, or those torchrun started.

New ones are spawned and supervised: when one dies the others are ended and its error is raised
here; when this process dies they do too.
"""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import torch

from posemill.errors import PosemillError, TrainingError
from posemill.machine.processes import die_with_parent, environment, leave_at_once, thread_variables
from posemill.machine.trials import describe_exit
from posemill.messages import Message
from posemill.training.config.train_config import TrainConfig
from posemill.training.precision import choose_device
from posemill.training.runtime import Runtime, join_processes

RankTask = Callable[[Runtime], Mapping[str, Any]]
_NO_GUARD = 77  # exit code of a process that was about to train while its script was imported


def run_ranks(
    task: RankTask, config: TrainConfig, *, most_seconds: float | None = None
) -> dict[str, Any]:
    """Return what the first of `config.processes` new processes returned for `task(runtime)`."""
    size, device_type = config.processes, choose_device(config.device).type
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="posemill-ranks-") as scratch:
        shared = Path(scratch)
        processes = [
            context.Process(
                target=_rank_main,
                args=(_pack(task), rank, config.replace(device=device_type), shared),
                name=f"posemill-rank-{rank}",
                daemon=False,
            )
            for rank in range(size)
        ]
        try:
            with environment(thread_variables(config.threads)):
                for process in processes:
                    process.start()
            _wait(processes, most_seconds)
        finally:
            started = [process for process in processes if process.pid is not None]
            for process in started:
                process.terminate()
            for process in started:
                process.join()
        _raise_first_error(processes, shared)
        return dict(pickle.loads((shared / "result.pickle").read_bytes()))


def _rank_main(packed_task: bytes, rank: int, config: TrainConfig, shared: Path) -> None:
    """What each spawned process does; errors are left in a file for the parent."""
    die_with_parent()
    if config.threads:
        torch.set_num_threads(config.threads)
    try:
        try:
            task: RankTask = pickle.loads(packed_task)
        except (AttributeError, ImportError) as error:
            raise TrainingError(
                "mode multi_process starts Python again, which does not find the model, the data "
                "or the loss there: {error}. Of a notebook, put them into a module and import it, "
                "or use {--parallel:multi_thread}",
                error=error,
            ) from error
        store, size = str(shared / "store"), config.processes
        runtime = join_processes(rank, size, store_file=store, device_type=config.device)
        result = task(runtime)
        runtime.close()
        if rank == 0:
            (shared / "result.pickle").write_bytes(pickle.dumps(dict(result)))
        leave_at_once()
    except PosemillError as error:
        (shared / f"error-{rank}.pickle").write_bytes(pickle.dumps(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


@contextmanager
def said_by_the_parent() -> Iterator[None]:
    """Keep a process that we started from warning of the data again, which its parent has read."""
    if multiprocessing.parent_process() is None:
        yield
        return
    logger = logging.getLogger("posemill")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            yield
    finally:
        logger.setLevel(level)


def refuse_second_start() -> None:
    """End this process if it is a new one of `multi_process` that runs the user's script again.

    Its parent says why: see `_NO_GUARD`.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(_NO_GUARD)


def _pack(task: RankTask) -> bytes:
    """Return the task for one process; tensors are shared with it."""
    try:
        return bytes(ForkingPickler.dumps(task))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TrainingError(
            "mode multi_process sends the model, the data and the loss to its processes, and one "
            "of them cannot be sent: {error}. Define it at the top level of a module (no lambda, "
            "no local class), or use {--parallel:multi_thread}",
            error=error,
        ) from error


def _wait(processes: list[Any], most_seconds: float | None) -> None:
    """Return when all have ended well, or as soon as one has not."""
    running = {process.sentinel: process for process in processes}
    deadline = None if most_seconds is None else time.monotonic() + most_seconds
    while running:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ended = [running.pop(each) for each in multiprocessing.connection.wait([*running], left)]
        if not ended:
            raise TrainingError(
                "several processes took more than {most_seconds:.0f} s", most_seconds=most_seconds
            )
        for process in ended:
            process.join()
            if process.exitcode != 0:
                return


def _raise_first_error(processes: list[Any], shared: Path) -> None:
    for path in sorted(shared.glob("error-*.pickle")):
        raise pickle.loads(path.read_bytes())
    ended = {process.name: process.exitcode for process in processes if process.exitcode}
    if 130 in ended.values():
        raise KeyboardInterrupt
    if _NO_GUARD in ended.values():
        raise TrainingError(
            "mode multi_process runs the script again in each of its processes, and it trains "
            'there, too: put what it does below if __name__ == "__main__":, or use '
            "{--parallel:multi_thread}"
        )
    if ended:
        # The others were ended by us: the one with another code came first.
        name, code = min(ended.items(), key=lambda process: process[1] == -signal.SIGTERM)
        advice = "What it said is above. Continue with {--resume:True}"
        if code == -getattr(signal, "SIGILL", 4):
            advice = (
                "This machine refuses an instruction that its processor names, as some virtual "
                "machines do: posemill doctor shows what works; continue with {--resume:True} "
                "{--precision:fp32}"
            )
        if code == -getattr(signal, "SIGKILL", 9):
            advice = (
                "Often that is the system's out-of-memory killer: lower {--micro-batch} or "
                "{--processes}, and continue with {--resume:True}"
            )
        template = "{name} of the training: {ending}. {advice}"
        raise TrainingError(template, name=name, ending=describe_exit(code), advice=Message(advice))
