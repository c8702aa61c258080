"""The models whose kernels look along time: their wiring, and the numbers that are published."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from posemill.errors import ConfigError
from posemill.training.models import build_model
from posemill.training.models.space_time import Fusion


def build(name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    return build_model(name, **{"num_classes": 5, "num_frames": 8, **options})


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        # R(2+1)D-18 of torchvision
        ("r2plus1d", {"width": 4, "depth": [2, 2, 2, 2]}, 31_505_325),
        # SlowFast-50, 8x8: 34.57 M
        ("slowfast", {"width": 4, "depth": [3, 4, 6, 3], "has_bottlenecks": True}, 34_566_488),
    ],
)
def test_the_papers_networks_have_as_many_weights(name, options, count):
    with torch.device("meta"):
        model = build(name, num_classes=400, num_frames=32, **options)
    assert sum(weight.numel() for weight in model.parameters()) == count


@pytest.mark.parametrize("num_frames", [8, 6, 2, 1])
def test_both_paths_meet_whatever_the_number_of_frames(num_frames):
    model, seen = build("slowfast"), []
    for stages in (model.slow_stages, model.fast_stages):
        stages[3].register_forward_hook(lambda *args: seen.append(args[2].shape[2]))
    clips = torch.randn(2, num_frames, 3, 32, 32)
    assert model(clips, torch.tensor([num_frames] * 2)).shape == (2, 5)
    assert seen == [-(-num_frames // 4), num_frames]


def test_a_fusion_gives_the_slow_path_the_mean_of_seven_fast_frames():
    fusion = Fusion(1, 4).eval()
    torch.nn.init.constant_(fusion.conv.weight, 1 / 7)
    slow, fast = torch.zeros(1, 3, 2, 1, 1), torch.arange(8.0).reshape(1, 1, 8, 1, 1)
    joined = fusion(slow, fast)[0, :, :, 0, 0]
    assert joined[:3].abs().max() == 0
    expected = torch.tensor([(0 + 1 + 2 + 3) / 7, (1 + 2 + 3 + 4 + 5 + 6 + 7) / 7])
    torch.testing.assert_close(joined[3:], expected.expand(2, 2), rtol=1e-4, atol=0)


@pytest.mark.parametrize("name", ["slowfast", "r2plus1d"])
def test_order_in_time_is_seen(name):
    model, clips = build(name).eval(), torch.randn(2, 8, 3, 32, 32)
    lengths = torch.tensor([8, 8])
    assert not torch.allclose(model(clips, lengths), model(clips.flip(1), lengths), atol=1e-4)


@pytest.mark.parametrize("name", ["slowfast", "r2plus1d"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "ctc"}, "gives one answer a clip: task ctc needs one for every frame; use tsm"),
        ({"num_frames": 0}, "takes clips of one length: sample so many frames of each, such as"),
    ],
)
def test_what_needs_frames_on_their_own_is_refused(name, options, message):
    with pytest.raises(ConfigError, match=f"model {name} {message}"):
        build(name, **options)
