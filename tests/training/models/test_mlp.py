from __future__ import annotations

import torch

from posemill.training.models.keypoints import ModelShape
from posemill.training.models.sequence import Mlp, resample_steps


def test_a_clip_is_resampled_within_its_own_length() -> None:
    steps = torch.arange(10.0).reshape(1, 10, 1)
    found = resample_steps(steps, torch.tensor([5]), 3)
    assert found.flatten().tolist() == [0, 2, 4]
    assert resample_steps(steps, torch.tensor([3]), 1).flatten().tolist() == [1]


def test_layers_are_as_wide_as_asked_for() -> None:
    model = Mlp(ModelShape(4, 2, 3), frames=5, hidden=(7, 6), dropout=0.3)
    linear = [part for part in model.layers if isinstance(part, torch.nn.Linear)]
    assert [(part.in_features, part.out_features) for part in linear] == [(40, 7), (7, 6), (6, 3)]
    dropped = [part.p for part in model.layers if isinstance(part, torch.nn.Dropout)]
    assert dropped == [0.3, 0.3]


def test_for_glosses_every_frame_is_a_step() -> None:
    model = Mlp(ModelShape(4, 2, 3, "ctc"), frames=5, hidden=(7,))
    lengths = torch.tensor([6])
    output = model(torch.zeros(1, 6, 4, 2), torch.ones(1, 6, 4) > 0, lengths)
    assert output.logits.shape == (1, 6, 3)
    assert output.lengths.tolist() == [6]
