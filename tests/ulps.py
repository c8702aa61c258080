"""How far two results of a network may be apart where the processor decides on the last bits."""

from __future__ import annotations

import torch
from torch import Tensor


def assert_within_ulps(result: Tensor, expected: Tensor, ulps: float) -> None:
    """Assert that values differ by at most so many ulps of the largest one of them.

    A kernel chooses the order of its sums by the shape of its inputs and by the processor. A sum of
    n products is off by n ulps of its largest term at most, and by about the square root of n as a
    rule; a result that is small by cancellation has the error of its large terms.
    """
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    unit = torch.finfo(expected.dtype).eps * expected.detach().abs().max()
    difference = float((result - expected).detach().abs().max() / unit)
    assert difference <= ulps, f"{difference:.1f} ulps apart, allowed are {ulps}"
