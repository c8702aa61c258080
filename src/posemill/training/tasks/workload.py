"""What a training works on: a model, clips and a task; `build_workload` makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from posemill.errors import ConfigError, RunError, TrainingError
from posemill.messages import Message, Option
from posemill.records import FloatArray, IntArray, sort_splits, usual_split
from posemill.training.config.data_settings import DEV_SHARE
from posemill.training.config.kinds import KEYPOINTS, KINDS
from posemill.training.config.resolve import with_data_kind
from posemill.training.config.train_config import FIELDS, TrainConfig
from posemill.training.data.clips import Clips
from posemill.training.data.readers import refuse_missing
from posemill.training.models import MODELS_OF, input_of
from posemill.training.models.base import Model
from posemill.training.tasks.kinds import Kind, find_kind
from posemill.training.tasks.task import Task, make_task


@dataclass(frozen=True)
class Moment:
    """A moment of a training, for `on_step`, `on_evaluate` and `on_epoch`.

    Args:
        step: Optimizer steps taken.
        epoch: Epochs completed; in `on_step` those before this one.
        model: With its present weights, on its device.
        lr: Learning rate of the last step, of the first group.
        is_first: True in the one process that should write files.
        out: Folder of the run.
        scores: Of the validation set; empty but in `on_evaluate`.
    """

    step: int
    epoch: int
    model: nn.Module
    optimizer: Any
    lr: float
    is_first: bool
    out: Path
    _stepper: Any = field(repr=False)
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """Mean loss of the last step, over all processes; reading it waits for the device."""
        return float(self._stepper.last_loss())


@dataclass
class Workload:
    """All that one process needs to train.

    Args:
        model: On the CPU, weights as they start.
        val: Clips that choose the best checkpoint, or None.
        identity: What makes two models the same, for checkpoints: name, options, sizes.
        tests: Splits scored once, at the end, by name.
        recipe: How `posemill prepare` made the data, to do the same to new clips.
        find_leaks: Returns sentences on clips of both sides of a split; it may take a second.
        decided: Settings that the data decided, by flat name, and why.
        set_aside: Digests of the scored clips that no split of the data names, by split.
        make_optimizer: The user's own, built for a model; None builds what the settings say.
        callbacks: A user's functions by name, each called in every process; True ends the training.
        draw_sample: `draw_sample(axes, sample, output)` draws one sample of `fit`.
    """

    model: nn.Module
    train: Clips
    val: Clips | None
    task: Task
    identity: Mapping[str, Any]
    tests: Mapping[str, Clips] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    skeleton_name: str | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    find_leaks: Callable[[], list[str]] = list
    decided: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    set_aside: Mapping[str, str] = field(default_factory=dict)
    make_optimizer: Callable[[nn.Module, Any, Any], Any] | None = None
    callbacks: Mapping[str, Callable[[Moment], Any]] = field(default_factory=dict)
    loggers: tuple[Any, ...] = ()
    draw_sample: Callable[[Any, Any, Any], None] | None = None


MakeWorkload = Callable[[], Workload]
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
    _check_model(config, kind.name)
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
    names = [usual_split(name) for name in (config.val_split, config.test_split)]
    scored = {name: sets[name] for name in names if name in sets}
    decided = dict(kind.decided(config, train))
    if config.dev_fraction is None and "dev" in sets and sets["dev"].is_share:
        decided["dev_fraction"] = DEV_SHARE, Message("no dev split in the data")
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
        find_leaks=partial(_find_leaks, config, {"train": train, **scored}),
        decided=decided,
        set_aside={
            name: clips.digest for name, clips in scored.items() if clips.is_share or config.folds
        },
    )


def check_shares(facts: Mapping[str, Any], found: Mapping[str, str], run: Path | str) -> None:
    """Raise where scored clips are not those that a run has set aside: it trained on some."""
    before = facts.get("set_aside")
    for split, digest in found.items():
        if isinstance(before, dict) and before.get(split, digest) != digest:
            raise RunError(
                "{run}: its data or labels changed, so other clips are set aside as {split} now; "
                "it trained on some of them: put back what it began with, or train anew",
                run=run,
                split=split,
            )


def _check_model(config: TrainConfig, kind: str) -> None:
    """Raise `ConfigError` for a model of another kind of data; other packages bring their own."""
    is_named = kind in KINDS or "model" in config.given
    takes = input_of(config.model.name) if is_named else kind
    if takes != kind:
        raise ConfigError(
            "model {model} takes {takes}, and {path} is {kind}; it takes {models}",
            model=config.model.name,
            takes=takes,
            path=config.data.path,
            kind=kind,
            models=", ".join(MODELS_OF.get(kind, ())) or Message("a model of its own"),
        )


def _find_leaks(config: TrainConfig, sets: Sets) -> list[str]:
    found = list(describe_shared_groups(sets))
    if config.unit == "clip":  # single frames of one clip are alike, which is said already
        found += describe_near_clips(sets)
    return found


def _notes_of(sets: Sets, val: Clips | None, config: TrainConfig) -> Iterator[str]:
    """Yield what a user should know of the splits before the training begins."""
    dev = sets.get("dev")
    if dev is not None and dev.is_share and config.dev_fraction is None:
        total = len(dev) + len(sets[config.data.training_split])
        both = Message("; frames of one clip may be on both sides")
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


# Clips of the training that are in a scored split too, all but the same, make scores that flatter.
# People record many takes at once, cut one recording into clips, or copy files. What a model then
# knows of the scored clips is more than it will know of new ones.

# Clips that are looked at; a second of work where each is a video to be opened.
MOST_TRAINING, MOST_SCORED = 300, 100
# As shares of the usual distance of two training clips. Takes of one signer in a row lay at 0.13
# and above (signs48, signers6), clips of other videos at 0.14 and above (JHMDB), of a webcam at 0.3
# and above (gestures5); those cut out of one recording at 0.03 to 0.24, half below 0.11
# (sign_videos6).
_NEAR, _SAME = 0.1, 0.005
_LEAST_SHARE = 0.1  # of near ones: a few may be chance


def describe_shared_groups(sets: Mapping[str, Clips]) -> Iterator[str]:
    """Yield a sentence for each split that has groups of the training clips."""
    column = sets["train"].group_column
    known = {group for group in sets["train"].groups if group}
    for split, clips in sets.items():
        others = [group for group in clips.groups if group]
        both, num_values = set(others) & known, len(known | set(others))
        if split == "train" or not both or num_values < 2:  # of one alone nothing is left out
            continue
        inside = sum(group in both for group in others)
        yield Message(
            "{num_inside} of {num_clips} {split} clips are of a {column} that training "
            "clips are of ({num_shared} of {num_values} values): scores of {split} say "
            "little of another {column}; {--leave-out:{column}} does, or "
            "{--folds:{num_folds}} {--folds-by:{column}}",
            num_inside=inside,
            num_clips=len(others),
            split=split,
            column=column,
            num_shared=len(both),
            num_values=len(set(others)),
            num_folds=min(5, num_values),
        )


def describe_near_clips(sets: Mapping[str, Clips]) -> Iterator[str]:
    """Yield a sentence on training clips under two labels, and for each split with near copies."""
    chosen = _some(len(sets["train"]), MOST_TRAINING)
    train = sets["train"].features(chosen)
    is_known = np.isfinite(train).all(1)  # of NaN it cannot be told
    train, chosen = train[is_known], chosen[is_known]
    if len(train) >= 8:
        yield from _describe_two_labels(sets["train"], train, chosen)
    for split, clips in sets.items():
        if split == "train" or len(train) < 8:
            continue
        scored = clips.features(_some(len(clips), MOST_SCORED))
        scored = scored[np.isfinite(scored).all(1)]
        if not len(scored):
            continue
        nearest = distance_shares(train, scored).min(1)
        column = sets["train"].group_column or "COLUMN"
        same, near = int((nearest < _SAME).sum()), int((nearest < _NEAR).sum())
        known = {"num_clips": len(scored), "split": split}
        if same:
            template = (
                "{num_same} of {num_clips} {split} clips looked at are copies of training "
                "clips: scores of {split} count what was learned by heart"
            )
            yield Message(template, num_same=same, **known)
        elif near >= _LEAST_SHARE * len(scored):
            template = (
                "{num_near} of {num_clips} {split} clips looked at are nearly the same as a "
                "training clip, as clips recorded at once are: scores of {split} flatter; "
                "{--leave-out:{column}}, with a column that says what was recorded together, "
                "tells what new recordings would get"
            )
            yield Message(template, num_near=near, column=column, **known)


def _describe_two_labels(clips: Clips, features: FloatArray, chosen: IntArray) -> Iterator[str]:
    """Yield a sentence where some of these clips are copies of one with another label."""
    labels = [np.asarray(clips.targets[int(index)]).tobytes() for index in chosen]
    differ = np.array(labels)[:, None] != np.array(labels)
    first, second = np.nonzero((distance_shares(features, features) < _SAME) & differ)
    if len(first):
        names = [clips.keys[int(chosen[pair[0]])][1] for pair in (first, second)]
        template = (
            "{num_copies} of {num_clips} training clips looked at are copies of one with "
            "another label, the first {name!r} and {other_name!r}: one of the labels is "
            "wrong, and no model can learn both"
        )
        counts = {"num_copies": len(set(first.tolist())), "num_clips": len(chosen)}
        yield Message(template, **counts, name=names[0], other_name=names[1])


def distance_shares(train: FloatArray, scored: FloatArray) -> FloatArray:
    """Return how far training clips `(M, F)` are from `(N, F)` others or the same, `(N, M)`.

    As a share of what is usual among the training clips.
    """
    spread = train.std(0)
    varies = spread > 1e-6 * max(1.0, float(np.abs(train).max()))
    if not varies.any():
        return np.ones((len(scored), len(train)), np.float32)
    train, scored = (part[:, varies] / spread[varies] for part in (train, scored))
    half = len(train) // 2
    usual = np.median(np.linalg.norm(train[:half] - train[half : 2 * half], axis=1))
    apart = (scored**2).sum(1)[:, None] + (train**2).sum(1) - 2 * scored @ train.T
    found: FloatArray = np.sqrt(np.maximum(0, apart)) / max(float(usual), 1e-12)
    return found


def _some(count: int, most: int) -> IntArray:
    """Return the places of at most so many of a number of clips, evenly."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
