"""A training in its processes: each trains, the first one writes what came of it."""

from __future__ import annotations

import csv
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from posemill import __version__
from posemill.files import atomic_path
from posemill.machine.allocator import freed_memory_returned
from posemill.machine.processes import under_torchrun
from posemill.messages import Message
from posemill.training.config.train_config import TrainConfig
from posemill.training.loggers import say
from posemill.training.loop.passes import Evaluation
from posemill.training.loop.trainer import Trainer
from posemill.training.precision import choose_device
from posemill.training.ranks import run_ranks, said_by_the_parent
from posemill.training.record.run_folder import RunFolder
from posemill.training.runtime import Runtime, join_processes, numeric_settings
from posemill.training.tasks.workload import MakeWorkload, Workload
from posemill.training.tuning.advice import LEAST_SECONDS
from posemill.training.tuning.modes import bf16_gain
from posemill.training.video.problems import describe_problems, live_problems

COLUMNS = ("split", "clip_id", "label", "predicted", "score")


@contextmanager
def joined(config: TrainConfig) -> Iterator[Runtime]:
    """Yield this process, which has joined the others of torchrun where that started it."""
    if not under_torchrun():
        yield Runtime()
        return
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    runtime = join_processes(rank, size, device_type=choose_device(config.device).type)
    try:
        yield runtime
    finally:
        runtime.close()


def launch(
    make: MakeWorkload, config: TrainConfig, folder: RunFolder, runtime: Runtime
) -> dict[str, Any]:
    """Train in the mode that `config` (already planned) says, and return the summary."""
    task = partial(train_rank, make, config, folder)
    if config.parallel == "multi_process" and not under_torchrun():
        if config.progress:
            say(Message("starting {processes} processes …", processes=config.processes))
        return run_ranks(task, config)
    return dict(task(runtime))


def train_rank(
    make: MakeWorkload, config: TrainConfig, folder: RunFolder, runtime: Runtime
) -> dict[str, Any]:
    """Train in this process, and return the summary."""
    runtime, unread = runtime.using(config), live_problems()
    with freed_memory_returned(), numeric_settings(config), folder.naming_the_disk():
        with said_by_the_parent():
            workload = make()
        trainer = Trainer(workload, config, runtime, folder)
        if config.resume and folder.checkpoints.has("last"):
            trainer.restore()
        elif runtime.is_first:
            folder.cut_metrics(0)  # of a start that was killed before its first checkpoint
        if runtime.is_first:
            facts = {
                "posemill": __version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
                **_ways(config, runtime),
                "num_parameters": sum(p.numel() for p in workload.model.parameters()),
                "identity": dict(workload.identity),
                "class_names": list(workload.class_names),
                "skeleton_name": workload.skeleton_name,
                "recipe": dict(workload.recipe),
                "set_aside": dict(workload.set_aside),
            }
            folder.write_facts(facts)
        trainer.run()
        is_long = sum(trainer.clock.read().values()) >= LEAST_SECONDS and trainer.state.step >= 500
        if is_long and runtime.size == 1:  # where some steps more do not show
            trainer.reporter.measured["bf16_gain"] = bf16_gain(workload, config, runtime.device)
        trainer.reporter.say_what_takes_long(Message("scoring the best checkpoint …"))
        trainer.load_best()
        results = _final_scores(trainer)
        summary = trainer.reporter.summary(trainer.state)
    # Each process met its own clips; who started several of them has met none.
    is_alone = runtime.size == 1
    unread_elsewhere = [] if is_alone else runtime.gather(describe_problems(unread))
    summary |= _ways(config, runtime) | {
        "scores": {name: result.scores for name, result in results.items()},
        "threads": config.threads or torch.get_num_threads(),
        "device": str(runtime.device),
        "head": workload.task.head,
        "unread": sorted({line for lines in unread_elsewhere for line in lines}),
    }
    if runtime.is_first:
        folder.write_summary(summary)
        # Of `fit` the metrics that have a value for each sample, of the first split.
        scored = [result.rows for result in results.values()][:1]
        samples = (workload.task.sample_values(rows) for rows in scored)
        _write_rows(folder.path / "samples.csv", chain.from_iterable(samples))
        _write_rows(folder.path / "predictions.csv", _predictions(workload, results))
        if config.figures:
            from posemill.training.runs.figure_samples import draw_first_samples
            from posemill.training.runs.figures import draw_training

            trainer.reporter.say_what_takes_long(Message("drawing figures …"))
            draw_training(folder, workload, results, samples=draw_first_samples(trainer))
    return summary


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


def _ways(config: TrainConfig, runtime: Runtime) -> dict[str, Any]:
    """Return how a training computes, as `run.json` and `summary.json` say it."""
    ways = {"mode": config.parallel, "processes": runtime.size, "threads": config.threads}
    return {**ways, "precision": runtime.precision.name}


def _predictions(workload: Workload, results: Mapping[str, Evaluation]) -> Iterator[dict[str, Any]]:
    """Yield what was said of the clips of all splits; nothing where they have no names.

    The score is the probability of the predicted label, empty for sequences.
    """
    for split, result in results.items():
        clips = workload.tests.get(split, workload.val)
        clip_ids = clips.clip_ids if clips is not None else ()
        for row in result.rows if clip_ids else ():
            said, true = workload.task.describe(row, workload.class_names)
            chance = "" if row.chance is None else f"{row.chance:.4f}"
            values = (split, clip_ids[row.sample], true, said, chance)
            yield dict(zip(COLUMNS, values, strict=True))


def _write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as a table; nothing where there are none."""
    if rows := list(rows):
        with (
            atomic_path(path) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
