"""Clips of keypoints: `load_keypoints` gives those of each split, normalised and packed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from posemill.errors import ConfigError, TrainingError
from posemill.messages import Message
from posemill.npz.clips import NpzClips
from posemill.records import BoolArray, FloatArray, IntArray, usual_split
from posemill.skeletons import full_name, get_skeleton
from posemill.training.config.data_settings import DataSettings
from posemill.training.data.batches import Batch, Draw, pad_targets
from posemill.training.data.cache import Store, precompute
from posemill.training.data.clips import (
    TIME_ONLY,
    ClipKey,
    Grid,
    Picture,
    Shape,
    SplitClips,
    Target,
)
from posemill.training.data.labels import LabelledClip, divide_into_splits, label_clips
from posemill.training.data.normalize import MaskedPoints, Preparation, Rng
from posemill.training.data.readers import content_key_of, read_all, skeleton_of

_WHOLE = 4  # frames that stand for a whole clip in Multigrid: a quarter of it is one


class Sample(NamedTuple):
    """One clip: points `(T, K, D)`, mask `(T, K)`, and its class or its gloss indices `(L,)`."""

    points: FloatArray
    mask: BoolArray
    target: Target


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KeypointClips(SplitClips):
    """The clips of one split, normalised, in a packed store."""

    store: Store  # the packed samples, `rows` of which these are
    skeleton_name: str | None = None
    sources: tuple[NpzClips, ...] = ()  # the clips of all files, to look at them
    # What it draws is decided by seed, epoch and clip.
    augment: Callable[[FloatArray, BoolArray, Rng], MaskedPoints] | None = None
    seed: int = 0
    time_share: float = 1.0  # take so much of a clip's frames, evenly, from a drawn place on

    @property
    def _whole_lengths(self) -> IntArray:
        return self.store.offsets[self.rows + 1] - self.store.offsets[self.rows]

    @property
    def lengths(self) -> IntArray:  # type: ignore[override]
        """`(N,)`: frames of each clip."""
        return share_of(self._whole_lengths, self.time_share)

    @property
    def shape(self) -> Mapping[str, Any]:
        """Points of a frame, numbers of a point, the skeleton."""
        _, num_points, num_dims = self.store.read(0)[0].shape
        sizes = {"num_points": int(num_points), "num_dims": int(num_dims)}
        return {**sizes, "skeleton_name": self.skeleton_name}

    def sample(self, index: int) -> Sample:
        """Return a clip as it is packed."""
        points, mask = self.store.read(int(self.rows[index]))
        return Sample(points, mask, self.targets[index])

    def __getitems__(self, draws: Sequence[Draw]) -> Batch:
        """Return the batch of these draws, augmented where asked."""
        return collate([self._draw(draw) for draw in draws], draws)

    def _draw(self, draw: Draw) -> Sample:
        points, mask, target = sample = self.sample(draw.clip)
        if self.augment is None and self.time_share == 1:
            return sample
        rng = np.random.default_rng([self.seed, draw.epoch, draw.clip])
        if self.time_share < 1:
            count = len(points)
            kept = int(share_of(count, self.time_share))
            chosen = ((np.arange(kept) + rng.random()) * (count / kept)).astype(np.int64)
            points, mask = points[chosen], mask[chosen]
        if self.augment is not None:
            points, mask = self.augment(points, mask, rng)
        return Sample(points, mask, target)

    def picture(self, index: int) -> Picture | None:
        """Return a clip as its file has it, before normalisation."""
        row = int(self.rows[index])
        for clips in self.sources:
            if row < len(clips):
                return Picture(self.keys[index][1], points=clips.clip(row))
            row -= len(clips)
        return None

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
        template = (
            "{frames}: {num_short} of {num_clips} clips are too short for their glosses "
            "and come with more frames only"
        )
        for time, space in TIME_ONLY:
            num_short = int((~self._fitting(time)).sum())
            if num_short <= len(self) / 2:
                cycle.append((time, space))
            if num_short:
                frames = self.describe_shape(Shape(1, round(time * _WHOLE), 1))
                notes.append(
                    Message(template, frames=frames, num_short=num_short, num_clips=len(self))
                )
        return Grid(_WHOLE, 1, tuple(cycle), has_short_cycle=False, notes=tuple(notes))

    def _fitting(self, time_share: float) -> BoolArray:
        """Return `(N,)`: whether a clip's glosses fit into a share of its frames; classes do."""
        if self.task != "ctc":
            return np.ones(len(self), bool)
        num_steps = share_of(self._whole_lengths, time_share) // self.time_stride
        return np.asarray(num_steps >= self.steps_needed)

    def in_shapes(self, shapes: tuple[Shape, ...]) -> KeypointClips:
        """Return the clips that are long enough, shorter."""
        (shape,) = shapes
        share = shape.num_frames / _WHOLE
        clips = self.select(np.flatnonzero(self._fitting(share)))
        return dataclasses.replace(clips, time_share=share, batch_factors=(shape.batch,))

    def describe_shape(self, shape: Shape) -> str:
        """Return the share of the frames in words."""
        divisor = _WHOLE // shape.num_frames
        return Message(
            "1/{divisor} of the frames" if divisor > 1 else "all frames", divisor=divisor
        )


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
    """Return the sets by split, checked before training; see `divide_into_splits`."""
    clips, rows = read_labelled(options)
    pack = cache(partial(_pack_files, clips, options))  # once, after the splits were checked

    def make(**facts: Any) -> KeypointClips:
        store, skeleton = pack()
        return KeypointClips(store=store, skeleton_name=skeleton, sources=tuple(clips), **facts)

    return divide_into_splits(
        rows, options, make, time_stride=time_stride, class_names=class_names, splits=splits
    )


def read_labelled(options: DataSettings) -> tuple[list[NpzClips], list[LabelledClip]]:
    """Return the files' clips as they are, and each clip with its label, split and group."""
    clips, rows = _read_files(options)

    def column_of(name: str) -> list[str]:
        return [value for raw in clips for value in raw.column(name)]

    return clips, label_clips(rows, column_of, options)


def read_unlabelled(options: DataSettings) -> tuple[Store, list[ClipKey], str | None]:
    """Return all clips packed, split and id of each, and the name of their skeleton."""
    clips, rows = _read_files(options)
    store, skeleton = _pack_files(clips, options)
    return store, [(row.split, row.clip_id) for row in rows], skeleton


def _read_files(options: DataSettings) -> tuple[list[NpzClips], list[LabelledClip]]:
    """Return the files' clips as they are, and what their files say of each."""
    by_split = read_all(options)
    clips = list(by_split.values())
    first = clips[0]
    rows: list[LabelledClip] = []
    for split, raw in by_split.items():
        if _frame_shape(raw) != _frame_shape(first):
            raise TrainingError(
                "{path} has {shape} numbers a frame, {first_path} {first_shape}; prepare all "
                "splits with the same layout",
                path=raw.path,
                shape=_frame_shape(raw),
                first_path=first.path,
                first_shape=_frame_shape(first),
            )
        empty = np.flatnonzero(np.diff(raw.offsets) == 0)
        if len(empty):
            clip_id = raw.clip_ids[empty[0]]
            raise TrainingError(
                "{path}: clip {clip_id!r} has no frames", path=raw.path, clip_id=clip_id
            )
        for own_split, *facts in zip(raw.splits, raw.clip_ids, raw.labels, strict=True):
            rows.append(LabelledClip(usual_split(own_split or split), len(rows), *facts))
    return clips, rows


def _frame_shape(clips: NpzClips) -> tuple[int, ...]:
    return clips.arrays["keypoints"].shape[1:]


def _pack_files(clips: Sequence[NpzClips], options: DataSettings) -> tuple[Store, str | None]:
    """Return the clips of all files in one store, and the name of their skeleton."""
    names = [skeleton_of(raw) for raw in clips]  # one that is unknown is an error in any case
    skeleton = names[0] if options.skeleton == "auto" else None
    if options.skeleton not in ("auto", "none"):
        skeleton, num_points = full_name(options.skeleton), _frame_shape(clips[0])[0]
        expected = get_skeleton(skeleton).num_points
        if expected != num_points:
            raise ConfigError(
                "skeleton {chosen} has {expected} points, {path} has {num_points}; use "
                "{--skeleton:auto} or {--skeleton:none}",
                chosen=skeleton,
                expected=expected,
                path=clips[0].path,
                num_points=num_points,
            )
    prepare = Preparation(
        normalize=options.normalize,
        skeleton_name=skeleton,
        # The depth of a picture's points is a guess that differs from recording to recording.
        num_dims=options.num_dims if options.num_dims is not None else 2 if skeleton else 0,
        num_frames=options.num_frames,
        max_frames=options.max_frames,
    )
    folder = Path(options.cache_folder) if options.cache_folder else None
    store = precompute(
        (prepare(*raw.clip(index)) for raw in clips for index in range(len(raw))),
        key=" ".join([*(content_key_of(raw, folder) for raw in clips), repr(prepare)]),
        kind=options.cache,
        folder=folder,
    )
    return store, skeleton
