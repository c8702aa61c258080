"""The temporal shift as one autograd function against slices, pad and cat, as it is usually done.

    python -m benchmarks.training.shift [--rounds 20] [--json]

Forward and backward in CPU time, one thread, the arms in turns, on float32 features of three
shapes: `(frames, channels, height, width)` 256 x 16 x 32², 512 x 64 x 28² (32 and 64 clips of 8
frames), and the second one channels-last. First both must give the same bits. `memory` is what
autograd and the result hold, and pass through, by torch's own account of CPU allocations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.autograd.profiler_util import FunctionEventAvg
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from benchmarks.shared.measuring import Measured, in_turns, make_parser, ratio, report
from posemill.training.models.frames import temporal_shift

NUM_FRAMES = 8
SHAPES = {
    "small": ((256, 16, 32, 32), torch.contiguous_format),
    "large": ((512, 64, 28, 28), torch.contiguous_format),
    "channels_last": ((512, 64, 28, 28), torch.channels_last),
}
Shift = Callable[[Tensor], Tensor]


def composed(features: Tensor) -> Tensor:
    """Return the shifted features by slices, pad and cat."""
    clips = features.unflatten(0, (-1, NUM_FRAMES))  # type: ignore[no-untyped-call]
    fold = features.shape[1] // 8
    later = F.pad(clips, (0, 0, 0, 0, 0, 0, 0, 1))[:, 1:]
    earlier = F.pad(clips, (0, 0, 0, 0, 0, 0, 1, 0))[:, :-1]
    parts = [later[:, :, :fold], earlier[:, :, fold : 2 * fold], clips[:, :, 2 * fold :]]
    return torch.cat(parts, 2).flatten(0, 1)


def sliced_first(features: Tensor) -> Tensor:
    """Return the same, padding only the channels that move: the best of the composed forms."""
    clips = features.unflatten(0, (-1, NUM_FRAMES))  # type: ignore[no-untyped-call]
    fold = features.shape[1] // 8
    later = F.pad(clips[:, 1:, :fold], (0, 0, 0, 0, 0, 0, 0, 1))
    earlier = F.pad(clips[:, :-1, fold : 2 * fold], (0, 0, 0, 0, 0, 0, 1, 0))
    return torch.cat([later, earlier, clips[:, :, 2 * fold :]], 2).flatten(0, 1)


def ours(features: Tensor) -> Tensor:
    """Return the shifted features by our function."""
    return temporal_shift(features, NUM_FRAMES)


def both_ways(shift: Shift, features: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the result and the gradient of the features."""
    features = features.detach().requires_grad_()
    result = shift(features)
    torch.autograd.backward(result, gradient)
    assert features.grad is not None
    return result, features.grad


def allocated(shift: Shift, features: Tensor, gradient: Tensor) -> int:
    """Return the bytes that forward and backward allocate."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        both_ways(shift, features, gradient)
    events: list[FunctionEventAvg] = list(seen.key_averages())
    return sum(max(0, event.self_cpu_memory_usage) for event in events)


def measure(name: str, rounds: int) -> dict[str, Measured]:
    """Return the ratios of one shape."""
    shape, layout = SHAPES[name]
    torch.manual_seed(0)
    features = torch.randn(shape).contiguous(memory_format=layout)
    gradient = torch.randn(shape).contiguous(memory_format=layout)
    arms = {"composed": composed, "sliced_first": sliced_first, "ours": ours}
    results = {arm: both_ways(shift, features, gradient) for arm, shift in arms.items()}
    for arm in ("composed", "sliced_first"):
        assert all(map(torch.equal, results[arm], results["ours"])), f"{arm} gives other bits"
    taken = in_turns(
        {arm: partial(both_ways, shift, features, gradient) for arm, shift in arms.items()},
        rounds,
        warm_up=3,
    )
    fewer = allocated(composed, features, gradient) / allocated(ours, features, gradient)
    note = f"{sum(taken['ours']) / rounds * 1e3:.1f} ms"
    return {
        f"{name}": ratio(taken["composed"], taken["ours"]).noted(note),
        f"{name}_sliced_first": ratio(taken["sliced_first"], taken["ours"]),
        f"{name}_memory": Measured(fewer, note="pad + cat allocates so many times as much"),
    }


def main() -> None:
    """Measure all shapes."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Measured] = {}
    for name in SHAPES:
        results |= measure(name, arguments.rounds)
    report(results, as_json=arguments.json)


if __name__ == "__main__":
    main()
