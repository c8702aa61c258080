"""`two_streams`: models of keypoints and of video look at the same clips, and answer together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from posemill.training.models import build_model
from posemill.training.models.base import Model, ModelShape


class TwoStreams(Model):
    """Late fusion: the mean of the logits of two models, which learn together.

    `keypoint_share` is how much what the first says counts, 0 to 1.
    """

    takes = "two_streams"

    def __init__(
        self,
        shape: ModelShape,
        *,
        keypoint_model: str = "tcn_bilstm",
        keypoint_options: Mapping[str, Any] | None = None,
        video_model: str = "tsm",
        video_options: Mapping[str, Any] | None = None,
        keypoint_share: float = 0.5,
    ) -> None:
        super().__init__(shape)
        self.keypoint_share = keypoint_share
        self.keypoints = build_model(
            keypoint_model,
            num_points=shape.num_points,
            num_dims=shape.num_dims,
            num_classes=shape.num_classes,
            skeleton_name=shape.skeleton_name,
            **(keypoint_options or {}),
        )
        self.video = build_model(
            video_model,
            num_classes=shape.num_classes,
            num_frames=shape.num_frames,
            **(video_options or {}),
        )

    def load_pretrained(self) -> None:
        """Copy the weights that the model of video begins with."""
        self.video.load_pretrained()

    def forward(self, keypoints: tuple[Tensor, ...], video: tuple[Tensor, ...]) -> Tensor:
        """Return logits `(B, C)` of the inputs of a `KeypointModel` and of a `VideoModel`."""
        share = self.keypoint_share
        joined: Tensor = share * self.keypoints(*keypoints) + (1 - share) * self.video(*video)
        return joined
