"""`posemill status`, `stop`, `logs`, `plan` and `serve`: runs, seen from any shell or browser."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posemill.api.arguments import run_of
from posemill.api.run_progress import ProgressView, describe
from posemill.cli.options import AsJson, with_config_flags
from posemill.cli.printing import (
    print_json,
    print_reasons,
    print_records,
    print_table,
    print_written,
    say,
    without_constants,
)
from posemill.config import ExtractConfig
from posemill.errors import ConfigError, MissingExtraError
from posemill.language import translate, word
from posemill.terminal import counted, duration, printable

if TYPE_CHECKING:
    from posemill.jobs.extract.status import Status
    from posemill.training.launch.sweep_status import SweepStatus
    from posemill.training.runs.status import TrainStatus

RunArgument = Annotated[Path, typer.Argument(help="Folder of a run, a training or a sweep.")]
# What decides the speed or the size of a run, beside the source and the workers.
_PLANNED = ("layout", "splits", "engine", "engine_options", "mode", "skeleton", "decoder",
            "resize", "fps", "stride", "num_gpus", "num_workers_per_gpu")  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the five commands."""
    for command in (status, stop, logs):
        app.command()(command)
    app.command()(with_config_flags(plan, ExtractConfig, only=_PLANNED))
    app.command()(serve)


def status(
    run: RunArgument,
    *,
    watch: Annotated[bool, typer.Option(help="Stay and show the progress live.")] = False,
    failures: Annotated[bool, typer.Option(help="List what failed, one by one.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say how far a run, a training or a sweep is: during, after a crash, after its end."""
    from dataclasses import asdict

    from posemill.api.run_status import kind_of
    from posemill.api.run_status import status as read_status
    from posemill.jobs.extract.status import Status, list_failures

    run = run_of(run)
    if failures and kind_of(run) != "extraction":
        raise ConfigError(f"{run} is a {kind_of(run)}: --failures lists clips of an extraction")
    if watch:
        _watch(run)
    found = read_status(run)
    failed = list_failures(run) if failures else []
    if as_json:
        more = {"failures": [asdict(each) for each in failed]} if failures else {}
        print_json({**found.to_json(), **more})
        return
    if isinstance(found, Status):
        _print_status(found)
    else:
        _print_training(found)
    for each in failed:
        where = "" if each.frame_index is None else f" frame {each.frame_index}"
        line = f"{each.split}/{each.clip_id}{translate(where)}: {translate(each.message)}"
        say(printable(line, keep=""))  # a name with line ends makes no lines of its own


def _watch(run: Path) -> None:
    from posemill.api.progress import TextLine
    from posemill.api.run_status import status as read_status
    from posemill.jobs.extract.status import Status

    line = TextLine("line" if sys.stderr.isatty() else "log")
    with ProgressView() as view:
        while (found := read_status(run)).state == "running":
            if isinstance(found, Status):
                view.show(found.snapshot)
            else:
                line.show(found.describe(translate))
            time.sleep(0.5)
    line.close()


def _print_status(found: Status) -> None:
    say(found.headline())
    say(describe(found.snapshot))
    _print_gpus(found)
    print_table(
        ["split", "clips", "done", "clips failed", "frames", "out", "frames failed"],
        [
            (each.split, each.num_clips, each.clips_done, each.clips_failed, each.frames_known,
             each.frames_out, each.frames_failed)
            for each in found.snapshot.counts
        ],
    )  # fmt: skip
    if found.reasons:
        print_reasons(found.reasons)


def _print_gpus(found: Status | TrainStatus) -> None:
    for gpu in found.gpus:
        say(printable(gpu.describe(), keep=""))


def _print_training(found: TrainStatus | SweepStatus) -> None:
    from posemill.training.runs.status import TrainStatus

    say(printable(found.headline(), keep=""))
    say(printable(found.describe(translate), keep=""))
    if isinstance(found, TrainStatus):
        _print_gpus(found)
        print_records({"split": split, **scores} for split, scores in found.scores.items())
    else:
        same, rows = without_constants(found.trainings, keep=("job", "state"))
        if same:
            listed = ", ".join(f"{name} {value}" for name, value in same.items())
            say(f"the same in all: {printable(listed, keep='')}")
        print_records(rows)
    for line in found.last_lines:
        moment, _, text = printable(line, keep="").partition(" ")
        say(f"  {moment} {translate(text)}")
    say(f"next: {printable(found.next_command(), keep='')}")


def stop(run: RunArgument, *, as_json: AsJson = False) -> None:
    """Stop a run cleanly, or a training, which continues from its last checkpoint."""
    from posemill.api.run_status import stop as stop_work

    run = run_of(run)
    pid = stop_work(run)
    if as_json:
        print_json({"run": run, "stopped_pid": pid})
    else:
        say(f"{run}: nobody works on it" if pid is None else f"{run}: pid {pid} stopped")


def logs(
    run: RunArgument,
    *,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many.")] = 50,
    worker: Annotated[int | None, typer.Option(help="What worker N printed.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on while it runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the last lines of the log of a run, a training or a sweep."""
    from posemill.api.run_status import follow_log, read_log

    run = run_of(run)
    found = read_log(run, worker=worker, num_lines=lines)
    if as_json and follow:
        raise ConfigError("--json is one value, --follow has no end: give one of them")
    if as_json:
        print_json(found)
        return
    for line in found:
        print_written(line)
    if follow:
        for line in follow_log(run, worker=worker):
            print_written(line)
            sys.stdout.flush()


def plan(
    source: Annotated[Path, typer.Argument(help="What would be extracted.")],
    *,
    sample_seconds: Annotated[
        float, typer.Option(help="How long to measure, for each number of workers.")
    ] = 20.0,
    as_json: AsJson = False,
    flags: dict[str, Any],
) -> None:
    """Measure a sample on this machine; print hours and disk for 1, 2, 4, 8 … workers."""
    from posemill.jobs.forecast import forecast

    config = ExtractConfig(source, Path(), **flags)
    say(f"measuring a sample, about {3 * sample_seconds:.0f} s …", err=True)
    found = forecast(config, sample_seconds=sample_seconds)
    if as_json:
        print_json(found.to_json())
        return
    say(f"{counted(found.num_clips, 'clips')}, {counted(found.num_frames, 'frames')}")
    print_table(
        ["workers", "hours", "time", "GB", "frames/s", ""],
        [
            (workers, round(hours, 2), duration(hours * 3600), round(gigabytes, 3),
             round(found.speed(workers), 1), word(translate(note)))
            for workers, hours, gigabytes, note in found.rows()
        ],
    )  # fmt: skip


def serve(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER", help="Where to look for runs; here by default."),
    ] = None,
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8765,
    host: Annotated[
        str,
        typer.Option(help="What to listen on; others than this machine then need the token."),
    ] = "127.0.0.1",
    open_page: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    allow_actions: Annotated[
        bool,
        typer.Option("--allow-actions", help="Let the page stop and continue runs."),
    ] = False,
) -> None:
    """Show runs, clips and trainings in a browser, live."""
    try:
        from posemill.web.server import serve as run_server
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"posemill serve needs {error.name!r}; run: pip install 'posemill[web]'"
        ) from error
    run_server(
        folders or [Path()],
        host=host,
        port=port,
        opens=open_page,
        allow_actions=allow_actions,
        say=_say_address,
    )


def _say_address(address: str) -> None:
    say(f"serving at {address} until Ctrl-C", err=True)
