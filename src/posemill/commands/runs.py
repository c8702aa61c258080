"""`status`, `stop`, `logs`, `plan`, `serve`: runs and trainings, from any shell or browser."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from posemill.commands.arguments import KINDS, AnyPath, kind_of, run_of
from posemill.commands.declaring import AsJson, Ask, Command, door, paths_of
from posemill.commands.printing import (
    print_json,
    print_reasons,
    print_records,
    print_table,
    print_written,
    say,
    without_constants,
)
from posemill.commands.progress import TextLine
from posemill.config import ExtractConfig
from posemill.errors import ConfigError, MissingExtraError, RunError
from posemill.messages import Message, render
from posemill.settings import setting
from posemill.terminal import duration, printable

if TYPE_CHECKING:
    from posemill.jobs.extract.status import Status
    from posemill.jobs.forecast import Forecast
    from posemill.training.runs.status import SweepStatus, TrainStatus
    from posemill.training.tuning.advice import Advice

RunFolder = Annotated[
    AnyPath, setting("Folder of a run, a training or a sweep.", metavar="RUN", argument=True)
]
# What decides the speed or the size of a run, beside the workers.
_PLANNED = (
    "source",
    "layout",
    "splits",
    "engine",
    "engine_options",
    "mode",
    "skeleton",
    "decoder",
    "resize",
    "fps",
    "stride",
    "num_gpus",
    "num_workers_per_gpu",
)


@door()
def status(run: RunFolder) -> Status | TrainStatus | SweepStatus:
    """Show the progress of a run, a training or a sweep, also after a crash or at its end.

    Instead of the folder of a run, the file beside it that `extract` was told to write will do.
    """
    from posemill.jobs.extract.status import read_status

    folder = run_of(run)
    kind = kind_of(folder)
    if kind == "extraction":
        return read_status(folder)
    if kind == "sweep":
        from posemill.training.runs.status import read_sweep_status

        return read_sweep_status(folder)
    from posemill.training.runs.status import read_train_status

    return read_train_status(folder)


def _show_status(
    ask: Ask,
    *,
    watch: Annotated[bool, setting("Show the progress live.")] = False,
    failures: Annotated[bool, setting("List what failed, one by one.")] = False,
    as_json: AsJson = False,
) -> None:
    from dataclasses import asdict

    from posemill.jobs.extract.status import Status, list_failures

    run = run_of(ask.values["run"])
    if failures and kind_of(run) != "extraction":
        raise ConfigError(
            "{run} is {kind}: {--failures} lists clips of an extraction",
            run=run,
            kind=KINDS[kind_of(run)],
        )
    if watch:
        _watch(run)
    found = status(run)
    failed = list_failures(run) if failures else []
    if as_json:
        more = {"failures": [asdict(failure) for failure in failed]} if failures else {}
        print_json({**found.to_json(), **more})
        return
    if isinstance(found, Status):
        _print_status(found)
    else:
        _print_training(found)
    for failure in failed:
        say_line(
            "{split}/{clip}: {reason}"
            if failure.frame_index is None
            else "{split}/{clip} frame {index}: {reason}",
            split=failure.split,
            clip=failure.clip_id,
            index=failure.frame_index,
            reason=failure.message,
        )


def _watch(run: Path) -> None:
    line = TextLine("line" if sys.stderr.isatty() else "log")
    while (found := status(run)).state == "running":
        line.show(found.describe())
        time.sleep(0.5)
    line.close()


def say_line(text: str, /, **values: object) -> None:
    """Print a message on one line: a name with line ends in it makes no lines of its own."""
    print_written(printable(render(Message(text, **values)), keep=""))


def _print_status(found: Status) -> None:
    say(found.headline())
    say(found.describe())
    _print_gpus(found)
    names = "split num_clips clips_done clips_failed frames_known frames_out frames_failed"
    columns = ["split", "clips", "done", "clips failed", "frames", "out", "frames failed"]
    rows = list(map(attrgetter(*names.split()), found.counts))
    if any(found.in_flight.values()):  # the share of frames done counts these, too
        columns.append(Message("not yet written"))
        rows = [(*row, found.in_flight.get(row[0], 0)) for row in rows]
    print_table(columns, rows)
    if found.reasons:
        print_reasons(found.reasons)


def _print_gpus(found: Status | TrainStatus) -> None:
    for gpu in found.gpus:
        say_line(gpu.describe())


def _print_training(found: TrainStatus | SweepStatus) -> None:
    from posemill.training.runs.status import TrainStatus

    say_line(found.headline())
    say_line(found.describe())
    if isinstance(found, TrainStatus):
        _print_gpus(found)
        print_records({"split": split, **scores} for split, scores in found.scores.items())
    else:
        same, rows = without_constants(found.trainings, keep=("job", "state"))
        if same:
            listed = ", ".join(f"{name} {value}" for name, value in same.items())
            say_line("the same in all: {settings}", settings=listed)
        print_records(rows)
    for line in found.last_lines:
        say_line("  {line}", line=line)
    say_line("next: {command}", command=found.next_command())


def stop(folder: Path) -> int | None:
    """End what works in a folder, wait for it; return the pid it had, None if nothing did."""
    from posemill.jobs.extract.status import stop_run
    from posemill.training.record.live import stop_training

    if kind_of(folder) == "extraction":
        return stop_run(folder)
    status(folder)  # whose parts lie in it, or it says so
    return stop_training(folder)


def show_stop(run: RunFolder, *, as_json: AsJson = False) -> None:
    """Stop a run cleanly, or a training, which continues from its last checkpoint."""
    folder = run_of(run)
    pid = stop(folder)
    if as_json:
        print_json({"run": folder, "stopped_pid": pid})
    else:
        say(
            "{run}: nobody works on it" if pid is None else "{run}: pid {pid} stopped",
            run=folder,
            pid=pid,
        )


def show_logs(
    run: RunFolder,
    *,
    lines: Annotated[int, setting("Number of lines.", flags=("--lines", "-n"))] = 50,
    worker: Annotated[int | None, setting("Print the log of worker N.")] = None,
    follow: Annotated[
        bool, setting("Keep printing new lines while it runs.", flags=("--follow", "-f"))
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the last lines of the log of a run, a training or a sweep."""
    folder = run_of(run)
    found = read_log(folder, worker=worker, num_lines=lines)
    if as_json and follow:
        raise ConfigError("{--json} is one value, {--follow} has no end: give one of them")
    if as_json:
        print_json(found)
        return
    for line in found:
        print_written(line)
    if follow:
        for line in follow_log(folder, worker=worker):
            print_written(line)


def show_plan(
    ask: Ask,
    *,
    sample_seconds: Annotated[
        float, setting("How long to measure, for each number of workers.")
    ] = 20.0,
    as_json: AsJson = False,
) -> None:
    """Measure a sample on this machine; estimate hours and disk space for 1, 2, 4, 8 … workers."""
    from posemill.jobs.forecast import forecast

    config = ExtractConfig(**{"out": Path(), **ask.values})
    say("measuring a sample, about {seconds:.0f} s …", seconds=3 * sample_seconds, err=True)
    found = forecast(config, sample_seconds=sample_seconds)
    print_forecast(found, as_json=as_json)


def print_forecast(found: Forecast, *, as_json: bool) -> None:
    """Print what a job would take with 1, 2, 4, 8 … workers."""
    if as_json:
        print_json(found.to_json())
        return
    say(
        "{num_clips:clip|clips}, {num_frames:frame|frames}",
        num_clips=found.num_clips,
        num_frames=found.num_frames,
    )
    print_table(
        ["workers", "hours", "time", "GB", "frames/s", ""],
        [
            (
                workers,
                round(hours, 2),
                duration(hours * 3600),
                round(gigabytes, 3),
                round(found.speed(workers), 1),
                Message(note),
            )
            for workers, hours, gigabytes, note in found.rows()
        ],
    )


def show_serve(
    folders: Annotated[
        Sequence[AnyPath],
        setting("Where to look for runs; here by default.", metavar="FOLDER", argument=True),
    ] = (".",),
    *,
    port: Annotated[
        int, setting("Port to listen on. 0: any free one.", least=0, most=65535)
    ] = 8765,
    host: Annotated[
        str, setting("Address to listen on. Other machines then need the token.")
    ] = "127.0.0.1",
    opens: Annotated[bool, setting("Open it in the browser.", flags=("--open",))] = False,
    allow_actions: Annotated[bool, setting("Let the page stop and continue runs.")] = False,
) -> None:
    """Show runs, clips and trainings in a browser, live."""
    try:
        from posemill.web.server import serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "posemill serve needs {package!r}; run: pip install 'posemill[web]'", package=error.name
        ) from error
    serve(
        paths_of(folders),
        host=host,
        port=port,
        opens=opens,
        allow_actions=allow_actions,
        say=lambda address: say("serving at {address} until Ctrl-C", address=address, err=True),
    )


@door()
def advise(
    run: Annotated[AnyPath, setting("Folder of a training, finished or not.", argument=True)],
) -> list[Advice]:
    """Say what would make a training faster, and how much."""
    from posemill.training.tuning.advice import advise_run

    folder = run_of(run)
    if kind_of(folder) == "sweep":
        raise RunError(
            "{folder} is a sweep: ask for advice on one of the trainings in it", folder=folder
        )
    return advise_run(folder)


def read_log(folder: Path, *, worker: int | None = None, num_lines: int = 50) -> list[str]:
    """Return the last lines of the log of a run, a training or a sweep; or of a run's worker."""
    from posemill.machine.live_files import last_lines

    return last_lines(_log_of(folder, worker), num_lines)


def follow_log(folder: Path, *, worker: int | None = None) -> Iterator[str]:
    """Yield new lines of a log as they come, until nobody works in the folder any more."""
    from posemill.machine.live_files import follow_lines
    from posemill.runs.lock import holder_of
    from posemill.training.record.live import is_held

    is_run = kind_of(folder) == "extraction"
    return follow_lines(
        _log_of(folder, worker),
        lambda: holder_of(folder) is None if is_run else not is_held(folder),
    )


def _log_of(folder: Path, worker: int | None) -> Path:
    from posemill.jobs.extract.status import log_path, workers_with_logs
    from posemill.runs.manifest import Manifest
    from posemill.training.record.live import LOG_NAME

    kind = kind_of(folder)
    if kind == "extraction":
        Manifest.read(folder)  # is it one?
        path = log_path(folder, worker)
        if worker is not None and not path.is_file():
            raise RunError(
                "{folder} has no log of worker {worker}; workers with a log: {known}",
                folder=folder,
                worker=worker,
                known=", ".join(map(str, workers_with_logs(folder))) or Message("none"),
            )
        return path
    if worker is not None:
        raise ConfigError(
            "{folder} is {kind}; only the workers of extract have logs of theirs",
            folder=folder,
            kind=KINDS[kind],
        )
    status(folder)  # whose parts lie in it, or it says so
    return folder / LOG_NAME


COMMANDS = (
    Command("status", status, _show_status),
    Command("stop", None, show_stop),
    Command("logs", None, show_logs),
    Command("plan", None, show_plan, settings=lambda: ExtractConfig, only=_PLANNED),
    Command("serve", None, show_serve),
)
