"""A trained run put to use: its model, scores of a split, predictions for new clips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from posemill.errors import ConfigError, RunError
from posemill.messages import Message
from posemill.records import usual_split
from posemill.terminal import warn_caller
from posemill.training.config.kinds import OWN
from posemill.training.config.resolve import read_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import open_loader
from posemill.training.loop.passes import evaluate_split
from posemill.training.models.base import Model
from posemill.training.precision import (
    Precision,
    bf16_made_ready,
    choose_device,
    choose_precision,
    cpu_has_fast_bf16,
    precision_of_run,
)
from posemill.training.record.checkpoints import load_into
from posemill.training.record.run_folder import RunFolder
from posemill.training.runs.figure_samples import PredictionPictures
from posemill.training.runtime import Runtime
from posemill.training.tasks.keypoint_kind import needed_skeleton
from posemill.training.tasks.kinds import kind_of_identity
from posemill.training.tasks.task import Prediction, make_task
from posemill.training.tasks.workload import Workload, check_shares, describe_too_short


def load_model(
    run: Path | str, *, model: nn.Module | None = None, checkpoint: str = "best"
) -> nn.Module:
    """Return the trained model of a run, on the CPU, ready to predict.

    Args:
        run: Folder that `train` or `fit` wrote.
        model: For a run of `fit`: a model of the same class and sizes, which gets the weights.
        checkpoint: `best` or `last`.
    """
    folder = RunFolder(run)
    identity = folder.read_facts()["identity"]
    is_own = identity.get("kind") == OWN
    if is_own and model is None:
        raise ConfigError(
            "{run} was trained by fit() with a model of your own ({model}): build it and give it "
            "in Python, as model=… of load_model, evaluate or predict",
            run=run,
            model=identity.get("class"),
        )
    if not is_own and model is not None:
        template = "{run} was trained by train() and says itself what its model is: leave model out"
        raise ConfigError(template, run=run)
    saved = folder.checkpoints.load_weights(checkpoint)
    if model is not None:
        load_into(model, saved, where=str(folder.path))
        return model.eval()
    try:
        built = kind_of_identity(identity).build(identity)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise RunError(
            "{path} describes a model that cannot be built ({error!r}); put it back from a copy, "
            "or train again",
            path=folder.path / "run.json",
            error=error,
        ) from error
    load_into(built, saved, identity=identity, where=str(folder.path))
    return built.eval()


def config_of(run: Path | str) -> TrainConfig:
    """Return the settings a run was trained with."""
    folder = RunFolder(run)
    folder.read_facts()
    config = TrainConfig(**read_config(folder.config_path))
    if config.cache_folder and not Path(config.cache_folder).resolve().is_relative_to(
        folder.path.resolve()
    ):
        # A run may be a stranger's: what it names outside of itself is not written to.
        config = config.replace(cache_folder="")
    return config


def head_of(run: Path | str) -> str:
    """Return the head of ctc that was chosen on dev; the usual one before a training has ended."""
    return RunFolder(run).read_summary().get("head") or "sequence"


def input_of(run: Path | str) -> str:
    """Return what a run's model takes: `keypoints` or `video`."""
    return kind_of_identity(RunFolder(run).read_facts()["identity"]).name


def data_of(run: Path | str) -> tuple[str, dict[str, Any]]:
    """Return (skeleton, recipe) that new clips must have for a run's model."""
    facts = RunFolder(run).read_facts()
    return needed_skeleton(facts, run), facts.get("recipe", {})


def evaluate(
    run: Path | str,
    *,
    split: str = "",
    checkpoint: str = "best",
    device: str = "auto",
    data: str = "",
    labels: str = "",
) -> dict[str, Any]:
    """Return the scores of a run on a split of its data, or of other data of the same kind."""
    config, facts = config_of(run), RunFolder(run).read_facts()
    model = _load(run, config, checkpoint=checkpoint)
    is_other = bool(data) and data != config.data.path
    if not split and not is_other:  # that of the scores at its end; of one that runs, dev
        scores = RunFolder(run).read_summary().get("scores", {})
        split = str(next(reversed(scores), config.val_split))
    split = usual_split(split or "test")
    if is_other:  # nothing of other clips was ever set aside
        config = config.replace(
            data=data, dev_fraction=0.0, folds=0, fold=0, folds_by="", leave_out=""
        )
    labels = labels or config.labels
    config = config.replace(labels=labels, workers=0, parallel="single", processes=1)
    kind = kind_of_identity(facts["identity"])
    clips = kind.load(config, class_names=facts["class_names"], splits=[split])[split]
    if not is_other:
        check_shares(facts, {split: clips.digest}, run)
    is_training = split == config.data.training_split
    if sentence := describe_too_short(clips, split, is_training=is_training):
        warn_caller(sentence)
    head = head_of(run) if config.task == "ctc" else ""
    chosen = choose_device(device)
    # As it was trained, so that the numbers are those of the training, where this device can.
    with bf16_made_ready(facts["precision"], chosen):
        precision = _precision_here(facts["precision"], chosen)
        of_run = config.replace(precision=precision.name)
        scored = kind.open(of_run, clips, is_training=False)
        workload = Workload(
            model=model.to(chosen),
            train=scored,
            val=None,
            task=make_task(config, head=head),
            identity=facts["identity"],
        )
        runtime = Runtime(device=chosen, precision=precision)
        loader = open_loader(scored, config, runtime, shuffle=False)
        result = evaluate_split(workload, loader, runtime)
    num_rows = len(result.rows)
    found: dict[str, Any] = {name: result.scores[name] for name in result.scores if name != "loss"}
    found |= {name: result.scores[name] for name in result.scores if name == "loss"}
    found |= {"split": split, "num_clips": num_rows}
    if num_rows < len(clips):
        found["num_unreadable"] = len(clips) - num_rows
    if config.task == "ctc":
        found["num_too_short"] = clips.num_too_short
    found |= {"checkpoint": checkpoint, "precision": precision.name, "run": str(run)}
    return found | ({"head": head} if head else {})


def _precision_here(trained_in: str, device: torch.device) -> Precision:
    """Return the format that a run was trained in, or fp32 where this device has it not."""
    is_slow = trained_in == "fp16" or (trained_in == "bf16" and not cpu_has_fast_bf16())
    if device.type == "cpu" and is_slow:
        return choose_precision("fp32", device)
    precision = precision_of_run(trained_in, device, Message("as it was trained"))
    if precision.name != trained_in:
        warn_caller(Message("scored in fp32: {reason}", reason=precision.reason))
    return precision


def predict_clips(
    run: Path | str,
    clips: Iterable[Any] | Path | str,
    *,
    device: str = "auto",
    pictures: PredictionPictures | None = None,
) -> Iterator[Prediction]:
    """Yield what the best model of a run of `train` says about each clip.

    Clips are `PoseClip`s of the run's skeleton or one that maps to it, shaped as the run's data
    was (`posemill predict` does that), or what `prepare` wrote; for a model of video paths of
    videos, of folders and lists of them, or of what `frames` wrote; for one of both pairs of a
    `PoseClip` and the path of its video.
    """
    config, facts = config_of(run), RunFolder(run).read_facts()
    chosen = choose_device(device)
    model = _load(run, config).to(chosen)
    identity, names = facts["identity"], facts["class_names"]
    kind = kind_of_identity(identity)
    task = make_task(config, head=head_of(run))
    for picture, batch in kind.new_clips(config.replace(out=str(run)), identity, clips):
        with torch.no_grad():
            output = task.call(model, batch.to(chosen))
        said = task.answer(output, names, picture.clip_id)
        if pictures is not None:
            pictures.draw(picture, said.title(), facts.get("skeleton_name"))
        yield said


def _load(run: Path | str, config: TrainConfig, *, checkpoint: str = "best") -> nn.Module:
    """Return the model of a run as it is evaluated."""
    model = load_model(run, checkpoint=checkpoint)
    if isinstance(model, Model):
        model.eval_scales = tuple(config.output.eval_scales)
    return model
