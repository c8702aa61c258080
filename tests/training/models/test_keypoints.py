from __future__ import annotations

import torch

from posemill.training.models.base import ModelShape, pool_time, shorten, steps_mask
from posemill.training.models.keypoints import (
    FrameEncoder,
    features_per_point,
    point_features,
)


def test_motion_is_zero_where_one_of_the_frames_is_missing():
    points = torch.arange(4.0).reshape(1, 4, 1, 1) ** 2
    mask = torch.tensor([True, True, False, True]).reshape(1, 4, 1)
    motion = point_features(points, mask, ("motion",))
    assert motion.flatten().tolist() == [0, 1, 0, 0]
    fast = point_features(points, torch.ones(1, 4, 1) > 0, ("fast_motion",))
    assert fast.flatten().tolist() == [0, 0, 4, 8]
    one_frame = point_features(points[:, :1], mask[:, :1], ("motion", "fast_motion", "presence"))
    assert one_frame.flatten().tolist() == [0, 0, 1]


def test_a_missing_point_has_no_features():
    points = torch.ones(1, 2, 2, 3)
    mask = torch.tensor([[[True, False], [True, True]]])
    found = point_features(points, mask, ("points", "presence"))
    assert found.shape == (1, 2, 2, 4) == (1, 2, 2, features_per_point(["points", "presence"], 3))
    assert found[0, 0].tolist() == [[1, 1, 1, 1], [0, 0, 0, 0]]


def test_every_group_of_a_skeleton_has_a_network_and_the_hands_one_together():
    shape = ModelShape(143, 3, 5, skeleton_name="holistic-143")
    encoder = FrameEncoder(shape, 64, features=("points",), dropout=0.0)
    assert len(encoder.groups) == len(encoder.ranges) > 1
    covered = [point for start, stop in encoder.ranges for point in range(start, stop)]
    assert sorted(covered) == list(range(143))


def test_pooling_and_masks_stay_within_each_clip():
    lengths = torch.tensor([2, 3])
    assert steps_mask(lengths, 3).tolist() == [[True, True, False], [True, True, True]]
    features = torch.tensor([[[1.0], [3.0], [100.0]], [[1.0], [2.0], [-6.0]]])
    assert pool_time(features, lengths).tolist() == [[2, 3], [-1, 2]]
    assert shorten(torch.tensor([1, 4, 5]), 4).tolist() == [1, 1, 2]


def test_a_sign_of_the_other_hand_has_the_same_larger_half():
    torch.manual_seed(0)
    shape = ModelShape(143, 2, 5, skeleton_name="holistic-143")
    encoder = FrameEncoder(shape, 64, features=("points",), dropout=0.0)
    (left, left_end), (right, right_end) = (shape.ranges[hand] for hand in shape.hands)
    seen: list[torch.Tensor] = []
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
