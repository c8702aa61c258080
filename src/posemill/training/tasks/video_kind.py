"""Video as data of a training: lists and folders of videos, and what `posemill frames` wrote."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from posemill.decoders.sampling import Sampling
from posemill.errors import ConfigError, DecodeError
from posemill.machine.read_ahead import read_ahead
from posemill.messages import Message
from posemill.records import BoolArray, Clip, FloatArray
from posemill.sources.scan import list_pictures
from posemill.terminal import warn_caller
from posemill.training.config.train_config import FIELDS, TrainConfig
from posemill.training.data.batches import Batch, Draw, pad_targets
from posemill.training.data.cache import Store, precompute
from posemill.training.data.clips import Picture
from posemill.training.data.labels import LabelledClip, divide_into_splits
from posemill.training.loggers import say
from posemill.training.models.video import Backbone, ClipTimes
from posemill.training.precision import choose_device, choose_precision
from posemill.training.runtime import Runtime
from posemill.training.tasks.kinds import Kind, frames_per_step
from posemill.training.video.index import Index, fingerprint, read_index
from posemill.training.video.pixel_clips import (
    PixelClips,
    check_labels,
    make_batch,
    read_labelled,
)
from posemill.training.video.transform import ClipAugment, ClipTransform
from posemill.training.video.video_clips import VideoClips


class VideoKind(Kind):
    """Clips of pixels."""

    name = "video"

    def __init__(self) -> None:
        self.index = Index([], [])

    def read_rows(self, config: TrainConfig) -> list[LabelledClip]:
        """Return every clip with its label, split and group."""
        return read_labelled(config.data)[1]

    def load(
        self,
        config: TrainConfig,
        *,
        class_names: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
    ) -> Mapping[str, PixelClips]:
        """Return the clips by split; with `video_on_error = "raise"` all clips must be there."""
        index, rows = read_labelled(config.data)
        if config.task == "classify" and class_names is None:
            check_labels(index, rows, config.data.path)
        if config.video.on_error == "raise":
            index.expect_all(config.data.path)
        self.index, labels = index, {row.row: row.label for row in rows}
        places = tuple(
            dataclasses.replace(clip, label=labels.get(row)) for row, clip in enumerate(index.clips)
        )
        sampling = Sampling.parse(config.video.sampling)
        return divide_into_splits(
            rows,
            config.data,
            partial(PixelClips, all_places=places, sampling=sampling),
            time_stride=frames_per_step(config),
            class_names=class_names,
            splits=splits,
        )

    def open(self, config: TrainConfig, clips: PixelClips, *, is_training: bool) -> PixelClips:
        """Return clips that give batches; those of the training are drawn from and augmented."""
        reader = _open_videos(config, clips.places, is_training=is_training)
        opened = clips.opened(reader, least_size=int(FIELDS["video_size"].meta["least"]))
        if not config.video.precompute:
            return opened
        views = config.video.precompute if is_training else 1
        store = _compute_features(config, reader, self._frozen_backbone(config, clips), views)
        known = {field.name: getattr(opened, field.name) for field in dataclasses.fields(opened)}
        return FeatureClips(**known, store=store, num_views=views)

    def _frozen_backbone(self, config: TrainConfig, clips: PixelClips) -> Backbone:
        """Return the network whose features are computed once."""
        model: Any = self.build(self.identity(config, clips))
        if model.frozen_backbone is None:
            raise ConfigError(
                "{--video-precompute:{precompute}} keeps what a frozen network says of "
                "single frames: it needs {--model:tsn} with the options freeze_backbone=true "
                "and backbone=lite0, or other weights to begin with",
                precompute=config.video.precompute,
            )
        if config.video.flip:
            raise ConfigError(
                "{--video-precompute} keeps the label of each clip: leave {--video-flip} out"
            )
        if config.optimisation.multigrid:
            raise ConfigError(
                "{--video-precompute} keeps clips of one shape: leave {--multigrid:True} out"
            )
        model.load_pretrained()
        backbone: Backbone = model.frozen_backbone
        return backbone

    def notes(self, config: TrainConfig, sets: Mapping[str, PixelClips]) -> Iterator[str]:
        """Yield what is missing or short, and the classes that a split has no clip of."""
        missing = self.index.missing
        if missing:
            total = len(missing) + len(self.index.clips)
            yield Message(
                "{num_missing} of {total} clips of {path} are not there and are left out, the "
                "first should be {first_path}",
                num_missing=len(missing),
                total=total,
                path=config.data.path,
                first_path=missing[0].path,
            )
        short = sum(clips.num_short for clips in sets.values())
        if short:
            yield Message(
                "{num_clips:clip has|clips have} fewer frames than {sampling} takes: some of "
                "theirs are shown more than once",
                num_clips=short,
                sampling=config.video.sampling,
            )
        if config.task == "classify":
            for split, clips in sets.items():
                known = {int(number) for number in clips.targets}
                lost = [name for i, name in enumerate(clips.class_names) if i not in known]
                if lost:
                    yield Message(
                        "{split} has no clip of {num_classes:class|classes} ({names}{more}): its "
                        "scores say nothing of them",
                        split=split,
                        num_classes=len(lost),
                        names=", ".join(lost[:3]),
                        more=" …" if len(lost) > 3 else "",
                    )

    def new_clips(
        self, config: TrainConfig, identity: Mapping[str, Any], clips: Any
    ) -> Iterator[tuple[Picture, Batch]]:
        """Yield each clip; of several, one that cannot be read is warned of."""
        paths = [clips] if isinstance(clips, (str, os.PathLike)) else list(clips)
        if others := [path for path in paths if not isinstance(path, (str, os.PathLike))]:
            template = "{run} was trained on video: expected paths of videos, got a {kind}"
            raise ConfigError(template, run=config.out, kind=type(others[0]).__name__)
        places = [
            dataclasses.replace(place, label="") for path in paths for place in clips_at(Path(path))
        ]
        once = config.replace(cache="none", video_on_error="raise")  # they are looked at once
        data = _open_videos(once, places, is_training=False)
        for number, place in enumerate(places):
            try:
                item = data.at_epoch(number, 0)
            except DecodeError as error:
                if len(places) == 1:
                    raise
                warn_caller(str(error))
                continue
            if item is not None:
                batch = make_batch(data, [item], [0], [Draw(number)])
                yield Picture(place.clip_id, frames=batch.inputs[0][0].numpy()), batch


def _open_videos(config: TrainConfig, places: Sequence[Clip], *, is_training: bool) -> VideoClips:
    """Return clips as the settings say they are read; those of the training are augmented."""
    video, augment, on_error = config.video, None, config.video.on_error
    if is_training:
        # Glosses of ctc do not change when mirrored.
        is_open = config.task == "classify" and not video.flip_labels
        augment = ClipAugment(
            scale=(video.scale, 1.0),
            mirror=video.flip,
            mirror_labels=None if is_open else video.flip_labels,
            brightness=video.colour,
            contrast=video.colour,
            saturation=video.colour,
            erase=video.erase,
        )
    elif on_error == "replace":
        on_error = "drop"  # a clip that stands for another would be scored twice
    return VideoClips(
        Index(list(places), []),
        sampling=video.sampling,
        size=video.size,
        resize=video.resize,
        is_training=is_training,
        augment=augment,
        decoder=video.decoder,
        on_error=on_error,
        # Computed once, draws serve trainings of every seed.
        seed=0 if video.precompute else config.seed,
        cache=config.cache != "none" and not config.video.precompute,
        cache_folder=config.cache_folder or None,
    )


def clips_at(path: Path) -> list[Clip]:
    """Return the clips of a path; a folder that holds pictures itself is one."""
    if path.is_dir() and list_pictures(str(path)):
        return [Clip(path.name, str(path), "frames")]
    return read_index(path).clips


# What a frozen backbone says of each frame is computed once: then only a head is trained.
# A training clip is drawn and augmented as in so many epochs (`views`); these draws are kept, and
# the training goes through them again and again. Other clips are kept as they are.

_CLIPS_AT_ONCE = 2  # larger activations are mapped and unmapped anew for every layer


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureClips(PixelClips):
    """Clips of which a model is given features; epoch by epoch the next view of each clip."""

    store: Store  # features `(T, 1, C)` of every view of every clip, clip after clip
    num_views: int

    gives_frames = False
    video = None
    grid = None

    def __getitems__(self, draws: Sequence[Draw]) -> Batch:
        """Return the batch of these draws; clips that could not be read do not count."""
        views = self.num_views
        rows = [int(self.rows[draw.clip]) * views + draw.epoch % views for draw in draws]
        features = [torch.from_numpy(self.store.read(row)[0][:, 0].copy()) for row in rows]
        weighted = [
            draw._replace(weight=draw.weight * float(each.abs().sum() > 0))
            for draw, each in zip(draws, features, strict=True)
        ]
        targets = [self.targets[draw.clip] for draw in draws]
        lengths = torch.tensor([len(each) for each in features])
        inputs = pad_sequence(features, batch_first=True), lengths
        return Batch(inputs, lengths=lengths, **pad_targets(targets, weighted))


def _compute_features(
    config: TrainConfig, clips: VideoClips, backbone: Backbone, num_views: int
) -> Store:
    """Return the features of all clips, computed where they are not kept from before.

    Of each clip there are `num_views`: as it is drawn in the epochs 0, 1, … The weights of the
    backbone are part of the key.
    """
    device = choose_device(config.device)
    runtime = Runtime(device=device, precision=choose_precision(config.precision, device))
    weights = hashlib.sha256()
    for name, value in sorted(backbone.state_dict().items()):
        weights.update(f"{name}{tuple(value.shape)}".encode())
        weights.update(value.detach().cpu().contiguous().numpy().tobytes())
    parameters = {
        "weights": weights.hexdigest(),
        "cells": backbone.cells,
        "sampling": str(clips.sampling),
        "size": [clips.size.size_wh, clips.size.resize],
        "augment": asdict(clips.augment) if clips.augment else None,
        "seed": clips.seed if clips.is_random else None,
        "decoder": clips.decoder,
        "views": num_views,
        "precision": runtime.precision.name,
    }
    backbone.to(device).to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    return precompute(
        _look_at(clips, backbone, num_views, runtime),
        key=json.dumps([list(map(fingerprint, clips.clips)), parameters], sort_keys=True),
        # Features are small: only who says so has them made anew.
        kind=config.cache if "cache" in config.given else "mmap",
        folder=Path(config.data.cache_folder) if config.data.cache_folder else None,
    )


@torch.inference_mode()
def _look_at(
    clips: VideoClips, backbone: Backbone, num_views: int, runtime: Runtime
) -> Iterator[tuple[FloatArray, BoolArray]]:
    """Yield features `(T, 1, C)` and mask `(T, 1)` of all views of a clip, clip after clip."""
    template = (
        "computing what the backbone says of {num_clips:clip|clips}, {num_draws:draw|draws} of "
        "each; it is kept for the next time"
    )
    say(Message(template, num_clips=len(clips), num_draws=num_views))
    transform = ClipTransform().to(runtime.device)
    draws = [(clip, view) for clip in range(len(clips)) for view in range(num_views)]
    groups = (
        [clips.at_epoch(clip, view) for clip, view in draws[start : start + _CLIPS_AT_ONCE]]
        for start in range(0, len(draws), _CLIPS_AT_ONCE)
    )
    for items in read_ahead(groups, depth=1):  # decoded while the network looks at those before
        # A clip that cannot be read is one frame of zeros, which no network says of a picture.
        rows = [np.zeros((1, 1, backbone.num_features), np.float32) for _ in items]
        readable = {place: item for place, item in enumerate(items) if item is not None}
        if readable:
            batch = clips.collate_fn(list(readable.values()))
            frames = batch["frames"].to(runtime.device)
            view = batch["view"].to(runtime.device) if clips.augment else None
            with runtime.autocast():
                pictures = transform(frames, view).flatten(0, 1)
                features = backbone(pictures, ClipTimes(frames.shape[1]))
            features = features.float().cpu().reshape(*frames.shape[:2], 1, -1)
            lengths = batch["length"].tolist()
            for place, clip, length in zip(readable, features, lengths, strict=True):
                rows[place] = clip[:length].numpy()
        yield from ((row, np.ones(row.shape[:2], bool)) for row in rows)
