"""Keypoint clips with their targets: `load_sets` gives one `KeypointSet` per split."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posemill.archives import open_npz
from posemill.errors import ConfigError, TrainingError
from posemill.records import BoolArray, FloatArray, IntArray, usual_split
from posemill.skeletons import full_name, get_skeleton
from posemill.terminal import counted
from posemill.training.config.data_settings import DataSettings
from posemill.training.data.annotations import read_annotations
from posemill.training.data.cache import Store, precompute, verify_once
from posemill.training.data.labels import (
    NO_GROUPS,
    Groups,
    LabelledClip,
    divide_into_splits,
    label_clips,
    targets_of,
)
from posemill.training.data.normalize import preparation
from posemill.training.data.readers import RawClips, find_files, read_clips

ClipKey = tuple[str, str]  # split and id: ids are unique within a split only


@dataclass(frozen=True)
class Sample:
    """One clip: points `(T, K, D)`, mask `(T, K)`, and its class or its gloss indices `(L,)`."""

    points: FloatArray
    mask: BoolArray
    target: int | IntArray


@dataclass(frozen=True, eq=False)
class KeypointSet:
    """The clips of one split, normalised, in a packed store.

    Args:
        store: The packed samples.
        rows: `(N,)`: which samples of the store these are.
        targets: Class per clip, or gloss indices `(L,)` per clip.
        clip_ids: One per clip.
        class_names: Name of each class; for ctc glosses after `<blank>` and `<unk>`.
        skeleton_name: One of ours or None.
        task: `classify` or `ctc`.
        is_share: Whether these clips were set aside out of the training clips.
        num_too_short: Clips with fewer output steps than their glosses need (ctc); of the
            training clips those that were left out.
        groups: Whose each clip is; empty where nothing says it.
    """

    store: Store
    rows: IntArray
    targets: tuple[int | IntArray, ...]
    clip_ids: tuple[str, ...]
    class_names: tuple[str, ...]
    skeleton_name: str | None = None
    task: str = "classify"
    is_share: bool = False
    num_too_short: int = 0
    groups: Groups = NO_GROUPS

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        points, mask = self.store.read(int(self.rows[index]))
        return Sample(points, mask, self.targets[index])

    def __repr__(self) -> str:
        lengths = self.lengths
        frames = f"{lengths.min()}-{lengths.max()} frames" if len(self) else "no clips"
        clips = counted(len(self), "clips")
        return (
            f"KeypointSet({self.task}, {clips}, {frames}, points=(T, {self.num_points}, "
            f"{self.num_dims}), {len(self.class_names)} classes, {self.skeleton_name})"
        )

    @property
    def lengths(self) -> IntArray:
        """`(N,)`: frames of each clip."""
        return self.store.offsets[self.rows + 1] - self.store.offsets[self.rows]

    @property
    def num_points(self) -> int:
        """Points in a frame."""
        return int(self.store.read(0)[0].shape[1])

    @property
    def num_dims(self) -> int:
        """Numbers per point."""
        return int(self.store.read(0)[0].shape[2])

    def select(self, indices: Sequence[int] | IntArray) -> KeypointSet:
        """Return the set of these clips only."""
        chosen = np.asarray(indices, np.int64)
        return dataclasses.replace(
            self,
            rows=self.rows[chosen],
            targets=tuple(self.targets[i] for i in chosen),
            clip_ids=tuple(self.clip_ids[i] for i in chosen),
            groups=self.groups.select(chosen),
        )


def load_sets(
    options: DataSettings,
    *,
    class_names: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
    time_stride: int = 1,
) -> dict[str, KeypointSet]:
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
        made = KeypointSet(
            store,
            np.asarray([first_row[row.file] + row.index for row in members], np.int64),
            targets_of(members, division.class_names, options.task),
            tuple(row.clip_id for row in members),
            division.class_names,
            skeleton,
            options.task,
            is_share=division.is_share and split == "dev",
            groups=Groups.of(members),
        )
        sets[split] = check_lengths(made, split, options, time_stride)
    return sets


def read_labelled(options: DataSettings) -> tuple[list[RawClips], list[LabelledClip]]:
    """Return the files' clips as they are, and each clip with its label, split and group."""
    files, clips = _read_files(options)
    column = options.group_column
    annotations = (
        read_annotations(Path(options.labels), group_column=column) if options.labels else None
    )
    rows = label_clips(
        files, clips, annotations, group_column=column, missing_labels=options.missing_labels
    )
    return clips, rows


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


def _read_files(options: DataSettings) -> tuple[list[str], list[RawClips]]:
    """Return the names of the files' splits, and their clips as they are."""
    files = find_files(options.path)
    clips = [
        read_clips(
            path, unit=options.unit, csv_dims=options.csv_dims, csv_frames=options.csv_frames
        )
        for path in files.values()
    ]
    _check_same_points(clips)
    return list(files), clips


def _pack_files(clips: Sequence[RawClips], options: DataSettings) -> tuple[Store, str | None]:
    skeleton = _skeleton_of(clips[0], options.skeleton)
    stores = [_pack(raw, skeleton, options) for raw in clips]
    return stores[0] if len(stores) == 1 else _Joined(stores), skeleton


class _Joined:
    """Several stores as one, samples numbered on."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = tuple(stores)
        self._first = np.cumsum([0, *(len(store.offsets) - 1 for store in stores)])
        lengths = np.concatenate([np.diff(store.offsets) for store in stores])
        self.offsets: IntArray = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)

    def read(self, index: int) -> tuple[FloatArray, BoolArray]:
        which = int(np.searchsorted(self._first, index, side="right")) - 1
        return self._stores[which].read(index - int(self._first[which]))


def _check_same_points(clips: Sequence[RawClips]) -> None:
    first = clips[0]
    for raw in clips:
        if raw.points.shape[1:] != first.points.shape[1:]:
            raise TrainingError(
                f"{raw.path} has {raw.points.shape[1:]} numbers a frame, {first.path} "
                f"{first.points.shape[1:]}; prepare all splits with the same layout"
            )
        empty = np.flatnonzero(np.diff(raw.offsets) == 0)
        if len(empty):
            raise TrainingError(f"{raw.path}: clip {raw.clip_ids[empty[0]]!r} has no frames")


def _skeleton_of(raw: RawClips, chosen: str) -> str | None:
    if chosen == "none":
        return None
    if chosen == "auto":
        return raw.skeleton_name
    chosen = full_name(chosen)
    expected = get_skeleton(chosen).num_points
    if expected != raw.points.shape[1]:
        raise ConfigError(
            f"skeleton {chosen} has {expected} points, {raw.path} has {raw.points.shape[1]}; "
            "use skeleton = 'auto' or 'none'"
        )
    return chosen


def _pack(raw: RawClips, skeleton: str | None, options: DataSettings) -> Store:
    transform = preparation(
        normalize=options.normalize,
        skeleton_name=skeleton,
        # The depth of a picture's points is a guess that differs from recording to recording.
        num_dims=options.num_dims if options.num_dims is not None else 2 if skeleton else 0,
        num_frames=options.num_frames,
        max_frames=options.max_frames,
    )
    folder = Path(options.cache_folder) if options.cache_folder else None
    if raw.path.suffix == ".npz":
        # Its key is made of the checksums it carries: they must be those of the bytes in it.
        verify_once(raw.path, open_npz(raw.path).verify, folder=folder)
    cut = hashlib.sha256(raw.offsets.tobytes()).hexdigest()[:16]
    return precompute(
        map(raw.clip, range(len(raw))),
        transform,
        content_key=f"{raw.content_key}-{cut}",
        kind=options.cache,
        folder=folder,
    )


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
    if options.short_clips == "drop":
        if len(short) == len(made):
            raise TrainingError(f"all {len(made)} {split} clips are shorter than their glosses")
        kept = made.select(np.flatnonzero(steps >= needed))
        return dataclasses.replace(kept, num_too_short=len(short))
    first = int(short[0])
    raise TrainingError(
        f"{len(short)} of {len(made)} {split} clips are shorter than their glosses: "
        f"{made.clip_ids[first]!r} has {made.lengths[first]} frames, {steps[first]} steps of "
        f"{time_stride}, and needs {needed[first]}; set short_clips = 'drop', or a smaller stride"
    )
