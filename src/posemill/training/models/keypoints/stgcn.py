"""`stgcn`: graph convolution over the points of a frame, convolution of each point over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from posemill.errors import ConfigError
from posemill.skeletons import get_skeleton
from posemill.training.data.normalize import groups_of
from posemill.training.models.keypoints.base import (
    CtcOutput,
    KeypointModel,
    ModelShape,
    features_per_point,
    point_features,
    pool_time,
    shorten,
    steps_mask,
)


class Stgcn(KeypointModel):
    """Blocks of a graph convolution and a convolution over time; points pooled by group at the end.

    The graph has the skeleton's bones, and learned links besides. A skeleton that is not known has
    no bones: its links are learned from nothing.

    Args:
        shape: Of input and output.
        widths: Numbers per point after each block.
        strides: By how much each block shortens time.
        kernel: Frames of the convolution over time.
        dropout: Share of hidden numbers dropped in training.
        features: `points`, `motion`, `fast_motion`, `presence`.
    """

    def __init__(
        self,
        shape: ModelShape,
        *,
        widths: Sequence[int] = (16, 32, 64),
        strides: Sequence[int] = (2, 2, 1),
        kernel: int = 5,
        dropout: float = 0.2,
        features: Sequence[str] = ("points", "motion", "presence"),
    ) -> None:
        super().__init__(shape)
        if len(widths) != len(strides) or not widths:
            raise ConfigError(f"stgcn: expected a stride for each width, got {widths}, {strides}")
        self.features, self.strides = tuple(features), tuple(strides)
        before = features_per_point("stgcn", self.features, shape.num_dims)
        graph = adjacency(shape.num_points, shape.skeleton_name)
        blocks = []
        for width, stride in zip(widths, strides, strict=True):
            blocks.append(GraphBlock(before, width, graph, time=(kernel, stride), dropout=dropout))
            before = width
        self.blocks = nn.ModuleList(blocks)
        self.ranges = [(0, shape.num_points)]
        if shape.skeleton_name:
            self.ranges = [(group.start, group.stop) for group in groups_of(shape.skeleton_name)]
        width = before * len(self.ranges) * 2
        self.join = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * before), nn.GELU())
        self.dropout = nn.Dropout(dropout)
        outputs = 2 * before if shape.task == "ctc" else 4 * before
        self.head = nn.Linear(outputs, shape.num_classes)

    @classmethod
    def stride_of(cls, **options: Any) -> int:
        """Return the product of the strides."""
        result = 1
        for stride in options.get("strides", (2, 2, 1)):
            result *= int(stride)
        return result

    def forward(
        self, points: torch.Tensor, mask: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor | CtcOutput:
        """Return logits `(B, C)`, or a `CtcOutput`."""
        features = point_features(points, mask, self.features)  # (B, T, K, F)
        for number, block in enumerate(self.blocks):
            features = self.run(block, features, lengths)
            lengths = shorten(lengths, self.strides[number])
        pooled = [
            torch.cat([part.mean(2), part.amax(2)], -1)
            for part in (features[:, :, start:stop] for start, stop in self.ranges)
        ]
        sequence = self.dropout(self.join(torch.cat(pooled, -1)))  # (B, T', 2 C)
        if self.shape.task == "ctc":
            return CtcOutput(self.head(sequence), lengths)
        logits: torch.Tensor = self.head(pool_time(sequence, lengths))
        return logits


class GraphBlock(nn.Module):
    """Graph convolution, a convolution of each point over time, and a way around both."""

    def __init__(
        self,
        before: int,
        width: int,
        graph: torch.Tensor,
        *,
        time: tuple[int, int],
        dropout: float,
    ) -> None:
        super().__init__()
        kernel, self.stride = time
        # Starts as the skeleton's bones; which points belong together beyond that is learned.
        self.links = nn.Parameter(graph + 1e-2 * torch.randn_like(graph))
        self.own = nn.Linear(before, width)
        self.others = nn.Linear(before, width)
        self.norm = nn.LayerNorm(width)
        self.over_time = nn.Conv2d(
            width, width, (kernel, 1), stride=(self.stride, 1), padding=(kernel // 2, 0)
        )
        self.norm_time = nn.LayerNorm(width)
        self.around = nn.Linear(before, width) if before != width else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return `(B, T', K, width)` of `(B, T, K, before)`; steps past a clip's end are 0."""
        # One product of (B T before, K) with (K, K): as a batch of small ones it is far slower.
        gathered = F.linear(features.transpose(2, 3), self.links).transpose(2, 3)
        hidden = F.gelu(self.norm(self.own(features) + self.others(gathered)))
        inside = steps_mask(lengths, features.shape[1])[..., None, None]
        hidden = hidden * inside  # what is padded must not leak into the last frames
        # (B, T, K, C) read as (B, C, T, K) is what torch calls channels last: nothing is copied.
        moved = self.over_time(hidden.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        moved = self.norm_time(moved)
        result = self.around(features[:, :: self.stride]) + self.dropout(moved)
        inside = steps_mask(shorten(lengths, self.stride), result.shape[1])[..., None, None]
        return F.gelu(result) * inside


def adjacency(num_points: int, skeleton_name: str | None) -> torch.Tensor:
    """Return `(K, K)`: bones both ways, each row divided by its sum; zeros where none are known."""
    graph = torch.zeros(num_points, num_points)
    if skeleton_name:
        for one, other in get_skeleton(skeleton_name).bones:
            graph[one, other] = graph[other, one] = 1.0
    return graph / graph.sum(1, keepdim=True).clamp(min=1.0)
