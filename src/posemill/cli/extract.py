"""`posemill extract`: a whole dataset to keypoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posemill.cli.printing import print_json, print_table
from posemill.cli.run_progress import ProgressView
from posemill.errors import ConfigError

if TYPE_CHECKING:
    from posemill.config import ExtractConfig
    from posemill.jobs.extract.run import Summary
    from posemill.jobs.extract.workers import WorkerPlan
    from posemill.sources import ClipList


def register(app: typer.Typer) -> None:
    """Add `extract`."""
    app.command()(extract)


SourceArgument = Annotated[
    Path | None,
    typer.Argument(help="Frame tree, videos, pictures, one file, a list, PHOENIX-2014-T."),
]
DatasetPath = Annotated[
    Path | None, typer.Option("--dataset-path", help="The same as SOURCE.", metavar="SOURCE")
]
Layout = Annotated[str, typer.Option(help="auto, frames, pictures, videos, phoenix or list.")]
Splits = Annotated[list[str] | None, typer.Option(help="Only these: --splits train dev.")]
Engine = Annotated[str, typer.Option(help="holistic, or fake to try the rest.")]
EngineOption = Annotated[
    list[str] | None,
    typer.Option(help="An option of the engine: model_complexity=1. More than one may follow."),
]
Mode = Annotated[str, typer.Option(help="video tracks, image does not; auto: clips are tracked.")]
Keep = Annotated[int, typer.Option(help="Keypoints to store: 543 or 143.")]
Workers = Annotated[int | None, typer.Option(help="Default: one per core.")]
NumGpus = Annotated[int, typer.Option(help="Bind workers to cuda:0, cuda:1 …")]
PerGpu = Annotated[int, typer.Option("--num-workers-per-gpu", help="Workers on each GPU.")]
ExecutorName = Annotated[str, typer.Option("--executor", help="serial, threads or processes.")]


def extract(
    source: SourceArgument = None,
    out: Annotated[
        Path | None, typer.Option("--out", "--output-path", help="The run's folder.")
    ] = None,
    *,
    dataset_path: DatasetPath = None,
    layout: Layout = "auto",
    splits: Splits = None,
    engine: Engine = "holistic",
    engine_option: EngineOption = None,
    mode: Mode = "auto",
    keep: Keep = 543,
    decoder: Annotated[str, typer.Option(help="For videos: pyav.")] = "pyav",
    split_long: Annotated[
        float | None,
        typer.Option(help="Cut longer videos into independent pieces.", metavar="SECONDS"),
    ] = None,
    workers: Workers = None,
    executor: ExecutorName = "processes",
    num_gpus: NumGpus = 0,
    num_workers_per_gpu: PerGpu = 1,
    batch_size: Annotated[int | None, typer.Option(help="Frames per call.")] = None,
    task_frames: Annotated[int, typer.Option(help="Frames per commit.")] = 512,
    timeout_seconds: Annotated[
        float, typer.Option(help="A worker without progress for longer is replaced.")
    ] = 120.0,
    memory_limit_mb: Annotated[
        int | None, typer.Option(help="Of one worker; 0 for none.", metavar="MB")
    ] = None,
    max_tries: Annotated[
        int, typer.Option(help="A frame that kills its worker as often is given up.")
    ] = 3,
    retry_failed: Annotated[bool, typer.Option(help="Try again what failed before.")] = False,
    temp_dir: Annotated[Path | None, typer.Option(help="The workers' scratch folder.")] = None,
    detach: Annotated[bool, typer.Option(help="Run in the background.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Say what would be done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Extract the keypoints of a whole dataset. The same command again continues."""
    from posemill.config import ExtractConfig

    config = ExtractConfig(
        _one_of(source, dataset_path, "SOURCE", "--dataset-path"),
        _one_of(out, None, "--out RUN", ""),
        layout=layout, splits=tuple(splits) if splits else None, engine=engine,
        engine_options=parse_options(engine_option or []), mode=mode, keep=keep, decoder=decoder,
        split_long_seconds=split_long, workers=workers, executor=executor, num_gpus=num_gpus,
        num_workers_per_gpu=num_workers_per_gpu, batch_size=batch_size, task_frames=task_frames,
        timeout_seconds=timeout_seconds, memory_limit_mb=memory_limit_mb, max_tries=max_tries,
        retry_failed=retry_failed, temp_dir=temp_dir,
    )  # fmt: skip
    if dry_run:
        _show_dry_run(config)
    elif detach:
        _detach(config)
    else:
        _run(config, as_json=as_json)


def _run(config: ExtractConfig, *, as_json: bool) -> None:
    from posemill.jobs.extract.run import extract as run_extract

    typer.echo(f"looking for clips in {config.source} …", err=True)
    with ProgressView() as view:
        summary = run_extract(
            config, on_progress=view.show, on_plan=_print_plan, on_count=view.count
        )
    _print_summary(summary, as_json=as_json)
    raise typer.Exit(summary.exit_code)


def _one_of(first: Path | None, second: Path | None, name: str, other: str) -> Path:
    if first is not None and second is not None:
        raise ConfigError(f"{name} and {other} say the same thing: give one of them")
    chosen = first if first is not None else second
    if chosen is None:
        raise ConfigError(f"{name} is missing; see posemill extract --help")
    return chosen


def parse_options(options: list[str]) -> dict[str, Any]:
    """Return `name=value` pairs; values are JSON (numbers, true, false), or else plain words."""
    parsed: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise ConfigError(f"engine option {option!r}: expected NAME=VALUE")
        try:
            parsed[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            parsed[name.replace("-", "_")] = value
    return parsed


def _print_plan(clips: ClipList, workers: WorkerPlan) -> None:
    for split, totals in clips.totals.items():
        more = (
            f" and {totals.num_uncounted} videos of unknown length" if totals.num_uncounted else ""
        )
        typer.echo(f"{split}: {totals.num_clips} clips, {totals.num_frames} frames{more}", err=True)
    for problem in clips.problems:
        typer.echo(f"note: {problem}", err=True)
    typer.echo(f"plan: {workers}", err=True)


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
        print_table(["reason", "failures", "frames"], summary.reasons)
        typer.echo(
            f"one by one: posemill status {summary.folder} --failures; "
            "try them again: --retry-failed"
        )


def _show_dry_run(config: ExtractConfig) -> None:
    import dataclasses

    from posemill.jobs.extract.opening import count_frames, is_begun
    from posemill.jobs.extract.workers import plan_workers
    from posemill.sources import find_clips

    clips = find_clips(config.source, layout=config.layout, splits=config.splits)
    what = "continue the run in" if is_begun(config, clips) else "start a run in"
    with ProgressView() as view:
        clips = dataclasses.replace(clips, clips=count_frames(clips, view.count))
    _print_plan(clips, plan_workers(config))
    typer.echo(f"would {what} {config.out}; nothing was written")


def _detach(config: ExtractConfig) -> None:
    from posemill.jobs.extract.detach import start_detached

    pid = start_detached(arguments_of(config), config.out)
    typer.echo(f"pid {pid} works on {config.out} in the background", err=True)
    typer.echo(f"posemill status {config.out}\nposemill stop {config.out}")


def arguments_of(config: ExtractConfig) -> list[str]:
    """Return the command line that means this config: only what is not the default."""
    import dataclasses

    arguments = ["extract", str(config.source), "--out", str(config.out)]
    spelled = {"split_long_seconds": "split-long"}
    for each in dataclasses.fields(config)[2:]:
        value = getattr(config, each.name)
        default = {} if each.name == "engine_options" else each.default
        if value == default:
            continue
        flag = "--" + spelled.get(each.name, each.name).replace("_", "-")
        if each.name == "engine_options":
            for name, option in value.items():
                arguments += ["--engine-option", f"{name}={json.dumps(option)}"]
        elif each.name == "splits":
            arguments += [word for split in value for word in (flag, split)]
        elif value is True:
            arguments.append(flag)
        else:
            arguments += [flag, str(value)]
    return arguments
