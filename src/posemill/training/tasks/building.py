"""From a configuration to a workload: the data, the model, the loss and the scorers of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from posemill.errors import ConfigError, TrainingError
from posemill.messages import Message, Option
from posemill.records import sort_splits, usual_split
from posemill.training.config.data_settings import DEV_SHARE
from posemill.training.config.kinds import KEYPOINTS
from posemill.training.config.resolve import with_data_kind
from posemill.training.config.train_config import FIELDS, TrainConfig
from posemill.training.config.unused import refuse_other_kind
from posemill.training.data.clips import Clips
from posemill.training.data.leaks import describe_near_clips, describe_shared_groups
from posemill.training.data.readers import refuse_missing
from posemill.training.models.base import Model
from posemill.training.tasks.kinds import Kind, find_kind, kind_of_identity
from posemill.training.tasks.task import make_task
from posemill.training.tasks.workload import Workload

Sets = Mapping[str, Clips]


def build_workload(config: TrainConfig) -> Workload:
    """Return what `config` asks to train; wrong data is an error before anything is computed."""
    if not config.data.path:
        raise ConfigError(
            "{--data}: expected the folder `posemill prepare` or `posemill frames` "
            "wrote, an npz, or a list of videos; got none"
        )
    config = with_data_kind(config)
    kind = find_kind(config.data.kind)
    if kind.name == KEYPOINTS:  # or a path with a slip of the pen
        refuse_missing(config.data.path)
    refuse_other_kind(config, kind.name)
    sets = kind.load(config)
    train: Any = _pick(sets, "train_split", config)
    identity = kind.identity(config, train)
    torch.manual_seed(config.seed)
    model = kind.build(identity)
    if isinstance(model, Model):
        model.load_pretrained()
        model.eval_scales = tuple(config.output.eval_scales)
    val = _find_scored(sets, "val_split", config, kind)
    test = _find_scored(sets, "test_split", config, kind)
    return Workload(
        model=model,
        train=kind.open(config, train, is_training=True),
        val=val,
        task=make_task(config),
        identity=identity,
        tests={config.test_split: test} if test else {},
        class_names=train.class_names,
        skeleton_name=identity.get("skeleton_name"),
        recipe=kind.recipe(config),
        notes=(*_notes_of(sets, val, config), *kind.notes(config, sets)),
        find_leaks=partial(_find_leaks, config, _scored_sets(sets, train, config)),
        decided={**_decided_share(sets, config), **kind.decided(config, train)},
    )


def _scored_sets(sets: Sets, train: Clips, config: TrainConfig) -> Sets:
    """The training clips, and those of the splits that this training scores."""
    names = [usual_split(name) for name in (config.val_split, config.test_split)]
    return {"train": train, **{name: sets[name] for name in names if name in sets}}


def _find_leaks(config: TrainConfig, sets: Sets) -> list[str]:
    found = list(describe_shared_groups(sets))
    if config.unit == "clip":  # single frames of one clip are alike, which is said already
        found += describe_near_clips(sets)
    return found


def _decided_share(sets: Sets, config: TrainConfig) -> dict[str, tuple[Any, str]]:
    if config.dev_fraction is None and "dev" in sets and sets["dev"].is_share:
        return {"dev_fraction": (DEV_SHARE, Message("no dev split in the data"))}
    return {}


def _notes_of(sets: Sets, val: Clips | None, config: TrainConfig) -> Iterator[str]:
    """Yield what a user should know of the splits before the training begins."""
    dev = sets.get("dev")
    if dev is not None and dev.is_share and config.dev_fraction is None:
        both = Message("; frames of one clip may be on both sides")
        total = len(dev) + len(sets[config.data.training_split])
        yield Message(
            "no dev split in {path}: {num_dev} of {total} training clips are set aside "
            "for it (share {share}, {--split-seed:{split_seed}}); {--dev-fraction} sets "
            "the share, 0 keeps them all{both}",
            path=config.data.path,
            num_dev=len(dev),
            total=total,
            share=DEV_SHARE,
            split_seed=config.split_seed,
            both=both if config.unit == "frame" else "",
        )
    if val is None:
        yield Message(
            "no dev split: nothing is scored during the training, and the last weights count"
        )
    for name in sort_splits(sets):
        is_training = name == config.data.training_split
        if sentence := describe_too_short(sets[name], name, is_training=is_training):
            yield sentence


def describe_too_short(clips: Clips, split: str, *, is_training: bool) -> str:
    """Return what is to be said of clips too short for their glosses; empty where none is."""
    if not clips.num_too_short:
        return ""
    template = (
        "{split}: {num_short} of {num_clips} clips are too short for their glosses, which no "
        "alignment can spell: the loss is that of the others, and the word error rate counts them"
    )
    if is_training:
        template = "{split}: {num_short} clips too short for their glosses were left out"
    return Message(template, split=split, num_short=clips.num_too_short, num_clips=len(clips))


def _find_scored(sets: Sets, field: str, config: TrainConfig, kind: Kind) -> Clips | None:
    """Return a split to be scored; None where it is empty or the usual one and not there."""
    name = getattr(config.data, field)
    if not name or (name == FIELDS[field].default and name not in sets):
        return None
    return kind.open(config, _pick(sets, field, config), is_training=False)


def build_from(identity: Mapping[str, Any]) -> nn.Module:
    """Return a new model as the `identity` of a workload describes it."""
    return kind_of_identity(identity).build(identity)


def _pick(sets: Sets, field: str, config: TrainConfig) -> Clips:
    name = getattr(config.data, field)
    if usual_split(name) not in sets:
        raise TrainingError(
            "{option}: {path} has clips of {splits} only; name one of these",
            option=Option(field, name),
            path=config.data.path,
            splits=", ".join(sort_splits(sets)),
        )
    return sets[usual_split(name)]
