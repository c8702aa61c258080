"""`extract`: a whole dataset to keypoints."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.commands.arguments import AnyPath, run_and_file
from posemill.commands.data import export, say_losses
from posemill.commands.declaring import AsJson, Command, ShowConfig
from posemill.commands.printing import (
    print_config,
    print_json,
    print_notes,
    print_table,
    say,
    shares_of,
)
from posemill.commands.progress import ProgressView
from posemill.config import ExtractConfig, JobConfig
from posemill.errors import ConfigError
from posemill.language import translate
from posemill.messages import Message, join
from posemill.outputs import Outputs
from posemill.provenance import Resolved, resolve
from posemill.settings import ConfigT, setting

if TYPE_CHECKING:
    from posemill.jobs.extract.plan import WorkerPlan
    from posemill.jobs.extract.run import Summary
    from posemill.jobs.extract.status import Progress
    from posemill.sources import ClipList

InBackground = Annotated[bool, setting("Run in the background.", flags=("--detach",))]


def extract(
    source: ExtractConfig | os.PathLike[str] | str | Sequence[os.PathLike[str] | str],
    out: os.PathLike[str] | str | None = None,
    *,
    progress: bool | None = None,
    clips: ClipList | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_plan: Callable[[ClipList, WorkerPlan], None] | None = None,
    **settings: Any,
) -> Summary:
    """Extract the keypoints of all clips of a source into a run; continue it if it was begun.

    What came of it is in the result: counts, reasons of failures, and `run`, to be read. A clip
    that cannot be read is no exception, it is counted there.

    Args:
        source: A frame tree, a folder of videos or pictures, one file, a list, a known dataset; or
            several files, `["a.mp4", "b.mp4"]`; or an `ExtractConfig`, which says all the rest too.
        out: The run's folder; or a file, `keypoints.pkl`, that its keypoints are exported to: the
            run is `keypoints.run` beside it.
        progress: Bars on a terminal or a line in a notebook; True also for lines in a log, False
            for nothing.
        clips: What `posemill.sources.find_clips` found, to spare a second look.
        on_progress: Called a few times per second.
        on_plan: Called once before work starts, with the clips and the lengths of videos.
        settings: All other fields of `ExtractConfig`, as `posemill extract` has them as flags:
            `workers=2`, `splits=["train"]`, `mode="image"` …

    Raises:
        RunError: The folder holds something else, or a run of other options, or is worked on; or
            the disk is full. What was committed is safe.
        StoppedError: A signal asked for it (Ctrl-C); the same call continues.
    """
    from posemill.jobs.extract.run import extract as run_extraction
    from posemill.sources import find_files

    if not isinstance(source, (str, os.PathLike, ExtractConfig)):
        source, clips = find_files(source)
    config, file = split_out(config_of(ExtractConfig, source, out, settings))
    if file is not None:  # before the work of hours
        advice = Message("expected a folder for the run, or a new file for its keypoints")
        Outputs(config.out, overwrite=config.overwrite).claim_file(file, advice=advice)

    def show(snapshot: Progress) -> None:
        view.show(snapshot)
        if on_progress is not None:
            on_progress(snapshot)

    with ProgressView(progress) as view:
        summary = run_extraction(
            config, clips=clips, on_progress=show, on_plan=on_plan, on_count=view.count
        )
    if file is not None and summary.num_frames:
        exported = export(config.out, out=file, overwrite=config.overwrite, progress=progress)
        summary = dataclasses.replace(summary, losses=exported.losses)
    return summary


def split_out(config: ExtractConfig) -> tuple[ExtractConfig, Path | None]:
    """Return the settings with the run's folder, and the file that is asked for, if one is."""
    folder, file = run_and_file(config.out)
    return (config, None) if file is None else (config.replace(out=folder), file)


def config_of(
    kind: type[ConfigT], source: Any, out: AnyPath | None, settings: Mapping[str, Any]
) -> ConfigT:
    """Return a configuration: `source` where it is one, else made of all that was given."""
    given = {"out": out, **settings}
    given = {name: value for name, value in given.items() if value is not None}
    if not isinstance(source, kind):
        return kind(source=source, **given)
    if given:
        template = "{kind} says everything; {names} came beside it"
        raise ConfigError(template, kind=kind.__name__, names=", ".join(given))
    return source


def show_extract(
    *,
    config: Annotated[Path | None, setting("TOML file; every flag is a field of it.")] = None,
    show_config: ShowConfig = False,
    in_background: InBackground = False,
    dry_run: Annotated[bool, setting("Say what would be done.")] = False,
    as_json: AsJson = False,
    **settings: Annotated[Any, ExtractConfig],
) -> int | None:
    """Extract the keypoints of a whole dataset. The same command again continues."""
    missing = {"source": Path("SOURCE"), "out": Path("RUN")} if show_config else None
    resolved = resolve(ExtractConfig, config, settings, missing=missing)
    if show_config:
        print_config(_with_machine(resolved), as_json=as_json)
        return 0
    run, file = split_out(resolved.config)
    if dry_run:
        _show_dry_run(run, as_json=as_json)
        return 0
    if in_background:
        detach("extract", resolved.config, run.out, run.storage)
        return 0
    say("looking for clips in {source} …", source=run.source, err=True)
    summary = extract(resolved.config, progress=True, on_plan=partial(print_plan, run))
    if as_json:
        print_json(summary)
    else:
        print_counts(summary)
        _say_last_words(summary)
    if file is not None:
        template = "no frames, so no {file}; the run, which the same command continues, is {run}"
        if summary.num_frames:
            template = "{file} written; the run, which the same command continues, is {run}"
        say(template, file=file, run=summary.name, err=True)
        say_losses(summary.losses)
    return summary.exit_code


def _with_machine(resolved: Resolved[ExtractConfig]) -> Resolved[ExtractConfig]:
    """Return the settings with what this machine makes of those that were left to it."""
    from posemill.jobs.extract.plan import frames_per_call, plan_workers

    config, plan = resolved.config, plan_workers(resolved.config)
    reasons = {
        "workers": "cores this process may use",
        "batch_size": f"usual on a {'GPU' if config.num_gpus else 'CPU'}",
        "memory_limit_mb": "a worker's share of the memory",
    }
    decided = {"batch_size": frames_per_call(config), "memory_limit_mb": plan.memory_bytes >> 20}
    if not config.num_gpus:
        decided["workers"] = plan.num_workers
    left = {name: value for name, value in decided.items() if getattr(config, name) is None}
    return resolved.with_machine(left, reasons)


def print_plan(config: JobConfig, clips: ClipList, workers: WorkerPlan) -> None:
    """Say how much each split has, what is odd about it, and how it will be worked on."""
    from posemill.jobs.extract.plan import describe_mode, unused_settings
    from posemill.jobs.extract.run import settled

    for split, totals in clips.totals.items():
        template = "{split}: {num_clips:clip|clips}, {num_frames:frame|frames}"
        if totals.num_uncounted:
            template = (
                "{split}: {num_clips:clip|clips}, {num_frames:frame|frames} and "
                "{num_uncounted:video|videos} of unknown length"
            )
        say(template, split=split, **vars(totals), err=True)
    print_notes((*clips.problems, *unused_settings(config, clips)))
    if config.fps is not None:
        say("fewer frames: {fps:g} of every second", fps=config.fps, err=True)
    elif config.stride > 1:
        say("fewer frames: 1 of every {stride}", stride=config.stride, err=True)
    if isinstance(config, ExtractConfig):
        say(describe_mode(config, settled(config).mode, clips), err=True)
    say("plan: {workers}", workers=workers.describe(), err=True)


def print_counts(progress: Progress) -> None:
    """Print how far each split is, and why frames failed."""
    names = "split num_clips clips_done clips_failed frames_known frames_out frames_failed"
    rows = list(map(attrgetter(*names.split()), progress.counts))
    columns = ["split", "clips", "done", "clips failed", "frames in", "frames out", "frames failed"]
    if any(progress.in_flight.values()):  # the share of frames done counts these, too
        columns.append(Message("not yet written"))
        rows = [(*row, progress.in_flight.get(row[0], 0)) for row in rows]
    print_table(columns, rows)
    if progress.reasons:
        reasons = [(translate(reason), *counts) for reason, *counts in progress.reasons]
        print_table(["reason", "failures", "frames"], reasons)
        say(
            "one by one: posemill status {run!q} --failures; try them again: {--retry-failed}",
            run=progress.name,
        )


def _say_last_words(summary: Summary) -> None:
    """Say in how many frames each part was found, in which mode, and how fast it went."""
    from posemill.skeletons.palette import part_label

    found = summary.found()
    if not found:
        return
    labelled = {part_label(part): share for part, share in found.items()}
    template = "found in {num_frames:frame|frames}: {shares}"
    parts = [Message(template, num_frames=summary.num_frames, shares=shares_of(labelled))]
    if mode := summary.run.manifest.extraction.get("mode"):
        parts.append(Message("mode {mode}", mode=mode))
    say(join("; ", [*parts, rate_text(summary.frames_per_second)]), err=True)
    if not any(found.values()):
        template = (
            "nothing was found in any frame: is a person in the pictures, upright? Look at them: "
            "posemill visualize {run!q}"
        )
        print_notes([Message(template, run=summary.name)])


def rate_text(frames_per_second: float | None) -> Message:
    """Return how fast it went."""
    if not frames_per_second:
        return Message("nothing was left to do")
    return Message("{rate:.1f} frames/s", rate=frames_per_second)


def _show_dry_run(config: ExtractConfig, *, as_json: bool) -> None:
    from posemill.jobs.extract.opening import compare
    from posemill.jobs.extract.plan import describe_mode, missing_gpus, plan_workers
    from posemill.jobs.extract.run import Extraction
    from posemill.places import uri_of
    from posemill.runs.manifest import check_folder

    out, job = uri_of(config.out) or config.out, Extraction(config)
    clips = job.find_clips()
    if continues := check_folder(job.home.work):
        compare(job.home, job.manifest(clips))
    with ProgressView() as view:
        clips = job.count_frames(clips, view.count)
    print_plan(config, clips, plan_workers(config))
    if not config.ray_address and (sentence := missing_gpus(config)):
        print_notes([sentence])
    if as_json:
        splits = {name: dataclasses.asdict(totals) for name, totals in clips.totals.items()}
        mode = describe_mode(config, job.config.mode, clips)
        print_json({"out": str(out), "continues": continues, "mode": mode, "splits": splits})
        return
    template = "would start a run in {out}; nothing was written"
    if continues:
        template = "would continue the run in {out}; nothing was written"
    say(template, out=out)


def detach(command: str, config: JobConfig, out: Path, storage: str) -> None:
    """Start a command in the background; say who works on the run, and how to look after it."""
    from posemill.jobs.extract.status import start_detached
    from posemill.places import uri_of
    from posemill.runs.home import RunHome

    pid = start_detached([command, *config.to_arguments()], RunHome.at(out, storage).work)
    run = uri_of(out) or out
    say("pid {pid} works on {run} in the background", pid=pid, run=run, err=True)
    say("posemill status {run!q}\nposemill stop {run!q}", run=run)


COMMANDS = (Command("extract", show_extract),)
