"""Which class a clip has, and which split it is in: labels, folds, shares, groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from posemill.errors import ConfigError, TrainingError
from posemill.messages import Message
from posemill.records import IntArray, label_of_folder, sort_splits, usual_split
from posemill.terminal import warn_once
from posemill.training.config.data_settings import DataSettings
from posemill.training.data.annotations import USUAL_GROUPS, Annotation, read_annotations
from posemill.training.data.clips import SplitClips, Target

AnyClips = TypeVar("AnyClips", bound=SplitClips)


def assign_folds(labels: Sequence[str], folds: int, seed: int) -> IntArray:
    """Return `(clips,)`: the fold of each clip, classes dealt evenly, in an order by the seed."""
    rng = np.random.default_rng([seed, folds])
    order = rng.permutation(len(labels))
    # A stable sort by class keeps the random order within each; dealing then round and round.
    by_class = order[np.argsort(np.asarray(labels)[order], kind="stable")]
    result = np.empty(len(labels), np.int64)
    result[by_class] = np.arange(len(labels)) % folds
    return result


def assign_group_folds(
    labels: Sequence[str], groups: Sequence[str], folds: int, seed: int
) -> IntArray:
    """Return `(clips,)`: the fold of each clip; a group is in one, classes are about even."""
    names, members = np.unique(np.asarray(groups), return_inverse=True)
    if not 2 <= folds <= len(names):
        raise ConfigError(
            "{--folds:{folds}}: expected 2 or more, and no more than the {num_groups} "
            "groups that stay together",
            folds=folds,
            num_groups=len(names),
        )
    kinds, numbers = np.unique(np.asarray(labels), return_inverse=True)
    counts = np.zeros((len(names), len(kinds)), np.int64)  # clips of each class in each group
    np.add.at(counts, (members, numbers), 1)
    order = np.random.default_rng([seed, folds]).permutation(len(names))
    order = order[np.argsort(-counts[order].sum(1), kind="stable")]  # large groups first
    placed = np.zeros((folds, len(kinds)), np.int64)
    result = np.empty(len(names), np.int64)
    for group in order:
        cost = ((placed + counts[group]) ** 2 - placed**2).sum(1)
        best = np.lexsort((placed.sum(1), cost))[0]
        placed[best] += counts[group]
        result[group] = best
    return np.asarray(result[members])


def pick_share(labels: Sequence[str], share: float, seed: int) -> IntArray:
    """Return the sorted indices of about `share` of the clips, the same share of every class."""
    rng = np.random.default_rng([seed, 7])
    array = np.asarray(labels)
    chosen: list[int] = []
    for name in np.unique(array):
        members = rng.permutation(np.flatnonzero(array == name))
        # At least one of each class stays on both sides where there are two.
        count = min(max(round(share * len(members)), 1), len(members) - 1)
        chosen += members[:count].tolist()
    return np.sort(np.asarray(chosen, np.int64))


_UNKNOWN, _SPECIAL = 1, ("<blank>", "<unk>")


class LabelledClip(NamedTuple):
    """A clip with its label, before it has a target; what nothing says is empty."""

    split: str  # its usual name
    row: int  # which clip of the data it is
    clip_id: str  # unique within the split
    label: str
    group: str = ""  # whose it is
    group_column: str = ""


def label_clips(
    rows: Sequence[LabelledClip], column_of: Callable[[str], Sequence[str]], options: DataSettings
) -> list[LabelledClip]:
    """Return every clip with label, split and group.

    `rows` are what the data says of each clip; `column_of` returns what a further column of it
    says, '' for nothing.
    """
    column, notes = options.group_column, {}
    where = Message("{path}, and a labels file ({--labels})", path=options.path)
    if options.labels:
        annotations = read_annotations(Path(options.labels), group_column=column)
        column = column or annotations.group_column
        notes = annotations.match(row.clip_id for row in rows)
        template = "{path} (its first id is {clip_id!r})"
        where = Message(template, path=options.labels, clip_id=next(iter(annotations)))
    column = column or next((name for name in USUAL_GROUPS if any(column_of(name))), "")
    groups = column_of(column) if column else [""] * len(rows)
    labelled, missing = [], []
    for row, own_group in zip(rows, groups, strict=True):
        label, split, group = notes.get(row.clip_id) or Annotation(row.label)
        if label:
            group, split = group or own_group, split or row.split
            labelled.append(LabelledClip(split, row.row, row.clip_id, label, group, column))
        else:
            missing.append(row.clip_id)
    if missing:
        _report_missing(missing, len(labelled), where, options)
    if not labelled:
        raise TrainingError("{path}: no clips", path=options.path)
    without = [row.clip_id for row in labelled if not row.group]
    if options.group_column and without:
        raise TrainingError(
            "{--leave-out} or {--folds-by}: {num_without} of {num_clips} clips have no "
            "{group_column!r} ({some}): expected a column of that name in the "
            "labels or the list, or an array of that name in the npz",
            num_without=len(without),
            num_clips=len(labelled),
            group_column=column,
            some=_first_three(without),
        )
    return labelled


def _report_missing(missing: list[str], num_others: int, where: str, options: DataSettings) -> None:
    """Say which clips have no label, or refuse them."""
    counts = {"num_missing": len(missing), "num_clips": len(missing) + num_others}
    some = _first_three(missing)
    if num_others and options.missing_labels == "drop":
        template = "{num_missing} of {num_clips} clips have no label and are left out ({some})"
        warn_once(Message(template, some=some, **counts))
        return
    example = advice = ""
    if folder := label_of_folder(missing[0]):
        template = " (where folders are classes: {clip_id},{folder})"
        example = Message(template, clip_id=missing[0], folder=folder)
    if num_others:
        advice = Message("; posemill train {--missing-labels:drop} leaves these clips out")
    raise TrainingError(
        "{num_missing} of {num_clips} clips have no label ({some}): {where} needs a row "
        "video_id,label for each{example}{advice}",
        some=some,
        where=where,
        example=example,
        advice=advice,
        **counts,
    )


def _first_three(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


def _check_lengths(clips: AnyClips, split: str, options: DataSettings) -> AnyClips:
    """Return a set whose training clips all have frames for their glosses; count others."""
    if options.task != "ctc" or not clips.has_lengths:
        return clips
    steps, needed = clips.lengths // clips.time_stride, clips.steps_needed
    short = np.flatnonzero(steps < needed)
    if not len(short) or split != options.training_split:
        return dataclasses.replace(clips, num_too_short=len(short))
    if options.short_clips == "drop" and len(short) < len(clips):
        kept = clips.select(np.flatnonzero(steps >= needed))
        return dataclasses.replace(kept, num_too_short=len(short))
    first = int(short[0])
    raise TrainingError(
        "{num_short} of {num_clips} {split} clips are shorter than their glosses: "
        "{clip_id!r} has {num_frames} frames, {num_steps} steps of {time_stride}, "
        "and needs {num_needed}; set {--short-clips:drop}, or a smaller stride",
        num_short=len(short),
        num_clips=len(clips),
        split=split,
        clip_id=clips.keys[first][1],
        num_frames=clips.lengths[first],
        num_steps=steps[first],
        time_stride=clips.time_stride,
        num_needed=needed[first],
    )


def divide_into_splits(
    rows: list[LabelledClip],
    options: DataSettings,
    make: Callable[..., AnyClips],
    *,
    time_stride: int = 1,
    class_names: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
) -> dict[str, AnyClips]:
    """Return the sets by split; one without clips, or a clip too short for its glosses, is refused.

    `make` is called with the fields of `SplitClips` for each split. `class_names` are those of a
    trained model, else of the train split; `splits` are all where None.
    """
    is_share = not any(row.split == "dev" for row in rows)
    rows, train = divide(rows, options), options.training_split
    known = sort_splits({row.split for row in rows})
    wanted = [usual_split(name) for name in splits or ()]
    wanted = wanted or list(dict.fromkeys([train, *(row.split for row in rows)]))
    for split in wanted:
        if split not in known:
            template = "{path} has no clips of split {split!r}, only of {known}"
            raise TrainingError(template, path=options.path, split=split, known=", ".join(known))
    names = tuple(class_names) if class_names else _name_classes(rows, train, options.task)
    sets = {}
    for split in wanted:
        members = [row for row in rows if row.split == split]
        clips = make(
            rows=np.asarray([row.row for row in members], np.int64),
            targets=tuple(_targets_of(members, names, options.task)),
            keys=tuple((split, row.clip_id) for row in members),
            class_names=names,
            task=options.task,
            is_share=is_share and split == "dev",
            groups=tuple(row.group for row in members),
            group_column=members[0].group_column,
            time_stride=time_stride,
        )
        sets[split] = _check_lengths(clips, split, options)
    return sets


def divide(rows: list[LabelledClip], options: DataSettings) -> list[LabelledClip]:
    """Return the clips cut into folds, or with a dev share; those of no split are for training."""
    train_split, seed = options.training_split, options.split_seed
    rows = [row._replace(split=train_split) if row.split == "all" else row for row in rows]
    if options.leave_out:
        rows = _leave_out(rows, options)
    keys = [row.label if options.task == "classify" else "" for row in rows]
    if options.folds:
        if options.folds_by:
            fold = assign_group_folds(keys, [row.group for row in rows], options.folds, seed)
        else:
            fold = assign_folds(keys, options.folds, seed)
        rows = [
            row._replace(split="test" if of == options.fold else train_split)
            for row, of in zip(rows, fold, strict=True)
        ]
    if options.dev_share and not any(row.split == "dev" for row in rows):
        train = [index for index, row in enumerate(rows) if row.split == train_split]
        for chosen in pick_share([keys[index] for index in train], options.dev_share, seed):
            rows[train[chosen]] = rows[train[chosen]]._replace(split="dev")
    return rows


def _leave_out(rows: Sequence[LabelledClip], options: DataSettings) -> list[LabelledClip]:
    """Return the clips of one group as test and all others as train, whatever split they had.

    A clip whose label only its own group has is left out, and that is said.
    """
    column, value = options.left_out
    if value is None or not any(row.group == value for row in rows):
        there = ", ".join(sorted({row.group for row in rows}))
        raise ConfigError(
            "{--leave-out}: expected {column}=VALUE with a value that clips have "
            "({there}), got {leave_out!r}",
            column=column,
            there=there,
            leave_out=options.leave_out,
        )
    known = {row.label for row in rows if row.group != value}
    # Glosses of its own become <unk>.
    kept = [row for row in rows if options.task == "ctc" or row.label in known]
    if len(kept) < len(rows):
        template = (
            "{column} {value}: {num_clips} clips with labels that no other {column} has "
            "are not scored"
        )
        num_clips = len(rows) - len(kept)
        warn_once(Message(template, column=column, value=value, num_clips=num_clips))
    train = options.training_split
    return [row._replace(split="test" if row.group == value else train) for row in kept]


def _name_classes(rows: Sequence[LabelledClip], split: str, task: str) -> tuple[str, ...]:
    """Return the classes, or blank, unknown and the glosses, of the clips of the training split."""
    train = [row.label for row in rows if row.split == split]
    if task == "ctc":
        return (*_SPECIAL, *sorted({gloss for label in train for gloss in label.split()}))
    names = sorted(set(train), key=lambda name: (not name.isdigit(), name.zfill(12)))
    if len(names) == 1:
        raise TrainingError(
            "only one class in the training clips ({name!r}): nothing to tell apart; give "
            "clips of another label, too",
            name=names[0],
        )
    return tuple(names)


def _targets_of(rows: Sequence[LabelledClip], names: Sequence[str], task: str) -> list[Target]:
    """Return the class, or the glosses, of each clip as numbers."""
    index = {name: number for number, name in enumerate(names)}
    if task == "ctc":
        glosses = [[index.get(gloss, _UNKNOWN) for gloss in row.label.split()] for row in rows]
        return [np.asarray(numbers, np.int64) for numbers in glosses]
    for row in rows:
        if row.label not in index:
            raise TrainingError(
                "label {label!r} of {split} clip {clip_id!r} is not among the {num_classes} "
                "classes of the training clips: give training clips of it, or take its clips "
                "out of {split}",
                label=row.label,
                split=row.split,
                clip_id=row.clip_id,
                num_classes=len(names),
            )
    return [index[row.label] for row in rows]
