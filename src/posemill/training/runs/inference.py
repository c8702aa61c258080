"""A trained run put to use: scores of a split, predictions for new clips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posemill.errors import ConfigError, TrainingError
from posemill.records import BoolArray, FloatArray, PoseClip, usual_split
from posemill.terminal import warn_caller
from posemill.training.config.resolve import read_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import BatchMaker, collate
from posemill.training.data.datasets import Sample
from posemill.training.data.loaders import EpochLoader
from posemill.training.data.normalize import preparation
from posemill.training.data.readers import find_files, read_clips
from posemill.training.launch.start import load_model
from posemill.training.loop.distributed import World
from posemill.training.loop.evaluation import evaluate_split
from posemill.training.loop.precision import choose_device, choose_precision
from posemill.training.runs.run_folder import RunFolder
from posemill.training.tasks.building import (
    describe_too_short,
    forward_keypoints,
    load_task_sets,
    make_scorer,
)
from posemill.training.tasks.ctc_decoding import decode_beam, decode_greedy
from posemill.training.tasks.losses import build_loss
from posemill.training.tasks.workload import Split, Workload

_TOP = 5


@dataclass(frozen=True)
class Prediction:
    """What a model says about one clip.

    Args:
        clip_id: The clip.
        label: The class, or the glosses with spaces between.
        probability: Of the class; None for glosses.
        top: The likeliest classes with their probabilities, the best first; empty for glosses.
    """

    clip_id: str
    label: str
    probability: float | None = None
    top: list[tuple[str, float]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return asdict(self)


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


def data_of(run: Path | str) -> tuple[str, dict[str, Any]]:
    """Return (skeleton, recipe) that new clips must have for a run's model."""
    facts = RunFolder(run).read_facts()
    if not facts.get("skeleton_name"):
        raise ConfigError(
            f"{run} was trained on a skeleton posemill does not know: give it data as an npz"
        )
    return facts["skeleton_name"], facts.get("recipe", {})


def evaluate(
    run: Path | str,
    *,
    split: str = "test",
    checkpoint: str = "best",
    device: str = "auto",
    data: str = "",
    labels: str = "",
) -> dict[str, Any]:
    """Return the scores of a run on a split of its data, or of other data of the same kind.

    Args:
        run: Folder that `train` wrote.
        split: Which clips.
        checkpoint: `best` or `last`.
        device: Where to compute.
        data: Other data than the run's own.
        labels: Their labels.
    """
    config, facts = config_of(run), RunFolder(run).read_facts()
    model = load_model(run, checkpoint=checkpoint)
    if data and data != config.data.path:  # nothing of other clips was ever set aside
        config = config.replace(data=data, dev_fraction=0.0)
    config = config.replace(labels=labels or config.labels)
    config = config.replace(workers=0, parallel="single", processes=1)
    split = usual_split(split)
    clips = load_task_sets(config, class_names=facts["class_names"], splits=[split])[split]
    if sentence := describe_too_short(clips, split):
        warn_caller(sentence)
    head = RunFolder(run).read_summary().get("head") or "sequence" if config.task == "ctc" else ""
    chosen = choose_device(device)
    # As it was trained, so that the numbers are those of the training, where this device can.
    is_half = facts["precision"] == "fp16" and chosen.type != "cuda"
    precision = choose_precision("fp32" if is_half else facts["precision"], chosen)
    if precision.is_slow:
        precision = choose_precision("fp32", chosen)
    scored = Split(BatchMaker(clips), clips.lengths, make_scorer(config, clips, head=head))
    workload = Workload(
        model=model.to(chosen),
        train=scored,
        val=None,
        forward=forward_keypoints,
        loss=build_loss(config.task, label_smoothing=config.label_smoothing, **config.loss_options),
        identity=facts["identity"],
    )
    result = evaluate_split(
        workload,
        scored,
        EpochLoader(scored, config, World(), shuffle=False),
        device=chosen,
        precision=precision,
        world=World(),
    )
    scores = {name: value for name, value in result.scores.items() if name != "loss"}
    return {
        **scores,
        **{name: value for name, value in result.scores.items() if name == "loss"},
        "split": split,
        "num_clips": len(clips),
        **({"num_too_short": clips.num_too_short} if config.task == "ctc" else {}),
        "checkpoint": checkpoint,
        "precision": precision.name,
        "run": str(run),
        **({"head": head} if head else {}),
    }


def predict(
    run: Path | str, clips: Iterable[PoseClip] | Path | str, *, device: str = "auto"
) -> Iterator[Prediction]:
    """Yield what a run's best model says about each clip.

    Args:
        run: Folder that `train` wrote.
        clips: `PoseClip`s of the run's skeleton or one that maps to it, shaped as the run's data
            was (`posemill predict` does that), or what `prepare` wrote.
        device: Where to compute.
    """
    config, facts = config_of(run), RunFolder(run).read_facts()
    chosen = choose_device(device)
    model = load_model(run).to(chosen)
    identity, names = facts["identity"], facts["class_names"]
    prepare = preparation(
        normalize=config.normalize,
        skeleton_name=identity["skeleton_name"],
        num_dims=0 if config.num_dims == 0 else identity["num_dims"],
        num_frames=config.num_frames,
        max_frames=config.max_frames,
    ).function
    head = RunFolder(run).read_summary().get("head") or "sequence"
    if isinstance(clips, (str, Path)):
        found = _clips_of_files(str(clips), config)
    else:
        skeleton_name, _ = data_of(run)
        found = (_points_of(clip, skeleton_name) for clip in clips)
    for clip_id, points, mask in found:
        points, mask = prepare(points, mask)
        if points.shape[1:] != (identity["num_points"], identity["num_dims"]):
            raise TrainingError(
                f"clip {clip_id!r} has frames of {points.shape[1:]}, the model of {run} expects "
                f"({identity['num_points']}, {identity['num_dims']})"
            )
        batch = collate([Sample(points, mask, 0)]).to(chosen)
        with torch.no_grad():
            output = forward_keypoints(model, batch)
        if config.task == "ctc":
            yield _read_glosses(clip_id, output, names, (head, config))
        else:
            yield _read_class(clip_id, output, names)


def _read_class(clip_id: str, output: Any, names: list[str]) -> Prediction:
    chances = output.float().softmax(-1)[0].cpu()
    best = chances.topk(min(_TOP, len(names)))
    top = [
        (names[index], round(value, 6))
        for value, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
    return Prediction(clip_id, top[0][0], top[0][1], top)


def _read_glosses(
    clip_id: str, output: Any, names: list[str], how: tuple[str, TrainConfig]
) -> Prediction:
    head, config = how
    logits = output.conv_logits if head == "conv" else output.logits
    steps = int(output.lengths[0])
    log_probs = logits[0, :steps].float().log_softmax(-1).cpu().numpy()
    if config.ctc_decoder == "beam":
        found = decode_beam(log_probs, config.beam_width)
    else:
        found = decode_greedy(log_probs)
    return Prediction(clip_id, " ".join(names[index] for index in found))


def _points_of(clip: PoseClip, skeleton_name: str) -> tuple[str, FloatArray, BoolArray]:
    if not len(clip):
        raise TrainingError(f"clip {clip.clip_id!r} has no frames")
    mapped = clip.as_skeleton(skeleton_name)
    mask = mapped.mask
    points = np.where(mask[..., None], mapped.points, np.float32(0)).astype(np.float32)
    return clip.clip_id, points, mask


def _clips_of_files(data: str, config: TrainConfig) -> Iterator[tuple[str, FloatArray, BoolArray]]:
    for path in find_files(data).values():
        raw = read_clips(
            path, unit=config.unit, csv_dims=config.csv_dims, csv_frames=config.csv_frames
        )
        for clip_id, start, stop in zip(raw.clip_ids, raw.offsets, raw.offsets[1:], strict=False):
            points = np.asarray(raw.points[start:stop], np.float32)
            mask = (points != 0).any(-1) if raw.mask is None else np.asarray(raw.mask[start:stop])
            yield clip_id, np.where(mask[..., None], points, np.float32(0)), mask
