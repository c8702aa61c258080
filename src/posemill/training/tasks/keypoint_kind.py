"""Keypoints as data of a training."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posemill.errors import ConfigError, TrainingError
from posemill.messages import Message
from posemill.npz.clips import read_npz_header
from posemill.npz.mapped import open_npz
from posemill.records import BoolArray, FloatArray, PoseClip
from posemill.training.config.train_config import TrainConfig, open_augmentation
from posemill.training.data.batches import Batch
from posemill.training.data.clips import Picture
from posemill.training.data.keypoint_clips import (
    KeypointClips,
    Sample,
    collate,
    load_keypoints,
    read_labelled,
)
from posemill.training.data.labels import LabelledClip
from posemill.training.data.normalize import Augment, Preparation
from posemill.training.data.readers import find_files, read_all
from posemill.training.tasks.kinds import Kind, frames_per_step


class KeypointKind(Kind):
    """What `posemill prepare` wrote, npz and csv files."""

    name = "keypoints"

    def read_rows(self, config: TrainConfig) -> list[LabelledClip]:
        """Return every clip with its label, split and group."""
        return read_labelled(config.data)[1]

    def load(
        self,
        config: TrainConfig,
        *,
        class_names: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
    ) -> Mapping[str, KeypointClips]:
        """Return the clips by split; see `load_keypoints`."""
        stride = frames_per_step(config)
        return load_keypoints(
            config.data, class_names=class_names, splits=splits, time_stride=stride
        )

    def open(
        self, config: TrainConfig, clips: KeypointClips, *, is_training: bool
    ) -> KeypointClips:
        """Return clips that give batches; those of the training are augmented."""
        if not is_training:
            return clips
        amounts = config.replace(**open_augmentation(config)).augmentation
        augment = Augment(amounts, clips.skeleton_name) if any(amounts.to_dict().values()) else None
        return dataclasses.replace(clips, augment=augment, seed=config.seed)

    def recipe(self, config: TrainConfig) -> Mapping[str, Any]:
        """Return what `posemill prepare` noted in its file; empty for other data."""
        path = next(iter(find_files(config.data.path).values()))
        if path.suffix.lower() != ".npz":
            return {}
        return dict(read_npz_header(open_npz(path)).get("recipe") or {})

    def decided(self, config: TrainConfig, train: KeypointClips) -> dict[str, tuple[Any, str]]:
        """Return the augmentation and the coordinates that were left open."""
        template = "usual for task {task}, normalize {normalize}"
        why = Message(template, task=config.task, normalize=config.normalize)
        decided = {name: (amount, why) for name, amount in open_augmentation(config).items()}
        if config.num_dims is None and train.skeleton_name:
            why = Message("the depth of {skeleton} is a guess", skeleton=train.skeleton_name)
            decided["num_dims"] = train.shape["num_dims"], why
        return dict(decided)

    def new_clips(
        self,
        config: TrainConfig,
        identity: Mapping[str, Any],
        clips: Iterable[PoseClip] | Path | str,
    ) -> Iterator[tuple[Picture, Batch]]:
        """Yield each clip, prepared as the model's own were."""
        prepare = Preparation(
            normalize=config.normalize,
            skeleton_name=identity["skeleton_name"],
            num_dims=0 if config.num_dims == 0 else identity["num_dims"],
            num_frames=config.num_frames,
            max_frames=config.max_frames,
        )
        if isinstance(clips, (str, Path)):
            files = read_all(config.data.replace(data=str(clips))).values()
            found = (
                (name, *raw.clip(row)) for raw in files for row, name in enumerate(raw.clip_ids)
            )
        else:
            skeleton_name = needed_skeleton(identity, config.out)
            found = (_points_of(clip, skeleton_name) for clip in clips)
        for clip_id, found_points, found_mask in found:
            shape = found_points[..., : prepare.num_dims or None].shape[1:]
            if shape != (identity["num_points"], identity["num_dims"]):
                raise TrainingError(
                    "clip {clip_id!r} has frames of {shape}, the model of {run} expects "
                    "({num_points}, {num_dims})",
                    clip_id=clip_id,
                    shape=shape,
                    run=config.out,
                    num_points=identity["num_points"],
                    num_dims=identity["num_dims"],
                )
            points, mask = prepare(found_points, found_mask)
            picture = Picture(clip_id, points=(found_points, found_mask))
            yield picture, collate([Sample(points, mask, 0)])


def needed_skeleton(facts: Mapping[str, Any], run: Path | str) -> str:
    """Return the skeleton that new clips must have for a model; one we do not know is an error."""
    if not facts.get("skeleton_name"):
        template = "{run} was trained on a skeleton posemill does not know: give it data as an npz"
        raise ConfigError(template, run=run)
    return str(facts["skeleton_name"])


def _points_of(clip: PoseClip, skeleton_name: str) -> tuple[str, FloatArray, BoolArray]:
    """Return id, points and mask of a clip."""
    if not len(clip):
        raise TrainingError("clip {clip_id!r} has no frames", clip_id=clip.clip_id)
    mapped = clip.as_skeleton(skeleton_name)
    points = np.where(mapped.mask[..., None], mapped.points, np.float32(0)).astype(np.float32)
    return clip.clip_id, points, mapped.mask
