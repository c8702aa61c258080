from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from posemill.training.models.frames import temporal_shift


def composed(features: torch.Tensor, num_frames: int, order: str = "normal") -> torch.Tensor:
    """The shift by slices, pad and cat, as it is usually written."""
    clips = features.unflatten(0, (-1, num_frames))
    fold = features.shape[1] // 8
    pad = (0, 0) * (features.ndim - 1)
    later = F.pad(clips, (*pad, 0, 1))[:, 1:]  # the next frame in the place of each
    earlier = F.pad(clips, (*pad, 1, 0))[:, :-1]
    first, second = (later, earlier) if order == "normal" else (earlier, later)
    parts = [first[:, :, :fold], second[:, :, fold : 2 * fold], clips[:, :, 2 * fold :]]
    return torch.cat(parts, 2).flatten(0, 1)


def both_ways(
    function: Callable[..., torch.Tensor], features: torch.Tensor, *args: object
) -> list[torch.Tensor]:
    features = features.detach().requires_grad_()
    result = function(features, *args)
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(1))
    (result.float() * weights).sum().backward()
    return [result.detach(), features.grad]


@pytest.mark.parametrize("order", ["normal", "reversed"])
@pytest.mark.parametrize(
    ("frames", "num_frames", "channels"), [(8, 4, 16), (6, 3, 13), (5, 1, 16), (4, 2, 7), (6, 6, 9)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_the_composed_form_to_the_last_bit(order, frames, num_frames, channels, dtype):
    features = torch.randn(frames, channels, 3, 5).to(dtype)
    for layout in (torch.contiguous_format, torch.channels_last):
        laid_out = features.contiguous(memory_format=layout)

        def ours(x: torch.Tensor) -> torch.Tensor:
            return temporal_shift(x, num_frames, order=order)

        expected = both_ways(composed, laid_out, num_frames, order)
        for one, other in zip(both_ways(ours, laid_out), expected, strict=True):
            assert one.dtype == dtype
            assert torch.equal(one, other)
        assert ours(laid_out).is_contiguous(memory_format=layout)


def test_second_derivatives_are_right():
    features = torch.randn(6, 8, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: temporal_shift(x.sin(), 3), features)


# torch's own compiler warns so of every autograd function that it takes
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_it_is_compiled_whole_and_gives_the_same_bits():
    features = torch.randn(8, 16, 3, 5)
    compiled = torch.compile(
        lambda x: temporal_shift(x.relu(), 4) * 2, backend="aot_eager", fullgraph=True
    )
    expected = both_ways(lambda x: composed(x.relu(), 4) * 2, features)
    for one, other in zip(both_ways(compiled, features), expected, strict=True):
        assert torch.equal(one, other)


def test_frames_that_are_not_of_whole_clips_are_refused():
    with pytest.raises(ValueError, match="expected frames of whole clips of 4, got 6 frames"):
        temporal_shift(torch.zeros(6, 8), 4)
