"""What models of video share, and the times of the frames in a flat batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posemill.errors import ConfigError
from posemill.training.models.base import Model, ModelOutput, ModelShape
from posemill.training.video.transform import ClipTransform


class ClipTimes(NamedTuple):
    """Where clips begin in a batch of frames `(B T, ...)`."""

    num_frames: int  # T
    inside: Tensor | None = None  # `(B T,)`: False in what is padded; None where nothing is


Shift = Callable[[Tensor, ClipTimes], Tensor]


class FrameBlock(nn.Module):
    """Base of residual blocks: `forward(features (B T, C, H, W), times)`."""

    shift: Shift | None = None  # mixes neighbouring frames, at the beginning of the branch


class Backbone(nn.Module):
    """Base of the networks of frames: `forward(frames (B T, 3, H, W), times) -> (B T, C)`."""

    num_features: int  # C
    stages: list[list[FrameBlock]]  # the residual blocks that a shift fits into
    cells = 1  # the mean is given of each of `cells` x `cells` parts of a frame

    def pool(self, features: Tensor) -> Tensor:
        """Return `(B T, num_features)` of `(B T, C, H, W)`."""
        if self.cells == 1:
            return features.mean((2, 3))
        return F.adaptive_avg_pool2d(features, self.cells).flatten(1)


class VideoModel(Model, ABC):
    """Base of the models of video: `forward(frames, lengths, view)`.

    `frames (B, T, height, width, 3)` bytes, which `ClipTransform` makes floats, augmented by
    `view (B, 12)` where there is one; or floats as that makes them; or what `frozen_backbone` said
    of each frame, `(B, T, C)`. `lengths (B,)`. Logits `(B, C)` out for classify, a `CtcOutput` for
    ctc. A model of your own is a `forward_frames`.
    """

    takes = "video"

    def __init__(self, shape: ModelShape) -> None:
        super().__init__(shape)
        # In a list, so that it is no part of the model: it has nothing to train, save or average.
        self._transform = [ClipTransform()]

    def forward(self, frames: Tensor, lengths: Tensor, view: Tensor | None = None) -> ModelOutput:
        """Return what the model says of clips; in evaluations the mean over `eval_scales`."""
        if not frames.is_floating_point():
            transform = self._transform[0].to(frames.device)
            frames = transform(frames, view if view is not None and view.shape[1] else None)
        if self.training or not self.eval_scales or frames.ndim == 3:  # features
            return self.forward_frames(frames, lengths)
        said: list[Tensor] = []
        for scale in self.eval_scales:  # refused for ctc
            size = [round(side * scale) for side in frames.shape[-2:]]
            flat = F.interpolate(
                frames.flatten(0, 1), size, mode="bilinear", align_corners=False, antialias=True
            )
            logits: Any = self.forward_frames(flat.reshape(*frames.shape[:3], *size), lengths)
            said.append(logits.float().softmax(-1))
        return torch.stack(said).mean(0).clamp_min(1e-12).log()

    @abstractmethod
    def forward_frames(self, frames: Tensor, lengths: Tensor) -> ModelOutput:
        """Return what the model says of `frames` `(B, T, 3, H, W)`, normalised floats."""

    @property
    def frozen_backbone(self) -> Backbone | None:
        """What says of each frame always the same, whatever the frames beside it; None if none."""
        return None

    def _needs_whole_clips(self, name: str) -> None:
        """Refuse what a network with 3D kernels cannot do."""
        if self.shape.task != "classify":
            raise ConfigError(
                "model {name} gives one answer a clip: task {task} needs one for every frame; "
                "use tsm or tsn",
                name=name,
                task=self.shape.task,
            )
        if not self.shape.num_frames:
            raise ConfigError(
                "model {name} takes clips of one length: sample so many frames of each, such "
                "as segments:16; or use tsm or tsn",
                name=name,
            )
