"""`lite0`: EfficientNet-lite0, made for phones; its ImageNet weights are in a published package.

ReLU6 instead of swish, no squeeze and excitation; padding and batch norm are those of TensorFlow,
which trained it.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from posemill.training.models.video.base import Backbone, ClipTimes, FrameBlock
from posemill.training.video.transform import IMAGENET_MEAN, IMAGENET_STD

_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM, _NUM_FEATURES = 32, 1280


class LiteNetwork(Backbone):
    """Seven stages of inverted residual blocks; 1280 features of a frame."""

    def __init__(self) -> None:
        super().__init__()
        self.num_features = _NUM_FEATURES
        self.conv_stem = _SameConv(3, _STEM, 3, stride=2)
        self.bn0 = _norm(_STEM)
        self.blocks = nn.ModuleList()
        channels = _STEM
        for depth, kernel, stride, ratio, width in _STAGES:
            for place in range(depth):
                first = stride if not place else 1
                self.blocks.append(
                    InvertedBlock(channels, width, kernel=kernel, stride=first, ratio=ratio)
                )
                channels = width
        self.conv_head = nn.Conv2d(channels, _NUM_FEATURES, 1, bias=False)
        self.bn1 = _norm(_NUM_FEATURES)
        # It learned from (x - 127) / 128 of bytes; all our models get ImageNet's mean and spread.
        for name, values in (
            ("scale", [spread * 255 / 128 for spread in IMAGENET_STD]),
            ("offset", [(mean * 255 - 127) / 128 for mean in IMAGENET_MEAN]),
        ):
            self.register_buffer(name, torch.tensor(values).reshape(3, 1, 1), persistent=False)

    scale: torch.Tensor
    offset: torch.Tensor

    def stages(self) -> list[list[FrameBlock]]:
        """Return the blocks with a way around them, stage by stage; others have no branch."""
        found: list[list[FrameBlock]] = []
        blocks = list(self.blocks)
        for depth, *_ in _STAGES:
            stage, blocks = blocks[:depth], blocks[depth:]
            found.append([b for b in stage if isinstance(b, InvertedBlock) and b.has_way_around])
        return found

    def forward(self, frames: torch.Tensor, times: ClipTimes) -> torch.Tensor:
        """Return `(B T, 1280)` of frames `(B T, 3, H, W)`."""
        features = F.relu6(self.bn0(self.conv_stem(frames * self.scale + self.offset)))
        for block in self.blocks:
            features = block(features, times)
        return self.pool(F.relu6(self.bn1(self.conv_head(features))))


class InvertedBlock(FrameBlock):
    """Wider by 1 x 1, each channel on its own by k x k, narrow again by 1 x 1.

    Args:
        num_inputs: Channels that come in.
        width: Channels that go out.
        kernel: k.
        stride: By how much height and width become smaller.
        ratio: How much wider it is inside; 1 leaves the first convolution out.
    """

    def __init__(
        self, num_inputs: int, width: int, *, kernel: int, stride: int, ratio: int
    ) -> None:
        super().__init__()
        inside = num_inputs * ratio
        self.has_way_around = stride == 1 and num_inputs == width
        self.expand_conv = self.bn0 = None
        if ratio > 1:
            self.expand_conv = nn.Conv2d(num_inputs, inside, 1, bias=False)
            self.bn0 = _norm(inside)
        self.depthwise_conv = _SameConv(inside, inside, kernel, stride=stride, groups=inside)
        self.bn1 = _norm(inside)
        self.project_conv = nn.Conv2d(inside, width, 1, bias=False)
        self.bn2 = _norm(width)

    def forward(self, features: torch.Tensor, times: ClipTimes) -> torch.Tensor:
        """Return `(B T, C', H', W')` of `(B T, C, H, W)`."""
        branch = self.shift(features, times) if self.shift else features
        if self.expand_conv is not None and self.bn0 is not None:
            branch = F.relu6(self.bn0(self.expand_conv(branch)))
        branch = F.relu6(self.bn1(self.depthwise_conv(branch)))
        branch = self.bn2(self.project_conv(branch))
        result: torch.Tensor = branch + features if self.has_way_around else branch
        return result


class _SameConv(nn.Conv2d):
    """A convolution with TensorFlow's padding: an odd pixel of it comes right and below."""

    def __init__(
        self, num_inputs: int, width: int, kernel: int, *, stride: int, groups: int = 1
    ) -> None:
        super().__init__(num_inputs, width, kernel, stride, groups=groups, bias=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        pads: list[int] = []
        for size, kernel, stride in zip(
            features.shape[:-3:-1], self.kernel_size, self.stride, strict=True
        ):  # width first
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        if pads[0] == pads[1] and pads[2] == pads[3]:
            return F.conv2d(
                features, self.weight, None, self.stride, (pads[2], pads[0]), groups=self.groups
            )
        return super().forward(F.pad(features, pads))


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)
