from __future__ import annotations

import torch

from posemill.training.models import build_model
from posemill.training.models.base import CtcOutput


def make_input(num_points: int, num_dims: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    points = torch.randn(3, 9, num_points, num_dims)
    return points, torch.ones(3, 9, num_points) > 0, torch.tensor([9, 7, 1])


def test_tcn_bilstm_has_both_heads_for_ctc_and_works_without_recurrence() -> None:
    shape = {"num_points": 15, "num_dims": 2, "num_classes": 4}
    output = build_model("tcn_bilstm", task="ctc", **shape)(*make_input(15, 2))
    assert isinstance(output, CtcOutput)
    assert output.conv_logits is not None
    assert output.conv_logits.shape == output.logits.shape
    plain = build_model("tcn_bilstm", num_lstm=0, features=["points", "distances"], **shape)
    assert plain(*make_input(15, 2)).shape == (3, 4)
