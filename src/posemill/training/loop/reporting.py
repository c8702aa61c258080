"""What a training says: rows of its log, why it stopped, its summary, errors in plain words."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch

from posemill.errors import DecodeError, RunError, TrainingError
from posemill.files import cache_folder
from posemill.machine.gpus import place_workers
from posemill.machine.limits import count_cores
from posemill.messages import Message
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.clips import Clips
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
from posemill.training.record.logs import TrainingLog
from posemill.training.record.run_folder import RunFolder
from posemill.training.runtime import Runtime
from posemill.training.tasks.workload import Workload
from posemill.training.video.frame_cache import free_bytes

if TYPE_CHECKING:
    from posemill.training.loop.trainer import TrainState

_TIMING_SECONDS = 10.0  # between two writings of what was measured
_STEP_PARTS = ("data", "transfer", "forward", "backward", "optimizer")


class Reporter:
    """Writes and keeps what one process of a training has to say.

    Args:
        workload: Its scores and loggers.
        config: The settings, `workers` resolved.
        runtime: This process.
        folder: Where the log goes.
        clock: Where the time of the training goes.

    Attributes:
        log: The log of the folder, and the progress bar.
        notes: What works, but not as it should; said at the start and in the summary.
        last_words: What is said again at the end.
        watch: Looks for a user's code that waits; a trainer tells it of steps.
        padding_share: Of the batches, where a trainer knows it.
        bf16_gain: Of a step, where it was measured.
        compile_seconds: Of the first step, where the model is compiled.
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
        self._videos: dict[str, int] | None = None
        self.watch = StepWatch()
        self.padding_share: float | None = None
        self.bf16_gain: float | None = None
        self.compile_seconds = 0.0
        self._earlier_seconds: Mapping[str, float] = {}
        self.log = TrainingLog(config, folder, is_first=runtime.is_first, loggers=workload.loggers)
        self.notes: list[str] = []
        self.last_words: list[str] = []
        self._meter = BusyMeter(runtime.device)
        self._busy: float | None = None
        self._seconds_before: Mapping[str, float] = clock.read()
        self._seconds_running = 0.0
        self._num_samples = 0
        self._loss = math.nan
        self._time = time.perf_counter()
        self._timing_at = 0.0

    def start(self, state: TrainState, total_steps: int) -> None:
        """Open the log, say the notes, and begin to measure."""
        self.log.start(total_steps, state.step)
        for note in self.notes:
            self.log.say(note)
        self.note_best(state)
        self.log.note(workers_on=self._ranks_on())
        self._meter.start()
        if _is_of_a_user(self._workload):
            self.watch.start()
        self._time = time.perf_counter()

    def count_earlier_time(self) -> None:
        """Count what the training took before it was stopped, too: advice is about all of it."""
        with suppress(RunError):  # it had measured nothing
            self._earlier_seconds = read_evidence(self._folder.path).timing_seconds

    def stop(self) -> None:
        """Close the log."""
        self._busy = self._meter.stop()
        self.watch.stop()
        self.log.close()

    def say_last(self, text: str) -> None:
        """Say why a training ends, now and in its last words."""
        self.last_words.append(text)
        self.log.say(text)

    def report_loss(self, state: TrainState, loss: float, samples: int, *, lr: float) -> None:
        """Log the mean loss since the last report, over so many samples."""
        seconds = self._clock.read()
        passed = {part: seconds[part] - self._seconds_before[part] for part in seconds}
        self._seconds_before = seconds
        running = sum(passed[part] for part in _STEP_PARTS)
        self._seconds_running += running
        self._num_samples += samples
        values = {
            "loss": loss,
            "lr": lr,
            "samples_per_second": samples / running if running else 0.0,
            "data_wait": passed["data"] / running if running else 0.0,
        }
        self._loss = loss
        self.log.record("train", state.step, state.epoch, values)
        if self._runtime.is_first and time.monotonic() - self._timing_at > _TIMING_SECONDS:
            self._busy = self._meter.read()
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

    def say_loss(self, state: TrainState) -> None:
        """Say the last loss after an epoch that has no evaluation."""
        self.log.say(
            Message(
                "epoch {epoch}: loss {loss:.4f} on training clips",
                epoch=state.epoch,
                loss=self._loss,
            )
        )

    def _ranks_on(self) -> dict[str, list[int]]:
        """Which ranks of this machine are on which GPU, for `posemill status`."""
        if self._runtime.size == 1 or not self._runtime.is_on_gpu:
            return place_workers([str(self._runtime.device)])
        num_here = min(self._runtime.size, torch.cuda.device_count())
        return place_workers([f"cuda:{index}" for index in range(num_here)])

    def note_best(self, state: TrainState) -> None:
        """Leave the best score for `posemill status`."""
        self.log.note(best=state.best, best_step=state.best_step, chosen_by=self._main)

    def why_stopped(self, state: TrainState) -> str:
        """Return why patience ended a training."""
        config, count = self._config, state.num_worse
        return Message(
            "stopped early after epoch {epoch} of {epochs}: no better {score} in "
            "{num_evaluations:evaluation|evaluations} ({--patience:{patience}}); the best was at "
            "step {best_step}",
            epoch=state.epoch,
            epochs=config.epochs,
            score=self._main,
            num_evaluations=count,
            patience=config.patience,
            best_step=state.best_step,
        )

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
            busy_share=self._busy,
            is_gpu=self._runtime.is_on_gpu,
            padding_share=self.padding_share,
            bf16_gain=self.bf16_gain,
            compile_seconds=self.compile_seconds,
            waits=tuple(self.watch.waits()),
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
            "busy_share": self._busy,
            "notes": self.notes,
            "last_words": self.last_words,
        }


def _is_of_a_user(workload: Workload) -> bool:
    """Return whether a step runs code that is not ours."""
    is_our_model = type(workload.model).__module__.startswith("posemill.")
    return workload.task.is_own or not is_our_model


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
        if is_broken or "DataLoader worker" in first_line:
            raise TrainingError(
                "a loader process died ({first_line}); where memory is short, lower {--workers} "
                "(now {workers}) or use {--cache:mmap}. Continue with {--resume:True}",
                first_line=first_line,
                workers=config.workers,
            ) from error
        if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise TrainingError(
                "torch.compile failed ({first_line}); use {--compile:off}, or see that a C++ "
                "compiler is installed",
                first_line=first_line,
            ) from error
        is_memory = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
            "can't allocate memory" in first_line
        )
        if not is_memory:
            raise
        lower = max(1, config.micro_batch // 2)
        raise TrainingError(
            "out of memory with {--micro-batch:{micro_batch}}: try {--micro-batch:{lower}} (the "
            "global batch stays the same), {--activation-checkpointing:True}, {--cache:mmap}, or "
            "{--preset:memory-limited}. The cause: {first_line}",
            micro_batch=config.micro_batch,
            lower=lower,
            first_line=first_line,
        ) from error
