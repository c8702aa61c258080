from __future__ import annotations

import torch

from posemill.training.models import build_model


def test_the_order_of_frames_is_seen() -> None:
    torch.manual_seed(0)
    model = build_model("transformer", num_points=4, num_dims=2, num_classes=3, stride=1,
                        features=["points"]).eval()  # fmt: skip
    points, mask = torch.randn(1, 6, 4, 2), torch.ones(1, 6, 4) > 0
    lengths = torch.tensor([6])
    forward, backward = model(points, mask, lengths), model(points.flip(1), mask, lengths)
    assert not torch.allclose(forward, backward, atol=1e-3)
    assert torch.allclose(forward, model(points, mask, lengths))
