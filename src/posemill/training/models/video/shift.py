"""The temporal shift of TSM as one autograd function: an eighth of the channels each way.

Composed of pad, slices and cat it copies the features several times, forward and backward; here
each number is written once.
"""

from __future__ import annotations

from typing import Any

from posemill.errors import ConfigError
from posemill.plugins import not_among
from posemill.training.extra import naming_the_extra

with naming_the_extra():
    import torch
    from torch import Tensor

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


def check_shift(model: str, divisor: int, order: str) -> None:
    """Refuse options of the shift that it does not have."""
    if order not in SHIFT_ORDERS:
        raise not_among("shift_order", order, SHIFT_ORDERS)
    if divisor < 2:
        raise ConfigError(f"{model}: shift_divisor: expected 2 or more, got {divisor}")


class _Shift(torch.autograd.Function):
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
