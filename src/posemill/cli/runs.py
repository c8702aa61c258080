"""`posemill status`, `stop`, `logs` and `plan`: runs, seen from any shell."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posemill.api.arguments import run_of
from posemill.api.run_progress import ProgressView, describe
from posemill.cli.options import AsJson, with_config_flags
from posemill.cli.printing import print_json, print_table, say
from posemill.config import ExtractConfig
from posemill.errors import ConfigError
from posemill.terminal import printable

if TYPE_CHECKING:
    from posemill.jobs.extract.status import Status

RunArgument = Annotated[Path, typer.Argument(help="The run's folder.")]
# What decides the speed or the size of a run, beside the source and the workers.
_PLANNED = ("layout", "splits", "engine", "engine_options", "mode", "skeleton", "decoder",
            "num_gpus", "num_workers_per_gpu")  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the four commands."""
    for command in (status, stop, logs):
        app.command()(command)
    app.command()(with_config_flags(plan, ExtractConfig, only=_PLANNED))


def status(
    run: RunArgument,
    *,
    watch: Annotated[bool, typer.Option(help="Stay and show the progress live.")] = False,
    failures: Annotated[bool, typer.Option(help="List what failed, one by one.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say how far a run is: during, after a crash, after its end, from any shell."""
    from dataclasses import asdict

    from posemill.api.run_status import status as read_status
    from posemill.jobs.extract.status import list_failures

    run = run_of(run)
    if watch:
        _watch(run)
    found = read_status(run)
    failed = list_failures(run) if failures else []
    if as_json:
        more = {"failures": [asdict(each) for each in failed]} if failures else {}
        print_json({**found.to_json(), **more})
        return
    _print_status(found)
    for each in failed:
        where = "" if each.frame_index is None else f" frame {each.frame_index}"
        line = f"{each.split}/{each.clip_id}{where}: {each.message}"
        say(printable(line, keep=""))  # a name with line ends makes no lines of its own


def _watch(run: Path) -> None:
    from posemill.jobs.extract.status import read_status

    with ProgressView() as view:
        while (found := read_status(run)).state == "running":
            view.show(found.snapshot)
            time.sleep(0.5)


def _print_status(found: Status) -> None:
    say(found.headline())
    say(describe(found.snapshot))
    print_table(
        ["split", "clips", "done", "clips failed", "frames", "out", "frames failed"],
        [
            (each.split, each.num_clips, each.clips_done, each.clips_failed, each.frames_known,
             each.frames_out, each.frames_failed)
            for each in found.snapshot.counts
        ],
    )  # fmt: skip
    if found.reasons:
        print_table(["reason", "failures", "frames"], found.reasons)


def stop(run: RunArgument, *, as_json: AsJson = False) -> None:
    """Stop a run cleanly: what is under way is saved, the same extract command continues."""
    from posemill.jobs.extract.status import stop_run

    run = run_of(run)
    pid = stop_run(run)
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
    """Print the last lines of a run's log."""
    from posemill.jobs.extract.log import follow_log, read_logs
    from posemill.stores.manifest import Manifest

    run = run_of(run)
    Manifest.read(run)
    if as_json and follow:
        raise ConfigError("--json is one value, --follow has no end: give one of them")
    if as_json:
        print_json(list(read_logs(run, worker=worker, num_lines=lines)))
        return
    for line in read_logs(run, worker=worker, num_lines=lines):
        say(line)
    if follow:
        for line in follow_log(run, worker=worker):
            say(line)
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
    from posemill.api.run_progress import duration
    from posemill.jobs.extract.forecast import forecast

    config = ExtractConfig(source, Path(), **flags)
    say(f"measuring a sample, about {3 * sample_seconds:.0f} s …", err=True)
    found = forecast(config, sample_seconds=sample_seconds)
    if as_json:
        print_json(found.to_json())
        return
    say(f"{found.num_clips} clips, {found.num_frames} frames")
    print_table(
        ["workers", "hours", "time", "GB", "frames/s", ""],
        [
            (workers, round(hours, 2), duration(hours * 3600), round(gigabytes, 3),
             round(found.speed(workers), 1), note)
            for workers, hours, gigabytes, note in found.rows()
        ],
    )  # fmt: skip
