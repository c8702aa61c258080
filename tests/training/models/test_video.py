import pytest
import torch
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from posemill.training.loop.stepping import checkpoint_blocks, put_channels_last
from posemill.training.models import MODELS_OF, build_model
from posemill.training.models.frames import temporal_shift
from posemill.training.models.space_time import Fusion


def make_clips(num_frames=8, size=32):
    """Three clips of so many frames."""
    torch.manual_seed(0)
    return torch.randn(3, num_frames, 3, size, size), torch.full((3,), num_frames)


def build(name, task="classify", num_frames=8, **options):
    torch.manual_seed(1)
    return build_model(name, num_classes=5, task=task, num_frames=num_frames, **options)


@pytest.mark.parametrize("task", ["classify", "ctc"])
@pytest.mark.parametrize("head", ["average", "gru", "conv"])
@pytest.mark.parametrize("name", ["tsn", "tsm"])
def test_every_head_answers_for_clips_and_frames_and_padding_has_no_influence(name, head, task):
    model = build(name, task, 0, head=head, dropout=0.0).eval()
    clips, _ = make_clips(5, 16)
    lengths = torch.tensor([5, 3, 1])
    longer = F.pad(clips, (0, 0) * 3 + (0, 2))
    for row, length in enumerate(lengths.tolist()):
        longer[row, length:] = 9.0
    one, other = model(clips, lengths), model(longer, lengths)
    if task == "classify":
        assert one.shape == (3, 5)
        torch.testing.assert_close(one, other)
        return
    assert one.logits.shape == (3, 5, 5)
    assert one.lengths.tolist() == [5, 3, 1]
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(one.logits[row, :length], other.logits[row, :length])


@pytest.mark.parametrize("name", MODELS_OF["video"])
def test_all_but_networks_of_single_frames_see_their_order(name):
    (clips, lengths), model = make_clips(), build(name).eval()
    forward, backward = model(clips, lengths), model(clips.flip(1), lengths)
    assert torch.allclose(forward, backward, atol=1e-5) is (name == "tsn")


@pytest.mark.parametrize(
    ("name", "options", "num_classes", "count"),
    [
        ("tsn", {"backbone": "resnet18"}, 1000, 11_689_512),
        ("tsn", {"backbone": "resnet50"}, 1000, 25_557_032),
        # R(2+1)D-18 of torchvision
        ("r2plus1d", {"width": 4, "depth": [2, 2, 2, 2]}, 400, 31_505_325),
        # SlowFast-50, 8x8: 34.57 M
        ("slowfast", {"width": 4, "depth": [3, 4, 6, 3], "has_bottlenecks": True}, 400, 34_566_488),
    ],
)
def test_networks_have_the_published_number_of_weights(name, options, num_classes, count):
    with torch.device("meta"):
        model = build_model(name, num_classes=num_classes, num_frames=32, **options)
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
        norms = [part for part in model.modules() if isinstance(part, _BatchNorm)]
        assert {norm.momentum for norm in norms} == {0.1}, "put back"
        gradients = [weight.grad for weight in model.parameters()]
        found.append([*gradients, *(b for b in model.buffers() if b.is_floating_point())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    assert all(gradient is not None for gradient in gradients)


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


@pytest.mark.parametrize("num_frames", [8, 6, 2, 1])
def test_both_paths_of_slowfast_meet_whatever_the_number_of_frames(num_frames):
    model, seen = build("slowfast"), []
    for stages in (model.slow_stages, model.fast_stages):
        stages[3].register_forward_hook(lambda *args: seen.append(args[2].shape[2]))
    assert model(*make_clips(num_frames)).shape == (3, 5)
    assert seen == [-(-num_frames // 4), num_frames]


def test_a_fusion_gives_the_slow_path_the_mean_of_seven_fast_frames():
    fusion = Fusion(1, 4).eval()
    torch.nn.init.constant_(fusion.conv.weight, 1 / 7)
    slow, fast = torch.zeros(1, 3, 2, 1, 1), torch.arange(8.0).reshape(1, 1, 8, 1, 1)
    joined = fusion(slow, fast)[0, :, :, 0, 0]
    assert joined[:3].abs().max() == 0
    expected = torch.tensor([(0 + 1 + 2 + 3) / 7, (1 + 2 + 3 + 4 + 5 + 6 + 7) / 7])
    torch.testing.assert_close(joined[3:], expected.expand(2, 2), rtol=1e-4, atol=0)


def composed(features, num_frames, order="normal"):
    """The shift by slices, pad and cat, as it is usually written."""
    clips = features.unflatten(0, (-1, num_frames))
    fold = features.shape[1] // 8
    pad = (0, 0) * (features.ndim - 1)
    later = F.pad(clips, (*pad, 0, 1))[:, 1:]  # the next frame in the place of each
    earlier = F.pad(clips, (*pad, 1, 0))[:, :-1]
    first, second = (later, earlier) if order == "normal" else (earlier, later)
    parts = [first[:, :, :fold], second[:, :, fold : 2 * fold], clips[:, :, 2 * fold :]]
    return torch.cat(parts, 2).flatten(0, 1)


def both_ways(function, features, *args):
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

        def ours(x):
            return temporal_shift(x, num_frames, order=order)

        expected = both_ways(composed, laid_out, num_frames, order)
        for one, other in zip(both_ways(ours, laid_out), expected, strict=True):
            assert one.dtype == dtype
            assert torch.equal(one, other)
        assert ours(laid_out).is_contiguous(memory_format=layout)


def test_second_derivatives_are_right_and_frames_of_broken_clips_are_refused():
    features = torch.randn(6, 8, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: temporal_shift(x.sin(), 3), features)
    with pytest.raises(ValueError, match="expected frames of whole clips of 4, got 6 frames"):
        temporal_shift(torch.zeros(6, 8), 4)


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
