"""The clips of pixels of each split, with their targets; nothing is decoded to know them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from posemill.decoders.sampling import Sampling
from posemill.errors import TrainingError
from posemill.records import IntArray
from posemill.training.config.data_settings import DataSettings
from posemill.training.data.annotations import read_annotations
from posemill.training.data.datasets import check_lengths
from posemill.training.data.labels import (
    NO_GROUPS,
    Groups,
    LabelledClip,
    divide_into_splits,
    label_clips,
    targets_of,
)
from posemill.training.video.index import ClipPlace, Index, read_index


@dataclass(frozen=True, eq=False)
class VideoSet:
    """The clips of one split.

    Args:
        places: Where each clip is, with its label.
        targets: Class per clip, or gloss indices `(L,)` per clip.
        class_names: Name of each class; for ctc glosses after `<blank>` and `<unk>`.
        sampling: Which frames are taken.
        is_share: Whether these clips were set aside out of the training clips.
        num_too_short: Clips with fewer output steps than their glosses need (ctc).
        groups: Whose each clip is; empty where nothing says it.
    """

    places: tuple[ClipPlace, ...]
    targets: tuple[int | IntArray, ...]
    class_names: tuple[str, ...]
    sampling: Sampling
    is_share: bool = False
    num_too_short: int = 0
    groups: Groups = NO_GROUPS

    def __len__(self) -> int:
        return len(self.places)

    @property
    def clip_ids(self) -> tuple[str, ...]:
        """One per clip."""
        return tuple(place.clip_id for place in self.places)

    @cached_property
    def lengths(self) -> IntArray:
        """`(N,)`: frames that are taken of each clip; all 1 where only opening them would tell."""
        count = self.sampling.num_frames
        known = [place.num_frames for place in self.places]
        if count is None and self.sampling.kind != "fps" and all(known):
            return np.asarray([len(self.sampling.indices(each)) for each in known if each])
        return np.full(len(self), count or 1, np.int64)

    @property
    def target_of_label(self) -> dict[str, int | IntArray]:
        """The class, or the glosses, of each label."""
        labels = (place.label for place in self.places)
        return dict(zip(labels, self.targets, strict=True))

    @property
    def num_short(self) -> int:
        """Clips known to have fewer frames than are taken of them, which are then repeated."""
        count = self.sampling.num_frames or 0
        return sum(place.num_frames is not None and place.num_frames < count
                   for place in self.places)  # fmt: skip

    def select(self, indices: Sequence[int] | IntArray) -> VideoSet:
        """Return the set of these clips only."""
        return dataclasses.replace(
            self,
            places=tuple(self.places[i] for i in indices),
            targets=tuple(self.targets[i] for i in indices),
            groups=self.groups.select(indices),
        )


class _Table:
    """The clips of an index, as labels are given to them."""

    def __init__(self, index: Index, path: Path) -> None:
        self.path, self._clips = path, index.clips
        self.clip_ids = tuple(clip.clip_id for clip in index.clips)
        self.labels = tuple(clip.label for clip in index.clips)
        self.splits = tuple(clip.split for clip in index.clips)

    def column(self, name: str) -> tuple[str, ...]:
        """Return what a further column of the list says of each clip; '' where there is none."""
        return tuple(clip.extra.get(name, "").strip() for clip in self._clips)


def read_labelled(options: DataSettings) -> tuple[Index, list[LabelledClip]]:
    """Return the clips that are there, and each with its label, split and group."""
    index = read_index(options.path)
    column = options.group_column
    annotations = (
        read_annotations(Path(options.labels), group_column=column) if options.labels else None
    )
    table = _Table(index, Path(options.path))
    rows = label_clips(
        ["all"], [table], annotations, group_column=column, missing_labels=options.missing_labels
    )
    return index, rows


def load_video_sets(
    options: DataSettings,
    sampling: Sampling,
    *,
    class_names: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
    time_stride: int = 1,
) -> tuple[dict[str, VideoSet], Index]:
    """Return the sets by split, and the index they are of.

    Args:
        options: Where the clips are and how they are divided.
        sampling: Which frames of a clip are taken.
        class_names: Those of a trained model; from the train split where None.
        splits: Only these; all where None.
        time_stride: Frames per output step of the model (ctc), to find clips too short.
    """
    index, rows = read_labelled(options)
    if options.task == "classify" and class_names is None:
        _check_missing(index, {row.label for row in rows}, options.path)
        _check_two_labels(index, rows, options.path)
    division = divide_into_splits(rows, options, class_names=class_names, splits=splits)
    sets = {}
    for split, members in division.members.items():
        made = VideoSet(
            tuple(dataclasses.replace(index.clips[row.index], label=row.label) for row in members),
            targets_of(members, division.class_names, options.task),
            division.class_names,
            sampling,
            is_share=division.is_share and split == "dev",
            groups=Groups.of(members),
        )
        is_known = sampling.num_frames is not None or made.lengths.max() > 1
        if options.task == "ctc" and is_known:
            made = check_lengths(made, split, options, time_stride)
        sets[split] = made
    return sets, index


def _check_two_labels(index: Index, rows: Sequence[LabelledClip], data: str) -> None:
    """Refuse a list that has one clip under two labels: no model can learn both."""
    known: dict[Any, str] = {}
    for row in rows:
        clip = index.clips[row.index]
        place = (clip.path, clip.offset, clip.start_seconds, clip.end_seconds)
        if known.setdefault(place, row.label) != row.label:
            raise TrainingError(
                f"{clip.path} stands under two labels in {data}, {known[place]!r} and "
                f"{row.label!r}: no model can learn both; take one of the rows out"
            )


def _check_missing(index: Index, labels: set[str], data: str) -> None:
    """Refuse a list with a label of which no clip is there."""
    lost: Mapping[str, list[str]] = {}
    for clip in index.missing:
        if clip.label and clip.label not in labels:
            lost = {**lost, clip.label: [*lost.get(clip.label, []), clip.path]}
    for label, paths in lost.items():
        raise TrainingError(
            f"label {label!r} of {data} has no clip: none of its {len(paths)} files is there, the "
            f"first should be {os.fspath(paths[0])}"
        )
