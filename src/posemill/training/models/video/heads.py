"""From the features of frames to an answer: `average`, `gru`, `conv`."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from posemill.plugins import not_among
from posemill.training.models.base import CtcOutput, ModelOutput, pool_time, steps_mask
from posemill.training.models.keypoints.sequence import TimeConv
from posemill.training.models.video.base import VideoShape


class Head(nn.Module):
    """Base of the heads: a sequence of the same length, then a linear layer.

    Args:
        shape: Of the model.
        num_features: Of a frame.
        width: Of the sequence, where the head makes one of its own.
        dropout: Share of numbers dropped in training before the last layer.
    """

    pools = True  # mean and maximum over time, before the last layer

    def __init__(self, shape: VideoShape, num_features: int, width: int, dropout: float) -> None:
        super().__init__()
        self.is_ctc = shape.task == "ctc"
        self.dropout = nn.Dropout(dropout)
        size = self._build(num_features, width, dropout)
        twice = self.pools and not self.is_ctc
        self.fc = nn.Linear(size * (1 + twice), shape.num_classes)

    def _build(self, num_features: int, width: int, dropout: float) -> int:
        """Make the parts of this head; return how wide its sequence is."""
        return num_features

    def sequence(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return `(B, T, C')` of `(B, T, C)`."""
        return features

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> ModelOutput:
        """Return the answer for features `(B, T, C)`."""
        steps = self.sequence(features, lengths)
        if self.is_ctc:
            return CtcOutput(self.fc(self.dropout(steps)), lengths)
        logits: torch.Tensor = self.fc(self.dropout(pool_time(steps, lengths)))
        return logits


class AverageHead(Head):
    """The mean of what every frame says."""

    pools = False

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> ModelOutput:
        """Return the answer for features `(B, T, C)`."""
        logits: torch.Tensor = self.fc(self.dropout(features))
        if self.is_ctc:
            return CtcOutput(logits, lengths)
        inside = steps_mask(lengths, logits.shape[1])[..., None]
        return (logits * inside).sum(1) / lengths[:, None].to(logits.dtype)


class GruHead(Head):
    """A recurrent net in both directions."""

    def _build(self, num_features: int, width: int, dropout: float) -> int:
        self.norm = nn.LayerNorm(num_features)
        self.gru = nn.GRU(num_features, width // 2, batch_first=True, bidirectional=True)
        return width // 2 * 2

    def sequence(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return `(B, T, width)`."""
        packed = pack_padded_sequence(
            self.dropout(self.norm(features)),
            lengths.cpu(),
            batch_first=True,
            enforce_sorted=False,
        )
        steps, _ = pad_packed_sequence(
            self.gru(packed)[0], batch_first=True, total_length=features.shape[1]
        )
        return steps


class ConvHead(Head):
    """Two convolutions over time, each with a way around it."""

    def _build(self, num_features: int, width: int, dropout: float) -> int:
        self.narrow = nn.Sequential(nn.Linear(num_features, width), nn.LayerNorm(width))
        self.blocks = nn.ModuleList(TimeConv(width, 3, 1, dropout) for _ in range(2))
        return width

    def sequence(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return `(B, T, width)`."""
        steps: torch.Tensor = self.narrow(features)
        for block in self.blocks:
            steps = block(steps, lengths)
        return steps


HEADS: dict[str, type[Head]] = {"average": AverageHead, "gru": GruHead, "conv": ConvHead}


def build_head(
    name: str, shape: VideoShape, num_features: int, *, width: int, dropout: float
) -> Head:
    """Return a new head."""
    if name not in HEADS:
        raise not_among("head", name, HEADS)
    return HEADS[name](shape, num_features, width, dropout)
