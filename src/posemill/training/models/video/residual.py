"""Residual networks that look at frames: `thin`, `resnet18`, `resnet50`.

The names of the weights are those that torchvision's files have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from posemill.training.models.video.base import Backbone, ClipTimes, FrameBlock


class ResidualBlock(FrameBlock):
    """Convolutions with a way around them; the first of them sees what the shift makes of frames.

    Args:
        num_inputs: Channels that come in.
        width: Channels of the 3 x 3 convolutions.
        stride: By how much height and width become smaller.
    """

    expansion: ClassVar[int]

    def __init__(self, num_inputs: int, width: int, stride: int) -> None:
        super().__init__()
        num_outputs = width * self.expansion
        self._add_convolutions(num_inputs, width, stride)
        self.downsample = None
        if stride != 1 or num_inputs != num_outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(num_inputs, num_outputs, 1, stride, bias=False),
                nn.BatchNorm2d(num_outputs),
            )

    def _add_convolutions(self, num_inputs: int, width: int, stride: int) -> None:
        raise NotImplementedError

    def _branch(self, features: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, features: torch.Tensor, times: ClipTimes) -> torch.Tensor:
        """Return `(B T, C', H', W')` of `(B T, C, H, W)`."""
        seen = self.shift(features, times) if self.shift else features
        around = self.downsample(features) if self.downsample else features
        return F.relu(self._branch(seen) + around)


class BasicBlock(ResidualBlock):
    """Two 3 x 3 convolutions."""

    expansion = 1

    def _add_convolutions(self, num_inputs: int, width: int, stride: int) -> None:
        self.conv1 = nn.Conv2d(num_inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def _branch(self, features: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(features)))))
        return result


class Bottleneck(ResidualBlock):
    """A 3 x 3 convolution between two of 1 x 1, the last four times as wide."""

    expansion = 4

    def _add_convolutions(self, num_inputs: int, width: int, stride: int) -> None:
        self.conv1 = nn.Conv2d(num_inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * 4, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * 4)

    def _branch(self, features: torch.Tensor) -> torch.Tensor:
        features = F.relu(self.bn1(self.conv1(features)))
        result: torch.Tensor = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(features)))))
        return result


class ResidualNetwork(Backbone):
    """Four stages of residual blocks, each half as large and twice as wide as the one before.

    Args:
        block: Kind of block.
        widths: Of the four stages.
        depths: Blocks of the four stages.
        stem_kernel: Of the first convolution, which halves the size as the pooling after it does.
    """

    def __init__(
        self,
        block: type[ResidualBlock],
        widths: Sequence[int],
        depths: Sequence[int],
        *,
        stem_kernel: int = 7,
    ) -> None:
        super().__init__()
        num_inputs = widths[0]
        self.conv1 = nn.Conv2d(3, num_inputs, stem_kernel, 2, stem_kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(num_inputs)
        for number, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            blocks = nn.ModuleList()
            for place in range(depth):
                stride = 2 if number and not place else 1
                blocks.append(block(num_inputs, width, stride))
                num_inputs = width * block.expansion
            self.add_module(f"layer{number + 1}", blocks)
        self.num_features = num_inputs
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")

    def stages(self) -> list[list[FrameBlock]]:
        """Return the residual blocks, stage by stage."""
        layers = [self.get_submodule(f"layer{number}") for number in range(1, 5)]
        return [[b for b in layer.children() if isinstance(b, FrameBlock)] for layer in layers]

    def forward(self, frames: torch.Tensor, times: ClipTimes) -> torch.Tensor:
        """Return `(B T, num_features)` of frames `(B T, 3, H, W)`."""
        # The largest of the positive parts is the positive part of the largest: the same numbers
        # from a quarter of the work.
        features = F.relu(F.max_pool2d(self.bn1(self.conv1(frames)), 3, 2, 1))
        for stage in self.stages():
            for block in stage:
                features = block(features, times)
        return self.pool(features)
