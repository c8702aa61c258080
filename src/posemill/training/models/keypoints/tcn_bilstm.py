"""`tcn_bilstm`: convolutions over time, halved twice, then a recurrent net in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from posemill.training.models.base import CtcOutput, pool_time, shorten, steps_mask
from posemill.training.models.keypoints.base import FrameEncoder, KeypointModel, ModelShape


class TcnBilstm(KeypointModel):
    """Frame encoder, convolutions K5-P2-K5-P2, BiLSTM; heads after both parts for ctc.

    Args:
        shape: Of input and output.
        width: Of the frame vectors and of the recurrent net (both directions together).
        pools: 1 or 2 per convolution: by how much it shortens time.
        kernel: Frames of a convolution.
        num_lstm: Recurrent layers; 0 leaves them out (classify).
        dropout: Share of hidden numbers dropped in training.
        features: Kinds of `base.FEATURES`.
    """

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
        self.dropout = nn.Dropout(dropout)
        is_ctc = shape.task == "ctc"
        self.head = nn.Linear(width if is_ctc else 2 * width, shape.num_classes)
        self.conv_head = nn.Linear(width, shape.num_classes) if is_ctc else None

    @classmethod
    def stride_of(cls, **options: Any) -> int:
        """Return the product of the pools."""
        result = 1
        for pool in options.get("pools", (2, 2)):
            result *= int(pool)
        return result

    def forward(
        self, points: torch.Tensor, mask: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor | CtcOutput:
        """Return logits `(B, C)`, or a `CtcOutput` of both heads."""
        features = self.run(self.encoder, points, mask)  # (B, T, width)
        for block, pool in zip(self.blocks, self.pools, strict=True):
            features = self.run(block, features, lengths)
            lengths = shorten(lengths, pool)
        sequence = self._recur(features, lengths)
        if self.conv_head is not None:
            return CtcOutput(
                self.head(self.dropout(sequence)), lengths, self.conv_head(self.dropout(features))
            )
        logits: torch.Tensor = self.head(self.dropout(pool_time(sequence, lengths)))
        return logits

    def _recur(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        if self.lstm is None:
            return features
        packed = pack_padded_sequence(
            features, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        unpacked, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=features.shape[1]
        )
        # The way around the recurrent net keeps what the convolutions know about each step.
        result: torch.Tensor = features + unpacked
        return result


class TimeConv(nn.Module):
    """A convolution over time with a way around it, then the maximum of every `pool` steps."""

    def __init__(self, width: int, kernel: int, pool: int, dropout: float) -> None:
        super().__init__()
        self.pool = pool
        self.conv = nn.Conv1d(width, width, kernel, padding=kernel // 2)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
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
