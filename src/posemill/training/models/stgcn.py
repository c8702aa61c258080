"""`stgcn`: graph convolution over the points of a frame, convolution of each point over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posemill.errors import ConfigError
from posemill.skeletons import get_skeleton
from posemill.training.data.normalize import groups_of
from posemill.training.models.base import ClipHead, ModelOutput, ModelShape, shorten, steps_mask
from posemill.training.models.keypoints import KeypointModel, features_per_point, point_features

JOINED = 128  # numbers of a step, all parts together


class Stgcn(KeypointModel):
    """Blocks of a graph convolution and a convolution over time, then a vector of each part.

    For few points, or where bones matter: on 143 points it computes about eight times as long as
    `tcn_bilstm`. A graph convolution treats all points alike. Which point is which comes from three
    places: a gain, an offset and a vector of each point at the input, links that are learned beside
    the bones, and `num_sums` sums over the points of each part whose weights are learned.
    """

    stride_option = "strides"

    def __init__(
        self,
        shape: ModelShape,
        *,
        widths: Sequence[int] = (16, 32, 32),
        strides: Sequence[int] = (2, 2, 1),
        kernel: int = 5,
        num_sums: int = 8,
        dropout: float = 0.2,
        features: Sequence[str] = ("points", "motion", "presence"),
    ) -> None:
        super().__init__(shape)
        if len(widths) != len(strides) or not widths:
            template = "stgcn: expected a stride for each width, got {widths}, {strides}"
            raise ConfigError(template, widths=widths, strides=strides)
        self.features, self.strides = tuple(features), tuple(strides)
        before = features_per_point(self.features, shape.num_dims)
        self.identify = PointIdentity(shape.num_points, before, widths[0])
        before = widths[0]
        graphs = partitions(shape.num_points, shape.skeleton_name)
        self.blocks = nn.ModuleList()
        for width, stride in zip(widths, strides, strict=True):
            block = GraphBlock(before, width, graphs, time=(kernel, stride), dropout=dropout)
            self.blocks.append(block)
            before = width
        self.sums = PartSums(shape, num_sums)
        width = before * self.sums.num_sums
        self.join = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, JOINED), nn.GELU())
        self.dropout = nn.Dropout(dropout)
        self.head = ClipHead(shape, JOINED, dropout=0.0)

    def forward(self, points: Tensor, mask: Tensor, lengths: Tensor) -> ModelOutput:
        """Return logits `(B, C)`, or a `CtcOutput`."""
        features = self.identify(point_features(points, mask, self.features))  # (B, T, K, F)
        for number, block in enumerate(self.blocks):
            features = self.run(block, features, lengths)
            lengths = shorten(lengths, self.strides[number])
        sequence = self.dropout(self.join(self.sums(features)))  # (B, T', JOINED)
        return self.head(sequence, lengths)


class PointIdentity(nn.Module):
    """A gain and an offset for every number of every point, and a learned vector of each point."""

    def __init__(self, num_points: int, before: int, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(num_points, before))
        self.offset = nn.Parameter(torch.zeros(num_points, before))
        self.project = nn.Linear(before, width)
        self.vectors = nn.Parameter(0.5 * torch.randn(num_points, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, features: Tensor) -> Tensor:
        """Return `(B, T, K, width)` of `(B, T, K, before)`."""
        moved = self.project(features * self.gain + self.offset) + self.vectors
        result: Tensor = F.gelu(self.norm(moved))
        return result


class PartSums(nn.Module):
    """Sums over the points of each part with learned weights; they begin near the mean."""

    inside: Tensor

    def __init__(self, shape: ModelShape, num_sums: int) -> None:
        super().__init__()
        ranges = shape.ranges
        self.num_sums = num_sums * len(ranges)
        inside = torch.zeros(self.num_sums, shape.num_points)
        for number, (start, stop) in enumerate(ranges):
            inside[number * num_sums : (number + 1) * num_sums, start:stop] = 1.0
        sizes = inside.sum(1, keepdim=True)
        self.register_buffer("inside", inside, persistent=False)
        self.weights = nn.Parameter(inside / sizes + inside * torch.randn_like(inside) / sizes**0.5)

    def forward(self, features: Tensor) -> Tensor:
        """Return `(B, T, sums * C)` of `(B, T, K, C)`."""
        weights = self.weights * self.inside
        return F.linear(features.transpose(2, 3), weights).flatten(2)


class GraphBlock(nn.Module):
    """A convolution of each point over time, a graph convolution, and a way around both."""

    def __init__(
        self, before: int, width: int, graphs: Tensor, *, time: tuple[int, int], dropout: float
    ) -> None:
        super().__init__()
        kernel, self.stride = time
        self.over_time = nn.Conv2d(
            before, width, (kernel, 1), stride=(self.stride, 1), padding=(kernel // 2, 0)
        )
        self.norm_time = nn.LayerNorm(width)
        # Starts as the skeleton's bones; which points belong together beyond that is learned.
        self.links = nn.Parameter(graphs + 1e-2 * torch.randn_like(graphs))
        self.own = nn.Linear(width, width)
        self.others = nn.Linear(width * len(graphs), width)
        self.norm = nn.LayerNorm(width)
        self.around = nn.Linear(before, width) if before != width else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Return `(B, T', K, width)` of `(B, T, K, before)`; steps past a clip's end are 0."""
        inside = steps_mask(lengths, features.shape[1])[..., None, None]
        features = features * inside  # what is padded must not leak into the last frames
        # (B, T, K, C) read as (B, C, T, K) is what torch calls channels last: nothing is copied.
        moved = self.over_time(features.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        # Time is shortened first: the product below is the dear one.
        hidden = F.gelu(self.norm_time(moved))
        # One product of (B T width, K) with (K, 3 K): as a batch of small ones it is far slower.
        gathered = F.linear(hidden.transpose(2, 3), self.links.flatten(0, 1))
        gathered = gathered.reshape(*gathered.shape[:3], len(self.links), -1)
        gathered = gathered.permute(0, 1, 4, 3, 2).flatten(3)
        mixed = self.norm(self.own(hidden) + self.others(gathered))
        result = self.around(features[:, :: self.stride]) + self.dropout(mixed)
        inside = steps_mask(shorten(lengths, self.stride), result.shape[1])[..., None, None]
        return F.gelu(result) * inside


def partitions(num_points: int, skeleton_name: str | None) -> Tensor:
    """Return `(3, K, K)`: bones to points as far from the root, nearer to it, farther from it.

    A row is divided by its sum. All is zero where no bones are known.
    """
    graphs = torch.zeros(3, num_points, num_points)
    if skeleton_name:
        bones = get_skeleton(skeleton_name).bones
        roots = [root for group in groups_of(skeleton_name) for root in group.roots]
        hops = hops_from(roots, bones, num_points)
        for pair in bones:
            for point, other in (pair, pair[::-1]):
                way = hops[other] - hops[point]
                graphs[0 if way == 0 else 1 if way < 0 else 2, point, other] = 1.0
    return graphs / graphs.sum(2, keepdim=True).clamp(min=1.0)


def hops_from(roots: Sequence[int], bones: Iterable[tuple[int, int]], num_points: int) -> list[int]:
    """Return how many bones each point is from the nearest root.

    Of points that no root reaches, the first of those that hang together is their root.
    """
    near: dict[int, list[int]] = {point: [] for point in range(num_points)}
    for one, other in bones:
        near[one].append(other)
        near[other].append(one)
    hops: dict[int, int] = {}
    for starts in (roots, *([point] for point in range(num_points))):
        waiting = [point for point in starts if point not in hops]
        hops |= dict.fromkeys(waiting, 0)
        while waiting:
            point = waiting.pop(0)
            fresh = [other for other in near[point] if other not in hops]
            hops |= dict.fromkeys(fresh, hops[point] + 1)
            waiting += fresh
    return [hops[point] for point in range(num_points)]
