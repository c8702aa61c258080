"""Clips of pixels in batches of the training, and how a model is called with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from posemill.records import IntArray
from posemill.training.data.batches import Batch, Draw, pad_targets
from posemill.training.video.transform import ClipTransform
from posemill.training.video.video_clips import Item, VideoClips


class VideoBatches(Dataset[Batch]):
    """Makes a whole batch from a list of draws.

    Args:
        clips: The clips of a split.
        targets: Class, or gloss indices `(L,)`, of each label.
    """

    def __init__(self, clips: VideoClips, targets: Mapping[str, int | IntArray]) -> None:
        self.clips, self._targets = clips, dict(targets)

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, draw: Any) -> Batch:
        return self.__getitems__([draw])

    def __getitems__(self, draws: Sequence[Draw]) -> Batch:
        """Return the batch of these draws.

        Clips that could not be read are left out where the rule is to drop them; a batch of nothing
        else has another one in it, which does not count.
        """
        found = [(draw, self.clips.at_epoch(draw.clip, draw.epoch)) for draw in draws]
        kept: list[tuple[Draw, Item]] = [(draw, item) for draw, item in found if item is not None]
        if not kept:
            draw = draws[0]._replace(weight=0.0)
            kept = [(draw, self.clips.replacement(draw.clip, draw.epoch))]
        items = [item for _, item in kept]
        targets = [self._targets[self.clips.classes[item["target"]]] for item in items]
        return make_batch(self.clips, items, targets, [draw for draw, _ in kept])


def make_batch(
    clips: VideoClips,
    items: Sequence[Item],
    targets: Sequence[int | IntArray],
    draws: Sequence[Draw],
) -> Batch:
    """Return the batch of some items of a data set; `draws` says which they are."""
    collated = clips.collate_fn(items)
    view = collated["view"] if clips.augment is not None else torch.empty(len(items), 0)
    inputs = collated["frames"], view, collated["length"]
    return Batch(inputs, lengths=collated["length"], **pad_targets(targets, draws))


class ForwardVideo:
    """Calls a model of video on a batch: bytes to floats, augmented, on the model's device.

    Args:
        eval_scales: In evaluations, sizes as shares of that of the frames: the output is then the
            log of the mean of what is said of each. None for the frames as they are.
    """

    def __init__(self, eval_scales: Sequence[float] = ()) -> None:
        self._transform, self._scales = ClipTransform(), tuple(eval_scales)

    def __call__(self, model: nn.Module, batch: Batch) -> Any:
        """Return the model's output."""
        frames = self.frames_of(*batch.inputs[:2])
        is_features = frames.ndim == 3
        if model.training or not self._scales or is_features:
            return model(frames, batch.lengths)
        said = [
            model(_resized(frames, scale), batch.lengths).float().softmax(-1)
            for scale in self._scales
        ]
        return torch.stack(said).mean(0).clamp_min(1e-12).log()

    def frames_of(self, frames: Tensor, view: Tensor) -> Tensor:
        """Return what a model takes: `(B, T, 3, H, W)`, or features `(B, T, C)` as they are."""
        if frames.is_floating_point():
            return frames
        transform = self._transform.to(frames.device)
        prepared: Tensor = transform(frames, view if view.shape[1] else None)
        return prepared


def _resized(frames: Tensor, scale: float) -> Tensor:
    """Return `(B, T, 3, H, W)` with sides of so many times their length."""
    size = [round(side * scale) for side in frames.shape[-2:]]
    resized = functional.interpolate(
        frames.flatten(0, 1), size, mode="bilinear", align_corners=False, antialias=True
    )
    return resized.reshape(*frames.shape[:3], *size)
