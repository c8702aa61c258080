from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from posemill.errors import ConfigError
from posemill.training.models import KEYPOINT_MODELS, build_model, time_stride_of
from posemill.training.models.base import CtcOutput

LAYOUTS = [("holistic-143", 143, 3), (None, 15, 2)]


def make_input(num_points: int, num_dims: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three clips of 9, 7 and 1 frames, some points missing."""
    torch.manual_seed(0)
    lengths = torch.tensor([9, 7, 1])
    mask = torch.rand(3, 9, num_points) > 0.2
    for row, length in enumerate(lengths):
        mask[row, length:] = False
    return torch.randn(3, 9, num_points, num_dims) * mask[..., None], mask, lengths


def run(model: torch.nn.Module, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    output = model(*inputs)
    return (output.logits, output.lengths) if isinstance(output, CtcOutput) else (output, None)


@pytest.mark.parametrize("task", ["classify", "ctc"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=["holistic-143", "unknown"])
@pytest.mark.parametrize("name", KEYPOINT_MODELS)
def test_padding_and_missing_points_have_no_influence(
    name: str, layout: tuple[str | None, int, int], task: str
) -> None:
    skeleton, num_points, num_dims = layout
    torch.manual_seed(1)
    model = build_model(
        name, num_points=num_points, num_dims=num_dims, num_classes=5, task=task,
        skeleton_name=skeleton,
    ).eval()  # fmt: skip
    points, mask, lengths = make_input(num_points, num_dims)
    logits, steps = run(model, points, mask, lengths)
    longer = F.pad(points, (0, 0, 0, 0, 0, 6))
    wild = torch.where(F.pad(mask, (0, 0, 0, 6))[..., None], longer, torch.tensor(99.0))
    other, _ = run(model, wild, F.pad(mask, (0, 0, 0, 6)), lengths)
    if task == "classify":
        assert logits.shape == (3, 5)
        torch.testing.assert_close(logits, other, rtol=1e-4, atol=1e-5)
        return
    assert steps is not None
    stride = time_stride_of(name)
    assert steps.tolist() == [-(-9 // stride), -(-7 // stride), 1]
    for row, count in enumerate(steps.tolist()):
        torch.testing.assert_close(logits[row, :count], other[row, :count], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("task", ["classify", "ctc"])
@pytest.mark.parametrize("name", KEYPOINT_MODELS)
def test_every_weight_gets_a_gradient(name: str, task: str) -> None:
    model = build_model(
        name, num_points=143, num_dims=3, num_classes=5, task=task, skeleton_name="holistic-143"
    )
    output = model(*make_input(143, 3))
    logits = output.logits if isinstance(output, CtcOutput) else output
    total = logits.square().sum()
    if isinstance(output, CtcOutput) and output.conv_logits is not None:
        total = total + output.conv_logits.square().sum()
    total.backward()
    without = [key for key, weight in model.named_parameters() if weight.grad is None]
    assert not without


@pytest.mark.parametrize("name", ["tcn_bilstm", "stgcn", "transformer"])
def test_activation_checkpointing_gives_the_same_gradients(name: str) -> None:
    gradients = []
    for wanted in (False, True):
        torch.manual_seed(3)
        model = build_model(name, num_points=15, num_dims=2, num_classes=4, dropout=0.0)
        model.activation_checkpointing = wanted
        model(*make_input(15, 2)).square().sum().backward()
        gradients.append([weight.grad for weight in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("name", "options", "stride"),
    [
        ("mlp", {}, 1),
        ("tcn_bilstm", {}, 4),
        ("tcn_bilstm", {"pools": [2, 1]}, 2),
        ("stgcn", {"widths": [8, 8], "strides": [3, 2]}, 6),
        ("transformer", {"stride": 3}, 3),
    ],
)
def test_the_stride_is_known_before_building(
    name: str, options: dict[str, Any], stride: int
) -> None:
    assert time_stride_of(name, **options) == stride
    model = build_model(name, num_points=4, num_dims=2, num_classes=3, task="ctc", **options)
    output = model(torch.zeros(1, 12, 4, 2), torch.ones(1, 12, 4) > 0, torch.tensor([12]))
    assert isinstance(output, CtcOutput)
    assert output.logits.shape[1] == output.lengths[0] == 12 // stride


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("stgnc", {}, "unknown model 'stgnc'; known: .*did you mean 'stgcn'"),
        ("mlp", {"hiden": [3]}, "model mlp has no option 'hiden'.*did you mean 'hidden'"),
        ("mlp", {"frames": 0}, "mlp: expected frames >= 1"),
        ("transformer", {"width": 10}, r"expected width a multiple of 2 \* num_heads"),
        ("stgcn", {"widths": [3]}, "stgcn: expected a stride for each width"),
        ("tcn_bilstm", {"features": ["colour"]}, r"features: expected points \| motion"),
        ("mlp", {"features": ["distances"]}, "mlp: features: expected points"),
        ("stgcn", {"features": ["colour"]}, "stgcn: features: expected points"),
    ],
)
def test_wrong_names_are_refused_with_the_near_one(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        build_model(name, num_points=15, num_dims=2, num_classes=4, **options)
