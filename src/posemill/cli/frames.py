"""`posemill frames`: videos decoded once, for trainings that read them in every epoch."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posemill.api.run_progress import ProgressView
from posemill.api.spelling import arguments_of
from posemill.cli.options import AsJson, with_config_flags
from posemill.cli.printing import print_json, print_reasons, print_table, say
from posemill.config import FramesConfig
from posemill.errors import ConfigError
from posemill.language import word
from posemill.terminal import counted, duration, quoted

if TYPE_CHECKING:
    from posemill.inspection.decoding import DecodeReport, DecodeSpeed
    from posemill.jobs.extract.workers import WorkerPlan
    from posemill.jobs.frames.run import FramesSummary
    from posemill.sources import ClipList


def register(app: typer.Typer) -> None:
    """Add `frames` and `bench decode`."""
    app.command()(with_config_flags(frames, FramesConfig))
    bench = typer.Typer(help="Measure what is quickest on this machine.", no_args_is_help=True)
    # A group of one command would be that command.
    bench.callback(no_args_is_help=True)(lambda: None)
    bench.command("decode")(decode)
    app.add_typer(bench, name="bench")


def frames(
    path: Annotated[
        Path | None, typer.Argument(metavar="SOURCE", help="The same as --dataset-path.")
    ] = None,
    *,
    detach: Annotated[bool, typer.Option(help="Run in the background.")] = False,
    dry_run: Annotated[
        bool, typer.Option(help="Measure a sample; say what all would take.")
    ] = False,
    as_json: AsJson = False,
    flags: dict[str, Any],
) -> None:
    """Decode videos once: small pictures, or packed bytes, and an index for training."""
    if path is not None and "source" in flags:
        raise ConfigError("SOURCE and --dataset-path say the same thing: give one of them")
    config = FramesConfig(**(flags if path is None else {**flags, "source": path}))
    if dry_run:
        _show_dry_run(config, as_json=as_json)
    elif detach:
        _detach(config)
    else:
        from posemill.api.decoding import frames as write

        say(f"looking for clips in {config.source} …", err=True)
        summary = write(config, progress=True, on_plan=partial(_print_plan, config))
        _print_summary(summary, as_json=as_json)
        raise typer.Exit(summary.exit_code)


def decode(
    videos: Annotated[list[Path], typer.Argument(metavar="VIDEO...", help="Files or folders.")],
    *,
    seconds: Annotated[float, typer.Option(help="How long to repeat each way to read.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Measure every installed decoder on your videos; --decoder auto then takes the quickest."""
    from posemill.api.decoding import bench_decode

    report = bench_decode(videos, seconds=seconds, progress=None if as_json else True)
    if as_json:
        print_json(report.to_json())
    else:
        _print_speeds(report)
    for name, why in report.missing.items():
        say(f"note: {name} was not measured: {why}", err=True)
    for path, why in report.failed.items():
        say(f"posemill: {path} was not measured: {why}", err=True, colour="yellow")
    raise typer.Exit(1 if report.failed else 0)


def _print_speeds(report: DecodeReport) -> None:
    names = {"all": word("all in order"), "8": word("8 of them"), "32": word("32 of them")}

    def cell(speed: DecodeSpeed, threads: int) -> str:
        if threads not in speed.frames_per_second:
            return ""
        ratio = f" ({speed.ratios[threads]:.2f} x)" if threads in speed.ratios else ""
        return f"{speed.frames_per_second[threads]:.0f}{ratio}"

    for path in dict.fromkeys(speed.path for speed in report.speeds):
        rows = [speed for speed in report.speeds if speed.path == path]
        say(f"{path} ({rows[0].kind}); frames/s (x OpenCV):", bold=True)
        print_table(
            ["decoder", "frames", "1 thread", "2 threads", "memory MB", "same frames"],
            [
                (each.decoder, names[each.access], cell(each, 1), cell(each, 2), each.memory_mb,
                 word("yes" if each.is_equal else "NO"))
                for each in rows
                if not each.refused
            ],
        )  # fmt: skip
        for name, why in {each.decoder: each.refused for each in rows if each.refused}.items():
            say(f"{name} refuses: {why}")
    for kind, by_access in report.winners.items():
        quickest = ", ".join(f"{names[access]} {name}" for access, name in by_access.items())
        say(f"--decoder auto for {kind}: {quickest}")


def _print_plan(config: FramesConfig, clips: ClipList, workers: WorkerPlan) -> None:
    from posemill.jobs.frames.run import unused_settings

    for split, totals in clips.totals.items():
        say(f"{split}: {counted(totals.num_clips, 'clips')}, "
            f"{counted(totals.num_frames, 'frames')}", err=True)  # fmt: skip
    for sentence in (*clips.problems, *unused_settings(config, clips)):
        say(f"note: {sentence}", err=True)
    say(f"plan: {workers}", err=True)


def _print_summary(summary: FramesSummary, *, as_json: bool) -> None:
    if as_json:
        print_json(summary.to_json())
        return
    print_table(
        ["split", "clips", "clips failed", "frames in", "frames out", "frames failed"],
        [
            (each.split, each.num_clips, each.clips_failed, each.frames_known, each.frames_out,
             each.frames_failed)
            for each in summary.counts
        ],
    )  # fmt: skip
    if summary.reasons:
        print_reasons(summary.reasons)
        say(
            f"one by one: posemill status {quoted(summary.name)} --failures; try them again: "
            "--retry-failed"
        )
    from posemill.jobs.frames.forecast import in_bytes

    rate = summary.frames_per_second
    speed = f"{rate:.1f} frames/s" if rate else "nothing was left to do"
    say(f"{summary.index_name} written; {in_bytes(summary.num_bytes)}; {speed}", err=True)


def _show_dry_run(config: FramesConfig, *, as_json: bool) -> None:
    from posemill.jobs.frames.forecast import forecast_frames

    with ProgressView() as view:
        found = forecast_frames(config, on_count=view.count)
    if as_json:
        print_json(found.to_json())
        return
    say(found.describe())
    say(f"measured on {found.sample_frames} frames, {duration(found.sample_seconds)}; nothing was "
        "written", err=True)  # fmt: skip


def _detach(config: FramesConfig) -> None:
    from posemill.jobs.extract.detach import start_detached
    from posemill.storage import uri_of
    from posemill.stores.replica import local_run

    uri = uri_of(config.out)
    folder, name = (config.out if uri is None else local_run(uri)), uri or config.out
    pid = start_detached(["frames", *arguments_of(config)], folder)
    say(f"pid {pid} works on {name} in the background", err=True)
    say(f"posemill status {quoted(name)}\nposemill stop {quoted(name)}")
