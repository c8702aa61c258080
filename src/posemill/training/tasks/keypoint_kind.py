"""Keypoints as data of a training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from posemill.archives import open_npz
from posemill.errors import ConfigError, TrainingError
from posemill.npz_clips import read_npz_header
from posemill.records import BoolArray, FloatArray, IntArray, PoseClip
from posemill.training.config.train_config import TrainConfig, open_augmentation
from posemill.training.data.augment import Augment
from posemill.training.data.batches import Batch, BatchMaker, collate
from posemill.training.data.datasets import KeypointSet, Sample, load_sets, read_labelled
from posemill.training.data.labels import LabelledClip
from posemill.training.data.normalize import preparation
from posemill.training.data.readers import RawClips, find_files, read_clips
from posemill.training.models import build_model, time_stride_of
from posemill.training.multigrid.keypoints import reshape_keypoints
from posemill.training.tasks.kinds import NewClip
from posemill.training.tasks.workload import Forward, Split

_Points = tuple[str, FloatArray, BoolArray]  # id, points, mask of a clip


class KeypointKind:
    """What `posemill prepare` wrote, npz and csv files; see `Kind`."""

    name = "keypoints"

    def read_rows(self, config: TrainConfig) -> list[LabelledClip]:
        """Return every clip with its label, split and group."""
        return read_labelled(config.data)[1]

    def load_sets(
        self,
        config: TrainConfig,
        *,
        class_names: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
    ) -> Mapping[str, KeypointSet]:
        """Return the sets by split; see `load_sets`."""
        stride = _time_stride(config)
        return load_sets(config.data, class_names=class_names, splits=splits, time_stride=stride)

    def make_split(self, config: TrainConfig, clips: KeypointSet, *, is_training: bool) -> Split:
        """Return the batches of a set; training clips are augmented."""
        show = partial(raw_clip, config, clips)
        if not is_training:
            return Split(BatchMaker(clips), clips.lengths, show=show)
        augment = Augment.of(config.replace(**open_augmentation(config)), clips.skeleton_name)
        made = Split(maker := BatchMaker(clips, augment, config.seed), clips.lengths)
        made.reshape = reshape_keypoints(made, maker, time_stride=_time_stride(config))
        return made

    def identity(self, config: TrainConfig, train: KeypointSet) -> dict[str, Any]:
        """Return all that `build` needs."""
        return {
            "model": config.model.name,
            "options": dict(config.model.options),
            "task": config.task,
            "num_points": train.num_points,
            "num_dims": train.num_dims,
            "num_classes": len(train.class_names),
            "skeleton_name": train.skeleton_name,
        }

    def build(self, identity: Mapping[str, Any]) -> nn.Module:
        """Return a new model."""
        return build_model(
            identity["model"],
            num_points=identity["num_points"],
            num_dims=identity["num_dims"],
            num_classes=identity["num_classes"],
            task=identity["task"],
            skeleton_name=identity["skeleton_name"],
            **identity["options"],
        )

    def make_forward(self, config: TrainConfig) -> Forward:
        """Return what calls a model on a batch."""
        return forward_keypoints

    def recipe(self, config: TrainConfig) -> Mapping[str, Any]:
        """Return what `posemill prepare` noted in its file; empty for other data."""
        path = next(iter(find_files(config.data.path).values()))
        if path.suffix != ".npz":
            return {}
        return dict(read_npz_header(open_npz(path)).get("recipe") or {})

    def decided(self, config: TrainConfig, train: KeypointSet) -> dict[str, tuple[Any, str]]:
        """Return the augmentation and the coordinates that were left open."""
        why = f"usual for task {config.task}, normalize {config.normalize}"
        found = {name: (amount, why) for name, amount in open_augmentation(config).items()}
        if config.num_dims is None and train.skeleton_name:
            why = f"the depth of {train.skeleton_name} is a guess"
            return {**found, "num_dims": (train.num_dims, why)}
        return dict(found)

    def notes(self, config: TrainConfig, sets: Mapping[str, KeypointSet]) -> Iterator[str]:
        """Yield nothing: what there is to say of keypoints is said of all clips."""
        yield from ()

    def features(self, config: TrainConfig, clips: KeypointSet, indices: IntArray) -> FloatArray:
        """Return mean, spread and first place of each point over eight frames of a clip."""
        found = []
        for index in indices:
            points = clips[int(index)].points
            some = points[np.linspace(0, len(points) - 1, 8).astype(np.int64)]
            found.append(np.stack([some.mean(0), some.std(0), some[0]]).ravel())
        return np.asarray(found, np.float32)

    def new_clips(
        self,
        config: TrainConfig,
        identity: Mapping[str, Any],
        clips: Iterable[PoseClip] | Path | str,
    ) -> Iterator[NewClip]:
        """Yield each clip, prepared as the model's own were."""
        prepare = preparation(
            normalize=config.normalize,
            skeleton_name=identity["skeleton_name"],
            num_dims=0 if config.num_dims == 0 else identity["num_dims"],
            num_frames=config.num_frames,
            max_frames=config.max_frames,
        ).function
        if isinstance(clips, (str, Path)):
            found = _clips_of_files(str(clips), config)
        else:
            skeleton_name = needed_skeleton(identity, config.out)
            found = (_points_of(clip, skeleton_name) for clip in clips)
        for clip_id, found_points, found_mask in found:
            points, mask = prepare(found_points, found_mask)
            if points.shape[1:] != (identity["num_points"], identity["num_dims"]):
                raise TrainingError(
                    f"clip {clip_id!r} has frames of {points.shape[1:]}, the model of {config.out} "
                    f"expects ({identity['num_points']}, {identity['num_dims']})"
                )
            batch = collate([Sample(points, mask, 0)])
            yield NewClip(clip_id, batch, points=(found_points, found_mask))


def _time_stride(config: TrainConfig) -> int:
    """Frames per output step of the model, where glosses have to fit into them."""
    model = config.model
    return time_stride_of(model.name, **model.options) if config.task == "ctc" else 1


def needed_skeleton(facts: Mapping[str, Any], run: Path | str) -> str:
    """Return the skeleton that new clips must have for a model; one we do not know is an error."""
    if not facts.get("skeleton_name"):
        raise ConfigError(
            f"{run} was trained on a skeleton posemill does not know: give it data as an npz"
        )
    return str(facts["skeleton_name"])


def forward_keypoints(model: nn.Module, batch: Batch) -> Any:
    """Call one of our models on a batch."""
    return model(*batch.inputs)


def raw_clip(config: TrainConfig, clips: KeypointSet, index: int) -> _Points:
    """Return (id, points, mask) of a clip as its file has it, before normalisation."""
    row = int(clips.rows[index])  # clips of all files, one after the other
    for raw in _read_once(config.data.path, config.unit, (config.csv_dims, config.csv_frames)):
        if row < len(raw):
            return (clips.clip_ids[index], *raw.clip(row))
        row -= len(raw)
    raise IndexError(f"clip {index}: {config.data.path} has fewer clips than when it was read")


def _read_raw(data: str, unit: str, csv_shape: tuple[int, int]) -> tuple[RawClips, ...]:
    dims, frames = csv_shape
    return tuple(
        read_clips(path, unit=unit, csv_dims=dims, csv_frames=frames)
        for path in find_files(data).values()
    )


_read_once = lru_cache(maxsize=1)(_read_raw)  # figures ask for clip after clip


def _points_of(clip: PoseClip, skeleton_name: str) -> _Points:
    if not len(clip):
        raise TrainingError(f"clip {clip.clip_id!r} has no frames")
    mapped = clip.as_skeleton(skeleton_name)
    mask = mapped.mask
    points = np.where(mask[..., None], mapped.points, np.float32(0)).astype(np.float32)
    return clip.clip_id, points, mask


def _clips_of_files(data: str, config: TrainConfig) -> Iterator[_Points]:
    for raw in _read_raw(data, config.unit, (config.csv_dims, config.csv_frames)):
        for index, clip_id in enumerate(raw.clip_ids):
            yield (clip_id, *raw.clip(index))
