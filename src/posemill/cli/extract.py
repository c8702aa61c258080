"""`posemill extract`: a whole dataset to keypoints."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posemill.api.run_progress import ProgressView
from posemill.api.spelling import arguments_of
from posemill.cli.data import say_losses
from posemill.cli.options import AsJson, ShowConfig, with_config_flags
from posemill.cli.printing import print_config, print_json, print_reasons, print_table, say
from posemill.config import ExtractConfig
from posemill.errors import ConfigError
from posemill.language import word
from posemill.provenance import Resolved, resolve
from posemill.skeletons.palette import part_label
from posemill.terminal import counted, quoted

if TYPE_CHECKING:
    from posemill.jobs.extract.run import Summary
    from posemill.jobs.extract.workers import WorkerPlan
    from posemill.sources import ClipList


def register(app: typer.Typer) -> None:
    """Add `extract`."""
    app.command()(with_config_flags(extract, ExtractConfig))


def extract(
    path: Annotated[
        Path | None, typer.Argument(metavar="SOURCE", help="The same as --dataset-path.")
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config", help="TOML file; every flag is a field of it.")
    ] = None,
    show_config: ShowConfig = False,
    *,
    detach: Annotated[bool, typer.Option(help="Run in the background.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Say what would be done.")] = False,
    as_json: AsJson = False,
    flags: dict[str, Any],
) -> None:
    """Extract the keypoints of a whole dataset. The same command again continues."""
    if path is not None and "source" in flags:
        raise ConfigError("SOURCE and --dataset-path say the same thing: give one of them")
    given = flags if path is None else {**flags, "source": path}
    missing = {"source": Path("SOURCE"), "out": Path("RUN")} if show_config else None
    resolved = resolve(ExtractConfig, config_file, given, missing=missing)
    if show_config:
        print_config(_with_machine(resolved), as_json=as_json)
    elif dry_run:
        _show_dry_run(resolved.config, as_json=as_json)
    elif detach:
        _detach(resolved.config)
    else:
        _run(resolved.config, as_json=as_json)


def _with_machine(resolved: Resolved[ExtractConfig]) -> Resolved[ExtractConfig]:
    """Return the settings with what this machine makes of those that were left to it."""
    from posemill.jobs.extract.workers import frames_per_call, plan_workers

    config, plan = resolved.config, plan_workers(resolved.config)
    found: dict[str, Any] = {}
    why: dict[str, str] = {}
    if config.workers is None and not config.num_gpus:
        found["workers"], why["workers"] = plan.num_workers, "cores this process may use"
    if config.batch_size is None:
        device = "GPU" if config.num_gpus else "CPU"
        found["batch_size"], why["batch_size"] = frames_per_call(config), f"usual on a {device}"
    if config.memory_limit_mb is None:
        found["memory_limit_mb"] = plan.memory_bytes >> 20
        why["memory_limit_mb"] = "a worker's share of the memory"
    return resolved.with_machine(found, why)


def _run(config: ExtractConfig, *, as_json: bool) -> None:
    from posemill.api.extracting import extract as run_extract
    from posemill.api.extracting import split_out

    _, file = split_out(config)
    say(f"looking for clips in {config.source} …", err=True)
    summary = run_extract(config, progress=True, on_plan=partial(_print_plan, config))
    _print_summary(summary, as_json=as_json)
    if file is not None:
        made = f"{file} written" if summary.num_frames else f"no frames, so no {file}"
        say(f"{made}; the run, which the same command continues, is {summary.name}", err=True)
        say_losses(summary.losses)
    raise typer.Exit(summary.exit_code)


def _print_plan(config: ExtractConfig, clips: ClipList, workers: WorkerPlan) -> None:
    from posemill.jobs.extract.opening import settled
    from posemill.jobs.extract.plan import describe_mode, unused_settings

    for split, totals in clips.totals.items():
        more = (
            f" and {counted(totals.num_uncounted, 'videos')} of unknown length"
            if totals.num_uncounted
            else ""
        )
        say(f"{split}: {counted(totals.num_clips, 'clips')}, "
            f"{counted(totals.num_frames, 'frames')}{more}", err=True)  # fmt: skip
    if config.fps is not None:
        say(f"fewer frames: {config.fps:g} of every second", err=True)
    elif config.stride > 1:
        say(f"fewer frames: 1 of every {config.stride}", err=True)
    for problem in clips.problems:
        say(f"note: {problem}", err=True)
    for sentence in unused_settings(config, clips):
        say(f"note: {sentence}", err=True)
    say(describe_mode(config, settled(config).mode, clips), err=True)
    say(f"plan: {workers}", err=True)


def _print_summary(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        print_json(summary.to_json())
        return
    print_table(
        ["split", "clips", "clips failed", "frames in", "frames out", "frames failed"],
        [
            (
                each.split,
                each.num_clips,
                each.clips_failed,
                each.frames_known,
                each.frames_out,
                each.frames_failed,
            )
            for each in summary.counts
        ],
    )
    if summary.reasons:
        print_reasons(summary.reasons)
        say(
            f"one by one: posemill status {quoted(summary.name)} --failures; try them again: "
            "--retry-failed"
        )
    _say_last_words(summary)


def _say_last_words(summary: Summary) -> None:
    """Say in how many frames each part was found, in which mode, and how fast it went."""
    found = summary.found()
    if not found:
        return
    shares = ", ".join(f"{word(part_label(part))} {share:.1%}" for part, share in found.items())
    mode = summary.run.manifest.extraction.get("mode")
    rate = summary.frames_per_second
    words = [f"found in {counted(summary.num_frames, 'frames')}: {shares}"]
    words += [f"mode {mode}"] if mode else []
    words += [f"{rate:.1f} frames/s" if rate else "nothing was left to do"]
    say("; ".join(words), err=True)  # each is translated once
    if not any(found.values()):
        say(
            f"posemill: nothing was found in any frame: is a person in the pictures, upright? Look "
            f"at them: posemill visualize {quoted(summary.name)}",
            err=True, colour="yellow",
        )  # fmt: skip


def _show_dry_run(config: ExtractConfig, *, as_json: bool) -> None:
    import dataclasses

    from posemill.api.extracting import split_out
    from posemill.decoders.sampling import fewer_frames
    from posemill.jobs.extract.opening import (
        count_frames,
        is_begun,
        settled,
        with_decoder,
        with_tracking,
    )
    from posemill.jobs.extract.plan import check_rate, describe_mode
    from posemill.jobs.extract.workers import missing_gpus, plan_workers
    from posemill.sources import find_clips
    from posemill.storage import uri_of
    from posemill.stores.replica import local_run

    config, _ = split_out(config)
    out = uri_of(config.out) or config.out
    config = config.replace(out=local_run(config.out, config.storage))
    clips = find_clips(config.source, layout=config.layout, splits=config.splits)
    config, noted = with_decoder(config, clips, None)
    clips = noted or clips
    continues = is_begun(config, clips)
    check_rate(config.fps, clips, instead="--stride")
    clips = with_tracking(settled(config), clips)
    sampling = fewer_frames(config.fps, config.stride)
    with ProgressView() as view:
        found = count_frames(clips, view.count, decoder=config.decoder, sampling=sampling)
        clips = dataclasses.replace(clips, clips=found)
    _print_plan(config, clips, plan_workers(config))
    sentence = "" if config.ray_address else missing_gpus(config)
    if sentence:
        say(f"note: {sentence}", err=True)
    if as_json:
        splits = {name: dataclasses.asdict(totals) for name, totals in clips.totals.items()}
        mode = describe_mode(config, settled(config).mode, clips)
        print_json({"out": str(out), "continues": continues, "mode": mode, "splits": splits})
        return
    what = f"continue the run in {out}" if continues else f"start a run in {out}"
    say(f"would {what}; nothing was written")


def _detach(config: ExtractConfig) -> None:
    from posemill.api.extracting import split_out
    from posemill.jobs.extract.detach import start_detached
    from posemill.storage import uri_of
    from posemill.stores.replica import local_run

    out = split_out(config)[0].out
    pid = start_detached(["extract", *arguments_of(config)], local_run(out, config.storage))
    run = uri_of(out) or out
    say(f"pid {pid} works on {run} in the background", err=True)
    say(f"posemill status {quoted(run)}\nposemill stop {quoted(run)}")
