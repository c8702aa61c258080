from __future__ import annotations

import torch

from posemill.training.models.keypoints.stgcn import adjacency


def test_the_graph_has_the_bones_of_the_skeleton() -> None:
    graph = adjacency(18, "openpose-18")
    torch.testing.assert_close(graph.sum(1), torch.ones(18))
    assert graph[2, 3] > 0, "right shoulder to right elbow"
    assert adjacency(15, None).sum() == 0
