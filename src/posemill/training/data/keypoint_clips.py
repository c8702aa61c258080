"""Clips of keypoints: `load_keypoints` gives those of each split, normalised and packed."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posemill.errors import ConfigError, TrainingError
from posemill.messages import Message
from posemill.npz.mapped import open_npz
from posemill.records import BoolArray, FloatArray, IntArray, usual_split
from posemill.skeletons import full_name, get_skeleton
from posemill.terminal import counted
from posemill.training.config.data_settings import DataSettings
from posemill.training.data.batches import Batch, Draw, pad_targets
from posemill.training.data.cache import Store, precompute, verify_once
from posemill.training.data.clips import (
    TIME_ONLY,
    ClipKey,
    Grid,
    Picture,
    Shape,
    SplitClips,
    Target,
)
from posemill.training.data.labels import (
    LabelledClip,
    divide_into_splits,
    label_clips,
)
from posemill.training.data.normalize import preparation
from posemill.training.data.readers import RawClips, read_all

SampleAugment = Callable[[FloatArray, BoolArray, np.random.Generator], tuple[FloatArray, BoolArray]]
_WHOLE = 4  # frames that stand for a whole clip in Multigrid: a quarter of it is one


@dataclass(frozen=True)
class Sample:
    """One clip: points `(T, K, D)`, mask `(T, K)`, and its class or its gloss indices `(L,)`."""

    points: FloatArray
    mask: BoolArray
    target: Target


@dataclass(frozen=True, eq=False, kw_only=True)
class KeypointClips(SplitClips):
    """The clips of one split, normalised, in a packed store.

    Args:
        store: The packed samples.
        rows: `(N,)`: which samples of the store these are.
        skeleton_name: One of ours or None.
        source: Where the clips were read, to look at them; None: they cannot be looked at.
        time_stride: Frames per output step of the model (ctc).
        augment: Function of points, mask and a random generator, or None.
        seed: With epoch and clip it decides the augmentation.
        time_share: Take so much of a clip's frames, evenly, from a drawn place on.
    """

    store: Store
    rows: IntArray
    skeleton_name: str | None = None
    source: DataSettings | None = None
    time_stride: int = 1
    augment: SampleAugment | None = None
    seed: int = 0
    time_share: float = 1.0

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        lengths = self.lengths
        frames = f"{lengths.min()}-{lengths.max()} frames" if len(self) else "no clips"
        clips = counted(len(self), "clips")
        return (
            f"KeypointClips({self.task}, {clips}, {frames}, points=(T, {self.num_points}, "
            f"{self.num_dims}), {len(self.class_names)} classes, {self.skeleton_name})"
        )

    @property
    def _whole_lengths(self) -> IntArray:
        return self.store.offsets[self.rows + 1] - self.store.offsets[self.rows]

    @property
    def lengths(self) -> IntArray:  # type: ignore[override]
        """`(N,)`: frames of each clip."""
        lengths = self._whole_lengths
        return share_of(lengths, self.time_share) if self.time_share < 1 else lengths

    @property
    def num_points(self) -> int:
        """Points in a frame."""
        return int(self.store.read(0)[0].shape[1])

    @property
    def num_dims(self) -> int:
        """Numbers per point."""
        return int(self.store.read(0)[0].shape[2])

    @property
    def shape(self) -> Mapping[str, Any]:
        """Points of a frame, numbers of a point, the skeleton."""
        return {
            "num_points": self.num_points,
            "num_dims": self.num_dims,
            "skeleton_name": self.skeleton_name,
        }

    def _selected(self, chosen: IntArray) -> dict[str, Any]:
        return {"rows": self.rows[chosen]}

    def sample(self, index: int) -> Sample:
        """Return a clip as it is packed."""
        points, mask = self.store.read(int(self.rows[index]))
        return Sample(points, mask, self.targets[index])

    def __getitems__(self, draws: Sequence[Draw]) -> Batch:
        """Return the batch of these draws, augmented where asked."""
        return collate([self._draw(draw) for draw in draws], draws)

    def _draw(self, draw: Draw) -> Sample:
        sample = self.sample(draw.clip)
        if self.augment is None and self.time_share == 1:
            return sample
        rng = np.random.default_rng([self.seed, draw.epoch, draw.clip])
        points, mask = sample.points, sample.mask
        if self.time_share < 1:
            count = len(points)
            kept = int(share_of(count, self.time_share))
            chosen = ((np.arange(kept) + rng.random()) * (count / kept)).astype(np.int64)
            points, mask = points[chosen], mask[chosen]
        if self.augment is not None:
            points, mask = self.augment(points, mask, rng)
        return Sample(points, mask, sample.target)

    def picture(self, index: int) -> Picture | None:
        """Return a clip as its file has it, before normalisation."""
        if self.source is None:
            return None
        row, data = int(self.rows[index]), self.source  # clips of all files, one after the other
        for raw in _read_once(data.path, data.unit, data.csv_dims, data.csv_frames):
            if row < len(raw):
                return Picture(self.keys[index][1], points=raw.clip(row))
            row -= len(raw)
        raise IndexError(f"clip {index}: {data.path} has fewer clips than when it was read")

    def features(self, indices: IntArray) -> FloatArray:
        """Return mean, spread and first place of each point over eight frames of a clip."""
        found = []
        for index in indices:
            points = self.sample(int(index)).points
            some = points[np.linspace(0, len(points) - 1, 8).astype(np.int64)]
            found.append(np.stack([some.mean(0), some.std(0), some[0]]).ravel())
        return np.asarray(found, np.float32)

    @property
    def grid(self) -> Grid | None:
        """How clips become shorter: a quarter of their frames, a half, all; None of one frame."""
        if self.lengths.max() < 2:
            return None
        cycle, notes = [], []
        for time, space in TIME_ONLY:
            num_short = len(self) - int(self._fitting(time).sum())
            if num_short <= len(self) / 2:
                cycle.append((time, space))
            if num_short:
                template = (
                    "{frames}: {num_short} of {num_clips} clips are too short for their glosses "
                    "and come with more frames only"
                )
                counts = {"num_short": num_short, "num_clips": len(self)}
                notes.append(Message(template, frames=_in_words(time), **counts))
        return Grid(_WHOLE, 1, tuple(cycle), has_short_cycle=False, notes=tuple(notes))

    def _fitting(self, time_share: float) -> BoolArray:
        """Return `(N,)`: whether a clip's glosses fit into a share of its frames; classes do."""
        if self.task != "ctc":
            return np.ones(len(self), bool)
        needed = [frames_needed(np.asarray(target)) for target in self.targets]
        steps = share_of(self._whole_lengths, time_share) // self.time_stride
        fits: BoolArray = steps >= np.asarray(needed)
        return fits

    def in_shapes(self, shapes: tuple[Shape, ...]) -> KeypointClips:
        """Return the clips that are long enough, shorter."""
        (shape,) = shapes
        share = shape.num_frames / _WHOLE
        clips = self.select(np.flatnonzero(self._fitting(share)))
        return dataclasses.replace(clips, time_share=share, batch_factors=(shape.batch,))

    def describe_shape(self, shape: Shape) -> str:
        """Return the share of the frames in words."""
        return _in_words(shape.num_frames / _WHOLE)


def _in_words(share: float) -> str:
    if share == 1:
        return Message("all frames")
    return Message("1/{divisor} of the frames", divisor=round(1 / share))


def share_of(num_frames: Any, share: float) -> IntArray:
    """Return how many frames a share of so many is, at least one."""
    return np.maximum(1, np.rint(np.asarray(num_frames) * share)).astype(np.int64)


def collate(samples: Sequence[Sample], draws: Sequence[Draw] | None = None) -> Batch:
    """Return the batch of these samples; `draws` says which they are and how they count."""
    draws = draws or [Draw(index) for index in range(len(samples))]
    size, frames = len(samples), max(len(sample.points) for sample in samples)
    points = np.zeros((size, frames, *samples[0].points.shape[1:]), np.float32)
    mask = np.zeros(points.shape[:3], bool)
    for row, sample in enumerate(samples):
        points[row, : len(sample.points)] = sample.points
        mask[row, : len(sample.mask)] = sample.mask
    lengths = torch.tensor([len(sample.points) for sample in samples])
    return Batch(
        (torch.from_numpy(points), torch.from_numpy(mask), lengths),
        lengths=lengths,
        **pad_targets([sample.target for sample in samples], draws),
    )


def load_keypoints(
    options: DataSettings,
    *,
    class_names: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
    time_stride: int = 1,
) -> dict[str, KeypointClips]:
    """Return the sets by split, everything checked that can be checked before training.

    Args:
        options: Where and how.
        class_names: Those of a trained model; from the train split where None.
        splits: Only these; all where None.
        time_stride: Frames per output step of the model (ctc), to find clips too short.
    """
    clips, rows = read_labelled(options)
    division = divide_into_splits(rows, options, class_names=class_names, splits=splits)
    store, skeleton = _pack_files(clips, options)
    first_row = np.cumsum([0, *(len(raw) for raw in clips)])
    sets = {}
    for split, members in division.members.items():
        made = KeypointClips(
            store=store,
            rows=np.asarray([first_row[row.file] + row.index for row in members], np.int64),
            skeleton_name=skeleton,
            source=options,
            time_stride=time_stride,
            **division.facts(split, options.task),
        )
        sets[split] = check_lengths(made, split, options, time_stride)
    return sets


def read_labelled(options: DataSettings) -> tuple[list[RawClips], list[LabelledClip]]:
    """Return the files' clips as they are, and each clip with its label, split and group."""
    splits, clips = _read_files(options)
    return clips, label_clips(splits, clips, options)


def read_unlabelled(options: DataSettings) -> tuple[Store, list[ClipKey], str | None]:
    """Return all clips packed, split and id of each, and the name of their skeleton."""
    splits, clips = _read_files(options)
    store, skeleton = _pack_files(clips, options)
    keys = [
        (usual_split(own or split), clip_id)
        for split, raw in zip(splits, clips, strict=True)
        for own, clip_id in zip(raw.splits, raw.clip_ids, strict=True)
    ]
    return store, keys, skeleton


@lru_cache(maxsize=1)  # figures ask for clip after clip
def _read_once(path: str, unit: str, csv_dims: int, csv_frames: int) -> tuple[RawClips, ...]:
    return tuple(read_all(path, unit=unit, csv_dims=csv_dims, csv_frames=csv_frames).values())


def _read_files(options: DataSettings) -> tuple[list[str], list[RawClips]]:
    """Return the names of the files' splits, and their clips as they are."""
    by_split = read_all(
        options.path, unit=options.unit, csv_dims=options.csv_dims, csv_frames=options.csv_frames
    )
    clips = list(by_split.values())
    _check_same_points(clips)
    return list(by_split), clips


def _check_same_points(clips: Sequence[RawClips]) -> None:
    first = clips[0]
    for raw in clips:
        if raw.points.shape[1:] != first.points.shape[1:]:
            raise TrainingError(
                "{path} has {shape} numbers a frame, {first_path} {first_shape}; prepare all "
                "splits with the same layout",
                path=raw.path,
                shape=raw.points.shape[1:],
                first_path=first.path,
                first_shape=first.points.shape[1:],
            )
        empty = np.flatnonzero(np.diff(raw.offsets) == 0)
        if len(empty):
            raise TrainingError(
                "{path}: clip {clip_id!r} has no frames",
                path=raw.path,
                clip_id=raw.clip_ids[empty[0]],
            )


def _skeleton_of(raw: RawClips, chosen: str) -> str | None:
    if chosen == "none":
        return None
    if chosen == "auto":
        return raw.skeleton_name
    chosen = full_name(chosen)
    expected = get_skeleton(chosen).num_points
    if expected != raw.points.shape[1]:
        raise ConfigError(
            "skeleton {chosen} has {expected} points, {path} has {num_points}; use "
            "{--skeleton:auto} or {--skeleton:none}",
            chosen=chosen,
            expected=expected,
            path=raw.path,
            num_points=raw.points.shape[1],
        )
    return chosen


def _pack_files(clips: Sequence[RawClips], options: DataSettings) -> tuple[Store, str | None]:
    """Return the clips of all files in one store, and the name of their skeleton."""
    skeleton = _skeleton_of(clips[0], options.skeleton)
    transform = preparation(
        normalize=options.normalize,
        skeleton_name=skeleton,
        # The depth of a picture's points is a guess that differs from recording to recording.
        num_dims=options.num_dims if options.num_dims is not None else 2 if skeleton else 0,
        num_frames=options.num_frames,
        max_frames=options.max_frames,
    )
    folder = Path(options.cache_folder) if options.cache_folder else None
    keys = []
    for raw in clips:
        if raw.path.suffix.lower() == ".npz":
            # Its key is made of the checksums it carries: they must be those of the bytes in it.
            verify_once(raw.path, open_npz(raw.path).verify, folder=folder)
        keys.append(f"{raw.content_key}-{hashlib.sha256(raw.offsets.tobytes()).hexdigest()[:16]}")
    store = precompute(
        (raw.clip(index) for raw in clips for index in range(len(raw))),
        transform,
        content_key=" ".join(keys),
        kind=options.cache,
        folder=folder,
    )
    return store, skeleton


def frames_needed(target: IntArray) -> int:
    """Return the output steps CTC needs: one per gloss and a blank between two equal ones."""
    return len(target) + int((target[1:] == target[:-1]).sum())


def check_lengths(made: Any, split: str, options: DataSettings, time_stride: int) -> Any:
    """Return a set without training clips whose glosses do not fit their frames, or refuse it.

    Args:
        made: A set of any kind.
        split: Its name; of others than the training split such clips are counted.
        options: What is done with them.
        time_stride: Frames per output step of the model.
    """
    if options.task != "ctc":
        return made
    steps = made.lengths // time_stride
    needed = np.asarray([frames_needed(np.asarray(target)) for target in made.targets])
    short = np.flatnonzero(steps < needed)
    if not len(short) or split != options.training_split:
        return dataclasses.replace(made, num_too_short=len(short))
    if options.short_clips == "drop" and len(short) < len(made):
        kept = made.select(np.flatnonzero(steps >= needed))
        return dataclasses.replace(kept, num_too_short=len(short))
    first = int(short[0])
    raise TrainingError(
        "{num_short} of {num_clips} {split} clips are shorter than their glosses: "
        "{clip_id!r} has {num_frames} frames, {num_steps} steps of {time_stride}, "
        "and needs {num_needed}; set {--short-clips:drop}, or a smaller stride",
        num_short=len(short),
        num_clips=len(made),
        split=split,
        clip_id=made.keys[first][1],
        num_frames=made.lengths[first],
        num_steps=steps[first],
        time_stride=time_stride,
        num_needed=needed[first],
    )
