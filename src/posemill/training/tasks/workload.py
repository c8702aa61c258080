"""What a training works on: a model, clips and a task. The engine knows no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from posemill.training.data.clips import Clips
from posemill.training.tasks.task import Task


@dataclass(frozen=True)
class Moment:
    """A moment of a training, for `on_step`, `on_evaluate` and `on_epoch`.

    Args:
        step: Optimizer steps taken.
        epoch: Epochs completed; in `on_step` those before this one.
        model: With its present weights, on its device.
        optimizer: What takes the steps.
        lr: Learning rate of the last step, of the first group.
        scores: Of the validation set; empty but in `on_evaluate`.
        is_first: True in the one process that should write files.
        out: Folder of the run.
    """

    step: int
    epoch: int
    model: nn.Module
    optimizer: Any
    lr: float
    is_first: bool
    out: Path
    _stepper: Any = field(repr=False)
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """Mean loss of the last step, over all processes; reading it waits for the device."""
        return float(self._stepper.last_loss())


@dataclass(frozen=True)
class Callbacks:
    """A user's functions, each called with a `Moment` in every process; True ends the training."""

    on_step: Callable[[Any], Any] | None = None
    on_evaluate: Callable[[Any], Any] | None = None
    on_epoch: Callable[[Any], Any] | None = None


@dataclass
class Workload:
    """All that one process needs to train.

    Args:
        model: On the CPU, weights as they start.
        train: Clips to learn from.
        val: Clips that choose the best checkpoint, or None.
        task: What is learned: calls the model, knows loss and scores.
        identity: What makes two models the same, for checkpoints: name, options, sizes.
        tests: Splits scored once, at the end, by name.
        class_names: For figures and predictions.
        skeleton_name: For figures.
        recipe: How `posemill prepare` made the data, to do the same to new clips.
        notes: Sentences about the data that the user should read.
        find_leaks: Returns sentences about clips that are on both sides of a split; it may take a
            second.
        decided: Settings that the data decided, by flat name, and why.
        make_optimizer: The user's own, built for a model; None builds what the settings say.
        callbacks: Called after steps, evaluations and epochs.
        loggers: Get every line of the log, see `posemill.training.loggers`.
        draw_sample: `draw_sample(axes, sample, output)` draws one sample of `fit`.
    """

    model: nn.Module
    train: Clips
    val: Clips | None
    task: Task
    identity: Mapping[str, Any]
    tests: Mapping[str, Clips] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    skeleton_name: str | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    find_leaks: Callable[[], list[str]] = list
    decided: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    make_optimizer: Callable[[nn.Module, Any, Any], Any] | None = None
    callbacks: Callbacks = field(default_factory=Callbacks)
    loggers: tuple[Any, ...] = ()
    draw_sample: Callable[[Any, Any, Any], None] | None = None


MakeWorkload = Callable[[], Workload]
