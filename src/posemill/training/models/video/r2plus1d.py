"""`r2plus1d`: residual blocks whose convolutions look across a frame, then along time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from posemill.training.models.base import ModelOutput
from posemill.training.models.video.backbones import stage_sizes
from posemill.training.models.video.base import VideoModel, VideoShape

_WIDTHS, _DEPTHS = (16, 32, 64, 128), (1, 1, 1, 1)


class R2plus1d(VideoModel):
    """Four stages of (2+1)D residual blocks; from the second on each halves time and size.

    Args:
        shape: Of input and output; clips of one length.
        width: Channels, as a multiple of 16, 32, 64, 128; 4 are those of the paper.
        depth: Blocks of the four stages; (2, 2, 2, 2) is R(2+1)D-18.
        dropout: Share of numbers dropped in training before the last layer.
    """

    def __init__(
        self,
        shape: VideoShape,
        *,
        width: float = 1.0,
        depth: Sequence[int] = (),
        dropout: float = 0.2,
    ) -> None:
        super().__init__(shape)
        self._needs_whole_clips("r2plus1d")
        widths, depths = stage_sizes(_WIDTHS, _DEPTHS, width, depth)
        between = max(8, round(45 * widths[0] / 64))  # 45 between 3 and 64 in the paper's stem
        self.stem = nn.Sequential(
            nn.Conv3d(3, between, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False),
            nn.BatchNorm3d(between),
            nn.ReLU(),
            nn.Conv3d(between, widths[0], (3, 1, 1), padding=(1, 0, 0), bias=False),
            nn.BatchNorm3d(widths[0]),
            nn.ReLU(),
        )
        self.blocks = nn.ModuleList()
        channels = widths[0]
        for stage, (size, count) in enumerate(zip(widths, depths, strict=True)):
            for place in range(count):
                self.blocks.append(SplitBlock(channels, size, 2 if stage and not place else 1))
                channels = size
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(channels, shape.num_classes)

    def forward(self, frames: torch.Tensor, lengths: torch.Tensor) -> ModelOutput:
        """Return logits `(B, C)`."""
        features = self.stem(frames.transpose(1, 2))  # (B, C, T, H, W)
        for block in self.blocks:
            features = block(features)
        logits: torch.Tensor = self.fc(self.dropout(features.mean((2, 3, 4))))
        return logits


class SplitBlock(nn.Module):
    """Two (2+1)D convolutions with a way around them.

    Args:
        num_inputs: Channels that come in.
        width: Channels that go out.
        stride: By how much time, height and width become smaller.
    """

    def __init__(self, num_inputs: int, width: int, stride: int) -> None:
        super().__init__()
        # As many weights as the first 3 x 3 x 3 convolution would have
        between = (27 * num_inputs * width) // (9 * num_inputs + 3 * width)
        self.conv1 = _split_conv(num_inputs, between, width, stride=stride)
        self.bn1 = nn.BatchNorm3d(width)
        self.conv2 = _split_conv(width, between, width, stride=1)
        self.bn2 = nn.BatchNorm3d(width)
        self.downsample = None
        if stride != 1 or num_inputs != width:
            self.downsample = nn.Sequential(
                nn.Conv3d(num_inputs, width, 1, stride, bias=False), nn.BatchNorm3d(width)
            )

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return `(B, C', T', H', W')` of `(B, C, T, H, W)`."""
        around = self.downsample(features) if self.downsample else features
        branch = F.relu(self.bn1(self.conv1(features)))
        return F.relu(self.bn2(self.conv2(branch)) + around)


def _split_conv(num_inputs: int, between: int, width: int, *, stride: int) -> nn.Sequential:
    """Return a convolution across the frame, 1 x 3 x 3, and one along time, 3 x 1 x 1."""
    return nn.Sequential(
        nn.Conv3d(num_inputs, between, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False),
        nn.BatchNorm3d(between),
        nn.ReLU(),
        nn.Conv3d(between, width, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False),
    )
