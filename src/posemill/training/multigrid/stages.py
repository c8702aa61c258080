"""The stages of a training: epochs in a row with one loader. Without Multigrid there is one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from posemill.errors import ConfigError
from posemill.messages import Message, join
from posemill.training.config.run_settings import MultigridOptions
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.clips import Clips, Shape
from posemill.training.data.loaders import open_loader
from posemill.training.multigrid.norms import NORM_CLIPS, count_groups, has_norms
from posemill.training.multigrid.schedule import Multigrid, Phase
from posemill.training.runtime import Runtime


@dataclass(frozen=True)
class Stage:
    """Epochs `start_epoch` to `stop_epoch` (exclusive) over clips, in so many steps each."""

    start_epoch: int
    stop_epoch: int
    clips: Clips
    epoch_steps: int
    first_step: int
    shapes: tuple[Shape, ...]  # of Multigrid, in turn; empty without it

    @property
    def num_steps(self) -> int:
        """Optimizer steps of all its epochs."""
        return self.epoch_steps * (self.stop_epoch - self.start_epoch)


class Stages:
    """All stages of a training, and the learning rate of each step."""

    def __init__(self, clips: Clips, config: TrainConfig) -> None:
        self._clips, self._config = clips, config
        self.schedule = _make_schedule(clips, config) if config.multigrid else None
        self._stages = tuple(self._find())
        self.num_epochs = self._stages[-1].stop_epoch  # of all stages
        by_epochs = self._stages[-1].first_step + self._stages[-1].num_steps
        self.total_steps = min(by_epochs, config.max_steps or by_epochs)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self._stages)

    def _find(self) -> Iterator[Stage]:
        phases = self.schedule.phases if self.schedule else (Phase(0, (), 0, self._config.epochs),)
        made: dict[Any, tuple[Clips, int]] = {}
        first_step = 0
        for phase in phases:
            if phase.start_epoch == phase.stop_epoch:
                continue
            if phase.shapes not in made:
                clips = self._clips.in_shapes(phase.shapes) if phase.shapes else self._clips
                loader = open_loader(clips, self._config, Runtime(), shuffle=True)
                made[phase.shapes] = clips, loader.num_steps
            span = phase.start_epoch, phase.stop_epoch
            stage = Stage(*span, *made[phase.shapes], first_step, phase.shapes)
            first_step += stage.num_steps
            yield stage

    def at(self, epoch: int) -> Stage:
        """Return the stage of an epoch; of one after the end the last."""
        return next((s for s in self._stages if epoch < s.stop_epoch), self._stages[-1])

    def step_at(self, epoch: int, step_in_epoch: int) -> int:
        """Return how many steps lie before a place."""
        stage = self.at(epoch)
        return stage.first_step + (epoch - stage.start_epoch) * stage.epoch_steps + step_in_epoch

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of optimizer step `step` (from 0)."""
        config, total_steps = self._config, self.total_steps
        epoch_steps: float = self._stages[0].epoch_steps
        if self.schedule is not None:
            # It is the constant one with fewer iterations: an epoch of that has so many.
            epoch_steps = total_steps / config.epochs
        warmup = min(round(config.optimisation.warmup_epochs * epoch_steps), total_steps - 1)
        at = max(step, warmup)
        # From 0 at the end of the warm-up to 1 at the last step.
        done = min(1.0, (at - warmup) / max(1, total_steps - 1 - warmup))
        factor, falls = 1.0, sum(at / epoch_steps >= epoch for epoch in config.step_epochs)
        if self.schedule is not None:
            stage = next(s for s in reversed(self._stages) if s.first_step <= at)
            epoch = stage.start_epoch + (at - stage.first_step) / stage.epoch_steps
            factor, falls = self.schedule.lr_factor(epoch), self.schedule.lr_step(epoch)
        rate: float = config.lr * _after_warmup(config, done, falls) * factor
        return rate if step >= warmup else rate * (step + 1) / (warmup + 1)

    def check_norms(self, model: nn.Module, processes: int) -> None:
        """Refuse a batch that cannot be normalised in groups of one size."""
        if self.schedule is None or not has_norms(model):
            return
        for stage in self:
            num_clips = clips_of_pass(stage, self._config, processes)
            num_groups = count_groups(num_clips)
            if num_clips % num_groups:
                raise ConfigError(
                    "multigrid normalises batches in groups of {group_size} clips or a few more, "
                    "all of one size, but {num_clips} clips of a pass do not divide into "
                    "{num_groups}: use a {--batch-size} (and {--micro-batch}) of {group_size} "
                    "for each process, or one that is a multiple of it",
                    group_size=NORM_CLIPS,
                    num_clips=num_clips,
                    num_groups=num_groups,
                )

    def describe(self) -> list[str]:
        """Return the plan in lines: what it saves, then the shapes with batches, epochs, steps."""
        clips, config, schedule = self._clips, self._config, self.schedule
        if schedule is None or (grid := clips.grid) is None:
            return []
        full = clips.in_shapes(schedule.long_cycle[-1][-1:])
        constant = config.epochs * open_loader(full, config, Runtime(), shuffle=True).num_steps
        steps = self.total_steps
        lines: list[str] = [
            Message(
                "multigrid: {num_steps} steps in {num_epochs} epochs instead of {usual_steps} in "
                "{usual_epochs}: {saving:.2f}x fewer",
                num_steps=steps,
                num_epochs=self.num_epochs,
                usual_steps=constant,
                usual_epochs=config.epochs,
                saving=constant / steps,
            ),
            *(Message("multigrid: {note}", note=note) for note in grid.notes),
        ]
        by_shapes: dict[Any, list[Stage]] = {}
        for stage in self:
            by_shapes.setdefault(stage.shapes, []).append(stage)
        for shapes, stages in by_shapes.items():
            spans = _join_spans([(stage.start_epoch, stage.stop_epoch) for stage in stages])
            sizes = " / ".join(f"{shape.batch * config.batch_size}" for shape in shapes)
            what = join(" / ", dict.fromkeys(clips.describe_shape(shape) for shape in shapes))
            factor = schedule.lr_factor(stages[0].start_epoch)
            lines.append(
                Message(
                    "multigrid: {shapes}: {sizes} clips a step, lr x {factor:.3g}, epochs "
                    "{epochs}: {num_steps} steps",
                    shapes=what,
                    sizes=sizes,
                    factor=factor,
                    epochs=spans,
                    num_steps=sum(stage.num_steps for stage in stages),
                )
            )
        return lines


def clips_of_pass(stage: Stage, config: TrainConfig, num_processes: int) -> int:
    """Return the clips of a forward pass of one process, in a stage's shape of the long cycle."""
    factor = stage.clips.batch_factors[-1]
    of_process = -(-config.optimisation.batch_size * factor // num_processes)
    num_passes = -(-of_process // (config.speed.micro_batch * factor))
    return -(-of_process // num_passes)


def _make_schedule(clips: Clips, config: TrainConfig) -> Multigrid:
    """Return the schedule for these clips, or say why there is none."""
    if (grid := clips.grid) is None:
        raise ConfigError(
            "{--multigrid:True} needs clips of several frames that can be made shorter: "
            "keypoints, or video with a fixed number of frames and one size (sampling "
            "segments:8, size 112); leave it out"
        )
    options = MultigridOptions(**config.multigrid_options)
    try:
        made = Multigrid(
            config.epochs,
            grid.num_frames,
            grid.size,
            lr_steps=tuple(config.step_epochs) if config.scheduler == "step" else None,
            grid=grid.cycle,
            has_short_cycle=options.short_cycle and grid.has_short_cycle,
            epoch_factor=options.epoch_factor,
            most_lr_factor=options.most_lr_factor,
            lr_power=1.0 if config.optimizer == "sgd" else 0.5,
        )
    except ValueError as error:
        raise ConfigError("{--multigrid:True}: {error}", error=error) from error
    largest = max(shape.batch for shapes in made.long_cycle for shape in shapes)
    if config.batch_size * largest > len(clips):
        raise ConfigError(
            "{--multigrid:True} takes up to {largest} times {--batch-size:{batch_size}} "
            "clips in a step, more than the {num_clips} training clips: use "
            "{--batch-size:{num_fitting}} or less, or leave it out",
            largest=largest,
            batch_size=config.batch_size,
            num_clips=len(clips),
            num_fitting=max(1, len(clips) // largest),
        )
    return made


def _join_spans(spans: Sequence[tuple[int, int]]) -> str:
    """Return `1-3, 7-9` for epochs from 0, spans that touch joined."""
    found: list[tuple[int, int]] = []
    for start, stop in spans:
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return ", ".join(
        f"{start + 1}-{stop}" if stop > start + 1 else f"{stop}" for start, stop in found
    )


# One-cycle: the share of the steps that climb, and where the climb begins (Smith and Topin 2018).
_CLIMB = 0.3
_CLIMB_FROM = 1 / 25


def _after_warmup(config: TrainConfig, done: float, falls: int) -> float:
    """Return the share of `lr` at `done` (0 to 1) of the way, which has fallen so often."""
    low = config.optimisation.final_lr
    if config.scheduler in ("constant", "plateau"):  # `Trainer` lowers it by the scores
        return 1.0
    if config.scheduler == "linear":
        return 1 - (1 - low) * done
    if config.scheduler == "cosine":
        return _cosine(1.0, low, done)
    if config.scheduler == "step":
        return float(config.step_gamma**falls)
    if done < _CLIMB:
        return _cosine(_CLIMB_FROM, 1.0, done / _CLIMB)
    return _cosine(1.0, low, (done - _CLIMB) / (1 - _CLIMB))


def _cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2
