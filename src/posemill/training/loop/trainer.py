"""The training loop: epochs of steps, evaluations, checkpoints; continues where it was stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

from posemill.errors import TrainingError
from posemill.messages import Message
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.clips import Clips, Loader
from posemill.training.data.loaders import open_loader
from posemill.training.loop.passes import Evaluation, evaluate_split
from posemill.training.loop.reporting import Reporter, readable_errors, score_that_chooses
from posemill.training.loop.stepping import Stepper
from posemill.training.loop.timing import Clock
from posemill.training.multigrid.norms import (
    aggregate_norms,
    group_norms,
    read_norm_state,
    restore_norms,
    set_norm_state,
)
from posemill.training.multigrid.stages import Stage, Stages, clips_of_pass
from posemill.training.record.checkpoints import (
    Checkpoint,
    CheckpointWriter,
    copy_state,
    load_into,
)
from posemill.training.record.run_folder import RunFolder
from posemill.training.runtime import (
    Runtime,
    read_random_states,
    seed_everything,
    set_random_states,
)
from posemill.training.tasks.task import beats
from posemill.training.tasks.workload import Moment, Workload


@dataclass
class TrainState:
    """Where a training is; goes into every checkpoint.

    Args:
        step: Optimizer steps taken.
        epoch: The epoch of the next step.
        step_in_epoch: Steps of that epoch already taken.
        best: Best value of the score that chooses, None before the first evaluation.
        num_worse: Evaluations since the best one.
        num_falls: How often scheduler `plateau` has lowered the learning rate.
        num_flat: Evaluations without a better score since it did.
        scores: Of the best evaluation.
    """

    step: int = 0
    epoch: int = 0
    step_in_epoch: int = 0
    best: float | None = None
    best_step: int = 0
    num_worse: int = 0
    num_falls: int = 0
    num_flat: int = 0
    num_evals: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    is_stopped: bool = False

    def is_out_of_patience(self, patience: int) -> bool:
        """Return whether as many evaluations were no better as `patience` bears; 0 bears all."""
        return 0 < patience <= self.num_worse


class Trainer:
    """Trains one workload in one process."""

    def __init__(
        self, workload: Workload, config: TrainConfig, runtime: Runtime, folder: RunFolder
    ) -> None:
        self.workload, self.config = workload, config
        self.runtime, self.folder = runtime, folder
        self.state = TrainState()
        seed_everything(config.seed, runtime.rank)
        workload.model.to(runtime.device)
        self.clock = Clock(runtime.device)
        self.stages = Stages(workload.train, config)
        self.total_steps = self.stages.total_steps
        self._stage: Stage | None = None
        shown = config.replace(epochs=self.stages.num_epochs)
        self.reporter = Reporter(workload, shown, runtime=runtime, folder=folder, clock=self.clock)
        if (precision := runtime.precision).is_slow:
            self.reporter.notes.append(precision.describe())
        self.stepper = Stepper(workload, config, runtime=runtime, clock=self.clock)
        if config.activation_checkpointing:
            template = "activation checkpointing: {blocks:block|blocks}"
            note = Message(template, blocks=self.stepper.num_checkpointed)
            self.reporter.notes.append(note)
        val = workload.val
        self._val_loader = None
        if val is not None:
            self._val_loader = open_loader(val, config, runtime, shuffle=False)
        self._writer = CheckpointWriter(folder.checkpoints)

    def run(self) -> None:
        """Train to the end; the best and the last checkpoint are on the disk afterwards."""
        self.reporter.start(self.state, self.total_steps)
        try:
            with readable_errors(self.config):
                self.workload.model.train()
                self.clock.restart()
                while not self._is_over:
                    self._run_stage(self.stages.at(self.state.epoch))
            restore_norms(self.workload.model)
            self.reporter.measured["compile_seconds"] = self.stepper.compile_seconds
            self.clock.restart()
            self._writer.wait()
            self.clock.lap("checkpoint")
        finally:
            self.reporter.stop()
            self._writer.close()

    @property
    def _is_over(self) -> bool:
        return self.state.step >= self.total_steps or self.state.is_stopped

    def _run_stage(self, stage: Stage) -> None:
        """Train the epochs that a stage has left, with a loader of its own."""
        state = self.state
        self._enter(stage)
        loader = open_loader(stage.clips, self.config, self.runtime, shuffle=True)
        self.reporter.measured["padding_share"] = loader.padding_share()
        batches = loader.batches(state.epoch, stage.stop_epoch, start_step=state.step_in_epoch)
        with closing(batches):
            while state.epoch < stage.stop_epoch and not self._is_over:
                self._run_epoch(stage, loader, batches)

    def _enter(self, stage: Stage) -> None:
        """Let batch norm take its statistics from as many clips in a stage as in any other."""
        if stage.shapes and stage is not self._stage:
            num_clips = clips_of_pass(stage, self.config, self.runtime.size)
            group_norms(self.workload.model, num_clips, self.runtime)
        self._stage = stage

    def _settle_statistics(self) -> None:
        """Bring the running statistics of all processes and groups together."""
        self.runtime.average_buffers(self.workload.model)
        aggregate_norms(self.workload.model)

    def _run_epoch(self, stage: Stage, loader: Loader, batches: Iterator[Any]) -> None:
        state, config, steps = self.state, self.config, stage.epoch_steps
        watch = self.reporter.watch
        for step in range(state.step_in_epoch, steps):
            lr = None  # a user's own optimizer has its own
            if not self.workload.make_optimizer:
                lr = self.stages.learning_rate(state.step) * self._plateau_factor
            watch.is_in_step = True
            self.stepper.take(batches, loader.num_micro_batches(step), lr)
            state.step += 1
            state.step_in_epoch += 1
            self.reporter.advance(state.epoch)
            self._tell("on_step")
            watch.is_in_step = False
            is_last = self._is_over or state.step_in_epoch == steps
            if state.step % config.log_every == 0 or is_last:
                self.reporter.report_loss(state, *self.stepper.read_totals(), lr=self._lr)
            if is_last:
                break
            if config.save_every_steps and state.step % config.save_every_steps == 0:
                self.save("last")
        self._end_epoch(stage)

    def _end_epoch(self, stage: Stage) -> None:
        state, config, is_over = self.state, self.config, self._is_over
        if state.step_in_epoch == stage.epoch_steps:
            state.epoch, state.step_in_epoch = state.epoch + 1, 0
            if self.workload.make_optimizer:
                self.stepper.optimizer.end_epoch()
        names: list[str] = []
        if is_over or state.epoch % config.eval_every == 0:
            names = ["best"] if self._evaluate() else []
        elif state.epoch == 1:  # so that a training which lasts shows soon that it learns
            template = "epoch {epoch}: loss {loss:.4f} on training clips"
            self.reporter.say(Message(template, epoch=state.epoch, loss=self.reporter.loss))
        if not state.step_in_epoch:
            self._tell("on_epoch")
        is_due = state.epoch % config.save_every == 0 or state.epoch == stage.stop_epoch
        if names or is_over or state.is_stopped or is_due:
            self.save("last", *names)

    def _tell(self, name: str, **told: Any) -> None:
        """Call a user's function, if there is one; where one process's says True, all stop."""
        callback = self.workload.callbacks.get(name)
        if callback is None:
            return
        moment = Moment(
            step=self.state.step,
            epoch=self.state.epoch,
            model=self.workload.model,
            optimizer=self.stepper.optimizer,
            lr=self._lr,
            is_first=self.runtime.is_first,
            out=self.folder.path,
            _stepper=self.stepper,
            **told,
        )
        if any(self.runtime.gather(callback(moment) is True)) and not self.state.is_stopped:
            self.state.is_stopped = True
            template = "a callback ended the training after step {step}"
            self.reporter.say_last(Message(template, step=self.state.step))

    @property
    def _plateau_factor(self) -> float:
        return float(self.config.step_gamma**self.state.num_falls)

    def _follow_plateau(self, name: str, *, is_progress: bool) -> None:
        """Lower the learning rate of scheduler `plateau` where the score stands still."""
        state, most = self.state, self.config.optimisation.plateau_patience
        state.num_flat = 0 if is_progress else state.num_flat + 1
        if state.num_flat < most:
            return
        state.num_flat, state.num_falls = 0, state.num_falls + 1
        lr = self.config.lr * self._plateau_factor
        template = (
            "no better {name} in {num_evaluations:evaluation|evaluations}: the learning rate is "
            "{lr:g} now"
        )
        self.reporter.say(Message(template, name=name, num_evaluations=most, lr=lr))

    @property
    def _lr(self) -> float:
        return float(self.stepper.optimizer.param_groups[0]["lr"])

    def _evaluate(self) -> bool:
        """Score the validation split; return True where it is the best so far."""
        state, val = self.state, self.workload.val
        self._settle_statistics()
        if val is None:
            return True  # nothing to choose by: the latest is the best
        result = self.score(val)
        state.num_evals += 1
        self.reporter.report_scores(state, result.scores)
        main, is_higher = score_that_chooses(self.workload)
        value = result.scores[main]
        if self.workload.make_optimizer:
            self.stepper.optimizer.end_evaluation(value)
        is_better = beats(result.scores, state.scores, main, is_higher=is_higher)
        # Of equal scores the one with the lower loss is kept; patience waits for a better score.
        is_progress = is_better and value != state.best
        state.num_worse = 0 if is_progress else state.num_worse + 1
        if self.config.scheduler == "plateau" and not self.workload.make_optimizer:
            self._follow_plateau(main, is_progress=is_progress)
        if is_better:
            state.best, state.best_step, state.scores = value, state.step, result.scores
            self.reporter.note_best(state)
        if state.is_out_of_patience(self.config.patience) and not state.is_stopped:
            state.is_stopped = True
            template = (
                "stopped early after epoch {epoch} of {epochs}: no better {score} in "
                "{num_worse:evaluation|evaluations} ({--patience:{patience}}); the best was at "
                "step {best_step}"
            )
            known = {"epochs": self.stages.num_epochs, "patience": self.config.patience}
            self.reporter.say_last(Message(template, **vars(state), **known, score=main))
        self._tell("on_evaluate", scores=result.scores)
        return is_better

    def load_best(self) -> None:
        """Put the weights of the best checkpoint into the model; every process calls it."""
        self.runtime.gather(None)  # the first process has written it when all are here
        name = "best" if self.folder.checkpoints.has("best") else "last"
        load_into(self.workload.model, self.folder.checkpoints.load_weights(name), where=name)
        self.stepper.average = None

    def score(self, clips: Clips) -> Evaluation:
        """Return the evaluation of clips, with the average of the weights where there is one."""
        self.clock.restart()
        loader = self._val_loader  # opened once: it may have processes
        if loader is None or clips is not self.workload.val:
            loader = open_loader(clips, self.config, self.runtime, shuffle=False)
        average = self.stepper.average
        with average.in_place() if average else nullcontext():
            result = evaluate_split(self.workload, loader, self.runtime)
        self.clock.lap("evaluation")
        return result

    def save(self, *names: str) -> None:
        """Begin to write a checkpoint; every process calls it, the first one writes."""
        self.clock.restart()
        self._settle_statistics()
        random_states = self.runtime.gather(copy_state(read_random_states()))
        if self.runtime.is_first:
            state = {
                "step": self.state.step,
                "identity": dict(self.workload.identity),
                "train_state": asdict(self.state),
                **self.stepper.state_dict(),
                "norms": read_norm_state(self.workload.model),
                "random": random_states,
            }
            weights = copy_state(self.workload.model.state_dict())
            self._writer.submit(Checkpoint(weights, copy_state(state)), *names)
        self.clock.lap("checkpoint")

    def restore(self) -> None:
        """Continue from the last checkpoint: weights, optimizer, position, random states."""
        saved = self.folder.checkpoints.load("last")
        where = str(self.folder.checkpoints.find("last"))
        load_into(self.workload.model, saved, identity=self.workload.identity, where=where)
        try:
            self._restore_state(saved.state)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise TrainingError(
                "the checkpoint {where} is not what posemill wrote ({error!r}); put it back from "
                "a copy, or train again",
                where=where,
                error=error,
            ) from error
        if self.runtime.is_first:
            self.folder.cut_metrics(self.state.step)
        template = "continued after step {step} of {total_steps}"
        continued = Message(template, step=self.state.step, total_steps=self.total_steps)
        self.reporter.last_words.append(continued)
        self.reporter.notes.append(continued)

    def _restore_state(self, saved: Mapping[str, Any]) -> None:
        self.stepper.load_state_dict(saved)
        self.state = TrainState(**saved["train_state"])
        # What stopped it may be another setting now, or a callback, which is asked again.
        self.state.is_stopped = self.state.is_out_of_patience(self.config.patience)
        self.stepper.steps_taken = self.state.step
        stage = self.stages.at(self.state.epoch)
        self._enter(stage)
        if self.state.step_in_epoch or self.state.epoch > stage.start_epoch:
            set_norm_state(self.workload.model, saved["norms"])
        size, num_before = self.runtime.size, len(saved["random"])
        if num_before == size:
            set_random_states(saved["random"][self.runtime.rank])
            return
        template = (
            "continued with {num_processes} processes instead of {num_before}: dropout is drawn "
            "anew"
        )
        self.reporter.notes.append(Message(template, num_processes=size, num_before=num_before))
