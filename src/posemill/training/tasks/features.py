"""What a frozen backbone says of each frame, computed once: then only a head is trained.

A training clip is drawn and augmented as in so many epochs (`views`); these draws are kept, and the
training goes through them again and again. Other clips are kept as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from posemill.messages import Message
from posemill.records import BoolArray, FloatArray
from posemill.training.data.batches import Batch, Draw, pad_targets
from posemill.training.data.cache import Store, Transform, precompute
from posemill.training.loggers import say
from posemill.training.models.video import Backbone, ClipTimes
from posemill.training.runtime import Runtime
from posemill.training.video.index import ClipPlace
from posemill.training.video.pixel_clips import PixelClips
from posemill.training.video.transform import ClipTransform
from posemill.training.video.video_clips import Item, VideoClips

_CLIPS_AT_ONCE = 2  # larger activations are mapped and unmapped anew for every layer


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureClips(PixelClips):
    """Clips of which a model is given features; epoch by epoch the next view of each clip.

    Args:
        store: Features `(T, 1, C)` of every view of every clip, clip after clip.
        num_views: Of each clip.
    """

    store: Store
    num_views: int

    gives_frames = False
    video = None
    grid = None

    def __getitems__(self, draws: Sequence[Draw]) -> Batch:
        """Return the batch of these draws; clips that could not be read do not count."""
        views = self.num_views
        rows = [self._row(draw.clip) * views + draw.epoch % views for draw in draws]
        features = [torch.from_numpy(self.store.read(row)[0][:, 0].copy()) for row in rows]
        weighted = [
            draw._replace(weight=draw.weight * float(each.abs().sum() > 0))
            for draw, each in zip(draws, features, strict=True)
        ]
        targets = [self.targets[draw.clip] for draw in draws]
        lengths = torch.tensor([len(each) for each in features])
        inputs = pad_sequence(features, batch_first=True), lengths
        return Batch(inputs, lengths=lengths, **pad_targets(targets, weighted))


def compute_features(
    clips: VideoClips,
    backbone: Backbone,
    *,
    num_views: int,
    runtime: Runtime,
    cache: str = "mmap",
    folder: Path | None = None,
) -> Store:
    """Return the features of all clips, computed where they are not kept from before.

    Args:
        clips: Of one split.
        backbone: Its weights are part of the key.
        num_views: Of each clip: as it is drawn in the epochs 0, 1, …
        runtime: Where and in which number format it runs.
        cache: See `precompute`.
        folder: Where caches are kept; the usual place by default.
    """
    parameters = {
        "weights": digest_of(backbone),
        "cells": backbone.cells,
        "sampling": str(clips.sampling),
        "size": [clips.size.size_wh, clips.size.resize],
        "augment": asdict(clips.augment) if clips.augment else None,
        "seed": clips.seed if clips.is_random else None,
        "decoder": clips.decoder,
        "views": num_views,
        "precision": runtime.precision.name,
    }
    backbone.to(runtime.device).to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    return precompute(
        _run(clips, backbone, num_views, runtime),
        Transform("features", lambda features, mask: (features, mask), parameters),
        content_key=content_key(clips.clips),
        kind=cache,
        folder=folder,
    )


def digest_of(backbone: Backbone) -> str:
    """Return the sha256 of a network's weights."""
    digest = hashlib.sha256()
    for name, value in sorted(backbone.state_dict().items()):
        digest.update(f"{name}{tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def content_key(places: Sequence[ClipPlace]) -> str:
    """Return a digest of which clips these are, by the size and time of their files."""
    rows = []
    for place in places:
        path = Path(place.path)
        # The time of a folder is not that of the pictures in it.
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        rows.append([place.path, facts, place.offset, place.start_seconds, place.end_seconds])
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _run(
    clips: VideoClips, backbone: Backbone, num_views: int, runtime: Runtime
) -> Iterator[tuple[FloatArray, BoolArray]]:
    """Yield features `(T, 1, C)` and mask `(T, 1)` of all views of a clip, clip after clip."""
    rows = [(clip, view) for clip in range(len(clips)) for view in range(num_views)]
    groups = [rows[at : at + _CLIPS_AT_ONCE] for at in range(0, len(rows), _CLIPS_AT_ONCE)]
    say(
        Message(
            "computing what the backbone says of {num_clips:clip|clips}, "
            "{num_draws:draw|draws} of each; it is kept for the next time",
            num_clips=len(clips),
            num_draws=num_views,
        )
    )
    transform = ClipTransform().to(next(backbone.parameters()).device)
    with ThreadPoolExecutor(1) as reader:  # decodes the next clips while the network looks at these
        coming = reader.submit(_read, clips, groups[0])
        for number in range(len(groups)):
            items = coming.result()
            if number + 1 < len(groups):
                coming = reader.submit(_read, clips, groups[number + 1])
            yield from _look_at(items, clips, backbone, transform=transform, runtime=runtime)


def _read(clips: VideoClips, rows: Sequence[tuple[int, int]]) -> list[Item | None]:
    return [clips.at_epoch(clip, view) for clip, view in rows]


@torch.inference_mode()
def _look_at(
    items: Sequence[Item | None],
    clips: VideoClips,
    backbone: Backbone,
    *,
    transform: ClipTransform,
    runtime: Runtime,
) -> list[tuple[FloatArray, BoolArray]]:
    there = [item for item in items if item is not None]
    found: Iterator[FloatArray] = iter(())
    if there:
        batch = clips.collate_fn(there)
        frames = batch["frames"].to(transform.mean.device)
        view = batch["view"].to(frames.device) if clips.augment else None
        with runtime.autocast():
            features = backbone(transform(frames, view).flatten(0, 1), ClipTimes(frames.shape[1]))
        features = features.float().cpu().reshape(*frames.shape[:2], 1, -1)
        found = (
            each[:length].numpy()
            for each, length in zip(features, batch["length"].tolist(), strict=True)
        )
    # A clip that cannot be read is one frame of zeros, which no network says of a picture.
    nothing = np.zeros((1, 1, backbone.num_features), np.float32)
    rows = [nothing if item is None else next(found) for item in items]
    return [(row, np.ones(row.shape[:2], bool)) for row in rows]
