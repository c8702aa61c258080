"""What models of keypoints share: the features of a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from posemill.plugins import not_among
from posemill.training.models.base import Model, ModelShape


class KeypointModel(Model):
    """Base of the models: `forward(points, mask, lengths)`.

    `points (B, T, K, D)`, `mask (B, T, K)`, `lengths (B,)` in; logits `(B, C)` out for classify, a
    `CtcOutput` for ctc. What is padded or missing has no influence on the result.
    """

    takes = "keypoints"
    activation_checkpointing = False

    def run(self, block: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Return `block(*inputs)`, where asked computed again in the backward pass."""
        if self.activation_checkpointing and self.training:
            result: Tensor = checkpoint(block, *inputs, use_reentrant=False)
            return result
        return block(*inputs)


def point_features(points: Tensor, mask: Tensor, kinds: tuple[str, ...]) -> Tensor:
    """Return `(B, T, K, F)`: the chosen kinds side by side; 0 where a point is missing.

    Kinds are `points`, `motion` (against the frame before), `fast_motion` (against two frames
    before), `presence`.
    """
    found = mask[..., None]
    columns = []
    if "points" in kinds:
        columns.append(points * found)
    for name, frames in (("motion", 1), ("fast_motion", 2)):
        if name in kinds:
            moved = points[:, frames:] - points[:, :-frames]
            moved = moved * (mask[:, frames:] & mask[:, :-frames])[..., None]
            moved = F.pad(moved, (0, 0, 0, 0, min(frames, points.shape[1]), 0))
            columns.append(moved[:, : points.shape[1]])
    if "presence" in kinds:
        columns.append(found.to(points.dtype))
    return torch.cat(columns, -1)


def features_per_point(kinds: Iterable[str], num_dims: int) -> int:
    """Return the width that `point_features` gives; refuse kinds it does not have."""
    sizes = {"points": num_dims, "motion": num_dims, "fast_motion": num_dims, "presence": 1}
    for name in kinds:
        if name not in sizes:
            raise not_among("features", name, sizes)
    return sum(sizes[name] for name in set(kinds))


def dense_layer(before: int, after: int, dropout: float) -> list[nn.Module]:
    """Return a linear layer with what follows it."""
    return [nn.Linear(before, after), nn.LayerNorm(after), nn.GELU(), nn.Dropout(dropout)]


class FrameEncoder(nn.Module):
    """A vector per frame: a small network for each group of points, joined by a linear layer.

    Both hands have the same network, which sees the left one as a mirror shows it, and the larger
    of their two results each stands beside them: a sign of the other hand looks alike there.
    """

    def __init__(
        self, shape: ModelShape, width: int, *, features: tuple[str, ...], dropout: float
    ) -> None:
        super().__init__()
        self.features = tuple(features)
        self.ranges, self.hands = shape.ranges, shape.hands
        per_point = features_per_point(features, shape.num_dims)
        widths = [(stop - start) * per_point for start, stop in self.ranges]
        hidden = max(32, width // len(widths))
        self.groups = nn.ModuleList(
            nn.Sequential(*dense_layer(size, hidden, dropout)) for size in widths
        )
        if self.hands:
            left, right = self.hands
            self.groups[right] = self.groups[left]
        joined = hidden * (len(widths) + bool(self.hands))
        self.join = nn.Sequential(nn.Linear(joined, width), nn.LayerNorm(width))

    def forward(self, points: Tensor, mask: Tensor) -> Tensor:
        """Return `(B, T, width)` of points `(B, T, K, D)` and mask `(B, T, K)`."""
        if self.hands:  # the left one in a mirror
            start, stop = self.ranges[self.hands[0]]
            sign = torch.ones_like(points[0, 0])
            sign[start:stop, 0] = -1.0
            points = points * sign
        per_point = point_features(points, mask, self.features)
        encoded = [
            network(per_point[:, :, start:stop].flatten(2))
            for (start, stop), network in zip(self.ranges, self.groups, strict=True)
        ]
        if self.hands:
            left, right = self.hands
            encoded.append(torch.maximum(encoded[left], encoded[right]))
        joined: Tensor = self.join(torch.cat(encoded, -1))
        return joined
