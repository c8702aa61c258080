"""A training in its processes: each trains, the first one writes what came of it."""

from __future__ import annotations

import os
import platform
from functools import partial
from typing import Any

import torch

from posemill import __version__
from posemill.machine.allocator import freed_memory_returned
from posemill.machine.torchrun import under_torchrun
from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.evaluation import Evaluation
from posemill.training.loop.trainer import Trainer
from posemill.training.precision import choose_device
from posemill.training.ranks import run_ranks
from posemill.training.record.run_folder import RunFolder
from posemill.training.runs.predictions import write_predictions, write_samples
from posemill.training.runtime import Runtime, join_processes, numeric_settings
from posemill.training.tasks.workload import MakeWorkload, Workload
from posemill.training.tuning.advice import LEAST_SECONDS
from posemill.training.tuning.probe import bf16_gain
from posemill.training.video.problems import describe_problems, live_problems


def launch(make: MakeWorkload, config: TrainConfig, folder: RunFolder) -> dict[str, Any]:
    """Train in the mode that `config` (already planned) says, and return the summary.

    Args:
        make: Returns the workload; for several processes it must be picklable.
        config: As `ModePlan.apply` returned it.
        folder: Already made.
    """
    task = partial(train_rank, make, config, folder)
    if under_torchrun():
        device_type = choose_device(config.device).type
        runtime = join_processes(
            int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), device_type=device_type
        )
        try:
            return dict(task(runtime))
        finally:
            runtime.close()
    if config.parallel == "multi_process":
        return run_ranks(task, config)
    return dict(task(Runtime()))


def train_rank(
    make: MakeWorkload, config: TrainConfig, folder: RunFolder, runtime: Runtime
) -> dict[str, Any]:
    """Train in this process, and return the summary.

    Args:
        make: Returns the workload; called once, here.
        config: Settings with mode, threads and precision decided (see `tuning.modes`).
        folder: Already made.
        runtime: This process, which has joined the others.
    """
    runtime, unread = runtime.using(config), live_problems()
    with freed_memory_returned(), numeric_settings(config), folder.naming_the_disk():
        workload = make()
        trainer = Trainer(workload, config, runtime, folder)
        if config.resume and folder.checkpoints.has("last"):
            trainer.restore()
        elif runtime.is_first:
            folder.cut_metrics(0)  # of a start that was killed before its first checkpoint
        if runtime.is_first:
            folder.write_facts(_facts(workload, config, runtime))
        trainer.run()
        _measure_bf16(trainer)
        trainer.load_best()
        results = _final_scores(trainer)
        summary = trainer.summary()
    # Each process met its own clips; who started several of them has met none.
    is_alone = runtime.size == 1
    unread_elsewhere = [] if is_alone else runtime.gather(describe_problems(unread))
    summary |= {
        "scores": {name: result.scores for name, result in results.items()},
        "mode": config.parallel,
        "processes": runtime.size,
        "threads": torch.get_num_threads() if not config.threads else config.threads,
        "precision": runtime.precision.name,
        "device": str(runtime.device),
        "head": workload.task.head,
        "unread": sorted({line for lines in unread_elsewhere for line in lines}),
    }
    if runtime.is_first:
        folder.write_summary(summary)
        write_samples(folder.samples_path, workload, results)
        write_predictions(folder.predictions_path, workload, results)
        if config.figures:
            from posemill.training.runs.figure_samples import draw_first_samples
            from posemill.training.runs.figures import draw_training

            draw_training(folder, workload, results, samples=draw_first_samples(trainer))
    return summary


def _measure_bf16(trainer: Trainer) -> None:
    """Measure what the other number format would have been, where some steps more do not show."""
    is_long = sum(trainer.clock.read().values()) >= LEAST_SECONDS and trainer.state.step >= 500
    if is_long and trainer.runtime.size == 1:
        trainer.reporter.bf16_gain = bf16_gain(
            trainer.workload, trainer.config, trainer.runtime.device
        )


def _final_scores(trainer: Trainer) -> dict[str, Evaluation]:
    """Score val and test with the best weights; the head of ctc is chosen on val, used on test."""
    workload, results = trainer.workload, {}
    of_val: dict[str, float] = {}
    if workload.val is not None:
        results[trainer.config.val_split] = trainer.score(workload.val)
        of_val = results[trainer.config.val_split].scores
    workload.task = workload.task.choose_head(of_val)
    for name, split in workload.tests.items():
        results[name] = trainer.score(split)
    return results


def _facts(workload: Workload, config: TrainConfig, runtime: Runtime) -> dict[str, Any]:
    return {
        "posemill": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "mode": config.parallel,
        "processes": runtime.size,
        "threads": config.threads,
        "precision": runtime.precision.name,
        "num_parameters": sum(p.numel() for p in workload.model.parameters()),
        "identity": dict(workload.identity),
        "class_names": list(workload.class_names),
        "skeleton_name": workload.skeleton_name,
        "recipe": dict(workload.recipe),
    }
