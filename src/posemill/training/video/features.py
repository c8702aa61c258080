"""What a frozen backbone says of each frame, computed once: then only a head is trained.

A training clip is drawn and augmented as in so many epochs (`views`); these draws are kept, and the
training goes through them again and again. Other clips are kept as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from posemill.records import BoolArray, FloatArray, IntArray
from posemill.terminal import counted
from posemill.training.data.batches import Batch, Draw, pad_targets
from posemill.training.data.cache import Store, Transform, precompute
from posemill.training.loop.precision import Precision, choose_precision
from posemill.training.models.video.base import Backbone, ClipTimes
from posemill.training.runs.logs import say
from posemill.training.video.index import ClipPlace
from posemill.training.video.transform import ClipTransform
from posemill.training.video.video_clips import Item, VideoClips

_CLIPS_AT_ONCE = 2  # larger activations are mapped and unmapped anew for every layer


class FeatureBatches(Dataset[Batch]):
    """Makes a whole batch from a list of draws; epoch by epoch the next view of each clip.

    Args:
        store: Features `(T, 1, C)` of every view of every clip, clip after clip.
        num_views: Of each clip.
        targets: Class, or gloss indices `(L,)`, of each clip.
    """

    def __init__(self, store: Store, num_views: int, targets: Sequence[int | IntArray]) -> None:
        self._store, self._num_views, self._targets = store, num_views, targets

    def __len__(self) -> int:
        return len(self._targets)

    def __getitem__(self, draw: Any) -> Batch:
        return self.__getitems__([draw])

    def __getitems__(self, draws: Sequence[Draw]) -> Batch:
        """Return the batch of these draws; clips that could not be read do not count."""
        rows = [draw.clip * self._num_views + draw.epoch % self._num_views for draw in draws]
        features = [torch.from_numpy(self._store.read(row)[0][:, 0].copy()) for row in rows]
        weighted = [
            draw._replace(weight=draw.weight * float(found.abs().sum() > 0))
            for draw, found in zip(draws, features, strict=True)
        ]
        targets = [self._targets[draw.clip] for draw in draws]
        lengths = torch.tensor([len(each) for each in features])
        inputs = pad_sequence(features, batch_first=True), torch.empty(len(draws), 0), lengths
        return Batch(inputs, lengths=lengths, **pad_targets(targets, weighted))


def compute_features(
    clips: VideoClips,
    backbone: Backbone,
    *,
    num_views: int,
    precision: str,
    device: torch.device,
    cache: str = "mmap",
    folder: Path | None = None,
) -> Store:
    """Return the features of all clips, computed where they are not kept from before.

    Args:
        clips: Of one split.
        backbone: Its weights are part of the key.
        num_views: Of each clip: as it is drawn in the epochs 0, 1, …
        precision: Of the forward pass; see `choose_precision`.
        device: Where it runs.
        cache: See `precompute`.
        folder: Where caches are kept; the usual place by default.
    """
    chosen = choose_precision(precision, device)
    parameters = {
        "weights": digest_of(backbone),
        "cells": backbone.cells,
        "sampling": str(clips.sampling),
        "size": [clips.size.size_wh, clips.size.resize],
        "augment": asdict(clips.augment) if clips.augment else None,
        "seed": clips.seed if clips.is_random else None,
        "decoder": clips.decoder,
        "views": num_views,
        "precision": chosen.name,
    }
    backbone.to(device).to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    return precompute(
        _run(clips, backbone, num_views, chosen),
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
    clips: VideoClips, backbone: Backbone, num_views: int, precision: Precision
) -> Iterator[tuple[FloatArray, BoolArray]]:
    """Yield features `(T, 1, C)` and mask `(T, 1)` of all views of a clip, clip after clip."""
    rows = [(clip, view) for clip in range(len(clips)) for view in range(num_views)]
    groups = [rows[at : at + _CLIPS_AT_ONCE] for at in range(0, len(rows), _CLIPS_AT_ONCE)]
    say(
        f"computing what the backbone says of {counted(len(clips), 'clips')}, "
        f"{counted(num_views, 'draws')} of each; it is kept for the next time"
    )
    transform = ClipTransform().to(next(backbone.parameters()).device)
    with ThreadPoolExecutor(1) as reader:  # decodes the next clips while the network looks at these
        coming = reader.submit(_read, clips, groups[0])
        for number in range(len(groups)):
            items = coming.result()
            if number + 1 < len(groups):
                coming = reader.submit(_read, clips, groups[number + 1])
            yield from _look_at(items, clips, backbone, transform=transform, precision=precision)


def _read(clips: VideoClips, rows: Sequence[tuple[int, int]]) -> list[Item | None]:
    return [clips.at_epoch(clip, view) for clip, view in rows]


@torch.inference_mode()
def _look_at(
    items: Sequence[Item | None],
    clips: VideoClips,
    backbone: Backbone,
    *,
    transform: ClipTransform,
    precision: Precision,
) -> list[tuple[FloatArray, BoolArray]]:
    there = [item for item in items if item is not None]
    found: Iterator[FloatArray] = iter(())
    if there:
        batch = clips.collate_fn(there)
        frames = batch["frames"].to(transform.mean.device)
        view = batch["view"].to(frames.device) if clips.augment else None
        with precision.autocast():
            features = backbone(transform(frames, view).flatten(0, 1), ClipTimes(frames.shape[1]))
        features = features.float().cpu().reshape(*frames.shape[:2], 1, -1)
        found = (each[:length].numpy() for each, length in zip(features, batch["length"].tolist(),
                                                                strict=True))  # fmt: skip
    # A clip that cannot be read is one frame of zeros, which no network says of a picture.
    nothing = np.zeros((1, 1, backbone.num_features), np.float32)
    rows = [nothing if item is None else next(found) for item in items]
    return [(row, np.ones(row.shape[:2], bool)) for row in rows]
