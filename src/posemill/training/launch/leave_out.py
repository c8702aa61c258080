"""How well new people are recognised: a sweep with a training for each group that never sees it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posemill.errors import ConfigError, TrainingError
from posemill.files import atomic_path
from posemill.machine.limits import count_cores
from posemill.machine.processes import under_torchrun
from posemill.messages import Message
from posemill.training.config.resolve import Resolved
from posemill.training.config.train_config import FIELDS, TrainConfig
from posemill.training.data.labels import LabelledClip
from posemill.training.launch.sweep import Sweep, SweepJob, make_job
from posemill.training.launch.sweep_runner import refuse_foreign_parts, run_sweep
from posemill.training.loggers import say
from posemill.training.precision import choose_device
from posemill.training.record.live import write_object
from posemill.training.runs.status import LEFT_OUT_NAME
from posemill.training.tasks.kinds import find_kind


def leave_each_out(resolved: Resolved) -> dict[str, Any]:
    """Return the test scores of each group under a model that was trained on all others.

    `leave_out` (the column), `score` (`accuracy` or `wer`), `groups` (a row for each: `group`,
    `clips`, `clips_scored`, the scores, `run`), `mean` and `worst` over groups. It is written to
    `left_out.json` in the folder of `out`, too.
    """
    if under_torchrun():
        raise ConfigError(
            "{--leave-out}: one training for each group runs in a process of its own, and "
            "torchrun started several of this one; start it without torchrun, or leave one out by "
            "name, as {column}=VALUE",
            column=resolved.config.leave_out,
        )
    config = resolved.config
    column, _ = config.data.left_out
    rows = count_groups(find_kind(config.data.kind).read_rows(config), config.task)
    if len(rows) < 2:
        raise TrainingError(
            "{--leave-out}: all clips have the same {column!r} ({group}): nobody is left to learn "
            "from",
            column=column,
            group=rows[0]["group"],
        )
    given = {
        name: config.value(field)
        for name, field in FIELDS.items()
        if resolved.sources[name] in ("file", "flag", "given")
        and name not in ("out", "leave_out", "resume", "progress")
    }
    out = Path(config.out)
    jobs: dict[str, SweepJob] = {}
    for row in rows:
        if row["clips_scored"]:
            value = f"{column}={row['group']}"
            jobs[row["group"]] = make_job(value, {"leave_out": value}, out, shared=given)
    file = out / "leave_out.toml"  # the same command again, for who has forgotten it
    sweep = Sweep(file, out, None, given, tuple(jobs.values()), started_by="train")
    refuse_foreign_parts(sweep, file.name)
    out.mkdir(parents=True, exist_ok=True)
    with atomic_path(file) as temporary:
        temporary.write_text(resolved.to_toml(is_short=True), encoding="utf-8")
    _run(sweep, column, jobs, config)
    for row in rows:
        if job := jobs.get(row["group"]):
            row |= {**(job.summary or {})["scores"]["test"], "run": str(job.run_folder)}
    scored = [row for row in rows if "run" in row]
    score = "accuracy" if "accuracy" in scored[0] else "wer"
    worst = (min if score == "accuracy" else max)(scored, key=lambda row: float(row[score]))
    result = {
        "leave_out": column,
        "score": score,
        "groups": rows,
        "mean": statistics.fmean(float(row[score]) for row in scored),
        "worst": worst[score],
        "worst_group": worst["group"],
    }
    write_object(out / LEFT_OUT_NAME, result)
    return result


def count_groups(rows: Sequence[LabelledClip], task: str) -> list[dict[str, Any]]:
    """Return `group`, `clips` and `clips_scored` of each group, in the order of their names.

    Scored are the clips with a label that other groups have too.
    """
    result = []
    for name in sorted({row.group for row in rows}):
        others = {row.label for row in rows if row.group != name}
        labels = [row.label for row in rows if row.group == name]
        # Of glosses that nobody else has the word error rate knows what to do.
        num_scored = sum(task == "ctc" or label in others for label in labels)
        result.append({"group": name, "clips": len(labels), "clips_scored": num_scored})
    return result


def _run(sweep: Sweep, column: str, jobs: Mapping[str, SweepJob], config: TrainConfig) -> None:
    groups = {job.name: group for group, job in jobs.items()}

    def report(event: str, job: SweepJob) -> None:
        if config.progress:
            template = "without {column} {group}: {event}"
            say(Message(template, column=column, group=groups[job.name], event=event))

    # Trainings side by side gain more than one spread over the cores; a GPU takes one at a time.
    is_alone = choose_device(config.device).type != "cpu" or config.parallel == "multi_process"
    side_by_side = 1 if is_alone else min(count_cores(), len(jobs))
    failures = run_sweep(sweep, num_jobs=side_by_side, report=report)
    if failures:
        job, reason = next(iter(failures.items()))
        raise TrainingError(
            "{num_failed} of {num_trainings} trainings failed, the first without {column} "
            "{group}: {reason}; its log is {log}. The same command again runs those that are left",
            num_failed=len(failures),
            num_trainings=len(jobs),
            column=column,
            group=groups[job],
            reason=reason,
            log=sweep.out / job / "log.txt",
        )
