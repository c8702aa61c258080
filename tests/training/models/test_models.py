import pytest
import torch
from torch.nn import functional as F

from posemill.errors import ConfigError
from posemill.training.models import MODELS_OF, build_model, input_of, time_stride_of
from posemill.training.models.base import ModelShape, pool_time, shorten, steps_mask
from posemill.training.models.keypoints import FrameEncoder, features_per_point, point_features
from posemill.training.models.sequence import resample_steps
from posemill.training.models.stgcn import partitions

LAYOUTS = [("holistic-143", 143, 3), (None, 15, 2)]


def make_input(num_points, num_dims):
    """Three clips of 9, 7 and 1 frames, some points missing."""
    torch.manual_seed(0)
    lengths = torch.tensor([9, 7, 1])
    mask = torch.rand(3, 9, num_points) > 0.2
    for row, length in enumerate(lengths):
        mask[row, length:] = False
    return torch.randn(3, 9, num_points, num_dims) * mask[..., None], mask, lengths


@pytest.mark.parametrize("task", ["classify", "ctc"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=["holistic-143", "unknown"])
@pytest.mark.parametrize("name", MODELS_OF["keypoints"])
def test_padding_and_missing_points_have_no_influence_and_every_weight_has(name, layout, task):
    skeleton, num_points, num_dims = layout
    torch.manual_seed(1)
    model = build_model(
        name, num_points=num_points, num_dims=num_dims, num_classes=5, task=task,
        skeleton_name=skeleton,
    ).eval()  # fmt: skip
    points, mask, lengths = make_input(num_points, num_dims)
    longer = F.pad(points, (0, 0, 0, 0, 0, 6))
    wild = torch.where(F.pad(mask, (0, 0, 0, 6))[..., None], longer, torch.tensor(99.0))
    one = model(points, mask, lengths)
    other = model(wild, F.pad(mask, (0, 0, 0, 6)), lengths)
    if task == "classify":
        assert one.shape == (3, 5)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        total = one.square().sum()
    else:
        stride = time_stride_of(name)
        assert one.lengths.tolist() == [-(-9 // stride), -(-7 // stride), 1]
        for row, count in enumerate(one.lengths.tolist()):
            torch.testing.assert_close(
                one.logits[row, :count], other.logits[row, :count], rtol=1e-4, atol=1e-5
            )
        heads = [one.logits, one.conv_logits] if name == "tcn_bilstm" else [one.logits]
        total = torch.stack(heads).square().sum()
    total.backward()
    assert not [key for key, weight in model.named_parameters() if weight.grad is None]


@pytest.mark.parametrize("name", ["tcn_bilstm", "stgcn", "transformer"])
def test_activation_checkpointing_gives_the_same_gradients(name):
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
def test_the_stride_is_known_before_building(name, options, stride):
    assert time_stride_of(name, **options) == stride
    model = build_model(name, num_points=4, num_dims=2, num_classes=3, task="ctc", **options)
    output = model(torch.zeros(1, 12, 4, 2), torch.ones(1, 12, 4) > 0, torch.tensor([12]))
    assert output.logits.shape[1] == output.lengths[0] == 12 // stride


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("stgnc", {}, "unknown model 'stgnc'; known: .*did you mean 'stgcn'"),
        ("tcn", {}, "unknown model 'tcn'; known: .*did you mean 'tcn_bilstm'"),
        ("mlp", {"hiden": [3]}, "model mlp has no option 'hiden'.*did you mean 'hidden'"),
        ("transformer", {"width": 10}, r"expected width a multiple of 2 \* num_heads"),
        ("stgcn", {"widths": [3]}, "stgcn: expected a stride for each width"),
        ("tcn_bilstm", {"features": ["colour"]}, r"features: expected points \| motion"),
        ("mlp", {"features": ["distances"]}, "features: expected points"),
        ("stgcn", {"features": ["colour"]}, "features: expected points"),
        ("tsm", {"shift_ordre": 1}, "model tsm has no option 'shift_ordre'; it has shift_divisor, "
         "shift_order, backbone, .*did you mean 'shift_order'"),
        ("tsn", {"shift_order": "normal"}, "model tsn has no option 'shift_order'"),
        ("tsm", {"shift_order": "back"}, r"shift_order: expected normal \| reversed"),
        ("tsm", {"backbone": "resnet81"}, "unknown backbone 'resnet81'; .*did you mean 'resnet18'"),
        ("tsm", {"width": 0}, "width: expected above 0, got 0"),
        ("tsm", {"depth": [1, 2]}, r"depth: expected blocks of four stages, got \[1, 2\]"),
        ("tsm", {"head": "mean"}, r"head: expected average \| gru \| conv, got 'mean'"),
        ("slowfast", {"task": "ctc"}, "model slowfast gives one answer a clip: task ctc needs one "
         "for every frame; use tsm"),
        ("r2plus1d", {"task": "ctc"}, "model r2plus1d gives one answer a clip: task ctc needs one"),
        ("slowfast", {"num_frames": 0}, "model slowfast takes clips of one length: sample so many "
         "frames of each, such as"),
        ("r2plus1d", {"num_frames": 0}, "model r2plus1d takes clips of one length: sample so many"),
    ],
)  # fmt: skip
def test_wrong_names_and_options_are_refused_with_the_near_one(name, options, message):
    sizes = {"num_points": 15, "num_dims": 2, "num_classes": 4, "num_frames": 8}
    with pytest.raises(ConfigError, match=message):
        build_model(name, **sizes | options)


def test_resampling_pooling_and_masks_stay_within_each_clip():
    steps = torch.arange(10.0).reshape(1, 10, 1)
    assert resample_steps(steps, torch.tensor([5]), 3).flatten().tolist() == [0, 2, 4]
    assert resample_steps(steps, torch.tensor([3]), 1).flatten().tolist() == [1]
    lengths = torch.tensor([2, 3])
    assert steps_mask(lengths, 3).tolist() == [[True, True, False], [True, True, True]]
    features = torch.tensor([[[1.0], [3.0], [100.0]], [[1.0], [2.0], [-6.0]]])
    assert pool_time(features, lengths).tolist() == [[2, 3], [-1, 2]]
    assert shorten(torch.tensor([1, 4, 5]), 4).tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("mlp", {"frames": 3}, [0.4208, 0.3177]),
        ("tcn_bilstm", {"skeleton_name": "openpose-18", "task": "ctc"}, [-0.9308, 0.5025]),
        ("tcn_bilstm", {"num_lstm": 0, "pools": (2, 1)}, [-0.3018, 0.9101]),
        ("stgcn", {"skeleton_name": "openpose-18"}, [0.1304, 0.1345]),
        ("transformer", {"features": ("points", "motion", "fast_motion")}, [-0.05958, 0.5234]),
        ("tsn", {"head": "gru"}, [-0.4102, 0.2883]),
        ("tsn", {"backbone": "resnet50", "width": 0.25, "cells": 2}, [-1.881, 0.8039]),
        ("tsm", {"head": "conv", "num_frames": 0, "shift_divisor": 4}, [0.04002, 0.5526]),
        ("tsm", {"backbone": "lite0", "shift_order": "reversed"}, [-0.005084, 0.01204]),
        ("slowfast", {"depth": (1, 2, 1, 1), "has_bottlenecks": True}, [0.0196, 0.01506]),
        ("r2plus1d", {"depth": (1, 2, 1, 1)}, [0.07354, 0.03559]),
        ("two_streams", {"keypoint_share": 0.25}, [-0.4073, 0.3447]),
    ],
)  # fmt: skip
def test_new_models_of_a_seed_say_what_they_said_before(name, options, expected):
    """The first logit and the mean size of all: who changes one changes what trainings repeat."""
    torch.manual_seed(1)
    sizes = {"num_points": 18, "num_dims": 2, "num_classes": 5, "num_frames": 8}
    model = build_model(name, **sizes | options)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout | torch.nn.MultiheadAttention):
            part.p = part.dropout = 0.0
    video = torch.randn(3, 8, 3, 32, 27), torch.full((3,), 8)
    inputs = {"keypoints": make_input(18, 2), "video": video}
    inputs = inputs.get(input_of(name), inputs.values())
    model(*inputs)  # which moves the statistics of norms
    said = model.eval()(*inputs)
    heads = [said] if isinstance(said, torch.Tensor) else [said.logits, said.conv_logits]
    logits = torch.cat([head.flatten() for head in heads if head is not None])
    assert [logits[0].item(), logits.abs().mean().item()] == pytest.approx(expected, rel=1e-3)


def test_the_order_of_frames_is_seen():
    torch.manual_seed(0)
    model = build_model("transformer", num_points=4, num_dims=2, num_classes=3, stride=1,
                        features=["points"]).eval()  # fmt: skip
    points, mask = torch.randn(1, 6, 4, 2), torch.ones(1, 6, 4) > 0
    lengths = torch.tensor([6])
    forward, backward = model(points, mask, lengths), model(points.flip(1), mask, lengths)
    assert not torch.allclose(forward, backward, atol=1e-3)
    assert torch.allclose(forward, model(points, mask, lengths))


def test_bones_are_told_apart_by_their_way_to_the_root():
    same, inward, outward = partitions(18, "openpose-18")
    assert outward[2, 3] > 0, "right shoulder to right elbow"
    assert inward[3, 2] > 0
    assert not inward[2, 3]
    assert not outward[3, 2]
    total = (same + inward + outward) > 0
    assert torch.equal(total, total.T), "every bone both ways"
    for graph in (same, inward, outward):
        rows = graph.sum(1)
        torch.testing.assert_close(rows[rows > 0], torch.ones(int((rows > 0).sum())))
    assert partitions(15, None).sum() == 0


def test_classes_that_differ_only_in_which_point_moves_are_learned():
    """One point of 20 is away from the others, the class is which: pooled points forget that."""
    torch.manual_seed(0)
    model = build_model("stgcn", num_points=20, num_dims=2, num_classes=20, widths=[8], strides=[1])
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    targets = torch.arange(20).repeat(4)
    for _ in range(25):
        points = 0.1 * torch.randn(80, 3, 20, 2)
        points[torch.arange(80), :, targets] += 1.0
        logits = model(points, torch.ones(80, 3, 20) > 0, torch.full((80,), 3))
        optimizer.zero_grad()
        F.cross_entropy(logits, targets).backward()
        optimizer.step()
    assert (logits.argmax(1) == targets).float().mean() > 0.95


def test_a_missing_point_has_no_features_and_no_motion():
    points = torch.arange(4.0).reshape(1, 4, 1, 1) ** 2
    mask = torch.tensor([True, True, False, True]).reshape(1, 4, 1)
    assert point_features(points, mask, ("motion",)).flatten().tolist() == [0, 1, 0, 0]
    fast = point_features(points, torch.ones(1, 4, 1) > 0, ("fast_motion",))
    assert fast.flatten().tolist() == [0, 0, 4, 8]
    one_frame = point_features(points[:, :1], mask[:, :1], ("motion", "fast_motion", "presence"))
    assert one_frame.flatten().tolist() == [0, 0, 1]
    points = torch.ones(1, 2, 2, 3)
    mask = torch.tensor([[[True, False], [True, True]]])
    found = point_features(points, mask, ("points", "presence"))
    assert found.shape == (1, 2, 2, 4) == (1, 2, 2, features_per_point(["points", "presence"], 3))
    assert found[0, 0].tolist() == [[1, 1, 1, 1], [0, 0, 0, 0]]


def test_every_group_of_points_has_a_network_and_a_sign_of_the_other_hand_the_same_larger_half():
    torch.manual_seed(0)
    shape = ModelShape(143, 2, 5, skeleton_name="holistic-143")
    encoder = FrameEncoder(shape, 64, features=("points",), dropout=0.0)
    assert len(encoder.groups) == len(encoder.ranges) > 1
    covered = [point for start, stop in encoder.ranges for point in range(start, stop)]
    assert sorted(covered) == list(range(143))
    (left, left_end), (right, right_end) = (shape.ranges[hand] for hand in shape.hands)
    seen = []
    encoder.join.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0][..., -32:]))
    hand = torch.randn(21, 2)
    for start, end, sign in ((left, left_end, -1.0), (right, right_end, 1.0)):
        points, mask = torch.zeros(1, 1, 143, 2), torch.zeros(1, 1, 143) > 0
        points[..., start:end, :] = hand * torch.tensor([sign, 1.0])
        mask[..., start:end] = True
        encoder(points, mask)
    torch.testing.assert_close(seen[0], seen[1])
    assert encoder.groups[shape.hands[0]] is encoder.groups[shape.hands[1]]
    assert (
        ModelShape(15, 2, 5).hands == ModelShape(18, 2, 5, skeleton_name="openpose-18").hands == ()
    )
