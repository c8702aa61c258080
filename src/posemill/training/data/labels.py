"""Which label, split and target each clip has."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posemill.errors import ConfigError, TrainingError
from posemill.records import IntArray, usual_split
from posemill.terminal import warn_once
from posemill.training.data.annotations import Annotations
from posemill.training.data.folds import assign_folds, pick_share
from posemill.training.data.options import DataOptions
from posemill.training.data.readers import RawClips, read_column

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
    group: str = ""


def label_clips(
    splits: Sequence[str],
    clips: Sequence[RawClips],
    annotations: Annotations | None,
    *,
    group_column: str = "",
) -> list[LabelledClip]:
    """Return every clip of every file with label, split and group; one without is an error.

    Args:
        splits: Of each file.
        clips: Of each file.
        annotations: The labels; None where the files have them.
        group_column: Where annotations or files say whose a clip is; empty: no groups.
    """
    rows, missing = [], []
    ids = (clip_id for raw in clips for clip_id in raw.clip_ids)
    known_by_id = {} if annotations is None else annotations.match(ids)
    for file, (split, raw) in enumerate(zip(splits, clips, strict=True)):
        groups = read_column(raw, group_column) if group_column else ("",) * len(raw)
        for index, clip_id in enumerate(raw.clip_ids):
            label, own, group = raw.labels[index], raw.splits[index], groups[index]
            if known := known_by_id.get(clip_id):
                label, own, group = known.label, known.split or own, known.group or group
            if not label:
                missing.append(clip_id)
                continue
            split_of = usual_split(own or split)
            rows.append(LabelledClip(split_of, file, index, clip_id, label, group))
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
    if group_column and not all(row.group for row in rows):
        without = [row.clip_id for row in rows if not row.group]
        raise TrainingError(
            f"leave_out: {len(without)} of {len(rows)} clips have no {group_column!r} "
            f"({', '.join(without[:3])}{' …' if len(without) > 3 else ''}): expected a column of "
            "that name in the labels, or an array of that name in the npz"
        )
    return rows


def divide(rows: list[LabelledClip], options: DataOptions) -> list[LabelledClip]:
    """Return the clips cut into folds, or with a dev share; those of no split are for training."""
    rows = [dataclasses.replace(r, split="train") if r.split == "all" else r for r in rows]
    seed = options.split_seed
    if options.leave_out:
        rows = leave_out(rows, options)
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


def leave_out(rows: Sequence[LabelledClip], options: DataOptions) -> list[LabelledClip]:
    """Return the clips of one group as test and all others as train, whatever split they had.

    A clip whose label only its own group has cannot be told by a model that never saw it: it is
    left out, and that is said.
    """
    column, value = options.left_out
    if value is None or not any(row.group == value for row in rows):
        there = ", ".join(sorted({row.group for row in rows}))
        raise ConfigError(
            f"leave_out: expected {column}=VALUE with a value that clips have ({there}), got "
            f"{options.leave_out!r}"
        )
    known = {row.label for row in rows if row.group != value}
    if options.task == "ctc":
        known = {row.label for row in rows}  # glosses of its own become <unk>
    kept = [row for row in rows if row.group != value or row.label in known]
    if len(kept) < len(rows):
        warn_once(
            f"{column} {value}: {len(rows) - len(kept)} clips with labels that no other {column} "
            "has are not scored"
        )
    return [
        dataclasses.replace(row, split="test" if row.group == value else "train") for row in kept
    ]


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
