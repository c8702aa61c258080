"""Video as data of a training: lists and folders of videos, and what `posemill frames` wrote."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from posemill.decoders.opening import PICTURE_SUFFIXES, suffix_of
from posemill.decoders.sampling import Sampling
from posemill.errors import ConfigError, DecodeError, SourceError
from posemill.messages import Message
from posemill.terminal import warn_caller
from posemill.training.config.train_config import FIELDS, TrainConfig
from posemill.training.data.batches import Draw
from posemill.training.data.clips import Picture
from posemill.training.data.labels import LabelledClip
from posemill.training.models import time_stride_of
from posemill.training.models.video import Backbone
from posemill.training.precision import choose_device, choose_precision
from posemill.training.runtime import Runtime
from posemill.training.tasks.features import FeatureClips, compute_features
from posemill.training.tasks.kinds import Kind, NewClip
from posemill.training.video.index import ClipPlace, Index, read_index
from posemill.training.video.pixel_clips import (
    PixelClips,
    load_videos,
    make_batch,
    read_labelled,
)
from posemill.training.video.transform import ClipAugment
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
        model = config.model
        stride = time_stride_of(model.name, **model.options) if config.task == "ctc" else 1
        sets, self.index = load_videos(
            config.data,
            Sampling.parse(config.video.sampling),
            class_names=class_names,
            splits=splits,
            time_stride=stride,
        )
        if self.index.missing and config.video.on_error == "raise":
            clip = self.index.missing[0]
            raise SourceError(
                "{path} is not there: clip {clip_id!r} of {data}",
                path=clip.path,
                clip_id=clip.clip_id,
                data=config.data.path,
            )
        return sets

    def open(self, config: TrainConfig, clips: PixelClips, *, is_training: bool) -> PixelClips:
        """Return clips that give batches; those of the training are drawn from and augmented."""
        augment = make_augment(config) if is_training else None
        rule = config.video.on_error
        if not is_training and rule == "replace":
            rule = "drop"  # a clip that stands for another would be scored twice
        # Computed once, draws serve trainings of every seed.
        seed = 0 if config.video.precompute else config.seed
        reader = open_videos(
            config, clips.places, is_training=is_training, augment=augment, on_error=rule, seed=seed
        )
        opened = clips.opened(reader, least_size=int(FIELDS["video_size"].meta["least"]))
        if not config.video.precompute:
            return opened
        views = config.video.precompute if is_training else 1
        device = choose_device(config.device)
        store = compute_features(
            reader,
            self._frozen_backbone(config, clips),
            num_views=views,
            runtime=Runtime(device=device, precision=choose_precision(config.precision, device)),
            # Features are small: only who says so has them made anew.
            cache=config.cache if "cache" in config.given else "mmap",
            folder=Path(config.data.cache_folder) if config.data.cache_folder else None,
        )
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
                lost = set(range(len(clips.class_names))) - {int(one) for one in clips.targets}
                if lost:
                    more = " …" if len(lost) > 3 else ""
                    names = ", ".join(clips.class_names[number] for number in sorted(lost)[:3])
                    yield Message(
                        "{split} has no clip of {num_classes:class|classes} ({names}{more}): its "
                        "scores say nothing of them",
                        split=split,
                        num_classes=len(lost),
                        names=names,
                        more=more,
                    )

    def new_clips(
        self, config: TrainConfig, identity: Mapping[str, Any], clips: Any
    ) -> Iterator[NewClip]:
        """Yield each clip; of several, one that cannot be read is warned of."""
        paths = [clips] if isinstance(clips, (str, os.PathLike)) else list(clips)
        for path in paths:
            if not isinstance(path, (str, os.PathLike)):
                raise ConfigError(
                    "{run} was trained on video: expected videos, folders or lists of them, got a "
                    "{kind}",
                    run=config.out,
                    kind=type(path).__name__,
                )
        places = [
            dataclasses.replace(place, label="")
            for path in paths
            for place in _clips_at(Path(path))
        ]
        once = config.replace(cache="none")  # they are looked at once
        data = open_videos(once, places, is_training=False)
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
                picture = Picture(place.clip_id, frames=batch.inputs[0][0].numpy())
                yield NewClip(picture, batch)


def open_videos(
    config: TrainConfig,
    places: Sequence[ClipPlace],
    *,
    is_training: bool,
    augment: ClipAugment | None = None,
    on_error: str = "raise",
    seed: int = 0,
) -> VideoClips:
    """Return clips as the settings say they are read."""
    video = config.video
    return VideoClips(
        Index(list(places), []),
        sampling=video.sampling,
        size=video.size,
        resize=video.resize,
        is_training=is_training,
        augment=augment,
        decoder=video.decoder,
        on_error=on_error,
        seed=seed,
        cache=config.cache != "none" and not config.video.precompute,
        cache_folder=config.cache_folder or None,
    )


def make_augment(config: TrainConfig) -> ClipAugment:
    """Return how training clips are augmented; glosses of ctc do not change when mirrored."""
    video = config.video
    is_open = config.task == "classify" and not video.flip_labels
    mirror_labels = None if is_open else video.flip_labels
    return ClipAugment(
        scale=(video.scale, 1.0),
        mirror=video.flip,
        mirror_labels=mirror_labels,
        brightness=video.colour,
        contrast=video.colour,
        saturation=video.colour,
        erase=video.erase,
    )


def _clips_at(path: Path) -> list[ClipPlace]:
    """Return the clips of a path; a folder that holds pictures itself is one."""
    if path.is_dir() and any(suffix_of(each.name) in PICTURE_SUFFIXES for each in path.iterdir()):
        return [ClipPlace(path.name, str(path), "frames")]
    return read_index(path).clips


def videos_at(path: Path) -> list[tuple[str, str]]:
    """Return id and path of each video, or folder of pictures, at a path."""
    return [(place.clip_id, place.path) for place in _clips_at(path)]
