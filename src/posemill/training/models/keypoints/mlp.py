"""`mlp`: a clip brought to a fixed number of frames, flattened, and two or three dense layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from posemill.errors import ConfigError
from posemill.training.models.base import CtcOutput, steps_mask
from posemill.training.models.keypoints.base import (
    KeypointModel,
    ModelShape,
    features_per_point,
    point_features,
)


class Mlp(KeypointModel):
    """Dense layers over the flattened clip (classify) or over each frame (ctc).

    Args:
        shape: Of input and output.
        frames: Frames a clip is brought to (classify); 1 for single frames.
        hidden: Widths of the hidden layers.
        dropout: Share of hidden numbers dropped in training.
        features: `points`, `motion`, `fast_motion`, `presence`.
    """

    def __init__(
        self,
        shape: ModelShape,
        *,
        frames: int = 1,
        hidden: Sequence[int] = (128, 128),
        dropout: float = 0.2,
        features: Sequence[str] = ("points",),
    ) -> None:
        super().__init__(shape)
        if frames < 1 or not hidden:
            raise ConfigError(
                f"mlp: expected frames >= 1 and hidden widths, got {frames}, {hidden}"
            )
        self.frames = frames if shape.task == "classify" else 1
        self.features = tuple(features)
        per_point = features_per_point("mlp", self.features, shape.num_dims)
        widths = [self.frames * shape.num_points * per_point, *hidden]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [
                nn.Linear(before, after),
                nn.LayerNorm(after),
                nn.GELU(),
                nn.Dropout(dropout),
            ]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], shape.num_classes))

    def forward(
        self, points: torch.Tensor, mask: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor | CtcOutput:
        """Return logits `(B, C)`, or a `CtcOutput` with a step per frame."""
        features = point_features(points, mask, self.features).flatten(2)  # (B, T, K F)
        if self.shape.task == "ctc":
            return CtcOutput(self.run(self.layers, features), lengths)
        return self.run(self.layers, resample_steps(features, lengths, self.frames).flatten(1))

    @classmethod
    def stride_of(cls, **options: Any) -> int:
        """One: a step per frame."""
        return 1


def resample_steps(features: torch.Tensor, lengths: torch.Tensor, steps: int) -> torch.Tensor:
    """Return `(B, steps, C)`: each clip of `(B, T, C)` at evenly spaced times."""
    if steps == 1:
        inside = steps_mask(lengths, features.shape[1])[..., None]
        mean: torch.Tensor = (features * inside).sum(1, keepdim=True) / lengths[:, None, None]
        return mean
    times = torch.linspace(0, 1, steps, device=features.device)[None] * (lengths[:, None] - 1)
    before = times.floor().long()
    after = torch.minimum(before + 1, (lengths - 1)[:, None])
    share = (times - before)[..., None]
    wide = (-1, -1, features.shape[-1])
    first = features.gather(1, before[..., None].expand(*wide))
    second = features.gather(1, after[..., None].expand(*wide))
    return first + (second - first) * share
