"""What a running training says: a progress bar, its log, lines of JSON, TensorBoard."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from posemill.language import translate
from posemill.machine.live_files import LogFile, Speedometer, read_live, write_live
from posemill.messages import Message, render
from posemill.terminal import printable
from posemill.training.config.train_config import TrainConfig
from posemill.training.loggers import Logger, TensorBoardLogger
from posemill.training.record.live import LOG_NAME
from posemill.training.record.run_folder import RunFolder

_LIVE_SECONDS = 1.0
_LOG_SECONDS = 10.0  # between two lines about the loss


class TrainingLog:
    """Shows and writes the course of a training; silent in all processes but the first."""

    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        *,
        is_first: bool,
        loggers: Sequence[Logger] = (),
    ) -> None:
        self._is_first = is_first
        self._console = Console(stderr=True, quiet=not is_first)
        self._has_bar = config.progress and self._console.is_terminal and is_first
        self._file: TextIO | None = None
        self._loggers: list[Logger] = []
        self._progress: Progress | None = None
        self._folder = folder
        self._epochs = config.epochs
        self._text: LogFile | None = None
        self._live: dict[str, Any] = {}
        self._speed = Speedometer()
        self._live_at = self._text_at = 0.0
        self._settings = config.to_dict()
        if is_first:
            self._loggers = list(loggers)
            has_board = any(isinstance(one, TensorBoardLogger) for one in loggers)
            if config.tensorboard and not has_board and find_spec("tensorboard") is not None:
                self._loggers.append(TensorBoardLogger())

    def say(self, text: str) -> None:
        """Print a line to stderr, in the reader's language, and write it into the log as it is."""
        if self._text:
            self._text.write(text)
        self._console.print(printable(render(text)), highlight=False, markup=False)

    def start(self, total_steps: int, done: int = 0) -> None:
        """Open the files and show the progress bar."""
        if self._is_first:
            self._file = self._folder.metrics_path.open("a", encoding="utf-8")
            self._text = LogFile(self._folder.path / LOG_NAME)
            self._live = read_live(self._folder.path)  # who trains; the rest is of now
            self._live |= {"step": done, "total_steps": total_steps, "epochs": self._epochs}
            self._live_at = 0.0
        for logger in self._loggers:
            logger.start(self._folder.path, self._settings, done)
        if not self._has_bar:
            return
        self._progress = Progress(
            TextColumn(translate("epoch {task.fields[epoch]}")),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._task = self._progress.add_task(
            "", total=total_steps, completed=done, epoch=0, text=""
        )
        self._progress.start()

    def note(self, **values: Any) -> None:
        """Leave values for `posemill status`, with what is there already."""
        if self._text:
            self._live |= values
            self._live_at = time.monotonic()
            write_live(self._folder.path, self._live)

    def advance(self, epoch: int) -> None:
        """Move the bar by one step."""
        if self._text:
            self._live |= {"step": self._live["step"] + 1, "epoch": epoch + 1}
            if time.monotonic() - self._live_at > _LIVE_SECONDS:
                self._note_speed()
        if self._progress:
            self._progress.update(self._task, advance=1, epoch=epoch + 1)

    def _note_speed(self) -> None:
        step = self._live["step"]
        speed = self._speed.see(step)
        left = (self._live["total_steps"] - step) / speed if speed else None
        self.note(seconds_left=left)

    def record(self, event: str, step: int, epoch: int, values: Mapping[str, float]) -> None:
        """Write one line of the log, and show it.

        Args:
            event: `train` (loss, lr, samples a second, share of data wait) or `eval`.
            step: Optimizer steps taken.
            epoch: Epoch, from 0.
            values: Numbers by name.
        """
        if not self._is_first:
            return
        if self._file:
            line = {"event": event, "step": step, "epoch": epoch, **values}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        if self._loggers:
            named = {f"{event}/{name}": value for name, value in values.items()}
            for logger in self._loggers:
                logger.log(named, step)
        if event == "train":
            text = Message(
                "loss {loss:.4f}  {samples_per_second:.0f} samples/s  data wait {data_wait:.0%}",
                loss=values["loss"],
                samples_per_second=values["samples_per_second"],
                data_wait=values["data_wait"],
            )
            self._live["samples_per_second"] = values["samples_per_second"]
            if self._progress:
                self._progress.update(self._task, text=render(text))
            if self._text and time.monotonic() - self._text_at > _LOG_SECONDS:
                self._text_at = time.monotonic()
                self._text.write(f"epoch {epoch + 1}, step {step}: {text}")
        if event == "eval":
            listed = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
            self.say(Message("epoch {epoch}: {scores}", epoch=epoch + 1, scores=listed))

    def close(self) -> None:
        """Take the bar away and close the files."""
        if self._progress:
            self._progress.stop()
        if self._file:
            self._file.close()
        if self._text:
            self.note()
            self._text.close()
            self._text = None
        for logger in self._loggers:
            logger.close()
