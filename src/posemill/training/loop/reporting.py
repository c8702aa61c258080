"""What a training says: progress bar, log, numbers, summary, errors in plain words."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from posemill.errors import DecodeError, RunError, TrainingError
from posemill.files import cache_folder
from posemill.language import translate
from posemill.machine.gpus import place_workers
from posemill.machine.limits import count_cores
from posemill.machine.live_files import LogFile, Speedometer, read_live, write_live
from posemill.messages import Message, join, render
from posemill.terminal import printable
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.clips import Clips
from posemill.training.loggers import Logger, TensorBoardLogger
from posemill.training.loop.timing import (
    DATA_SHARE,
    BusyMeter,
    Clock,
    Evidence,
    StepWatch,
    read_evidence,
    shares,
    write_evidence,
)
from posemill.training.record.live import LOG_NAME
from posemill.training.record.run_folder import RunFolder
from posemill.training.runtime import Runtime
from posemill.training.tasks.workload import Workload
from posemill.training.video.reading import free_bytes

if TYPE_CHECKING:
    from posemill.training.loop.trainer import TrainState

_TIMING_SECONDS = 10.0  # between two writings of what was measured
_LIVE_SECONDS = 1.0
_LOG_SECONDS = 10.0  # between two lines about the loss
_STEP_PARTS = ("data", "transfer", "forward", "backward", "optimizer")


class Reporter:
    """Shows, writes and keeps what one process of a training has to say; only the first says it.

    Attributes:
        notes: What works, but not as it should; said at the start and in the summary.
        last_words: What is said again at the end.
        watch: Looks for a user's code that waits; a trainer tells it of steps.
        loss: The last that was reported.
        measured: Fields of `Evidence` that others know, by name.
    """

    def __init__(
        self,
        workload: Workload,
        config: TrainConfig,
        *,
        runtime: Runtime,
        folder: RunFolder,
        clock: Clock,
    ) -> None:
        self._config, self._runtime, self._clock = config, runtime, clock
        self._main, _ = score_that_chooses(workload)
        self._folder, self._workload = folder, workload
        self.notes: list[str] = []
        self.last_words: list[str] = []
        self.watch = StepWatch()
        self.measured: dict[str, Any] = {}
        self._videos: dict[str, int] | None = None
        self._meter = BusyMeter(runtime.device)
        self._earlier_seconds: Mapping[str, float] = {}
        self._seconds_before: Mapping[str, float] = clock.read()
        self._seconds_running = 0.0
        self._num_samples = 0
        self.loss = math.nan
        self._timing_at = self._live_at = self._log_at = 0.0
        self._console = Console(stderr=True, quiet=not runtime.is_first)
        self._loggers: list[Logger] = list(workload.loggers) if runtime.is_first else []
        has_board = any(isinstance(logger, TensorBoardLogger) for logger in self._loggers)
        is_wanted = runtime.is_first and config.tensorboard and not has_board
        if is_wanted and find_spec("tensorboard") is not None:
            self._loggers.append(TensorBoardLogger())
        self._speed = Speedometer()
        self._live: dict[str, Any] = {}
        # Open while the first process trains.
        self._metrics: TextIO | None = None
        self._log: LogFile | None = None
        self._progress: Progress | None = None

    def start(self, state: TrainState, total_steps: int) -> None:
        """Open the log, show the bar, say the notes, and begin to measure."""
        if self._runtime.is_first:
            self._open(state.step, total_steps)
        for note in self.notes:
            self.say(note)
        self.note_best(state)
        devices = [str(self._runtime.device)]
        if self._runtime.size > 1 and self._runtime.is_on_gpu:
            num_here = min(self._runtime.size, torch.cuda.device_count())
            devices = [f"cuda:{index}" for index in range(num_here)]
        self.note(workers_on=place_workers(devices))
        if state.step:  # advice is about all of the time, that before it was stopped too
            with suppress(RunError):  # it had measured nothing
                self._earlier_seconds = read_evidence(self._folder.path).timing_seconds
        self._meter.start()
        is_our_model = type(self._workload.model).__module__.startswith("posemill.")
        if self._workload.task.is_own or not is_our_model:  # a step runs code that is not ours
            self.watch.start()
        self._time = time.perf_counter()

    def _open(self, step: int, total_steps: int) -> None:
        folder = self._folder.path
        self._metrics = self._folder.metrics_path.open("a", encoding="utf-8")
        self._log = LogFile(folder / LOG_NAME)
        self._live = read_live(folder)  # who trains; the rest is of now
        self._live |= {"step": step, "total_steps": total_steps, "epochs": self._config.epochs}
        for logger in self._loggers:
            logger.start(folder, self._config.to_dict(), step)
        if not (self._config.progress and self._console.is_terminal):
            return
        self._progress = Progress(
            TextColumn(translate("epoch {task.fields[epoch]}")),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._bar = self._progress.add_task("", total=total_steps, completed=step, epoch=0, text="")
        self._progress.start()

    def stop(self) -> None:
        """Measure no more, take the bar away and close the files."""
        self.measured["busy_share"] = self._meter.stop()
        self.watch.stop()
        if self._progress:
            self._progress.stop()
        if self._metrics:
            self._metrics.close()
        if self._log:
            self.note()
            self._log.close()
            self._log = None
        for logger in self._loggers:
            logger.close()

    def say(self, text: str) -> None:
        """Print a line to stderr, in the reader's language, and write it into the log as it is."""
        if self._log:
            self._log.write(text)
        self._console.print(printable(render(text)), highlight=False, markup=False)

    def say_what_takes_long(self, text: Message) -> None:
        """Say what is done now where someone watches."""
        if self._progress:
            self._console.print(render(text), highlight=False, markup=False)

    def say_last(self, text: str) -> None:
        """Say why a training ends, now and in its last words."""
        self.last_words.append(text)
        self.say(text)

    def note(self, **values: Any) -> None:
        """Leave values for `posemill status`, with what is there already."""
        if self._log:
            self._live |= values
            self._live_at = time.monotonic()
            write_live(self._folder.path, self._live)

    def note_best(self, state: TrainState) -> None:
        """Leave the best score for `posemill status`."""
        self.note(best=state.best, best_step=state.best_step, chosen_by=self._main)

    def advance(self, epoch: int) -> None:
        """Move the bar by one step."""
        if self._log:
            self._live |= {"step": self._live["step"] + 1, "epoch": epoch + 1}
            if time.monotonic() - self._live_at > _LIVE_SECONDS:
                speed = self._speed.see(self._live["step"])
                left = self._live["total_steps"] - self._live["step"]
                self.note(seconds_left=left / speed if speed else None)
        if self._progress:
            self._progress.update(self._bar, advance=1, epoch=epoch + 1)

    def report_loss(self, state: TrainState, loss: float, samples: int, *, lr: float) -> None:
        """Log the mean loss since the last report, over so many samples."""
        seconds = self._clock.read()
        passed = {part: seconds[part] - self._seconds_before[part] for part in seconds}
        self._seconds_before = seconds
        running = sum(passed[part] for part in _STEP_PARTS)
        self._seconds_running += running
        self._num_samples += samples
        self.loss = loss
        values = {
            "loss": loss,
            "lr": lr,
            "samples_per_second": samples / running if running else 0.0,
            "data_wait": passed["data"] / running if running else 0.0,
        }
        self._record("train", state.step, state.epoch, values)
        if self._runtime.is_first and time.monotonic() - self._timing_at > _TIMING_SECONDS:
            self.measured["busy_share"] = self._meter.read()
            write_evidence(self._folder.path, self._evidence(state))
            self._timing_at = time.monotonic()
        if not math.isfinite(loss):
            raise TrainingError(
                "the loss became {loss} before step {step}: lower {--lr} (now {lr}), lower "
                "{--clip-grad-norm} (now {clip}), or use {--precision:fp32}",
                loss=loss,
                step=state.step,
                lr=self._config.lr,
                clip=self._config.clip_grad_norm,
            )

    def report_scores(self, state: TrainState, scores: Mapping[str, float]) -> None:
        """Log and say the scores of an evaluation."""
        epoch = max(0, state.epoch - 1)
        self._record("eval", state.step, epoch, scores)
        parts = [Message("{name} {value:.4f}", name=Message(n), value=v) for n, v in scores.items()]
        self.say(Message("epoch {epoch}: {scores}", epoch=epoch + 1, scores=join("  ", parts)))

    def _record(self, event: str, step: int, epoch: int, values: Mapping[str, float]) -> None:
        """Write numbers of `train` or `eval` where they go: file, loggers, bar and log."""
        if self._metrics:
            line = {"event": event, "step": step, "epoch": epoch, **values}
            self._metrics.write(json.dumps(line) + "\n")
            self._metrics.flush()
        for logger in self._loggers:
            logger.log({f"{event}/{name}": value for name, value in values.items()}, step)
        if event != "train":
            return
        template = "loss {loss:.4f}  {samples_per_second:.0f} samples/s  data wait {data_wait:.0%}"
        text = Message(template, **values)
        self._live["samples_per_second"] = values["samples_per_second"]
        if self._progress:
            self._progress.update(self._bar, text=render(text))
        if self._log and time.monotonic() - self._log_at > _LOG_SECONDS:
            self._log_at = time.monotonic()
            self._log.write(f"epoch {epoch + 1}, step {step}: {text}")

    def _evidence(self, state: TrainState) -> Evidence:
        earlier = self._earlier_seconds
        seconds = {part: s + earlier.get(part, 0.0) for part, s in self._clock.read().items()}
        if self._videos is None and shares(seconds)["data"] >= DATA_SHARE:
            self._videos = describe_videos(self._workload.train)
        return Evidence(
            seconds,
            cores=count_cores(),
            ranks=self._runtime.size,
            num_evals=state.num_evals,
            is_gpu=self._runtime.is_on_gpu,
            waits=tuple(self.watch.waits()),
            **self.measured,
            **(self._videos or {}),
        )

    def summary(self, state: TrainState) -> dict[str, Any]:
        """Return scores and timing, ready for JSON."""
        evidence = self._evidence(state)
        if self._runtime.is_first:
            write_evidence(self._folder.path, evidence)
        return {
            "steps": state.step,
            "epochs": state.epoch,
            "is_stopped_early": state.is_stopped,
            "chosen_by": self._main,
            "best_step": state.best_step or state.step,
            "best_scores": state.scores,
            "seconds": time.perf_counter() - self._time,
            "samples_per_second": self._num_samples / max(self._seconds_running, 1e-9),
            "timing_seconds": evidence.timing_seconds,
            "busy_share": evidence.busy_share,
            "notes": self.notes,
            "last_words": self.last_words,
        }


def score_that_chooses(workload: Workload) -> tuple[str, bool]:
    """Return (name of the score that picks the best checkpoint, True where higher is better)."""
    if workload.val is None:
        return "loss", False
    return workload.task.main, workload.task.higher_is_better


def describe_videos(training: Clips) -> dict[str, int]:
    """Return how many videos are decoded in every epoch, and what their frames would take."""
    clips = training.video
    if clips is None or clips.cache is not None or clips.size.size_wh is None:
        return {}
    needed = clips.estimate_bytes()
    if needed is None:
        return {}
    return {
        "num_videos": sum(clip.kind == "video" for clip in clips.clips),
        "decoded_bytes": needed,
        "frame_side": max(clips.size.size_wh),
        "free_bytes": free_bytes(cache_folder()),
    }


@contextmanager
def readable_errors(config: TrainConfig) -> Iterator[None]:
    """Say what to lower when memory runs out, and what may have killed a loader process."""
    try:
        yield
    except DecodeError as error:
        # From a loader process comes its whole stack, and the sentence at the end.
        sentence = str(error).rstrip().splitlines()[-1].partition("DecodeError: ")
        raise DecodeError(sentence[2] or sentence[0], reason=error.reason) from error
    except (MemoryError, RuntimeError, ConnectionError, EOFError) as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        # A batch of a loader that has just died is a broken connection.
        is_broken = isinstance(error, (ConnectionError, EOFError)) and config.workers > 0
        is_memory = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        if is_broken or "DataLoader worker" in first_line:
            template = (
                "a loader process died ({first_line}); where memory is short, lower {--workers} "
                "(now {workers}) or use {--cache:mmap}. Continue with {--resume:True}"
            )
        elif type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            template = (
                "torch.compile failed ({first_line}); use {--compile:off}, or see that a C++ "
                "compiler is installed"
            )
        elif is_memory or "can't allocate memory" in first_line:
            template = (
                "out of memory with {--micro-batch:{micro_batch}}: try {--micro-batch:{lower}} "
                "(the global batch stays the same), {--activation-checkpointing:True}, "
                "{--cache:mmap}, or {--preset:memory-limited}. The cause: {first_line}"
            )
        else:
            raise
        raise TrainingError(
            template,
            first_line=first_line,
            workers=config.workers,
            micro_batch=config.micro_batch,
            lower=max(1, config.micro_batch // 2),
        ) from error
