"""Where the numbers of a training go beside its folder: TensorBoard, Weights & Biases, MLflow.

Your own is any object with `start`, `log` and `close`. It is started in one process only, the one
that writes files; until then it holds nothing that cannot be sent to another process. Where it has
`check()`, that is called before anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from posemill.errors import import_optional
from posemill.messages import render
from posemill.plugins import hint
from posemill.terminal import printable


class Logger(Protocol):
    """Gets the numbers of a training while it runs."""

    def start(self, out: Path, settings: Mapping[str, Any], step: int) -> None:
        """Begin: the folder of the run, its settings by flat name, the steps taken before."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Take numbers by name, `train/loss` or `eval/accuracy`, after so many steps."""

    def close(self) -> None:
        """End; called after an error too."""


def say(text: str) -> None:
    """Print a line to stderr, in the reader's language."""
    from rich.console import Console

    Console(stderr=True).print(printable(render(text)), highlight=False, markup=False)


class TensorBoardLogger:
    """Writes `tensorboard/` in the folder of the run."""

    def __init__(self) -> None:
        self._board: Any = None

    def start(self, out: Path, settings: Mapping[str, Any], step: int) -> None:
        """Open the files; what a killed run wrote after `step` is hidden."""
        writer = import_optional("torch.utils.tensorboard").SummaryWriter
        self._board = writer(str(out / "tensorboard"), purge_step=step)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write the numbers."""
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the files."""
        if self._board is not None:
            self._board.close()


class WandbLogger:
    """Sends the numbers to Weights & Biases.

    Args:
        options: What `wandb.init` is called with: `project`, `name`, and `id` with
            `resume="allow"` where a run that goes on should stay one.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._run: Any = None

    def start(self, out: Path, settings: Mapping[str, Any], step: int) -> None:
        """Begin a run, with the settings as its config."""
        options = {"dir": str(out), "config": dict(settings), **self._options}
        self._run = import_optional("wandb").init(**options)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Send the numbers."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """End the run."""
        if self._run is not None:
            self._run.finish()


class MlflowLogger:
    """Sends the numbers to MLflow.

    Args:
        experiment: Its name; the one that MLflow is set to where empty.
        options: What `mlflow.start_run` is called with: `run_name`, or `run_id` to go on with one.
    """

    def __init__(self, experiment: str = "", **options: Any) -> None:
        self._experiment, self._options = experiment, options
        self._mlflow: Any = None

    def start(self, out: Path, settings: Mapping[str, Any], step: int) -> None:
        """Begin a run, with the settings as its parameters."""
        mlflow = import_optional("mlflow")
        if self._experiment:
            mlflow.set_experiment(self._experiment)
        mlflow.start_run(**self._options)
        self._mlflow = mlflow
        if not step:  # a parameter is written once in MLflow
            mlflow.log_params(dict(settings))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Send the numbers."""
        self._mlflow.log_metrics(dict(values), step=step)

    def close(self) -> None:
        """End the run."""
        if self._mlflow is not None:
            self._mlflow.end_run()


# By the names of their packages.
_NAMED = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger, "mlflow": MlflowLogger}


def make_loggers(given: Iterable[Any]) -> tuple[Logger, ...]:
    """Return the loggers that a user gave by name or as objects; wrong ones are a `TypeError`."""
    if isinstance(given, str):
        given = [given]
    loggers = []
    for one in given:
        if isinstance(one, str) and one not in _NAMED:
            expected = f"{', '.join(_NAMED)} or an object"
            raise ValueError(f"loggers: expected {expected}, got {one!r}{hint(one, _NAMED)}")
        logger = _NAMED[one]() if isinstance(one, str) else one
        methods = ("start", "log", "close")
        missing = [name for name in methods if not callable(getattr(logger, name, None))]
        if missing:
            raise TypeError(
                f"loggers: {type(logger).__name__} has no {', '.join(missing)}; a logger has "
                "start(out, settings, step), log(values, step) and close()"
            )
        for package, kind in _NAMED.items():
            if isinstance(logger, kind):
                import_optional(package)
        loggers.append(logger)
    return tuple(loggers)
