"""`r2plus1d` and `slowfast`: networks whose kernels look along time, too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posemill.training.models.backbones import stage_sizes
from posemill.training.models.base import ModelOutput, ModelShape
from posemill.training.models.video import VideoModel

_WIDTHS, _DEPTHS = (16, 32, 64, 128), (1, 1, 1, 1)
Sizes = tuple[int, int, int]  # along time, height and width
_ONE = (1, 1, 1)


class R2plus1d(VideoModel):
    """Four stages of (2+1)D residual blocks; from the second on each halves time and size.

    `width` 4 are the channels of the paper; `depth` (2, 2, 2, 2) is R(2+1)D-18.
    """

    def __init__(
        self,
        shape: ModelShape,
        *,
        width: float = 1.0,
        depth: Sequence[int] = (),
        dropout: float = 0.2,
    ) -> None:
        super().__init__(shape)
        self._needs_whole_clips("r2plus1d")
        widths, depths = stage_sizes(_WIDTHS, _DEPTHS, width, depth)
        between = max(8, round(45 * widths[0] / 64))  # 45 between 3 and 64 in the paper's stem
        stem = _chain(3, (between, (1, 7, 7), (1, 2, 2)), (widths[0], (3, 1, 1), _ONE))
        self.stem = nn.Sequential(*stem, nn.ReLU())
        self.blocks = nn.ModuleList()
        channels = widths[0]
        for stage, (size, count) in enumerate(zip(widths, depths, strict=True)):
            for place in range(count):
                self.blocks.append(_split_block(channels, size, 2 if stage and not place else 1))
                channels = size
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(channels, shape.num_classes)

    def forward_frames(self, frames: Tensor, lengths: Tensor) -> ModelOutput:
        """Return logits `(B, C)`."""
        features = self.stem(frames.transpose(1, 2))  # (B, C, T, H, W)
        for block in self.blocks:
            features = block(features)
        logits: Tensor = self.fc(self.dropout(features.mean((2, 3, 4))))
        return logits


class Residual(nn.Module):
    """A branch with a way around it, which has a convolution where its ends are of other sizes."""

    def __init__(
        self, branch: nn.Sequential, num_inputs: int, num_outputs: int, stride: Sizes
    ) -> None:
        super().__init__()
        self.branch, self.downsample = branch, None
        if stride != _ONE or num_inputs != num_outputs:
            self.downsample = _chain(num_inputs, (num_outputs, _ONE, stride))

    def forward(self, features: Tensor) -> Tensor:
        """Return `(B, C', T', H', W')` of `(B, C, T, H, W)`."""
        around = self.downsample(features) if self.downsample else features
        return F.relu(self.branch(features) + around)


def _chain(num_inputs: int, *convs: tuple[int, Sizes, Sizes]) -> nn.Sequential:
    """Return convolutions (width, kernel, stride), each with a norm, with a ReLU between two.

    They are over (time, height, width), padded by half of their kernel.
    """
    layers: list[nn.Module] = []
    for width, kernel, stride in convs:
        pads = (kernel[0] // 2, kernel[1] // 2, kernel[2] // 2)
        layers += [nn.ReLU()] if layers else []
        layers.append(nn.Conv3d(num_inputs, width, kernel, stride, pads, bias=False))
        layers.append(nn.BatchNorm3d(width))
        num_inputs = width
    return nn.Sequential(*layers)


def _split_block(num_inputs: int, width: int, stride: int) -> Residual:
    """Return two (2+1)D convolutions: each across the frame, 1 x 3 x 3, then along time, 3 x 1 x 1.

    `stride` shortens time as it does space.
    """
    # As many weights as the first 3 x 3 x 3 convolution would have
    between = (27 * num_inputs * width) // (9 * num_inputs + 3 * width)
    branch = _chain(
        num_inputs,
        (between, (1, 3, 3), (1, stride, stride)),
        (width, (3, 1, 1), (stride, 1, 1)),
        (between, (1, 3, 3), _ONE),
        (width, (3, 1, 1), _ONE),
    )
    return Residual(branch, num_inputs, width, (stride, stride, stride))


_FUSION_KERNEL, _FUSION_RATIO = 7, 2


class SlowFast(VideoModel):
    """Two paths, the fast one fused into the slow one after the stem and after three stages.

    The slow path sees every `alpha`-th frame and looks along time in its last two stages only; the
    fast one sees all, has `beta` times the channels, and looks along time in all of them. `width` 4
    and `depth` (3, 4, 6, 3), with blocks of three convolutions, the last four times as wide
    (`has_bottlenecks`), are SlowFast-50.
    """

    def __init__(
        self,
        shape: ModelShape,
        *,
        alpha: int = 4,
        beta: float = 1 / 8,
        width: float = 1.0,
        depth: Sequence[int] = (),
        has_bottlenecks: bool = False,
        dropout: float = 0.2,
    ) -> None:
        super().__init__(shape)
        self._needs_whole_clips("slowfast")
        self.alpha = alpha
        slow, depths = stage_sizes(_WIDTHS, _DEPTHS, width, depth)
        fast = [max(1, round(size * beta)) for size in slow]
        growth = 4 if has_bottlenecks else 1
        self.slow_stem, self.fast_stem = _stem(slow[0], 1), _stem(fast[0], 5)
        self.fusions = nn.ModuleList([Fusion(fast[0], alpha)])
        self.slow_stages, self.fast_stages = nn.ModuleList(), nn.ModuleList()
        slow_in, fast_in = slow[0] + _FUSION_RATIO * fast[0], fast[0]
        for number, count in enumerate(depths):
            stage = partial(_stage, stride=2 if number else 1, depth=count, is_wide=has_bottlenecks)
            time = 3 if number >= 2 else 1
            self.slow_stages.append(stage(slow_in, slow[number], time_kernel=time))
            self.fast_stages.append(stage(fast_in, fast[number], time_kernel=3))
            slow_in, fast_in = slow[number] * growth, fast[number] * growth
            if number < 3:
                self.fusions.append(Fusion(fast_in, alpha))
                slow_in += _FUSION_RATIO * fast_in
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(slow_in + fast_in, shape.num_classes)

    def forward_frames(self, frames: Tensor, lengths: Tensor) -> ModelOutput:
        """Return logits `(B, C)`."""
        clips = frames.transpose(1, 2)  # (B, 3, T, H, W)
        slow, fast = self.slow_stem(clips[:, :, :: self.alpha]), self.fast_stem(clips)
        for fusion, slow_stage, fast_stage in zip(
            self.fusions, self.slow_stages, self.fast_stages, strict=True
        ):
            slow, fast = slow_stage(fusion(slow, fast)), fast_stage(fast)
        joined = torch.cat([slow.mean((2, 3, 4)), fast.mean((2, 3, 4))], 1)
        logits: Tensor = self.fc(self.dropout(joined))
        return logits


class Fusion(nn.Module):
    """The fast path's features, twice as many at the slow path's frames, beside the slow ones."""

    def __init__(self, channels: int, alpha: int) -> None:
        super().__init__()
        width, kernel, stride = channels * _FUSION_RATIO, (_FUSION_KERNEL, 1, 1), (alpha, 1, 1)
        self.conv, self.norm = _chain(channels, (width, kernel, stride))

    def forward(self, slow: Tensor, fast: Tensor) -> Tensor:
        """Return `(B, C + 2 C', T, H, W)` of `(B, C, T, H, W)` and `(B, C', alpha T, H, W)`."""
        return torch.cat([slow, F.relu(self.norm(self.conv(fast)))], 1)


def _stem(width: int, time_kernel: int) -> nn.Sequential:
    conv = _chain(3, (width, (time_kernel, 7, 7), (1, 2, 2)))
    return nn.Sequential(*conv, nn.ReLU(), nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)))


def _stage(
    num_inputs: int, width: int, *, time_kernel: int, stride: int, depth: int, is_wide: bool
) -> nn.Sequential:
    """Return the residual blocks of one path in one stage; the first makes frames smaller.

    The first convolution of a block looks along time, which stays as long as it is. `is_wide` adds
    a third convolution, four times as wide.
    """
    outputs = width * (4 if is_wide else 1)
    blocks = []
    for place in range(depth):
        across = (1, stride, stride) if not place else _ONE
        convs = [(width, (time_kernel, 3, 3), across), (width, (1, 3, 3), _ONE)]
        if is_wide:
            first, last = (width, (time_kernel, 1, 1), _ONE), (outputs, _ONE, _ONE)
            convs = [first, (width, (1, 3, 3), across), last]
        blocks.append(Residual(_chain(num_inputs, *convs), num_inputs, outputs, across))
        num_inputs = outputs
    return nn.Sequential(*blocks)
