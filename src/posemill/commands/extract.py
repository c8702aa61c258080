"""`extract`: a whole dataset to keypoints; `landmarks`: one clip or folder, without a run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from posemill.commands.arguments import AnyPath, here, run_and_file
from posemill.commands.data import export, say_losses
from posemill.commands.declaring import (
    AsJson,
    Ask,
    Command,
    Overwrite,
    ShowConfig,
    door,
    parameters_of,
)
from posemill.commands.printing import print_config, print_json, print_reasons, print_table, say
from posemill.commands.progress import ProgressView, show_progress
from posemill.commands.spelling import arguments_of
from posemill.config import ExtractConfig
from posemill.errors import ConfigError
from posemill.language import word
from posemill.messages import Message
from posemill.outputs import Outputs
from posemill.provenance import Resolved, resolve
from posemill.settings import setting
from posemill.terminal import counted, quoted, warn_caller

if TYPE_CHECKING:
    from posemill.errors import DecodeError
    from posemill.jobs.extract.run import Summary
    from posemill.jobs.extract.snapshot import Snapshot
    from posemill.jobs.extract.workers import WorkerPlan
    from posemill.jobs.landmarks import Mode
    from posemill.records import PoseClip
    from posemill.sources import ClipList


def extract(
    source: ExtractConfig | os.PathLike[str] | str | Sequence[os.PathLike[str] | str],
    out: os.PathLike[str] | str | None = None,
    *,
    progress: bool | None = None,
    clips: ClipList | None = None,
    on_progress: Callable[[Snapshot], None] | None = None,
    on_plan: Callable[[ClipList, WorkerPlan], None] | None = None,
    on_count: Callable[[int, int], None] | None = None,
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
        on_count: Called for every clip whose length has to be looked up: how many are done, of
            how many.
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
    config, file = split_out(_config(source, out, settings))
    if file is not None:  # before the work of hours
        Outputs(config.out, overwrite=config.overwrite).claim_file(file)

    def show(snapshot: Snapshot) -> None:
        view.show(snapshot)
        if on_progress is not None:
            on_progress(snapshot)

    def count(done: int, total: int) -> None:
        view.count(done, total)
        if on_count is not None:
            on_count(done, total)

    with ProgressView(progress) as view:
        summary = run_extraction(
            config, clips=clips, on_progress=show, on_plan=on_plan, on_count=count
        )
    if file is not None and summary.num_frames:
        exported = export(config.out, out=file, overwrite=config.overwrite, progress=progress)
        summary = dataclasses.replace(summary, losses=exported.losses)
    return summary


def split_out(config: ExtractConfig) -> tuple[ExtractConfig, Path | None]:
    """Return the settings with the run's folder, and the file that is asked for, if one is."""
    folder, file = run_and_file(config.out)
    return (config, None) if file is None else (config.replace(out=folder), file)


def _config(
    source: ExtractConfig | os.PathLike[str] | str,
    out: os.PathLike[str] | str | None,
    settings: dict[str, Any],
) -> ExtractConfig:
    if isinstance(source, ExtractConfig):
        if out is not None or settings:
            more = ", ".join([*(["out"] if out is not None else []), *settings])
            raise ConfigError(f"an ExtractConfig says everything; {more} came beside it")
        return source
    given = {"source": source, "out": out, **settings}
    return ExtractConfig(**{name: value for name, value in given.items() if value is not None})


def show_extract(
    ask: Ask,
    *,
    config: Annotated[AnyPath | None, setting("TOML file; every flag is a field of it.")] = None,
    show_config: ShowConfig = False,
    detach: Annotated[bool, setting("Run in the background.")] = False,
    dry_run: Annotated[bool, setting("Say what would be done.")] = False,
    as_json: AsJson = False,
) -> int | None:
    """Extract the keypoints of a whole dataset. The same command again continues."""
    missing = {"source": Path("SOURCE"), "out": Path("RUN")} if show_config else None
    file = None if config is None else Path(config)
    resolved = resolve(ExtractConfig, file, ask.values, missing=missing)
    if show_config:
        print_config(_with_machine(resolved), as_json=as_json)
    elif dry_run:
        _show_dry_run(resolved.config, as_json=as_json)
    elif detach:
        _detach(resolved.config)
    else:
        return _run(resolved.config, as_json=as_json)
    return 0


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


def _run(config: ExtractConfig, *, as_json: bool) -> int:
    _, file = split_out(config)
    say(f"looking for clips in {config.source} …", err=True)
    summary = extract(config, progress=True, on_plan=partial(_print_plan, config))
    _print_summary(summary, as_json=as_json)
    if file is not None:
        made = f"{file} written" if summary.num_frames else f"no frames, so no {file}"
        say(f"{made}; the run, which the same command continues, is {summary.name}", err=True)
        say_losses(summary.losses)
    return summary.exit_code


def _print_plan(config: ExtractConfig, clips: ClipList, workers: WorkerPlan) -> None:
    from posemill.jobs.extract.opening import settled
    from posemill.jobs.extract.plan import describe_mode, unused_settings

    for split, totals in clips.totals.items():
        more = (
            f" and {counted(totals.num_uncounted, 'videos')} of unknown length"
            if totals.num_uncounted
            else ""
        )
        say(
            f"{split}: {counted(totals.num_clips, 'clips')}, "
            f"{counted(totals.num_frames, 'frames')}{more}",
            err=True,
        )
    if config.fps is not None:
        say(f"fewer frames: {config.fps:g} of every second", err=True)
    elif config.stride > 1:
        say(f"fewer frames: 1 of every {config.stride}", err=True)
    for problem in clips.problems:
        say(Message("note: {text}", text=problem), err=True)
    for sentence in unused_settings(config, clips):
        say(Message("note: {text}", text=sentence), err=True)
    say(describe_mode(config, settled(config).mode, clips), err=True)
    say(Message("plan: {workers}", workers=workers.describe()), err=True)


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
    from posemill.skeletons.palette import part_label

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
            err=True,
            colour="yellow",
        )


def _show_dry_run(config: ExtractConfig, *, as_json: bool) -> None:
    import dataclasses

    from posemill.decoders.sampling import fewer_frames
    from posemill.jobs.extract.opening import (
        count_frames,
        is_begun,
        settled,
        with_tracking,
    )
    from posemill.jobs.extract.plan import check_rate, describe_mode
    from posemill.jobs.extract.workers import missing_gpus, plan_workers
    from posemill.places import uri_of
    from posemill.runs.home import RunHome
    from posemill.sources import find_clips

    config, _ = split_out(config)
    out = uri_of(config.out) or config.out
    home = RunHome.at(config.out, config.storage)
    config = config.replace(out=home.work)
    clips = find_clips(config.source, layout=config.layout, splits=config.splits)
    continues = is_begun(home, config, clips)
    check_rate(config.fps, clips)
    clips = with_tracking(settled(config), clips)
    sampling = fewer_frames(config.fps, config.stride)
    with ProgressView() as view:
        decoder = settled(config).decoder
        found = count_frames(clips, view.count, decoder=decoder, sampling=sampling)
        clips = dataclasses.replace(clips, clips=found)
    _print_plan(config, clips, plan_workers(config))
    sentence = "" if config.ray_address else missing_gpus(config)
    if sentence:
        say(Message("note: {text}", text=sentence), err=True)
    if as_json:
        splits = {name: dataclasses.asdict(totals) for name, totals in clips.totals.items()}
        mode = describe_mode(config, settled(config).mode, clips)
        print_json({"out": str(out), "continues": continues, "mode": mode, "splits": splits})
        return
    what = f"continue the run in {out}" if continues else f"start a run in {out}"
    say(f"would {what}; nothing was written")


def _detach(config: ExtractConfig) -> None:
    from posemill.jobs.extract.detach import start_detached
    from posemill.places import uri_of
    from posemill.runs.home import RunHome

    out = split_out(config)[0].out
    pid = start_detached(["extract", *arguments_of(config)], RunHome.at(out, config.storage).work)
    run = uri_of(out) or out
    say(f"pid {pid} works on {run} in the background", err=True)
    say(f"posemill status {quoted(run)}\nposemill stop {quoted(run)}")


class Landmarks(NamedTuple):
    """What was found in a source.

    Args:
        clip: The keypoints; a frame that cannot be read is a row without any.
        mode: How frames belong together.
        why: Reason of the mode, where nobody asked for one.
        errors: Frames that cannot be read.
    """

    clip: PoseClip
    mode: Mode
    why: str
    errors: list[DecodeError]


@door()
def landmarks(
    source: Annotated[
        AnyPath, setting("A folder of pictures, a picture, or a video.", argument=True)
    ],
    out: Annotated[AnyPath | None, setting("The .npz file to write.")] = None,
    *,
    mode: Annotated[
        str,
        setting(
            "image: frames stand alone; video: they are tracked and smoothed; auto: videos are "
            "tracked, and folders whose pictures look like one; it is said.",
            choices=("auto", "image", "video"),
        ),
    ] = "auto",
    engine: Annotated[
        str,
        setting("What finds them.", choices="posemill.estimators:known_engines", is_open=True),
    ] = "holistic",
    engine_options: Annotated[
        Mapping[str, Any] | None,
        setting("An option of the engine.", flags=("--engine-option",), metavar="NAME=VALUE"),
    ] = None,
    world: Annotated[
        bool,
        setting(
            "Keep body and hands in metres, too (PoseClip.world); engines holistic, pose and hands."
        ),
    ] = False,
    decoder: Annotated[
        str,
        setting("What reads videos.", choices="posemill.decoders:decoder_choices", is_open=True),
    ] = "pyav",
    device: Annotated[str, setting("cpu, cuda:N or tensorrt:N.")] = "cpu",
    threads: Annotated[int, setting("Threads inside the networks.", least=1)] = 1,
    overwrite: Overwrite = False,
    progress: bool | None = None,
) -> PoseClip:
    """Find the keypoints of one clip or folder, without making a run.

    A frame that cannot be read is a row without keypoints, and a warning. `progress` is bars on a
    terminal or a line in a notebook; False for none.
    """
    found = find_landmarks(
        Path(source),
        None if out is None else here(out),
        mode=mode,
        engine=engine,
        engine_options=engine_options or {},
        world=world,
        decoder=decoder,
        device=device,
        threads=threads,
        overwrite=overwrite,
        progress=progress,
    )
    for error in found.errors:
        warn_caller(str(error))
    return found.clip


def find_landmarks(
    source: Path,
    out: Path | None = None,
    *,
    mode: str = "auto",
    engine: str = "holistic",
    engine_options: Mapping[str, Any] | None = None,
    world: bool = False,
    decoder: str = "pyav",
    device: str = "cpu",
    threads: int = 1,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Landmarks:
    """Return what is found in a source, and write it; arguments as `landmarks` has them."""
    from posemill.decoders.choice import settle_for_extraction
    from posemill.estimators import engine_info
    from posemill.jobs.landmarks import (
        check_out,
        choose_mode,
        clip_at,
        estimate_landmarks,
        save_landmarks,
    )
    from posemill.skeletons import get_skeleton
    from posemill.sources.frames import count_frames

    options = {**(engine_options or {}), **({"world": True} if world else {})}
    decoder = settle_for_extraction(decoder)
    num_frames = count_frames(clip_at(source), decoder)
    if out is not None:
        num_points = get_skeleton(engine_info(engine, options).skeleton_names[0]).num_points
        check_out(out, num_frames, num_points=num_points, source=source, overwrite=overwrite)
    chosen, why = choose_mode(source, engine) if mode == "auto" else (cast("Mode", mode), "")
    with show_progress("landmarks", num_frames, progress=progress) as advance:
        clip, errors = estimate_landmarks(
            source,
            mode=chosen,
            engine=engine,
            engine_options=options,
            decoder=decoder,
            device=device,
            threads=threads,
            on_frame=advance,
        )
    if out is not None:
        save_landmarks(clip, out, source=source, overwrite=overwrite)
    return Landmarks(clip, chosen, why, errors)


def _show_landmarks(ask: Ask, *, as_json: AsJson = False) -> int:
    from posemill.skeletons.palette import part_label

    given = {
        name: parameters_of(landmarks)[name].check(value) for name, value in ask.values.items()
    }
    if "out" not in given:
        raise ConfigError("out is missing; expected the .npz file to write")
    clip, chosen, why, errors = find_landmarks(**given)
    out = given["out"]
    found = dict(zip(clip.skeleton.part_names, clip.present.sum(0).tolist(), strict=True))
    if why:
        say(f"mode {chosen}: {why}; --mode overrules it", err=True)
    summary = {
        "mode": chosen,
        "frames": len(clip),
        "found": found,
        "failed": [str(error) for error in errors],
    }
    if as_json:
        print_json({"out": str(out), **summary})
    else:
        rows = [(word(part_label(name)), number, len(clip)) for name, number in found.items()]
        print_table(["part", "frames found", "of"], rows)
        say(f"{out}")
    for error in errors:
        say(f"posemill: {error}", err=True, colour="red")
    return 1 if errors else 0


COMMANDS = (
    Command(
        "landmarks",
        landmarks,
        _show_landmarks,
        aliases={"--runtime": "--engine-option runtime="},
    ),
    Command("extract", None, show_extract, settings=lambda: ExtractConfig),
)
