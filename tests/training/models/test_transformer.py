from __future__ import annotations

import inspect

import torch
from torch import nn

from posemill.training.models import build_model
from posemill.training.models.keypoints import ModelShape
from posemill.training.models.sequence import Transformer, positions


def test_the_order_of_frames_is_seen() -> None:
    torch.manual_seed(0)
    model = build_model("transformer", num_points=4, num_dims=2, num_classes=3, stride=1,
                        features=["points"]).eval()  # fmt: skip
    points, mask = torch.randn(1, 6, 4, 2), torch.ones(1, 6, 4) > 0
    lengths = torch.tensor([6])
    forward, backward = model(points, mask, lengths), model(points.flip(1), mask, lengths)
    assert not torch.allclose(forward, backward, atol=1e-3)
    assert torch.allclose(forward, model(points, mask, lengths))


def test_positions_are_sines_and_cosines_at_falling_frequencies() -> None:
    found = positions(3, 4)
    rates = torch.tensor([1.0, 0.01])  # 10000 to the power of 0 and of minus a half
    for time in range(3):
        expected = torch.cat([torch.sin(time * rates), torch.cos(time * rates)])
        torch.testing.assert_close(found[time], expected)


def test_layers_are_as_many_and_as_wide_as_asked_for() -> None:
    model = Transformer(ModelShape(4, 2, 3), width=16, num_layers=2, num_heads=4, dropout=0.1)
    assert len(model.blocks) == 2
    for block in model.blocks:
        assert isinstance(block, nn.TransformerEncoderLayer)
        assert (block.self_attn.num_heads, block.linear1.out_features) == (4, 64)
        assert block.self_attn.batch_first
        assert block.norm_first
        assert block.dropout.p == 0.1
        assert block.activation is nn.functional.gelu
    assert (model.shorten.pool, model.shorten.conv.kernel_size) == (2, (5,))
    assert model.head.in_features == 32, "mean and maximum"
    assert Transformer(ModelShape(4, 2, 3, "ctc"), width=16).head.in_features == 16
    assert (Transformer.stride_of(), Transformer.stride_of(stride="3")) == (2, 3)


def test_the_usual_transformer() -> None:
    usual = {
        name: parameter.default
        for name, parameter in inspect.signature(Transformer).parameters.items()
        if name != "shape"
    }
    assert usual == {
        "width": 128, "num_layers": 3, "num_heads": 4, "stride": 2, "dropout": 0.2,
        "features": ("points", "motion", "presence"),
    }  # fmt: skip
