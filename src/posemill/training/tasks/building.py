"""From a configuration to a workload: the data, the model, the loss and the scorers of a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import nn

from posemill.archives import open_npz
from posemill.errors import ConfigError, TrainingError
from posemill.geometry import find_points
from posemill.npz_clips import read_npz_header
from posemill.records import BoolArray, FloatArray, sort_splits, usual_split
from posemill.training.config.train_config import FIELDS, TrainConfig, open_augmentation
from posemill.training.data.augment import Augment
from posemill.training.data.batches import Batch, BatchMaker
from posemill.training.data.datasets import KeypointSet, load_sets
from posemill.training.data.options import DEV_SHARE, DataOptions
from posemill.training.data.readers import RawClips, find_files, read_clips
from posemill.training.models import build_model, time_stride_of
from posemill.training.models.keypoints.base import KeypointModel
from posemill.training.tasks.losses import build_loss
from posemill.training.tasks.scorers import ClassScorer, CtcScorer
from posemill.training.tasks.workload import Scorer, Split, Workload


def build_workload(config: TrainConfig) -> Workload:
    """Return what `config` asks to train; wrong data is an error before anything is computed."""
    if not config.data.path:
        raise ConfigError("data: expected the folder `posemill prepare` wrote, or an npz; got none")
    sets = load_task_sets(config)
    train = _pick(sets, "train_split", config)
    identity = model_identity(config, train)
    torch.manual_seed(config.seed)
    model = build_from(identity)
    augment = Augment.of(config.replace(**open_augmentation(config)), train.skeleton_name)
    val = _find_scored(sets, "val_split", config)
    test = _find_scored(sets, "test_split", config)
    return Workload(
        model=model,
        train=Split(BatchMaker(train, augment, config.seed), train.lengths),
        val=val,
        forward=forward_keypoints,
        loss=build_loss(config.task, label_smoothing=config.label_smoothing, **config.loss_options),
        identity=identity,
        tests={config.test_split: test} if test else {},
        class_names=train.class_names,
        skeleton_name=train.skeleton_name,
        recipe=_recipe_of(config.data.path),
        notes=tuple(_notes_of(sets, val, config)),
        decided=_decided_by(sets, config),
    )


def _decided_by(sets: dict[str, KeypointSet], config: TrainConfig) -> dict[str, tuple[Any, str]]:
    """Return what the user left open and the data decided, with the reason."""
    found: dict[str, tuple[Any, str]] = {}
    if config.dev_fraction is None and "dev" in sets and sets["dev"].is_share:
        found["dev_fraction"] = (DEV_SHARE, "no dev split in the data")
    why = f"usual for task {config.task}, normalize {config.normalize}"
    found |= {name: (amount, why) for name, amount in open_augmentation(config).items()}
    train = next(iter(sets.values()))
    if config.num_dims is None and train.skeleton_name:
        found["num_dims"] = (train.num_dims, f"the depth of {train.skeleton_name} is a guess")
    return found


def _notes_of(
    sets: dict[str, KeypointSet], val: Split | None, config: TrainConfig
) -> Iterator[str]:
    """Yield what a user should know of the splits before the training begins."""
    dev = sets.get("dev")
    if dev is not None and dev.is_share and config.dev_fraction is None:
        total = len(dev) + len(sets["train"])
        yield (
            f"no dev split in {config.data.path}: {len(dev)} of {total} training clips are set "
            f"aside for it (share {DEV_SHARE}, split_seed {config.split_seed}); --dev-fraction "
            "sets the share, 0 keeps them all"
            + "; frames of one clip may be on both sides"
            * (config.unit == "frame")
        )
    if val is None:
        yield "no dev split: nothing is scored during the training, and the last weights count"
    for name in sort_splits(sets):
        if sentence := describe_too_short(sets[name], name):
            yield sentence


def describe_too_short(clips: KeypointSet, split: str) -> str:
    """Return what is to be said of clips too short for their glosses; empty where none is."""
    if not clips.num_too_short:
        return ""
    if split == "train":
        return f"train: {clips.num_too_short} clips too short for their glosses were left out"
    return (
        f"{split}: {clips.num_too_short} of {len(clips)} clips are too short for their glosses, "
        "which no alignment can spell: the loss is that of the others, and the word error rate "
        "counts them"
    )


def _recipe_of(data: str) -> dict[str, Any]:
    """What `posemill prepare` noted in its file about how it was made; empty for other data."""
    path = next(iter(find_files(data).values()))
    if path.suffix != ".npz":
        return {}
    return dict(read_npz_header(open_npz(path)).get("recipe") or {})


def _find_scored(sets: dict[str, KeypointSet], field: str, config: TrainConfig) -> Split | None:
    """Return a split to be scored; None where it is empty or the usual one and not there."""
    name = getattr(config.data, field)
    if not name or (name == FIELDS[field].default and name not in sets):
        return None
    return _scored(config, _pick(sets, field, config))


def _scored(config: TrainConfig, clips: KeypointSet) -> Split:
    show = partial(raw_clip, config, clips)
    return Split(BatchMaker(clips), clips.lengths, make_scorer(config, clips), show)


def raw_clip(
    config: TrainConfig, clips: KeypointSet, index: int
) -> tuple[str, FloatArray, BoolArray]:
    """Return (id, points, mask) of a clip as its file has it, before normalisation."""
    clip_id = clips.clip_ids[index]
    for raw in _raw_files(config):
        if clip_id in raw.clip_ids:
            row = raw.clip_ids.index(clip_id)
            rows = slice(raw.offsets[row], raw.offsets[row + 1])
            points = np.asarray(raw.points[rows], np.float32)
            return (
                clip_id,
                points,
                find_points(points, None if raw.mask is None else raw.mask[rows]),
            )
    sample = clips[index]
    return clip_id, sample.points, sample.mask


@lru_cache(maxsize=1)
def _read_raw(data: str, unit: str, csv_shape: tuple[int, int]) -> tuple[RawClips, ...]:
    dims, frames = csv_shape
    return tuple(
        read_clips(path, unit=unit, csv_dims=dims, csv_frames=frames)
        for path in find_files(data).values()
    )


def _raw_files(config: TrainConfig) -> tuple[RawClips, ...]:
    return _read_raw(config.data.path, config.unit, (config.csv_dims, config.csv_frames))


def load_task_sets(
    config: TrainConfig,
    *,
    class_names: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
) -> dict[str, KeypointSet]:
    """Return the sets of a configuration by split; see `load_sets`."""
    options, model = DataOptions.of(config), config.model
    if config.dev_fraction is None and usual_split(config.val_split) != "dev":
        options = dataclasses.replace(options, dev_fraction=0.0)  # another split picks the best
    stride = time_stride_of(model.name, **model.options) if config.task == "ctc" else 1
    return load_sets(options, class_names=class_names, splits=splits, time_stride=stride)


def make_scorer(config: TrainConfig, split: KeypointSet, *, head: str = "") -> Scorer:
    """Return the scorer of a split; glosses are decoded greedily until a head is chosen."""
    if config.task == "ctc":
        decoder = config.ctc_decoder if head else "greedy"
        return CtcScorer(split.targets, head=head, decoder=decoder, beam_width=config.beam_width)
    return ClassScorer([int(target) for target in split.targets])


def model_identity(config: TrainConfig, train: KeypointSet) -> dict[str, Any]:
    """Return all that `build_from` needs to build the same model again."""
    return {
        "model": config.model.name,
        "options": dict(config.model.options),
        "task": config.task,
        "num_points": train.num_points,
        "num_dims": train.num_dims,
        "num_classes": len(train.class_names),
        "skeleton_name": train.skeleton_name,
    }


def build_from(identity: Any) -> KeypointModel:
    """Return a new model as `model_identity` describes it."""
    return build_model(
        identity["model"],
        num_points=identity["num_points"],
        num_dims=identity["num_dims"],
        num_classes=identity["num_classes"],
        task=identity["task"],
        skeleton_name=identity["skeleton_name"],
        **identity["options"],
    )


def forward_keypoints(model: nn.Module, batch: Batch) -> Any:
    """Call one of our models on a batch."""
    return model(batch.points, batch.mask, batch.lengths)


def _pick(sets: dict[str, KeypointSet], field: str, config: TrainConfig) -> KeypointSet:
    name = getattr(config.data, field)
    if usual_split(name) not in sets:
        raise TrainingError(
            f"{field} {name!r} is not there: {config.data.path} has clips of "
            f"{', '.join(sort_splits(sets))}; "
            f"name one of these with --{field.replace('_', '-')}"
        )
    return sets[usual_split(name)]
