"""What users call: `train` a configuration; and what `fit` ends in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

from posemill.errors import ConfigError, PosemillError, RunError
from posemill.files import atomic_path
from posemill.machine.live_files import LogFile
from posemill.machine.processes import is_first_process, under_torchrun
from posemill.messages import Message
from posemill.outputs import expect_folder
from posemill.terminal import counted
from posemill.training.config.resolve import Resolved, describe_changes
from posemill.training.config.train_config import TrainConfig, with_absolute_paths
from posemill.training.config.unused import unused_settings
from posemill.training.data.dataset_cache import describe_uses, live_uses
from posemill.training.launch.leave_out import leave_each_out
from posemill.training.launch.rank import joined, launch
from posemill.training.launch.trial import try_one_batch
from posemill.training.loggers import say
from posemill.training.loop.timing import read_evidence
from posemill.training.loop.trainer import TrainState
from posemill.training.multigrid.stages import Stages
from posemill.training.precision import Precision, choose_device, precision_of_run
from posemill.training.ranks import refuse_second_start
from posemill.training.record.checkpoints import check_identity
from posemill.training.record.run_folder import RunFolder
from posemill.training.runtime import Runtime
from posemill.training.tasks.workload import MakeWorkload, Workload, build_workload, check_shares
from posemill.training.tuning import modes
from posemill.training.tuning.advice import advise
from posemill.training.tuning.arms import MakeFor
from posemill.training.tuning.tune import Tuned, tune_training
from posemill.training.video.problems import describe_problems, live_problems


@dataclass(frozen=True)
class TrainResult:
    """What a training gave; stands for its folder `out` wherever a path is expected.

    Args:
        scores: By split, of the best checkpoint: `loss`, and `accuracy` or `wer`; with `leave_out`
            of a column, of each group under the model that was trained without it.
        summary: All of `summary.json`: timing, advice, mode and why, notes; or of `left_out.json`.
    """

    out: Path
    scores: Mapping[str, Mapping[str, float]]
    summary: Mapping[str, Any]

    def __fspath__(self) -> str:
        return str(self.out)


def train(resolved: Resolved) -> TrainResult:
    """Return the result of the training, or of the trainings, that settings describe."""
    if not resolved.config.out:
        raise ConfigError("{--out}: expected the folder of the run, for example runs/train1")
    expect_folder(resolved.config.out, kind="a run")
    if not resolved.config.leave_out or "=" in resolved.config.leave_out:
        return run_training(build_workload, resolved)
    found = leave_each_out(resolved)
    score = found["score"]
    scores = {row["group"]: {score: row[score]} for row in found["groups"] if "run" in row}
    return TrainResult(Path(resolved.config.out), scores, found)


def run_training(make_for: MakeFor, resolved: Resolved) -> TrainResult:
    """Train a workload in the mode, with the precision and in the folder that settings say."""
    refuse_second_start()
    config = resolved.config
    with modes.processor_made_ready(config), joined(config) as runtime, ExitStack() as lock:
        return _run_in(RunFolder(config.out), make_for, resolved, runtime=runtime, lock=lock)


def _lock_begun(
    folder: RunFolder, config: TrainConfig, runtime: Runtime, lock: ExitStack
) -> LogFile | None:
    """Lock a training that is to go on, before any process reads it; return its log.

    Another process that trains there would replace what is read. The processes of torchrun wait
    for the first one's lock, and all fail where it fails.
    """
    log, failure = None, None
    if runtime.is_first and config.resume:
        try:
            log = lock.enter_context(folder.made_and_locked()) if folder.has_begun() else None
        except RunError as error:
            failure = error
    if failure := runtime.gather(failure)[0]:
        raise failure
    return log


def _run_in(
    folder: RunFolder, make_for: MakeFor, resolved: Resolved, *, runtime: Runtime, lock: ExitStack
) -> TrainResult:
    """Train in a folder: a new one, or one that holds a training to be continued.

    `lock` holds the lock of the folder until the caller is done. A new one is locked before
    anything is written.
    """
    log = _lock_begun(folder, resolved.config, runtime, lock)
    if runtime.is_first:
        folder.expect_free(resume=resolved.config.resume)
    # The first one makes the folder, and cannot write a checkpoint before all have met.
    continues = resolved.config.resume and folder.checkpoints.has("last")
    tuned: Tuned | None = None
    if resolved.config.tune != "none" and not continues:
        tuned = tune_training(make_for, resolved)
        resolved = tuned.resolved
    config, uses, unread = modes.with_open_workers(resolved), live_uses(), live_problems()
    modes.plan_mode(config)  # what this machine does not have shows before the data are read
    make: MakeWorkload = partial(make_for, resolved.config)
    workload = make()  # what is wrong with the data shows here, before anything is written
    begun = None
    if continues:
        _check_continued(folder, workload)
        begun = _decision_of(folder, config)
    if workload.task.is_own:
        precision = begun[1] if begun else modes.plan_precision(config)
        try_one_batch(workload, config.replace(precision=precision.name))
    plan, precision = begun or modes.decide(workload, make_for, config)
    config = config.replace(precision=precision.name)
    modes.check_divisible(workload, plan)
    stages = Stages(workload.train, config)
    stages.check_norms(workload.model, plan.processes)
    if continues and (finished := _finished(folder, stages, config)):
        return finished
    decided = {name: value for name, (value, _) in workload.decided.items()}
    planned = plan.apply(config, is_threadsafe=workload.train.is_threadsafe).replace(**decided)
    notes = _notes_of(folder, workload, resolved, planned)
    why = dict.fromkeys(("parallel", "processes", "threads", "workers"), plan.reason)
    why |= {"precision": precision.reason}
    why |= {name: reason for name, (_, reason) in workload.decided.items()}
    grid_lines = stages.describe()
    if plan.mode != "multi_process" or under_torchrun():
        make = partial(_given, workload)
    del workload, stages  # where there are several processes, each makes its own
    reasons: dict[str, Any] = {"mode_reason": plan.reason, "precision_reason": precision.reason}
    if not runtime.is_first:
        summary = launch(make, planned, folder, runtime)
        return TrainResult(folder.path, summary["scores"], summary | reasons)
    if log is None:
        with folder.naming_the_disk():
            log = lock.enter_context(folder.made_and_locked())
        folder.expect_free(resume=False)  # another may have begun since
    with folder.naming_the_disk(), _ended_in(log):
        _write_settings(folder, resolved, planned, why)
        log.write(f"start: pid {os.getpid()}")
        lines = [
            *(tuned.lines() if tuned is not None else []),
            *(Message("note: {note}", note=note) for note in notes),
            *(plan.describe(), precision.describe()),
            *grid_lines,
        ]
        _tell(lines, log)
        summary = launch(make, planned, folder, runtime) | reasons
        met = dict.fromkeys([*describe_problems(unread), *summary.pop("unread", [])])
        saved = [*describe_uses(uses), *met]
        summary["notes"] = notes + summary["notes"] + saved
        advice = advise(read_evidence(folder.path), planned)
        summary["advice"] = [entry.sentence for entry in advice]
        if tuned is not None:
            summary["tuned"] = tuned.to_json()
        folder.write_summary(summary)
        _tell(saved, log)
        log.write(f"finished: {counted(summary['steps'], 'steps')}, best at {summary['best_step']}")
    return TrainResult(folder.path, summary["scores"], summary)


def _check_continued(folder: RunFolder, workload: Workload) -> None:
    """Refuse to go on with another model or other classes, before anything is written."""
    facts = folder.read_facts()
    check_identity(facts.get("identity"), workload.identity, str(folder.path))
    check_shares(facts, workload.set_aside, folder.path)
    before, now = list(facts["class_names"]), list(workload.class_names)
    if before and now != before:
        raise RunError(
            "{folder} has learned the classes {old_classes}, and these data have {new_classes}: "
            "continue with the data it began with, or choose another {--out}",
            folder=folder.path,
            old_classes=shorten(", ".join(before), 80, placeholder=" …"),
            new_classes=shorten(", ".join(now), 80, placeholder=" …"),
        )


def _finished(folder: RunFolder, stages: Stages, config: TrainConfig) -> TrainResult | None:
    """Return the result of a training with nothing left to train, and say why; None for others.

    `RunError` where its place lies elsewhere in these stages: it could not go on from there.
    """
    try:
        state = TrainState(**folder.checkpoints.load("last").state["train_state"])
        expected = stages.step_at(state.epoch, state.step_in_epoch)
        is_out_of_patience = state.is_out_of_patience(config.patience)
    except (KeyError, TypeError, ValueError):
        return None  # broken: whoever goes on says so
    if expected != state.step:
        raise RunError(
            "{folder} has taken {num_steps:step|steps} in {num_epochs:epoch|epochs}, which would "
            "be {expected_steps} now: the batch size, the schedule or the number of clips is "
            "another than in {config}; continue with that, or choose another {--out}",
            folder=folder.path,
            num_steps=state.step,
            num_epochs=state.epoch,
            expected_steps=expected,
            config=folder.config_path,
        )
    is_over = state.step >= stages.total_steps
    if not (is_over or is_out_of_patience) or not (summary := folder.read_summary()):
        return None
    template = "nothing was left to train: a larger {--epochs} goes on"
    if not is_over:
        template = (
            "nothing was left to train: no better score in "
            "{num_worse:evaluation|evaluations} ({--patience:{patience}}); a larger "
            "{--patience}, or 0, goes on"
        )
    if is_first_process():
        say(Message(template, num_worse=state.num_worse, patience=config.patience))
    return TrainResult(folder.path, summary["scores"], summary)


def _notes_of(
    folder: RunFolder, workload: Workload, resolved: Resolved, planned: TrainConfig
) -> list[str]:
    """Return what is worth a note: of a begun training what changed, of a new one its leaks too."""
    unused = unused_settings(
        resolved.config,
        has_dev=workload.val is not None,
        planned=planned,
        has_gpu=choose_device(planned.device).type == "cuda",
        typed={name for name, source in resolved.sources.items() if source in ("flag", "given")},
        is_own=workload.task.is_own,
        has_own_optimizer=workload.make_optimizer is not None,
    )
    notes = [*workload.notes, *unused]
    if planned.resume and folder.checkpoints.has("last"):
        return notes + describe_changes(folder.config_path, with_absolute_paths(planned))
    notes += workload.find_leaks() if is_first_process() else []
    if planned.resume:
        template = "{folder} has no checkpoint to go on from: the training begins anew"
        notes.append(Message(template, folder=folder.path))
    return notes


def _tell(lines: list[str], log: LogFile) -> None:
    for line in lines:
        log.write(line)
        say(line)


@contextmanager
def _ended_in(log: LogFile) -> Iterator[None]:
    """Write into the log why a training ended before its time."""
    try:
        yield
    except (PosemillError, KeyboardInterrupt) as error:
        is_failure = isinstance(error, PosemillError)
        log.write(f"failed: {error}" if is_failure else "interrupted")
        raise


def _given(workload: Workload) -> Workload:
    return workload


def _write_settings(
    folder: RunFolder, resolved: Resolved, planned: TrainConfig, why: Mapping[str, str]
) -> None:
    """Write `config.toml`: every value and its source, and the reason of what was decided."""
    before, now = resolved.config.to_dict(), planned.to_dict()
    changed = {name: now[name] for name in why if now[name] != before[name]}
    written = resolved.with_machine(changed, why)
    text = Resolved(with_absolute_paths(written.config), written.sources).to_toml()
    with atomic_path(folder.config_path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _decision_of(folder: RunFolder, config: TrainConfig) -> tuple[modes.ModePlan, Precision]:
    """Return mode and number format of a begun training: others would change the results."""
    facts, reason = folder.read_facts(), Message("as the run began")
    processes, threads = (getattr(config, n) or facts[n] for n in ("processes", "threads"))
    plan = modes.plan_mode(config) or modes.ModePlan(facts["mode"], processes, threads, reason)
    precision = modes.plan_precision(config)
    if config.precision in ("auto", "mixed"):
        precision = precision_of_run(facts["precision"], choose_device(config.device), reason)
    return plan, precision
