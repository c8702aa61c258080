"""Which label, split and target each clip has."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posemill.errors import TrainingError
from posemill.records import IntArray, usual_split
from posemill.training.data.annotations import Annotations
from posemill.training.data.folds import assign_folds, pick_share
from posemill.training.data.options import DataOptions
from posemill.training.data.readers import RawClips

UNKNOWN = 1
_SPECIAL = ("<blank>", "<unk>")


@dataclass(frozen=True)
class LabelledClip:
    """A clip of a file with its label, before it has a target."""

    split: str
    file: int
    index: int
    clip_id: str
    label: str


def label_clips(
    splits: Sequence[str], clips: Sequence[RawClips], annotations: Annotations | None
) -> list[LabelledClip]:
    """Return every clip of every file with its label and split; one without a label is an error."""
    rows, missing = [], []
    ids = (clip_id for raw in clips for clip_id in raw.clip_ids)
    known_by_id = {} if annotations is None else annotations.match(ids)
    for file, (split, raw) in enumerate(zip(splits, clips, strict=True)):
        for index, clip_id in enumerate(raw.clip_ids):
            label, own = raw.labels[index], raw.splits[index]
            if known := known_by_id.get(clip_id):
                label, own = known.label, known.split or own
            if not label:
                missing.append(clip_id)
                continue
            rows.append(LabelledClip(usual_split(own or split), file, index, clip_id, label))
    if missing:
        where = "no labels file was given;"
        if annotations is not None:
            where = f"{annotations.path} (its first id is {next(iter(annotations))!r})"
        raise TrainingError(
            f"{len(missing)} of {len(missing) + len(rows)} clips have no label "
            f"({', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}): {where} "
            "needs a row video_id,label for each; or leave these clips out of the data"
        )
    if not rows:
        raise TrainingError(f"{clips[0].path}: no clips")
    return rows


def divide(rows: list[LabelledClip], options: DataOptions) -> list[LabelledClip]:
    """Return the clips cut into folds, or with a dev share; those of no split are for training."""
    rows = [dataclasses.replace(r, split="train") if r.split == "all" else r for r in rows]
    seed = options.split_seed
    if options.folds:
        keys = [row.label if options.task == "classify" else "" for row in rows]
        fold = assign_folds(keys, options.folds, seed)
        rows = [
            dataclasses.replace(row, split="test" if of == options.fold else "train")
            for row, of in zip(rows, fold, strict=True)
        ]
    if options.dev_share and not any(row.split == "dev" for row in rows):
        train = [index for index, row in enumerate(rows) if row.split == "train"]
        keys = [rows[index].label if options.task == "classify" else "" for index in train]
        for chosen in pick_share(keys, options.dev_share, seed):
            where = train[chosen]
            rows[where] = dataclasses.replace(rows[where], split="dev")
    return rows


def name_classes(rows: Sequence[LabelledClip], task: str) -> tuple[str, ...]:
    """Return the classes, or blank, unknown and the glosses, of the training clips."""
    train = [row.label for row in rows if row.split == "train"]
    if task == "ctc":
        return (*_SPECIAL, *sorted({gloss for label in train for gloss in label.split()}))
    names = sorted(set(train), key=lambda name: (not name.isdigit(), name.zfill(12)))
    if len(names) == 1:
        raise TrainingError(
            f"only one class in the training clips ({names[0]!r}): nothing to tell apart"
        )
    return tuple(names)


def targets_of(
    rows: Sequence[LabelledClip], names: Sequence[str], task: str
) -> tuple[int | IntArray, ...]:
    """Return the class, or the glosses, of each clip as numbers."""
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
