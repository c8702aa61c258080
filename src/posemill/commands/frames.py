"""`frames`: videos decoded once; `bench`: which decoder, which runtime is quickest."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.commands.arguments import AnyPath
from posemill.commands.declaring import AsJson, Command, shown_by
from posemill.commands.extract import (
    InBackground,
    config_of,
    detach,
    print_counts,
    print_plan,
    rate_text,
)
from posemill.commands.printing import print_json, print_notes, print_table, say
from posemill.commands.progress import ProgressView, show_progress
from posemill.commands.runs import print_forecast
from posemill.config import FramesConfig
from posemill.messages import Message, join
from posemill.outputs import expect_folder
from posemill.settings import setting

if TYPE_CHECKING:
    from posemill.inspection.speeds import DecodeReport, DecodeSpeed, RuntimeSpeed
    from posemill.jobs.extract.plan import WorkerPlan
    from posemill.jobs.frames import FramesSummary
    from posemill.sources import ClipList

_SAMPLE_SECONDS = 5.0
GROUPS = {"bench": "Measure what is quickest on this machine."}


def frames(
    source: FramesConfig | AnyPath,
    out: AnyPath | None = None,
    *,
    progress: bool | None = None,
    on_plan: Callable[[ClipList, WorkerPlan], None] | None = None,
    **settings: Any,
) -> FramesSummary:
    """Decode all clips of a source once, into pictures or packs with an `index.csv`.

    What came of it is in the result: counts, reasons of failures, and `index`, the table that
    `posemill.VideoClips` reads. A clip that cannot be read is no exception, it is counted there.

    Args:
        source: Videos, one of them, a list of them, folders of frames; or a `FramesConfig`, which
            says all the rest too.
        out: The folder of the frames; the same call continues.
        progress: Bars on a terminal or a line in a notebook; True also for lines in a log, False
            for nothing.
        on_plan: Called once before work starts, with the clips and the lengths of videos.
        settings: All other fields of `FramesConfig`, as `posemill frames` has them as flags:
            `resize=256`, `short_side=True`, `pack=True` …

    Raises:
        RunError: The folder holds something else, or frames of other options, or is worked on; or
            the disk is full. What was committed is safe.
        StoppedError: A signal asked for it (Ctrl-C); the same call continues.
    """
    from posemill.jobs.frames import write_frames

    config = config_of(FramesConfig, source, out, settings)
    expect_folder(config.out, kind="what `frames` writes")
    with ProgressView(progress) as view:
        return write_frames(config, on_progress=view.show, on_plan=on_plan, on_count=view.count)


def show_frames(
    *,
    in_background: InBackground = False,
    dry_run: Annotated[bool, setting("Measure a sample; say what all would take.")] = False,
    as_json: AsJson = False,
    **settings: Annotated[Any, FramesConfig],
) -> int:
    """Decode videos once: small pictures, or packed bytes, and an index for training."""
    from posemill.jobs.forecast import forecast

    config = FramesConfig(**settings)
    if dry_run:
        with ProgressView() as view:
            estimate = forecast(config, sample_seconds=_SAMPLE_SECONDS, on_count=view.count)
        print_forecast(estimate, as_json=as_json)
        say("nothing was written", err=True)
    elif in_background:
        detach("frames", config, config.out, "local")
    else:
        say("looking for clips in {source} …", source=config.source, err=True)
        summary = frames(config, progress=True, on_plan=partial(print_plan, config))
        if as_json:
            print_json(summary)
        else:
            print_counts(summary)
            say(
                "{index} written; {megabytes:,.2f} MB; {speed}",
                index=summary.index,
                megabytes=summary.num_bytes / 1e6,
                speed=rate_text(summary.frames_per_second),
                err=True,
            )
        return summary.exit_code
    return 0


def bench_decode(
    videos: Annotated[
        AnyPath | Sequence[AnyPath], setting("Files or folders.", metavar="VIDEO...", argument=True)
    ],
    *,
    seconds: Annotated[float, setting("Seconds to measure each way of reading.", above=0)] = 1.0,
    progress: bool | None = None,
) -> DecodeReport:
    """Measure every installed decoder on your videos; --decoder auto then takes the quickest.

    `progress` is as in `frames`.

    Raises:
        SourceError: There is no such file or folder.
    """
    from posemill.inspection.speeds import installed_decoders, measure_decoders
    from posemill.sources import find_clips

    found = [find_clips(place, layout="videos") for place in videos]  # type: ignore[union-attr]
    paths = [Path(clip.path) for clips in found for clip in clips]
    total = len(paths) * len(installed_decoders()[0])
    with show_progress("measuring decoders", total, progress=progress) as advance:
        return measure_decoders(paths, seconds=seconds, on_step=advance)


def _note_what_was_left_out(report: DecodeReport) -> int:
    template, left_out = "{name} was not measured: {why}", report.missing | report.failed
    print_notes(Message(template, name=name, why=why) for name, why in left_out.items())
    return 1 if report.failed else 0


def _print_speeds(report: DecodeReport) -> None:
    orders = {"all": "all in order", "8": "8 of them", "32": "32 of them"}
    names = {access: Message(order) for access, order in orders.items()}

    def cell(speed: DecodeSpeed, threads: int) -> str:
        if threads not in speed.frames_per_second:
            return ""
        ratio = f" ({speed.ratios[threads]:.2f} x)" if threads in speed.ratios else ""
        return f"{speed.frames_per_second[threads]:.0f}{ratio}"

    for path in dict.fromkeys(speed.path for speed in report.speeds):
        rows = [speed for speed in report.speeds if speed.path == path]
        say("{path} ({kind}); frames/s (x OpenCV):", path=path, kind=rows[0].kind, style="bold")
        print_table(
            ["decoder", "frames", "1 thread", "2 threads", "memory MB", "same frames"],
            [
                (
                    *(row.decoder, names[row.access], cell(row, 1), cell(row, 2), row.memory_mb),
                    Message("yes" if row.is_equal else "NO"),
                )
                for row in rows
                if not row.refused
            ],
        )
        for name, why in {row.decoder: row.refused for row in rows if row.refused}.items():
            say("{name} refuses: {why}", name=name, why=why)
    for kind, by_access in report.winners.items():
        template = "{access} {decoder}"
        quickest = join(
            ", ", (Message(template, access=names[a], decoder=d) for a, d in by_access.items())
        )
        say("{--decoder:auto} for {kind}: {quickest}", kind=kind, quickest=quickest)


def bench_engine(
    source: Annotated[
        AnyPath, setting("A folder of pictures, a picture, or a video.", argument=True)
    ],
    *,
    engine: Annotated[
        str, setting("One with a choice of runtimes: holistic, openpose, movenet, wholebody …")
    ] = "holistic",
    engine_options: Annotated[
        Mapping[str, Any] | None,
        setting("An option of the engine.", flags=("--engine-option",), metavar="NAME=VALUE"),
    ] = None,
    num_frames: Annotated[int, setting("Frames to look at.", least=1)] = 8,
    rounds: Annotated[int, setting("Passes over the frames.", least=1)] = 3,
    progress: bool | None = None,
) -> list[RuntimeSpeed]:
    """Measure an engine on every installed runtime: time, memory, distance to its default.

    `progress` is as in `frames`.

    Raises:
        SourceError: There is no such file or folder.
        ConfigError: The engine has no choice of runtimes.
    """
    from posemill.inspection.speeds import measure_runtimes, runtimes_of

    total = len(runtimes_of(engine))
    with show_progress("measuring runtimes", total, progress=progress) as advance:
        return measure_runtimes(
            Path(os.fsdecode(source)),
            engine,
            engine_options,
            num_frames=num_frames,
            rounds=rounds,
            on_step=advance,
        )


def _print_runtimes(speeds: list[RuntimeSpeed]) -> None:
    columns = ["runtime", "default", "ms a frame", "memory MB", "agree", "median px", "most px"]
    rows = [
        (
            *(speed.runtime, Message("yes") if speed.is_default else ""),
            *(f"{speed.milliseconds:.1f}", f"{speed.memory_mb:.0f}", f"{speed.agreement:.4f}"),
            *(f"{speed.median_pixels:.4f}", f"{speed.largest_pixels:.3f}"),
        )
        for speed in speeds
        if not speed.refused
    ]
    print_table(columns, rows)
    template, refused = "{name} failed here: {reason}", [speed for speed in speeds if speed.refused]
    print_notes(Message(template, name=speed.runtime, reason=speed.refused) for speed in refused)


COMMANDS = (
    Command("frames", show_frames),
    Command("bench decode", bench_decode, shown_by(_print_speeds, _note_what_was_left_out)),
    Command("bench engine", bench_engine, shown_by(_print_runtimes)),
)
