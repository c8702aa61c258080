from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from posemill.errors import ConfigError
from posemill.training.loop.stepping import checkpoint_blocks, put_channels_last
from posemill.training.models import MODELS_OF, build_model, input_of


def make_clips(num_frames: int = 8, size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    """Three clips of so many frames."""
    torch.manual_seed(0)
    return torch.randn(3, num_frames, 3, size, size), torch.full((3,), num_frames)


def build(name: str, task: str = "classify", num_frames: int = 8, **options: Any) -> Any:
    torch.manual_seed(1)
    return build_model(name, num_classes=5, task=task, num_frames=num_frames, **options)


@pytest.mark.parametrize("name", MODELS_OF["video"])
def test_every_weight_gets_a_gradient(name):
    model = build(name)
    output = model(*make_clips())
    assert output.shape == (3, 5)
    output.square().sum().backward()
    assert not [key for key, weight in model.named_parameters() if weight.grad is None]
    assert input_of(name) == "video"


@pytest.mark.parametrize("head", ["average", "gru", "conv"])
@pytest.mark.parametrize("name", ["tsn", "tsm"])
def test_every_head_answers_for_clips_and_for_frames(name, head):
    clips, lengths = make_clips()
    assert build(name, head=head)(clips, lengths).shape == (3, 5)
    output = build(name, "ctc", head=head)(clips, lengths)
    assert output.logits.shape == (3, 8, 5)
    assert output.lengths.tolist() == [8, 8, 8]


@pytest.mark.parametrize("task", ["classify", "ctc"])
@pytest.mark.parametrize("head", ["average", "gru", "conv"])
@pytest.mark.parametrize("name", ["tsn", "tsm"])
def test_padded_frames_have_no_influence(name, head, task):
    model = build(name, task, 0, head=head, dropout=0.0).eval()
    clips, _ = make_clips(5, 16)
    lengths = torch.tensor([5, 3, 1])
    longer = F.pad(clips, (0, 0) * 3 + (0, 2))
    for row, length in enumerate(lengths.tolist()):
        longer[row, length:] = 9.0
    one, other = model(clips, lengths), model(longer, lengths)
    if task == "classify":
        torch.testing.assert_close(one, other)
        return
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(one.logits[row, :length], other.logits[row, :length])


def test_only_shifted_features_tell_the_order_of_frames():
    clips, lengths = make_clips()
    for name, sees_order in (("tsn", False), ("tsm", True)):
        model = build(name).eval()
        forward, backward = model(clips, lengths), model(clips.flip(1), lengths)
        assert torch.allclose(forward, backward, atol=1e-5) is not sees_order


@pytest.mark.parametrize(
    ("backbone", "count"), [("resnet18", 11_689_512), ("resnet50", 25_557_032)]
)
def test_residual_networks_have_the_published_number_of_weights(backbone, count):
    with torch.device("meta"):
        model = build_model("tsn", num_classes=1000, num_frames=8, backbone=backbone)
    assert sum(weight.numel() for weight in model.parameters()) == count


def test_cells_say_where_in_a_frame_something_is():
    model = build("tsn", cells=2)
    features = torch.arange(32.0).reshape(1, 2, 4, 4)
    parts = [features[0, c, y : y + 2, x : x + 2].mean() for c in (0, 1) for y in (0, 2)
             for x in (0, 2)]  # fmt: skip
    torch.testing.assert_close(model.backbone.pool(features)[0], torch.stack(parts))
    assert model.head.fc.in_features == model.backbone.num_features == 4 * 128
    assert model(*make_clips()).shape == (3, 5)


@pytest.mark.parametrize("name", MODELS_OF["video"])
def test_checkpointed_blocks_give_the_same_gradients_and_statistics(name):
    found = []
    for wanted in (False, True):
        model = build(name, dropout=0.0)
        if wanted:
            assert checkpoint_blocks(model) >= 4
        model(*make_clips()).square().sum().backward()
        statistics = [b for b in model.buffers() if b.is_floating_point()]
        found.append([*(w.grad for w in model.parameters()), *statistics])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", MODELS_OF["video"])
def test_channels_last_gives_the_same_answers(name):
    model = build(name, dropout=0.0).eval()
    before = model(*make_clips())
    put_channels_last(model)
    torch.testing.assert_close(model(*make_clips()), before, rtol=1e-4, atol=1e-5)
    model(*make_clips()).sum().backward()
    for weights in model.parameters():  # else processes that exchange gradients copy each
        if weights.ndim == 4 and weights.grad is not None:
            assert weights.grad.stride() == weights.stride(), tuple(weights.shape)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tsm", {"shift_ordre": 1}, "model tsm has no option 'shift_ordre'; it has shift_divisor, "
         "shift_order, backbone, .*did you mean 'shift_order'"),
        ("tsn", {"shift_order": "normal"}, "model tsn has no option 'shift_order'"),
        ("tsm", {"shift_order": "back"}, r"shift_order: expected normal \| reversed"),
        ("tsm", {"backbone": "resnet81"}, "unknown backbone 'resnet81'; .*did you mean 'resnet18'"),
        ("tsm", {"width": 0}, "width: expected above 0, got 0"),
        ("tsm", {"depth": [1, 2]}, r"depth: expected blocks of four stages, got \[1, 2\]"),
        ("tsm", {"head": "mean"}, r"head: expected average \| gru \| conv, got 'mean'"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(name, options, message):
    with pytest.raises(ConfigError, match=message):
        build(name, **options)
