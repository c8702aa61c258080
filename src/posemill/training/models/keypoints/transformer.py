"""`transformer`: frame vectors with their position, self-attention over the clip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from posemill.errors import ConfigError
from posemill.training.models.base import CtcOutput, pool_time, shorten, steps_mask
from posemill.training.models.keypoints.base import FrameEncoder, KeypointModel, ModelShape
from posemill.training.models.keypoints.tcn_bilstm import TimeConv


class Transformer(KeypointModel):
    """Frame encoder, one convolution that shortens time, then attention layers (norm first).

    Args:
        shape: Of input and output.
        width: Of the vectors.
        num_layers: Attention layers.
        num_heads: Heads of each.
        stride: Frames per step of the attention.
        dropout: Share of hidden numbers dropped in training.
        features: Kinds of `base.FEATURES`.
    """

    def __init__(
        self,
        shape: ModelShape,
        *,
        width: int = 128,
        num_layers: int = 3,
        num_heads: int = 4,
        stride: int = 2,
        dropout: float = 0.2,
        features: Sequence[str] = ("points", "motion", "presence"),
    ) -> None:
        super().__init__(shape)
        if width % (2 * num_heads):
            raise ConfigError(
                f"transformer: expected width a multiple of 2 * num_heads, "
                f"got width {width}, num_heads {num_heads}"
            )
        self.encoder = FrameEncoder(shape, width, features=tuple(features), dropout=dropout)
        self.shorten = TimeConv(width, 5, stride, dropout)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                num_heads,
                4 * width,
                dropout,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        is_ctc = shape.task == "ctc"
        self.head = nn.Linear(width if is_ctc else 2 * width, shape.num_classes)

    @classmethod
    def stride_of(cls, **options: Any) -> int:
        """Return `stride`."""
        return int(options.get("stride", 2))

    def forward(
        self, points: torch.Tensor, mask: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor | CtcOutput:
        """Return logits `(B, C)`, or a `CtcOutput`."""
        features = self.run(self.encoder, points, mask)
        features = self.run(self.shorten, features, lengths)
        lengths = shorten(lengths, self.shorten.pool)
        features = features + positions(features.shape[1], features.shape[2]).to(features)
        outside = ~steps_mask(lengths, features.shape[1])
        for block in self.blocks:
            features = self.run(_with_mask(block, outside), features)
        features = self.norm(features)
        if self.shape.task == "ctc":
            return CtcOutput(self.head(self.dropout(features)), lengths)
        logits: torch.Tensor = self.head(self.dropout(pool_time(features, lengths)))
        return logits


def _with_mask(block: nn.Module, outside: torch.Tensor) -> Any:
    return lambda features: block(features, src_key_padding_mask=outside)


def positions(steps: int, width: int) -> torch.Tensor:
    """Return `(steps, width)`: sines and cosines of the position at falling frequencies."""
    time = torch.arange(steps, dtype=torch.float32)[:, None]
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    return torch.cat([torch.sin(time * rates), torch.cos(time * rates)], -1)
