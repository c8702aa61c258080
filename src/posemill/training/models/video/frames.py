"""`tsn` and `tsm`: a network for every frame, and a head that joins what it says of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from posemill.errors import ConfigError
from posemill.training.models.base import ModelOutput
from posemill.training.models.video.backbones import build_backbone
from posemill.training.models.video.base import Backbone, ClipTimes, VideoModel, VideoShape
from posemill.training.models.video.heads import build_head
from posemill.training.models.video.pretrained import IMAGENET, PUBLISHED, load_pretrained
from posemill.training.models.video.shift import check_shift, temporal_shift

if TYPE_CHECKING:
    from typing_extensions import Self


class Tsn(VideoModel):
    """Every frame on its own; only the head sees time.

    Args:
        shape: Of input and output.
        backbone: The network of a frame, of `backbones.BACKBONES`.
        width: Its channels, as a multiple of the usual ones.
        depth: Blocks of its four stages; empty for the usual ones.
        cells: What is known of a frame is the mean over all of it, or over each of `cells` x
            `cells` parts, which says where.
        weights: It begins with these: `imagenet`, the path of a state dict, or `none`. `auto`:
            imagenet where posemill knows of a package that has them (lite0).
        freeze_backbone: Leave it as it is; only the head learns.
        head: `average`, `gru` or `conv`.
        head_width: Of the sequence that `gru` and `conv` make.
        dropout: Share of numbers dropped in training before the last layer.
    """

    def __init__(
        self,
        shape: VideoShape,
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
        if cells < 1:
            raise ConfigError(f"cells: expected 1 or more, got {cells}")
        self.backbone.keep_cells(cells)
        if weights == "auto":
            weights = IMAGENET if backbone in PUBLISHED else "none"
        self.backbone_name, self.weights = backbone, weights
        self.freeze_backbone = freeze_backbone
        if freeze_backbone:
            self.backbone.requires_grad_(False)
        self.head = build_head(
            head, shape, self.backbone.num_features, width=head_width, dropout=dropout
        )

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

    def forward(self, frames: torch.Tensor, lengths: torch.Tensor) -> ModelOutput:
        """Return logits `(B, C)`, or a `CtcOutput` with a step per frame."""
        features = frames
        if frames.ndim == 5:
            times = self.clip_times(frames, lengths)
            features = self.backbone(frames.flatten(0, 1), times)  # (B T, C)
            features = features.unflatten(0, (-1, times.num_frames))
        output: ModelOutput = self.head(features, lengths)
        return output

    @property
    def frozen_backbone(self) -> Backbone | None:
        """The backbone where it is frozen with learned weights, and no shift joins frames."""
        is_shifted = any(block.shift for stage in self.backbone.stages() for block in stage)
        is_fixed = self.freeze_backbone and self.weights != "none" and not is_shifted
        return self.backbone if is_fixed else None


class Tsm(Tsn):
    """As `Tsn`, with features of neighbouring frames shifted into the residual branches.

    Args:
        shape: Of input and output.
        shift_divisor: One channel of so many comes from the next frame, as many from the last.
        shift_order: `normal`, or `reversed` for weights made with Paddle.
        options: Those of `Tsn`.
    """

    def __init__(
        self,
        shape: VideoShape,
        *,
        shift_divisor: int = 8,
        shift_order: str = "normal",
        **options: Any,
    ) -> None:
        super().__init__(shape, **options)
        check_shift("tsm", shift_divisor, shift_order)
        shift = partial(_shift_inside, divisor=shift_divisor, order=shift_order)
        stages = self.backbone.stages()
        # As the paper has it: the deepest networks become harder to train with all of them.
        every = 2 if max(map(len, stages)) >= 23 else 1
        for stage in stages:
            for block in stage[::every]:
                block.shift = shift


def _shift_inside(
    features: torch.Tensor, times: ClipTimes, *, divisor: int, order: str
) -> torch.Tensor:
    """Return shifted features, into which nothing comes that is padded."""
    if times.inside is not None:
        features = features * times.inside[:, None, None, None]
    return temporal_shift(features, times.num_frames, divisor=divisor, order=order)
