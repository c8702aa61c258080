from __future__ import annotations

import torch
from torch.nn import functional as F

from posemill.training.models import build_model
from posemill.training.models.keypoints import ModelShape
from posemill.training.models.stgcn import PartSums, hops_from, partitions


def test_bones_are_told_apart_by_their_way_to_the_root() -> None:
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


def test_points_that_no_root_reaches_count_from_the_first_of_them() -> None:
    assert hops_from([2], [(0, 1), (1, 2), (3, 4), (4, 5)], 7) == [2, 1, 0, 0, 1, 2, 0]


def test_sums_over_a_part_have_no_weight_elsewhere() -> None:
    sums = PartSums(ModelShape(143, 3, 5, skeleton_name="holistic-143"), 2)
    features = torch.zeros(1, 1, 143, 4)
    features[:, :, :68] = 1.0  # the face
    found = sums(features).unflatten(2, (4, 8)).abs().sum((0, 1, 2))
    assert (found > 0).tolist() == [True] * 2 + [False] * 6, "two sums of each of four parts"


def test_classes_that_differ_only_in_which_point_moves_are_learned() -> None:
    """One point of 20 is away from the others, the class is which: pooled points forget that."""
    torch.manual_seed(0)
    model = build_model("stgcn", num_points=20, num_dims=2, num_classes=20, widths=[8], strides=[1])
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    targets = torch.arange(20).repeat(4)
    for _ in range(40):
        points = 0.1 * torch.randn(80, 3, 20, 2)
        points[torch.arange(80), :, targets] += 1.0
        logits = model(points, torch.ones(80, 3, 20) > 0, torch.full((80,), 3))
        optimizer.zero_grad()
        F.cross_entropy(logits, targets).backward()
        optimizer.step()
    assert (logits.argmax(1) == targets).float().mean() > 0.95
