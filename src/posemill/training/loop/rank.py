"""One process's part of a training: numbers of threads, the trainer, the last scores, the files."""

from __future__ import annotations

import csv
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from posemill import __version__
from posemill.files import atomic_path
from posemill.machine.allocator import freed_memory_returned, keep_freed_memory
from posemill.training.config.train_config import TrainConfig
from posemill.training.fitting.scoring import UserScorer
from posemill.training.loop.distributed import World
from posemill.training.loop.evaluation import Evaluation
from posemill.training.loop.precision import choose_device, choose_precision
from posemill.training.loop.trainer import Trainer
from posemill.training.runs.predictions import write_predictions
from posemill.training.runs.run_folder import RunFolder
from posemill.training.tasks.scorers import CtcScorer, best_head
from posemill.training.tasks.workload import Split, Workload
from posemill.training.video.problems import describe_problems, live_problems

MakeWorkload = Callable[[], Workload]


def train_rank(
    make: MakeWorkload, config: TrainConfig, folder: RunFolder, world: World
) -> dict[str, Any]:
    """Train in this process, as one of `world`, and return the summary.

    Args:
        make: Returns the workload; called once, here.
        config: Settings with mode, threads and precision decided (see `launch.modes`).
        folder: Already made.
        world: Already joined.
    """
    device = use_device(config.device, world)
    precision, unread = choose_precision(config.precision, device), live_problems()
    with freed_memory_returned(), numeric_settings(config), folder.naming_the_disk():
        workload = make()
        trainer = Trainer(
            workload, config, world=world, device=device, precision=precision, folder=folder
        )
        if config.resume and folder.checkpoints.has("last"):
            trainer.restore()
        elif world.is_first:
            folder.cut_metrics(0)  # of a start that was killed before its first checkpoint
        if world.is_first:
            folder.write_facts(_facts(workload, config, world, precision.name))
        trainer.run()
        _measure_bf16(trainer)
        trainer.load_best()
        results, head = _final_scores(trainer)
        summary = trainer.summary()
    summary |= {
        "scores": {name: result.scores for name, result in results.items()},
        "mode": config.parallel,
        "processes": world.size,
        "threads": torch.get_num_threads() if not config.threads else config.threads,
        "precision": precision.name,
        "device": str(device),
        "head": head,
        # Each process met its own; who started several of them has met none.
        "unread": sorted({line for part in world.gather(describe_problems(unread))
                          for line in part}) if world.size > 1 else [],
    }  # fmt: skip
    if world.is_first:
        folder.write_summary(summary)
        _write_samples(folder, workload, results)
        write_predictions(folder.predictions_path, workload, results)
        if config.figures:
            from posemill.training.fitting.pictures import draw_first_samples
            from posemill.training.runs.figures import draw_training

            draw_training(folder, workload, results, samples=draw_first_samples(trainer))
    return summary


def use_device(name: str, world: World) -> torch.device:
    """Return the device of this process, which is torch's current one from here on.

    Random states and the times of a GPU are those of the current device.
    """
    device = choose_device(name)
    if device.type == "cuda":
        if world.size > 1:
            device = torch.device("cuda", world.local_rank)
        torch.cuda.set_device(device)
    return device


def _measure_bf16(trainer: Trainer) -> None:
    """Measure what the other number format would have been, where some steps more do not show."""
    from posemill.training.tuning.advice import LEAST_SECONDS
    from posemill.training.tuning.timed_steps import bf16_gain  # which imports this module

    is_long = sum(trainer.clock.read().values()) >= LEAST_SECONDS and trainer.state.step >= 500
    if is_long and trainer.world.size == 1:
        trainer.reporter.bf16_gain = bf16_gain(trainer.workload, trainer.config, trainer.device)


def _write_samples(
    folder: RunFolder, workload: Workload, results: Mapping[str, Evaluation]
) -> None:
    """Write `samples.csv`: the metrics of `fit` that have a value for each sample."""
    scorer = workload.val.scorer if workload.val is not None else None
    if not isinstance(scorer, UserScorer) or not results:
        return
    if rows := scorer.sample_values(next(iter(results.values())).rows):
        with atomic_path(folder.samples_path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def _final_scores(trainer: Trainer) -> tuple[dict[str, Evaluation], str]:
    """Score val and test with the best weights; the head of ctc is chosen on val, used on test."""
    workload, config = trainer.workload, trainer.config
    results: dict[str, Evaluation] = {}
    head = ""
    if workload.val is not None:
        results[config.val_split] = trainer.score(workload.val)
        head = best_head(results[config.val_split].scores)
    for name, split in workload.tests.items():
        results[name] = trainer.score(_with_head(split, head, config))
    return results, head


def _with_head(split: Split, head: str, config: TrainConfig) -> Split:
    scorer = split.scorer
    if not isinstance(scorer, CtcScorer):
        return split
    chosen = CtcScorer(
        scorer.targets,
        head=head or "sequence",
        decoder=config.ctc_decoder,
        beam_width=config.beam_width,
    )
    return replace(split, scorer=chosen)


def _facts(workload: Workload, config: TrainConfig, world: World, precision: str) -> dict[str, Any]:
    return {
        "posemill": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "mode": config.parallel,
        "processes": world.size,
        "threads": config.threads,
        "precision": precision,
        "num_parameters": sum(p.numel() for p in workload.model.parameters()),
        "identity": dict(workload.identity),
        "class_names": list(workload.class_names),
        "skeleton_name": workload.skeleton_name,
        "recipe": dict(workload.recipe),
    }


@contextmanager
def numeric_settings(config: TrainConfig) -> Iterator[None]:
    """Set threads, cuDNN and determinism for the block, and put them back after it.

    Freed memory is kept for what comes next; `freed_memory_returned` around all of it ends that.
    """
    before = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
    )
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
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
        torch.backends.cudnn.benchmark = before[2]
