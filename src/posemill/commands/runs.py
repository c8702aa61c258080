"""`status`, `stop`, `logs`, `plan`, `serve`: runs and trainings, from any shell or browser."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from posemill.commands.arguments import AnyPath, run_of
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
from posemill.commands.progress import ProgressView, TextLine, describe
from posemill.config import ExtractConfig
from posemill.errors import ConfigError, MissingExtraError, RunError
from posemill.language import translate, word
from posemill.messages import render
from posemill.settings import setting
from posemill.terminal import counted, duration, printable

if TYPE_CHECKING:
    from posemill.jobs.extract.status import Status
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
    """Say how far a run, a training or a sweep is: during, after a crash, after its end.

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
    watch: Annotated[bool, setting("Stay and show the progress live.")] = False,
    failures: Annotated[bool, setting("List what failed, one by one.")] = False,
    as_json: AsJson = False,
) -> None:
    from dataclasses import asdict

    from posemill.jobs.extract.status import Status, list_failures

    run = run_of(ask.values["run"])
    if failures and kind_of(run) != "extraction":
        raise ConfigError(f"{run} is a {kind_of(run)}: --failures lists clips of an extraction")
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
        where = "" if failure.frame_index is None else f" frame {failure.frame_index}"
        line = f"{failure.split}/{failure.clip_id}{translate(where)}: {translate(failure.message)}"
        say(printable(line, keep=""))  # a name with line ends makes no lines of its own


def _watch(run: Path) -> None:
    from posemill.jobs.extract.status import Status

    line = TextLine("line" if sys.stderr.isatty() else "log")
    with ProgressView() as view:
        while (found := status(run)).state == "running":
            if isinstance(found, Status):
                view.show(found.snapshot)
            else:
                line.show(render(found.describe()))
            time.sleep(0.5)
    line.close()


def _print_status(found: Status) -> None:
    say(found.headline())
    say(describe(found.snapshot))
    _print_gpus(found)
    print_table(
        ["split", "clips", "done", "clips failed", "frames", "out", "frames failed"],
        [
            (
                each.split,
                each.num_clips,
                each.clips_done,
                each.clips_failed,
                each.frames_known,
                each.frames_out,
                each.frames_failed,
            )
            for each in found.snapshot.counts
        ],
    )
    if found.reasons:
        print_reasons(found.reasons)


def _print_gpus(found: Status | TrainStatus) -> None:
    for gpu in found.gpus:
        say(printable(gpu.describe(), keep=""))


def _print_training(found: TrainStatus | SweepStatus) -> None:
    from posemill.training.runs.status import TrainStatus

    say(printable(render(found.headline()), keep=""))
    say(printable(render(found.describe()), keep=""))
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
        say(f"{folder}: nobody works on it" if pid is None else f"{folder}: pid {pid} stopped")


def show_logs(
    run: RunFolder,
    *,
    lines: Annotated[int, setting("How many.", flags=("--lines", "-n"))] = 50,
    worker: Annotated[int | None, setting("What worker N printed.")] = None,
    follow: Annotated[bool, setting("Go on while it runs.", flags=("--follow", "-f"))] = False,
    as_json: AsJson = False,
) -> None:
    """Print the last lines of the log of a run, a training or a sweep."""
    folder = run_of(run)
    found = read_log(folder, worker=worker, num_lines=lines)
    if as_json and follow:
        raise ConfigError("--json is one value, --follow has no end: give one of them")
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
    """Measure a sample on this machine; print hours and disk for 1, 2, 4, 8 … workers."""
    from posemill.jobs.forecast import forecast

    config = ExtractConfig(**{"out": Path(), **ask.values})
    say(f"measuring a sample, about {3 * sample_seconds:.0f} s …", err=True)
    found = forecast(config, sample_seconds=sample_seconds)
    if as_json:
        print_json(found.to_json())
        return
    say(f"{counted(found.num_clips, 'clips')}, {counted(found.num_frames, 'frames')}")
    print_table(
        ["workers", "hours", "time", "GB", "frames/s", ""],
        [
            (
                workers,
                round(hours, 2),
                duration(hours * 3600),
                round(gigabytes, 3),
                round(found.speed(workers), 1),
                word(translate(note)),
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
    port: Annotated[int, setting("0: any that is free.", least=0, most=65535)] = 8765,
    host: Annotated[
        str, setting("What to listen on; others than this machine then need the token.")
    ] = "127.0.0.1",
    opens: Annotated[bool, setting("Open it in the browser.", flags=("--open",))] = False,
    allow_actions: Annotated[bool, setting("Let the page stop and continue runs.")] = False,
) -> None:
    """Show runs, clips and trainings in a browser, live."""
    try:
        from posemill.web.server import serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"posemill serve needs {error.name!r}; run: pip install 'posemill[web]'"
        ) from error
    serve(
        paths_of(folders),
        host=host,
        port=port,
        opens=opens,
        allow_actions=allow_actions,
        say=lambda address: say(f"serving at {address} until Ctrl-C", err=True),
    )


@door()
def advise(
    run: Annotated[AnyPath, setting("Folder of a training, finished or not.", argument=True)],
) -> list[Advice]:
    """Say what would make a training faster, and how much."""
    from posemill.training.tuning.advice import advise_run

    folder = run_of(run)
    if kind_of(folder) == "sweep":
        raise RunError(f"{folder} is a sweep: ask for advice on one of the trainings in it")
    return advise_run(folder)


def kind_of(folder: Path) -> Literal["extraction", "training", "sweep"]:
    """Return what a folder holds, by the files that only this kind has."""
    from posemill.runs.manifest import MANIFEST_NAME
    from posemill.training.record.live import LOG_NAME, SWEEP_NAME

    if not (folder / MANIFEST_NAME).exists():
        if (folder / SWEEP_NAME).is_file():
            return "sweep"
        # The log is written first.
        if (folder / "run.json").is_file() or (folder / LOG_NAME).is_file():
            return "training"
    return "extraction"


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
    from posemill.jobs.extract.log import log_path
    from posemill.runs.manifest import Manifest
    from posemill.training.record.live import LOG_NAME

    kind = kind_of(folder)
    if kind == "extraction":
        Manifest.read(folder)  # is it one?
        return log_path(folder, worker)
    if worker is not None:
        raise ConfigError(f"{folder} is a {kind}; only the workers of extract have logs of theirs")
    status(folder)  # whose parts lie in it, or it says so
    return folder / LOG_NAME


COMMANDS = (
    Command("status", status, _show_status),
    Command("stop", None, show_stop),
    Command("logs", None, show_logs),
    Command("plan", None, show_plan, settings=lambda: ExtractConfig, only=_PLANNED),
    Command("serve", None, show_serve),
)
