"""Keypoint clips with their targets: `load_sets` gives one `KeypointSet` per split."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posemill.archives import open_npz
from posemill.errors import ConfigError, FormatError, TrainingError
from posemill.geometry import find_points
from posemill.records import BoolArray, FloatArray, IntArray
from posemill.skeletons import full_name, get_skeleton
from posemill.training.data.annotations import Annotations, read_annotations, split_word
from posemill.training.data.cache import CACHE_KINDS, RamStore, Store, precompute, verify_once
from posemill.training.data.folds import assign_folds, pick_share
from posemill.training.data.normalize import NORMALIZATIONS, preparation
from posemill.training.data.readers import RawClips, find_files, read_clips

TASKS = ("classify", "ctc")
BLANK, UNKNOWN = 0, 1
_SPECIAL = ("<blank>", "<unk>")


@dataclass(frozen=True)
class Sample:
    """One clip: points `(T, K, D)`, mask `(T, K)`, and its class or its gloss indices `(L,)`."""

    points: FloatArray
    mask: BoolArray
    target: int | IntArray


@dataclass(frozen=True)
class DataOptions:
    """Where the clips are and how they are read.

    Args:
        data: What `posemill prepare` wrote; any npz with `keypoints` [N, K, D] and `video_ids` (or
            `lengths`, and perhaps `labels`); a CSV with a label and numbers in each row; or a
            pattern such as `split1_{split}.npz`.
        labels: `labels.csv` (`video_id,label[,split]`), or the PHOENIX annotations (file, folder);
            empty where the data holds its labels.
        task: `classify` or `ctc`.
        skeleton: `auto` (as the file says, or by the number of points), `none`, or a name.
        unit: `clip`, or `frame`: every frame a sample of its own.
        normalize: `auto`, `parts`, `whole` or `none`.
        num_dims: Use so many coordinates of a point; 0: all.
        num_frames: Resample every clip to so many frames; 0 keeps lengths.
        max_frames: Longer clips are resampled to so many frames; 0 for no limit.
        dev_fraction: Share of the training clips set aside as dev where there is no dev split.
        folds: Cut all clips into so many folds; fold `fold` becomes test, the rest train. 0: not.
        fold: Which fold is test.
        split_seed: Decides about folds and the dev share.
        cache: `mmap`, `ram`, `hdf5`, or `none`: made anew in memory each time.
        cache_folder: Where caches are kept; empty for the usual place.
        short_clips: What becomes of a training clip too short for its glosses: `error` or `drop`.
        csv_dims: Numbers per point in a CSV.
        csv_frames: Frames per row of a CSV.
    """

    data: str
    labels: str = ""
    task: str = "classify"
    skeleton: str = "auto"
    unit: str = "clip"
    normalize: str = "auto"
    num_dims: int = 0
    num_frames: int = 0
    max_frames: int = 0
    dev_fraction: float = 0.0
    folds: int = 0
    fold: int = 0
    split_seed: int = 0
    cache: str = "mmap"
    cache_folder: str = ""
    short_clips: str = "error"
    csv_dims: int = 2
    csv_frames: int = 1

    @classmethod
    def of(cls, config: Any) -> DataOptions:
        """Return the fields that a training's config has under the same names."""
        names = {entry.name for entry in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in config.to_dict().items() if name in names})

    def __post_init__(self) -> None:
        choices = {
            "task": TASKS,
            "unit": ("clip", "frame"),
            "normalize": NORMALIZATIONS,
            "cache": CACHE_KINDS,
            "short_clips": ("error", "drop"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(
                    f"{name}: expected one of {', '.join(allowed)}, got {getattr(self, name)!r}"
                )
        if self.skeleton not in ("auto", "none"):
            full_name(self.skeleton)
        if not 0 <= self.dev_fraction < 1:
            raise ConfigError(f"dev_fraction: expected 0 to below 1, got {self.dev_fraction}")
        if self.folds and not (self.folds >= 2 and 0 <= self.fold < self.folds):
            raise ConfigError(
                f"folds and fold: expected 2 or more folds and fold 0 to {self.folds - 1}, "
                f"got folds={self.folds} fold={self.fold}"
            )
        if self.csv_dims < 1 or self.csv_frames < 1:
            raise ConfigError(
                f"csv_dims and csv_frames: expected 1 or more, got {self.csv_dims}, "
                f"{self.csv_frames}"
            )


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
    """

    store: Store
    rows: IntArray
    targets: tuple[int | IntArray, ...]
    clip_ids: tuple[str, ...]
    class_names: tuple[str, ...]
    skeleton_name: str | None = None
    task: str = "classify"

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        points, mask = self.store.read(int(self.rows[index]))
        return Sample(points, mask, self.targets[index])

    def __repr__(self) -> str:
        lengths = self.lengths
        frames = f"{lengths.min()}-{lengths.max()} frames" if len(self) else "no clips"
        return (
            f"KeypointSet({self.task}, {len(self)} clips, {frames}, points=(T, {self.num_points}, "
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
        )


def make_set(
    samples: Sequence[Sample],
    class_names: Sequence[str],
    *,
    skeleton_name: str | None = None,
    task: str = "classify",
) -> KeypointSet:
    """Return a set of samples that are already in memory, as they are."""
    offsets = np.cumsum([0, *(len(sample.points) for sample in samples)], dtype=np.int64)
    store = RamStore(
        np.concatenate([sample.points for sample in samples]).astype(np.float32),
        np.concatenate([sample.mask for sample in samples]).astype(bool),
        offsets,
    )
    return KeypointSet(
        store,
        np.arange(len(samples)),
        tuple(sample.target for sample in samples),
        tuple(f"sample{index}" for index in range(len(samples))),
        tuple(class_names),
        skeleton_name,
        task,
    )


@dataclass(frozen=True)
class _Row:
    """A clip of a file, before it has a target."""

    split: str
    file: int
    index: int
    clip_id: str
    label: str


def load_sets(
    options: DataOptions,
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
    files = find_files(options.data)
    clips = [
        read_clips(
            path, unit=options.unit, csv_dims=options.csv_dims, csv_frames=options.csv_frames
        )
        for path in files.values()
    ]
    _check_same_points(clips)
    annotations = read_annotations(Path(options.labels)) if options.labels else None
    rows = _label_rows(list(files), clips, annotations)
    rows = _divide(rows, options)
    names = tuple(class_names) if class_names else _name_classes(rows, options.task)
    wanted = [split_word(name) for name in splits] if splits else list(dict.fromkeys(
        row.split for row in rows))  # fmt: skip
    for split in wanted if splits else ("train", *wanted):
        if not any(row.split == split for row in rows):
            there = ", ".join(dict.fromkeys(row.split for row in rows))
            raise TrainingError(f"split {split!r} is empty: {options.data} has clips of {there}")
    skeleton = _skeleton_of(clips[0], options.skeleton)
    stores = [_pack(raw, skeleton, options) for raw in clips]
    store = stores[0] if len(stores) == 1 else _Joined(stores)
    first_row = np.cumsum([0, *(len(raw) for raw in clips)])
    sets = {}
    for split in wanted:
        members = [row for row in rows if row.split == split]
        made = KeypointSet(
            store,
            np.asarray([first_row[row.file] + row.index for row in members], np.int64),
            _targets(members, names, options.task),
            tuple(row.clip_id for row in members),
            names,
            skeleton,
            options.task,
        )
        sets[split] = _check_lengths(made, split, options, time_stride)
    return sets


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


def _label_rows(
    splits: Sequence[str], clips: Sequence[RawClips], annotations: Annotations | None
) -> list[_Row]:
    rows, missing = [], []
    for file, (split, raw) in enumerate(zip(splits, clips, strict=True)):
        for index, clip_id in enumerate(raw.clip_ids):
            label, own = raw.labels[index], raw.splits[index]
            if annotations is not None and (known := annotations.get(clip_id)):
                label, own = known.label, known.split or own
            if not label:
                missing.append(clip_id)
                continue
            rows.append(_Row(own or split_word(split), file, index, clip_id, label))
    if missing:
        where = annotations.path if annotations is not None else "no labels file was given;"
        raise TrainingError(
            f"{len(missing)} of {len(missing) + len(rows)} clips have no label "
            f"({', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}): {where} "
            "needs a row video_id,label for each; or leave these clips out of the data"
        )
    if not rows:
        raise TrainingError(f"{clips[0].path}: no clips")
    return rows


def _divide(rows: list[_Row], options: DataOptions) -> list[_Row]:
    """Cut into folds or set a dev share aside; clips of no split are for training."""
    rows = [dataclasses.replace(r, split="train") if r.split == "all" else r for r in rows]
    seed = options.split_seed
    if options.folds:
        keys = [row.label if options.task == "classify" else "" for row in rows]
        fold = assign_folds(keys, options.folds, seed)
        rows = [
            dataclasses.replace(row, split="test" if of == options.fold else "train")
            for row, of in zip(rows, fold, strict=True)
        ]
    if options.dev_fraction and not any(row.split == "dev" for row in rows):
        train = [index for index, row in enumerate(rows) if row.split == "train"]
        keys = [rows[index].label if options.task == "classify" else "" for index in train]
        for chosen in pick_share(keys, options.dev_fraction, seed):
            where = train[chosen]
            rows[where] = dataclasses.replace(rows[where], split="dev")
    return rows


def _name_classes(rows: Sequence[_Row], task: str) -> tuple[str, ...]:
    train = [row.label for row in rows if row.split == "train"]
    if task == "ctc":
        return (*_SPECIAL, *sorted({gloss for label in train for gloss in label.split()}))
    names = sorted(set(train), key=lambda name: (not name.isdigit(), name.zfill(12)))
    if len(names) == 1:
        raise TrainingError(
            f"only one class in the training clips ({names[0]!r}): nothing to tell apart"
        )
    return tuple(names)


def _targets(rows: Sequence[_Row], names: Sequence[str], task: str) -> tuple[int | IntArray, ...]:
    index = {name: number for number, name in enumerate(names)}
    if task == "ctc":
        return tuple(
            np.asarray([index.get(gloss, UNKNOWN) for gloss in row.label.split()], np.int64)
            for row in rows
        )
    for row in rows:
        if row.label not in index:
            raise TrainingError(
                f"label {row.label!r} of {row.split} clip {row.clip_id!r} is not among the "
                f"{len(names)} classes of the training clips"
            )
    return tuple(index[row.label] for row in rows)


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


def _pack(raw: RawClips, skeleton: str | None, options: DataOptions) -> Store:
    transform = preparation(
        normalize=options.normalize,
        skeleton_name=skeleton,
        num_dims=options.num_dims,
        num_frames=options.num_frames,
        max_frames=options.max_frames,
    )
    folder = Path(options.cache_folder) if options.cache_folder else None
    if raw.path.suffix == ".npz":
        # Its key is made of the checksums it carries: they must be those of the bytes in it.
        verify_once(raw.path, open_npz(raw.path).verify, folder=folder)
    cut = hashlib.sha256(raw.offsets.tobytes()).hexdigest()[:16]
    return precompute(
        _checked(raw),
        transform,
        content_key=f"{raw.content_key}-{cut}",
        kind=options.cache,
        folder=folder,
    )


def _checked(raw: RawClips) -> Iterator[tuple[FloatArray, BoolArray]]:
    for clip_id, start, stop in zip(raw.clip_ids, raw.offsets, raw.offsets[1:], strict=False):
        points = np.asarray(raw.points[start:stop], np.float32)
        try:
            mask = find_points(points, None if raw.mask is None else raw.mask[start:stop])
        except ValueError as error:
            raise FormatError(f"{raw.path}: clip {clip_id!r}: {error}") from error
        yield np.where(mask[..., None], points, np.float32(0)), mask


def frames_needed(target: IntArray) -> int:
    """Return the output steps CTC needs: one per gloss and a blank between two equal ones."""
    return len(target) + int((target[1:] == target[:-1]).sum())


def _check_lengths(
    made: KeypointSet, split: str, options: DataOptions, time_stride: int
) -> KeypointSet:
    """Refuse (or drop) training clips whose glosses do not fit their frames."""
    if options.task != "ctc" or split != "train":
        return made
    steps = made.lengths // time_stride
    needed = np.asarray([frames_needed(np.asarray(target)) for target in made.targets])
    short = np.flatnonzero(steps < needed)
    if not len(short):
        return made
    if options.short_clips == "drop":
        if len(short) == len(made):
            raise TrainingError(f"all {len(made)} train clips are shorter than their glosses")
        return made.select(np.flatnonzero(steps >= needed))
    first = int(short[0])
    raise TrainingError(
        f"{len(short)} of {len(made)} {split} clips are shorter than their glosses: "
        f"{made.clip_ids[first]!r} has {made.lengths[first]} frames, {steps[first]} steps of "
        f"{time_stride}, and needs {needed[first]}; set short_clips = 'drop', or a smaller stride"
    )


def count_classes(made: KeypointSet) -> Mapping[str, int]:
    """Return how many clips each class has; for ctc how often each gloss occurs."""
    counts = np.bincount(
        np.concatenate([np.atleast_1d(np.asarray(target)) for target in made.targets]),
        minlength=len(made.class_names),
    )
    return dict(zip(made.class_names, counts.tolist(), strict=True))
