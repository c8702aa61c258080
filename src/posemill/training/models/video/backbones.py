"""The networks that look at single frames, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from posemill import plugins
from posemill.errors import ConfigError
from posemill.training.models.video.base import Backbone
from posemill.training.models.video.lite import LiteNetwork
from posemill.training.models.video.residual import (
    BasicBlock,
    Bottleneck,
    ResidualBlock,
    ResidualNetwork,
)


@dataclass(frozen=True)
class _Residual:
    block: type[ResidualBlock]
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    stem_kernel: int = 7


_RESIDUAL = {
    "thin": _Residual(BasicBlock, (16, 32, 64, 128), (2, 2, 2, 2), 3),
    "resnet18": _Residual(BasicBlock, (64, 128, 256, 512), (2, 2, 2, 2)),
    "resnet50": _Residual(Bottleneck, (64, 128, 256, 512), (3, 4, 6, 3)),
}
BACKBONES = (*_RESIDUAL, "lite0")


def build_backbone(name: str, *, width: float = 1.0, depth: Sequence[int] = ()) -> Backbone:
    """Return a new network of frames with random weights.

    Args:
        name: One of `BACKBONES`.
        width: Channels, as a multiple of the usual ones.
        depth: Blocks of the four stages; empty for the usual ones.
    """
    if name not in BACKBONES:
        raise plugins.unknown("backbone", name, BACKBONES)
    if name == "lite0":
        if width != 1 or depth:
            raise ConfigError("backbone lite0 has one width and depth: leave both options out")
        return LiteNetwork()
    usual = _RESIDUAL[name]
    widths, depths = stage_sizes(usual.widths, usual.depths, width, depth)
    return ResidualNetwork(usual.block, widths, depths, stem_kernel=usual.stem_kernel)


def stage_sizes(
    widths: Sequence[int], depths: Sequence[int], width: float, depth: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return channels and blocks of the four stages: the usual ones as the options change them."""
    if width <= 0:
        raise ConfigError(f"width: expected above 0, got {width}")
    if depth and (len(depth) != 4 or min(depth) < 1):
        raise ConfigError(f"depth: expected blocks of four stages, got {list(depth)}")
    # By eights, so that an eighth of them can move each way
    return [max(8, round(size * width / 8) * 8) for size in widths], list(depth or depths)
