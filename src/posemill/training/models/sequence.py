"""`mlp`, `tcn_bilstm` and `transformer`: models of keypoints that see a clip as a row of frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posemill.errors import ConfigError
from posemill.training.models.base import (
    ClipHead,
    CtcOutput,
    ModelOutput,
    ModelShape,
    mean_time,
    run_recurrent,
    shorten,
    steps_mask,
)
from posemill.training.models.keypoints import (
    FrameEncoder,
    KeypointModel,
    dense_layer,
    features_per_point,
    point_features,
)


class Mlp(KeypointModel):
    """Dense layers over a clip of `frames` frames, flattened (classify), or each frame (ctc)."""

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
        self.frames = frames if shape.task == "classify" else 1
        self.features = tuple(features)
        per_point = features_per_point(self.features, shape.num_dims)
        widths = [self.frames * shape.num_points * per_point, *hidden]
        layers = [layer for pair in pairwise(widths) for layer in dense_layer(*pair, dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], shape.num_classes))

    def forward(self, points: Tensor, mask: Tensor, lengths: Tensor) -> ModelOutput:
        """Return logits `(B, C)`, or a `CtcOutput` with a step per frame."""
        features = point_features(points, mask, self.features).flatten(2)  # (B, T, K F)
        if self.shape.task == "ctc":
            return CtcOutput(self.run(self.layers, features), lengths)
        return self.run(self.layers, resample_steps(features, lengths, self.frames).flatten(1))


def resample_steps(features: Tensor, lengths: Tensor, steps: int) -> Tensor:
    """Return `(B, steps, C)`: each clip of `(B, T, C)` at evenly spaced times."""
    if steps == 1:
        return mean_time(features, lengths)[:, None]
    times = torch.linspace(0, 1, steps, device=features.device)[None] * (lengths[:, None] - 1)
    before = times.floor().long()
    after = torch.minimum(before + 1, (lengths - 1)[:, None])
    share = (times - before)[..., None]
    wide = (-1, -1, features.shape[-1])
    first = features.gather(1, before[..., None].expand(*wide))
    second = features.gather(1, after[..., None].expand(*wide))
    return first + (second - first) * share


class TcnBilstm(KeypointModel):
    """Frame encoder, convolutions K5-P2-K5-P2, BiLSTM; heads after both parts for ctc.

    `pools` (1 or 2 each) say by how much each convolution shortens time; `width` is that of both
    directions of the recurrent net together; `num_lstm` 0 leaves it out (classify).
    """

    stride_option = "pools"

    def __init__(
        self,
        shape: ModelShape,
        *,
        width: int = 128,
        pools: Sequence[int] = (2, 2),
        kernel: int = 5,
        num_lstm: int = 1,
        dropout: float = 0.3,
        features: Sequence[str] = ("points", "motion", "presence"),
    ) -> None:
        super().__init__(shape)
        self.encoder = FrameEncoder(shape, width, features=tuple(features), dropout=dropout)
        self.blocks = nn.ModuleList(TimeConv(width, kernel, pool, dropout) for pool in pools)
        self.pools = tuple(pools)
        self.lstm = None
        if num_lstm:
            between = dropout if num_lstm > 1 else 0.0
            self.lstm = nn.LSTM(
                width, width // 2, num_lstm, batch_first=True, bidirectional=True, dropout=between
            )
        self.head = ClipHead(shape, width, dropout)
        self.conv_head: nn.Module | None = None
        if self.head.is_ctc:
            self.conv_head = ClipHead(shape, width, dropout)

    def forward(self, points: Tensor, mask: Tensor, lengths: Tensor) -> ModelOutput:
        """Return logits `(B, C)`, or a `CtcOutput` of both heads."""
        features = self.run(self.encoder, points, mask)  # (B, T, width)
        for block, pool in zip(self.blocks, self.pools, strict=True):
            features = self.run(block, features, lengths)
            lengths = shorten(lengths, pool)
        sequence = features
        if self.lstm is not None:
            # The way around it keeps what the convolutions know about each step.
            sequence = features + run_recurrent(self.lstm, features, lengths)
        output = self.head(sequence, lengths)
        if self.conv_head is not None and isinstance(output, CtcOutput):
            output.conv_logits = self.conv_head(features, lengths).logits
        return output


class TimeConv(nn.Module):
    """A convolution over time with a way around it, then the maximum of every `pool` steps."""

    def __init__(self, width: int, kernel: int, pool: int, dropout: float) -> None:
        super().__init__()
        self.pool = pool
        self.conv = nn.Conv1d(width, width, kernel, padding=kernel // 2)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Return `(B, T', C)` of `(B, T, C)`; steps past a clip's end are 0."""
        inside = steps_mask(lengths, features.shape[1])[..., None]
        features = features * inside  # what is padded must not leak into the last frames
        moved = self.conv(features.transpose(1, 2)).transpose(1, 2)
        features = features + self.dropout(F.gelu(self.norm(moved)))
        if self.pool > 1:
            lowest = torch.finfo(features.dtype).min
            features = features.masked_fill(~inside, lowest).transpose(1, 2)
            features = F.max_pool1d(features, self.pool, ceil_mode=True).transpose(1, 2)
            inside = steps_mask(shorten(lengths, self.pool), features.shape[1])[..., None]
        return features.masked_fill(~inside, 0)


class Transformer(KeypointModel):
    """Frame encoder, one convolution to steps of `stride` frames, then attention (norm first)."""

    stride_option = "stride"

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
                "transformer: expected width a multiple of 2 * num_heads, got width {width}, "
                "num_heads {num_heads}",
                width=width,
                num_heads=num_heads,
            )
        self.encoder = FrameEncoder(shape, width, features=tuple(features), dropout=dropout)
        self.shorten = TimeConv(width, 5, stride, dropout)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, num_heads, 4 * width, dropout, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = ClipHead(shape, width, dropout)

    def forward(self, points: Tensor, mask: Tensor, lengths: Tensor) -> ModelOutput:
        """Return logits `(B, C)`, or a `CtcOutput`."""
        features = self.run(self.encoder, points, mask)
        features = self.run(self.shorten, features, lengths)
        lengths = shorten(lengths, self.shorten.pool)
        features = features + positions(features.shape[1], features.shape[2]).to(features)
        outside = ~steps_mask(lengths, features.shape[1])
        for block in self.blocks:
            features = self.run(partial(block, src_key_padding_mask=outside), features)
        return self.head(self.norm(features), lengths)


def positions(steps: int, width: int) -> Tensor:
    """Return `(steps, width)`: sines and cosines of the position at falling frequencies."""
    time = torch.arange(steps, dtype=torch.float32)[:, None]
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    return torch.cat([torch.sin(time * rates), torch.cos(time * rates)], -1)
