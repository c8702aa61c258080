"""`tsn` and `tsm`: a network for every frame, and a head that joins what it says of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn

from posemill.plugins import not_among
from posemill.training.models.backbones import IMAGENET, PUBLISHED, build_backbone, load_pretrained
from posemill.training.models.base import (
    ClipHead,
    CtcOutput,
    ModelOutput,
    ModelShape,
    mean_time,
    run_recurrent,
    steps_mask,
)
from posemill.training.models.sequence import TimeConv
from posemill.training.models.video import Backbone, ClipTimes, VideoModel


class _AverageHead(nn.Module):
    """The mean of what every frame says."""

    def __init__(self, shape: ModelShape, num_features: int, width: int, dropout: float) -> None:
        super().__init__()
        self.is_ctc = shape.task == "ctc"
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(num_features, shape.num_classes)

    def forward(self, features: Tensor, lengths: Tensor) -> ModelOutput:
        logits: Tensor = self.fc(self.dropout(features))
        if self.is_ctc:
            return CtcOutput(logits, lengths)
        return mean_time(logits, lengths)


class _GruHead(nn.Module):
    """A recurrent net in both directions."""

    def __init__(self, shape: ModelShape, num_features: int, width: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(num_features), nn.Dropout(dropout)
        self.gru = nn.GRU(num_features, width // 2, batch_first=True, bidirectional=True)
        self.fc = ClipHead(shape, width // 2 * 2, dropout)

    def forward(self, features: Tensor, lengths: Tensor) -> ModelOutput:
        steps = run_recurrent(self.gru, self.dropout(self.norm(features)), lengths)
        return self.fc(steps, lengths)


class _ConvHead(nn.Module):
    """Two convolutions over time, each with a way around it."""

    def __init__(self, shape: ModelShape, num_features: int, width: int, dropout: float) -> None:
        super().__init__()
        self.narrow = nn.Sequential(nn.Linear(num_features, width), nn.LayerNorm(width))
        self.blocks = nn.ModuleList(TimeConv(width, 3, 1, dropout) for _ in range(2))
        self.fc = ClipHead(shape, width, dropout)

    def forward(self, features: Tensor, lengths: Tensor) -> ModelOutput:
        steps: Tensor = self.narrow(features)
        for block in self.blocks:
            steps = block(steps, lengths)
        return self.fc(steps, lengths)


# Each answers for features `(B, T, C)` and the lengths of clips.
HEADS = {"average": _AverageHead, "gru": _GruHead, "conv": _ConvHead}
SHIFT_ORDERS = ("normal", "reversed")


def temporal_shift(
    features: Tensor, num_frames: int, *, divisor: int = 8, order: str = "normal"
) -> Tensor:
    """Return features of which some channels are those of the next frame, some of the one before.

    With f = channels // divisor: the first f channels of a frame come from the next frame, the
    second f from the frame before, the rest stays; zeros come in at the ends of a clip.

    Args:
        features: `(B T, C, ...)`, the frames of each clip one after the other.
        num_frames: T.
        divisor: One part of so many moves each way.
        order: `reversed`: the first f channels from the frame before, as weights made with Paddle
            expect it.
    """
    if num_frames < 1 or len(features) % num_frames:
        raise ValueError(
            f"expected frames of whole clips of {num_frames}, got {len(features)} frames"
        )
    fold = features.shape[1] // divisor
    if not fold:
        return features
    shifted: Tensor = _Shift.apply(features, num_frames, fold, order == "reversed")  # type: ignore[no-untyped-call]
    return shifted


class _Shift(torch.autograd.Function):
    # Composed of pad, slices and cat it would copy the features several times, both ways; here each
    # number is written once.
    @staticmethod
    def forward(features: Tensor, num_frames: int, fold: int, is_reversed: bool) -> Tensor:
        result = torch.empty_like(features)  # keeps channels-last
        shape = (-1, num_frames, *features.shape[1:])  # (B, T, C, ...)
        source, target = features.view(shape), result.view(shape)
        first, second = slice(0, fold), slice(fold, 2 * fold)
        from_next, from_last = (second, first) if is_reversed else (first, second)
        target[:, :-1, from_next] = source[:, 1:, from_next]
        target[:, -1, from_next] = 0
        target[:, 1:, from_last] = source[:, :-1, from_last]
        target[:, 0, from_last] = 0
        target[:, :, 2 * fold :] = source[:, :, 2 * fold :]
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        _, ctx.num_frames, ctx.fold, ctx.is_reversed = inputs

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        # What came from the next frame goes back to it: the same shift, the other way.
        shifted = _Shift.apply(gradients[0], ctx.num_frames, ctx.fold, not ctx.is_reversed)  # type: ignore[no-untyped-call]
        return shifted, None, None, None


class Tsn(VideoModel):
    """Every frame on its own; only the head sees time.

    What is known of a frame is the mean over all of it, or over each of `cells` x `cells` parts,
    which says where. It begins with `weights`: `imagenet`, the path of a state dict, or `none`;
    `auto` is imagenet where posemill knows of a package that has them (lite0). With
    `freeze_backbone` only the head learns. `head_width` is that of the sequence that `gru` and
    `conv` make.
    """

    def __init__(
        self,
        shape: ModelShape,
        *,
        backbone: str = "thin",
        width: float = 1.0,
        depth: Sequence[int] = (),
        cells: int = 1,
        weights: str = "auto",
        freeze_backbone: bool = False,
        head: str = "average",
        head_width: int = 128,
        dropout: float = 0.2,
    ) -> None:
        super().__init__(shape)
        self.backbone = build_backbone(backbone, width=width, depth=depth)
        self.backbone.cells = cells
        self.backbone.num_features *= cells**2
        if weights == "auto":
            weights = IMAGENET if backbone in PUBLISHED else "none"
        self.backbone_name, self.weights = backbone, weights
        self.freeze_backbone = freeze_backbone
        if freeze_backbone:
            self.backbone.requires_grad_(False)
        if head not in HEADS:
            raise not_among("head", head, HEADS)
        self.head = HEADS[head](shape, self.backbone.num_features, head_width, dropout)

    def load_pretrained(self) -> None:
        """Copy the weights that the backbone begins with."""
        if self.weights != "none":
            load_pretrained(self.backbone, self.backbone_name, self.weights)

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation; a frozen backbone keeps to evaluation."""
        super().train(mode)
        if self.freeze_backbone:
            self.backbone.eval()
        return self

    def forward_frames(self, frames: Tensor, lengths: Tensor) -> ModelOutput:
        """Return logits `(B, C)`, or a `CtcOutput` with a step per frame."""
        if frames.ndim == 5:
            num_frames, inside = frames.shape[1], None
            if not self.shape.num_frames:  # else all are alike, and there is no mask to multiply by
                inside = steps_mask(lengths, num_frames).flatten()
            features = self.backbone(frames.flatten(0, 1), ClipTimes(num_frames, inside))
            frames = features.unflatten(0, (-1, num_frames))  # (B, T, C)
        output: ModelOutput = self.head(frames, lengths)
        return output

    @property
    def frozen_backbone(self) -> Backbone | None:
        """The backbone where it is frozen with learned weights, and no shift joins frames."""
        is_shifted = any(block.shift for stage in self.backbone.stages for block in stage)
        is_fixed = self.freeze_backbone and self.weights != "none" and not is_shifted
        return self.backbone if is_fixed else None


class Tsm(Tsn):
    """As `Tsn`, with features of neighbouring frames shifted into the residual branches.

    One channel of `shift_divisor` comes from the next frame, as many from the last; `shift_order`
    is `reversed` for weights made with Paddle.
    """

    def __init__(
        self,
        shape: ModelShape,
        *,
        shift_divisor: int = 8,
        shift_order: str = "normal",
        **options: Any,
    ) -> None:
        super().__init__(shape, **options)
        if shift_order not in SHIFT_ORDERS:
            raise not_among("shift_order", shift_order, SHIFT_ORDERS)
        shift = partial(_shift_inside, divisor=shift_divisor, order=shift_order)
        stages = self.backbone.stages
        # As the paper has it: the deepest networks become harder to train with all of them.
        every = 2 if max(map(len, stages)) >= 23 else 1
        for stage in stages:
            for block in stage[::every]:
                block.shift = shift


def _shift_inside(features: Tensor, times: ClipTimes, *, divisor: int, order: str) -> Tensor:
    """Return shifted features, into which nothing comes that is padded."""
    if times.inside is not None:
        features = features * times.inside[:, None, None, None]
    return temporal_shift(features, times.num_frames, divisor=divisor, order=order)
