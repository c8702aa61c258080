"""`status`, `stop`, `logs`, `plan`, `serve`: runs and trainings, from any shell or browser."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.commands.arguments import KINDS, AnyPath, run_of
from posemill.commands.declaring import AsJson, Ask, Command
from posemill.commands.extract import print_counts
from posemill.commands.printing import (
    print_json,
    print_records,
    print_table,
    print_written,
    say,
    without_constants,
)
from posemill.commands.progress import TextLine, show_progress
from posemill.config import ExtractConfig
from posemill.errors import ConfigError, PosemillError, RunError, import_optional
from posemill.files import folder_kind
from posemill.messages import Message, join, render
from posemill.settings import setting
from posemill.terminal import duration, printable, warn_once

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
    "source layout splits engine engine_options mode skeleton decoder resize fps stride num_gpus "
    "num_workers_per_gpu"
).split()


def status(run: RunFolder) -> Status | TrainStatus | SweepStatus:
    """Show the progress of a run, a training or a sweep, or of all below a folder.

    Instead of the folder of a run, the file beside it that `extract` was told to write will do.
    """
    from posemill.jobs.extract.status import read_status
    from posemill.training.runs.status import read_sweep_status, read_train_status

    folder = run_of(run)
    kind = folder_kind(folder)
    if kind == "sweep":
        return read_sweep_status(folder)
    if runs := _runs_below(folder):
        template = "{folder} is no run, but holds {number:run|runs}: give one of them: {runs}"
        names = ", ".join(map(str, runs[:5])) + (" …" if len(runs) > 5 else "")
        raise RunError(template, folder=folder, number=len(runs), runs=names)
    return read_train_status(folder) if kind == "training" else read_status(folder)


def _runs_below(folder: Path) -> list[Path]:
    """Return the runs, trainings and sweeps below a folder that is none of them."""
    if folder_kind(folder) in ("extraction", *KINDS):
        return []
    from posemill.web.library import Library

    library = Library([folder])
    library.look()
    if library.note:
        template = "{folder} holds too many files to look at all: give the folder of a run"
        warn_once(Message(template, folder=folder))
    return [folder / entry.name for entry in library.entries() if entry.kind != "prepared"]


def _show_all(runs: Sequence[Path], *, as_json: bool) -> None:
    """Print a line for each run."""
    states: list[object] = []
    for run in runs:
        try:
            state = status(run)
            states.append(state)
            line = join("; ", [state.headline(), state.describe()])
        except PosemillError as error:
            line = error.sentence
            states.append({"folder": run, "error": line})
        if not as_json:
            say_line(line)
    if as_json:
        print_json(states)


def _show_status(
    ask: Ask,
    *,
    watch: Annotated[bool, setting("Show the progress live.")] = False,
    failures: Annotated[bool, setting("List what failed, one by one.")] = False,
    as_json: AsJson = False,
) -> None:
    from posemill.jobs.extract.status import Status
    from posemill.runs.queries import read_ledger

    run = run_of(ask.keywords["run"])
    if failures and (kind := KINDS.get(folder_kind(run))):
        template = "{run} is {kind}: {--failures} lists clips of an extraction"
        raise ConfigError(template, run=run, kind=kind)
    if not (watch or failures) and (runs := _runs_below(run)):
        _show_all(runs, as_json=as_json)
        return
    state = status(run)
    line = TextLine("line" if sys.stderr.isatty() else "log")
    while watch and state.state == "running":
        line.show(state.describe())
        time.sleep(0.5)
        state = status(run)
    line.close()
    failed: list[dict[str, Any]] = []
    if failures:
        with read_ledger(run) as ledger:
            failed = [failure._asdict() for failure in ledger.failures()]
    if as_json:
        print_json({**state.to_json(), **({"failures": failed} if failures else {})})
        return
    for text in (
        state.headline(),
        state.describe(),
        *(gpu.describe() for gpu in getattr(state, "gpus", ())),
    ):
        say_line(text)
    if isinstance(state, Status):
        print_counts(state)
    else:
        _print_training(state)
    for failure in failed:
        template = "{split}/{clip_id} frame {frame_index}: {message}"
        if failure["frame_index"] is None:
            template = "{split}/{clip_id}: {message}"
        say_line(template, **failure)


def say_line(text: str, /, **values: object) -> None:
    """Print a message on one line: a name with line ends in it makes no lines of its own."""
    print_written(printable(render(Message(text, **values)), keep=""))


def _print_training(state: TrainStatus | SweepStatus) -> None:
    from posemill.training.runs.status import TrainStatus

    if isinstance(state, TrainStatus):
        print_records({"split": split, **scores} for split, scores in state.scores.items())
    else:
        same, rows = without_constants(state.trainings, keep=("job", "state"))
        if same:
            listed = ", ".join(f"{name} {value}" for name, value in same.items())
            say_line("the same in all: {settings}", settings=listed)
        print_records(rows)
    for line in state.last_lines:
        say_line("  {line}", line=line)
    say_line("next: {command}", command=state.next_command())


def stop(folder: Path) -> int | None:
    """End what works in a folder, wait for it; return the pid it had, None if nothing did."""
    from posemill.jobs.extract.status import stop_run
    from posemill.training.record.live import stop_training

    if folder_kind(folder) not in KINDS:
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
        template = "{run}: nobody works on it" if pid is None else "{run}: pid {pid} stopped"
        say(template, run=folder, pid=pid)


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
    from posemill.machine.live_files import follow_lines, last_lines
    from posemill.runs.home import holder_of
    from posemill.training.record.live import is_held

    folder = run_of(run)
    path = _log_of(folder, worker)
    last = last_lines(path, lines)
    if as_json and follow:
        raise ConfigError("{--json} is one value, {--follow} has no end: give one of them")
    if as_json:
        print_json(last)
        return
    is_worked_on = is_held if folder_kind(folder) in KINDS else holder_of
    new = follow_lines(path, lambda: not is_worked_on(folder)) if follow else ()
    for line in chain(last, new):
        print_written(line)


def show_plan(
    *,
    sample_seconds: Annotated[
        float, setting("How long to measure, for each number of workers.")
    ] = 20.0,
    as_json: AsJson = False,
    **settings: Annotated[Any, ExtractConfig],
) -> None:
    """Measure a sample on this machine; estimate hours and disk space for 1, 2, 4, 8 … workers."""
    from posemill.jobs.forecast import forecast

    config = ExtractConfig(**{"out": Path(), **settings})
    say("measuring a sample, about {seconds:.0f} s …", seconds=3 * sample_seconds, err=True)
    with show_progress("measuring") as advance:
        estimate = forecast(config, sample_seconds=sample_seconds, on_frames=advance)
    print_forecast(estimate, as_json=as_json)


def print_forecast(estimate: Forecast, *, as_json: bool) -> None:
    """Print what a job would take with 1, 2, 4, 8 … workers."""
    if as_json:
        print_json(estimate)
        return
    say("{num_clips:clip|clips}, {num_frames:frame|frames}", **vars(estimate))
    rows = [
        (
            *(workers, round(hours, 2), duration(hours * 3600), round(gigabytes, 3)),
            *(round(speed, 1), Message(note)),
        )
        for workers, hours, gigabytes, speed, note in estimate.rows()
    ]
    print_table(["workers", "hours", "time", "GB", "frames/s", ""], rows)


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
    import_optional("posemill.web.server", extra="web").serve(
        [Path(folder) for folder in folders],
        host=host,
        port=port,
        opens=opens,
        allow_actions=allow_actions,
        say=lambda address: say("serving at {address} until Ctrl-C", address=address, err=True),
    )


def advise(
    run: Annotated[AnyPath, setting("Folder of a training, finished or not.", argument=True)],
) -> list[Advice]:
    """Say what would make a training faster, and how much."""
    from posemill.training.tuning.advice import advise_run

    folder = run_of(run)
    if folder_kind(folder) == "sweep":
        template = "{folder} is a sweep: ask for advice on one of the trainings in it"
        raise RunError(template, folder=folder)
    return advise_run(folder)


def _log_of(folder: Path, worker: int | None) -> Path:
    from posemill.jobs.extract.status import log_path
    from posemill.runs.manifest import Manifest
    from posemill.training.record.live import LOG_NAME

    kind = KINDS.get(folder_kind(folder))
    if kind is None:
        Manifest.read(folder)  # is it one?
        path = log_path(folder, worker)
        if worker is not None and not path.is_file():
            known = ", ".join(sorted(log.name for log in path.parent.glob("*.log")))
            template = "{folder} has no log of worker {worker}; its logs: {known}"
            raise RunError(template, folder=folder, worker=worker, known=known)
        return path
    if worker is not None:
        template = "{folder} is {kind}; only the workers of extract have logs of theirs"
        raise ConfigError(template, folder=folder, kind=kind)
    status(folder)  # whose parts lie in it, or it says so
    return folder / LOG_NAME


COMMANDS = (
    Command("status", status, _show_status),
    Command("stop", show_stop),
    Command("logs", show_logs),
    Command("plan", show_plan, only=_PLANNED),
    Command("serve", show_serve),
)
